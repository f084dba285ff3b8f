"""Digests of values: the same in every process and on every machine, and different after any change.

Code of the package is covered by the key's fingerprint (see `points.py`). User code is identified by its files: the one
that defines a class or function, and the files that it imports. Code from a notebook, an interpreter or standard
input has no file and is identified by its compiled code and by the globals that it uses.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import joblib
import numpy as np

from gossamer import checks
from gossamer.errors import InvalidInput
from gossamer.fingerprint import PACKAGE, imports
from gossamer.methods import Method
from gossamer.networks import Network
from gossamer.observations import Observations


def digest(*values: object) -> str:
    """Return one digest of these values."""
    return str(joblib.hash([_content(value) for value in values], hash_name="sha1"))


def own_modules(value: object) -> dict[str, ModuleType]:
    """Return the user's own modules, by name, that define the class of `value` and its bases, and those they import.

    If `value` is itself a class, a function or a module, return its own.
    """
    modules: dict[str, ModuleType] = {}
    kind = value if isinstance(value, type) else type(value)
    ahead = [sys.modules.get(cls.__module__) for cls in kind.__mro__]
    if isinstance(value, FunctionType | ModuleType):
        ahead = [value if isinstance(value, ModuleType) else sys.modules.get(value.__module__)]
    while ahead:
        module = ahead.pop()
        if module is None or module.__name__ in modules or not _is_own(module):
            continue
        modules[module.__name__] = module
        ahead += _imported(module)
    return modules


def _imported(module: ModuleType) -> Iterator[ModuleType | None]:
    """Yield what a module imports, as far as it is loaded."""
    file = _file(module)
    for node in imports(ast.parse(Path(file).read_bytes())) if file else ():
        if isinstance(node, ast.Import):
            yield from (sys.modules.get(alias.name) for alias in node.names)
        else:
            package = module.__name__.rsplit(".", node.level)[0] + "." if node.level else ""
            name = f"{package}{node.module or ''}".rstrip(".")
            yield sys.modules.get(name)
            yield from (sys.modules.get(f"{name}.{alias.name}") for alias in node.names)


_INSTALLED = [
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")
]


def _is_own(module: ModuleType) -> bool:
    """Return whether a module is user code: neither built in, nor installed, nor part of this package."""
    if module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in (PACKAGE, *_INSTALLED))


def _content(value: object) -> object:
    if isinstance(value, Network):
        matrix = value.gossip
        return matrix.shape, matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
    if isinstance(value, np.ndarray | str | int | float | complex | bytes | bool | range | None):
        return value
    if isinstance(value, Mapping):
        return [(str(key), _content(entry)) for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return [_content(entry) for entry in value]
    if isinstance(value, FunctionType):
        return _function(value, set())
    if isinstance(value, type):
        return _named(value, set())
    if isinstance(value, partial):
        return [_content(part) for part in (value.func, value.args, value.keywords)]
    if is_dataclass(value) and not isinstance(value, type):
        kept = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, Method | Observations) or own_modules(value):
        kept = {k: v for k, v in vars(value).items() if not _is_cached(type(value), k)}
    else:
        return value  # of a library: joblib takes it as it is
    return type(value).__module__, type(value).__qualname__, _sources(value), _content(kept)


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(getattr(cls, name, None), cached_property)


def _sources(value: object) -> list[object]:
    """Return digests of the files of own code, and of the classes of `value` that were typed into a notebook."""
    typed = [_typed(cls, set()) for cls in type(value).__mro__ if _is_typed(cls)]
    return [*_files(value), *typed]


def _files(value: object) -> list[str]:
    """Return digests of the files of `own_modules`."""
    files = filter(None, map(_file, own_modules(value).values()))
    return sorted(hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files)


def _file(module: ModuleType) -> str | None:
    """Return the file of a module; a script that comes from standard input has only a name for it, "<stdin>"."""
    file = getattr(module, "__file__", None)
    return file if file and Path(file).is_file() else None


def _is_typed(item: object) -> bool:
    """Return whether a class or function is user code that is in no file."""
    module = sys.modules.get(item.__module__ or "")
    return module is not None and _is_own(module) and _file(module) is None


def _function(function: FunctionType, seen: set[int]) -> object:
    """Return what identifies a function: its code, its files or the globals it uses, its defaults and its closure."""
    uses = _globals(function, seen) if _is_typed(function) else _files(function)
    cells = [_named(cell.cell_contents, seen) for cell in function.__closure__ or ()]
    defaults = (function.__defaults__, function.__kwdefaults__)
    return [_code(function.__code__), uses, _content(defaults), cells]


def _code(code: CodeType) -> list[object]:
    """Return compiled code without file names and line numbers, since cells are renumbered in every session."""
    constants = [
        _code(constant) if isinstance(constant, CodeType) else repr(sorted(map(repr, constant)))
        for constant in code.co_consts
        if isinstance(constant, CodeType | frozenset)
    ]
    plain = repr([constant for constant in code.co_consts if not isinstance(constant, CodeType | frozenset)])
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    return [code.co_code, constants, plain, names, code.co_argcount, code.co_kwonlyargcount, code.co_flags]


def _globals(function: FunctionType, seen: set[int]) -> list[object]:
    """Return the values of the globals that a typed function, or a function inside it, names."""
    values: list[object] = []
    for name in sorted(_names(function.__code__)):
        if name not in function.__globals__:
            continue
        values.append((name, _named(function.__globals__[name], seen, name)))
    return values


def _named(value: object, seen: set[int], name: str = "") -> object:
    """Return what a name in a function stands for: a class, a function, a module or a value."""
    if isinstance(value, type | FunctionType):
        return (
            _typed(value, seen) if _is_typed(value) else (value.__module__, value.__qualname__, _files(value))
        )
    if isinstance(value, ModuleType):
        return _files(value)
    return _global(name, value) if name else _content(value)


def _global(name: str, value: object) -> object:
    try:
        return joblib.hash(_content(value), hash_name="sha1")
    except Exception as error:  # any exception of a pickler or of a user's class
        raise InvalidInput(
            f"a store needs to know the values of the globals that code typed into a notebook or interpreter uses, but "
            f"{name} is {checks.brief(value)}, which cannot be pickled; put the code into a module, and import it"
        ) from error


def _names(code: CodeType) -> set[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _typed(item: type | FunctionType, seen: set[int]) -> object:
    """Return what identifies a class or function from a notebook: the code of its functions, and its attributes."""
    if id(item) in seen:
        return item.__qualname__
    seen.add(id(item))
    if isinstance(item, FunctionType):
        return joblib.hash(_function(item, seen), hash_name="sha1")
    bases = [_named(base, seen) for base in item.__bases__]
    attributes = [
        (name, _attribute(value, seen))
        for name, value in sorted(vars(item).items())
        if name not in _OF_THE_PLACE
    ]
    return joblib.hash([item.__qualname__, bases, attributes], hash_name="sha1")


_OF_THE_PLACE = {
    "__dict__",
    "__weakref__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__abstractmethods__",
    "_abc_impl",
}
"""Attributes of a class that do not affect what it does."""


def _attribute(value: object, seen: set[int]) -> object:
    functions = [value, *(getattr(value, name, None) for name in ("__func__", "fget", "func"))]
    code = [_function(function, seen) for function in functions if isinstance(function, FunctionType)]
    if code:
        return code
    if isinstance(value, type):
        return _named(value, seen)
    try:
        return joblib.hash(_content(value), hash_name="sha1")
    except Exception:  # descriptors and the like, which Python makes
        return str(type(value))
