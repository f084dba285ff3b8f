"""
Five ways to accelerate
=======================

The error of every form of Anytime SDA, relative to that of a center, on a chain of 100 agents, the hardest of the
common networks. In the local forms (dashed), agents know only their own edges.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.path(100)
obs = gs.Gaussian(np.random.default_rng(38).uniform(0, 10, 100), std=1.0)
rounds = np.unique(np.geomspace(60, 5000, 60).astype(int))

fig, ax = plt.subplots()
for form in ("heavy-ball", "chebyshev", "nesterov", "local-heavy-ball", "local"):
    error = gs.exact(gs.AnytimeSDA(form), net, obs, rounds).over_limit
    ax.loglog(rounds, error - 1, "--" if form.startswith("local") else "-", label=form)
ax.set(xlabel="rounds", ylabel="error over a center's, minus 1", ylim=(3e-3, 1e4))
ax.legend()
plt.show()
