"""
One-way links
=============

If links are directed, agents cannot agree on averaging weights. Push-sum sends shares of a sum and of a weight, and
estimates the average by their quotient.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import gossamer as gs

graph = nx.gnp_random_graph(40, 0.09, seed=12, directed=True)
graph.add_edges_from((k, (k + 1) % 40) for k in range(40))
net = gs.DirectedNetwork.from_networkx(graph)
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 4, 40), std=1.0)
rounds = [10, 20, 40, 80, 160, 320, 640]

fig, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.6))
net.plot(ax=left)
for decay, label in ((1.0, "decay 1"), (1.25, "decay 1.25 (default)"), (np.inf, "decay ∞")):
    run = gs.simulate(gs.PushSum(decay), net, obs, rounds, trials=200, keep="errors")
    right.loglog(rounds, run.over_limit, "o-", ms=4, label=label)
right.axhline(1, color="gray", ls=":")
right.set(xlabel="rounds", ylabel="error over a center's")
right.legend()
fig.tight_layout()
plt.show()
