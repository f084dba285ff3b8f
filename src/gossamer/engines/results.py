"""Results of the engines. For one horizon every field is a number; for several, the horizons are its first axis.

Three names for one error, the same in every result, table, file and plot:

    total_error   E sum_i ||estimate_i - mubar||^2, the paper's error
    mse           its mean over the agents
    over_limit    total_error divided by that of a center that holds all samples (one per agent and round); 1 is perfect
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from gossamer import plotting, theory
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods import Method
from gossamer.networks import Network
from gossamer.observations import Observations, fourth_moment_note
from gossamer.results import Record, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gossamer.dashboard.animation import Animation

DIVERGES = "diverges: with these parameters its error is not a finite number"

Rounds = TypeVar("Rounds", int, Integers)
"""One horizon, or an array of them."""

Value = TypeVar("Value", float, Floats)
"""A number for one horizon, an array with one entry per horizon for several."""

OneOrMore: TypeAlias = Any
"""`Rounds` or a `Value` of an engine where an argument's value, not its type, decides whether it is one number."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ErrorResult(Result, Generic[Rounds, Value]):
    """An error after some rounds, in its three forms.

    agents             number of agents in the total
    centralized_limit  the total error of a center that holds all samples
    """

    method: object
    network: Network
    rounds: Rounds
    total_error: Value
    centralized_limit: Value
    agents: int | Integers

    columns: ClassVar[tuple[str, ...]] = ()
    """The fields that `records` lists in addition to the error."""

    shown: ClassVar[Sequence[str]] = ("rounds", "total_error", "over_limit", "note")

    @property
    def label(self) -> str:
        """The name of the method."""
        return str(getattr(self.method, "label", getattr(self.method, "name", self.method)))

    @property
    def title(self) -> str:
        return f"{self.label} on {self.network.name}"

    @property
    def mse(self) -> Value:
        """The mean over the agents of their squared errors."""
        return self.total_error / self.agents  # type: ignore[return-value]

    @property
    def over_limit(self) -> Value:
        """The total error as a multiple of the centralized limit; infinite where that is 0."""
        return over_limit(self.total_error, self.centralized_limit)

    def records(self) -> list[Record]:
        horizons = np.atleast_1d(self.rounds)
        names = (
            "rounds",
            "agents",
            "total_error",
            *self.columns,
            "mse",
            "centralized_limit",
            "over_limit",
        )
        values = [np.broadcast_to(getattr(self, name), horizons.shape).tolist() for name in names]
        return [
            {
                "network": self.network.name,
                "method": self.label,
                **dict(zip(names, row, strict=True)),
                "note": "; ".join(self._notes(k)),
            }
            for k, row in enumerate(zip(*values, strict=True))
        ]

    def _notes(self, which: int) -> Iterator[str]:
        """Return the caveats for the row of this horizon."""
        if not np.isfinite(np.atleast_1d(self.total_error)[which]):
            yield DIVERGES

    def curves(self) -> list[plotting.Curve]:
        """Return the curves of `plot`: the error, then its reference values."""
        stderr = getattr(self, "stderr", None)
        half = None if stderr is None else plotting.half_width(stderr, self.trials)  # type: ignore[attr-defined]
        return [
            plotting.Curve(self.label, self.rounds, self.total_error, half),
            plotting.Curve("centralized limit", self.rounds, self.centralized_limit, limit=True),
        ]

    def plot(self, ax: plotting.Panels | None = None) -> Axes:
        return plotting.draw_errors(ax, self.curves(), self.title)


Run = TypeVar("Run", bound=ErrorResult[OneOrMore, OneOrMore])


class ErrorRuns(list[Run], Result):
    """Several solvers on the same samples; `error_name` is the label of their errors in plots."""

    error_name: ClassVar[str]
    __repr__ = Result.__repr__

    def records(self) -> list[Record]:
        return [record for run in self for record in run.records()]

    def plot(self, ax: plotting.Panels | None = None) -> plotting.Panels:
        """Plot the errors against rounds, and the centralized limit."""
        curves = [*(run.curves()[0] for run in self), self[0].curves()[1]]
        return plotting.draw_errors(ax, curves, self.title, self.error_name)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StreamResult(ErrorResult[Rounds, Value]):
    """The error of averaging `observations`, with the limit of any method on this network."""

    method: Method
    observations: Observations

    @cached_property
    def network_limit(self) -> Value:
        """The least variance of unbiased estimates on this network; NaN if unknown."""
        limit: Value = network_limit_if_known(self.network, self.observations, self.rounds)
        return limit

    lossless: ClassVar[bool] = True
    """Whether every message arrives, so that the network limit applies."""

    def curves(self) -> list[plotting.Curve]:
        curves = super().curves()
        if self.lossless and np.isfinite(np.atleast_1d(self.network_limit)).any():
            curves.append(plotting.Curve("network limit", self.rounds, self.network_limit, limit=True))
        return curves


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TrialResult(StreamResult[Rounds, Value]):
    """Results of trials. With several horizons, every array has the horizons as its first axis.

    total_error  mean over trials of sum_i ||estimate_i - mubar||^2
    stderr       its standard error
    errors       (trials,) the sum for each trial
    per_agent    (N,) mean over trials of each agent's squared error
    estimates    (trials, N, n)
    iterates     "estimate" and the name of each of the method's registers: (trials, T, N, n), the values after rounds
                 1..T; with several horizons, those of the run of the largest one, without a first axis of horizons
    partial      whether the run was interrupted, in which case only the finished trials are included
    """

    trials: int
    seed: int
    stderr: Value
    errors: Floats
    per_agent: Floats
    kept_estimates: AnyArray | None
    kept_iterates: dict[str, AnyArray] | None = None
    partial: bool = False

    columns: ClassVar[tuple[str, ...]] = ("stderr", "trials")
    shown: ClassVar[Sequence[str]] = ("rounds", "trials", "total_error", "stderr", "over_limit", "note")

    @property
    def estimates(self) -> AnyArray:
        if self.kept_estimates is None:
            raise InvalidInput("this simulation kept no estimates; call simulate(..., keep='estimates')")
        return self.kept_estimates

    @property
    def iterates(self) -> Mapping[str, AnyArray]:
        if self.kept_iterates is None:
            raise InvalidInput("this simulation kept no iterates; call simulate(..., keep='iterates')")
        return MappingProxyType(self.kept_iterates)

    def animate(self, *, trial: int = 0, component: int = 0, title: str | None = None) -> Animation:
        """Return one trial as an animation: the agents' answers on their network, and the error below them.

        The simulation must have kept its iterates: `gs.simulate(..., keep="iterates")`.

        Parameters
        ----------
        trial : int
            Number of the trial, from 0.
        component : int
            The component of the estimates that colors show; errors are those of all components.
        title : str, optional
            Heading; by default the method and the network.

        Returns
        -------
        Animation
            Notebooks show it as an interactive page; its method `save` writes a page or a video.
        """
        animation = import_module("gossamer.dashboard.animation")  # a higher layer, imported only on demand
        shown: Animation = animation.Animation(self, trial=trial, component=component, title=title)
        return shown

    def _notes(self, which: int) -> Iterator[str]:
        yield from super()._notes(which)
        if self.partial:
            yield f"interrupted: {self.trials} trials were finished"
        if heavy := fourth_moment_note(self.observations):
            yield heavy


def over_limit(total_error: Value, limit: Value) -> Value:
    """Return `total_error` as a multiple of `limit`; infinite where that is 0."""
    safe = np.where(np.equal(limit, 0), 1.0, limit)
    ratio = np.where(np.equal(limit, 0), np.inf, np.divide(total_error, safe))
    return ratio if ratio.ndim else float(ratio)  # type: ignore[return-value, unused-ignore]


def network_limit_if_known(network: Network, observations: Observations, rounds: OneOrMore) -> OneOrMore:
    """Return `theory.network_limit` for one horizon or several, or NaN where it cannot be computed."""
    try:
        return theory.network_limit(network, observations, rounds)
    except Unsupported:
        return np.full(np.shape(rounds), np.nan)[()]


def spread_out(first: int, last: int) -> Integers:
    """Return about 60 horizons from first to last, evenly spaced on a log scale: enough for a curve."""
    return np.unique(np.geomspace(first, last, 60).round().astype(np.int64))


def standard_error(errors: Floats, axis: int = -1) -> Floats:
    """Return the standard error of the mean over trials; NaN for a single one."""
    trials = errors.shape[axis]
    if trials < 2:
        return np.full_like(errors.mean(axis=axis), np.nan)
    return np.asarray(errors.std(axis=axis, ddof=1) / np.sqrt(trials))


class OverLimit(NamedTuple):
    """Mean errors (H,) next to those of a center on the same samples: each with its standard error over trials."""

    total_error: Floats
    stderr: Floats
    centralized_limit: Floats
    over_limit_stderr: Floats

    @classmethod
    def of(cls, errors: Floats, limits: Floats) -> OverLimit:
        """Compute them from the errors (H, trials) of each trial; a run that has diverged has no standard error."""
        mean, limit = errors.mean(axis=1), limits.mean(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            residuals = errors - (mean / limit)[:, None] * limits
            return cls(mean, standard_error(errors), limit, standard_error(residuals) / limit)
