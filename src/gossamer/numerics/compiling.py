"""The decorators of compiled functions, in one place: which options every loop is compiled with, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "boundscheck": False}


def compiled(function: _Function) -> _Function:
    """Compile with the options that every function here uses."""
    # Said aloud, because a function compiled on behalf of an inlined one would inherit it.
    return cast(_Function, njit(forceinline=False, **_OPTIONS)(function))


def inlined(function: _Function) -> _Function:
    """Compile like `compiled`, and have LLVM put the code into every caller, so that loops vectorise."""
    return cast(_Function, njit(forceinline=True, **_OPTIONS)(function))


def parallel(function: _Function) -> _Function:
    """Compile like `compiled`, with threads for the loops over `prange`."""
    return cast(_Function, njit(parallel=True, cache=True, error_model="numpy")(function))
