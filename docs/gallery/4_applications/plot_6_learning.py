"""
One model, learned by all agents
================================

Twelve agents each see one labeled sample per round and fit one logistic model to all samples, without sharing any of
them. Stochastic gradients need a step size and have a larger error.
"""

import matplotlib.pyplot as plt

import gossamer as gs
from gossamer.applications import DSGD, DSGT, Alone

team = gs.LikelihoodEstimation.random(gs.Network.grid(3, 4), "logistic", dimension=3)
rounds = [50, 100, 200, 400, 800]
solvers = {
    "Anytime SDA": "anytime-sda",
    "stochastic gradients": DSGD(),
    "gradient tracking": DSGT(),
    "each agent alone": Alone(),
}
fig, ax = plt.subplots()
for label, solver in solvers.items():
    ax.loglog(rounds, team.simulate(solver, rounds, trials=10).over_limit, "o-", ms=4, label=label)
ax.axhline(1, color="gray", ls=":")
ax.set(xlabel="rounds", ylabel="error over a center's", ylim=(0.8, 200))
ax.set(xticks=rounds, xticklabels=[str(t) for t in rounds])
ax.minorticks_off()
ax.legend(ncols=2)
plt.show()
