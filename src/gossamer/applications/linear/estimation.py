"""Distributed linear parameter estimation: every sensor of a network learns beta* from the measurements of all sensors.

Sensor i measures Y_{i,t} = A_i beta* + noise of covariance S_i. With weights Q_i = I, or Q_i = S_i^{-1} for the
precision-weighted form (which equals generalized least squares),

    Abar = mean of A_i'Q_i A_i,   mubar = mean of A_i'Q_i E[Y_i],   beta* = Abar^{-1} mubar,

and the network averages both. Two facts make this cheap and exact: with Abar known, Abar^{-1} A_i'Q_i Y_i is a stream
whose average is beta*, so the exact engine gives the expected error of any method; and a method that averages A_i'Q_i
A_i with the same weights as A_i'Q_i Y_i makes no error in the mean at all, because then E muhat_i = Ahat_i beta*
(`gram="same"`, the default).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks, plotting, theory
from gossamer.applications.linear.dealing import deal
from gossamer.applications.linear.online import OnlineEstimation, margin_of
from gossamer.applications.linear.rivals import KarMoura, XiaoBoydLall
from gossamer.applications.linear.sensors import (
    check_covariances,
    check_matrices,
    check_observable,
)
from gossamer.applications.solvers import Alone, Centralized, averages, settled
from gossamer.arrays import Floats, Integers, extent
from gossamer.engines.exact import Exact, exact
from gossamer.engines.horizons import check_horizons, horizons_of
from gossamer.engines.results import ErrorResult, OneOrMore, Rounds, Value, standard_error
from gossamer.errors import InvalidInput, Unsupported
from gossamer.least_squares import pack, unpack
from gossamer.methods import AnytimeSDA, Method, resolve
from gossamer.networks import Network, NetworkLike
from gossamer.numerics.search import first_true
from gossamer.observations import Gaussian

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gossamer.plotting import Panels

Solver = Any
"""A method or its name, or one of the baselines: KarMoura, XiaoBoydLall, Alone, Centralized."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EstimationRun(ErrorResult[Rounds, Value]):
    """Simulated estimates of beta*; with several horizons, arrays have one more axis in front.

    total_error  mean over trials of sum_i ||beta_i - beta*||^2
    stderr       its standard error
    errors       (trials,) that sum in each trial
    per_agent    (N,) mean over trials of each agent's squared error
    estimates    (trials, N, d)
    reasons      for each horizon why it is too early for an error; "" if it has one
    """

    trials: int
    seed: int
    stderr: Value
    errors: Floats
    per_agent: Floats
    estimates: Floats
    reasons: Sequence[str] = ("",)

    columns = ("stderr", "trials")
    shown = ("rounds", "trials", "total_error", "stderr", "over_limit", "note")

    def _notes(self, which: int) -> Iterator[str]:
        reason = self.reasons[which if len(self.reasons) > 1 else 0]
        yield from [reason] if reason else super()._notes(which)

    def plot(self, ax: Panels | None = None) -> Axes:
        return plotting.draw_errors(ax, self.curves(), self.title, plotting.PARAMETER_ERROR)


class LinearEstimation:
    r"""A sensor network that estimates one parameter vector.

    A problem created by `from_data` also has `measurements`, the recorded :math:`y_i` (which are not random), and
    `labels`, the names of the agents.

    Parameters
    ----------
    network : Network
        The network of the N agents, each of which has one sensor.
    matrices : sequence of array_like
        The matrices :math:`A_i` of shape :math:`(m_i, d)`, one per sensor, each with its own number of rows.
    parameter : array_like
        The true parameters :math:`\beta^*`, shape (d,).
    covariance : float or array_like
        Covariance of the measurement noise, in squared units of the measurements: a variance, one per sensor, or one
        matrix :math:`S_i` of shape :math:`(m_i, m_i)` per sensor.
    weighting : str
        What is averaged: "plain" averages :math:`A_i^\top A_i` as in the paper; "precision" averages
        :math:`A_i^\top S_i^{-1} A_i`.
    names : sequence of str, optional
        Names of the d parameters, for tables and errors; by default beta0, beta1, ...

    See Also
    --------
    LikelihoodEstimation : Logistic, Poisson and other models.
    gossamer.applications.KarMoura : An estimator to compare with.
    gossamer.applications.XiaoBoydLall : An estimator to compare with.

    Examples
    --------
    >>> sensors = gs.LinearEstimation("cycle:4", [[[1.0, 0.0]], [[0.0, 1.0]]] * 2, [2.0, -1.0])
    >>> sensors.exact("anytime-sda", 400).over_limit
    1.0012
    """

    def __init__(
        self,
        network: NetworkLike,
        matrices: Sequence[ArrayLike],
        parameter: ArrayLike,
        covariance: object = 1.0,
        *,
        weighting: str = "plain",
        names: Sequence[str] | None = None,
    ) -> None:
        self.weighting = checks.choice("weighting", weighting, ("plain", "precision"))
        self.network = network = Network.of(network)
        self.measurements: list[Floats] | None = None
        self.labels: list[object] | None = None
        self.matrices = check_matrices(matrices, network.agents)
        self.dimension = self.matrices[0].shape[1]
        self.covariances = check_covariances(covariance, self.matrices)
        default = [f"beta{k}" for k in range(self.dimension)]
        self.names = default if names is None else checks.listed("names", names)
        self.parameter = checks.array("parameter", parameter, (self.dimension,))
        if len(self.names) != self.dimension:
            raise InvalidInput(
                f"needs one entry per column of A_i ({self.dimension}), got {len(self.names)}",
                parameter="names",
            )
        check_observable(sum(a.T @ a for a in self.matrices), self.names)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        sizes = extent(np.array([len(a) for a in self.matrices]))
        return (
            f"LinearEstimation({self.network!r}, {self.dimension} parameters, {sizes} measurements per agent)"
        )

    # -- where problems come from -----------------------------------------------------------------------------

    @classmethod
    def random(
        cls,
        network: NetworkLike,
        dimension: int = 5,
        measurements: int = 2,
        *,
        noise: float = 1.0,
        weighting: str = "plain",
        seed: int = 0,
    ) -> LinearEstimation:
        r"""Build a problem with random sensors: :math:`A_i` standard normal, :math:`\beta^*` uniform on [-1, 1],
        standard deviations between half of and twice `noise`."""
        network, rng = Network.of(network), np.random.default_rng(checks.seed(seed))
        dimension = checks.whole_number("dimension", dimension, least=1, most=10_000)
        measurements = checks.whole_number("measurements", measurements, least=1, most=10_000)
        noise = checks.number("noise", noise, least=0, most=1e100)
        matrices = rng.normal(size=(network.agents, measurements, dimension))
        parameter = rng.uniform(-1, 1, dimension)
        variances = (noise * np.exp2(rng.uniform(-1, 1, network.agents))) ** 2
        return cls(network, list(matrices), parameter, variances, weighting=weighting)

    @classmethod
    def from_data(
        cls,
        X: object,
        y: object,
        agents: int | NetworkLike | None = None,
        split: object = "contiguous",
        *,
        intercept: bool = True,
        seed: int = 0,
    ) -> LinearEstimation:
        r"""Distribute rows of data over agents; :math:`\beta^*` is the least squares solution for all rows.

        The data are fixed, so there is no noise; an agent's error is its distance from the pooled fit.

        Parameters
        ----------
        X, y
            An array (rows, features), a dictionary of columns, or a pandas or polars frame; one value per row, or the
            name of a column of the frame.
        agents
            Number of agents on an Erdős–Rényi graph, or the network itself.
        split
            "contiguous" blocks of rows, "random", "sorted" (blocks of rows sorted by y: agents differ most),
            "by:<column>" (one agent per value of that column, which is then not a feature), or an array with one label
            per row.
        intercept
            Whether to add a column of ones.
        """
        network = None if agents is None or isinstance(agents, int | np.integer) else Network.of(agents)
        count = network.agents if network is not None else agents
        rows = deal(X, y, count, split, intercept, seed)  # type: ignore[arg-type]
        network = Network.erdos_renyi(len(rows.features)) if network is None else network
        features, targets = np.vstack(rows.features), np.concatenate(rows.targets)
        check_observable(features.T @ features, rows.names)
        scale = np.linalg.norm(features, axis=0)  # units of columns do not matter
        fit = np.linalg.lstsq(features / scale, targets, rcond=None)[0] / scale
        problem = cls(network, rows.features, fit, 0.0, names=rows.names)
        problem.measurements = rows.targets
        problem.labels = rows.labels
        return problem

    def weighted(self, weighting: str) -> LinearEstimation:
        """Return the same sensors with another weighting."""
        return LinearEstimation(
            self.network,
            self.matrices,
            self.parameter,
            self.covariances,
            weighting=weighting,
            names=self.names,
        )

    # -- what is averaged -----------------------------------------------------------------------------------

    @cached_property
    def _projections(self) -> list[Floats]:
        """A_i'Q_i, which maps a measurement to the vector that is averaged."""
        if self.weighting == "plain":
            return [a.T for a in self.matrices]
        projections = []
        for i, (a, s) in enumerate(zip(self.matrices, self.covariances, strict=True)):
            if np.linalg.eigvalsh(s)[0] <= 0:
                raise InvalidInput(
                    f"precision weighting needs invertible noise covariances, but that of sensor {i} is singular; "
                    "use weighting='plain'"
                )
            projections.append(np.asarray(np.linalg.solve(s, a).T, dtype=float))
        return projections

    @cached_property
    def grams(self) -> Floats:
        r"""The matrices :math:`A_i^\top Q_i A_i`, shape (N, d, d)."""
        return np.stack([p @ a for p, a in zip(self._projections, self.matrices, strict=True)])

    @cached_property
    def moments(self) -> Gaussian:
        r"""The streams :math:`A_i^\top Q_i Y_{i,t}`: means, covariances, and how to draw them."""
        if self.measurements is not None:
            mean = np.stack([p @ y for p, y in zip(self._projections, self.measurements, strict=True)])
        else:
            mean = self.grams @ self.parameter
        noise = np.stack([p @ s @ p.T for p, s in zip(self._projections, self.covariances, strict=True)])
        return Gaussian(mean, covariance=noise)

    @cached_property
    def _inverse(self) -> Floats:
        """Abar^{-1}."""
        return np.linalg.inv(self.grams.mean(axis=0))

    @cached_property
    def streams(self) -> Gaussian:
        r"""The streams :math:`\bar A^{-1} A_i^\top Q_i Y_{i,t}`, whose average is :math:`\beta^*`, for any engine.

        Their components are drawn independently here; the expected squared error needs no more than that.
        """
        inverse, moments = self._inverse, self.moments
        spread = np.einsum("ab,nbr->nar", inverse, moments.factor)
        return Gaussian(moments.mean @ inverse.T, np.sqrt((spread**2).sum(axis=2)))

    # -- errors ---------------------------------------------------------------------------------------------

    def exact(self, method: Method | str, rounds: int | Sequence[int]) -> Exact[OneOrMore, OneOrMore]:
        r"""Return the exact expected error of `method` with :math:`\bar A` known to every agent."""
        if not isinstance(method, Method | str):
            raise Unsupported(
                f"exact errors are for methods that average; use simulate() for {type(method).__name__}"
            )
        return exact(method, self.network, self.streams, rounds)  # type: ignore[arg-type, unused-ignore]

    def centralized_error(self, rounds: object) -> OneOrMore:
        """Return the expected error, summed over agents, if each held all measurements of `rounds` rounds."""
        inverse, factor = self._inverse, self.moments.factor
        trace = ((np.einsum("ab,nbr->nar", inverse, factor)) ** 2).sum()
        return trace / (self.network.agents * checks.array("rounds", rounds))[()]

    def bound(self, rounds: int, gram_rounds: int | None = None) -> theory.Bound:
        r"""Return Corollary 1, a bound on SDA's error with :math:`A_i^\top A_i` averaged by its last iterate, or known
        to all agents."""
        return theory.corollary_1(
            self.network,
            gram=self.grams,
            mean=self.moments.mean,
            variance=self.moments.variance,
            rounds=rounds,
            gram_rounds=rounds if gram_rounds is None else gram_rounds,
        )

    # -- the average of A_i'A_i -----------------------------------------------------------------------------

    def average_grams(self, method: Method | str, rounds: int | Sequence[int]) -> Floats:
        """Return (N, d, d), or (H, N, d, d): each agent's average of Abar after `rounds` rounds of `method`."""
        packed = pack(self.grams)
        horizons, one = horizons_of(rounds)
        held = [settled(method, self.network, packed, int(t)) for t in horizons]
        return unpack(held[0] if one else np.stack(held), self.dimension)

    def gram_margin(self, held: Floats) -> Floats:
        r"""Return the largest :math:`\lVert\bar A^{-1}\rVert \lVert\hat A_i - \bar A\rVert` of (..., N, d, d)."""
        return margin_of(held, self.grams.mean(axis=0))

    def gram_rounds_needed(self, method: Method | str = "chebyshev") -> int:
        r"""Return the rounds of `method` after which every agent may invert its average of :math:`A_i^\top A_i`."""
        most = 2**20  # a table of this many rounds takes a second
        enough = first_true(lambda t: bool(self.gram_margin(self.average_grams(method, t)) <= 0.5), most=most)
        if enough is None:
            raise Unsupported(
                f"{resolve(method).name} does not reach the average of A_i'A_i on this network within {most:,} rounds"
            )
        return enough

    def _inverted(self, gram: Method | str, method: Method, horizons: Integers) -> tuple[Floats, list[str]]:
        """Return (H or 1, N, d, d) every agent's Ahat_i^{-1}, and why it is NaN while it is too early to invert."""
        if isinstance(gram, str) and gram == "exact":
            return np.broadcast_to(self._inverse, (1, self.network.agents, *self._inverse.shape)), [""]
        same = isinstance(gram, str) and gram == "same"
        if same and method.mixing not in ("matrix", "push"):
            raise InvalidInput(
                f"{method.name} mixes at random, so A_i'A_i and A_i'Y_i are not averaged the same way; "
                "use gram='exact' or gram='chebyshev'"
            )
        used = method if same else resolve(gram)
        grams = self.average_grams(used, horizons.tolist())
        margin = self.gram_margin(grams)
        early = margin > 0.5
        reasons = [
            "" if fine else self._too_early(used, int(t), m)
            for fine, t, m in zip(~early, horizons, margin, strict=True)
        ]
        if early.all():
            raise InvalidInput(reasons[int(np.argmax(margin))])
        inverses = np.full_like(grams, np.nan)
        inverses[~early] = np.linalg.inv(grams[~early])
        return inverses, reasons

    def _too_early(self, used: Method, rounds: int, margin: float) -> str:
        needed, chebyshev = self.gram_rounds_needed(used), self.gram_rounds_needed("chebyshev")
        return (
            f"it is too early to invert: ||Abar^-1|| ||Ahat_i - Abar|| is {margin:.3g} after {rounds} rounds of "
            f"{used.name}, and at most 1/2 is needed, which takes {needed} rounds; run longer, or average A_i'A_i "
            f"first (gram='chebyshev', gram_rounds={chebyshev} or more)"
        )

    # -- running it -----------------------------------------------------------------------------------------

    def simulate(
        self,
        solver: Solver,
        rounds: int | Sequence[int],
        trials: int = 100,
        seed: int = 0,
        *,
        gram: Method | str = "same",
        gram_rounds: int | None = None,
    ) -> EstimationRun[OneOrMore, OneOrMore]:
        r"""Run `solver` in `trials` independent trials.

        Horizons at which some agent cannot yet invert its average of :math:`A_i^\top A_i` have no error (NaN) and a
        note; an error is raised if this is true of all horizons.

        `gram` says how :math:`A_i^\top A_i` is averaged: "same" as the measurements (no error in the mean), "exact"
        (:math:`\bar A` is known to all agents), or any method, such as "chebyshev" or gs.SDA(output="last") as in the
        paper, for `gram_rounds` rounds (by default `rounds`).
        """
        horizons, one = horizons_of(rounds)
        trials = checks.whole_number("trials", trials, least=1)
        notes = [""]
        if isinstance(solver, KarMoura | XiaoBoydLall):
            estimates = solver.estimates(self, horizons, trials, seed)
        elif isinstance(solver, Alone):
            moments = averages(solver, self.network, self.moments, horizons, trials, seed)
            inverses = np.asarray(np.linalg.pinv(self.grams, hermitian=True)[None], dtype=float)
            estimates = _solve(inverses, moments)
        elif isinstance(solver, Centralized):
            moments = averages(solver, self.network, self.moments, horizons, trials, seed)
            estimates = moments @ self._inverse.T
        else:
            method = resolve(solver)
            gram_horizons = horizons if gram_rounds is None else check_horizons(gram_rounds)
            inverses, notes = self._inverted(gram, method, gram_horizons)
            estimates = _solve(inverses, averages(method, self.network, self.moments, horizons, trials, seed))
        return self._run(solver, horizons, one, estimates, seed, notes)

    def estimate(self, method: Method | str = "chebyshev", rounds: int = 100) -> Floats:
        """Return (N, d) every agent's estimate from recorded data after `rounds` rounds; it is deterministic."""
        if self.measurements is None:
            raise InvalidInput("estimate() is for recorded data (LinearEstimation.from_data); use simulate()")
        return np.asarray(self.simulate(method, rounds, trials=1).estimates[0])

    def online(self, method: AnytimeSDA | None = None) -> OnlineEstimation:
        """Return an online estimator, which is updated whenever measurements arrive."""
        return OnlineEstimation(self, method)

    def _run(
        self,
        solver: Solver,
        horizons: Integers,
        one: bool,
        estimates: Floats,
        seed: int,
        notes: Sequence[str],
    ) -> EstimationRun[OneOrMore, OneOrMore]:
        squares = ((estimates - self.parameter) ** 2).sum(axis=3)
        errors = squares.sum(axis=2)
        which = 0 if one else slice(None)
        return EstimationRun(
            method=resolve(solver) if isinstance(solver, str) else solver,
            network=self.network,
            trials=len(errors[0]),
            seed=seed,
            agents=self.network.agents,
            rounds=int(horizons[0]) if one else horizons,
            total_error=errors.mean(axis=1)[which],
            centralized_limit=self.centralized_error(horizons)[which],
            stderr=standard_error(errors)[which],
            errors=errors[which],
            per_agent=squares.mean(axis=1)[which],
            estimates=estimates[which],
            reasons=notes,
        )


def _solve(inverses: Floats, moments: Floats) -> Floats:
    """Return (H, trials, N, d) products Ahat_i^{-1} muhat_i from (H or 1, N, d, d) and (H, trials, N, d)."""
    inverses = np.broadcast_to(inverses, (len(moments), *inverses.shape[1:]))
    return np.asarray(np.einsum("hnab,htnb->htna", inverses, moments, optimize=True))
