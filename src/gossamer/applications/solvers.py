"""What both applications share: who solves, the two yardsticks beside the network, and streams fed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.engines.exact import propagate
from gossamer.engines.horizons import check_horizons
from gossamer.engines.simulate import simulate
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA, resolve
from gossamer.methods.base import Method, Number
from gossamer.methods.table import tabulate
from gossamer.networks import Network
from gossamer.observations import Gaussian, Observations

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Alone:
    """Every agent uses its own samples and talks to nobody."""

    name: ClassVar[str] = "alone"


@dataclass(frozen=True)
class Centralised:
    """One place holds everybody's samples: the limit of what a network can reach."""

    name: ClassVar[str] = "centralised"


class _State(NamedTuple):
    mean: Number


class _Gain(NamedTuple):
    gain: Array


@dataclass(frozen=True)
class _OwnMean(Method):
    """The mean of an agent's own samples: no neighbour is heard, so that the engine that runs every method
    also gives `Alone` and `Centralised`, on the same samples."""

    name: ClassVar[str] = "own-mean"
    State: ClassVar[type[Any]] = _State

    def coefficients(self, network: Network, rounds: int) -> _Gain:
        return _Gain(1.0 / np.arange(1, rounds + 1))

    @staticmethod
    def message(c: _Gain, s: _State, y: Number) -> Number:
        return s.mean

    @staticmethod
    def step(c: _Gain, s: _State, y: Number, mixed: Number) -> _State:
        return _State(s.mean + c.gain * (y - s.mean))

    @staticmethod
    def estimate(c: _Gain, s: _State) -> Number:
        return s.mean


def averages(
    solver: Method | Alone | Centralised,
    network: Network,
    observations: Observations,
    horizons: NDArray[np.int64],
    trials: int,
    seed: int,
    first_trial: int = 0,
) -> Array:
    """(H, trials, N, n): what every agent holds as the average of all streams after each horizon."""
    method = solver if isinstance(solver, Method) else _OwnMean()
    estimates = simulate(
        method, network, observations, horizons.tolist(), trials, seed, first_trial=first_trial
    ).estimates
    if isinstance(solver, Centralised):
        estimates = np.broadcast_to(estimates.mean(axis=2, keepdims=True), estimates.shape)
    return estimates


def settled(method: Method | str, network: Network, values: Array, rounds: int) -> Array:
    """(N, n): what the agents hold after `rounds` rounds if agent i sees the same values[i] every time."""
    method = resolve(method)
    if network.spectrum is None or method.mixing != "matrix":
        return np.asarray(simulate(method, network, Gaussian(values, 0.0), rounds, trials=1).estimates[0])
    spectrum = network.spectrum
    response, _ = propagate(tabulate(method, network, rounds), spectrum.eigenvalues, np.array([rounds]))
    return np.asarray(spectrum.synthesise(response[0, :, :1] * spectrum.analyse(values)))


def horizons_of(rounds: int | Sequence[int]) -> tuple[NDArray[np.int64], bool]:
    """The horizons as an array, and whether a single one was asked for."""
    return check_horizons(rounds), np.ndim(rounds) == 0


class Stream:
    """Anytime SDA fed by hand, one round at a time, for all agents and components at once.

    `advance(values)` plays one round. Rows of `values` that are NaN belong to agents that saw nothing new: they
    go on talking, and their mean stays what it was, so agents may sample at different rates. The estimate is
    that of the deployed agents and of the simulation: the method's own functions are called.
    """

    def __init__(self, network: Network, components: int, method: AnytimeSDA | None = None) -> None:
        method = AnytimeSDA() if method is None else method
        if not isinstance(method, AnytimeSDA):
            raise InvalidInput(
                f"values that refine at any time need the method AnytimeSDA, but {type(method).__name__} came; "
                "use gs.AnytimeSDA(...) or a run of a fixed number of rounds"
            )
        self.network, self.method = network, method
        self.rounds = 0
        self.samples = np.zeros((network.agents, 1))
        zeros = np.zeros((network.agents, components))
        self._state = method.State(*(zeros for _ in method.State._fields))
        self._schedule: Any = method.coefficients(network, 64)
        self.values: Array = zeros

    def advance(self, values: Array | None = None) -> None:
        """Play one round with the newest values (N, n), or None where nobody saw anything new."""
        c = self._coefficients(self.rounds)
        own = self._state.mean
        seen = own
        if values is not None:
            fresh = ~np.isnan(values).any(axis=1, keepdims=True)
            self.samples = self.samples + fresh
            # The method divides by the number of rounds; an agent's mean divides by its number of samples.
            wanted = 1.0 / np.maximum(self.samples, 1)
            if self.method.gain is not None:
                wanted = np.maximum(wanted, self.method.gain)
            seen = np.where(fresh, own + wanted / c.gain * (np.nan_to_num(values) - own), own)
        mixed = self.network.gossip @ self.method.message(c, self._state, seen)
        self._state = self.method.step(c, self._state, seen, mixed)
        self.values = np.asarray(self.method.estimate(c, self._state))
        self.rounds += 1

    @property
    def own_means(self) -> Array:
        """(N, n) the mean of what each agent has seen itself."""
        return np.asarray(self._state.mean)

    def _coefficients(self, t: int) -> Any:
        if t >= len(self._schedule.gain):
            self._schedule = self.method.coefficients(self.network, 2 * t)
        return type(self._schedule)(*(v if np.ndim(v) == 0 else v[t] for v in self._schedule))
