"""Agents that learn values of states from transitions: least-squares temporal differences of a whole fleet.

An observation is one transition (`FleetValues`). With features phi of a state and the trace z = gamma lambda z + phi,
an agent averages

    A = mean of z (phi - gamma phi')',   b = mean of z r

over its transitions and the network, and solves A theta = b: values are phi'theta. If all agents see the same
transitions, each has A itself and only b is averaged. One more component, 2t - 1 for the t-th transition, has the
number of transitions as its mean.

Standard errors come from replicates: each adds e_k z (r - (phi - gamma phi')'theta), less the agent's own mean of it.
The standard normal numbers e_k change slowly, within t/10 transitions, because successive ones are correlated (a
multiplier bootstrap). This holds if the trajectories of agents are independent of each other, so there are no standard
errors if all agents see the same one. The last component has as its mean over transitions what share of an agent's
trajectory tells as much as one independent transition (`Succession.memory`): standard errors are withheld while it is
large.

Values are withheld, with the reason in `ValueAnswers.withheld`, while there are fewer than `ROWS` transitions per
feature, or neighbors differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from gossamer.agents.config.model import FleetValues
from gossamer.agents.statistics.layout import Answers, Layout
from gossamer.agents.statistics.readings import BadObservation, Range, short
from gossamer.agents.statistics.statistic import Box, Membership, Metric, Statistic, shown
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, Unsupported
from gossamer.features import too_few
from gossamer.least_squares import solve_square, undetermined
from gossamer.models import ROWS

MOST_STEPS = 1e9
"""Largest number of transitions that is counted."""

APART = 0.1
"""Largest difference between the values of neighbors, relative to the values, at which they are published."""

_LARGEST = 1e20
"""Largest number in a transition, because products of two are sent."""


class ValueWeights(Statistic):
    """The entries of values in addition to the weights, which are the estimate."""

    @classmethod
    def asked(cls, layout: Layout) -> Self | None:
        return cls() if isinstance(layout, ValueLayout) else None

    def entries(self, answers: Answers, count: Membership) -> dict[str, object]:
        if not isinstance(answers, ValueAnswers):
            return {}
        known: dict[str, object] = {
            "features": answers.layout.values.features,
            "steps": shown([answers.steps]),
        }
        reasons = {"withheld": answers.withheld, "errors_withheld": answers.errors_withheld}
        return known | {name: reason for name, reason in reasons.items() if reason}

    def metrics(self, answers: Answers, count: Membership) -> Iterable[Metric]:
        if isinstance(answers, ValueAnswers):
            yield Metric("steps", "Transitions of all agents in the values", (), {(): answers.steps})


@dataclass(frozen=True)
class ValueLayout(Layout):
    """The components of the averaged vector: 1, the number of transitions, A (unless it is common), b, replicates."""

    values: FleetValues = field(default_factory=FleetValues)

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        return (ValueWeights(),)

    @cached_property
    def noise(self) -> int:
        """Number of replicates."""
        return 0 if self.values.shared else self.replicates

    @cached_property
    def rights(self) -> slice:
        """Where b is; A is before it, from 2 on."""
        first = 2 + (0 if self.values.shared else self.values.size**2)
        return slice(first, first + self.values.size)

    @cached_property
    def size(self) -> int:
        return int(self.rights.stop) + self.noise * self.values.size + bool(self.noise)

    @cached_property
    def averaged(self) -> Layout:
        """The same vector as that of plain observations."""
        return Layout(self.size - 1, weighting=self.weighting, replicates=0)

    @cached_property
    def largest(self) -> float:
        return _LARGEST

    @cached_property
    def box(self) -> Box | None:
        if not self.values.rewards or self.weighting == "samples":
            return None
        values, most = self.values, np.full(self.size, np.inf)
        trace = values.largest / (1.0 - values.discount * values.trace)
        most[0], most[1] = 1.0, 2 * MOST_STEPS
        most[2 : self.rights.start] = trace * values.largest * (1.0 + values.discount)
        most[self.rights] = trace * max(map(abs, values.rewards))
        if self.noise:
            most[-1] = 1.0
        least = -most
        least[:2] = 0.0
        return least, most

    def masks(self, scale: tuple[float, ...]) -> Floats:
        masks = np.full(self.size, max(scale))
        masks[0] = 0.0
        return masks

    def read(self, vector: Floats) -> ValueAnswers:
        return ValueAnswers(self, vector[: self.size])


@dataclass(frozen=True)
class ValueAnswers(Answers):
    """The values in an averaged vector; nan while they are withheld.

    members  number of agents in the fleet; 0 if unknown
    others   the averages that neighbors hold
    matrix   (p, p) the agent's own A, if it is common
    """

    mixed: ClassVar[bool] = True
    layout: ValueLayout
    members: int = 0
    others: tuple[Floats, ...] = ()
    matrix: Floats | None = None

    @property
    def steps(self) -> float:
        """Number of transitions of all agents; of one, if all see the same."""
        layout = self.layout
        if layout.values.shared:
            return float(self._ratio[1])
        observing = self.presence if layout.weighting == "agents" else 1.0
        return float(self._ratio[1]) * observing * (self.members or 1)

    @cached_property
    def system(self) -> Floats:
        """(p, p) A."""
        size = self.layout.values.size
        if self.layout.values.shared:
            return np.zeros((size, size)) if self.matrix is None else self.matrix
        return self._ratio[2 : self.layout.rights.start].reshape(size, size)

    @cached_property
    def weights(self) -> Floats:
        """(p,) theta, whether it is withheld or not; nan if nothing has been averaged."""
        return self._solved(self.right)

    @property
    def right(self) -> Floats:
        """(p,) b."""
        return self._ratio[self.layout.rights]

    def _solved(self, right: Floats) -> Floats:
        """A^{-1} times vectors (..., p)."""
        values = self.layout.values
        if not np.isfinite(right).all() or not np.isfinite(self.system).all():
            return np.full_like(right, np.nan)
        solved = solve_square(
            self.system, right.reshape(-1, values.size).T, np.ones(values.size), values.ridge
        )
        return np.asarray(solved.T.reshape(right.shape))

    def _read(self, vector: Floats) -> ValueAnswers:
        """The answers of a neighbor that holds this vector."""
        return ValueAnswers(self.layout, vector[: self.layout.size], matrix=self.matrix)

    @cached_property
    def apart(self) -> float:
        """The largest difference between the values of a neighbor and the agent's own, relative to its values.

        In the metric of A, which is that of the values in the states that were seen, up to a factor of 1 +- gamma.
        """
        symmetric = self.system + self.system.T

        def size(weights: Floats) -> float:
            return math.sqrt(max(float(weights @ symmetric @ weights), 0.0))

        distances = [size(self._read(other).weights - self.weights) for other in self.others]
        own = size(self.weights)
        return max((distance / own if own else np.inf for distance in distances if distance), default=0.0)

    @cached_property
    def withheld(self) -> str:
        """Why there are no values; empty if there are."""
        needed = ROWS * self.layout.values.size
        if not self.presence > 0 or not np.isfinite(self.steps):
            return "no transitions have spread yet"
        if self.layout.values.shared and self.matrix is None:
            return "this agent has seen no transitions itself"
        if self.steps < needed:
            return f"{self.steps:.0f} transitions are fewer than {ROWS} for each of {self.layout.values.size} features"
        if not np.isfinite(self.weights).all():
            return "the transitions so far do not determine the values"
        if not self.apart <= APART:
            return f"neighbors differ by {self.apart:.2g} of the values, more than {APART:g}: not mixed yet"
        return ""

    @property
    def held(self) -> Floats:
        return self.mean

    @property
    def mean(self) -> Floats:
        """(p,) the weights of the features."""
        return np.full(self.layout.values.size, np.nan) if self.withheld else self.weights

    @cached_property
    def replicates(self) -> Floats:
        """(K, p) weights that vary as the estimate does."""
        shape = self.layout.noise, self.layout.values.size
        return self._solved(self._ratio[self.layout.rights.stop : -1].reshape(shape))

    @property
    def share(self) -> float:
        """What share of an agent's trajectory tells as much as one independent transition."""
        return min(max(float(self._ratio[-1]), 0.0), 1.0) if self.layout.noise else 1.0

    @property
    def errors_withheld(self) -> str:
        """Return why standard errors are withheld although values are known; empty if they are not."""
        return "" if self.withheld or not self.layout.noise else too_few(1.0 / max(self.share, 1e-12))

    @property
    def standard_error(self) -> Floats:
        if self.withheld or self.errors_withheld or not self.layout.noise:
            return np.full(self.layout.values.size, np.nan)
        error: Floats = np.sqrt(np.mean(self.replicates**2, axis=0))
        return error

    def values(self, states: object) -> tuple[Floats, Floats]:
        """Return the values of states (M, d), or (M,) numbers of a table, and their standard errors, (M,) each."""
        if self.withheld:
            raise Unsupported(f"there are no values yet: {self.withheld}; see Snapshot.withheld")
        values = self.layout.values
        given = np.asarray(states, dtype=float)
        if values.table:
            given = given.reshape(-1, 1) if given.ndim == 1 else given
        if given.ndim != 2 or given.shape[1] != values.components:
            what = "numbers of states" if values.table else f"states (M, {values.components})"
            raise InvalidInput(parameter="states", required=what, got=f"shape {given.shape}")
        rows = values.rows(given)
        if self.errors_withheld or not self.layout.noise:
            return rows @ self.weights, np.full(len(rows), np.nan)
        ones = np.ones(values.size)
        directions = solve_square(self.system.T, rows.T, ones, values.ridge)
        errors = np.sqrt(np.mean((rows @ self.replicates.T) ** 2, axis=1))
        return rows @ self.weights, np.where(
            undetermined(directions, rows.T, ones, values.ridge), np.nan, errors
        )

    def distance(self, vector: Floats) -> float:
        return float(np.abs(self._read(vector).weights - self.weights).max())

    @property
    def variance(self) -> None:
        return None

    @property
    def covariance(self) -> None:
        return None


class StepRange(Range):
    """The transitions that agents accept: whole numbers of states for a table, rewards in the range, and an end."""

    def __init__(self, values: FleetValues, *, clips: bool) -> None:
        super().__init__([values.rewards] if values.rewards else [], clips=clips)  # type: ignore[list-item]
        self._states = values.size if values.table else 0

    def admit(self, observation: Floats) -> Floats:
        if observation[-1] not in (0.0, 1.0, 2.0):
            raise BadObservation(
                "a transition must end in 0 (the episode goes on), 1 (it is over) or 2 (it was cut off), "
                f"got {short(float(observation[-1]))}"
            )
        numbers = observation[: 2 if self._states else 0]
        if not ((numbers == np.floor(numbers)) & (numbers >= 0) & (numbers <= self._states - 1)).all():
            raise BadObservation(
                f"a state must be a whole number from 0 to {self._states - 1}, got {short(numbers.tolist())}"
            )
        observation[-2:-1] = super().admit(observation[-2:-1])
        return observation

    def doubt(self, estimate: Floats, *, observed: bool) -> str:
        return ""  # weights have no range, and are withheld while unknown
