"""
Accuracy against privacy
========================

To make an average differentially private, noise must stay in it. A trusted center adds it once. Without a center, 100
agents that send their values openly need ten times as much; with masks that cancel between neighbors, they come the
closer to the center the larger the masks are.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs

net, delta = gs.Network.grid(10, 10), 1e-6
in_average = np.geomspace(0.004, 5, 29)  # the standard deviation of the noise in the average
noise = in_average * np.sqrt(net.agents)  # and of that of each agent


def epsilons(masks):
    """The privacy of the worst agent, against a change of its level by 1, from an observer of all messages."""
    return [gs.privacy(net, gs.Masks(masks, noise=z)).epsilon(delta) for z in noise]


fig, ax = plt.subplots()
local = np.array(epsilons(0.0))
ax.loglog(local, in_average, color="#D55E00", label="local noise")
for masks, color in ((10.0, "#E69F00"), (30.0, "#56B4E9"), (300.0, "#0072B2")):
    ax.loglog(epsilons(masks), in_average, color=color, label=f"masks of {masks:g}")
ax.loglog(local, in_average / np.sqrt(net.agents), color="black", ls="--", lw=1, label="a trusted center")
ax.set(
    xlabel=r"privacy: $\epsilon$ for $\delta = 10^{-6}$",
    ylabel="noise in the average",
    xlim=(0.1, 10),
    ylim=(0.004, 5),
)
ax.set_title("A grid of 100 agents")
ax.legend()
plt.show()
