"""
Bias and variance
=================

The remaining effect of the agents' different means (bias) falls exponentially; the effect of noise (variance) falls
like 1/T. The expected error is their sum, and :func:`gossamer.exact` computes both.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.grid(20, 20)
obs = gs.Gaussian(np.random.default_rng(2).uniform(0, 10, 400), std=1.0)
rounds = np.unique(np.geomspace(5, 2000, 80).astype(int))
error = gs.exact("anytime-sda", net, obs, rounds)

fig, ax = plt.subplots()
ax.fill_between(rounds, 1e-4, error.variance, color="#0072B2", alpha=0.25, lw=0, label="variance")
ax.fill_between(rounds, error.variance, error.total_error, color="#D55E00", alpha=0.35, lw=0, label="bias")
ax.loglog(rounds, error.total_error, color="black", label="total error")
ax.loglog(rounds, error.centralized_limit, ":", color="gray", label="centralized limit")
ax.set(xlabel="rounds", ylabel="expected error", ylim=(3e-4, None), xlim=(5, 2000))
ax.legend()
plt.show()
