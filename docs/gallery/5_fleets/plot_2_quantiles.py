"""
More than a mean
================

A histogram is an average, too: agents that count their observations in bins learn the quantiles of all observations,
and no agent ever sees another agent's data.
"""

import asyncio
from contextlib import AsyncExitStack

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs
from gossamer.agents import Memory

net = gs.Network.grid(2, 3)
data = [np.random.default_rng(i).gamma(2 + i, 1.0, 400) for i in range(6)]
levels = np.linspace(0.02, 0.98, 49)
bins = tuple(float(x) for x in np.linspace(0, 20, 41))


async def main():
    wires = Memory()
    async with AsyncExitStack() as stack:
        agents = []
        for i in range(6):
            neighbors = tuple(
                gs.Neighbor(int(j), degree=len(net.neighbors(int(j)))) for j in net.neighbors(i)
            )
            settings = gs.AgentSettings(
                i, neighbors, method=gs.AnytimeSDA("local-heavy-ball"), bins=bins, timeout=1.0
            )
            transport = wires.transport(i, tuple(n.id for n in neighbors))
            agent = gs.Agent(settings, transport=transport, source=iter(data[i]))
            agents.append(await stack.enter_async_context(agent))
        async for snapshot in agents[0].snapshots(every=0.02):
            if snapshot.age >= 500:
                break
    return [snapshot.answers.quantile(q)[0] for q in levels]


learned = asyncio.run(main())
fig, ax = plt.subplots()
for i, own in enumerate(data):
    ax.plot(
        np.sort(own),
        np.linspace(0, 1, 400),
        color="#BBBBBB",
        lw=0.8,
        label="what each agent saw" if i == 0 else None,
    )
ax.plot(np.sort(np.concatenate(data)), np.linspace(0, 1, 2400), color="black", label="all data")
ax.plot(learned, levels, "o", color="#D55E00", ms=4, label="estimates of agent 0")
ax.set(xlim=(0, 20), xlabel="observation", ylabel="share below")
ax.legend()
plt.show()
