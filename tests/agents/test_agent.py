"""The agent itself, in process: observing, reading, pacing, weighting, statistics and their honesty."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.support.ledgers import drive, ledgers
from tests.support.memory_fleet import enter, in_memory, leave
from tests.support.own_methods import NewestOnly
from tests.support.reading import parse_source
from tests.support.small_fleets import fleet, free_ports
from tests.support.virtual_time import VirtualTime, in_virtual_time, rounds
from tests.support.waiting import PATIENCE, until, until_true

from gossamer.agents.agent import Agent
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.round.batching import Batcher
from gossamer.agents.snapshot import Snapshot
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.store.file import read
from gossamer.agents.transports.memory import Memory
from gossamer.errors import GossamerError, InvalidInput, OutputError, Unsupported
from gossamer.methods import SDA, AnytimeSDA
from gossamer.networks import Network


def test_every_agent_learns_the_average() -> None:
    async def main() -> None:
        agents = in_memory(fleet(Network.cycle(4), replicates=4))
        await enter(agents)
        for value, agent in enumerate(agents):
            agent.observe(float(value))
        await until_true(lambda: all(abs(a.estimate - 1.5) < 1e-6 for a in agents), "agreement")
        snapshot = agents[0].snapshot
        assert snapshot.samples == 1
        assert snapshot.state == "running"
        assert [n.state for n in snapshot.neighbors] == ["alive", "alive"]
        assert all(n.distance < 1e-3 and n.used > 0 for n in snapshot.neighbors)
        await leave(agents)
        assert agents[0].snapshot.state == "stopped"

    asyncio.run(main())


def test_vectors_variance_and_quantiles() -> None:
    rng = np.random.default_rng(3)
    data = rng.normal([0.0, 10.0], [1.0, 3.0], (3, 400, 2)) + np.arange(3)[:, None, None]

    async def main() -> None:
        bins = tuple(np.linspace(-5, 25, 61))
        agents = in_memory(fleet(Network.path(3), dimension=2, variance=True, bins=bins, replicates=8))
        await enter(agents)
        for agent, rows in zip(agents, data, strict=True):
            for row in rows:
                agent.observe(row)
        pooled = data.reshape(-1, 2)
        await until_true(
            lambda: all(np.abs(a.estimate - pooled.mean(axis=0)).max() < 1e-6 for a in agents), "agreement"
        )
        answers = agents[2].snapshot.answers
        np.testing.assert_allclose(answers.variance, pooled.var(axis=0), rtol=1e-4)
        np.testing.assert_allclose(answers.quantile(0.9), np.quantile(pooled, 0.9, axis=0), atol=0.3)
        assert answers.mean.shape == agents[2].standard_error.shape == (2,)
        await leave(agents)

    asyncio.run(main())


@pytest.mark.parametrize(("weighting", "expected"), [("agents", 4.0), ("samples", 2.5)])
def test_weighting(weighting: str, expected: float) -> None:
    """Agent 0 sees three ones a round, agent 1 a seven a round, agent 2 nothing at all."""

    class Thrice:
        def __init__(self, agent: Agent) -> None:
            self.agent = agent

        def __call__(self, snapshot: Snapshot) -> None:
            for _ in range(3):
                self.agent.observe(1.0)

    async def main() -> None:
        agents = in_memory(fleet(Network.path(3), weighting=weighting))
        agents[0].subscribe(Thrice(agents[0]))
        agents[1].subscribe(lambda snapshot: agents[1].observe(7.0))
        await enter(agents)
        await until_true(lambda: all(abs(a.estimate - expected) < 0.02 for a in agents), "the weighted mean")
        assert agents[2].snapshot.samples == 0
        await leave(agents)

    asyncio.run(main())


def test_bad_observations_are_refused_and_change_nothing() -> None:
    agent = in_memory(fleet(Network.path(2)))[0]
    for bad in (np.nan, np.inf, [1.0, 2.0], [[1.0]], [], "abc", True, None, 1j, 2e94, -2e94, 10**400):
        with pytest.raises(InvalidInput, match="an observation must"):
            agent.observe(bad)
    assert agent.snapshot.samples == 0
    assert np.isnan(agent.estimate)


def test_pace_and_paced_sources() -> None:
    """An iterable gives one observation a round; a pace spaces the rounds."""

    async def main() -> None:
        first, second = fleet(Network.path(2), pace=10.0)
        time = VirtualTime(2)
        agents = [time.agent(s, source=[float(s.id)] * 10) for s in (first, second)]
        for ends in await rounds(agents, time, 15):
            np.testing.assert_allclose(ends, 10.0 * np.arange(15))
        await leave(agents)
        assert [a.snapshot.samples for a in agents] == [10, 10]
        assert agents[0].estimate == pytest.approx(0.5, abs=1e-3)

    asyncio.run(main())


def test_a_pace_is_kept_among_faster_neighbors() -> None:
    async def main() -> None:
        pace = 10.0
        slow, fast = fleet(Network.path(2), pace=pace, timeout=4.0)
        time, agents = in_virtual_time([slow, replace(fast, pace=None)])
        ends, _ = await rounds(agents, time, 51)
        # It may spend one pace at once, to fall into step, and 2% in the long run.
        assert (50 * 0.98 - 2) * pace < ends[-1] - ends[0] <= 50 * pace
        await leave(agents)

    asyncio.run(main())


def test_live_sources_and_snapshots() -> None:
    async def sensor():
        for value in range(20):
            yield float(value)
            await asyncio.sleep(0)

    async def main() -> None:
        memory = Memory()
        settings = fleet(Network.path(2))
        agents = [in_memory([s], memory, source=sensor())[0] for s in settings]
        await enter(agents)
        seen = []
        async with asyncio.timeout(PATIENCE):
            async for snapshot in agents[0].snapshots(every=0.01):
                seen.append(snapshot)
                if snapshot.samples == 20 and abs(agents[0].estimate - 9.5) < 1e-6:
                    break
        assert seen[0].round <= seen[-1].round
        await leave(agents)

    asyncio.run(main())


def test_an_agent_alone_goes_on_at_the_pace_of_its_time_out() -> None:
    async def main() -> None:
        time, [agent] = in_virtual_time(fleet(Network.path(2), timeout=0.02)[:1])
        agent.observe(3.0)
        seen: list[Snapshot] = []
        agent.subscribe(seen.append)
        [ends] = await rounds([agent], time, 5)
        assert min(np.diff(ends)) >= 0.02 / 16  # it does not spin
        assert agent.estimate == 3.0
        assert seen[4].neighbors[0].state == "joining"  # rounds go on while this is read
        await leave([agent])

    asyncio.run(main())


def test_a_failure_in_the_rounds_reaches_the_program(tmp_path: Path) -> None:
    async def main() -> None:
        def fail(snapshot: Snapshot) -> None:
            raise RuntimeError("no more")

        agent = in_memory(fleet(Network.path(2), timeout=0.02)[:1], store=tmp_path / "a.db")[0]
        agent._store.save = lambda saved: False  # type: ignore[method-assign, union-attr]
        async with agent:
            waiting = asyncio.ensure_future(agent.observe_durable(1.0))
            await asyncio.sleep(0)
            agent.subscribe(fail)
            await until_true(lambda: agent.snapshot.state == "stopped", "the end")
            with pytest.raises(GossamerError, match="stopped before the observation was in the store"):
                await asyncio.wait_for(waiting, PATIENCE)
            with pytest.raises(GossamerError, match="agent0 has stopped and takes no more observations"):
                agent.observe(2.0)

    with pytest.raises(GossamerError, match=r"agent0 stopped: no more"):
        asyncio.run(main())


async def faulty_sensor():
    for value in (1.0, float("nan"), "warm", 2e94, 3.0):
        yield value
    raise OSError("unplugged")


def faulty_iterable():
    yield from (1.0, float("nan"), "warm", 2e94, 3.0)
    raise OSError("unplugged")


@pytest.mark.parametrize("source", [faulty_sensor, faulty_iterable])
def test_a_source_that_fails_is_reported_while_the_agent_goes_on(
    source, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with in_memory(fleet(Network.path(2), timeout=0.02), source=source())[0] as agent:
            await until_true(lambda: agent.snapshot.state == "degraded", "the failure")
            assert agent.snapshot.problem == "the source failed: OSError: unplugged"
            agent.observe(8.0)
            await until_true(lambda: abs(agent.estimate - 4.0) < 1e-9, "the agent going on")
            assert agent.snapshot.samples == agent.snapshot.bad == 3

    with pytest.raises(GossamerError, match="agent0: the source failed: OSError: unplugged"):
        asyncio.run(main())
    assert "continues without its source: OSError: unplugged" in caplog.text


def test_a_source_whose_own_task_was_cancelled_has_failed() -> None:
    async def sensor():
        yield 1.0
        raise asyncio.CancelledError

    async def main() -> None:
        async with in_memory(fleet(Network.path(2), timeout=0.02), source=sensor())[0] as agent:
            await until_true(lambda: agent.snapshot.state == "degraded", "the failure")

    with pytest.raises(GossamerError, match="the source failed: CancelledError"):
        asyncio.run(main())


def test_a_source_that_cannot_begin_stops_the_agent_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)

    async def main() -> None:
        async with in_memory(fleet(Network.path(2)), source=parse_source("-", 1, 0))[0]:
            pytest.fail("it started")

    with pytest.raises(InvalidInput, match="standard input"):
        asyncio.run(main())


def test_what_an_agent_takes_its_neighbors_take() -> None:
    """Observations of the largest size are averaged, squares and noise replicates included."""
    for variance in (False, True):
        settings = fleet(Network.path(4), variance=variance, replicates=8, dimension=4)
        largest = Layout.of(settings[0]).largest
        assert largest == (1e47 if variance else 1e94)

        async def main(settings=settings, largest=largest) -> None:
            agents = in_memory(settings, seed=1)
            await enter(agents)
            with pytest.raises(
                InvalidInput, match=r"at most .* in size, .* leave it out, or use another unit"
            ):
                agents[0].observe([0, 0, 0, 1.01 * largest])
            for agent, sign in zip(agents, (1, -1, 1, 1), strict=True):
                agent.observe([sign * largest] * 4)
                agent.observe([-sign * largest, *[sign * largest] * 3])
            await until_true(
                lambda: all(np.allclose(a.estimate / largest, [0, 0.5, 0.5, 0.5]) for a in agents),
                "agreement",
            )
            assert all("numbers" not in a.snapshot.rejected for a in agents)
            await leave(agents)

        asyncio.run(main())


def test_the_last_words_include_the_last_observations() -> None:
    async def main() -> None:
        agent = in_memory(fleet(Network.path(2), timeout=0.02), source=iter([1.0, 2.0, 99.0]))[0]

        def last(snapshot: Snapshot) -> None:
            if snapshot.samples == 2:
                agent.observe(6.0)
                agent._stop.set()

        agent.subscribe(last)
        async with agent:
            await until_true(lambda: agent.snapshot.state == "stopped", "the end")
        assert agent.snapshot.samples == 3
        assert agent.estimate == pytest.approx(3.0)

    asyncio.run(main())


def test_nothing_is_observed_after_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        agent = in_memory(fleet(Network.path(2), timeout=0.02)[:1], store=tmp_path / "a.db")[0]
        async with agent:
            pass
        with pytest.raises(GossamerError, match=r"agent0 has stopped .* make a new agent"):
            agent.observe(1.0)
        with pytest.raises(GossamerError, match="agent0 has stopped"):
            await asyncio.wait_for(agent.observe_durable(1.0), PATIENCE)
        assert agent.snapshot.samples == 0

    asyncio.run(main())


def test_an_end_whose_last_commit_fails_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()

    async def main() -> None:
        async with in_memory(fleet(Network.path(2), timeout=0.02)[:1], store=folder / "a.db")[0] as agent:
            await agent.observe_durable(1.0)
            shutil.rmtree(folder)
            agent.observe(2.0)

    with pytest.raises(
        OutputError, match=r"agent0 stopped, but its last observations are not in its store .*a\.db"
    ):
        asyncio.run(main())


def test_durable_needs_a_store() -> None:
    async def main() -> None:
        async with in_memory(fleet(Network.path(2), timeout=0.02))[0] as agent:
            await agent.observe_durable(1.0)

    with pytest.raises(Unsupported, match="store must be set"):
        asyncio.run(main())


def test_durable_observations_are_acknowledged_and_resumed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    settings = fleet(Network.path(2), timeout=0.02, commit=30.0)[0]

    async def first() -> None:
        async with in_memory([settings], store=tmp_path / "a.db")[0] as agent:
            for value in (1.0, 2.0, 6.0):
                await asyncio.wait_for(agent.observe_durable(value), PATIENCE)
            assert agent.snapshot.acknowledged == 3
            agent.observe(7.0)  # not waited for: safe at the latest when the agent is left

    async def second() -> None:
        async with in_memory([settings], store=tmp_path / "a.db")[0] as agent:
            assert agent.snapshot.samples == agent.snapshot.acknowledged == 4
            assert agent.estimate == pytest.approx(4.0)

    asyncio.run(first())
    assert "resumed" not in caplog.text
    asyncio.run(second())
    assert "agent0 resumed with 4 observations" in caplog.text


@pytest.mark.slow
def test_a_store_knows_which_rows_of_a_followed_file_it_holds(tmp_path: Path) -> None:
    """At every moment, so also after kill -9; and after a rotation no row is lost or repeated."""
    settings = fleet(Network.path(2), timeout=0.001, commit=0.001)[0]
    file, store = tmp_path / "a.csv", tmp_path / "a.db"
    file.write_text("1\n")

    async def run(until: int, mean: float) -> None:
        source = parse_source(f"csv:{file},follow", 1, 0)
        async with in_memory([settings], store=store, source=source)[0] as agent:
            loop = asyncio.get_running_loop()
            for row in range(agent.snapshot.samples, until - 1):
                if row % 100 == 0:
                    with file.open("a") as more:
                        more.write("1\n" * 50 + "3\n" * 50)
                saved = await loop.run_in_executor(elsewhere, read, store)
                if saved.samples:
                    assert json.loads(saved.position)[1] == 2 * saved.samples
                await asyncio.sleep(0.002)
            await until_true(lambda: agent.estimate == pytest.approx(mean, rel=1e-9), "the mean of all rows")
            assert agent.snapshot.samples == until

    # Another process reads: a file that this one opens and closes would lose its locks of SQLite.
    with ProcessPoolExecutor(1, get_context("spawn")) as elsewhere:
        asyncio.run(run(301, 601 / 301))
        with file.open("a") as more:
            more.write("5\n")
        file.rename(tmp_path / "a.csv.1")
        file.write_text("7\n")
        asyncio.run(run(303, 613 / 303))


def test_the_program_in_the_guide_runs_on_the_files_of_a_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(2)]
    Fleet.create(Network.path(2), endpoints=endpoints).write(tmp_path / "fleet")
    monkeypatch.chdir(tmp_path)
    waits = "time.sleep(1.0)  # ten rounds"
    assert waits in program
    program = program.replace(waits, 'until(lambda: agent.snapshot.age >= 10, "ten rounds")')
    exec(compile(program, "docs/deploy.md", "exec"), {"until": until})
    estimate, error, state = capsys.readouterr().out.split()
    assert float(estimate) == pytest.approx(21.6, abs=0.2)
    assert float(error) > 0
    assert state == "running"


def test_a_store_whose_registers_do_not_fit_is_refused_and_released(tmp_path: Path) -> None:
    """A method of one's own that kept its name but not its registers."""
    settings = fleet(Network.path(2), timeout=0.02)[0]
    store = tmp_path / "a.db"

    async def main() -> None:
        async with in_memory([settings], store=store)[0] as agent:
            agent.observe(1.0)

    asyncio.run(main())

    class Changed(NewestOnly):
        name = "anytime-sda"

    for _ in range(2):  # the second attempt finds no lock
        with pytest.raises(InvalidInput, match="must have the registers of anytime-sda"):
            in_memory([settings.with_(method=Changed())], store=store)


def test_a_method_without_a_running_mean_holds_the_agents_mean() -> None:
    """In rounds without an observation: agents of different rates still count the same."""

    async def main() -> None:
        settings = fleet(Network.path(2), method=SDA(output="last"), timeout=0.5)
        agents = in_memory(settings)
        await enter(agents)
        agents[0].observe(1.0)
        for value in (4.0, 6.0):
            agents[1].observe(value)
        await until_true(lambda: all(abs(a.estimate - 3.0) < 1e-6 for a in agents), "agreement")
        assert [a.snapshot.samples for a in agents] == [1, 2]
        await leave(agents)

    asyncio.run(main())


def simulate(layout: Layout, network: Network, rounds: int, trials: int, seed: int) -> np.ndarray:
    """Estimates and standard errors of all agents, by feeds and ledgers alone; shape (trials, agents, 2)."""
    rng = np.random.default_rng(seed)
    out = np.empty((trials, network.agents, 2))
    means = np.arange(network.agents, dtype=float)
    for trial in range(trials):
        agents = ledgers(network, AnytimeSDA(), 20, layout.size)
        batchers = [Batcher(layout, seed=1000 * trial + i) for i in range(network.agents)]
        for _ in range(rounds):
            batches = [
                batcher.batch([np.array([rng.normal(m, 1 + m)])], agent.mean, agent.samples, agent.age)
                for batcher, agent, m in zip(batchers, agents, means, strict=True)
            ]
            drive(agents, network, [[b.observation for b in batches]])
        answers = [layout.read(agent.estimate) for agent in agents]
        out[trial] = [[a.mean[0], a.standard_error[0]] for a in answers]
    return out


@pytest.mark.slow
def test_the_standard_error_covers() -> None:
    """Intervals of Student's t with K degrees of freedom contain the truth about 95% of the time."""
    network = Network.cycle(5)
    results = simulate(Layout(dimension=1, replicates=8), network, rounds=60, trials=150, seed=5)
    errors, reported = results[..., 0] - 2.0, results[..., 1]
    covered = np.abs(errors) <= 2.306 * reported
    # Agents of one trial nearly agree, so a trial counts once: the standard error of the share is sqrt(pq/150).
    assert covered.mean() == pytest.approx(0.95, abs=3 * np.sqrt(0.05 * 0.95 / 150))
    rms = np.sqrt((errors**2).mean())
    assert np.sqrt((reported**2).mean()) == pytest.approx(rms, rel=3 / np.sqrt(2 * 150) + 0.05)
