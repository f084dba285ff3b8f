"""What the engines return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import InvalidInput
from gossamer.methods import Method

Array = NDArray[Any]


@dataclass(frozen=True)
class Simulation:
    """What the trials gave. With several horizons, every field has the horizons as its first axis.

    mse        mean over trials of sum_i ||estimate_i - mubar||^2
    stderr     its standard error
    errors     (trials,) the sum for each trial
    per_agent  (N,) mean over trials of each agent's squared error
    estimates  (trials, N, n)
    partial    whether the run was interrupted: then only the finished trials are here
    """

    method: Method
    rounds: Any
    trials: int
    seed: int
    mse: Any
    stderr: Any
    errors: NDArray[np.float64]
    per_agent: NDArray[np.float64]
    _estimates: Array | None
    partial: bool = False

    @property
    def estimates(self) -> Array:
        if self._estimates is None:
            raise InvalidInput("this simulation kept no estimates; call simulate(..., keep_estimates=True)")
        return self._estimates


@dataclass(frozen=True)
class FaultySimulation(Simulation):
    """What a simulation with faults found: a `Simulation` that knows who lived.

    alive   (N,) who is alive at the end; the estimates and errors of the others are NaN
    target  (n,) the average of the means of the living, against which errors are measured and summed
    """

    alive: NDArray[np.bool_] = field(kw_only=True)
    target: NDArray[np.float64] = field(kw_only=True)
