"""Reward averaging on agents: several companies evaluate one policy, and each sees only its own rewards.

A system moves between ten states, and all companies see the moves. In state s company i receives its own noisy reward
r_i(s), which it keeps to itself. All of them want to know the value of the policy for the whole group,

    J = (I - gamma P)^{-1} r,     r = the mean of the r_i,

so their agents average the reward vectors, and each company solves for J with the transitions it has counted
(the plug-in estimator of the paper's second application).

    python examples/reward_averaging_agents.py
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

STATES = 10
DISCOUNT = 0.9
NOISE = 1.0


def rewards(mean: Array, seed: int) -> Iterator[Array]:
    """Yield what one company observes in a round: a noisy reward in every state (a generative model)."""
    rng = np.random.default_rng(seed)
    while True:
        yield mean + NOISE * rng.standard_normal(STATES)


def counted(transitions: Array, rounds: int, seed: int) -> Array:
    """Return the transition matrix estimated by counting: one move from every state in every round."""
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(rounds, row) for row in transitions]) / rounds


def value(transitions: Array, reward: Array) -> Array:
    """Return J = (I - gamma P)^{-1} r."""
    return np.linalg.solve(np.eye(STATES) - DISCOUNT * transitions, reward)


async def main(rounds: int = 400) -> tuple[Array, Array, Array]:
    """Run the companies' agents; return every agent's J (N, S), J of a center with all data, and the true J."""
    network = Network.cycle(6)
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.ones(STATES), STATES)
    means = rng.uniform(0, 2, (network.agents, STATES))
    truth = value(transitions, means.mean(axis=0))

    fleet = Fleet.create(
        network,
        observations={"dimension": STATES},
        statistics={"replicates": 0},
        rounds={"every": "0", "timeout": "10s", "death": "1m"},
    )
    wires = Memory()
    async with AsyncExitStack() as stack:
        agents = []
        for i, mean in enumerate(means):
            settings = fleet.settings(i, insecure=True)
            transport = wires.transport(i, tuple(n.id for n in settings.neighbors))
            agent = Agent(settings, transport=transport, source=rewards(mean, seed=i))
            agents.append(await stack.enter_async_context(agent))
        async for _ in agents[0].snapshots(every=0.02):
            if min(agent.snapshot.age for agent in agents) >= rounds:
                break
        averages = [agent.estimate for agent in agents]
        samples = [agent.snapshot.samples for agent in agents]

    seen = counted(transitions, min(samples), seed=99)
    answers = np.array([value(seen, average) for average in averages])
    own = [
        np.mean([next(s) for _ in range(k)], axis=0)
        for s, k in zip(map(rewards, means, range(6)), samples, strict=True)
    ]
    center = value(seen, np.mean(own, axis=0))
    alone = np.array([value(seen, mean) for mean in own])
    print(
        f"{network.agents} companies, {STATES} states, {min(samples)} samples each; largest error of any value:"
    )
    print(f"  a company alone   {np.abs(alone - truth).max():.3f}   (it sees only its own rewards)")
    print(f"  agents together   {np.abs(answers - truth).max():.3f}")
    print(f"  a center          {np.abs(center - truth).max():.3f}   (all rewards in one place)")
    return answers, center, truth


if __name__ == "__main__":
    asyncio.run(main())
