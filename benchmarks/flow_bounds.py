"""How large flows must be when agents are dead: the table of docs/security.md.

python -m benchmarks.flow_bounds NETWORK [SETS]
python -m benchmarks.flow_bounds unlinked AGENTS

For every edge, B is the largest potential flow that values in a box of width 1 can cause while all agents are up. With
k agents dead, the others have other degrees, and so weights, and their flow takes other edges.

`unlinked` is about bounds by cuts, W a b/(a + b) for an edge between a and b agents. An edge of a cycle is unlinked
while data need its largest flow, which it keeps; then the data turn around, and the edges of the path make up for it.
"""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np

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


if __name__ == "__main__":
    if sys.argv[1] == "unlinked":
        unlinked(int(sys.argv[2]))
    else:
        main(sys.argv[1], *map(int, sys.argv[2:]))
