"""
Every agent closes in on the average
====================================

A hundred agents on a grid each have their own mean between 0 and 10 and see a very noisy sample of it per round.
The band contains the estimates of *all* agents; the dashed lines are two standard deviations of a center that
has all samples.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.grid(10, 10)
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 100), std=5.0)
run = gs.simulate("anytime-sda", net, obs, rounds=300, trials=1, keep="iterates")
estimates = run.iterates["estimate"][0, :, :, 0]  # (rounds, agents)

rounds = np.arange(1, 301)
target = obs.mean.mean()
spread = 2 * 5.0 / np.sqrt(100 * rounds)
fig, ax = plt.subplots(figsize=(7, 3.6))
for low, alpha in ((0, 0.18), (10, 0.25), (25, 0.35)):
    ax.fill_between(
        rounds, *np.percentile(estimates, [low, 100 - low], axis=1), color="#0072B2", alpha=alpha, lw=0
    )
ax.plot(rounds, estimates[:, ::23], color="#0072B2", lw=0.6, alpha=0.7)
ax.plot(rounds, target + spread, "--", color="#D55E00", lw=1)
ax.plot(rounds, target - spread, "--", color="#D55E00", lw=1, label="a center that has all samples, ±2 s.d.")
ax.set(
    xscale="log",
    xlim=(1, 300),
    ylim=(target - 3.2, target + 3.2),
    xlabel="rounds",
    ylabel="estimates of all agents",
)
ax.legend(loc="upper right")
plt.show()
