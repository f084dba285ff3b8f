"""
Losses in bursts
================

Links that fall silent for ten rounds at a time cost more than the same share of independent losses: on a ring,
ten silent rounds cut the network.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

networks = {
    "cycle": gs.Network.cycle(40),
    "grid": gs.Network.grid(6, 7),
    "random": gs.Network.erdos_renyi(40, seed=1),
}
kinds = {
    "single losses": gs.faults.Loss(0.3),
    "bursts of 5 rounds": gs.faults.Bursts(5, 0.3),
    "bursts of 20 rounds": gs.faults.Bursts(20, 0.3),
}


def cost(net, fault):
    """How far the agents are from a center with the same samples, in units of the center's own error."""
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, net.agents), std=1.0)
    center = gs.simulate("dsg", gs.Network.complete(net.agents), obs, 1000, 30)
    run = gs.simulate(gs.AnytimeSDA("local-heavy-ball"), net, obs, 1000, 30, faults=fault)
    apart = ((run.estimates - center.estimates) ** 2).sum(axis=(1, 2)).mean()
    return apart / run.centralized_limit


fig, ax = plt.subplots()
for k, (label, fault) in enumerate(kinds.items()):
    costs = [cost(net, fault) for net in networks.values()]
    ax.bar(np.arange(3) + 0.27 * (k - 1), costs, 0.25, label=f"30% lost in {label}")
ax.set(
    yscale="log", xticks=range(3), xticklabels=networks, ylabel="error over a center's, minus 1, 1000 rounds"
)
ax.legend()
plt.show()
