"""Streams of samples in many trials: drawn, fitted over the network and, as the limit, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossamer.applications.likelihood import kernels
from gossamer.applications.likelihood.linearization import (
    KeptSamples,
    Linearizer,
    linearized,
    looks,
    predictors_of,
)
from gossamer.arrays import Booleans, Floats, Integers
from gossamer.engines.faulty.faulty_simulation import simulate_faulty
from gossamer.errors import InvalidInput
from gossamer.faults import Faults
from gossamer.methods import Method, tabulate
from gossamer.models import FAR, SumLayout, judge, moved
from gossamer.networks import ChangingNetwork, Network
from gossamer.numerics.sparse import rows_of
from gossamer.numerics.threads import spread
from gossamer.observations import Observations
from gossamer.observations.stream import BatchSizes

if TYPE_CHECKING:
    from gossamer.applications.likelihood.estimation import LikelihoodEstimation

CHUNK = 32
"""Number of rounds for which labels are drawn at a time."""

LANES = 32
"""Largest number of trials that run side by side; results do not depend on it."""

_ROOM = 1 << 27
"""Approximate limit in bytes on the samples of trials that run side by side."""

_SETTLED = 1e-5
"""Newton's method stops after a step this small relative to theta; the next one would be about its square."""

_ATTEMPTS = 60
"""Largest number of steps of Newton's method in one place."""

_LABELS = 17
"""A purpose in addition to those of `numerics.random`: the labels."""


class Samples(NamedTuple):
    """Samples of some rounds, `group` of them per round; the weight is 0 if an agent has none."""

    x: Floats  #: (samples, width, N, B)
    y: Floats  #: (samples, N, B)
    weights: Floats  #: (samples, N)
    group: int


class Learned(NamedTuple):
    """The result of a solver: estimates (H, trials, N, p), and which of them an agent would withhold, (H, trials, N).

    NaN means that there is no estimate, infinity that it has diverged.
    """

    estimates: Floats
    withheld: Booleans


class Draws:
    """The samples of a block of trials, which are pure functions of (seed, trial, round)."""

    def __init__(self, problem: LikelihoodEstimation, seed: int, trials: range) -> None:
        if problem.parameter is None or problem.covariates is None:
            raise InvalidInput(
                "a simulation draws samples, for which the problem needs parameter and covariates; give both, use "
                "LikelihoodEstimation.random, or hand in your own samples with online()"
            )
        self.problem, self.seed, self.trials = problem, seed, trials
        self.group = max(1, int(problem.samples.max()))
        self._theta = np.ones((1, problem.network.agents, len(trials))) * problem.parameter[:, None, None]
        self._covariates = problem.covariates
        self._chunk, self._drawn = -1, Samples(*(np.empty(0),) * 3, self.group)

    def pieces(self, rounds: range, stops: set[int]) -> Iterator[tuple[range, Samples]]:
        """Yield the samples of some rounds in pieces that end where chunks and `stops` do."""
        start = rounds.start
        while start < rounds.stop:
            whole = (start // CHUNK + 1) * CHUNK
            stop = min([rounds.stop, whole, *(s for s in stops if start < s)])
            yield range(start, stop), self.of(range(start, stop))
            start = stop

    def of(self, rounds: range) -> Samples:
        """Return the samples of some rounds of one chunk."""
        chunk = rounds.start // CHUNK
        if chunk != self._chunk:
            self._chunk, self._drawn = chunk, self._draw(chunk)
        first = chunk * CHUNK
        some = slice((rounds.start - first) * self.group, (rounds.stop - first) * self.group)
        x, y, weights, group = self._drawn
        return Samples(x[some], y[some], weights[some], group)

    def _draw(self, chunk: int) -> Samples:
        problem, family = self.problem, self.problem.family
        numbers = range(chunk * CHUNK * self.group, (chunk + 1) * CHUNK * self.group)
        x = np.swapaxes(self._covariates.sample(self.seed, numbers, self.trials), 1, 2)
        if problem.intercept:
            x = np.concatenate([x, np.ones_like(x[:, :1])], axis=1)
        x = np.ascontiguousarray(x)
        predictors = predictors_of(family, x, self._theta)
        y = np.empty(predictors.shape[1:])
        for b, trial in enumerate(self.trials):
            rng = np.random.default_rng([self.seed, _LABELS, trial, chunk])
            y[:, :, b] = family.draw(rng, predictors[..., b])
        slots = np.arange(self.group)[:, None] < problem.samples
        return Samples(x, y, np.tile(slots.astype(float), (CHUNK, 1)), self.group)


Learner = Callable[[Draws], tuple[Floats, Booleans]]
"""A function from the samples of a block of trials to estimates (H, N, p, B), and which are withheld (H, N, B)."""


def in_blocks(
    problem: LikelihoodEstimation, trials: int, seed: int, learn: Learner, kept: int, lanes: int = LANES
) -> Learned:
    """Run blocks of trials on threads; each block keeps the samples of this many rounds."""
    needed = 8 * kept * int(problem.samples.max()) * problem.network.agents * (problem.width + 1)
    size = int(np.clip(_ROOM // needed, 1, min(lanes, trials)))
    firsts = range(0, trials, size)
    parts: list[tuple[Floats, Booleans]] = [(np.empty(0), np.empty(0, bool))] * len(firsts)

    def one(k: int) -> None:
        parts[k] = learn(Draws(problem, seed, range(firsts[k], min(firsts[k] + size, trials))))

    spread(one, len(firsts))
    estimates, withheld = (np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True))
    return Learned(np.moveaxis(estimates, 3, 1), np.moveaxis(withheld, 2, 1))


def average(problem: LikelihoodEstimation, method: Method, horizons: Integers) -> Learner:
    """Linearize, average by `method` and solve; return every agent's estimates after each of the ascending horizons."""
    rounds = int(horizons[-1])
    table, gossip = tabulate(method, problem.network, rounds), rows_of(problem.network.gossip)
    looked = set(looks(rounds))
    stops = {*horizons.tolist(), *looked}

    def learn(draws: Draws) -> tuple[Floats, Booleans]:
        linearizer = Linearizer(problem, len(draws.trials))
        shape = (linearizer.layout.components, problem.network.agents, table.registers, len(draws.trials))
        registers = np.zeros(shape)
        estimates, withheld = [], []
        for piece, samples in draws.pieces(range(rounds), stops):
            kernels.play(registers, linearizer.observe(*samples), piece.start, table, gossip)
            if piece.stop not in stops:
                continue
            held = np.tensordot(registers, table.estimate_state[piece.stop - 1], axes=([2], [0]))
            judged = linearizer.judge(held, 1 / (problem.network.agents * piece.stop))
            if piece.stop in horizons:
                estimates.append(np.swapaxes(judged.theta, 1, 2))
                withheld.append(~judged.published)
            if piece.stop in looked:
                linearizer.look(judged)
        return np.stack(estimates), np.stack(withheld)

    return learn


def newton(problem: LikelihoodEstimation, horizons: Integers, *, alone: bool = False) -> Learner:
    """Return the estimate that minimizes the loss of all samples, or of each agent's own samples.

    It is withheld if it does not exist, because labels are separable or covariates do not vary enough.
    """
    rounds, agents, family = int(horizons[-1]), problem.network.agents, problem.family
    layout = SumLayout(problem.size, problem.intercepts)

    def learn(draws: Draws) -> tuple[Floats, Booleans]:
        parts = list(draws.pieces(range(rounds), set(horizons.tolist())))
        lanes = len(draws.trials)
        estimates, withheld = [], []
        kept: list[KeptSamples] = []
        theta = np.zeros((agents if alone else 1, lanes, problem.size))
        for before, horizon in zip([0, *horizons.tolist()], horizons.tolist(), strict=False):
            new = [samples for piece, samples in parts if before < piece.stop <= horizon]
            kept += [
                KeptSamples(x, y, weights[..., None] * np.ones(y.shape), family.start(y, y))
                for x, y, weights, _ in new
            ]
            careful = np.ones((agents, lanes), dtype=bool)
            for _ in range(_ATTEMPTS):
                total: Any = sum(linearized(family, layout, one, len(one.y), careful)[0] for one in kept)
                sums = np.moveaxis(total if alone else total.sum(axis=1, keepdims=True), 0, 2)
                judged = judge(layout, sums, theta, problem.penalty, 1.0, family.sharpness)
                length = np.abs(judged.theta - theta).max(axis=-1)
                theta = np.where(judged.ready[..., None], judged.theta, theta)
                missing = ~judged.ready | (length > _SETTLED * (1 + np.abs(theta).max(axis=-1)))
                careful = np.broadcast_to(judged.linearization > FAR, (agents, lanes))
                reference = np.ones((1, agents, lanes)) * np.moveaxis(theta, 2, 0)
                for one in kept:
                    target = predictors_of(family, one.x, reference)
                    one.predictors[:] = moved(family, one.predictors, target, one.y)
                    far = ((np.abs(target - one.predictors) > 1e-3) & (one.weights > 0)).any(axis=(0, 1))
                    missing = missing | (
                        far if alone else far.any(axis=0)
                    )  # for separable labels this never ends
                if not missing.any():
                    break
            estimate = np.where(missing[..., None], np.nan, theta)
            estimates.append(np.swapaxes(np.broadcast_to(estimate, (agents, lanes, problem.size)), 1, 2))
            withheld.append(np.broadcast_to(missing, (agents, lanes)))
        return np.stack(estimates), np.stack(withheld)

    return learn


class PseudoResponses(Observations):
    """Linearized samples as streams for the engine with faults, which reports the agents' estimates back."""

    def __init__(self, problem: LikelihoodEstimation, rounds: int, faults: Faults) -> None:
        self.problem = problem
        self._faults = faults
        self.looked = set(looks(rounds))
        self.mean = np.zeros((problem.network.agents, SumLayout(problem.size).components))
        self.variance = np.ones_like(self.mean)
        self._blocks: dict[int, tuple[Draws, Linearizer]] = {}
        self.estimates: dict[int, dict[int, tuple[Floats, Booleans]]] = {}
        """Estimates (N, B, p) and which are withheld, by horizon and first trial."""

    def sample(
        self, seed: int, rounds: range, trials: range, agents: range | None = None, batches: BatchSizes = None
    ) -> Floats:
        if rounds.start == 0:
            self._blocks[trials.start] = (
                Draws(self.problem, seed, trials),
                Linearizer(self.problem, len(trials)),
            )
        draws, linearizer = self._blocks[trials.start]
        responses = []
        for piece, (x, y, weights, group) in draws.pieces(rounds, set()):
            present = np.array([[self._faults.alive(i, t) for i in range(self.agents)] for t in piece])
            # Samples that no agent receives cannot be linearized again.
            weights = weights * np.repeat(present, group, axis=0)
            responses.append(linearizer.observe(x, y, weights, group, present))
        return np.ascontiguousarray(np.swapaxes(np.concatenate(responses), 1, 2))

    def receive_estimates(self, rounds: int, trials: range, estimates: Floats) -> None:
        _, linearizer = self._blocks[trials.start]
        held = np.transpose(estimates, (2, 1, 0))
        judged = linearizer.judge(held, 1 / (self.problem.network.agents * rounds))
        dead = np.isnan(estimates[:, :, 0]).T[..., None]
        theta = np.where(dead, np.nan, judged.theta)
        self.estimates.setdefault(rounds, {})[trials.start] = theta, ~judged.published
        if rounds in self.looked:
            linearizer.look(judged)


def average_with_faults(
    problem: LikelihoodEstimation,
    method: Method,
    network: Network | ChangingNetwork,
    faults: Faults,
    horizons: Integers,
    trials: int,
    seed: int,
) -> Learned:
    """Like `average`, by the rules of the edge ledger: messages are lost, agents crash, networks change."""
    streams = PseudoResponses(problem, int(horizons[-1]), faults)
    stops = sorted({*horizons.tolist(), *streams.looked})
    simulate_faulty(method, network, streams, stops, trials, seed, faults, keep="errors", progress=False)
    estimates, withheld = [], []
    for horizon in horizons.tolist():
        parts = [streams.estimates[horizon][first] for first in sorted(streams.estimates[horizon])]
        estimates.append(np.concatenate([theta for theta, _ in parts], axis=1))
        withheld.append(np.concatenate([off for _, off in parts], axis=1))
    return Learned(np.swapaxes(np.stack(estimates), 1, 2), np.swapaxes(np.stack(withheld), 1, 2))
