"""Samples as a running least squares: what the agents of a network average to fit a model.

A sample (x, y) of agent i, linearized at the predictor eta = x'r_i of the agent's reference r_i, contributes

    curvature         A = l''(eta) x x'
    pseudo-response   b = (l''(eta) eta - l'(eta)) x

(with several predictors, Kronecker products of these). The network averages the sums of each round; an agent that holds
the averages (A, b) solves A theta = b, a Newton step for everybody's samples. Four rules make it as good as the maximum
likelihood estimate of all samples:

- Whenever its age in rounds has doubled, an agent takes its estimate as its reference, and linearizes the samples of
  its first `MEMORY` rounds again. The change is added to its next observation, so that its running mean is that of all
  samples as they are linearized now, and any method that averages does the rest. Later samples are linearized once, at
  a reference that is good by then.
- Until an agent knows all directions, a sample is linearized at what its label alone suggests (`Family.start`).
- A sample is not linearized where its label would be implausible (`Family.plausible`).
- A direction is known when its share of the curvature, with covariates centered (if there is an intercept) and scaled
  alike, is more than 2/t after t rounds. An agent that does not know all of them withholds its estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gossamer.applications.likelihood import kernels
from gossamer.applications.linear.sensors import unpack
from gossamer.arrays import Booleans, Floats
from gossamer.families import Family, centering

if TYPE_CHECKING:
    from gossamer.applications.likelihood.estimation import LikelihoodEstimation

MEMORY = 256
"""The samples of so many rounds are kept, to be linearized again: until the network has mixed, references are poor."""


def refreshes(rounds: int) -> bool:
    """Whether references are renewed after so many rounds: 1, 2, 4, 8, ..."""
    return rounds > 0 and rounds & (rounds - 1) == 0


class SampleLayout(NamedTuple):
    """Where the averaged numbers lie: curvature and pseudo-response; for standard errors also squared scores, how many
    labels contradict their predictor, and how many samples there are."""

    size: int
    errors: bool

    @property
    def packed(self) -> int:
        return self.size * (self.size + 1) // 2

    @property
    def components(self) -> int:
        """How many numbers a message carries."""
        return self.packed + self.size + (self.packed + 2 if self.errors else 0)

    def curvature(self, held: Floats) -> Floats:
        """(..., p, p) from (..., n)."""
        return unpack(held[..., : self.packed], self.size)

    def response(self, held: Floats) -> Floats:
        return held[..., self.packed : self.packed + self.size]

    def scores(self, held: Floats) -> Floats:
        """(..., p, p) the mean over rounds of the sums of squared scores."""
        return unpack(held[..., self.packed + self.size : -2], self.size)

    def contradictions(self, held: Floats) -> Floats:
        """(...) samples per agent and round whose label is the less likely one: a slope above 1/2."""
        return held[..., -2]

    def counts(self, held: Floats) -> Floats:
        """(...) samples per agent and round."""
        return held[..., -1]


class Solved(NamedTuple):
    """What averages say: the estimates (..., p), and the directions that are known."""

    theta: Floats
    known: Booleans  #: (..., p) by direction
    directions: (
        Floats  #: (..., p, p) in columns: orthogonal for covariates that are centered and scaled alike
    )

    @property
    def ready(self) -> Booleans:
        return np.asarray(self.known.all(axis=-1))


def solve(
    curvature: Floats, response: Floats, reference: Floats, penalty: Floats, rounds: int, intercepts: int = 0
) -> Solved:
    """Solve curvature theta = response with penalty/2 theta^2, and stay at the reference along unknown directions.

    With intercepts, covariates are centered first, so that it does not matter how far from zero they are.
    """
    change = centering(curvature, intercepts) if intercepts else np.eye(penalty.shape[-1])
    whole = curvature + penalty[..., None] * np.eye(penalty.shape[-1])
    pull = np.einsum("...ji,...j->...i", change, response - np.einsum("...ij,...j->...i", whole, reference))
    whole = np.swapaxes(change, -2, -1) @ whole @ change
    diagonal = np.einsum("...ii->...i", whole)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled, pull = whole / scale[..., :, None] / scale[..., None, :], pull / scale
    finite = np.isfinite(scaled).all(axis=(-2, -1)) & np.isfinite(pull).all(axis=-1)
    values, vectors = np.linalg.eigh(np.where(finite[..., None, None], scaled, 0.0))
    known = values > max(2.0 / rounds, 1e-9)
    along = np.einsum("...ji,...j->...i", vectors, np.where(finite[..., None], pull, 0.0))
    directions = change @ (vectors / scale[..., :, None])
    step = np.einsum("...ij,...j->...i", directions, along * known / np.where(known, values, 1.0))
    return Solved(reference + step, known, directions)


def sandwich(layout: SampleLayout, held: Floats, penalty: Floats) -> Floats:
    """(..., p, p): A^{-1} J A^{-1} of what is held, (..., n): the variance of an estimate, but for one factor.

    That factor is the sum of the squared weights with which rounds of all agents count in an average, 1/(N t) if they
    count equally.
    """
    curvature = layout.curvature(held) + (penalty * layout.counts(held)[..., None])[..., None] * np.eye(
        layout.size
    )
    half = np.linalg.solve(curvature, layout.scores(held))
    return np.asarray(np.linalg.solve(curvature, np.swapaxes(half, -2, -1)))


class Linearizer:
    """The samples of all agents in B trials side by side: references, kept samples, and what is observed of them."""

    def __init__(self, problem: LikelihoodEstimation, lanes: int, *, errors: bool = False) -> None:
        self.family = problem.family
        self.layout = SampleLayout(problem.size, errors)
        agents = problem.network.agents
        self.penalty = problem.penalty
        self.intercepts = problem.intercepts
        self.reference = np.zeros((agents, problem.size, lanes))
        self.trusted = np.zeros((agents, lanes), dtype=bool)
        self._kept_x: list[Floats] = []
        self._kept_y: list[Floats] = []
        self._kept_weights: list[Floats] = []
        self._kept = 0
        self._held = np.zeros((agents, self.layout.components, lanes))
        self._change = np.zeros_like(self._held)
        self._samples = 0
        self._before = 1  # how many samples there were when references were last renewed

    def observe(self, x: Floats, y: Floats, weights: Floats, group: int = 1) -> Floats:
        """(rounds, N, n, B): the observations of rounds of `group` samples each.

        x (samples, N, width, B), y (samples, N, B), weights (samples, N): 1, or 0 where an agent has no sample.
        """
        observations = self._linearize(x, y, weights, group)
        self._samples += len(y)
        room = MEMORY - self._kept
        if room > 0 and weights.any():
            some = slice(0, room * group)
            self._kept_x.append(x[some].copy())
            self._kept_y.append(y[some].copy())
            self._kept_weights.append(weights[some])
            self._kept += len(observations[:room])
            self._held += observations[:room].sum(axis=0)
        observations[0] += self._change
        self._change[:] = 0.0
        return observations

    def refer(self, estimate: Solved) -> None:
        """Take these estimates (N, B, p) as references, and linearize the kept samples again."""
        self.trusted = estimate.ready
        theta = np.where(self.trusted[..., None], estimate.theta, 0.0)
        self.reference = np.ascontiguousarray(np.swapaxes(theta, 1, 2))
        self._before = max(1, self._samples)
        if not self._kept:
            return
        if len(self._kept_x) > 1:
            self._kept_x = [np.concatenate(self._kept_x)]
            self._kept_y = [np.concatenate(self._kept_y)]
            self._kept_weights = [np.concatenate(self._kept_weights)]
        x, y, weights = self._kept_x[0], self._kept_y[0], self._kept_weights[0]
        again = self._linearize(x, y, weights, len(y))[0]
        self._change += again - self._held
        self._held = again

    def solve(self, held: Floats, rounds: int, per_round: Floats | float) -> Solved:
        """Estimates from what the agents hold, (N, n, B), after some rounds with so many samples each."""
        held = np.moveaxis(held, 1, 2)
        reference = np.moveaxis(self.reference, 1, 2)
        penalty = self.penalty * np.broadcast_to(per_round, held.shape[:-1])[..., None]
        curvature, response = self.layout.curvature(held), self.layout.response(held)
        return solve(curvature, response, reference, penalty, rounds, self.intercepts)

    def _linearize(self, x: Floats, y: Floats, weights: Floats, group: int) -> Floats:
        predictors = np.empty((self.family.outputs, *y.shape))
        kernels.predict(predictors, x, self.reference)
        np.clip(predictors, *self.family.plausible(y, self._before), out=predictors)
        if not self.trusted.all():
            kept = zip([*self._kept_y, y], [*self._kept_weights, weights], strict=True)
            seen = np.concatenate([np.where(w[..., None] > 0, labels, np.nan) for labels, w in kept])
            predictors = np.where(self.trusted, predictors, self.family.start(y, seen))
        return linearized(self.family, self.layout, x, y, weights, predictors, group)


def linearized(
    family: Family,
    layout: SampleLayout,
    x: Floats,
    y: Floats,
    weights: Floats,
    predictors: Floats,
    group: int,
) -> Floats:
    """(samples / group, N, n, B): the sums over groups of samples of what is averaged, linearized at `predictors`."""
    samples, agents, _, lanes = x.shape
    slopes = family.slopes(predictors, y) * weights[:, :, None]
    curvatures = family.curvatures(predictors, y) * weights[:, :, None]
    responses = (curvatures * predictors).sum(axis=1) - slopes
    out = np.zeros((samples // group, agents, layout.components, lanes))
    kernels.linearize(out, x, curvatures, 0, group)
    kernels.respond(out, x, responses, layout.packed, group)
    if layout.errors:
        kernels.linearize(out, x, slopes[:, None] * slopes, layout.packed + layout.size, group)
        contradicted = (np.abs(slopes).max(axis=0) > 0.5).reshape(-1, group, agents, lanes)
        out[:, :, -2] = contradicted.sum(axis=1)
        out[:, :, -1] = weights.reshape(-1, group, agents).sum(axis=1)[..., None]
    return out
