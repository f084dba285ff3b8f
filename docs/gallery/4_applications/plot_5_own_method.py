"""
Your own method
===============

A method takes about twenty lines, and every engine runs it. This one is DSG that moves only part of the way,
compared with DSG itself.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs


@dataclass(frozen=True)
class LazyDSG(gs.Method):
    laziness: float = 0.5
    name = "lazy-dsg"
    anytime = True

    class State(NamedTuple):
        x: Any

    class Coefficients(NamedTuple):
        gain: Any
        laziness: Any

    def coefficients(self, network, rounds):
        return self.Coefficients(1.0 / np.arange(1, rounds + 1), self.laziness)

    @staticmethod
    def message(c, s, observation):
        return s.x + c.gain * (observation - s.x)

    @staticmethod
    def step(c, s, observation, mixed):
        return LazyDSG.State(s.x + c.gain * (observation - s.x) - c.laziness * mixed)

    @staticmethod
    def estimate(c, s):
        return s.x


net = gs.Network.grid(7, 7)
obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 49), std=1.0)
rounds = np.unique(np.geomspace(5, 3000, 40).astype(int))
fig, ax = plt.subplots()
for laziness in (0.1, 0.25, 0.5, 1.0):
    ax.loglog(rounds, gs.exact(LazyDSG(laziness), net, obs, rounds).over_limit, label=f"laziness {laziness}")
ax.loglog(rounds, gs.exact("anytime-sda", net, obs, rounds).over_limit, "k--", label="Anytime SDA")
ax.set(xlabel="rounds", ylabel="error over a center's")
ax.set_ylim(0.8, 3e4)
ax.legend(ncols=2, loc="upper right")
plt.show()
