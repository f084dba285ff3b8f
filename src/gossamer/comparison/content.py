"""What a value is, as a digest: the same in every process and on every machine, and another after any change.

Code of the package is covered by the key's fingerprint (see `points.py`). Own code is known by the files that it stands
in: the one that defines a class or function, and those that this one uses.
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import joblib
import numpy as np

from gossamer.errors import InvalidInput
from gossamer.fingerprint import PACKAGE, imports
from gossamer.methods import Method
from gossamer.networks import Network
from gossamer.observations import Observations


def digest(*values: Any) -> str:
    """One digest of all that these values are."""
    return str(joblib.hash([_content(value) for value in values], hash_name="sha1"))


def own_modules(value: Any) -> dict[str, ModuleType]:
    """The modules of a user's own, by name, that the class of `value` and its bases come from, with all they use."""
    found: dict[str, ModuleType] = {}
    ahead = [sys.modules.get(cls.__module__) for cls in type(value).__mro__]
    if isinstance(value, FunctionType):
        ahead = [sys.modules.get(value.__module__)]
    while ahead:
        module = ahead.pop()
        if module is None or module.__name__ in found or not _is_own(module):
            continue
        found[module.__name__] = module
        ahead += _imported(module)
    return found


def _imported(module: ModuleType) -> Iterator[ModuleType | None]:
    """What a module imports, as far as it is loaded."""
    file = getattr(module, "__file__", None)
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
    """Whether a module is neither built in, nor installed, nor ours."""
    if module.__name__ == "__main__":
        return True
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in (PACKAGE, *_INSTALLED))


def _content(value: Any) -> Any:
    if isinstance(value, Network):
        matrix = value.gossip
        return matrix.shape, matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
    if isinstance(value, np.ndarray | str | int | float | complex | bytes | bool | range | None):
        return value
    if isinstance(value, Mapping):
        return [(str(key), _content(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [_content(each) for each in value]
    if isinstance(value, FunctionType):
        cells = [_content(cell.cell_contents) for cell in value.__closure__ or ()]
        return marshal.dumps(value.__code__), _sources(value), _content(value.__defaults__), cells
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


def _sources(value: Any) -> list[str]:
    """Digests of the files that own code stands in."""
    return sorted(_file_digest(module) for module in own_modules(value).values())


def _file_digest(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    if file is None:
        raise InvalidInput(
            "a store needs methods and streams whose code stands in a file, so that it notices when that changes; "
            "put classes and functions that were typed into an interpreter or notebook into a module, and import it"
        )
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
