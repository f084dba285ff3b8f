"""Noise that stays in the average: drawn once per agent, kept in its store, and part of every standard error."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.support.memory_fleet import enter, in_memory, leave, member
from tests.support.waiting import until_true

from gossamer.agents.agent import Agent
from gossamer.agents.round.batching import Batcher
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.store.agent_store import AgentStore
from gossamer.errors import InvalidInput

EDGES = {0: (1, 3), 1: (0, 2), 2: (1, 3), 3: (0, 2)}
LEVELS = np.array([3.0, 8.0, -2.0, 5.0])
REPLICATES = 16
SIZE = 2 + REPLICATES


def agents_in(folder: Path, noise: float = 5.0, **options: object) -> list[Agent]:
    return in_memory(
        member(i, others, members=4, noise=noise, replicates=REPLICATES, store=folder / f"{i}.db", **options)
        for i, others in EDGES.items()
    )


def draws_in(folder: Path, what: str) -> np.ndarray:
    """(4, n) the noise in the stores."""
    draws = []
    for i in EDGES:
        store = AgentStore(folder / f"{i}.db", i, SIZE, what)
        draws.append(store.noise(lambda: pytest.fail("drawn again")))
        store.close()
    return np.array(draws)


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0.0, 50.0])
def test_answers_and_standard_errors_contain_noise_that_restarts_do_not_change(
    tmp_path: Path, mask: float
) -> None:
    """Each agent observes once, so that the noise is all of the standard error."""
    what = ""

    async def run(observed: bool) -> None:
        nonlocal what
        agents = agents_in(tmp_path, mask=mask)
        await enter(agents)
        if not observed:
            for agent, level in zip(agents, LEVELS, strict=True):
                agent.observe(level)
        await until_true(lambda: all(a.snapshot.answers.presence > 1 - 1e-9 for a in agents), "all observe")
        draws = np.array([agent._store.noise(lambda: pytest.fail("drawn again")) for agent in agents])
        mean, replicates = LEVELS.mean() + draws[:, 1].mean(), draws[:, 2:].mean(axis=0)
        error = np.sqrt(np.mean(replicates**2))
        await until_true(lambda: all(abs(a.estimate - mean) < 1e-6 for a in agents), f"the average {mean}")
        await until_true(lambda: all(abs(a.standard_error - error) < 1e-3 for a in agents), f"error {error}")
        assert {a.snapshot.state for a in agents} == {"running"}
        assert not draws[:, 0].any()  # whether an agent has observed is not noisy
        assert np.abs(draws[:, 1:]).min() > 0
        await leave(agents)
        what = agents[0]._store.method

    asyncio.run(run(observed=False))
    first = draws_in(tmp_path, what)
    asyncio.run(run(observed=True))
    np.testing.assert_array_equal(draws_in(tmp_path, what), first)


def test_noise_is_on_the_disk_before_it_is_used(tmp_path: Path) -> None:
    """A process that is killed right after the draw, before anything is committed, draws no second time."""
    path, read, written = tmp_path / "0.db", *os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(
                written, AgentStore(path, 0, 3, "x").noise(lambda: np.random.default_rng().normal(size=3))
            )
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    drawn = np.frombuffer(os.read(read, 100))
    os.close(read)
    os.close(written)
    store = AgentStore(path, 0, 3, "x")
    assert store.load() is None
    np.testing.assert_array_equal(store.noise(lambda: pytest.fail("drawn again")), drawn)
    store.close()


def test_noise_of_another_size_needs_another_store_and_no_store_is_refused(tmp_path: Path) -> None:
    for agent in agents_in(tmp_path):
        agent._store.close()
    with pytest.raises(
        InvalidInput, match=r"must belong to the method .*, noise \(6.0,\), but it belongs to"
    ):
        agents_in(tmp_path, noise=6.0)
    with pytest.raises(
        InvalidInput, match="store must be set in a fleet with noise, because an agent keeps its"
    ):
        in_memory([member(0, (1,), members=2, noise=1.0)])


def test_noise_shifts_levels_and_leaves_residuals_alone() -> None:
    layout = Layout(1, replicates=2)
    shift = np.array([0.0, 7.0, 0.5, -0.25])
    plain, noisy = Batcher(layout, seed=1), Batcher(layout, seed=1, shift=shift)
    means = [np.zeros(4), np.zeros(4)]
    for k, observation in enumerate([[1.0], [4.0], [9.0]]):
        for who, batcher in enumerate((plain, noisy)):
            batch = batcher.batch([np.array(observation)], means[who], float(k), k)
            means[who] = means[who] + batch.weight * (batch.observation - means[who])
    np.testing.assert_allclose(means[1] - means[0], shift, atol=1e-12)
