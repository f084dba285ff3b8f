"""Values that are updated with every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from gossamer import checks
from gossamer.applications.streams import Stream
from gossamer.applications.values.lstd import FREEDOM, SHORTEST, Sums, check_varied, solve, standard_errors
from gossamer.arrays import AnyArray, Floats
from gossamer.errors import InvalidInput
from gossamer.features import Succession, too_few
from gossamer.methods import AnytimeSDA

if TYPE_CHECKING:
    from gossamer.applications.values.estimation import ValueEstimation

MOST = 32
"""Number of batches of steps at which pairs of them are merged."""


class OnlineValues:
    """Every agent's values at any moment. Each call of `observe` is one exchange with the neighbors.

    If all agents see the same states, they average b alone; A is common. Values are solved for when they are asked for,
    so a step costs no more than adding to the sums.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> online = gs.ValueEstimation("cycle:3", np.eye(2), 0.5).online()
    >>> state = 0
    >>> for _ in range(500):
    ...     following = int(rng.random() < 0.5)
    ...     online.observe(state, [3.0 * state, 0.0, 0.0], following)
    ...     state = following
    >>> bool(np.allclose(online.values([0, 1]), [0.5, 1.5], atol=0.2))
    True
    """

    def __init__(
        self, problem: ValueEstimation, method: AnytimeSDA | None = None, *, errors: bool = False
    ) -> None:
        self._problem = problem
        if errors and not problem.shared:
            raise InvalidInput(
                "online standard errors are for agents that see the same states (shared=True); from_trajectories has "
                "them for agents with trajectories of their own"
            )
        self._batches = MOST if errors else 1
        self._method = method
        self._stream: Stream | None = None
        self._size = 0
        self._length, self._filled = 1, 0  # of a batch, and steps in the newest
        self._newest = 0
        self._first, self._varied, self._rewarded = np.empty(0), False, False
        self._decay = np.empty(0)

    @property
    def rounds(self) -> int:
        """Number of steps so far."""
        return 0 if self._stream is None else self._stream.rounds

    def _start(self, size: int) -> Stream:
        problem = self._problem
        self._size = size + problem.average
        walkers = 1 if problem.shared else problem.network.agents
        self._traces = np.zeros((walkers, self._size))
        self._decay = np.zeros(walkers)
        self._squares = np.zeros(self._size)
        self._sums = np.zeros((self._batches, self._size, self._size))  # of z d', by batch
        self._total = np.zeros((self._size, self._size))
        self._smooth = np.zeros((self._size, self._size))
        self._mean_features = np.zeros(size)
        self._succession, self._before = Succession(size + 1), np.empty((0, size + 1))
        self._going = 0.0  # decays of the trace
        own = self._size**2 if not problem.shared else 0
        return Stream(problem.network, self._batches * self._size + own, self._method)

    def observe(
        self,
        state: object,
        rewards: object,
        next_state: object,
        terminated: object = False,
        truncated: object = False,
        *,
        importance: object = 1.0,
    ) -> None:
        """Run one round with a step of the environment.

        state, next_state  one state, or one for each agent if they have environments of their own (shared=False)
        rewards            (N,), NaN for agents that missed theirs
        terminated         whether the episode is over (for each agent, if shared=False)
        truncated          whether it was cut off, so that the next call begins another one
        importance         probability of the action by the policy to evaluate, divided by that of the policy that acted
        """
        problem, agents = self._problem, self._problem.network.agents
        got = self._rewards(rewards, agents)
        walkers = 1 if problem.shared else agents
        phi, following = (
            self._features(name, s) for name, s in (("state", state), ("next_state", next_state))
        )
        flags = ("terminated", terminated), ("truncated", truncated)
        over, cut = (_per_walker(name, flag, walkers).astype(bool) for name, flag in flags)
        ratios = _per_walker("importance", importance, walkers)
        if ratios.min() < 0:
            raise InvalidInput(parameter="importance", required="at least 0", got=f"{ratios.min():g}")
        if problem.average and over.any():
            raise InvalidInput("the average reward is for processes that go on forever; use a discount")
        if self._stream is None:
            self._stream = self._start(phi.shape[1])
            self._first = phi[0]
        self._varied = self._varied or bool((phi != self._first).any())
        self._rewarded = self._rewarded or bool(np.isfinite(got).any())
        stream, size, t = self._stream, phi.shape[1], self._stream.rounds
        self._traces[:, :size] = self._decay[:, None] * self._traces[:, :size] + phi
        differences = phi - (problem.discount * ratios * ~over)[:, None] * following
        if problem.average:
            self._traces[:, size] = 1.0
            differences = np.column_stack([differences, ratios])
        self._decay = np.where(over | cut, 0.0, problem.discount * problem.trace * ratios)
        self._squares += ((self._traces**2).mean(axis=0) - self._squares) / (t + 1)
        self._mean_features += (phi.mean(axis=0) - self._mean_features) / (t + 1)
        added = self._traces * (ratios * got)[:, None]
        if problem.shared:
            observation = np.zeros((agents, self._batches, self._size))
            observation[np.isnan(got)] = np.nan
            self._next_batch()
            product = np.outer(self._traces[0], differences[0])
            self._sums[self._newest] += product
            self._total += product
            observation[:, self._newest] = added
            if self._batches > 1:
                reward = np.nanmean(got) if np.isfinite(got).any() else 0.0
                now = np.append(phi, [[reward]], axis=1)
                self._succession.add(np.append(self._before, now, axis=0))
                self._before = now
                self._going += float(self._decay[0])
            stream.advance(observation.reshape(agents, -1))
            self._smooth += stream.smoothing * (self._total / (t + 1) - self._smooth)
        else:
            products = self._traces[:, :, None] * differences[:, None, :]
            stream.advance(np.column_stack([products.reshape(agents, -1), added]))

    def _next_batch(self) -> None:
        """Begin a new batch where the newest one is full; when there are too many, merge pairs of them."""
        if self._batches == 1:
            return
        if self._filled == self._length:
            self._newest, self._filled = self._newest + 1, 0
        if self._newest == self._batches:
            assert self._stream is not None
            half = self._batches // 2
            for sums, axis in ((self._sums, 0), (self._stream.registers(self._batches), 2)):
                moved = np.moveaxis(sums, axis, 0)
                moved[:half] = moved[::2] + moved[1::2]
                moved[half:] = 0.0
            self._newest, self._length = half, 2 * self._length
        self._filled += 1

    def _rewards(self, rewards: object, agents: int) -> Floats:
        try:
            got = np.asarray(rewards, dtype=float)
        except (TypeError, ValueError):
            got = np.empty(0)
        if got.shape != (agents,) or np.isinf(got).any():
            raise InvalidInput(
                parameter="rewards",
                required=f"one finite number for each of {agents} agents, or NaN where it was missed",
                got=checks.brief(rewards),
            )
        return got

    def _features(self, name: str, state: object) -> Floats:
        """(walkers, p)"""
        states = np.asarray(state)[None] if self._problem.shared else np.asarray(state)
        if not self._problem.shared and (states.ndim == 0 or len(states) != self._problem.network.agents):
            raise InvalidInput(
                parameter=name,
                required=f"one state for each of {self._problem.network.agents} agents, because shared=False",
                got=checks.brief(state),
            )
        unfitted = hasattr(self._problem.features, "fit")
        if unfitted and self.rounds == 0 and getattr(self._problem.features, "scale", True) is None:
            raise InvalidInput(
                "need a scale, which one step does not tell; call features.fit(observations) with some first",
                parameter="features",
            )
        return self._problem.rows(states)

    def _now(self) -> tuple[Sums, Floats, float]:
        if self._stream is None:
            raise InvalidInput("there are no values before the first step; call observe() first")
        if not self._rewarded:
            raise InvalidInput(
                "there are no values before the first reward: all agents missed theirs in all steps"
            )
        if self.rounds > 1 and not self._varied:
            check_varied(np.repeat(self._first[None], self.rounds, axis=0))
        problem, held, size = self._problem, self._stream.values, self._size
        scale = np.sqrt(self._squares)
        ridge = problem.ridge_for(self.rounds * len(self._traces))
        if not problem.shared:
            matrices = held[:, : size * size].reshape(1, -1, size, size)
            sums = Sums(matrices, held[None, :, size * size :], scale)
        else:
            used = self._newest + 1
            matrices = self._sums[:used] / self.rounds
            matrices[-1] += self._smooth - matrices.sum(axis=0)  # A lags behind as b does, by a few steps
            rights = np.moveaxis(held.reshape(len(held), self._batches, size), 1, 0)[:used]
            sums = Sums(matrices, rights, scale)
        return sums, solve(sums, ridge), ridge

    def _directions(self, states: object) -> Floats:
        rows = self._problem.rows(np.asarray(states))
        return rows - self._mean_features if self._problem.average else rows

    @property
    def weights(self) -> Floats:
        """(N, p) every agent's current weights of the features."""
        return self._now()[1][:, : self._size - self._problem.average]

    def values(self, states: object) -> Floats:
        """Return (N, M) every agent's current values of M states."""
        return np.asarray(self.weights @ self._directions(states).T)

    @property
    def withheld(self) -> str:
        """Return why there are no standard errors, or an empty text."""
        if self._batches == 1:
            return "standard errors need online(errors=True)"
        if self._length < SHORTEST:
            return f"standard errors need {MOST * SHORTEST // 2} steps, got {self.rounds}"
        decay = self._going / self.rounds
        slowest = max(self._succession.memory, (1 + decay) / (1 - decay))
        return too_few(self.rounds / slowest)

    def standard_errors(self, states: object) -> Floats:
        """Return (N, M) standard errors of `values`; NaN while `withheld`, and for states unlike those seen."""
        if self._batches == 1:
            raise InvalidInput(self.withheld)
        rows = self._directions(states)
        sums, theta, ridge = self._now()
        if self.withheld:
            return np.full((len(theta), len(rows)), np.nan)
        if self._filled < self._length:  # the newest batch is shorter than the others
            matrices, rights = (
                np.concatenate([part[:-2], part[-2:].sum(axis=0, keepdims=True)]) for part in sums[:2]
            )
            sums = Sums(matrices, rights, sums.scale)
        if self._problem.average:
            rows = np.column_stack([rows, np.zeros(len(rows))])
        return standard_errors(sums, theta, rows, ridge)

    def intervals(self, states: object, level: float = 0.95) -> Floats:
        """Return (N, M, 2) confidence intervals of `values`, by Student's t."""
        level = checks.number("level", level, above=0, below=1)
        errors, values = self.standard_errors(states), self.values(states)
        reach = stats.t.ppf((1 + level) / 2, FREEDOM) * errors
        return np.stack([values - reach, values + reach], axis=-1)


def _per_walker(name: str, value: object, walkers: int) -> AnyArray:
    array = checks.array(name, value)
    if array.shape not in ((), (walkers,)):
        raise InvalidInput(
            parameter=name,
            required="one value" if walkers == 1 else f"one value, or one for each of {walkers} agents",
            got=f"shape {array.shape}",
        )
    return np.broadcast_to(array, (walkers,))
