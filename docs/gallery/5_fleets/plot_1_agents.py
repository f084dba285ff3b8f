"""
Agents in one program
=====================

Eight agents run as they do in a fleet, but connected in memory instead of by TLS. Each estimates the average with a
standard error; one of them is shown here from its first round on.
"""

import asyncio
from contextlib import AsyncExitStack

import matplotlib.pyplot as plt
import numpy as np

import gossamer as gs
from gossamer.agents import Memory

net = gs.Network.cycle(8)
means = np.random.default_rng(0).uniform(0, 10, 8)


def sensor(i):
    rng = np.random.default_rng(i)
    while True:
        yield rng.normal(means[i], 1.0)


async def main():
    wires, seen = Memory(), []
    async with AsyncExitStack() as stack:
        agents = []
        for i in range(8):
            neighbors = tuple(gs.Neighbor(int(j), degree=2) for j in net.neighbors(i))
            settings = gs.AgentSettings(
                i, neighbors, method=gs.AnytimeSDA("local-heavy-ball"), timeout=1.0, pace=0.005
            )
            transport = wires.transport(i, tuple(n.id for n in neighbors))
            agent = gs.Agent(settings, transport=transport, source=sensor(i))
            agents.append(await stack.enter_async_context(agent))
        async for snapshot in agents[0].snapshots(every=0.01):
            seen.append((snapshot.age, snapshot.estimate[0], snapshot.standard_error[0]))
            if snapshot.age >= 300:
                break
    return np.array(seen)


rounds, estimate, error = asyncio.run(main()).T
fig, ax = plt.subplots()
low, high = estimate - 2.31 * error, estimate + 2.31 * error
ax.fill_between(rounds, low, high, color="#56B4E9", alpha=0.4, lw=0, label="95% interval")
ax.plot(rounds, estimate, color="#0072B2", label="agent 0")
ax.axhline(means.mean(), color="black", ls="--", lw=1, label="the average of all means")
ax.set(xlabel="rounds", ylabel="estimate", ylim=(means.mean() - 0.5, means.mean() + 0.5))
ax.legend()
plt.show()
