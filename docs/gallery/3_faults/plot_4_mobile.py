"""
Agents that move
================

Sixty agents move around and talk to the agents they meet; most of the time the network is disconnected. The local
form of Anytime SDA needs neither a spectrum nor a fixed set of neighbors.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

import gossamer as gs

net = gs.ChangingNetwork.mobile(60, radius=0.14, speed=0.01, seed=4)
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 60), std=1.0)
run = gs.simulate(gs.AnytimeSDA("local-heavy-ball"), net, obs, 400, trials=1, keep="iterates")
estimates = run.iterates["estimate"][0, :, :, 0]

fig, axes = plt.subplots(1, 3, figsize=(8.4, 3.2))
for ax, t in zip(axes, (3, 40, 399), strict=True):
    where = net.contacts.positions(range(t, t + 1))[0]
    ax.add_collection(LineCollection(where[net.edges_at(t)], color="#BBBBBB", lw=0.8))
    dots = ax.scatter(
        *where.T, c=estimates[t], cmap="coolwarm", vmin=2, vmax=8, s=34, edgecolors="white", zorder=2
    )
    ax.set(xticks=[], yticks=[], aspect="equal", title=f"round {t + 1}")
    ax.grid(visible=False)
fig.colorbar(dots, ax=axes, label="estimate", shrink=0.8)
plt.show()
