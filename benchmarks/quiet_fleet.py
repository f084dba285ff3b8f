"""Messages and errors of a fleet whose agents without news are silent (`rounds.quiet`), next to one that always speaks.

    python -m benchmarks.quiet_fleet [AGENTS ROUNDS READINGS]

Agents of one process, in virtual time, on a random graph; each has one reading, of standard deviation 1, in each of the
first READINGS rounds. It prints the share of messages that were sent, and the root mean square distance of the agents
from the average of all readings, in standard errors of that average.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time as wall

import numpy as np
from tests.support.memory_fleet import enter, leave, member
from tests.support.virtual_time import VirtualTime

import gossamer as gs


async def run(network: gs.Network, readings: np.ndarray, count: int, quiet: bool) -> tuple[float, float]:
    """The share of messages that were sent, and the distance, after `count` rounds."""
    time = VirtualTime(network.agents)
    agents = []
    for i in range(network.agents):
        neighbors = tuple(network.neighbors(i).tolist())
        method = gs.AnytimeSDA("local-heavy-ball")
        settings = member(i, neighbors, pace=0.1, replicates=8, quiet=quiet, method=method)
        agents.append(time.agent(settings, source=readings[i].tolist(), seed=i))
    await enter(agents)
    while any(agent.snapshot.age < count for agent in agents):
        await asyncio.sleep(0.1)
    estimates = np.array([agent.estimate for agent in agents])
    sent = sum(agent._conversation.sent for agent in agents)
    every = sum(len(agent.snapshot.neighbors) * agent.snapshot.age for agent in agents)
    await leave(agents)
    return sent / every, float(np.sqrt(np.mean((estimates - readings.mean()) ** 2) * readings.size))


def main(agents: int = 50, count: int = 1000, samples: int = 1000) -> None:
    network = gs.Network.erdos_renyi(agents, seed=1)
    rng = np.random.default_rng(0)
    readings = rng.uniform(0, 10, (agents, 1)) + rng.standard_normal((agents, samples))
    for quiet in (False, True):
        started = wall.process_time()
        share, distance = asyncio.run(run(network, readings, count, quiet))
        seconds = wall.process_time() - started
        print(json.dumps({"quiet": quiet, "sent": share, "distance": distance, "s": seconds}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
