"""
Half of the messages are gone
=============================

The ledger makes loss a delay and nothing more. A primal method has no ledger: what it loses is gone for
good.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.grid(6, 6)
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 36), std=1.0)
lost = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])

center = gs.simulate(
    "dsg", gs.Network.complete(36), obs, 1000, 60, seed=2
)  # the same samples, all in one place
fig, ax = plt.subplots()
for method, label in (
    (gs.AnytimeSDA("local"), "Anytime SDA, local"),
    (gs.AnytimeSDA(), "Anytime SDA, Nesterov"),
    (gs.DSG(), "DSG"),
):
    runs = [
        gs.simulate(method, net, obs, 1000, 60, faults=gs.faults.Loss(p), keep="errors", seed=2) for p in lost
    ]
    ax.semilogy(100 * lost, [run.total_error / center.total_error for run in runs], "o-", label=label)
ax.axhline(1, color="gray", ls=":")
ax.set(xlabel="messages lost, %", ylabel="error over a center's, after 1000 rounds")
ax.legend()
plt.show()
