"""Simulated learning: one solver on the streams of a problem, compared with a center that has all samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossamer import checks, plotting
from gossamer.applications.likelihood.linearization import MEMORY
from gossamer.applications.likelihood.rivals import StochasticGradient
from gossamer.applications.likelihood.streaming import (
    Learned,
    average,
    average_with_faults,
    in_blocks,
    newton,
)
from gossamer.applications.solvers import Alone, Centralized
from gossamer.arrays import Floats, Integers
from gossamer.engines.horizons import horizons_of
from gossamer.engines.results import ErrorResult, ErrorRuns, OneOrMore, OverLimit, Rounds, Value
from gossamer.errors import InvalidInput, Unsupported
from gossamer.faults import Faults, FaultsLike
from gossamer.methods import AnytimeSDA, resolve
from gossamer.models import SumLayout
from gossamer.networks import ChangingNetwork

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gossamer.applications.likelihood.estimation import LikelihoodEstimation
    from gossamer.plotting import Panels

Solver = Any
"""`AnytimeSDA` or its name, or a method to compare with: DSGD, DSGT, Alone, Centralized."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LearningRun(ErrorResult[Rounds, Value]):
    """Simulated estimates of theta; with several horizons, arrays have one more axis in front.

    total_error        mean over trials of sum_i ||theta_i - theta*||^2
    stderr             its standard error
    centralized_limit  the same, on the same samples, if all agents had the estimate of a center that holds all samples
    over_limit_stderr  the standard error of total_error / centralized_limit
    errors             (trials,) the sum in each trial
    per_agent          (N,) mean over trials of each agent's squared error
    estimates          (trials, N, p)
    withheld           share of the estimates that an agent would withhold because it has too few samples; errors leave
                       them out for agents that are alone or dead
    samples            number of samples of all agents
    bytes              sent by all agents, 8 bytes per number
    """

    problem: LikelihoodEstimation = field(compare=False)
    network: Any  #: a Network or a ChangingNetwork
    trials: int
    seed: int
    stderr: Value
    over_limit_stderr: Value
    errors: Floats
    per_agent: Floats
    estimates: Floats
    withheld: Value
    samples: Value
    bytes: Value

    columns = ("stderr", "over_limit_stderr", "trials", "samples", "bytes")
    shown = ("rounds", "trials", "samples", "bytes", "total_error", "over_limit", "over_limit_stderr", "note")

    @property
    def title(self) -> str:
        return f"{self.label}, {self.problem.family.name} on {self.network.name}"

    def _notes(self, which: int) -> Iterator[str]:
        yield from super()._notes(which)
        share = float(np.atleast_1d(self.withheld)[which])
        if share > 0:
            yield (
                f"{100 * share:.2g}% of the estimates would be withheld: too few samples so far for a finite one"
            )

    def plot(self, ax: Panels | None = None) -> Axes:
        return plotting.draw_errors(ax, self.curves(), self.title, plotting.PARAMETER_ERROR)

    def curve(self, against: str = "rounds") -> plotting.Curve:
        """Return the error against "rounds", "samples" or "bytes"."""
        half = plotting.half_width(self.stderr, self.trials)
        return plotting.Curve(self.label, getattr(self, against), self.total_error, half)


class LearningRuns(ErrorRuns[LearningRun[OneOrMore, OneOrMore]]):
    """Several solvers on the same samples."""

    shown = ("method", *LearningRun.shown)
    error_name = plotting.PARAMETER_ERROR

    @property
    def title(self) -> str:
        return f"{len(self)} methods, {self[0].problem.family.name} on {self[0].network.name}"


class Conditions(NamedTuple):
    """The faults and the changing network of a run, or None."""

    faults: Faults | None
    network: ChangingNetwork | None


def learn(
    problem: LikelihoodEstimation,
    solver: Solver,
    rounds: int | Sequence[int] | Integers,
    trials: int,
    seed: int,
    faults: FaultsLike = None,
    network: ChangingNetwork | None = None,
) -> LearningRun[OneOrMore, OneOrMore]:
    """See `LikelihoodEstimation.simulate`."""
    trials, seed = checks.whole_number("trials", trials, least=1, most=2**32), checks.seed(seed)
    horizons, one = horizons_of(rounds)
    ordered, order = np.unique(horizons, return_inverse=True)
    conditions = Conditions(None if faults is None else Faults.of(faults), network)
    solver = resolve(solver) if isinstance(solver, str) else solver
    learned = _solve(problem, solver, ordered, trials, seed, conditions)
    limit = problem.centralized(tuple(ordered.tolist()), trials, seed)
    squares, limits = (_squares(problem, theta) for theta in (learned.estimates, limit))  # (H, trials, N)
    errors, limits = squares.sum(axis=2), limits.sum(axis=2)
    over = OverLimit.of(errors, limits)
    which = order[0] if one else order
    samples = ordered * int(problem.samples.sum())
    return LearningRun(
        problem=problem,
        method=solver,
        network=problem.network if network is None else network,
        agents=problem.network.agents,
        rounds=int(horizons[0]) if one else horizons,
        trials=trials,
        seed=seed,
        total_error=over.total_error[which],
        stderr=over.stderr[which],
        centralized_limit=over.centralized_limit[which],
        over_limit_stderr=over.over_limit_stderr[which],
        errors=errors[which],
        per_agent=squares.mean(axis=1)[which],
        estimates=learned.estimates[which],
        withheld=learned.withheld.mean(axis=(1, 2))[which],
        samples=samples[which],
        bytes=_sent(problem, solver, network, ordered)[which],
    )


def _solve(
    problem: LikelihoodEstimation,
    solver: Solver,
    horizons: Integers,
    trials: int,
    seed: int,
    conditions: Conditions,
) -> Learned:
    if isinstance(solver, Alone):
        return in_blocks(problem, trials, seed, newton(problem, horizons, alone=True), int(horizons[-1]))
    if isinstance(solver, Centralized):
        return in_blocks(problem, trials, seed, newton(problem, horizons), int(horizons[-1]))
    if conditions != (None, None) and not isinstance(solver, AnytimeSDA):
        raise Unsupported(
            "faults and changing networks are for AnytimeSDA, which tolerates them; stochastic gradients are simulated "
            "on reliable networks only"
        )
    if isinstance(solver, StochasticGradient):
        return solver.learned(problem, horizons, trials, seed)
    method = running_mean(solver)
    if conditions == (None, None):
        return in_blocks(problem, trials, seed, average(problem, method, horizons), MEMORY)
    network = problem.network if conditions.network is None else conditions.network
    faults = Faults() if conditions.faults is None else conditions.faults
    return average_with_faults(problem, method, network, faults, horizons, trials, seed)


def _squares(problem: LikelihoodEstimation, estimates: Floats) -> Floats:
    """Return (H, trials, N) squared errors of all estimates; missing ones (NaN) count as the mean of the others."""
    assert problem.parameter is not None
    with np.errstate(over="ignore", invalid="ignore"):
        squares = ((estimates - problem.parameter) ** 2).sum(axis=3)
        missing = np.isnan(squares)
        mean = np.where(missing, 0.0, squares).sum(axis=(1, 2)) / (~missing).sum(axis=(1, 2))
    return np.asarray(np.where(missing, mean[:, None, None], squares))


def running_mean(method: object) -> AnytimeSDA:
    """Return the method if it averages running means, otherwise raise an error that says why it must."""
    if not isinstance(method, AnytimeSDA) or method.gain is not None:
        raise InvalidInput(
            "models are learned by averaging the running means of linearized samples, which is gs.AnytimeSDA() without "
            f"a gain, got {checks.brief(method)}; the rivals are DSGD, DSGT, Alone and Centralized of gs.applications"
        )
    return method


def _sent(
    problem: LikelihoodEstimation, solver: Solver, network: ChangingNetwork | None, horizons: Integers
) -> Integers:
    """Return the bytes that agents send up to each horizon; to a center they send every sample."""
    if isinstance(solver, Alone):
        return 0 * horizons
    if isinstance(solver, Centralized):
        return 8 * int(problem.samples.sum()) * (problem.dimension + 1) * horizons
    messages = 2 * len(problem.network.edges) * horizons
    if network is not None:
        messages = 2 * network.edges_in(range(int(horizons[-1])))[0][horizons]
    if isinstance(solver, StochasticGradient):
        return 8 * solver.vectors * problem.size * messages
    return 8 * SumLayout(problem.size).components * messages
