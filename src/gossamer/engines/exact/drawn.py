r"""Exact expected errors where every round draws its own gossip matrix, independently of all other rounds.

In random gossip, on networks whose edges are drawn in each round, and where messages are lost independently of
each other, the registers s of all agents follow a linear recursion with a random matrix :math:`L_t`. The squared error
needs only their second moments, which follow a recursion of their own: with messages m of second moment
:math:`M = E\,m m^\top`,

.. math:: E\,L_t m\,(L_t m)^\top = E\,L_t M L_t^\top,

which for each kind of draw is a sum over edges or pairs of edges, given below. Streams are split into their means and
their noise, which is independent from round to round; the registers are computed for each of the two separately.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array

from gossamer import theory
from gossamer.arrays import Floats, Integers
from gossamer.engines.exact.result import Exact
from gossamer.engines.horizons import horizons_of, passes
from gossamer.engines.results import OneOrMore
from gossamer.errors import Unsupported
from gossamer.faults import Faults, Loss
from gossamer.methods import Method, Table
from gossamer.networks import ChangingNetwork, Network
from gossamer.networks.contacts import Dropout, Matchings
from gossamer.observations import Observations

MOST_AGENTS = 500
"""Largest number of agents, because N^2 numbers are kept for each pair of registers."""

_MOST_PAIRS = 2_000_000
"""Largest number of pairs of edges whose weights depend on each other."""


class RandomExchange(ABC):
    """A random matrix L, drawn independently in every round.

    mean       (N, N) its expectation
    messages   expected number of messages in a round
    """

    mean: csr_array
    messages: float

    @abstractmethod
    def moments(self, second: Floats) -> Floats:
        """Return E L M L' for the second moments M (N, N) of the vector that is multiplied by L."""

    def about_mean(self, second: Floats) -> Floats:
        """Return the part of it that is due to the expectation of L."""
        return np.asarray(self.mean @ (self.mean @ second.T).T)


class PairwiseDraw(RandomExchange):
    """One edge ij at random: L = (e_i - e_j)(e_i - e_j)'/2."""

    def __init__(self, network: Network) -> None:
        self._low, self._high = network.edges.T
        self.mean = _laplacian(
            network.agents, network.edges, np.full(len(network.edges), 0.5 / len(network.edges))
        )
        self.messages = 2.0

    def moments(self, second: Floats) -> Floats:
        i, j = self._low, self._high
        apart = (second[i, i] + second[j, j] - second[i, j] - second[j, i]) / (4 * len(i))
        result = np.zeros_like(second)
        result[i, j] = result[j, i] = -apart
        np.fill_diagonal(result, -result.sum(axis=1))
        return result


class BroadcastDraw(RandomExchange):
    """One agent i at random, toward which its neighbors move: row j of L is (e_j - e_i)'/2 for each neighbor j."""

    def __init__(self, network: Network) -> None:
        agents, edges = network.agents, network.edges
        self.mean = _laplacian(agents, edges, np.full(len(edges), 0.5 / agents))
        self._linked = csr_array(self.mean != 0).astype(float)
        self._linked.setdiag(0.0)
        self._linked.eliminate_zeros()
        self._common = (self._linked @ self._linked).toarray()  # number of neighbors that two agents share
        self.messages = 2 * len(edges) / agents

    def moments(self, second: Floats) -> Floats:
        linked = self._linked
        near = csr_array(linked.multiply(second))
        sender = linked @ diags_array(np.diag(second)) @ linked  # sums over the common neighbors
        return np.asarray(
            (self._common * second + (sender - near @ linked - linked @ near).toarray()) / (4 * len(second))
        )


class LossDraw(RandomExchange):
    """Each message is lost independently with some probability; agents omit neighbors that they do not hear."""

    def __init__(self, network: Network, probability: float) -> None:
        gossip = csr_array(network.gossip)
        self.mean = csr_array((1 - probability) * gossip)
        low, high = network.edges.T
        weights = np.asarray(gossip[low, high]).ravel() ** 2
        links = (np.concatenate([low, high]), np.concatenate([high, low]))
        self._squares = csr_array((np.concatenate([weights, weights]), links), shape=gossip.shape)
        self._spread = probability * (1 - probability)
        self.messages = 2.0 * len(network.edges)

    def moments(self, second: Floats) -> Floats:
        squares, own = self._squares, np.diag(second)
        cross = np.asarray(squares.multiply(second + second.T).sum(axis=1)).ravel()
        apart = squares.sum(axis=1) * own + squares @ own - cross
        return self.about_mean(second) + np.diag(self._spread * apart)


class MatchingDraw(RandomExchange):
    """Random pairs of all agents, which take the mean of their two values; if N is odd, one agent stays alone.

    Two given agents meet with probability 1/n, where n = N - 1 rounded up to an odd number; given that, two others meet
    with probability 1/(n - 2). The sum over pairs of pairs is a sum over all, minus those that share an agent.
    """

    def __init__(self, agents: int) -> None:
        self._odd = agents - 1 + agents % 2
        pairs = np.stack(np.triu_indices(agents, 1), axis=1)
        self.mean = _laplacian(agents, pairs, np.full(len(pairs), 0.5 / self._odd))
        self._pairs = pairs
        self.messages = 2.0 * (agents // 2)

    def moments(self, second: Floats) -> Floats:
        agents, odd = len(second), self._odd
        i, j = self._pairs.T
        apart = second[i, i] + second[j, j] - second[i, j] - second[j, i]
        same = _laplacian(agents, self._pairs, apart).toarray()
        if agents <= 3:
            return np.asarray(same / (4 * odd))
        total = agents * np.eye(agents) - 1.0  # the sum of d d' over all pairs
        # Pairs of pairs that share an agent s: sum_s K_s M K_s minus twice those that are the same pair, with
        # K_s = sum_j (e_s - e_j)(e_s - e_j)' over j != s.
        sharing = _stars(second) - 2 * same
        others = total @ second @ total - same - sharing
        return np.asarray((same / odd + others / (odd * (odd - 2))) / 4)


def _stars(second: Floats) -> Floats:
    """Return sum_s K_s M K_s with K_s = I - e_s 1' - 1 e_s' + N e_s e_s', the Laplacian of a star around s."""
    n, own = len(second), np.diag(second)
    rows, columns = second.sum(axis=1), second.sum(axis=0)
    outer = np.add.outer(columns - 2 * rows - n * own, rows - 2 * columns - n * own) + own.sum()
    return np.asarray(3 * n * second + outer + np.diag(second.sum() - n * (rows + columns) + n**2 * own))


class DropoutDraw(RandomExchange):
    """Each edge is present independently with some probability, with the Metropolis weights of the round's degrees.

    The weights of two edges depend on each other if they share an agent or if an edge joins them.
    """

    def __init__(self, agents: int, edges: Integers, alive: float) -> None:
        self._edges, self._alive = edges, alive
        self._pairs: list[tuple[int, int]] = [(i, j) for i, j in edges.tolist()]
        self._number = {pair: e for e, pair in enumerate(self._pairs)}
        self._around: list[list[int]] = [[] for _ in range(agents)]
        for e, (i, j) in enumerate(self._pairs):
            self._around[i].append(e)
            self._around[j].append(e)
        every = np.arange(len(edges))
        signs = np.concatenate([np.ones(len(edges)), -np.ones(len(edges))])
        self._ends = csr_array((signs, (np.tile(every, 2), edges.T.ravel())), shape=(len(edges), agents))
        weights = np.array([self._together([e]) for e in every.tolist()])
        self.mean = _laplacian(agents, edges, weights)
        self.messages = 2 * alive * len(edges)
        self._first, self._second = self._dependent()
        both = {
            (e, f): self._together([e, f]) if e != f else self._together([e], square=True)
            for e, f in zip(self._first.tolist(), self._second.tolist(), strict=True)
            if e <= f
        }
        products = [
            both[min(e, f), max(e, f)]
            for e, f in zip(self._first.tolist(), self._second.tolist(), strict=True)
        ]
        self._covariance = np.array(products) - weights[self._first] * weights[self._second]

    def moments(self, second: Floats) -> Floats:
        (i, j), (k, m) = self._edges[self._first].T, self._edges[self._second].T
        apart = self._covariance * (second[i, k] - second[i, m] - second[j, k] + second[j, m])
        between = csr_array((apart, (self._first, self._second)), shape=(len(self._edges),) * 2)
        return np.asarray(self.about_mean(second) + (self._ends.T @ between @ self._ends).toarray())

    def _dependent(self) -> tuple[Integers, Integers]:
        """Return the pairs of edges whose weights depend on each other, in both orders and including equal edges."""
        first, second = [], []
        for e, (i, j) in enumerate(self._pairs):
            near = {e, *self._around[i], *self._around[j]}
            ends = {end for edge in near for end in self._pairs[edge]}
            near |= {f for end in ends for f in self._around[end]}
            first += [e] * len(near)
            second += sorted(near)
            if len(first) > _MOST_PAIRS:
                raise Unsupported(
                    f"the weights of more than {_MOST_PAIRS} pairs of edges depend on each other here; ask for a "
                    "sparser network, or simulate it"
                )
        return np.array(first), np.array(second)

    def _together(self, some: list[int], square: bool = False) -> float:
        """Return the expected product of the weights of one or two edges, where a missing edge has weight 0."""
        ends = [self._pairs[e] for e in some]
        agents = sorted({i for pair in ends for i in pair})
        inner = [
            e for pair in combinations(agents, 2) if (e := self._number.get(pair, -1)) >= 0 and e not in some
        ]
        degrees = {i: len(self._around[i]) for i in agents}
        for e in (*some, *inner):
            for i in self._pairs[e]:
                degrees[i] -= 1  # the rest is a binomial number
        positions = tuple((agents.index(i), agents.index(j)) for i, j in ends)
        total = 0.0
        for states in product((False, True), repeat=len(inner)):
            present = [*ends, *(self._pairs[e] for e, up in zip(inner, states, strict=True) if up)]
            least = [sum(i in pair for pair in present) for i in agents]
            known = tuple((low, degrees[i]) for low, i in zip(least, agents, strict=True))
            chance = self._alive ** sum(states) * (1 - self._alive) ** (len(inner) - sum(states))
            total += chance * _product(self._alive, known, positions, square)
        return total * self._alive ** len(some)


@cache
def _product(
    alive: float, degrees: tuple[tuple[int, int], ...], pairs: tuple[tuple[int, int], ...], square: bool
) -> float:
    """Return the expected product of 1/(1 + the larger degree) over `pairs` of agents with independent degrees, each a
    minimum plus a binomial number."""
    grids = np.ix_(*(np.arange(least, least + free + 1) for least, free in degrees))
    weights = [1.0 / (1.0 + np.maximum(grids[a], grids[b])) for a, b in pairs]
    value: Any = weights[0] ** 2 if square else weights[0] * (weights[1] if len(weights) > 1 else 1.0)
    for position, (_, free) in enumerate(degrees):
        shape = [1] * len(degrees)
        shape[position] = -1
        value = value * _binomial(free, alive).reshape(shape)
    return float(value.sum())


@cache
def _binomial(count: int, probability: float) -> Floats:
    chances = [
        math.comb(count, k) * probability**k * (1 - probability) ** (count - k) for k in range(count + 1)
    ]
    return np.array(chances)


def _laplacian(agents: int, edges: Integers, weights: Floats) -> csr_array:
    """Return sum_ij weight_ij (e_i - e_j)(e_i - e_j)'."""
    i, j = edges.T
    rows, columns = np.concatenate([i, j, i, j]), np.concatenate([j, i, i, j])
    values = np.concatenate([-weights, -weights, weights, weights])
    return csr_array((values, (rows, columns)), shape=(agents, agents))


def draw_of(method: Method, network: Network | ChangingNetwork, faults: Faults | None) -> RandomExchange:
    """Return what a round draws at random; raise an error if exact errors do not exist for it."""
    if network.agents > MOST_AGENTS:
        raise Unsupported(
            f"exact errors over random exchanges take N^2 numbers for each pair of registers, so they are for at most "
            f"{MOST_AGENTS} agents, got {network.agents}; simulate it"
        )
    if isinstance(network, ChangingNetwork):
        contacts = network.contacts
        if faults is not None or not isinstance(contacts, Matchings | Dropout):
            raise Unsupported(
                "exact errors over drawn contacts are for matchings and dropout without faults, whose rounds are "
                f"independent of each other, got {network.name}; leave drawn out to take "
                "the contacts as given, or simulate it"
            )
        if isinstance(contacts, Matchings):
            return MatchingDraw(network.agents)
        return DropoutDraw(network.agents, contacts.edges, contacts.alive)
    if faults is None:
        return (PairwiseDraw if method.mixing == "pairwise" else BroadcastDraw)(network)
    kinds = faults.items
    if len(kinds) != 1 or not isinstance(kinds[0], Loss) or (kinds[0].start, kinds[0].stop) != (0, None):
        raise Unsupported(
            "exact errors with faults are for messages that are lost independently in all rounds, gs.faults.Loss(0.1), "
            f"got {faults}; simulate it with gs.simulate(..., faults=...)"
        )
    return LossDraw(network, kinds[0].probability)


def exact_over_draws(
    method: Method,
    network: Network | ChangingNetwork,
    observations: Observations,
    rounds: OneOrMore,
    faults: Faults | None = None,
) -> Exact[OneOrMore, OneOrMore]:
    """Return the expected error over the streams and over everything that rounds draw at random."""
    horizons, one = horizons_of(rounds)
    distinct, order = np.unique(horizons, return_inverse=True)
    draw = draw_of(method, network, faults)
    bias, variance = np.empty((2, len(distinct), network.agents))
    samples, messages = np.empty((2, len(distinct)))
    for table, which in passes(method, network, distinct):
        if (faults is not None or isinstance(network, ChangingNetwork)) and table.ledger:
            raise Unsupported(
                f"{method.name} keeps a ledger on every edge where messages are lost or contacts change, whose "
                "expected error is not computed; use gs.simulate, which takes the same arguments and trials"
            )
        ends = distinct[which]
        bias[which], variance[which] = _follow(table, draw, observations, ends)
        samples[which] = np.cumsum(table.batches)[ends - 1]
        messages[which] = draw.messages * np.cumsum(table.step_mixed.any(axis=1))[ends - 1]
    pick: Any = (lambda values: values[0].item()) if one else (lambda values: values[order])
    totals = bias.sum(axis=1), variance.sum(axis=1)
    return Exact(
        method=method,
        network=network,  # type: ignore[arg-type]
        observations=observations,
        agents=network.agents,
        rounds=int(distinct[0]) if one else horizons,
        total_error=pick(sum(totals)),
        bias=pick(totals[0]),
        variance=pick(totals[1]),
        uncertainty=pick(np.zeros(len(distinct))),
        centralized_limit=pick(theory.centralized_limit(observations, distinct)),
        samples=pick(samples),
        messages=pick(np.rint(messages).astype(np.int64)),
        agent_errors=(bias + variance)[0 if one else order],
    )


def _follow(
    table: Table, draw: RandomExchange, observations: Observations, ends: Integers
) -> tuple[Floats, Floats]:
    """Return (H, N) each: expected squared errors due to the means, and due to the noise, after the rounds `ends`.

    What all means have in common is not affected by mixing, so it is followed separately: if it is large, its square
    would cost the digits of the rest.
    """
    registers, agents = table.registers, observations.agents
    # The expected registers for the means, less what all means have in common.
    expected = np.zeros((registers, agents, observations.components))
    common = np.zeros((registers, observations.components))
    steady, noisy = np.zeros((2, registers, registers, agents, agents))
    variance = observations.variance.sum(axis=1)
    bias, noise = np.empty((2, len(ends), agents))
    for t in range(int(ends.max())):
        row = table.round(t)
        step = np.concatenate([row.step_state, row.step_observation[:, None]], axis=1)
        sent = np.append(row.message_state, row.message_observation)
        if step[:, -1].any() or sent[-1]:
            means = observations.means(range(t, t + 1))[0]
            average = means.mean(axis=0)
            means = means - average
            cross = np.einsum("kia,ja->kij", expected, means)
            steady = _bordered(steady, cross, means @ means.T)
            noisy = _bordered(noisy, np.zeros_like(cross), np.diag(variance * table.noise_scale[t] ** 2))
        else:
            means, average = np.zeros_like(expected[0]), np.zeros_like(common[0])
            step, sent = step[:, :-1], sent[:-1]
        common = row.step(common, average, 0.0 * average)
        expected = row.step(expected, means, draw.mean @ row.message(expected, means))
        steady, noisy = (_stepped(moments, step, sent, row.step_mixed, draw) for moments in (steady, noisy))
        for h in np.flatnonzero(ends == t + 1):
            gap = row.estimate(common) - observations.target(t + 1)
            own, of_noise = (
                np.einsum("a,b,abii->i", row.estimate_state, row.estimate_state, moments)
                for moments in (steady, noisy)
            )
            bias[h] = own + 2 * row.estimate(expected) @ gap + gap @ gap
            noise[h] = of_noise
    return np.maximum(bias, 0.0), noise


def _bordered(moments: Floats, cross: Floats, own: Floats) -> Floats:
    """Return the second moments (R + 1, R + 1, N, N) of the registers and the observation."""
    registers = len(moments)
    whole = np.empty((registers + 1, registers + 1, *own.shape))
    whole[:registers, :registers] = moments
    whole[:registers, registers] = cross
    whole[registers, :registers] = np.swapaxes(cross, 1, 2)
    whole[registers, registers] = own
    return whole


def _stepped(moments: Floats, step: Floats, sent: Floats, mixed: Floats, draw: RandomExchange) -> Floats:
    """Return the second moments of the registers after a round, from those before it."""
    result = np.tensordot(step, np.tensordot(step, moments, (1, 1)), (1, 1))
    if not mixed.any() or not sent.any():
        return np.asarray(result)
    with_message = np.einsum("b,abij->aij", sent, moments)
    kept = np.einsum("ka,aij->kij", step, with_message)  # of the registers and the message, before mixing
    message = np.einsum("a,aij->ij", sent, with_message)
    crossed = np.stack([(draw.mean @ one.T).T for one in kept])  # E s m' L'
    quadratic = draw.moments(message)
    for k, m in product(range(len(mixed)), repeat=2):
        result[k, m] += mixed[m] * crossed[k] + mixed[k] * crossed[m].T + mixed[k] * mixed[m] * quadratic
    # Asymmetric rounding errors would grow.
    return np.asarray(result + result.transpose(1, 0, 3, 2)) / 2
