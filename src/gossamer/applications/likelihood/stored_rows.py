"""Rows of data held by agents: fitted over the network, in one place, or by each agent alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from gossamer import checks
from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.likelihood.design import Design
from gossamer.applications.likelihood.fits import Fit, Fits
from gossamer.applications.likelihood.inference import Inference
from gossamer.applications.likelihood.intake import TakenRows
from gossamer.applications.likelihood.newton import SOLVERS, NewtonStep, newton, solver_for
from gossamer.applications.likelihood.rows import AgentRows, Model
from gossamer.applications.likelihood.stored_rivals import (
    GRID,
    ExactDiffusion,
    Extra,
    Gradient,
    GradientMethod,
    GradientTracking,
)
from gossamer.applications.solvers import Alone, Centralized
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, Unsupported, nearest
from gossamer.networks import Network

NEWTON = "newton"

Fitter = str | GradientMethod | Alone | Centralized
"""A way to fit: "newton" or one of its two solvers, a gradient method, `Centralized()` or `Alone()`."""

RIVALS: tuple[Fitter, ...] = (
    NEWTON,
    *(kind(step) for kind in (Extra, ExactDiffusion, GradientTracking) for step in (None, 1.0)),
    Centralized(),
    Alone(),
)
"""Newton's method, gradient methods with the best step and with the usual one, and two baselines."""

_LOOKS = 200
"""Number of times the error of a gradient method is recorded."""


class StoredRows:
    """The rows of every agent, and the model to fit to them.

    network  the network of the agents
    model    the loss, the penalty and the names of the parameters
    data     the rows of each agent
    design   how columns become covariates
    unit_penalty  (p,) the penalty of each parameter if ridge is 1
    sites    the names of the agents
    spent    rounds and bytes needed to agree on the design
    note     a remark on the rows for the user
    """

    def __init__(
        self,
        network: Network,
        model: Model,
        data: Sequence[AgentRows],
        design: Design,
        *,
        unit_penalty: Floats,
        sites: Sequence[object] = (),
        spent: tuple[int, int] = (0, 0),
        note: str = "",
    ) -> None:
        self.network = network
        self.model = model
        self.data = list(data)
        self.design = design
        self.unit_penalty = unit_penalty
        self.sites = list(sites) or list(range(network.agents))
        self.spent = spent
        self.note = note

    def with_ridge(self, ridge: float) -> StoredRows:
        """Return the same rows with another penalty."""
        other = copy(self)
        other.__dict__.pop("_center", None)
        other.model = self.model._replace(penalty=ridge * self.unit_penalty)
        return other

    @cached_property
    def _center(self) -> NewtonStep:
        """Fit all rows in one place; local parameters still need the rows of each agent."""
        data = [AgentRows.together(self.data)] if self.model.local is None else self.data
        *_, last = newton(self.model, data, Consensus(None), tolerance=1e-12, most=200)
        return last

    @property
    def solution(self) -> Floats:
        """Return the parameters of the fit in one place: (p,), or (N, p) with local parameters."""
        return np.asarray(self._center.theta[0] if self.model.local is None else self._center.theta)

    def fit(
        self, method: Fitter = NEWTON, rounds: int = 1000, *, tolerance: float = 1e-9, steps: int = 200
    ) -> Fit:
        """See `LikelihoodEstimation.fit`."""
        # Matrices are small, so BLAS threads would only wait for each other.
        with threadpool_limits(1, user_api="blas"):
            return self._fitted(method, rounds, tolerance, steps)

    def _fitted(self, method: Fitter, rounds: int, tolerance: float, steps: int) -> Fit:
        if isinstance(method, GradientMethod):
            return self._descend(method, checks.rounds(rounds))
        if isinstance(method, Centralized):
            return self._centralized()
        if isinstance(method, Alone):
            return self._alone()
        solver = solver_for(self.model) if method == NEWTON else method
        checks.choice("method", solver, (NEWTON, *SOLVERS))
        tolerance = checks.number("tolerance", tolerance, above=0)
        most = checks.whole_number("steps", steps, least=1)
        exchange = Consensus(self.network, *self.spent)
        taken = list(newton(self.model, self.data, exchange, tolerance=tolerance, most=most, solver=solver))
        moved, notes = taken[-1].moved, [self.note] if self.note else []
        if moved > tolerance:
            notes.append(f"nearly collinear: rounding still moves estimates by {moved:.0e} of their size")
        if self.model.family.at_limit(taken[-1].scale):
            notes.append(
                "counts vary no more than those of a Poisson distribution: the dispersion is at its lower limit"
            )
        if solver == "newton-cg" and not self._penalized:
            notes.append("conjugate gradients do not notice collinear covariates, which have many minima")
        return self._fit(
            method,
            taken[-1].theta,
            [step.rounds for step in taken],
            [step.bytes for step in taken],
            lambda: [self._error(step.theta) for step in taken],
            "; ".join(notes),
            scale=taken[-1].scale if self.model.family.scale_terms else None,
            at_minimum=True,
        )

    def inference(self, theta: Floats, scale: Floats | None) -> Inference:
        """Return the accuracy of a fit, averaged over the network; a dispersion at its limit counts as known."""
        if scale is not None and self.model.family.at_limit(scale):
            known = self.model._replace(family=self.model.family.at_scale(float(scale.max())))
            return Inference(known, self.data, Consensus(self.network), theta, None)
        with threadpool_limits(1, user_api="blas"):
            return Inference(self.model, self.data, Consensus(self.network), theta, scale)

    @property
    def _penalized(self) -> bool:
        """Return whether all parameters except intercepts have a penalty."""
        penalty = self.model.penalty.reshape(self.model.family.outputs, -1)
        return bool(np.all(penalty[:, : penalty.shape[1] - self.model.intercept] > 0))

    def compare(
        self, methods: Sequence[Fitter] = RIVALS, rounds: int = 1000, *, target: float = 1e-6
    ) -> Fits:
        """See `LikelihoodEstimation.compare_fits`."""
        return Fits(tuple(self.fit(method, rounds) for method in methods), target)

    def _fit(
        self,
        method: str,
        theta: Floats,
        rounds: ArrayLike,
        sent: ArrayLike,
        errors: Callable[[], Sequence[float]],
        note: str = "",
        scale: Floats | None = None,
        at_minimum: bool = False,
    ) -> Fit:
        theta = np.array(theta)
        if self.model.local is not None:  # an agent without rows has no local parameters
            empty = np.array([not len(rows.y) for rows in self.data])
            theta[np.outer(empty, self.model.local)] = np.nan
        return Fit(
            method=method,
            network=self.network,
            model=self.model,
            design=self.design,
            sites=self.sites,
            infer=(lambda: self.inference(theta, scale)) if at_minimum else None,
            estimates=theta,
            rounds=np.array(rounds),
            bytes=np.array(sent),
            measure_error=errors,
            scale=scale,
            note=note,
        )

    def _error(self, theta: Floats) -> float:
        """Return the largest difference from the fit in one place; NaN if an estimate is NaN."""
        with_rows = np.array([len(rows.y) > 0 for rows in self.data])
        off = np.abs(theta - self.solution)
        return float(off.max() if self.model.local is None else off[with_rows].max())

    # -- baselines ---------------------------------------------------------------------------------------------

    def _needs_one_model(self, who: str) -> None:
        if self.model.local is not None:
            raise Unsupported(f"{who} cannot fit local parameters; use fit('newton')")

    def _centralized(self) -> Fit:
        """Send every row to one place, once: its covariates and its label."""
        self._needs_one_model("a center")
        sent = sum(8 * rows.y.size * (rows.x.shape[1] + 1) for rows in self.data)
        estimates = np.broadcast_to(self.solution, (self.network.agents, len(self.solution)))
        return self._fit(
            "centralized", estimates, [0], [sent], lambda: [0.0], "every row sent to one place, once"
        )

    def _alone(self) -> Fit:
        """Fit each agent's own rows, with the same penalty."""
        self._needs_one_model("an agent alone")
        theta = np.full((self.network.agents, len(self.model.penalty)), np.nan)
        for i, rows in enumerate(self.data):
            try:
                *_, last = newton(self.model, [rows], Consensus(None), tolerance=1e-10, most=200)
            except InvalidInput:
                continue
            theta[i] = last.theta[0]
        known = ~np.isnan(theta[:, 0])
        missing = int(np.sum(~known))
        note = f"{missing} of {len(known)} agents find no estimate in their own rows" if missing else ""

        def errors() -> list[float]:
            return [self._error(theta[known]) if known.any() else np.nan]

        return self._fit("alone", theta, [0], [0], errors, note)

    # -- gradient methods --------------------------------------------------------------------------------------

    def _descend(self, method: GradientMethod, rounds: int) -> Fit:
        if self.model.family.scale_terms:
            raise Unsupported(
                "gradient methods here fit a loss without a scale; use gs.applications.Huber(threshold) for them"
            )
        self._needs_one_model("a gradient method")
        if self.model.lasso is not None:
            raise Unsupported(
                "gradient methods here need a smooth penalty; leave out the lasso, or use fit('newton')"
            )
        if method.step is not None:
            return self._run(method, method.step, rounds)
        tried = [self._run(method, float(step), rounds) for step in GRID]
        ends = [fit.error[-1] if np.isfinite(fit.error[-1]) else np.inf for fit in tried]
        best = int(np.argmin(ends))
        return replace(tried[best], note=f"step={GRID[best]:g}, the best of {GRID[-1]:g} to {GRID[0]:g}")

    def _run(self, method: GradientMethod, step: float, rounds: int) -> Fit:
        network, gradient = self.network, self._gradient()
        shrink = min(1.0, 1.9 / network.lambda_max)  # so that W = I - L averages for any weights
        looks = set(np.unique(np.geomspace(1, rounds, _LOOKS).round().astype(int)).tolist())
        seen, errors, size = [], [], step / self._largest_curvature
        with np.errstate(all="ignore"):

            def mix(values: Floats) -> Floats:
                return np.asarray(values - shrink * (network.gossip @ values))

            state = method.start(np.zeros((network.agents, len(self.solution))), mix, gradient, size)
            for t in range(1, rounds + 1):
                if t > 1:
                    state = method.advance(state, mix, gradient, size)
                if t in looks:
                    seen.append(t)
                    errors.append(self._error(state[0]))
                    if not errors[-1] < 1e100:
                        break
        per_round = 2 * len(network.edges) * 8 * len(self.solution) * method.vectors
        note = "" if errors[-1] < 1e100 else "diverges with this step"
        errors = [error if error < 1e100 else np.nan for error in errors]
        return self._fit(method.label, state[0], seen, np.array(seen) * per_round, lambda: errors, note)

    @cached_property
    def _largest_curvature(self) -> float:
        """Return the largest eigenvalue of any agent's f_i'' at zero."""
        family, share = self.model.family, self._share
        at_zero = [
            self.model.curvature(
                rows.weighted(family.curvatures(np.zeros((family.outputs, len(rows.y))), rows.y)), rows.x
            )
            * share
            for rows in self.data
        ]
        penalty = max(rows.total for rows in self.data) * share * self.model.penalty.max()
        return float(max(np.linalg.eigvalsh(curvature)[-1] for curvature in at_zero) + penalty)

    @property
    def _share(self) -> float:
        """Return the factor of the sum over agent i's rows in f_i, so that the mean of all f_i is the total loss."""
        return self.network.agents / sum(rows.total for rows in self.data)

    def _gradient(self) -> Gradient:
        """Return the function that computes every agent's gradient of f_i at its own theta, (N, p) -> (N, p)."""
        counts = np.array([len(rows.y) for rows in self.data])
        longest, dimension = int(counts.max()), self.data[0].x.shape[1]
        width, weights = dimension + self.model.intercept, np.ones((len(counts), longest))
        x, offset = np.zeros((len(counts), longest, width)), np.zeros((len(counts), longest))
        y = np.full((len(counts), longest), next(rows.y[0] for rows in self.data if len(rows.y)))
        for i, rows in enumerate(self.data):
            x[i, : counts[i], :dimension] = rows.x  # rows of zeros have no gradient
            x[i, : counts[i], dimension:] = 1.0
            y[i, : counts[i]] = rows.y
            if rows.weights is not None:
                weights[i, : counts[i]] = rows.weights
            if rows.offset is not None:
                offset[i, : counts[i]] = rows.offset
        family, share = self.model.family, self._share
        penalty = np.array([[rows.total] for rows in self.data]) * share * self.model.penalty

        def gradient(theta: Floats) -> Floats:
            shaped = theta.reshape(len(counts), family.outputs, width)
            predictors = shaped @ x.swapaxes(1, 2)  # (N, m, rows)
            slopes = family.slopes(predictors.swapaxes(0, 1) + offset, y) * weights
            sums = slopes.swapaxes(0, 1) @ x
            return np.asarray(share * sums.reshape(theta.shape) + penalty * theta)

        return gradient


def stored_rows(taken: TakenRows, *, ridge: float, lasso: float, local: Sequence[str]) -> StoredRows:
    """Return the rows of every agent and the model to fit.

    Penalties apply to covariates divided by `taken.scales`; intercepts and local parameters have none.
    """
    names = [*taken.design.names, *(["intercept"] if taken.intercept else [])]
    unknown = [name for name in local if name not in names]
    if unknown:
        raise InvalidInput(
            f"must name parameters ({', '.join(names)}), got {unknown[0]!r}{nearest(unknown[0], names)}",
            parameter="local",
        )
    own = np.array([name in local for name in names])
    if own.all():
        raise InvalidInput(
            "must leave at least one parameter for all agents to share, got all of them", parameter="local"
        )
    penalized = ~own
    penalized[len(names) - taken.intercept :] = False
    scales = np.append(taken.scales, [0.0] * taken.intercept) * penalized
    outputs = taken.family.outputs
    unit_penalty = np.tile(scales**2, outputs)
    model = Model(
        taken.family,
        ridge * unit_penalty,
        taken.family.parameter_names(names, taken.design.classes),
        taken.intercept,
        np.tile(lasso * scales, outputs) if lasso else None,
        np.tile(own, outputs) if own.any() else None,
    )
    for i, rows in enumerate(taken.data):
        taken.family.check_labels(rows.y, f" of agent {i}")
    return StoredRows(
        taken.network,
        model,
        taken.data,
        taken.design,
        unit_penalty=unit_penalty,
        sites=taken.sites,
        spent=taken.spent,
        note=taken.note,
    )
