"""A fleet of sensors in one asyncio program: every sensor learns the average of all of them.

Twelve thermometers hang in a building. Each sees only its own room, with noise, and talks only to the
thermometers within reach; each one should know the mean temperature of the building at any moment.

    python examples/sensor_fleet.py

The agents below are the ones that `gossamer agent` runs as processes; only the wires differ (here they are
inside this program, there they are TLS connections). The whole thing takes about five seconds.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import numpy as np

from gossamer.agents.agent import Agent
from gossamer.agents.config.tables import RoundsTable
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.transports.memory import Memory
from gossamer.networks import Network

NOISE = 0.5


async def thermometer(agent: Agent, temperature: float, pause: float, seed: int) -> None:
    """A sensor's own program: it measures whenever it likes and tells its agent. Rates may differ."""
    rng = np.random.default_rng(seed)
    while True:
        agent.observe(temperature + NOISE * rng.standard_normal())
        await asyncio.sleep(pause)


def report(when: str, agents: list[Agent], truth: float) -> float:
    """Print what the agents know, and return their largest error."""
    estimates = np.array([agent.estimate for agent in agents])
    worst = float(np.abs(estimates - truth).max())
    print(
        f"{when}: truth {truth:.3f}, agent 0 says {estimates[0]:.3f} +- {agents[0].standard_error:.3f}, "
        f"estimates from {estimates.min():.3f} to {estimates.max():.3f}, largest error {worst:.3f}"
    )
    return worst


async def main(seconds: float = 1.5) -> list[float]:
    """Run the fleet; return the largest error of any agent at each of three moments."""
    # 1. Who can talk to whom. The agents need to know no more than their neighbors; one that is silent for 0.5
    #    seconds counts as dead.
    network = Network.random_geometric(12, seed=3)
    fleet = Fleet.create(network, rounds=RoundsTable(every="5ms", timeout="50ms", death="500ms"))

    # 2. What the rooms are really like. Nobody knows this.
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

        # 3. The estimate is there at any moment; it gets better as observations come.
        await asyncio.sleep(seconds / 3)
        errors.append(report("early", agents, temperatures.mean()))
        await asyncio.sleep(seconds)
        errors.append(report("later", agents, temperatures.mean()))

        # 4. The boiler room's agent stops in order. What it has measured still counts, so the others stay calm; only a
        #    crash, or a new roster without it, would take its data out of the average.
        tasks[-1].cancel()
        await boiler_room.aclose()
        await asyncio.sleep(1.0 + seconds)
        errors.append(report("while the boiler room is off", agents[:-1], temperatures.mean()))
        for task in tasks:
            task.cancel()
    return errors


if __name__ == "__main__":
    asyncio.run(main())
