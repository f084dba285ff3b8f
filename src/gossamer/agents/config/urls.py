"""Addresses of sources and sinks, such as mqtt://broker/plant/pump?field=temperature&scale=0.1, and what opens them.

A kind of source or sink is a class, or any other callable, that takes a `Url` and a `Place`. The kinds of the package
are in a table; those of other packages are entry points of the groups `gossamer.sources` and `gossamer.sinks`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from gossamer import checks
from gossamer.agents import files
from gossamer.agents.config.values import check_endpoint, duration
from gossamer.errors import InvalidInput, nearest

_NO_DEFAULT: Any = ...


@dataclass(frozen=True)
class Place:
    """The agent that a source or a sink belongs to.

    Parameters
    ----------
    dimension : int
        Number of components n of an observation.
    agent, name, fleet : int, str, str
        The agent's number and name, and the name of its fleet.
    covariates : tuple of str
        Names of the covariates of the fleet's model; a row has their values and then its label. Empty if there is no
        model.
    end : str
        What to do when a command ends without an error: "fail", "restart" or "stop".
    directory : Path
        The folder of fleet.toml, to which files in addresses are relative.

    See Also
    --------
    Url : The text that names a source or a sink.
    Sink : Receives the estimates of an agent.

    Examples
    --------
    >>> gs.agents.Place(dimension=2, name="pump").fleet
    'gossamer'
    """

    dimension: int = 1
    agent: int = 0
    name: str = "agent0"
    fleet: str = "gossamer"
    covariates: tuple[str, ...] = ()
    end: str = "fail"
    directory: Path = field(default_factory=Path)

    def fill(self, text: str) -> str:
        """Return an address with the names of the agent and its fleet in the place of {name} and {fleet}."""
        return text.replace("{name}", self.name).replace("{fleet}", self.fleet) if "://" in text else text

    def secret(self, file: str) -> str:
        """Return the first line of a file that only its owner can read; raises InvalidInput otherwise."""
        return files.read_secret(self.directory / file)

    def tls(self, kind: str, *, ca: str = "", cert: str = "", key: str = "") -> ssl.SSLContext:
        """Return how a client checks a server's certificate, by default with the authorities of the system.

        The file of the client's own `key` must be private, as that of a `secret`.
        """
        used = [str(self.directory / file) for file in (ca, cert, key) if file]
        if key:
            files.check_secret(self.directory / key, "the key")
        try:
            context = ssl.create_default_context(cafile=used[0] if ca else None)
            if cert:
                context.load_cert_chain(self.directory / cert, self.directory / key)
        except OSError as error:  # ssl.SSLError is one
            named = ", ".join(used) or "the system's authorities"
            raise InvalidInput(f"{kind}: cannot use {named}: {error.strerror or error}") from None
        return context


class Url:
    """The address of a source or a sink: KIND://[USER@]HOST[:PORT]/PATH?OPTION=VALUE&..., or KIND[?OPTION=...]:REST.

    Each option is read by one of the methods; then `finish` refuses all others. Percent codes are decoded, except in
    REST; a plus sign and a number sign are themselves.

    Parameters
    ----------
    text : str
        The address, for example "mqtt://broker/plant/air?scale=0.1".

    See Also
    --------
    Place : The agent that a source or a sink belongs to.
    LiveSource : A source that a URL can name.

    Examples
    --------
    >>> url = gs.agents.Url("mqtt://broker/plant/+/air?field=temperature&scale=0.1")
    >>> url.host, url.path, url.text_of("field"), url.number("scale")
    ('broker', 'plant/+/air', 'temperature', 0.1)
    >>> url.finish()
    """

    def __init__(self, text: str) -> None:
        self.text = text
        head, _, self.rest = text.partition(":")
        self.kind, _, query = head.partition("?")
        self.user = self.host = path = ""
        self.port: int | None = None
        if self.rest.startswith("//"):
            where, _, query = self.rest[2:].partition("?")
            authority, _, path = where.partition("/")
            self._locate(authority)
        self.path = unquote(path)
        self.paths = [unquote(part) for part in path.split(",") if part]  # the parts between commas
        self._options: dict[str, str] = {}
        for part in filter(None, query.split("&")):
            name, equals, value = part.partition("=")
            if not equals or name in self._options:
                raise InvalidInput(
                    f"each option must be written once, as NAME=VALUE, got {part!r} in {text!r}"
                )
            self._options[name] = value
        self._known: set[str] = set()

    def _locate(self, authority: str) -> None:
        user, _, where = authority.rpartition("@")
        if ":" in user:
            raise InvalidInput(
                f"an address must not hold a password, which others could read, got one of {user.partition(':')[0]!r}; "
                "write it to a file that only its owner can read, and give password_file=FILE"
            )
        self.user = unquote(user)
        host, colon, port = where.rpartition(":")
        if not colon or where.endswith("]"):
            host, port = where, ""
        if where:
            check_endpoint("the host of an address", f"{host}:{port or 1}")
        self.host, self.port = host.strip("[]"), int(port) if port else None

    def text_of(self, name: str, default: str = _NO_DEFAULT, *, choices: Iterable[str] = ()) -> str:
        """Return the value of an option; without a default, it must be given."""
        self._known.add(name)
        value = self._options.get(name, default)
        value = value if value is default else unquote(value)
        if value is _NO_DEFAULT:
            raise InvalidInput(f"{self.kind}: needs the option {name}=..., got {self.text!r}")
        if choices and value != default:
            checks.choice(name, value, tuple(choices))
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an option of several texts with commas between them; a comma of a text is written as %2C."""
        self.text_of(name, "")
        return tuple(unquote(part) for part in self._options.get(name, "").split(",") if part)

    def numbers(self, name: str, default: float = _NO_DEFAULT) -> tuple[float, ...]:
        """Return an option of one or several numbers, with commas between them."""
        text = self.text_of(name, default if default is _NO_DEFAULT else repr(default))
        try:
            return tuple(checks.number(name, float(part)) for part in text.split(","))
        except ValueError:
            raise InvalidInput(
                parameter=name, required="a number, or several with commas between them", got=repr(text)
            ) from None

    def number(self, name: str, default: float = _NO_DEFAULT, **bounds: float) -> float:
        """Return an option that is a number; `bounds` are those of `checks.number`."""
        values = self.numbers(name, default)
        if len(values) > 1:
            raise InvalidInput(parameter=name, required="one number", got=self._options[name])
        return float(checks.number(name, values[0], **bounds))

    def seconds(self, name: str, default: str = _NO_DEFAULT, **bounds: float) -> float:
        """Return an option that is a time, such as 10s, in seconds; `bounds` are those of `checks.number`."""
        return float(checks.number(name, duration(name, self.text_of(name, default)), **bounds))

    def flag(self, name: str) -> bool:
        """Return an option that is true or false; by default it is false."""
        return self.text_of(name, "false", choices=("true", "false")) == "true"

    def finish(self) -> None:
        """Raise InvalidInput for an option that was not read."""
        for name in self._options:
            if name not in self._known:
                known = (
                    f"takes the options {', '.join(sorted(self._known))}"
                    if self._known
                    else "takes no options"
                )
                raise InvalidInput(f"{self.kind}: {known}, got {name!r}{nearest(name, self._known)}")


class Kind(NamedTuple):
    """A kind of source or sink: how its address is written, what it is, and the module and name that open it."""

    form: str
    text: str
    target: str
    package: str = "gossamer"


Opener = Callable[[Url, Place], Any]


def elsewhere(text: str, kinds: Mapping[str, Kind]) -> bool:
    """Return whether only a machine where another package is installed can judge an address."""
    return "://" in text and text.partition(":")[0] not in kinds


def opener(group: str, kinds: Mapping[str, Kind], url: Url) -> Opener:
    """What opens an address: of the package, or an entry point of the group; raises InvalidInput if there is none."""
    if url.kind in kinds:
        module, _, name = kinds[url.kind].target.partition(":")
        opens: Opener = getattr(import_module(module), name)
        return opens
    for point in entry_points(group=f"gossamer.{group}s", name=url.kind):
        return _load(point)
    forms = ", ".join(dict.fromkeys(kind.form for kind in kinds.values()))
    raise InvalidInput(
        parameter=group,
        required=f"one of {forms}",
        got=repr(url.text),
        hint=f"`gossamer sources` lists what is installed{nearest(url.kind, kinds)}",
    )


def _load(point: EntryPoint) -> Opener:
    try:
        opens: Opener = point.load()
    except Exception as error:  # whatever is wrong with a package of somebody else
        raise InvalidInput(
            f"{point.name}: of the package {_package(point)} cannot be loaded ({error})"
        ) from error
    return opens


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "?"


def installed(group: str, kinds: Mapping[str, Kind]) -> list[tuple[str, Kind]]:
    """Return all kinds of a group: those of the package, then those of other packages by name."""
    known = dict(kinds)
    for point in sorted(entry_points(group=f"gossamer.{group}s"), key=lambda point: point.name):
        try:
            opens = _load(point)
            form = getattr(opens, "form", f"{point.name}://...")
            text = (opens.__doc__ or "").strip().partition("\n")[0]
        except InvalidInput as error:
            form, text = f"{point.name}://...", str(error)
        known.setdefault(point.name, Kind(form, text, point.value, _package(point)))
    return list(known.items())
