"""Results of value estimation: errors in trials where the values are known, and values learned from recorded steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from gossamer import checks, plotting
from gossamer.applications.values.lstd import BATCHES, SHORTEST, Sums, standard_errors
from gossamer.arrays import AnyArray, Floats
from gossamer.engines.results import ErrorResult, ErrorRuns, OneOrMore, Rounds, Value
from gossamer.errors import InvalidInput
from gossamer.features import too_few
from gossamer.results import Record, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gossamer.applications.values.estimation import ValueEstimation
    from gossamer.plotting import Panels

STEP_ERROR = r"$E\,\sum_i\|\hat V_i-V\|_\pi^2$"
EFFECTIVE = 0.5
"""Below this effective share of steps, importance weights are worth a note."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ValueRun(ErrorResult[Rounds, Value]):
    """Simulated values; with several horizons, arrays have one more axis in front.

    total_error        mean over trials of sum_i of the squared error of the values V_i, in states as they are visited
    stderr             its standard error
    centralized_limit  the same, on the same steps, if all agents had the values of a center that holds all rewards
    over_limit_stderr  the standard error of total_error / centralized_limit
    worst              mean over trials of the largest error of any agent in any state, with its standard error
                       worst_stderr
    errors             (trials,) the sum in each trial
    per_agent          (N,) mean over trials of each agent's squared error
    tried              number of steps of which this one was chosen by its error; 0 if it was given
    values             (trials, N, S)

    Errors are distances from the values that temporal differences with these features converge to.
    """

    problem: ValueEstimation = field(compare=False)
    network: Any  #: a Network or a ChangingNetwork
    trials: int
    seed: int
    stderr: Value
    over_limit_stderr: Value
    worst: Value
    worst_stderr: Value
    errors: Floats
    per_agent: Floats
    values: Floats
    tried: int = 0

    columns = ("stderr", "over_limit_stderr", "worst", "worst_stderr", "trials")
    shown = ("rounds", "trials", "total_error", "over_limit", "over_limit_stderr", "worst", "note")

    @property
    def title(self) -> str:
        return f"{self.label} on {self.network.name}, {self.problem.size} features"

    def _notes(self, which: int) -> Iterator[str]:
        yield from super()._notes(which)
        if self.tried > 1:
            yield f"the best of {self.tried} steps, chosen by knowing the values"

    def plot(self, ax: Panels | None = None) -> Axes:
        return plotting.draw_errors(ax, self.curves(), self.title, STEP_ERROR)


class ValueRuns(ErrorRuns[ValueRun[OneOrMore, OneOrMore]]):
    """Several solvers on the same steps."""

    shown = ("method", *ValueRun.shown)
    error_name = STEP_ERROR

    @property
    def title(self) -> str:
        return f"{len(self)} methods on {self[0].network.name}, {self[0].problem.size} features"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ValueFit(Result):
    """Every agent's values after the recorded steps, with those of a center that holds all rewards.

    weights           (N, p) of the features
    center            (p,) the weights that a center would have
    average_rewards   (N,) for the average reward; NaN with a discount
    effective_share   share of the steps that weighted steps are worth: 1 on policy
    parts             number of independent steps that the steps of a trajectory are worth, in the slowest direction
    degrees_of_freedom  of Student's t, for intervals
    """

    problem: ValueEstimation = field(compare=False)
    method: object
    network: Any
    rounds: int
    episodes: int
    theta: Floats  #: (N, P)
    center_theta: Floats  #: (P,)
    sums: Sums
    spreads: Floats | None  #: (N, P, P), if agents have trajectories of their own
    degrees_of_freedom: float
    ridge: float
    offset: Floats  #: (p,) the mean features, if only differences of values are defined; else zeros
    effective_share: float
    parts: float
    seen: AnyArray = field(compare=False)

    shown = ("agent", "rounds", "mean_value", "stderr", "distance", "distance_stderr", "note")

    @property
    def label(self) -> str:
        return str(getattr(self.method, "label", getattr(self.method, "name", self.method)))

    @property
    def title(self) -> str:
        return f"{self.label} on {self.network.name}, {self.rounds} steps, {self.problem.size} features"

    @property
    def weights(self) -> Floats:
        return self.theta[:, : self.problem.size]

    @property
    def center(self) -> Floats:
        return self.center_theta[: self.problem.size]

    @property
    def average_rewards(self) -> Floats:
        return self.theta[:, -1] if self.problem.average else np.full(len(self.theta), np.nan)

    def _rows(self, states: object) -> Floats:
        return self.problem.rows(np.asarray(states)) - self.offset

    def values(self, states: object) -> Floats:
        """Return (N, M) every agent's values of M states; relative to their mean for the average reward."""
        return np.asarray(self.weights @ self._rows(states).T)

    def centralized_values(self, states: object) -> Floats:
        """Return (M,) the values of a center that holds all rewards."""
        return np.asarray(self._rows(states) @ self.center)

    @property
    def withheld(self) -> str:
        """Return why there are no standard errors, or an empty text."""
        if self.rounds < BATCHES * SHORTEST:
            return f"standard errors need {BATCHES * SHORTEST} steps, got {self.rounds}"
        return too_few(self.parts)

    def standard_errors(self, states: object) -> Floats:
        """Return (N, M) standard errors of `values`, valid for correlated steps.

        The sums over 20 batches of consecutive steps, averaged over the network like all sums, tell the variance of the
        sum of all. NaN while they are `withheld`, and for states unlike all that were seen.
        """
        rows = self._rows(states)
        if self.withheld:
            return np.full((len(self.theta), len(rows)), np.nan)
        if self.problem.average:  # the average reward is the last unknown; it is no part of a value
            rows = np.column_stack([rows, np.zeros(len(rows))])
        return standard_errors(self.sums, self.theta, rows, self.ridge, self.spreads)

    def intervals(self, states: object, level: float = 0.95) -> Floats:
        """Return (N, M, 2) confidence intervals of `values`, by Student's t."""
        level = checks.number("level", level, above=0, below=1)
        values = self.values(states)
        reach = stats.t.ppf((1 + level) / 2, self.degrees_of_freedom) * self.standard_errors(states)
        return np.stack([values - reach, values + reach], axis=-1)

    def _notes(self) -> Iterator[str]:
        if self.withheld:
            yield self.withheld
        if self.effective_share < EFFECTIVE:
            yield (
                f"off policy: by the variance of the importance weights, {self.rounds} steps are worth "
                f"{self.effective_share * self.rounds:.0f}"
            )

    def records(self) -> list[Record]:
        values, center = self.values(self.seen), self.centralized_values(self.seen)
        errors = self.standard_errors(self.seen)
        distance = np.sqrt(((values - center) ** 2).mean(axis=1))
        typical = np.sqrt((errors**2).mean(axis=1))
        note = "; ".join(self._notes())
        return [
            {
                "network": self.network.name,
                "method": self.label,
                "agent": i,
                "rounds": self.rounds,
                "episodes": self.episodes,
                "features": self.problem.size,
                "mean_value": float(values[i].mean()),
                "stderr": None if np.isnan(typical[i]) else float(typical[i]),
                "distance": float(distance[i]),
                "distance_stderr": None if np.isnan(typical[i]) else float(distance[i] / typical[i]),
                "note": note,
            }
            for i in range(len(values))
        ]

    def plot(self, ax: Panels | None = None) -> Panels:
        """Plot the agents' values of the states that were seen against those of a center."""
        axes = plotting.axes_for([self.title], ax)
        values, center = self.values(self.seen), self.centralized_values(self.seen)
        panel = axes[0]
        ends = [float(min(values.min(), center.min())), float(max(values.max(), center.max()))]
        panel.plot(ends, ends, color=plotting.GRAY, linewidth=0.8, label="centralized limit")
        panel.plot(
            np.tile(center, len(values)),
            values.ravel(),
            ".",
            color=plotting.BLUE,
            markersize=2,
            alpha=0.4,
            label=self.label,
        )
        panel.set_xlabel("value by a center with all rewards")
        panel.set_ylabel("value by each agent")
        plotting.legend(axes)
        return panel


def check_states(states: object) -> AnyArray:
    """Return a batch of states; raise an error for a single state."""
    array = np.asarray(states)
    if array.ndim == 0:
        raise InvalidInput(
            parameter="states", required="a batch of states along the first axis", got=checks.brief(states)
        )
    return array
