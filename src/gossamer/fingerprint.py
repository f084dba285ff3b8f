"""Digests of the source code that a number depends on: a module and everything it imports inside the package.

The imports are read from the source and followed from file to file, including deferred ones, so no list has to be
maintained by hand. Imports under `if TYPE_CHECKING` never run and do not count. The package's own `__init__` does not
count either: it imports names on first use, and following it would make every number depend on every file.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent


@cache
def fingerprint(module: Path) -> str:
    """Return a digest of this module's file and of all files of the package that it depends on."""
    return _tree().digest(module)


@cache
def full_version() -> str:
    """Return the version and a digest of all source files, such as 0.1.0+3f2a91bc, which identifies the build."""
    from gossamer import __version__

    digest = hashlib.sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\n" + path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:8]}"


@cache
def _tree() -> SourceTree:
    return SourceTree(PACKAGE)


class SourceTree:
    """The files of one package. Each is read and parsed once, so an object sees the files as they were then."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self._imports: dict[Path, frozenset[Path]] = {}
        self._contents: dict[Path, bytes] = {}

    def digest(self, module: Path) -> str:
        """Return a digest of the names and contents of `reachable(module)`."""
        digest = hashlib.sha256()
        for path in sorted(self.reachable(module)):
            inside = path.is_relative_to(self.package)
            name = path.relative_to(self.package).as_posix() if inside else path.name
            content = self._content(path)
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
        return digest.hexdigest()[:16]

    def reachable(self, module: Path) -> set[Path]:
        """This file and every file of the package that it imports, directly or through others."""
        files: set[Path] = set()
        ahead = [module, *self._folders_above(module)]
        while ahead:
            path = ahead.pop()
            if path in files:
                continue
            files.add(path)
            if path.suffix == ".py":
                # A module may be compiled from other files next to it (see setup.py).
                files.update(p for p in (path.with_suffix(".pyx"), path.with_suffix(".pxd")) if p.exists())
                ahead.extend(self._imported(path))
        return files

    def _content(self, path: Path) -> bytes:
        if path not in self._contents:
            self._contents[path] = path.read_bytes()
        return self._contents[path]

    def _imported(self, path: Path) -> frozenset[Path]:
        """Return the files of the package that this one imports."""
        if path not in self._imports:
            files: set[Path] = set()
            for node in imports(ast.parse(self._content(path))):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        files.update(self._import(alias.name.split(".")))
                else:
                    files.update(self._import_from(node, path))
            self._imports[path] = frozenset(files)
        return self._imports[path]

    def _import(self, parts: Sequence[str]) -> Iterator[Path]:
        """`import gossamer.a.b`; `import gossamer` alone may lead anywhere."""
        if parts[0] != self.package.name:
            return
        yield from self._modules(parts[1:])
        if len(parts) == 1:
            yield from self._names_of(self.package, ["*"])

    def _import_from(self, node: ast.ImportFrom, path: Path) -> Iterator[Path]:
        """`from gossamer.a import b`, where b may be a module or a name; `from .a import b` too."""
        parts = node.module.split(".") if node.module else []
        if node.level:
            if not path.is_relative_to(self.package):
                return
            parts = [*path.relative_to(self.package).parts[: -node.level], *parts]
        elif parts[:1] == [self.package.name]:
            parts = parts[1:]
        else:
            return
        yield from self._modules(parts)
        folder = self.package.joinpath(*parts)
        if folder.is_dir():
            yield from self._names_of(folder, [alias.name for alias in node.names])

    def _modules(self, parts: Sequence[str]) -> Iterator[Path]:
        """Yield the files of the module a.b.c and of the packages a and a.b, whose `__init__` runs first."""
        for depth in range(1, len(parts) + 1):
            base = self.package.joinpath(*parts[:depth])
            for path in (base / "__init__.py", base.with_suffix(".py")):
                if path.is_file():
                    yield path

    def _names_of(self, folder: Path, names: Sequence[str]) -> Iterator[Path]:
        """Names imported from a package: its submodules, or, if it imports names on first use, any file of it."""
        unknown = False
        for name in names:
            modules = [folder / name / "__init__.py", folder / f"{name}.py"]
            files = [path for path in modules if path.is_file()]
            yield from files
            unknown |= not files and name != "__version__"
        init = folder / "__init__.py"
        if unknown and init.is_file() and b"__getattr__" in self._content(init):
            yield from (p for p in folder.rglob("*.py") if p != self.package / "__init__.py")

    def _folders_above(self, module: Path) -> Iterator[Path]:
        """Yield the `__init__` files of the packages that a module of the package is in."""
        if module.is_relative_to(self.package):
            yield from self._modules(module.relative_to(self.package).parts[:-1])


def imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield every import that can run, including those inside functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.If) and _is_type_checking(child.test):
            for other in child.orelse:
                yield from imports(ast.Module([other], []))
        else:
            yield from imports(child)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"
