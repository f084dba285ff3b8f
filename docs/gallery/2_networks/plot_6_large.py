"""
A million agents, exactly
=========================

The spectrum of a torus has a closed form, so computing the expected error of a million agents takes seconds and
needs no simulation.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

rounds = np.unique(np.geomspace(10, 700, 10).astype(int))
fig, ax = plt.subplots()
for side, color in ((10, "#56B4E9"), (32, "#0072B2"), (100, "#009E73"), (316, "#E69F00"), (1000, "#D55E00")):
    net = gs.Network.torus(side, side)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, net.agents), std=1.0)
    ax.loglog(
        rounds,
        gs.exact("anytime-sda", net, obs, rounds).over_limit,
        color=color,
        label=f"{net.agents:,} agents",
    )
ax.axhline(1, color="gray", ls=":")
ax.set(xlabel="rounds", ylabel="error over a center's", ylim=(0.8, 1e10))
ax.legend(ncols=2, loc="upper right")
plt.show()
