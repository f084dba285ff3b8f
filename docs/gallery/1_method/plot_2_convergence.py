"""
Four methods and two limits
===========================

The exact expected error, without sampling, of the paper's SDA, the primal methods it is compared with, and Anytime
SDA, which stays close to the limit. The thin gray lines are limits that no method can beat.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net = gs.Network.cycle(60)
obs = gs.Gaussian(np.random.default_rng(1).uniform(0, 10, 60), std=1.0)
rounds = np.unique(np.geomspace(10, 5000, 40).astype(int))

comparison = gs.compare(
    ["sda", "anytime-sda", "dsg", "d-masg"], {"a cycle of 60 agents": net}, obs, rounds, progress=False
)
comparison.plot()
plt.show()
