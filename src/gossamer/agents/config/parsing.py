"""fleet.toml as text: read, and turned into a fleet with mistakes named by the field they are in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gossamer.agents import files
from gossamer.agents.config.declaration import settings_of
from gossamer.agents.config.settings import AgentSettings, Limits
from gossamer.agents.config.tables import MethodTable
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

Kind = TypeVar("Kind")

_PLACES = (
    {name: f"method.{name}" for name in ("step_size", "momentum", "smoothing", "gain")}
    | {name: declared.key for name, declared in settings_of(AgentSettings).items() if declared.key}
    | {f"limits.{name}": declared.key for name, declared in settings_of(Limits).items()}
)
"""Where fleet.toml has the fields of `AgentSettings` and of Anytime SDA."""


def parse(path: Path, kind: type[Kind], format: int) -> Kind:
    """Read a TOML file as a struct."""
    try:
        content = tomllib.loads(files.read(path))
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read ({error.strerror}); run `gossamer fleet init` to make a fleet"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} must be a valid TOML file: {error}") from None
    if content.get("format") != format:
        raise InvalidInput(f"{path}: format must be {format}, got {content.get('format')!r}")
    if isinstance(content.get("method"), dict):
        content["method"] = MethodTable.from_file(content["method"])
    _move_statistics(content)
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{path}: {_located(error, 'the file')}") from None


def table_of(name: str, content: Any, kind: type[Any]) -> Any:
    """Return the table `name` of a struct, if necessary made from a dictionary of its fields."""
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    if not isinstance(content, dict) or name not in types:
        return content
    try:
        return msgspec.convert(content, types[name])
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{name}: {_located(error, 'the table')}") from None


def _located(error: Exception, whole: str) -> str:
    """Return the field that an error of msgspec is about, and what is wrong with it."""
    problem, _, path = str(error).partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".") or whole
    return f"{field}: {_plain(problem)}"


def _move_statistics(content: dict[str, object]) -> None:
    """Move the statistics of files of the first release, which are among the observations, to their own table."""
    observations, statistics = content.get("observations"), content.setdefault("statistics", {})
    if isinstance(observations, dict) and isinstance(statistics, dict):
        for name in ("variance", "bins", "replicates"):
            if name in observations and name not in statistics:
                statistics[name] = observations.pop(name)


def _plain(problem: str) -> str:
    """Turn msgspec's sentence into ours: what was required, and what it got."""
    rules: list[tuple[str, Callable[[re.Match[str]], str]]] = [
        (r"Expected `(.+)`, got `(.+)`", lambda m: f"a value of type {m[1]} is required, got {m[2]}"),
        (
            r"Object missing required field `(.+)`",
            lambda m: f"the field {m[1]!r} is required; add it",
        ),
        (r"Object contains unknown field `(.+)`", lambda m: f"there is no field {m[1]!r}; remove it"),
    ]
    for pattern, text in rules:
        if match := re.fullmatch(pattern, problem):
            return text(match)
    return problem


@contextmanager
def named_as_in_the_file() -> Iterator[None]:
    """Let an error about settings begin with the field's key in fleet.toml."""
    try:
        yield
    except InvalidInput as error:
        error.parameter = _PLACES.get(error.parameter, error.parameter)
        raise
