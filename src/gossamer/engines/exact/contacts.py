"""Exact errors on changing networks with given contacts, without faults.

The estimates are a fixed linear function of all observations, as on a fixed network, but there is no common spectrum to
decompose it by. So the engine of changing networks is used: one run on the means gives the bias, and one run for each
agent and round, in which only this observation is nonzero, gives its share of the variance.
"""

from __future__ import annotations

import numpy as np

from gossamer import theory
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.engines.exact.result import Exact
from gossamer.engines.faulty import FaultySimulation
from gossamer.engines.faulty.faulty_simulation import simulate_faulty
from gossamer.engines.horizons import horizons_of, passes
from gossamer.engines.results import OneOrMore
from gossamer.errors import Unsupported
from gossamer.methods import Method
from gossamer.networks import ChangingNetwork
from gossamer.observations import Observations, check_streams
from gossamer.observations.stream import BatchSizes

MOST_UPDATES = 2**33
"""Largest number of updates of an agent or edge over all runs, about a minute of processor time."""

TOGETHER = 2**12
"""Number of runs whose results are in memory at a time."""


class _Means(Observations):
    """Streams without noise."""

    def __init__(self, base: Observations) -> None:
        self.base, self.mean, self.variance = base, base.mean, np.zeros_like(base.mean)

    def means(self, rounds: range) -> Floats:
        return self.base.means(rounds)

    def sample(
        self, seed: int, rounds: range, trials: range, agents: range | None = None, batches: BatchSizes = None
    ) -> Floats:
        where = slice(None) if agents is None else slice(agents.start, agents.stop, agents.step)
        means = self.means(rounds)[:, where, :, None]
        return np.array(np.broadcast_to(means, (*means.shape[:3], len(trials))))


class _Impulses(Observations):
    """Unit impulses: in trial t N + j only the observation of agent j in round t is nonzero: one standard deviation."""

    def __init__(self, base: Observations) -> None:
        self.std = np.sqrt(base.variance.sum(axis=1))
        self.mean = self.variance = np.zeros((base.agents, 1))

    def sample(
        self, seed: int, rounds: range, trials: range, agents: range | None = None, batches: BatchSizes = None
    ) -> Floats:
        agents = range(self.agents) if agents is None else agents
        impulses = np.zeros((len(rounds), self.agents, 1, len(trials)))
        t, j = np.divmod(np.arange(trials.start, trials.stop), self.agents)
        inside = np.flatnonzero((rounds.start <= t) & (t < rounds.stop))
        sizes = np.ones(rounds.stop) if batches is None else np.maximum(batches, 1)
        t, j = t[inside], j[inside]
        impulses[t - rounds.start, j, 0, inside] = self.std[j] / np.sqrt(sizes[t])
        return impulses[:, slice(agents.start, agents.stop, agents.step)]


def exact_on_contacts(
    method: Method, network: ChangingNetwork, observations: Observations, rounds: OneOrMore
) -> Exact[OneOrMore, OneOrMore]:
    """Return the result of `gs.exact` on a changing network."""
    check_streams(network.agents, observations)
    horizons, one = horizons_of(rounds)
    distinct, position = np.unique(horizons, return_inverse=True)
    longest = int(distinct[-1])
    # (T + 1,) number of contacts before each round.
    contacts = np.concatenate([[0], network.edges_in(range(longest))[0]])[1:]
    _check_size(network, longest, int(contacts[-1]))
    means = simulate_faulty(method, network, _Means(observations), distinct, 1, keep="errors", progress=False)
    variance = np.zeros((len(distinct), network.agents))
    for first in range(0, longest * network.agents, TOGETHER):
        count = min(TOGETHER, longest * network.agents - first)
        run: FaultySimulation[OneOrMore, OneOrMore] = simulate_faulty(
            method,
            network,
            _Impulses(observations),
            distinct,
            count,
            first_trial=first,
            keep="errors",
            progress=False,
        )
        variance += count * run.per_agent
    samples, messages = _costs(method, network, distinct, contacts)
    noise = variance.sum(axis=1)

    def pick(values: AnyArray) -> OneOrMore:
        return values[0].item() if one else values[position]

    return Exact(
        method=method,
        network=network,  # type: ignore[arg-type]
        observations=observations,
        agents=network.agents,
        rounds=longest if one else horizons,
        total_error=pick(means.total_error + noise),
        bias=pick(means.total_error),
        variance=pick(noise),
        uncertainty=pick(np.zeros(len(distinct))),
        centralized_limit=pick(theory.centralized_limit(observations, distinct)),
        samples=pick(samples),
        messages=pick(messages),
        agent_errors=(means.per_agent + variance)[0 if one else position],
    )


def _costs(
    method: Method, network: ChangingNetwork, horizons: Integers, contacts: Integers
) -> tuple[Floats, Integers]:
    """Return (H,) samples per agent, and messages in the network: two for each contact of a round that uses them."""
    samples, messages = np.empty(len(horizons)), np.empty(len(horizons), dtype=np.int64)
    for table, which in passes(method, network, horizons):
        used = table.step_mixed.any(axis=1) * np.diff(contacts[: table.rounds + 1])
        samples[which] = np.cumsum(table.batches)[horizons[which] - 1]
        messages[which] = 2 * np.cumsum(used)[horizons[which] - 1]
    return samples, messages


def _check_size(network: ChangingNetwork, rounds: int, contacts: int) -> None:
    """Raise an error if the runs, one per observation, would take too long."""
    updates = network.agents * rounds * (rounds * network.agents + contacts)
    if updates > MOST_UPDATES:
        most = int(rounds * (MOST_UPDATES / updates) ** 0.5)
        raise Unsupported(
            f"exact errors on given contacts take a run for each observation, here {updates:.2g} updates of agents and "
            f"edges, and at most {MOST_UPDATES:.2g} are allowed: about {most} rounds on {network!r}; ask for fewer "
            "rounds, or simulate it"
        )
