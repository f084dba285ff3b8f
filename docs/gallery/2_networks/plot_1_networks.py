"""
Errors by agent on six networks
===============================

The expected error of each agent after 60 rounds: the ends of a chain and the leaves of a star have received the
least information.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import gossamer as gs

networks = {
    "path": gs.Network.path(24),
    "cycle": gs.Network.cycle(24),
    "star": gs.Network.star(24),
    "grid": gs.Network.grid(5, 5),
    "geometric": gs.Network.random_geometric(40, seed=8),
    "expander": gs.Network.expander(32, 3, seed=1),
}
fig, axes = plt.subplots(2, 3, figsize=(7, 4.6))
for ax, (name, net) in zip(axes.flat, networks.items(), strict=True):
    obs = gs.Gaussian(np.zeros(net.agents), std=1.0)
    run = gs.simulate("anytime-sda", net, obs, rounds=60, trials=500, keep="errors")
    graph = net.to_networkx()
    if name == "path":
        place = {k: (k, 4 * np.sin(k / 3.5)) for k in graph}
    else:
        place = nx.circular_layout(graph) if name == "cycle" else nx.kamada_kawai_layout(graph)
    nx.draw_networkx_edges(graph, place, ax=ax, edge_color="#BBBBBB", width=1)
    nx.draw_networkx_nodes(graph, place, ax=ax, node_size=40, node_color=run.per_agent, cmap="viridis_r")
    ax.set_title(f"{name}, κ = {net.condition_number:.0f}", fontsize=10)
    ax.axis("off")
    ax.margins(0.08)
fig.tight_layout()
plt.show()
