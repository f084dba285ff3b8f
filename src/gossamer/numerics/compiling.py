"""The decorators of compiled functions, with their options and the reasons for them.

Plain `fastmath` is never used: products and sums are fused only where the code says so, so that a vectorized loop, its
remainder and the same loop elsewhere give identical results. A few loops whose results are compared only within
tolerances are marked: in these LLVM may fuse (`contracted`) or also reorder sums (`reassociated`).

Functions are compiled once, which takes seconds; Numba caches the result on disk. On a terminal, a line announces it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import event
from numba.extending import overload

_Function = TypeVar("_Function", bound=Callable[..., object])

_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": False,
    "no_cfunc_wrapper": True,  # the wrapper for C callers is not needed, and takes time to compile
}


def compiled(function: _Function) -> _Function:
    """Compile with the options that every function here uses."""
    # Stated explicitly, because a function compiled on behalf of an inlined one would inherit it.
    return cast(_Function, njit(forceinline=False, **_OPTIONS)(function))


def inlined(function: _Function) -> _Function:
    """Compile like `compiled`, and have LLVM put the code into every caller, so that loops vectorize."""
    return cast(_Function, njit(forceinline=True, **_OPTIONS)(function))


def body_of(function: Callable[..., object]) -> Callable[[_Function], _Function]:
    """Decorate a function that chooses the compiled, inlined body of `function` by the types of its arguments."""
    options: Any = {"forceinline": True, **_OPTIONS}
    return cast(Callable[[_Function], _Function], overload(function, jit_options=options, strict=False))


def contracted(function: _Function) -> _Function:
    """Compile like `compiled`; LLVM may fuse products and sums."""
    return cast(_Function, njit(fastmath={"contract"}, **_OPTIONS)(function))


def reassociated(function: _Function) -> _Function:
    """Compile like `contracted`; LLVM may also reorder sums, which lets it vectorize them."""
    return cast(_Function, njit(fastmath={"contract", "reassoc", "nsz"}, **_OPTIONS)(function))


def parallel(function: _Function) -> _Function:
    """Compile with threads for the loops over `prange`."""
    return cast(_Function, njit(parallel=True, cache=True, error_model="numpy")(function))


def parallel_contracted(function: _Function) -> _Function:
    """Compile like `parallel`; LLVM may fuse products and sums."""
    return cast(
        _Function, njit(parallel=True, fastmath={"contract"}, cache=True, error_model="numpy")(function)
    )


NOTICE = "compiling for the first use; later runs start at once (`gossamer warmup` does this ahead of time)"


class _Announcer(event.Listener):  # type: ignore[misc, unused-ignore]
    """Prints NOTICE when the first function of this package is compiled, and not when it is loaded from disk."""

    def __init__(self) -> None:
        self.done = False

    def on_start(self, event: event.Event) -> None:
        ours = (
            str(event.data["dispatcher"].py_func.__module__).partition(".")[0] == __name__.partition(".")[0]
        )
        if ours and not self.done:
            self.done = True
            if sys.stderr is not None and sys.stderr.isatty():
                # A progress bar of Rich replaces sys.stderr while it is shown, so the line appears above the bar.
                print(NOTICE, file=sys.stderr, flush=True)

    def on_end(self, event: event.Event) -> None:
        pass


_announcer = _Announcer()
event.register("numba:compile", _announcer)  # type: ignore[no-untyped-call, unused-ignore]


def expect_compiling() -> None:
    """Do not announce compilation in this process: the caller has already said what it is doing."""
    _announcer.done = True
