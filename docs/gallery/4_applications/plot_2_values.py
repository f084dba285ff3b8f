"""
The value function of a team
============================

Twelve robots follow the same policy through a grid world, and each receives only its own share of the reward. By
talking to its neighbors, every robot learns the value of each state to the *team*.
"""

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs
from gossamer.applications import problems

world = problems.grid_world(8, 8)
team = gs.PolicyEvaluation.from_problem(
    gs.Network.cycle(12), world, discount=0.9, rule="split", reward_std=0.5
)
rng = np.random.default_rng(0)
cumulative = np.cumsum(team.transitions.toarray(), axis=1)
online = team.online()
views = {}
for t in range(1, 301):
    following = (cumulative < rng.random((team.states, 1))).sum(axis=1).clip(max=team.states - 1)
    online.observe(following, team.rewards + team.reward_std * rng.normal(size=team.rewards.shape))
    if t in (10, 60, 300):
        views[f"round {t}"] = online.values()[7]
views["the truth"] = team.values

fig, axes = plt.subplots(1, 4, figsize=(8.4, 2.6))
for ax, (title, values) in zip(axes, views.items(), strict=True):
    shown = ax.imshow(values.reshape(8, 8), cmap="viridis", vmin=team.values.min(), vmax=team.values.max())
    ax.set(title=title, xticks=[], yticks=[])
    ax.grid(visible=False)
fig.colorbar(shown, ax=axes, label="value, as robot 7 sees it", shrink=0.8)
plt.show()
