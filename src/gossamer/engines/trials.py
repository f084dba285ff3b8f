"""The common part of all simulations: the trials, what is kept of them, a progress bar, and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gossamer import checks
from gossamer.arrays import AnyArray, Booleans, Precision
from gossamer.errors import InvalidInput
from gossamer.methods import Method
from gossamer.progress import progress_bar

KEEP = ("errors", "estimates", "iterates")
"""The choices of what a simulation keeps of every trial, from least to most."""

MOST_BYTES = 2**32
"""Largest size of the iterates of a run, in bytes."""

LONG = 5 * 10**8
"""Number of updates from which a run shows a progress bar on a terminal."""

Advance = Callable[[int], None]
"""Called with the number of updates done since the last call."""


@dataclass(frozen=True)
class Trials:
    """Trials first .. first + count - 1 with a seed, and what is kept of them (one of `KEEP`)."""

    count: int
    seed: int
    first: int
    keep: str

    @classmethod
    def check(cls, count: object, seed: object, first: object, keep: object) -> Trials:
        trials = checks.whole_number("trials", count, least=1)
        start = checks.whole_number("first_trial", first, least=0)
        if start + trials > 2**32:
            raise InvalidInput(parameter="trials", required="numbered below 2^32", got=f"{start} + {trials}")
        return cls(trials, checks.seed(seed), start, checks.choice("keep", keep, KEEP))

    def iterates(self, method: Method, rounds: int, shape: tuple[int, int], dtype: Precision) -> AnyArray:
        """Return an array (registers and estimate, trials, rounds, N, n), which is empty unless iterates are kept."""
        if self.keep != "iterates":
            return np.empty((0, self.count, rounds, *shape), dtype)
        size = len(method.State._fields) + 1
        room = size * self.count * rounds * shape[0] * shape[1] * np.dtype(dtype).itemsize
        if room > MOST_BYTES:
            raise InvalidInput(
                f"keep='iterates' must fit into {MOST_BYTES / 2**30:g} GiB, but {size} numbers for each of "
                f"{self.count} trials, {rounds} rounds, {shape[0]} agents and {shape[1]} components take "
                f"{room / 2**30:.3g} GiB; run fewer trials at a time (continue with first_trial), fewer "
                "rounds, or keep='estimates' with the rounds that matter as several horizons"
            )
        return np.empty((size, self.count, rounds, *shape), dtype)


def by_name(method: Method, iterates: AnyArray) -> dict[str, AnyArray] | None:
    """Return iterates by the names of the method's registers and "estimate", or None if none are kept."""
    return dict(zip((*method.State._fields, "estimate"), iterates, strict=True)) if len(iterates) else None


class Interruptible(Protocol):
    """A run that fills its results as it goes."""

    @property
    def work(self) -> int:
        """Total number of updates."""

    @property
    def done(self) -> Booleans:
        """(trials,) which trials are finished at all horizons."""

    def go(self, advance: Advance) -> None: ...


def finish(run: Interruptible, progress: bool | None) -> bool:
    """Run the trials; return whether Ctrl-C interrupted them. An interruption before any trial is finished is
    re-raised."""
    with progress_bar(progress, "simulating", run.work, worth_it=run.work > LONG) as advance:
        try:
            run.go(advance)
        except KeyboardInterrupt:
            if not run.done.any():
                raise
            return True
    return False
