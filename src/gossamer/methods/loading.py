"""Methods by name: from this package, or from the user's files."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType

from gossamer.errors import InvalidInput, nearest
from gossamer.methods import Method, resolve


def load_class(text: str, directory: Path | None = None) -> type[Method]:
    """Return the class of a method: "sda", or "my_file.py:MyMethod" with the file relative to `directory`."""
    if ".py:" not in text:
        return type(resolve(text))
    file, _, name = text.rpartition(":")
    path = Path(file) if directory is None else directory / file
    cls = getattr(load_file(path, file, "your own method is given as FILE.py:ClassName"), name, None)
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise InvalidInput(f"{file} has no class {name!r} derived from gossamer.Method")
    return cls


def load_file(path: Path, file: str, form: str) -> ModuleType:
    """Import a user's file. Errors call it `file`; `form` is the expected syntax, shown if it does not exist."""
    # A unique name in sys.modules, where dataclasses look a class's module up.
    spec = importlib.util.spec_from_file_location(f"_gossamer_methods_{path.stem}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise InvalidInput(f"{form}, but there is no file {file!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # any exception: the author of the file can fix it
        raise InvalidInput(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def parameters(kind: type[Method]) -> list[str]:
    """Return the names of a method's parameters."""
    return [field.name for field in fields(kind) if field.init] if is_dataclass(kind) else []


def build(kind: type[Method], values: Mapping[str, object]) -> Method:
    """Return the method with these parameters; an unknown one is an error that names the known ones."""
    known = parameters(kind)
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        raise InvalidInput(
            f"{kind.name} takes {', '.join(known) or 'no parameters'}, got {unknown!r}{nearest(unknown, known)}"
        )
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{kind.name} cannot be made from {dict(values)}: {error}") from error
