"""AgentRows of data that agents hold and keep: fitted over the network, in one place, or by each agent alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from gossamer import checks
from gossamer.applications.likelihood.fits import Fit, Fits
from gossamer.applications.likelihood.newton import (
    AgentRows,
    Consensus,
    Model,
    NewtonStep,
    ScaledHuber,
    newton,
)
from gossamer.applications.likelihood.rivals_at_rest import (
    GRID,
    ExactDiffusion,
    Extra,
    Gradient,
    GradientMethod,
    GradientTracking,
)
from gossamer.applications.solvers import Alone, Centralized
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, Unsupported
from gossamer.families import Family, Softmax, curvature_of
from gossamer.networks import Network

NEWTON = "newton"

Fitter = str | GradientMethod | Alone | Centralized
"""Who fits: "newton", a gradient method, `Centralized()` or `Alone()`."""

RIVALS: tuple[Fitter, ...] = (
    NEWTON,
    *(kind(step) for kind in (Extra, ExactDiffusion, GradientTracking) for step in (None, 1.0)),
    Centralized(),
    Alone(),
)
"""Newton's method, its rivals with the best step and with the usual one, and the two yardsticks."""

_LOOKS = 200
"""How often a gradient method's error is noted."""


class DataAtRest:
    """AgentRows of every agent, and the model to fit to them.

    network  who talks to whom
    model    the loss, the penalty and the names of the parameters
    data     the rows of each agent
    """

    def __init__(self, network: Network, model: Model, data: Sequence[AgentRows]) -> None:
        self.network = network
        self.model = model
        self.data = list(data)
        for i, rows in enumerate(self.data):
            model.family.check_labels(rows.y, f" of agent {i}")

    @cached_property
    def _center(self) -> NewtonStep:
        """The fit of all rows in one place."""
        together = AgentRows(*(np.concatenate(part) for part in zip(*self.data, strict=True)))
        *_, last = newton(self.model, [together], Consensus(None), tolerance=1e-12, most=200)
        return last

    @property
    def solution(self) -> Floats:
        """(p,) the parameters of all rows in one place."""
        return np.asarray(self._center.theta[0])

    def fit(
        self, method: Fitter = NEWTON, rounds: int = 1000, *, tolerance: float = 1e-9, steps: int = 200
    ) -> Fit:
        """See `LikelihoodEstimation.fit`."""
        with threadpool_limits(1, user_api="blas"):  # agents' matrices are small: threads would only wait
            return self._fitted(method, rounds, tolerance, steps)

    def _fitted(self, method: Fitter, rounds: int, tolerance: float, steps: int) -> Fit:
        if isinstance(method, GradientMethod):
            return self._descend(method, checks.rounds(rounds))
        if isinstance(method, Centralized):
            return self._centralized()
        if isinstance(method, Alone):
            return self._alone()
        checks.choice("method", method, (NEWTON,))
        tolerance = checks.number("tolerance", tolerance, above=0)
        most = checks.whole_number("steps", steps, least=1)
        taken = list(newton(self.model, self.data, Consensus(self.network), tolerance=tolerance, most=most))
        moved, note = taken[-1].moved, ""
        if moved > tolerance:
            note = f"nearly collinear: rounding still moves estimates by {moved:.0e} of their size"
        return self._fit(
            NEWTON,
            taken[-1].theta,
            [step.rounds for step in taken],
            [step.bytes for step in taken],
            [self._error(step.theta) for step in taken],
            note,
            scale=taken[-1].scale if isinstance(self.model.family, ScaledHuber) else None,
        )

    def compare(
        self, methods: Sequence[Fitter] = RIVALS, rounds: int = 1000, *, target: float = 1e-6
    ) -> Fits:
        """See `LikelihoodEstimation.compare_fits`."""
        return Fits(tuple(self.fit(method, rounds) for method in methods), target)

    def _fit(
        self,
        method: str,
        theta: Floats,
        rounds: Any,
        sent: Any,
        errors: Any,
        note: str = "",
        scale: Any = None,
    ) -> Fit:
        return Fit(
            method=method,
            network=self.network,
            names=self.model.names,
            estimates=theta,
            rounds=np.array(rounds),
            bytes=np.array(sent),
            error=np.array(errors, dtype=float),
            scale=scale,
            note=note,
        )

    def _error(self, theta: Floats) -> float:
        """The largest difference from the fit in one place; NaN if the estimates are not numbers any more."""
        return float(np.abs(theta - self.solution).max())

    # -- the yardsticks ----------------------------------------------------------------------------------------

    def _centralized(self) -> Fit:
        """Every row travels once: its covariates, without the intercept's, and its label."""
        ones = sum(name.startswith("intercept") for name in self.model.names) // self.model.family.outputs
        sent = sum(8 * rows.y.size * (rows.x.shape[1] - ones + 1) for rows in self.data)
        everybody = np.broadcast_to(self.solution, (self.network.agents, len(self.solution)))
        return self._fit("centralized", everybody, [0], [sent], [0.0], "every row sent to one place, once")

    def _alone(self) -> Fit:
        """Each agent's own rows, with the same penalty."""
        theta = np.full((self.network.agents, len(self.solution)), np.nan)
        for i, rows in enumerate(self.data):
            try:
                *_, last = newton(self.model, [rows], Consensus(None), tolerance=1e-10, most=200)
            except InvalidInput:
                continue
            theta[i] = last.theta[0]
        known = ~np.isnan(theta[:, 0])
        missing = int(np.sum(~known))
        note = f"{missing} of {len(known)} agents find no estimate in their own rows" if missing else ""
        error = self._error(theta[known]) if known.any() else np.nan
        return self._fit("alone", theta, [0], [0], [error], note)

    # -- gradient methods --------------------------------------------------------------------------------------

    def _descend(self, method: GradientMethod, rounds: int) -> Fit:
        if isinstance(self.model.family, ScaledHuber):
            raise Unsupported(
                "gradient methods here fit a loss without a scale; use gs.applications.Huber(threshold) for them"
            )
        if method.step is not None:
            return self._run(method, method.step, rounds)
        tried = [self._run(method, float(step), rounds) for step in GRID]
        ends = [fit.error[-1] if np.isfinite(fit.error[-1]) else np.inf for fit in tried]
        best = int(np.argmin(ends))
        return replace(tried[best], note=f"step={GRID[best]:g}, the best of {GRID[-1]:g} to {GRID[0]:g}")

    def _run(self, method: GradientMethod, step: float, rounds: int) -> Fit:
        network, gradient = self.network, self._gradient()
        shrink = min(1.0, 1.9 / network.lambda_max)  # so that W = I - L averages, whatever the weights
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
        return self._fit(method.label, state[0], seen, np.array(seen) * per_round, errors, note)

    @cached_property
    def _largest_curvature(self) -> float:
        """The largest eigenvalue of any agent's f_i'' at zero."""
        family, share = self.model.family, self._share
        at_zero = [
            curvature_of(rows.x, family.curvatures(np.zeros((family.outputs, len(rows.y))), rows.y)) * share
            for rows in self.data
        ]
        penalty = max(len(rows.y) for rows in self.data) * share * self.model.penalty.max()
        return float(max(np.linalg.eigvalsh(curvature)[-1] for curvature in at_zero) + penalty)

    @property
    def _share(self) -> float:
        """f_i is this much times the sum over agent i's rows, so that the mean of f_i is that over all rows."""
        return self.network.agents / sum(len(rows.y) for rows in self.data)

    def _gradient(self) -> Gradient:
        """The function that gives every agent's gradient of f_i at its own theta, (N, p) -> (N, p)."""
        counts = np.array([len(rows.y) for rows in self.data])
        longest, width = int(counts.max()), self.data[0].x.shape[1]
        x, y = np.zeros((len(counts), longest, width)), np.zeros((len(counts), longest))
        for i, rows in enumerate(self.data):
            x[i, : counts[i]] = rows.x  # rows of zeros have no gradient
            y[i, : counts[i]], y[i, counts[i] :] = rows.y, rows.y[0]
        family, share = self.model.family, self._share
        penalty = counts[:, None] * share * self.model.penalty

        def gradient(theta: Floats) -> Floats:
            shaped = theta.reshape(len(counts), family.outputs, width)
            predictors = shaped @ x.swapaxes(1, 2)  # (N, m, rows)
            slopes = family.slopes(predictors.swapaxes(0, 1), y)
            sums = slopes.swapaxes(0, 1) @ x
            return np.asarray(share * sums.reshape(theta.shape) + penalty * theta)

        return gradient


def data_at_rest(
    network: Network,
    family: Family,
    features: Sequence[Floats],
    targets: Sequence[Floats],
    *,
    intercept: bool,
    ridge: float,
    names: Sequence[str],
) -> DataAtRest:
    """The rows of every agent, with a column of ones for the intercept, and the model to fit."""
    if len(features) != network.agents:
        raise InvalidInput(
            f"every agent needs rows: {network.agents} agents, got {len(features)} sets of rows"
        )
    if intercept:
        features = [np.column_stack([x, np.ones(len(x))]) for x in features]
    penalty = np.full(len(names), ridge)
    penalty[len(names) - intercept :] = 0.0
    called = list(names)
    if family.outputs > 1:
        first = 0 if isinstance(family, Softmax) and family.symmetric else 1
        called = [f"{name} ({first + k})" for k in range(family.outputs) for name in names]
    model = Model(family, np.tile(penalty, family.outputs), called)
    return DataAtRest(network, model, [AgentRows(x, y) for x, y in zip(features, targets, strict=True)])
