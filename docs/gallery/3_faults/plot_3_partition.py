"""
Cut in two, and healed
======================

For the first 200 rounds no message crosses the middle of a grid. Each half reaches its own average; when the
cut heals, all agents reach the common one.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.grid(6, 12)
half = np.arange(72) % 12 < 6
mean = np.random.default_rng(0).uniform(0, 4, 72) + 5 * half
obs = gs.Gaussian(mean, std=1.0)
cut = gs.faults.Partition(np.flatnonzero(half).tolist(), 0, 200)
run = gs.simulate(
    gs.AnytimeSDA("local-heavy-ball"), net, obs, 450, trials=1, faults=cut, keep="iterates", seed=1
)
estimates = run.iterates["estimate"][0, :, :, 0]

fig, ax = plt.subplots(figsize=(7, 3.8))
ax.plot(estimates[:, half], color="#D55E00", lw=0.4, alpha=0.6)
ax.plot(estimates[:, ~half], color="#0072B2", lw=0.4, alpha=0.6)
ax.axvspan(0, 200, color="black", alpha=0.05, lw=0)
ax.hlines(mean.mean(), 0, 450, color="black", ls="--", lw=1)
ax.hlines([mean[half].mean(), mean[~half].mean()], 0, 200, color="black", ls=":", lw=1.2)
ax.text(100, 9.2, "no message crosses", ha="center", fontsize=9)
ax.set(ylim=(0, 10), xlim=(0, 450), xlabel="rounds", ylabel="estimates")
plt.show()
