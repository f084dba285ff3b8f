"""Errors a user can act on: what was required, what we got, what to do.

GossamerError
├── InvalidInput      (also a ValueError)  a value that cannot be used
│   ├── InvalidNetwork                     a graph or matrix that is not a valid network
│   └── InvalidRoster                      a fleet's list of members that cannot be trusted or used
├── Unsupported       an engine was asked for something it cannot do
├── MissingExtra      (also an ImportError) an optional dependency is not installed
└── OutputError       (also an OSError)    a result could not be written
"""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable
from importlib import import_module
from types import ModuleType
from typing import Self


class GossamerError(Exception):
    """Root of every error this package raises on purpose.

    An error about one parameter names it in a field. The command line and fleet.toml put the name of their flag or
    field there, and the text follows.

    Parameters
    ----------
    text : str
        What is wrong: a whole sentence, or with `parameter` the rest of a sentence that begins with its name.
    parameter : str
        The name of the parameter whose value cannot be used.
    required, got, hint : str
        Instead of `text`: what the parameter must be, the value it has as text, and what to do.

    See Also
    --------
    InvalidInput : A wrong value.
    Unsupported : A combination that does not exist.

    Examples
    --------
    >>> try:
    ...     gs.SDA(step_size=-1)
    ... except gs.GossamerError as error:
    ...     print(type(error).__name__, error.parameter)
    InvalidInput step_size
    >>> gs.GossamerError(parameter="size", required="at least 2", got="1", hint="add an agent")
    GossamerError('size must be at least 2, got 1; add an agent')
    """

    def __init__(
        self, text: str = "", *, parameter: str = "", required: str = "", got: str = "", hint: str = ""
    ) -> None:
        if required:
            text = f"must be {required}" + (f", got {got}" if got else "") + (f"; {hint}" if hint else "")
        super().__init__(text)
        self.text, self.parameter = text, parameter
        self.required, self.got, self.hint = required, got, hint

    def __str__(self) -> str:
        space = " " if self.parameter and self.text[:1] not in (":", ",") else ""
        return f"{self.parameter}{space}{self.text}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def inside(self, parent: str, fields: Container[str] = ()) -> Self:
        """Name this error by its place: `parent.field must be ...` for one of its fields, else `parent: ...`."""
        if self.parameter in fields:
            self.parameter = f"{parent}.{self.parameter}"
        else:
            self.text, self.parameter = f": {self}", parent
        return self


class InvalidInput(GossamerError, ValueError):
    """A value that cannot be used; the text says what was required and what we got.

    See Also
    --------
    InvalidNetwork : A network that does not allow averaging.
    Unsupported : A combination that does not exist.

    Examples
    --------
    >>> gs.SDA(burn_in=-1)
    Traceback (most recent call last):
    gossamer.errors.InvalidInput: burn_in must be a whole number of at least 0, got -1
    """


class InvalidNetwork(InvalidInput):
    """A graph or matrix that does not satisfy the assumptions on a network.

    See Also
    --------
    InvalidInput : Its base class.
    Network : Raises it.

    Examples
    --------
    >>> try:
    ...     gs.Network.from_edges(4, [(0, 1), (2, 3)])
    ... except gs.InvalidNetwork as error:
    ...     print("components" in str(error))
    True
    """


class InvalidRoster(InvalidInput):
    """A fleet's list of members that cannot be trusted or used."""


class Unsupported(GossamerError):
    """An engine was asked for something it cannot do; the text says what can.

    See Also
    --------
    InvalidInput : A wrong value.
    GossamerError : Its base class.

    Examples
    --------
    >>> try:
    ...     gs.exact("push-sum", "cycle:5", gs.Gaussian(np.zeros(5)), 10)
    ... except gs.Unsupported as error:
    ...     print(str(error).split(";")[-1])
     simulate it
    """


class MissingExtra(GossamerError, ImportError):
    """An optional dependency is missing; the text says how to install it.

    See Also
    --------
    GossamerError : Its base class.

    Examples
    --------
    >>> issubclass(gs.MissingExtra, gs.GossamerError)
    True
    """


class OutputError(GossamerError, OSError):
    """A result could not be written where it was asked for.

    See Also
    --------
    GossamerError : Its base class.

    Examples
    --------
    >>> issubclass(gs.OutputError, gs.GossamerError)
    True
    """


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the choice closest to `word`, or nothing."""
    close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.4)
    return f" (did you mean {close[0]!r}?)" if close else ""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(missing(module, extra)) from error


def missing(module: str, extra: str) -> str:
    """Say which extra brings a package that is not installed."""
    return f"this needs the package {module!r}, which is not installed; run: pip install 'gossamer[{extra}]'"
