"""A fleet of sensors in one asyncio program: every sensor learns the average of all of them.

Twelve thermometers hang in a building. Each sees only its own room, with noise, and talks only to the
thermometers within reach; each one should know the mean temperature of the building at any moment.

    python examples/sensor_fleet.py

These are the same agents that `gossamer agent` runs as processes; only the transport differs (in memory here, TLS
connections there). The example takes about five seconds.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import numpy as np

from gossamer.agents import Agent, Fleet, Memory
from gossamer.networks import Network

NOISE = 0.5


async def thermometer(agent: Agent, temperature: float, pause: float, seed: int) -> None:
    """A sensor's own program: it measures whenever it likes and tells its agent. Rates may differ."""
    rng = np.random.default_rng(seed)
    while True:
        agent.observe(temperature + NOISE * rng.standard_normal())
        await asyncio.sleep(pause)


def report(when: str, agents: list[Agent], truth: float) -> float:
    """Print the estimates of the agents and return their largest error."""
    estimates = np.array([agent.estimate for agent in agents])
    worst = float(np.abs(estimates - truth).max())
    print(
        f"{when}: truth {truth:.3f}, agent 0 says {estimates[0]:.3f} +- {agents[0].standard_error:.3f}, "
        f"estimates from {estimates.min():.3f} to {estimates.max():.3f}, largest error {worst:.3f}"
    )
    return worst


async def main(seconds: float = 1.5) -> list[float]:
    """Run the fleet; return the largest error of any agent at each of three moments."""
    # 1. The network. An agent needs to know only its neighbors; a neighbor that is silent for 0.5 seconds counts as
    #    dead.
    network = Network.random_geometric(12, seed=3)
    fleet = Fleet.create(network, rounds={"every": "5ms", "timeout": "50ms", "death": "500ms"})

    # 2. The true temperatures, which no agent knows.
    temperatures = np.random.default_rng(1).uniform(16, 24, network.agents)
    temperatures[-1] = 35.0  # the boiler room

    wires = Memory()
    errors = []
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as sensors:
        boiler_room = await stack.enter_async_context(AsyncExitStack())
        agents = []
        for i in range(network.agents):
            settings = fleet.settings(i, insecure=True)  # plaintext is fine inside one process
            transport = wires.transport(i, tuple(n.id for n in settings.neighbors))
            room = boiler_room if i == network.agents - 1 else stack
            agents.append(await room.enter_async_context(Agent(settings, transport=transport)))
        tasks = [
            # Every third sensor measures a tenth as often. Its mean still counts like any other.
            sensors.create_task(thermometer(agents[i], t, 0.05 if i % 3 == 0 else 0.005, seed=i))
            for i, t in enumerate(temperatures)
        ]

        # 3. An estimate is available at any moment; it improves as observations arrive.
        await asyncio.sleep(seconds / 3)
        errors.append(report("early", agents, temperatures.mean()))
        await asyncio.sleep(seconds)
        errors.append(report("later", agents, temperatures.mean()))

        # 4. The boiler room's agent stops cleanly. Its measurements still count, so the other estimates do not
        #    move; only a crash, or a new roster without it, would take its data out of the average.
        tasks[-1].cancel()
        await boiler_room.aclose()
        await asyncio.sleep(1.0 + seconds)
        errors.append(report("while the boiler room is off", agents[:-1], temperatures.mean()))
        for task in tasks:
            task.cancel()
    return errors


if __name__ == "__main__":
    asyncio.run(main())
