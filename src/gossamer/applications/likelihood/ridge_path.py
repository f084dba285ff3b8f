"""The ridge penalty with the best predictions: cross-validation or generalized cross-validation over the network.

In cross-validation every agent divides its own rows into folds. For each penalty and fold the agents fit the other rows
together, and average the deviance of the omitted ones; no row leaves its owner. Generalized cross-validation fits each
penalty once, and averages the deviance D and the curvature A (p(p+1)/2 numbers) instead,

    score = (D / n) / (1 - k / n)^2,     k = tr (A + penalty)^{-1} A, the effective number of parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from gossamer import checks, plotting
from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.likelihood.directions import regularized
from gossamer.applications.likelihood.fits import Fit
from gossamer.applications.likelihood.inference import agent_sums
from gossamer.applications.likelihood.newton import newton
from gossamer.applications.likelihood.rows import AgentRows, Model
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, Unsupported
from gossamer.least_squares import pack, unpack
from gossamer.results import Record, Result

if TYPE_CHECKING:
    from gossamer.applications.likelihood.stored_rows import StoredRows
    from gossamer.plotting import Panels

RULES = ("cv", "gcv")
RIDGES = tuple(np.geomspace(10.0, 1e-5, 13).tolist())
"""The penalties to try by default."""

_ACCURACY = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RidgePath(Result):
    """Scores of ridge penalties, and the fit with the best one.

    by      "cv" or "gcv"
    ridges  the penalties, from large to small
    scores  the expected deviance per new row; NaN if the fit does not exist
    stderr  the standard error of each score over folds; NaN for "gcv"
    fit     the fit with the best penalty
    rounds, bytes   the cost of choosing, without that fit
    """

    by: str
    ridges: Floats
    scores: Floats
    stderr: Floats
    fit: Fit
    rounds: int
    bytes: int

    shown = ("ridge", "score", "stderr")

    @property
    def title(self) -> str:
        return f"ridge by {self.by} on {self.fit.network.name}"

    @property
    def best(self) -> float:
        """The penalty with the smallest score."""
        return float(self.ridges[np.nanargmin(self.scores)])

    def records(self) -> list[Record]:
        return [
            {
                "ridge": ridge,
                **{k: v if np.isfinite(v) else None for k, v in (("score", score), ("stderr", error))},
            }
            for ridge, score, error in zip(
                self.ridges.tolist(), self.scores.tolist(), self.stderr.tolist(), strict=True
            )
        ]

    def plot(self, ax: Panels | None = None) -> Panels:
        """Plot the score against the penalty."""
        axes = plotting.axes_for([self.title], ax)
        panel = axes[0]
        panel.errorbar(self.ridges, self.scores, yerr=np.nan_to_num(self.stderr), fmt="o-", capsize=3)
        panel.axvline(self.best, color="0.6", linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xlabel("ridge")
        panel.set_ylabel("deviance per row")
        return axes


def ridge_path(rows: StoredRows, by: str, ridges: Sequence[float] | None, folds: int, seed: int) -> RidgePath:
    """See `LikelihoodEstimation.ridge_path`."""
    checks.choice("by", by, RULES)
    if not rows.model.family.density or rows.model.family.scale_terms:
        raise Unsupported(
            f"scores are deviances, which the family {rows.model.family.name} does not have; give a number for ridge"
        )
    tried = np.array(
        sorted(
            {
                checks.number("ridges", ridge, least=0)
                for ridge in (RIDGES if ridges is None else checks.listed("ridges", ridges))
            },
            reverse=True,
        )
    )
    exchange = Consensus(rows.network)
    with threadpool_limits(1, user_api="blas"):
        if by == "gcv":
            scores = np.array(
                [_generalized(*args, exchange) for args in _fits(rows, rows.data, tried, exchange)]
            )
            stderr = np.full(len(tried), np.nan)
        else:
            parts = list(_folds(rows.data, checks.whole_number("folds", folds, least=2), checks.seed(seed)))
            # (folds, ridges, 2)
            table = np.array([_left_out(rows, *part, tried, exchange) for part in parts])
            scores = table[..., 0].sum(axis=0) / table[..., 1].sum(axis=0)
            stderr = np.std(table[..., 0] / table[..., 1], axis=0, ddof=1) / np.sqrt(len(parts))
    if np.isnan(scores).all():
        raise InvalidInput("no penalty has a finite fit; give larger ones in `ridges`")
    best = float(tried[np.nanargmin(scores)])
    return RidgePath(
        by=by,
        ridges=tried,
        scores=scores,
        stderr=stderr,
        fit=rows.with_ridge(best).fit(),
        rounds=exchange.rounds,
        bytes=exchange.bytes,
    )


_Step = tuple[Model, Sequence[AgentRows], Floats | None]


def _fits(
    rows: StoredRows, data: Sequence[AgentRows], ridges: Floats, exchange: Consensus
) -> Iterator[_Step]:
    """Return the model of every penalty with its parameters (N, p); each fit starts at the result of the one before."""
    theta = None
    for ridge in ridges:
        model = rows.with_ridge(float(ridge)).model
        try:
            *_, last = newton(model, data, exchange, tolerance=1e-9, most=200, start=theta)
        except InvalidInput:
            yield model, data, None
        else:
            theta = last.theta
            yield model, data, theta


def _generalized(model: Model, data: Sequence[AgentRows], theta: Floats | None, exchange: Consensus) -> float:
    """Return the score of generalized cross-validation at the first agent."""
    if theta is None:
        return np.nan
    sums = [agent_sums(model, part, at) for part, at in zip(data, theta, strict=True)]
    own = np.stack([np.concatenate([s.totals[:3], pack(s.expected)]) for s in sums])
    held = exchange.agents * exchange.average(own, _ACCURACY)[0]
    count, agents, deviance = held[0], held[1], held[2]
    curvature = unpack(held[3:], len(sums[0].expected))
    size = float(np.trace(np.linalg.solve(regularized(model, curvature, count), curvature)))
    if model.local is not None:
        size += model.local.sum() * agents
    return float(deviance / count / (1 - size / count) ** 2)


def _folds(
    data: Sequence[AgentRows], folds: int, seed: int
) -> Iterator[tuple[list[AgentRows], list[AgentRows]]]:
    """Return every agent's rows of all folds but one, and its rows of that one."""
    dealt = [np.random.default_rng([seed, i]).permutation(len(rows.y)) % folds for i, rows in enumerate(data)]
    for k in range(folds):
        kept = [rows.where(fold != k) for rows, fold in zip(data, dealt, strict=True)]
        yield kept, [rows.where(fold == k) for rows, fold in zip(data, dealt, strict=True)]


def _left_out(
    rows: StoredRows, kept: list[AgentRows], left: list[AgentRows], ridges: Floats, exchange: Consensus
) -> Floats:
    """Return (ridges, 2) the deviance and number of omitted rows, at the first agent."""
    losses = np.full((len(ridges), 2), np.nan)
    for k, (model, _, theta) in enumerate(_fits(rows, kept, ridges, exchange)):
        if theta is not None:
            own = [agent_sums(model, part, at).totals[[2, 0]] for part, at in zip(left, theta, strict=True)]
            losses[k] = exchange.average(np.stack(own), _ACCURACY)[0]
    return losses
