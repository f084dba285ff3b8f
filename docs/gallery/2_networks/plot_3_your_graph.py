"""
Your own graph
==============

Any NetworkX graph, and any common graph file (``gs.Network.read("graph.graphml")``), can be used as a network. This
is Zachary's karate club, before it split. Information reaches the yellow members late.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import gossamer as gs

net = gs.Network.of(nx.karate_club_graph())
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, net.agents), std=1.0)
errors = gs.exact("anytime-sda", net, obs, rounds=40).per_agent

fig, ax = plt.subplots(figsize=(6, 4.6))
net.plot(np.sqrt(errors), ax, label="each member's error after 40 rounds")
plt.show()
