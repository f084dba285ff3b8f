"""How a setting is declared: its description, unit, bounds or choices, and how fleets treat it, in one place.

A declaration is the metadata of a field's type, as in `dimension: Annotated[int, Declaration("...", least=1)] = 1`, in
a table of fleet.toml or in a dataclass of settings. `settings_of` reads the declarations of a class; the checks, the
comments of fleet.toml, the docstrings, the command-line help and the reference page are made from what it returns.

Help pages of the command line load this module: it must not load NumPy.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from gossamer.agents.config.values import duration
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

Kind = TypeVar("Kind", bound=type)

SECONDS = "s"
"""The unit of times: text such as "250ms" in fleet.toml, seconds everywhere else."""

REQUIRED: Any = ...
"""The default of a setting that has none."""

_DECLARED = "setting"
_COLUMNS = 110
_TOML = {"int": "integer", "bool": "boolean", "str": "string", "tuple": "array", "list": "array"}


class FileTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of fleet.toml; fields that it does not have are refused by name."""


@dataclasses.dataclass(frozen=True)
class Declaration:
    """The declaration of one setting.

    text     what it means: one or a few sentences
    unit     SECONDS for times
    above, least, below, most   bounds of a number
    choices  the words that are allowed, if only those are
    words    what is allowed instead of a number, such as "auto"
    check    called with the name and the value; raises for anything that the other fields cannot express
    agreed   all members of a fleet need the same value: its position in the fingerprint of an agent's settings
    omitted  with this value, the fingerprint may end before this setting; for settings that earlier versions lacked
    live     whether it can change while an agent runs; agreed settings cannot
    """

    text: str
    _: dataclasses.KW_ONLY
    unit: str = ""
    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    check: Callable[[str, Any], None] | None = None
    agreed: int | None = None
    omitted: Any = REQUIRED
    live: bool = True


@dataclasses.dataclass(frozen=True)
class Declared:
    """A setting as a field of a class.

    type     the type of its values, without the declaration
    default  REQUIRED if there is none
    key      its key in fleet.toml, such as "rounds.every"; empty for settings that are not in the file
    """

    name: str
    setting: Declaration
    type: Any
    default: Any
    key: str = ""

    @property
    def live(self) -> bool:
        """Whether it can change while an agent runs."""
        return self.setting.live and self.setting.agreed is None

    @cached_property
    def _checker(self) -> Callable[[str, Any], object] | None:
        from gossamer import checks

        declared, kinds = self.setting, _alternatives(self.type)
        if declared.check is not None or declared.choices:
            return declared.check or partial(checks.choice, choices=declared.choices)
        bounds: dict[str, Any] = {
            kind: getattr(declared, kind) for kind in ("above", "least", "below", "most")
        }
        bounds = {kind: bound for kind, bound in bounds.items() if bound is not None}
        if float in kinds:
            return partial(checks.number, **bounds)
        return partial(checks.whole_number, **bounds) if int in kinds else None

    @property
    def checked(self) -> bool:
        """Whether values of the right type can be wrong."""
        return self._checker is not None

    def check(self, name: str, value: object) -> None:
        """Raise for a value that is not allowed; an empty default ("", () or None) means that there is none."""
        words, checker = self.setting.words, self._checker
        if checker is None or (words and value in words) or (self._optional and _empty(value)):
            return
        checker(name, value)

    @cached_property
    def _optional(self) -> bool:
        return _empty(self.default)

    def value(self, name: str, value: Any) -> Any:
        """Return a value of fleet.toml as the settings of an agent have it: times in seconds."""
        if self.setting.unit != SECONDS or value in (*self.setting.words, ""):
            return value
        try:
            return duration(name, value)
        except InvalidInput as error:
            also = "".join(f'"{word}" or ' for word in self.setting.words)
            raise InvalidInput(parameter=name, required=f"{also}{error.required}", got=error.got) from None

    def check_text(self, name: str, value: object) -> None:
        """Raise for a value of fleet.toml that is not allowed."""
        if self.setting.unit != SECONDS:
            self.check(name, value)
        elif value != "":
            self._in_seconds.check(name, self.value(name, value))

    @cached_property
    def _in_seconds(self) -> Declared:
        return dataclasses.replace(self, type=float)

    @property
    def allowed(self) -> str:
        """A description of the values that fleet.toml may have there."""
        declared = self.setting
        if declared.choices:
            return " or ".join(f'"{word}"' for word in declared.choices)
        words = {"above": "above", "least": "at least", "below": "below", "most": "at most"}
        bounds = " and ".join(
            f"{text} {getattr(declared, kind):g}"
            for kind, text in words.items()
            if getattr(declared, kind) is not None
        )
        time = declared.unit == SECONDS
        kind = "time" if time else _words(self.type, _TOML)
        also = "".join(f'"{word}" or ' for word in declared.words)
        return f"{also}{kind}{f' {bounds}' if bounds else ''}{f' {declared.unit}' if bounds and time else ''}"


@cache
def settings_of(cls: type) -> dict[str, Declared]:
    """Return the declared fields of a dataclass or of a msgspec struct, by name."""
    hints = typing.get_type_hints(cls, include_extras=True)
    settings = {}
    for name, default, metadata in _fields(cls):
        source: Declared | None = metadata.get(_DECLARED)
        declared = source.setting if source else _annotated(hints[name])
        if declared is not None:
            settings[name] = Declared(
                name, declared, _bare(hints[name]), default, source.key if source else ""
            )
    return settings


def _fields(cls: type) -> list[tuple[str, Any, Any]]:
    """Names, defaults and metadata of the fields of a class."""
    if dataclasses.is_dataclass(cls):
        ordered = sorted(dataclasses.fields(cls), key=lambda f: bool(f.kw_only))  # as in the signature
        return [(f.name, _default(f, dataclasses.MISSING), f.metadata) for f in ordered]
    return [(f.name, _default(f, msgspec.NODEFAULT), {}) for f in msgspec.structs.fields(cls)]


def _default(field: Any, nothing: Any) -> Any:
    if field.default_factory is not nothing:
        return field.default_factory()
    return REQUIRED if field.default is nothing else field.default


def like(declared: Declared, default: Any = REQUIRED, **changes: Any) -> Any:
    """Return a dataclass field that is declared elsewhere, with its default unless another is given.

    `changes` replace fields of the declaration where the two differ.
    """
    setting = dataclasses.replace(declared.setting, **changes)
    default = declared.value(declared.key, declared.default) if default is REQUIRED else default
    return dataclasses.field(
        default=default, metadata={_DECLARED: dataclasses.replace(declared, setting=setting)}
    )


def check(settings: Any, prefix: str = "") -> None:
    """Raise for the first field of a dataclass whose value is not allowed."""
    for name, declared in _checked(settings.__class__):
        declared.check(prefix + name, getattr(settings, name))


@cache
def _checked(cls: type) -> tuple[tuple[str, Declared], ...]:
    return tuple((name, declared) for name, declared in settings_of(cls).items() if declared.checked)


def documented(cls: Kind) -> Kind:
    """Class decorator: write the declared fields into the docstring, as its numpydoc section of parameters."""
    lines = ["Parameters", "----------"]
    for name, declared in settings_of(cls).items():
        kind = _words(declared.type) + (", in seconds" if declared.setting.unit == SECONDS else "")
        if declared.default is not REQUIRED:
            simple = isinstance(declared.default, int | float | str) and declared.default != ""
            kind += f", default {declared.default!r}" if simple else ", optional"
        lines += [f"{name} : {kind}", *(f"    {line}" for line in wrapped(declared.setting.text))]
    text, mark, examples = (inspect.getdoc(cls) or "").partition("Examples\n--------\n")
    cls.__doc__ = "\n".join([text.strip(), "", *lines, "", mark + examples])
    return cls


def wrapped(text: str, columns: int = _COLUMNS) -> list[str]:
    """Lines of a description."""
    return textwrap.wrap(" ".join(text.split()), columns, break_long_words=False, break_on_hyphens=False)


def _annotated(hint: object) -> Declaration | None:
    """Return the declaration in a type."""
    return next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Declaration)), None)


def _bare(hint: Any) -> Any:
    """Return a type without its declaration."""
    return hint.__origin__ if hasattr(hint, "__metadata__") else hint


def _alternatives(hint: object) -> tuple[Any, ...]:
    """Return the members of a union; the type itself if it is none."""
    return get_args(hint) if get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, str | tuple) and not value)


def _words(hint: object, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a type in words, as in "tuple of float" or "float or None"; `names` has other names of types."""
    parts = []
    for kind in _alternatives(hint):
        arguments = [argument for argument in get_args(kind) if argument is not ...]
        name = "None" if kind is type(None) else getattr(get_origin(kind) or kind, "__name__", str(kind))
        name = names.get(name, name)
        inner = _words(arguments[0], names) if arguments else ""
        parts.append(f"{name} of {f'({inner})' if ' or ' in inner else inner}" if inner else name)
    return " or ".join(parts)
