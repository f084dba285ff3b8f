"""The accuracy of a fit: standard errors, deviance and likelihood, from averages over the network.

At its estimate every agent sums over its own rows the expected and the observed curvature, E_i and A_i, the squares of
the scores J_i, the deviance and Pearson's statistic. Averages of these, never rows, give all agents

    model-based covariance    dispersion E^{-1}           (with a penalty P: dispersion (E + P)^{-1} E (E + P)^{-1})
    robust covariance         A^{-1} J A^{-1}, HC0        (with a penalty P: (A + P)^{-1} J (A + P)^{-1})

(sums are around the network's mean covariates, so that few digits are lost), and the likelihood. The null deviance is
that of an intercept alone, fitted likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.likelihood.directions import regularized
from gossamer.applications.likelihood.local import OwnParameters, eliminate
from gossamer.applications.likelihood.newton import newton
from gossamer.applications.likelihood.rows import AgentRows, Model, spread_over
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.families import Family
from gossamer.fitted import Summary, Totals
from gossamer.least_squares import invert, pack, shift, unpack

_ACCURACY, _ROUGH = 1e-15, 1e-3
"""Factor by which averaging shrinks the differences between agents; for centers a rough mean is enough."""


class AgentSums(NamedTuple):
    """One agent's sums: those to be averaged, and how its local parameters follow.

    totals    number of rows, whether there are any, and the sums of `Family.figures`
    expected, observed, squares   (q, q) E, A and J of the shared parameters, and of an estimated dispersion
    own_expected, own_observed    how the agent's local parameters follow, by either curvature
    own_curvature, own_squares    (p, p) E and J of all parameters
    """

    totals: Floats
    expected: Floats
    observed: Floats
    squares: Floats
    own_expected: OwnParameters | None = None
    own_observed: OwnParameters | None = None
    own_curvature: Floats = np.empty((0, 0))
    own_squares: Floats = np.empty((0, 0))


def agent_sums(
    model: Model, rows: AgentRows, theta: Floats, scale: float = 1.0, center: Floats | float = 0.0
) -> AgentSums:
    """Return one agent's sums over its rows at its estimate; matrices are those of covariates minus `center`."""
    family = model.family.at_scale(scale)
    predictors = model.predictors(theta, rows.x)
    if rows.offset is not None:
        predictors = predictors + rows.offset
    rows = rows._replace(x=rows.x - center)
    slopes = family.slopes(predictors, rows.y)
    observed = model.curvature(rows.weighted(family.curvatures(predictors, rows.y)), rows.x)
    expected = observed
    if not family.canonical:
        expected = model.curvature(rows.weighted(family.information(predictors, rows.y)), rows.x)
    squares = model.curvature(rows.weighted(slopes[:, None] * slopes), rows.x)
    figures = rows.weighted(family.figures(predictors, rows.y)).sum(axis=1)
    totals = np.array([rows.total, float(len(rows.y) > 0), *figures])
    terms = family.dispersion_terms(predictors, rows.y) if model.family.estimates_dispersion else None
    if terms is not None:  # the observed curvature of all parameters together, as in maximum likelihood
        observed = _bordered(model, rows, observed, terms.cross, terms.curvature)
        squares = _bordered(model, rows, squares, slopes[0] * terms.slope, terms.slope**2)
        expected = observed
    if model.local is None:
        return AgentSums(totals, expected, observed, squares)
    local = np.append(model.local, np.zeros(int(terms is not None), dtype=bool))
    nothing = np.zeros(len(local))
    inner_expected, _, own_expected = eliminate(expected, nothing, local)
    inner_observed, _, own_observed = eliminate(observed, nothing, local)
    reduction = own_observed.reduction
    inner_squares = reduction @ squares @ reduction.T
    return AgentSums(
        totals, inner_expected, inner_observed, inner_squares, own_expected, own_observed, expected, squares
    )


def _bordered(model: Model, rows: AgentRows, inner: Floats, cross: Floats, corner: Floats) -> Floats:
    """Return the matrix with one more row and column for the dispersion."""
    edge = model.gradient(rows.weighted(cross)[None], rows.x)[:, None]
    return np.block([[inner, edge], [edge.T, np.array([[rows.weighted(corner).sum()]])]])


def _centers(model: Model, data: Sequence[AgentRows], exchange: Consensus) -> Floats:
    """Return (d,) the mean covariates, the same for all agents; zeros without an intercept, which a shift requires."""
    if not model.intercept:
        return np.zeros(data[0].x.shape[1])
    sums = [np.append(rows.total, rows.weighted(rows.x.T).sum(axis=1)) for rows in data]
    held = exchange.average(np.stack(sums), _ROUGH)
    return exchange.largest(held[:, 1:] / held[:, :1])


def _with_own(covariance: Floats, inverse: Floats, own: OwnParameters, squares: Floats) -> Floats:
    """Return the covariance of all parameters of an agent, from that of the shared ones.

    The agent's local parameters o move by -A_oo^{-1} (score of o) - gain (move of the shared ones), and its scores also
    contribute to the move of the shared ones. `squares` is the covariance of its scores.
    """
    scores = squares[own.local]
    along = inverse @ own.reduction @ scores.T @ own.inverse  # shared moves with the scores of o
    mixed = along - covariance @ own.gain.T
    both = own.gain @ along
    inner = (
        own.inverse @ scores[:, own.local] @ own.inverse - both - both.T + own.gain @ covariance @ own.gain.T
    )
    whole = np.empty((len(own.local), len(own.local)))
    shared = ~own.local
    whole[np.ix_(shared, shared)], whole[np.ix_(own.local, own.local)] = covariance, inner
    whole[np.ix_(shared, own.local)], whole[np.ix_(own.local, shared)] = mixed, mixed.T
    return whole


class Inference:
    """The averages over the network that summaries need, computed once."""

    def __init__(
        self,
        model: Model,
        data: Sequence[AgentRows],
        exchange: Consensus,
        theta: Floats,
        scale: Floats | None,
    ) -> None:
        self.model, self.data, self.theta = model, data, theta
        self.scale = np.ones(len(theta)) if scale is None else scale
        self.center = _centers(model, data, exchange)
        self.sums = spread_over(
            lambda rows, at, scale: agent_sums(model, rows, at, scale, self.center), data, theta, self.scale
        )
        size = len(self.sums[0].expected)
        parts = [(s.totals, *(pack(m) for m in (s.expected, s.observed, s.squares))) for s in self.sums]
        if model.family.canonical:  # the expected curvature is the observed one
            parts = [(totals, observed, squares) for totals, _, observed, squares in parts]
        held = exchange.agents * exchange.average(
            np.stack([np.concatenate(part) for part in parts]), _ACCURACY
        )
        self.totals, matrices = held[:, :6], held[:, 6:].reshape(len(data), -1, size * (size + 1) // 2)
        self.expected, self.observed, self.squares = (
            [unpack(row, size) for row in matrices[:, k]] for k in (0, -2, -1)
        )
        self.parameters = np.array([self._parameters(i) for i in range(len(data))])
        with np.errstate(all="ignore"):
            self.dispersion = np.array(
                [self._sum(i).dispersion(model.family, self.parameters[i]) for i in range(len(data))]
            )
        self.null_deviance, self.reason = self._null(exchange)
        self.rounds, self.bytes = exchange.rounds, exchange.bytes

    def _support(self, agent: int) -> Any:
        """Return which of the averaged parameters count: with a lasso, the nonzero ones."""
        size = len(self.expected[agent])
        if self.model.lasso is None:
            return np.ones(size, dtype=bool)
        kept = self.theta[agent][self.model.shared] != 0
        return np.append(kept, np.ones(size - len(kept), dtype=bool))

    def _whole(self, agent: int, curvature: Floats) -> Floats:
        """Return a curvature with the penalty, and with the term that selects one of several equal minima."""
        shared = int(self.model.shared.sum())
        factor = self.totals[agent, 0] * self.model.family.penalty_factor(self.scale[agent])
        whole = curvature.copy()
        whole[:shared, :shared] = regularized(self.model, curvature[:shared, :shared], factor)
        return whole

    def _parameters(self, agent: int) -> float:
        """Return the effective number of parameters."""
        kept = self._support(agent)
        kept = kept & (np.arange(len(kept)) < self.model.shared.sum())
        part = np.ix_(kept, kept)
        whole = self._whole(agent, self.expected[agent])[part]
        shared = float(np.trace(np.linalg.solve(whole, self.expected[agent][part])))
        own = 0.0 if self.model.local is None else self.model.local.sum() * round(self.totals[agent, 1])
        return (shared if np.any(self.model.penalty) else round(shared)) + own

    def _sum(self, agent: int) -> Totals:
        rows, _, *figures = self.totals[agent].tolist()
        return Totals(rows, *figures)

    def _null(self, exchange: Consensus) -> tuple[Floats, str]:
        """Return the deviance of an intercept alone, or the reason why it does not exist."""
        family: Family = self.model.family.at_scale(float(self.scale[0]))
        if not family.density:
            return np.full(len(self.data), np.nan), ""
        model = Model(family, np.zeros(family.outputs), ["intercept"] * family.outputs, intercept=True)
        data = [rows._replace(x=np.empty((len(rows.y), 0))) for rows in self.data]
        try:
            *_, last = newton(model, data, exchange, tolerance=1e-9, most=100)
        except InvalidInput:
            return np.full(
                len(data), np.nan
            ), "an intercept alone has no finite estimate, so there is no null deviance"
        sums = np.array(
            [agent_sums(model, rows, at).totals[2] for rows, at in zip(data, last.theta, strict=True)]
        )
        return exchange.agents * exchange.average(sums[:, None], _ACCURACY)[:, 0], ""

    def covariances(self, agent: int) -> tuple[Floats, Floats]:
        """Return (p, p) model-based and robust covariances of one agent's parameters and dispersion, or NaN."""
        sums, kept = self.sums[agent], self._support(agent)
        part, covariances = np.ix_(kept, kept), []
        expected, dispersion = self.expected[agent], self.dispersion[agent]
        for curvature, middle, own, own_middle in (
            (expected, dispersion * expected, sums.own_expected, dispersion * sums.own_curvature),
            (self.observed[agent], self.squares[agent], sums.own_observed, sums.own_squares),
        ):
            inverse = np.zeros_like(curvature)
            inverse[part] = invert(self._whole(agent, curvature)[part]).matrix
            covariance = inverse @ middle @ inverse
            if own is not None:
                covariance = _with_own(covariance, inverse, own, own_middle)
            if self.model.intercept:
                back = shift(self.center, self.model.family.outputs, len(covariance))
                covariance = back @ covariance @ back.T
            covariances.append(covariance)
        nothing = np.full_like(covariances[0], np.nan)
        if self.model.lasso is not None:
            return nothing, nothing
        return covariances[0] if self.model.family.density else nothing, covariances[1]

    def summary(self, agent: int, site: object, level: float, robust: bool | None) -> Summary:
        """Return the summary of one agent."""
        model, family = self.model, self.model.family
        covariance, robust_covariance = self.covariances(agent)
        names, estimates = list(model.names), self.theta[agent]
        if family.estimates_dispersion:
            names, estimates = [*names, "dispersion"], np.append(estimates, self.scale[agent])
        notes = [self.reason] if self.reason else []
        if np.any(model.penalty):
            notes.append("the penalty biases estimates, which standard errors do not show")
        if model.lasso is not None:
            notes.append("a lasso chooses parameters by the data, so there are no standard errors")
        totals, density = self._sum(agent), family.density
        if np.isnan(self.dispersion[agent]):
            notes.append(
                "there are not more rows than parameters, so there is no dispersion and no standard error"
            )
        return Summary(
            agent=agent,
            site=site,
            family=family.name,
            names=names,
            estimates=estimates,
            standard_errors=np.sqrt(np.diag(covariance)),
            robust_errors=np.sqrt(np.diag(robust_covariance)),
            robust=not family.density if robust is None else bool(robust),
            level=level,
            covariance=covariance,
            robust_covariance=robust_covariance,
            rows=totals.rows,
            parameters=float(self.parameters[agent]),
            estimated_scales=int(family.estimates_dispersion),
            intercepts=int(model.intercept),
            student=family.student,
            dispersion=float(self.scale[agent] if family.estimates_dispersion else self.dispersion[agent]),
            deviance=totals.deviance if density else np.nan,
            null_deviance=float(self.null_deviance[agent]),
            pearson=totals.pearson if density else np.nan,
            log_likelihood=totals.log_likelihood(
                family.at_scale(float(self.scale[agent])), float(self.dispersion[agent])
            ),
            rounds=self.rounds,
            bytes=self.bytes,
            note="; ".join(notes),
        )
