"""Online linear estimation: every agent has an estimate at any moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.applications.streams import Stream
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.least_squares import pack, unpack
from gossamer.methods import AnytimeSDA

if TYPE_CHECKING:
    from gossamer.applications.linear.estimation import LinearEstimation


class OnlineEstimation:
    """Every agent's estimate at any moment. Each call of `observe` is one exchange with the neighbors.

    The averages of A_i'Q_i A_i and of A_i'Q_i Y_i are sent in one message and mixed with the same weights, so the
    estimates are unbiased as soon as they exist.
    """

    def __init__(self, problem: LinearEstimation, method: AnytimeSDA | None = None) -> None:
        self._problem = problem
        size = problem.dimension
        self._packed = size * (size + 1) // 2
        self._stream = Stream(problem.network, self._packed + size, method)

    @property
    def rounds(self) -> int:
        """Number of exchanges so far."""
        return self._stream.rounds

    def observe(
        self,
        measurements: Sequence[ArrayLike | None] | None = None,
        matrices: Sequence[ArrayLike] | None = None,
    ) -> None:
        """Run one round with the newest measurement of each agent (None if it has no new one), or None for no
        measurements.

        `matrices` replaces the A_i for this round, for sensors that measure something else each time; an agent's
        measurements then count equally, whatever their number of rows. Only the plain weighting allows it.
        """
        problem = self._problem
        if measurements is None:
            self._stream.advance()
            return
        agents = problem.network.agents
        measurements = checks.listed("measurements", measurements)
        if len(measurements) != agents:
            raise InvalidInput(
                f"one measurement (or None) per agent is needed: {agents}, got {len(measurements)}"
            )
        if matrices is not None and len(checks.listed("matrices", matrices)) != agents:
            raise InvalidInput(f"one matrix A_i per agent is needed: {agents}, got {len(matrices)}")
        if matrices is not None and problem.weighting != "plain":
            raise InvalidInput(
                "matrices that change need weighting='plain', because the covariances belong to fixed ones"
            )
        news = np.full((agents, self._packed + problem.dimension), np.nan)
        for i, y in enumerate(measurements):
            if y is None:
                continue
            if matrices is None:
                gram, projection = problem.grams[i], problem._projections[i]
            else:
                a = checks.array(f"A_{i}", np.atleast_2d(matrices[i]), (None, problem.dimension))
                gram, projection = a.T @ a, a.T
            value = np.atleast_1d(checks.array(f"the measurement of agent {i}", y))
            if value.shape != projection.shape[1:]:
                raise InvalidInput(
                    f"agent {i} measures {projection.shape[1]} finite numbers at a time, got {y!r}"
                )
            news[i] = np.concatenate([pack(gram), projection @ value])
        self._stream.advance(news)

    @property
    def ready(self) -> bool:
        """Return whether every agent may invert its average of A_i'A_i."""
        return self._now()[1] <= 0.5

    def _now(self) -> tuple[Floats, float]:
        """Return the agents' averages of Abar, and their distance from the average of all matrices seen so far."""
        size = self._problem.dimension
        held = unpack(self._stream.values[:, : self._packed], size)
        observed = unpack(self._stream.own_means[:, : self._packed].mean(axis=0), size)
        return held, float(margin_of(held, observed))

    def estimate(self) -> Floats:
        """Return (N, d) every agent's current estimate."""
        grams, margin = self._now()
        if margin > 0.5:
            raise InvalidInput(
                f"it is too early to invert: ||Abar^-1|| ||Ahat_i - Abar|| is {margin:.3g} after {self.rounds} rounds, "
                f"and at most 1/2 is needed; with every agent measuring, "
                f"{self._problem.gram_rounds_needed(self._stream.method)} rounds are enough"
            )
        solved = np.linalg.solve(grams, self._stream.values[:, self._packed :, None])
        return np.asarray(solved[..., 0], dtype=float)


def margin_of(held: Floats, average: Floats) -> Floats:
    """Return max_i ||Abar^{-1}|| ||Ahat_i - Abar||, which must be at most 1/2 before an agent inverts (Corollary 1)."""
    smallest = np.linalg.eigvalsh(average)[0]
    if smallest <= 0:
        return np.full(held.shape[:-3], np.inf)
    return np.asarray(np.linalg.norm(held - average, 2, axis=(-2, -1)).max(axis=-1) / smallest, dtype=float)
