"""Samples as a running least squares: what the agents of a network average to fit a model, in many trials at once.

`models.py` states the sums and what they say. The network averages the sums of each round. At `looks`, every agent
whose error of linearization is worth it moves its samples toward its estimate; the change is added to its next
observation, so that its running mean is that of all samples as they are linearized now, and any method that averages
does the rest. The samples of the last `MEMORY` rounds or more are kept for that; older ones are let go once the
estimates are good, and if they ever cease to fit, the error of linearization shows it.
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
    FIRST,
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
)

if TYPE_CHECKING:
    from gossamer.applications.likelihood.estimation import LikelihoodEstimation

MEMORY = 1024
"""How many rounds of samples simulations keep, to be linearized again."""

PATIENCE = 4
"""How many times as many are kept, at most, while there is no good estimate."""

_WORTH = 0.005
"""An error of linearization, in standard errors, for which samples are moved."""


def looks(rounds: int) -> Iterator[int]:
    """The rounds, up to this one, after which agents look at their estimates."""
    age = 1
    while age <= rounds:
        yield age
        age = next_look(age)


class KeptSamples(NamedTuple):
    """Samples, and the predictors at which they are linearized."""

    x: Floats  #: (samples, N, width, B)
    y: Floats  #: (samples, N, B)
    weights: Floats  #: (samples, N)
    predictors: Floats  #: (m, samples, N, B)

    def part(self, some: slice) -> KeptSamples:
        return KeptSamples(self.x[some], self.y[some], self.weights[some], self.predictors[:, some])


class Linearizer:
    """The samples of all agents in B trials side by side: their predictors, and what is observed of them."""

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
        self.reference = np.zeros((agents, problem.size, lanes))
        self.referred = np.zeros((agents, lanes), dtype=bool)  # whether there is a reference
        self.careful = np.ones((agents, lanes), dtype=bool)
        self.good = np.zeros((agents, lanes), dtype=bool)  # whether samples may be let go
        self.near = self._nearing = (
            self.good
        )  # whether new samples are linearized at the reference; at the next look
        self._reach = np.zeros((agents, lanes))  # the largest predictor of an agent's samples
        self._memory, self._every = memory, every  # in rounds, and of how many a group of samples is
        self._kept: list[KeptSamples] = []
        self._count = 0  # samples that are kept
        self._held = np.zeros((agents, self.layout.components, lanes))  # the sums over them
        self._change = np.zeros_like(self._held)
        self._inverse = np.zeros(
            (agents, lanes, problem.size, problem.size)
        )  # of the curvature of all samples

    def observe(
        self, x: Floats, y: Floats, weights: Floats, group: int = 1, present: Booleans | None = None
    ) -> Floats:
        """(rounds, N, n, B): the observations of rounds of `group` samples each.

        x (samples, N, width, B), y (samples, N, B), weights (samples, N): 1, or 0 where an agent has no sample;
        present (rounds, N): whether an agent takes part in a round, and its observation counts.
        """
        predictors = np.empty((self.family.outputs, *y.shape))
        kernels.predict(predictors, x, self.reference)
        if not self.near.all():
            before = [(kept.y, kept.weights) for kept in self._kept[:1]]
            seen = np.concatenate(
                [np.where(w[..., None] > 0, labels, np.nan) for labels, w in [*before, (y, weights)]]
            )
            start = self.family.start(y, seen)
            begun = np.where(self.referred, placed(self.family, predictors, y, self._reach), start)
            predictors = np.where(self.near, predictors, begun)
        new = KeptSamples(x, y, weights, predictors)
        observations = self._sums(new, group)
        if weights.any():
            self._kept.append(KeptSamples(x.copy(), y.copy(), weights.copy(), predictors))
            self._count += len(y)
            self._held += observations.sum(axis=0)
            self._let_go(group)
        if present is None:
            present = np.ones((len(observations), len(self._change)), dtype=bool)
        told = np.flatnonzero(present.any(axis=0))
        observations[present.argmax(axis=0)[told], told] += self._change[told]
        self._change[told] = 0.0
        return observations

    def told(self) -> Floats:
        """(N, n) by how much the sums of the first trial have changed since the last time, and forget it."""
        change, self._change = self._change[:, :, 0], np.zeros_like(self._change)
        return change

    def fade(self, factor: float) -> None:
        """Let all samples so far count less."""
        self._held *= factor ** self.layout.powers[:, None]
        self._change *= factor ** self.layout.powers[:, None]
        for kept in self._kept:
            kept.weights[:] *= factor

    def _let_go(self, group: int) -> None:
        memory = -(-self._memory * group // self._every)
        most = memory * (1 if self.good.all() else PATIENCE)
        if self._count <= most + most // 8:  # many at a time, because all that stay are copied
            return
        whole = self._together()
        extra = self._count - memory
        self._held -= self._sums(whole.part(slice(0, extra)), extra)[0]
        self._kept = [KeptSamples(*(a.copy() for a in whole.part(slice(extra, None))))]
        self._count = memory

    def _together(self) -> KeptSamples:
        if len(self._kept) > 1:
            x, y, weights = (np.concatenate([kept[k] for kept in self._kept]) for k in range(3))
            self._kept = [
                KeptSamples(x, y, weights, np.concatenate([k.predictors for k in self._kept], axis=1))
            ]
        return self._kept[0]

    def look(self, found: Judgement) -> None:
        """Move the samples of agents toward their estimates (N, B, p), where these are worth it."""
        near = found.ready & (found.linearization <= FAR)
        self.near, self._nearing = near & self._nearing, near
        self.good = self.near & (found.linearization <= PUBLISHED)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.abs((found.theta - np.moveaxis(self.reference, 1, 2)) / found.errors).max(axis=-1)
        worth = (found.linearization > _WORTH) | self.family.jumps | ~(step <= SETTLED / 4)
        move = found.ready & found.enough(self.penalty) & worth
        if not move.any():
            return
        self.careful = np.where(move, found.linearization > FAR, self.careful)
        theta = np.where(move[:, None], np.swapaxes(found.theta, 1, 2), self.reference)
        self.reference = np.ascontiguousarray(theta)
        self.referred = self.referred | move
        rows = np.where(move, found.rows, 1.0)[..., None, None]
        self._inverse = np.where(move[..., None, None], found.inverse / rows, self._inverse)
        if not self._count:
            return
        kept = self._together()
        target = np.empty_like(kept.predictors)
        kernels.predict(target, kept.x, self.reference)
        kept.predictors[:] = np.where(
            move, moved(self.family, kept.predictors, target, kept.y), kept.predictors
        )
        self._reach = np.abs(kept.predictors).max(axis=(0, 1))
        again = self._sums(kept, self._count)[0]
        self._change += again - self._held
        self._held = again

    def judge(self, held: Floats, share: Floats | float) -> Judgement:
        """What the agents' averages say, (N, n, B), and how good it is; for `share` see `models.judge`."""
        return judge(
            self.layout,
            np.moveaxis(held, 1, 2),
            np.moveaxis(self.reference, 1, 2),
            self.penalty,
            share,
            self.family.sharpness,
        )

    def _sums(self, kept: KeptSamples, group: int) -> Floats:
        target = np.empty_like(kept.predictors)
        kernels.predict(target, kept.x, self.reference)
        target = np.where(self.referred, target, kept.predictors)
        return linearized(self.family, self.layout, kept, group, self.careful, target, self._inverse)


def linearized(
    family: Family,
    layout: SumLayout,
    kept: KeptSamples,
    group: int,
    careful: Booleans | bool,
    target: Floats | None = None,
    inverse: Floats | None = None,
) -> Floats:
    """(samples / group, N, n, B): the sums over groups of samples, on their way to the target, of what is averaged; for
    `inverse` see `models.leveraged`."""
    x, y, weights, predictors = kept
    samples, agents, _, lanes = x.shape
    slopes = family.slopes(predictors, y)
    curvatures = family.careful_curvatures(predictors, y, careful) * weights[:, :, None]
    shifted = (curvatures * predictors).sum(axis=1)
    out = np.zeros((samples // group, agents, layout.components, lanes))

    def grouped(values: Floats) -> Floats:
        return np.asarray(values.reshape(-1, group, agents, lanes).sum(axis=1))

    out[:, :, 0] = weights.reshape(-1, group, agents).sum(axis=1)[..., None]
    out[:, :, 1] = grouped(np.einsum("aa...->...", curvatures))
    out[:, :, 2] = grouped((shifted * predictors).sum(axis=0))
    if target is not None:
        way = on_their_way(family, predictors, target, y, slopes)
        out[:, :, 3] = grouped(way * weights[:, :, None])
    kernels.respond(out, x, shifted, FIRST, group)
    kernels.respond(out, x, slopes * weights[:, :, None], FIRST + layout.size, group)
    kernels.linearize(out, x, curvatures, layout.curved, group)
    if layout.meat:
        out[:, :, layout.plain] = grouped((np.abs(slopes).max(axis=0) > 0.5) * weights[:, :, None])
        squares = weights**2
        if inverse is not None:
            by_agent, bends = np.moveaxis(slopes, 1, -1), np.moveaxis(curvatures, 2, -1)  # samples last
            by_agent = leveraged(np.transpose(x, (1, 3, 0, 2)), by_agent, bends, inverse)
            slopes = np.ascontiguousarray(np.moveaxis(by_agent, -1, 1))
        out[:, :, layout.plain + 1] = squares.reshape(-1, group, agents).sum(axis=1)[..., None]
        kernels.linearize(out, x, slopes[:, None] * slopes * squares[:, :, None], layout.plain + 2, group)
    return out
