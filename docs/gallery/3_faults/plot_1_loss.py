"""
Half of the messages are lost
=============================

With the ledger, a lost message is merely a delay. A primal method has no ledger, and what it loses cannot be
recovered.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.grid(6, 6)
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 36), std=1.0)
lost = np.array([0, 0.15, 0.3, 0.45, 0.6, 0.7])

# On a complete graph plain averaging is a center: it has the same samples, all in one place.
center = gs.simulate("dsg", gs.Network.complete(36), obs, 600, 40, seed=2)


def cost(method, p):
    """1 plus how far the agents are from the center's answer, in units of the center's own error."""
    run = gs.simulate(method, net, obs, 600, 40, faults=gs.faults.Loss(p), seed=2)
    apart = ((run.estimates - center.estimates) ** 2).sum(axis=(1, 2)).mean()
    return 1 + apart / run.centralized_limit


fig, ax = plt.subplots()
forms = {
    "Anytime SDA, local": gs.AnytimeSDA("local-heavy-ball"),
    "Anytime SDA, Nesterov": gs.AnytimeSDA(),
    "DSG": gs.DSG(),
}
for label, method in forms.items():
    ax.semilogy(100 * lost, [cost(method, p) for p in lost], "o-", label=label)
ax.axhline(1, color="gray", ls=":")
ax.set(xlabel="messages lost, %", ylabel="error over a center's, after 600 rounds")
ax.legend()
plt.show()
