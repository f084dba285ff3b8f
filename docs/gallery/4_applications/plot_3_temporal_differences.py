"""
Plug-in against temporal differences
====================================

Is it better to average rewards and solve the Bellman equation, or to mix value functions step by step? All methods
see the same samples.
"""

import matplotlib.pyplot as plt

import gossamer as gs
from gossamer.applications import Centralized, TemporalDifference, problems

team = gs.PolicyEvaluation.from_problem(
    gs.Network.path(12), problems.garnet(20, 3, seed=1), discount=0.95, rule="perturb", reward_std=0.5
)
rounds = [50, 100, 200, 400, 800, 1600]
solvers = {
    "plug-in, Anytime SDA": gs.AnytimeSDA(),
    "plug-in, SDA": gs.SDA(),
    "TD(0), last iterate": TemporalDifference(),
    "TD(0), averaged": TemporalDifference(step="sqrt", output="average"),
    "a data center": Centralized(),
}
fig, ax = plt.subplots()
for name, solver in solvers.items():
    run = team.simulate(solver, rounds, trials=10)
    center = name == "a data center"
    ax.loglog(rounds, run.error, ":" if center else "o-", color="gray" if center else None, ms=4, label=name)
ax.set(xlabel="rounds", ylabel="largest error of any agent in any state")
ax.set_ylim(top=200)
ax.legend(ncols=2, loc="upper right")
plt.show()
