"""Linear estimation on agents: each sensor measures a few combinations of the unknowns, and every sensor learns them
all.

Sensor i takes measurements y = A_i b + noise of three unknown numbers b, but A_i has only one or two rows, so no
sensor can determine b alone. The least-squares solution needs only two averages over the network,

    the mean of A_i' A_i  (the same every time)   and   the mean of A_i' y_i  (new with every measurement),

so the sensors average both as one vector, with the same agents that average temperatures, and each solves a
3 x 3 system locally.

    python examples/linear_estimation_agents.py
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import numpy as np
from numpy.typing import NDArray

from gossamer.agents import Agent, Fleet, Memory
from gossamer.networks import Network

Array = NDArray[np.float64]

TRUTH = np.array([2.0, -1.0, 0.5])
NOISE = 0.3
UPPER = np.triu_indices(3)


def measurements(rows: Array, seed: int) -> Iterator[Array]:
    """Yield one observation per round for a sensor's agent: A'A (six numbers) and A'y (three)."""
    rng = np.random.default_rng(seed)
    while True:
        y = rows @ TRUTH + NOISE * rng.standard_normal(len(rows))
        yield np.concatenate([(rows.T @ rows)[UPPER], rows.T @ y])


def solve(average: Array) -> Array:
    """Return the estimate of b from an agent's averaged vector."""
    matrix = np.zeros((3, 3))
    matrix[UPPER] = average[:6]
    matrix = np.triu(matrix) + np.triu(matrix, 1).T
    return np.linalg.solve(matrix, average[6:])


async def main(rounds: int = 300) -> tuple[Array, Array]:
    """Run the sensors; return every agent's answer (N, 3) and the answer of a center that has all data."""
    network = Network.grid(2, 4)
    rng = np.random.default_rng(0)
    sensors = [rng.standard_normal((1 + i % 2, 3)) for i in range(network.agents)]
    alone = max(np.linalg.matrix_rank(rows) for rows in sensors)
    print(f"{network.agents} sensors, each of rank at most {alone} where 3 are needed")

    # Nine numbers per observation; "0" means as fast as the neighbors answer.
    fleet = Fleet.create(
        network, observations={"dimension": 9}, rounds={"every": "0", "timeout": "10s", "death": "1m"}
    )
    wires = Memory()
    async with AsyncExitStack() as stack:
        agents = []
        for i, rows in enumerate(sensors):
            settings = fleet.settings(i, insecure=True)
            transport = wires.transport(i, tuple(n.id for n in settings.neighbors))
            agent = Agent(settings, transport=transport, source=measurements(rows, seed=i))
            agents.append(await stack.enter_async_context(agent))
        async for _ in agents[0].snapshots(every=0.02):
            if min(agent.snapshot.age for agent in agents) >= rounds:
                break
        answers = np.array([solve(agent.estimate) for agent in agents])
        samples = [agent.snapshot.samples for agent in agents]

    # For comparison: the same measurements, all in one place.
    total = np.mean(
        [
            np.mean([next(stream) for _ in range(count)], axis=0)
            for stream, count in zip(
                (measurements(rows, i) for i, rows in enumerate(sensors)), samples, strict=True
            )
        ],
        axis=0,
    )
    center = solve(total)
    print(f"truth   {TRUTH}")
    print(f"center  {center.round(4)}   (all data in one place)")
    for i, answer in enumerate(answers):
        print(f"agent {i} {answer.round(4)}   after {samples[i]} measurements of its own")
    return answers, center


if __name__ == "__main__":
    asyncio.run(main())
