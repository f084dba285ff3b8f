"""
What does an accuracy cost?
===========================

The number of messages in the whole network until the total error is below a target, for several methods, computed by
:func:`gossamer.plan`.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.grid(8, 8)
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 64), std=1.0)
targets = np.geomspace(1, 2e-3, 10).tolist()

fig, ax = plt.subplots()
for method in ("anytime-sda", "sda", "dsg"):
    plans = gs.plan(net, obs, targets, method, most_rounds=60_000)
    ax.loglog(
        targets, [plan.messages if plan.reached else np.nan for plan in plans], "o-", ms=4, label=method
    )
ax.invert_xaxis()
ax.set(xlabel="target: total error", ylabel="messages in the network")
ax.legend()
plt.show()
