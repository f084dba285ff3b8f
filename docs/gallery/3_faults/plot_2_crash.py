"""
An agent dies, and comes back
=============================

Only agent 0 sees large values. When it dies, its flow returns, and the survivors converge to *their* average; when
it is back, all agents return to the common average.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.random_geometric(30, seed=2)
mean = np.random.default_rng(1).uniform(0, 4, 30)
mean[0] = 60.0
obs = gs.Gaussian(mean, std=1.0)
faults = gs.faults.Faults(gs.faults.Crash(0, 200), gs.faults.Restart(0, 420))
run = gs.simulate(
    gs.AnytimeSDA("local-heavy-ball"), net, obs, 650, trials=1, faults=faults, keep="iterates", seed=3
)
estimates = run.iterates["estimate"][0, :, :, 0]
estimates[200:424, 0] = np.nan

fig, ax = plt.subplots()
ax.plot(estimates[:, 1:], color="#0072B2", lw=0.5, alpha=0.5)
ax.plot(estimates[:, 0], color="#D55E00", lw=1.5, label="agent 0")
ax.hlines(mean.mean(), 0, 650, color="black", ls="--", lw=1, label="average of all")
ax.hlines(mean[1:].mean(), 200, 420, color="black", ls=":", lw=1.5, label="average of the survivors")
ax.axvspan(200, 420, color="#D55E00", alpha=0.08, lw=0)
ax.set(ylim=(0, 7), xlim=(0, 650), xlabel="rounds", ylabel="estimates")
ax.legend(loc="upper right", bbox_to_anchor=(0.64, 1))
plt.show()
