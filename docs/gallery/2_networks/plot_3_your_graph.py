"""
Your own graph
==============

Any NetworkX graph, and any common graph file (``gs.Network.read("graph.graphml")``), can be used as a network. This
is Zachary's karate club, before it split. Information reaches dark members late.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import gossamer as gs

club = nx.karate_club_graph()
net = gs.Network.of(club)
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, net.agents), std=1.0)
run = gs.simulate("anytime-sda", net, obs, rounds=40, trials=500, keep="errors")

fig, ax = plt.subplots(figsize=(6, 4.6))
place = nx.kamada_kawai_layout(club)
nx.draw_networkx_edges(club, place, ax=ax, edge_color="#CCCCCC")
dots = nx.draw_networkx_nodes(
    club, place, ax=ax, node_color=np.sqrt(run.per_agent), cmap="magma_r", node_size=150, edgecolors="white"
)
fig.colorbar(dots, ax=ax, label="each member's error after 40 rounds", shrink=0.8)
ax.axis("off")
plt.show()
