"""
Means that drift
================

The true average moves. With a constant gain, agents forget the past and follow it; a plain average of everything so
far lags behind.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.random_geometric(50, seed=3)
start = np.random.default_rng(3).uniform(0, 4, 50)


def means(t):
    return start + 2 * np.sin(2 * np.pi * t / 400) + (t > 600) * 3.0


obs = gs.Moving(gs.Gaussian(start, std=1.0), means)
rounds = np.arange(1, 1001)
truth = [means(t).mean() for t in rounds]

fig, ax = plt.subplots()
for gain, color in ((None, "#CC79A7"), (0.01, "#56B4E9"), (0.05, "#0072B2")):
    run = gs.simulate(gs.AnytimeSDA(gain=gain), net, obs, 1000, trials=1, keep="iterates", seed=5)
    agent = run.iterates["estimate"][0, :, 0, 0]
    ax.plot(rounds, agent, color=color, lw=1.2, label="no forgetting" if gain is None else f"gain {gain}")
ax.plot(rounds, truth, "k--", lw=1, label="the moving average")
ax.set(xlabel="rounds", ylabel="one agent's estimate", ylim=(-2, 9))
ax.legend(ncols=2)
plt.show()
