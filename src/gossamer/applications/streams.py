"""A method that runs one round at a time: estimates are updated whenever samples arrive."""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA, Table, tabulate
from gossamer.networks import Network, NetworkLike

_OLD = 256
"""Rounds after which the coefficients of a method hardly change."""

_LONG = 30_000
"""Largest number of rounds until differences between agents vanish; networks that need more are rejected."""


class Stream:
    """Anytime SDA, one round at a time, for all agents and components at once.

    `advance(observation)` runs one round. Rows of `observation` that are NaN belong to agents without a new
    observation: they keep exchanging messages, and their mean stays the same, so agents may sample at different rates.
    As in deployed agents, the weight of an agent's newest sample replaces the method's gain.
    """

    def __init__(self, network: NetworkLike, components: int, method: AnytimeSDA | None = None) -> None:
        method = AnytimeSDA() if method is None else method
        if not isinstance(method, AnytimeSDA):
            raise InvalidInput(
                f"online estimates need the method AnytimeSDA, got {type(method).__name__}; "
                "use gs.AnytimeSDA(...) or a run of a fixed number of rounds"
            )
        self.network = network = Network.of(network)
        self.method = method
        self.rounds = 0
        self.samples = np.zeros((network.agents, 1))
        self.values: Floats = np.zeros((network.agents, components))
        self._mean = method.State._fields.index("mean")
        self._state = np.zeros((len(method.State._fields), network.agents, components))
        self._still, self._moving = self._tables(64)

    def _tables(self, rounds: int) -> tuple[Table, Table]:
        """Return the method with a gain of 0 and of 1: it is linear in the gain, so any other lies between."""
        still, moving = (tabulate(self.method, self.network, rounds, gain=gain) for gain in (0.0, 1.0))
        return still, moving

    def advance(self, observation: Floats | None = None) -> None:
        """Run one round with the newest observations (N, n), or None if no agent has a new one."""
        t = self.rounds
        if t >= self._still.rounds:
            self._still, self._moving = self._tables(2 * t)
        gain: Floats | float = 0.0
        if observation is None:
            observation = np.zeros_like(self.values)
        else:
            fresh = ~np.isnan(observation).any(axis=1, keepdims=True)
            self.samples = self.samples + fresh
            wanted = 1.0 / np.maximum(self.samples, 1)
            if self.method.gain is not None:
                wanted = np.maximum(wanted, self.method.gain)
            gain, observation = np.where(fresh, wanted, 0.0), np.nan_to_num(observation)
        rows = self._still.round(t), self._moving.round(t)
        mixed = self.network.gossip @ _between(gain, *(row.message(self._state, observation) for row in rows))
        self._state = _between(gain, *(row.step(self._state, observation, mixed) for row in rows))
        self.values = rows[0].estimate(self._state)
        self.rounds += 1

    @property
    def smoothing(self) -> float:
        """How far the last round moved the smoothed mean towards the mean."""
        smooth = self.method.State._fields.index("smooth")
        return float(self._still.step_state[self.rounds - 1, smooth, self._mean])

    def registers(self, parts: int) -> Floats:
        """Return (R, N, parts, n) all registers, as a view, for callers who add up parts of the components."""
        return self._state.reshape(*self._state.shape[:2], parts, -1)

    @property
    def own_means(self) -> Floats:
        """(N, n) the mean of each agent's own observations."""
        return np.asarray(self._state[self._mean])


def rounds_to_spread(method: AnytimeSDA, network: Network, share: float = 1e-4) -> int:
    """Return the largest number of rounds until differences between agents that start together fall to this share."""
    size = network.agents
    rng = np.random.default_rng(0)
    values = np.eye(size) if size <= 64 else rng.standard_normal((size, 64))
    away = values - values.mean(axis=0)
    stream, last = Stream(network, values.shape[1], method), 0
    for _ in range(_OLD):  # if the momentum increases with age, that of an old agent
        stream.advance(np.zeros_like(values))
    first = stream.rounds
    while stream.rounds - first < 3 * (last + 1) + 4:
        stream.advance(values)
        apart = np.linalg.norm(stream.values - values.mean(axis=0), axis=0)
        if np.any(apart > share * np.linalg.norm(away, axis=0)):
            last = stream.rounds - first
        if stream.rounds - first > _LONG:
            raise InvalidInput(
                f"differences do not vanish within {_LONG} rounds by {method} on {network.name}"
            )
    return last + 1


def _between(share: Floats | float, start: Floats, end: Floats) -> Floats:
    return start + share * (end - start)
