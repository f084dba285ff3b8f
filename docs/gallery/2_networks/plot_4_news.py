"""
How information travels
=======================

The weight of the middle agent's samples in every agent's answer, some rounds later. White is the fair share, 1/N:
when everything is white, every agent knows as much as a center. Information travels at most one edge per round; with
plain averaging it spreads like heat.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

side, times = 17, (5, 16, 50)
net = gs.Network.grid(side, side)
middle = side * (side // 2) + side // 2
fig, axes = plt.subplots(2, 3, figsize=(6.6, 4.6))
for row, (name, method) in enumerate(
    {"Anytime SDA": gs.AnytimeSDA("local-heavy-ball"), "DSG": gs.DSG()}.items()
):
    for ax, rounds in zip(axes[row], times, strict=True):
        share = gs.weights(method, net, rounds).sum(axis=0)[:, middle].reshape(side, side) * net.agents
        shown = ax.imshow(np.log10(np.maximum(share, 1e-3)), cmap="RdBu_r", vmin=-2, vmax=2)
        ax.set_title(f"{rounds} rounds" if row == 0 else "", fontsize=10)
        ax.set(xticks=[], yticks=[])
        ax.grid(visible=False)
    axes[row, 0].set_ylabel(name)
bar = fig.colorbar(shown, ax=axes, label="weight, as a multiple of 1/N", ticks=[-2, -1, 0, 1, 2], shrink=0.85)
bar.ax.set_yticklabels(["0.01", "0.1", "1", "10", "100"])
plt.show()
