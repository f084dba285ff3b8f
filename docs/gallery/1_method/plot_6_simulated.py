"""
The exact error is the mean of the simulated ones
=================================================

Each of a thousand trials with heavy-tailed noise has its own error. Their mean is what :func:`gossamer.exact`
computes without drawing a single random number.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.star(30)
obs = gs.StudentT(np.random.default_rng(4).uniform(0, 10, 30), std=1.0, df=6)
exact = gs.exact("anytime-sda", net, obs, rounds=400)
run = gs.simulate("anytime-sda", net, obs, rounds=400, trials=1000, seed=1)

fig, ax = plt.subplots()
ax.hist(run.errors, bins=np.geomspace(run.errors.min(), run.errors.max(), 50), color="#56B4E9")
ax.axvline(
    run.total_error, color="#0072B2", lw=6, alpha=0.4, label=f"mean of 1000 trials {run.total_error:.4f}"
)
ax.axvline(exact.total_error, color="#D55E00", label=f"exact {exact.total_error:.4f}")
ax.set(xscale="log", xlabel="total error of a trial", ylabel="trials")
ax.margins(y=0.2)
ax.legend(loc="upper left")
plt.show()
