"""The rows of one agent, and the sums over them that a fit needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from gossamer.arrays import Booleans, Floats
from gossamer.families import Family
from gossamer.least_squares import curvature_of
from gossamer.numerics.threads import spread

Answer = TypeVar("Answer")


class AgentRows(NamedTuple):
    """One agent's rows.

    x        (n, d) covariates, without a column for the intercept
    y        (n,) labels
    weights  (n,) the weight of each row, above 0, or None if all weights are 1
    offset   (n,) added to each row's predictors, or None
    """

    x: Floats
    y: Floats
    weights: Floats | None = None
    offset: Floats | None = None

    @property
    def total(self) -> float:
        """The sum of the weights of the rows."""
        return float(len(self.y) if self.weights is None else self.weights.sum())

    def weighted(self, values: Floats) -> Floats:
        """Return (..., n) values of rows times their weights."""
        return values if self.weights is None else values * self.weights

    def where(self, kept: Booleans) -> AgentRows:
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[kept]
        return AgentRows(
            self.x[kept], self.y[kept], weights, None if self.offset is None else self.offset[kept]
        )

    @classmethod
    def together(cls, data: Sequence[AgentRows]) -> AgentRows:
        """Return the rows of all agents in one table."""

        def joined(parts: Sequence[Floats | None], absent: float) -> Floats | None:
            if all(part is None for part in parts):
                return None
            whole = [
                np.full(len(rows.y), absent) if part is None else part
                for part, rows in zip(parts, data, strict=True)
            ]
            return np.concatenate(whole)

        x, y, weights, offset = zip(*data, strict=True)
        return cls(np.concatenate(x), np.concatenate(y), joined(weights, 1.0), joined(offset, 0.0))


class Model(NamedTuple):
    """The model to fit.

    family     the loss
    penalty    (p,) the ridge penalty of each parameter
    names      (p,) the names of the parameters
    intercept  whether the last parameter of each predictor is an intercept
    lasso      (p,) the lasso penalty of each parameter, or None
    local      (p,) which parameters are local to each agent, or None
    """

    family: Family
    penalty: Floats
    names: Sequence[str]
    intercept: bool = False
    lasso: Floats | None = None
    local: Booleans | None = None

    @property
    def free(self) -> Booleans:
        """(p,) which parameters have no penalty."""
        return np.asarray((self.penalty == 0) & (True if self.lasso is None else self.lasso == 0))

    @property
    def shared(self) -> Booleans:
        """(p,) which parameters all agents share."""
        return np.ones(len(self.penalty), dtype=bool) if self.local is None else ~self.local

    @property
    def free_sums(self) -> bool:
        """Whether adding a constant to all predictors changes nothing, so that only the penalty determines it."""
        return self.family.symmetric_predictors

    def predictors(self, theta: Floats, x: Floats) -> Floats:
        """Return the (m, n) predictors of the rows x."""
        by_output = theta.reshape(self.family.outputs, -1)
        if not self.intercept:
            return np.asarray(by_output @ x.T)
        predictors = np.asarray(by_output[:, :-1] @ x.T)
        predictors += by_output[:, -1:]
        return predictors

    def gradient(self, slopes: Floats, x: Floats) -> Floats:
        """Return (p,) the sum over rows of the slopes (m, n) times the covariates."""
        sums = slopes @ x
        return (
            np.append(sums, slopes.sum(axis=1)[:, None], axis=1).ravel() if self.intercept else sums.ravel()
        )

    def curvature(self, bends: Floats, x: Floats) -> Floats:
        """Return (p, p) the sum over rows of the curvatures (m, m, n) times x x'."""
        return curvature_of(x, bends, intercept=self.intercept)

    def diagonal(self, bends: Floats, x: Floats) -> Floats:
        """Return (p,) the diagonal of `curvature`."""
        own = np.einsum("aan->an", bends)
        return self.gradient(own, x * x)


def spread_over(work: Callable[..., Answer], *items: Iterable[object]) -> list[Answer]:
    """Return list(map(work, *items)), computed on several threads."""
    tasks = list(zip(*items, strict=True))
    answers: dict[int, Answer] = {}

    def one(k: int) -> None:
        answers[k] = work(*tasks[k])

    spread(one, len(tasks))
    return [answers[k] for k in range(len(tasks))]
