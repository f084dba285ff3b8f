"""Models as a running least-squares problem whose sums the agents of a network average, in many trials at once.

`models.py` defines the sums and how to read them. The network averages the sums of each round. After the rounds in
`looks`, every agent whose linearization error is large enough moves its samples toward its estimate. It adds the change
to its next observation, so that its running mean is that of all samples as they are linearized now; any averaging
method does the rest. The samples of at least the last `MEMORY` rounds are kept for that. Older ones are discarded once
the estimates are accurate; if they no longer fit, the linearization error shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gossamer.applications.likelihood import kernels
from gossamer.arrays import Booleans, Floats
from gossamer.families import Family
from gossamer.models import (
    FAR,
    PUBLISHED,
    SETTLED,
    Judgement,
    SumLayout,
    judge,
    leveraged,
    moved,
    next_look,
    on_their_way,
    placed,
    spreads_of,
)

if TYPE_CHECKING:
    from gossamer.applications.likelihood.estimation import LikelihoodEstimation

MEMORY = 1024
"""Number of rounds of samples that simulations keep to be linearized again."""

PATIENCE = 4
"""Largest multiple of the memory that is kept while there is no accurate estimate."""

_WORTH = 0.005
"""Linearization error, in standard errors, above which samples are moved."""

_BLOCK = 1 << 15
"""Size of the arrays of a block of samples, chosen so that intermediate results stay in the cache."""


def looks(rounds: int) -> Iterator[int]:
    """Return the rounds, up to this one, after which agents examine their estimates."""
    age = 1
    while age <= rounds:
        yield age
        age = next_look(age)


class KeptSamples(NamedTuple):
    """Samples, and the predictors at which they are linearized."""

    x: Floats  #: (samples, width, N, B)
    y: Floats  #: (samples, N, B)
    weights: Floats  #: (samples, N, B)
    predictors: Floats  #: (m, samples, N, B)

    def part(self, some: slice) -> KeptSamples:
        return KeptSamples(self.x[some], self.y[some], self.weights[some], self.predictors[:, some])


class Linearizer:
    """The samples of all agents in B trials side by side, their predictors, and the resulting observations."""

    def __init__(
        self,
        problem: LikelihoodEstimation,
        lanes: int,
        *,
        errors: bool = False,
        memory: int = MEMORY,
        every: int = 1,
    ) -> None:
        self.family = problem.family
        self.layout = SumLayout(problem.size, problem.intercepts, meat=errors)
        self.penalty = problem.penalty
        agents = problem.network.agents
        self.reference = np.zeros((problem.size, agents, lanes))
        self.referred = np.zeros((agents, lanes), dtype=bool)  # whether there is a reference
        self.careful = np.ones((agents, lanes), dtype=bool)
        self.good = np.zeros((agents, lanes), dtype=bool)  # whether samples may be discarded
        # Whether new samples are linearized at the reference, now and from the next look on.
        self.near = self._nearing = self.good
        self._reach = np.zeros((agents, lanes))  # the largest predictor of an agent's samples
        self._memory, self._every = memory, every  # both in rounds; a group of samples covers `every` rounds
        self._kept: list[KeptSamples] = []
        self._count = 0  # number of samples that are kept
        self._held = np.zeros((self.layout.components, agents, lanes))  # the sums over them
        self._change = np.zeros_like(self._held)
        # The inverse of the mean curvature of all samples, and the number of these samples.
        self._inverse = np.zeros((agents, lanes, problem.size, problem.size))
        self._rows = np.ones((agents, lanes))

    def observe(
        self, x: Floats, y: Floats, weights: Floats, group: int = 1, present: Booleans | None = None
    ) -> Floats:
        """Return (rounds, n, N, B) the observations of rounds with `group` samples each.

        x (samples, width, N, B), y (samples, N, B), weights (samples, N): 1, or 0 if an agent has no sample;
        present (rounds, N): whether an agent takes part in a round, so that its observation counts.
        """
        weights = weights[..., None] * np.ones(y.shape)
        predictors = target = self._predict(x)
        if not self.near.all():
            before = [(kept.y, kept.weights) for kept in self._kept]
            seen = np.concatenate([np.where(w > 0, labels, np.nan) for labels, w in [*before, (y, weights)]])
            start = self.family.start(y, seen)
            begun = np.where(self.referred, placed(self.family, predictors, y, self._reach), start)
            predictors = np.where(self.near, predictors, begun)
        new = KeptSamples(x, y, weights, predictors)
        observations = self._sums(new, target, group)
        if weights.any():
            self._keep(new)
            self._held += observations.sum(axis=0)
            self._let_go(group)
        if present is None:
            present = np.ones((len(observations), len(self._reach)), dtype=bool)
        active = np.flatnonzero(present.any(axis=0))
        observations[present.argmax(axis=0)[active], :, active] += np.swapaxes(self._change[:, active], 0, 1)
        self._change[:, active] = 0.0
        return observations

    def take_change(self) -> Floats:
        """Return the (N, n) change of the sums of the first trial since the last call."""
        change, self._change = self._change[:, :, 0], np.zeros_like(self._change)
        return change.T

    def fade(self, factor: float) -> None:
        """Reduce the weight of all samples so far."""
        self._held *= factor ** self.layout.powers[:, None, None]
        self._change *= factor ** self.layout.powers[:, None, None]
        for kept in self._kept:
            kept.weights[:] *= factor

    def _keep(self, new: KeptSamples) -> None:
        """Append samples, to the last block if they fit in."""
        last, agents, lanes = self._kept[-1:], *self._reach.shape
        if last and (len(last[0].y) + len(new.y)) * agents * lanes > _BLOCK:
            last = []
        x, y, weights = (np.concatenate([kept[k] for kept in (*last, new)]) for k in range(3))
        predictors = np.concatenate([kept.predictors for kept in (*last, new)], axis=1)
        self._kept[len(self._kept) - len(last) :] = [KeptSamples(x, y, weights, predictors)]
        self._count += len(new.y)

    def _let_go(self, group: int) -> None:
        memory = -(-self._memory * group // self._every)
        most = memory * (1 if self.good.all() else PATIENCE)
        if self._count <= most + most // 8:  # many at a time, because a part of a block is copied
            return
        while self._count > memory:
            oldest = self._kept.pop(0)
            extra = min(self._count - memory, len(oldest.y))
            gone, rest = oldest.part(slice(0, extra)), oldest.part(slice(extra, None))
            self._held -= self._sums(gone, self._predict(gone.x), extra)[0]
            self._count -= extra
            if len(rest.y):
                self._kept.insert(0, KeptSamples(*(a.copy() for a in rest)))

    def look(self, judgement: Judgement) -> None:
        """Move the samples of agents toward their estimates (N, B, p), if the linearization error is large enough."""
        near = judgement.ready & (judgement.linearization <= FAR)
        self.near, self._nearing = near & self._nearing, near
        self.good = self.near & (judgement.linearization <= PUBLISHED)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.abs((judgement.theta - np.moveaxis(self.reference, 0, 2)) / judgement.errors).max(
                axis=-1
            )
        worth = (
            (judgement.linearization > _WORTH) | self.family.jumps | ~(step <= SETTLED / 4) | ~self.referred
        )
        move = judgement.ready & judgement.enough(self.penalty) & worth
        if not move.any():
            return
        self.careful = np.where(move, judgement.linearization > FAR, self.careful)
        self.reference = np.where(move, np.moveaxis(judgement.theta, 2, 0), self.reference)
        self.referred = self.referred | move
        self._inverse = np.where(move[..., None, None], judgement.inverse, self._inverse)
        self._rows = np.where(move, judgement.rows, self._rows)
        again, reach = np.zeros_like(self._held), np.zeros_like(self._reach)
        for k, kept in enumerate(self._kept):
            target = self._predict(kept.x)
            new = moved(self.family, kept.predictors, target, kept.y)
            predictors = new if move.all() else np.where(move, new, kept.predictors)
            self._kept[k] = kept._replace(predictors=predictors)
            if not self.near.all():
                reach = np.maximum(reach, np.abs(predictors).max(axis=(0, 1)))
            again += self._sums(self._kept[k], target, len(kept.y))[0]
        self._change += again - self._held
        self._held, self._reach = again, reach

    def judge(self, held: Floats, share: Floats | float) -> Judgement:
        """Return the estimates from the agents' averages (n, N, B), and their accuracy; for `share` see
        `models.judge`."""
        return judge(
            self.layout,
            np.moveaxis(held, 0, 2),
            np.moveaxis(self.reference, 0, 2),
            self.penalty,
            share,
            self.family.sharpness,
        )

    def _predict(self, x: Floats) -> Floats:
        return predictors_of(self.family, x, self.reference)

    def _sums(self, kept: KeptSamples, target: Floats, group: int) -> Floats:
        if not self.referred.all():
            target = np.where(self.referred, target, kept.predictors)
        known = self._inverse, self._rows
        return linearized(self.family, self.layout, kept, group, self.careful, target, known)


def predictors_of(family: Family, x: Floats, theta: Floats) -> Floats:
    """Return (m, samples, N, B) the predictors of samples x (samples, width, N, B) by every agent's theta (p, N, B)."""
    predictors = np.empty((family.outputs, len(x), *x.shape[2:]))
    samples, width = x.shape[:2]
    kernels.predict(
        predictors.reshape(len(predictors), samples, -1),
        x.reshape(samples, width, -1),
        theta.reshape(len(theta), -1),
    )
    return predictors


def linearized(
    family: Family,
    layout: SumLayout,
    kept: KeptSamples,
    group: int,
    careful: Booleans | bool,
    target: Floats | None = None,
    known: tuple[Floats, Floats] | None = None,
) -> Floats:
    """Return (samples / group, n, N, B) the averaged sums over groups of samples whose predictors move toward the
    target; for `known` see `models.row_sums`."""
    x, y, weights, predictors = kept
    samples, agents, lanes = y.shape
    slopes, bends = family.slopes(predictors, y), family.careful_curvatures(predictors, y, careful)
    out = np.zeros((samples // group, layout.components, agents, lanes))

    def flat(array: Floats) -> Floats:
        return array.reshape(*array.shape[:-2], -1)

    def grouped(values: Floats) -> Floats:
        return np.asarray(values.reshape(-1, group, agents, lanes).sum(axis=1))

    rows, lane_weights = flat(x), flat(weights)
    kernels.add_sums(flat(out), rows, lane_weights, flat(predictors), flat(slopes), flat(bends), group)
    if target is not None and np.any(target != predictors):
        out[:, 3] = grouped(on_their_way(family, predictors, target, y, slopes) * weights)
    if layout.meat:
        out[:, layout.plain] = grouped((np.abs(slopes).max(axis=0) > 0.5) * weights)
        out[:, layout.plain + 1] = grouped(weights**2)
        if known is not None:
            by_agent, last = np.moveaxis(slopes, 1, -1), np.moveaxis(bends * weights, 2, -1)  # samples last
            covariates = np.transpose(x, (2, 3, 0, 1))
            by_agent = leveraged(covariates, by_agent, last, *known)
            slopes = np.moveaxis(by_agent, -1, 1)
            spreads = spreads_of(covariates, by_agent * np.moveaxis(weights, 0, -1), last, known[0])
            spreads = spreads.reshape(2 * layout.size, agents, lanes, -1, group).sum(axis=-1)
            out[:, layout.spreads : layout.spreads + 2 * layout.size] = np.moveaxis(spreads, -1, 0)
        squares = flat(slopes[:, None] * slopes)
        kernels.add_products(flat(out), rows, lane_weights**2, squares, layout.plain + 2, group)
    return out
