"""
The number of rounds grows with the square root of the condition number
=======================================================================

How many rounds does a method need to come within a factor of two of a center, on chains, rings, grids and random
graphs of many sizes?
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

kinds = {
    "path": [gs.Network.path(n) for n in (10, 20, 40, 80)],
    "cycle": [gs.Network.cycle(n) for n in (10, 20, 40, 80)],
    "grid": [gs.Network.grid(n, n) for n in (4, 6, 9, 13)],
    "random": [gs.Network.erdos_renyi(n, seed=1) for n in (20, 40, 80)],
}
rounds = np.unique(np.geomspace(5, 20000, 60).astype(int))


def first(method, net):
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, net.agents), std=1.0)
    good = gs.exact(method, net, obs, rounds).over_limit < 2
    return rounds[np.argmax(good)] if good.any() else np.nan


fig, ax = plt.subplots()
for method, color, power in (("anytime-sda", "#0072B2", 1), ("dsg", "#D55E00", 2)):
    ratios = []
    for marker, (kind, networks) in zip("os^D", kinds.items(), strict=True):
        root = np.array([np.sqrt(net.condition_number) for net in networks])
        needed = np.array([first(method, net) for net in networks])
        ax.loglog(
            root,
            needed,
            marker,
            color=color,
            mfc=color if power == 1 else "none",
            label=kind if power == 1 else None,
        )
        ratios.extend(needed / root**power)
    reach = np.array([2, 60 if power == 1 else 14])
    ax.loglog(reach, np.nanmedian(ratios) * reach**power, color=color, lw=0.8)
ax.text(20, 60, "Anytime SDA: like √κ", color="#0072B2")
ax.text(9, 2000, "plain averaging (DSG): like κ", color="#D55E00", ha="left")
ax.set(xticks=[2, 5, 10, 20, 50, 100], xticklabels=["2", "5", "10", "20", "50", "100"])
ax.minorticks_off()
ax.set(xlabel="√κ", ylabel="rounds until within 2 times a center's error")
ax.legend(loc="upper right")
plt.show()
