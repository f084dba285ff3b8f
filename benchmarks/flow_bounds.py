"""How large flows must be when agents are dead: the table of docs/security.md.

python -m benchmarks.flow_bounds NETWORK [SETS]
python -m benchmarks.flow_bounds unlinked AGENTS
python -m benchmarks.flow_bounds faults ROUNDS [SEED]

For every edge, B is the largest potential flow that values in a box of width 1 can cause while all agents are up. With
k agents dead, the others have other degrees, and so weights, and their flow takes other edges.

`unlinked` is about bounds by cuts, W a b/(a + b) for an edge between a and b agents. An edge of a cycle is unlinked
while data need its largest flow, which it keeps; then the data turn around, and the edges of the path make up for it.

`faults` lets fleets of 16 agents run for that many rounds with random losses, bursts of loss, kills, restarts from the
stored state or without it, edges that are unlinked, and masks, with data that are random or extreme.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter

import networkx as nx
import numpy as np
from tests.support.lockstep import RANGE, WIDTH, Lockstep

from gossamer.arrays import Floats, Integers
from gossamer.networks import Network


def largest_flows(edges: Integers, agents: int, dead: tuple[int, ...] = ()) -> Floats:
    """The largest potential flow over each edge, with the Metropolis weights of the agents that are up."""
    up = ~np.isin(edges, dead).any(axis=1)
    one, other = edges[up].T
    degree = np.bincount(edges[up].ravel(), minlength=agents)
    weight = 1 / (1 + np.maximum(degree[one], degree[other]))
    laplacian = np.zeros((agents, agents))
    for i, j, sign in ((one, one, 1), (other, other, 1), (one, other, -1), (other, one, -1)):
        np.add.at(laplacian, (i, j), sign * weight)
    inverse = np.linalg.pinv(laplacian, hermitian=True)
    flows = np.zeros(len(edges))
    flows[up] = np.abs(weight[:, None] * (inverse[one] - inverse[other])).sum(axis=1) / 2
    return flows


def main(name: str, sets: int = 300) -> None:
    network, random = Network.named(name, "metropolis", 0), np.random.default_rng(0)
    agents, edges = network.agents, network.edges
    bound = largest_flows(edges, agents)
    worst, largest = [], bound.max()
    for k in (1, 2, 3, 4):
        chosen = itertools.combinations(range(agents), k)
        if math.comb(agents, k) > sets:
            chosen = iter([tuple(random.choice(agents, k, replace=False)) for _ in range(sets)])
        flows = [largest_flows(edges, agents, dead) for dead in chosen]
        worst.append(max((flow / bound).max() for flow in flows))
        largest = max(largest, *(flow.max() for flow in flows))
    ratios = " | ".join(f"{ratio:.2f} B" for ratio in worst)
    print(
        f"| {name} | {agents / 2:g} W | {bound.min():.2f} W to {bound.max():.2f} W | {ratios} | {largest:.2f} W |"
    )


def unlinked(agents: int) -> None:
    kept = largest_flows(Network.cycle(agents).edges, agents)[0]
    for name, above in (("first", 1), ("middle", agents // 2)):
        cut = (
            above * (agents - above) / agents
        )  # what data of one extreme above the edge and the other below it need
        print(f"{name} edge: {cut + kept:.2f} W; bound by its cut {cut:.2f} W, N W/4 = {agents / 4:g} W")


NETWORKS = [
    Network.named(name, "metropolis", 0) for name in ("path:16", "cycle:16", "star:16", "geometric:16")
]
NETWORKS += [Network.grid(4, 4), Network.of(nx.barbell_graph(8, 0))]


def episode(seed: int, found: Counter[str]) -> None:
    """Run one fleet through random faults, then until it is right; count what happened to the honest agents."""
    random = np.random.default_rng(seed)
    network = NETWORKS[random.integers(len(NETWORKS))]
    ends = network.edges[random.integers(len(network.edges))]
    means = random.uniform(*RANGE, 16)
    kind = ("random", "extreme")[random.integers(2)]
    if kind == "extreme":  # the largest flow of some edge
        inverse = np.linalg.pinv(network.gossip.toarray(), hermitian=True)
        means = np.where(inverse[ends[0]] > inverse[ends[1]], *RANGE[::-1])
    loss, mask = random.choice([0.0, 0.1, 0.3, 0.5]), random.choice([0.0, 0.0, WIDTH / 4])
    made = Lockstep(network, means, RANGE, loss=loss, death=2.0, seed=seed, mask=mask)

    def run(rounds: int) -> None:
        for _ in range(rounds // 16):
            made.run(16)
            found["rounds"] += 16
            for desk in made.desks.values():
                limits = desk.ledger.limits
                found["looks"] += 1
                found[f"at the limit, {kind} data, {loss:.0%} lost"] += bool(limits and limits.strained)

    run(160)
    kept = False  # whether agents keep flows of edges that were unlinked, which must not be lost
    for _ in range(random.integers(1, 6)):
        fault = random.choice(["kill", "burst", "unlink"])
        if fault == "burst":
            made.loss = 0.95
            run(int(random.integers(16, 200)))
            made.loss = loss
        elif fault == "unlink" and made.unlink(*map(int, random.choice(made.network.edges))):
            made.means, kept = random.permutation(made.means), True
        else:
            gone = [int(i) for i in random.choice(16, random.integers(1, 4), replace=False)]
            stored = {i: made.desks[i].ledger.remember() for i in gone}
            made.remove(*gone)
            run(int(random.integers(16, 400)))
            for i in gone:
                made.restart(i, stored[i] if kept or random.random() < 0.7 else None)
        found[str(fault)] += 1
        run(int(random.integers(16, 600)))
    made.loss = 0.0
    own = np.array([desk.ledger.mean for desk in made.desks.values()])
    made.means = own[:, 1] / own[:, 0]  # constant means from now on
    own = own.mean(axis=0)
    for _ in range(40):
        run(400)
        if (wrong := np.abs(made.estimates() - own[1] / own[0]).max()) < 1e-6 * WIDTH:
            break
        found["needed 400 rounds more"] += 1
    found["fleets"] += 1
    found["wrong"] += wrong >= 1e-6 * WIDTH
    for desk in made.desks.values():
        found["quarantined"] += sum(peer.quarantined for peer in desk.conversation.peers.values())
        found["refused"] += sum(desk.rejected.get(reason, 0) for reason in ("value", "flow", "echo"))


def faults(rounds: int, seed: int = 0) -> Counter[str]:
    found: Counter[str] = Counter()
    while found["rounds"] < rounds:
        episode(seed, found)
        seed += 1
    return found


if __name__ == "__main__":
    if sys.argv[1] == "faults":
        print(
            *(f"{name}: {count}" for name, count in sorted(faults(*map(int, sys.argv[2:])).items())), sep="\n"
        )
    elif sys.argv[1] == "unlinked":
        unlinked(int(sys.argv[2]))
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
