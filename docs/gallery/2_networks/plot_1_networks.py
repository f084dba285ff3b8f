"""
Errors by agent on six networks
===============================

The expected error of each agent after 60 rounds, as a multiple of the error of a center that holds all data: the ends
of a chain and the leaves of a star have received the least information. On a cycle all agents are equal.
"""

import matplotlib.pyplot as plt
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
fig, axes = plt.subplots(2, 3, figsize=(7, 4.6), layout="constrained")
for ax, (name, net) in zip(axes.flat, networks.items(), strict=True):
    result = gs.exact("anytime-sda", net, gs.Gaussian(np.zeros(net.agents), std=1.0), rounds=60)
    over_limit = result.per_agent * net.agents / result.centralized_limit
    net.plot(over_limit, ax, limits=(1, 2.5), label=None)
    ax.set_title(f"{name}, κ = {net.condition_number:.0f}", fontsize=10)
fig.colorbar(
    axes[0, 0].collections[1], ax=axes, label="error over that of a center", shrink=0.8, extend="max"
)
plt.show()
