"""Real faults to real processes over loopback. The figures are in docs/reliability.md.

Every process is a child of the test and is ended by its own id. Waits are for conditions, with a bound.
Set GOSSAMER_FIGURES=1 to print the figures (pytest -s).
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.agent_process import Handle
from tests.support.small_fleets import fleet, make_certificates
from tests.support.waiting import until

from gossamer.agents.config.settings import AgentSettings
from gossamer.faults import Faults, Loss
from gossamer.networks import Network

pytestmark = pytest.mark.slow

Start = Callable[..., Handle]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start agent processes; whatever still runs at the end of the test is ended."""
    running: list[Handle] = []

    def one(settings: AgentSettings, **options: object) -> Handle:
        handle = Handle(settings, **options)
        running.append(handle)
        return handle

    yield one
    for handle in running:
        handle.end()


def figure(text: str) -> None:
    if os.environ.get("GOSSAMER_FIGURES"):
        print(f"\nfigure: {text}")


def near(agents: list[Handle], value: float) -> Callable[[], bool]:
    return lambda: all(abs(a.estimate - value) < 1e-3 for a in agents)


def reach(agents: list[Handle], value: float, what: str) -> float:
    """Wait until all agents are near `value`; returns the seconds it took."""
    began = time.monotonic()
    try:
        until(near(agents, value), what)
    except AssertionError as failure:
        raise AssertionError(f"{failure}; estimates {[a.estimate for a in agents]}, not {value}") from None
    return time.monotonic() - began


MEANS = [0.0, 1.0, 2.0, 3.0, 44.0]
ALL, WITHOUT_LAST = 10.0, 1.5


class Five:
    """A ring of five agents with certificates, for tests that leave it as they found it."""

    def __init__(self, folder: Path) -> None:
        certificates = make_certificates(folder / "ca", 5)
        settings = fleet(Network.cycle(5), certificates=certificates, death=1.0, timeout=0.1)
        self.agents = [Handle(s, mean=MEANS[s.id]) for s in settings]

    def cut(self, *links: tuple[int, int]) -> None:
        """Silence these (sender, receiver), and no others."""
        for agent in self.agents:
            agent.send({"cut": [there for here, there in links if here == agent.id]})


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Five]:
    made = Five(tmp_path_factory.mktemp("five"))
    yield made
    for agent in made.agents:
        agent.end()


def test_kill_and_restart(start: Start, tmp_path: Path) -> None:
    """kill -9: the survivors reach the survivors' average. Restart: the store brings the agent back.

    First the agent with the smallest number is killed, then the one with the largest: one calls, the other is called.
    """
    certificates = make_certificates(tmp_path / "ca", 5)
    settings = [
        s.with_(store=tmp_path / f"{s.id}.db")
        for s in fleet(Network.cycle(5), certificates=certificates, death=1.0, timeout=0.1)
    ]
    agents = [start(s, mean=MEANS[s.id]) for s in settings]
    for victim in (0, 4):
        reach(agents, ALL, "the average of all")
        until(lambda who=agents[victim]: who.last["acknowledged"] > 100, "acknowledgements")
        acknowledged = agents[victim].last["acknowledged"]
        agents[victim].end(signal.SIGKILL)
        survivors = [a for a in agents if a.id != victim]
        rest = (sum(MEANS) - MEANS[victim]) / 4
        took = reach(survivors, rest, "the survivors' average")
        figure(f"kill -9: survivors' average (to 1e-3) {took:.1f} s after the kill (death 1 s)")
        assert all(a.last["neighbors"].get(str(victim), "dead") == "dead" for a in survivors)
        agents[victim] = start(settings[victim], mean=MEANS[victim], count=0)  # observes nothing new
        took = reach(agents, ALL, "the average of all again")
        assert agents[victim].last["samples"] >= acknowledged
        figure(
            f"restart: average of all again {took:.1f} s after the start, {acknowledged} observations kept"
        )


def lost_rounds(faults: Faults, network: Network, rounds: int) -> dict[int, dict[int, list[int]]]:
    """sender -> receiver -> the rounds in which the fault model loses the message."""
    links = faults.bind(seed=7)
    return {
        i: {int(j): [t for t in range(rounds) if links.lost(t, i, int(j))] for j in network.neighbors(i)}
        for i in range(network.agents)
    }


@pytest.mark.parametrize("loss", [0.3, 0.5])
def test_messages_lost(start: Start, loss: float) -> None:
    """Agents draw one observation a round; after T rounds they know nearly what a center would."""
    rounds, network = 300, Network.grid(2, 3)
    settings = fleet(network, timeout=0.1, death=20.0)  # on a busy machine a message takes 20 ms
    means = np.arange(6.0)
    lost = lost_rounds(Faults(Loss(loss)), network, 4 * rounds)
    agents = [
        start(s, mean=means[s.id], std=1.0, seed=s.id, lost=lost[s.id], record=[rounds], wait=True)
        for s in settings
    ]
    connected = [len(s.neighbors) for s in settings]
    until(lambda: [a.last.get("connected") for a in agents] == connected, "connections")
    for agent in agents:  # all begin together: T is the same for all
        agent.send({"go": True})
    until(lambda: all(rounds in a.at for a in agents), f"{rounds} rounds")
    drawn = [m + np.random.default_rng(i).standard_normal(rounds).mean() for i, m in enumerate(means)]
    estimates = np.array([a.at[rounds] for a in agents])
    share = float(((estimates - np.mean(drawn)) ** 2).sum() * rounds)  # in units of sigma^2/T
    figure(f"{loss:.0%} lost: 1 + {share:.3f} times sigma^2/T after {rounds} rounds, 2x3 grid")
    assert share < 0.3
    assert {reason for a in agents for reason in a.last["rejected"]} <= {"late"}


@pytest.mark.xdist_group("five")
def test_partition_heals(five: Five) -> None:
    agents = five.agents
    reach(agents, ALL, "the average of all")
    five.cut((2, 3), (3, 2), (4, 0), (0, 4))
    reach(agents[:3], 1.0, "one side's average")
    reach(agents[3:], 23.5, "the other side's average")
    five.cut()
    took = reach(agents, ALL, "the average of all again")
    figure(f"partition: average of all again {took:.1f} s after it healed")


@pytest.mark.xdist_group("five")
def test_one_way_silence_does_no_harm(five: Five) -> None:
    """Agent 1 hears 0 but 0 does not hear 1: the edge stands still, and heals."""
    agents = five.agents
    reach(agents, ALL, "the average of all")
    five.cut((1, 0))
    until(lambda: agents[0].last["neighbors"]["1"] == "dead", "the silence being noticed")
    until(lambda: agents[1].last["neighbors"]["0"] == "alive", "one end hearing the other")
    five.cut()
    until(lambda: agents[0].last["neighbors"]["1"] == "alive", "the end of the silence")
    reach(agents, ALL, "the average of all again")


@pytest.mark.xdist_group("five")
def test_stopped_and_continued(five: Five) -> None:
    agents = five.agents
    reach(agents, ALL, "the average of all")
    agents[4].give(signal.SIGSTOP)
    took = reach(agents[:4], WITHOUT_LAST, "the average of the others")
    age = agents[0].last["age"]
    until(lambda: agents[0].last["age"] > age + 20, "more rounds")
    agents[4].give(signal.SIGCONT)
    back = reach(agents, ALL, "the average of all again")
    assert all(a.running for a in agents)
    figure(f"SIGSTOP: others' average after {took:.1f} s; all again {back:.1f} s after SIGCONT")


def test_a_neighbor_ten_times_slower(start: Start) -> None:
    """Agent 1 needs 100 ms for each of its rounds, the others have a pace of 10 ms."""
    settings = fleet(Network.path(4), pace=0.01, timeout=0.02, death=5.0)
    agents = [start(s, mean=[0.0, 2.0, 10.0, 20.0][s.id], slow=0.1 if s.id == 1 else 0.0) for s in settings]
    took = reach(agents, 8.0, "the average")
    before = {a.id: a.last["age"] for a in agents}
    until(lambda: agents[1].last["age"] >= before[1] + 20, "20 rounds of the slow one")
    fast = (agents[3].last["age"] - before[3]) / (agents[1].last["age"] - before[1])
    figure(f"ten times slower: average after {took:.1f} s; fast agents did {fast:.1f} rounds per slow round")
    assert fast > 1.5  # they do not wait for it
    assert agents[1].last["neighbors"] == {"0": "alive", "2": "alive"}


def test_late_joiner(start: Start) -> None:
    settings = fleet(Network.cycle(5), death=1.0, timeout=0.1)
    agents = [start(s, mean=MEANS[s.id]) for s in settings[:4]]
    reach(agents, WITHOUT_LAST, "the average of four")
    agents.append(start(settings[4], mean=MEANS[4]))
    took = reach(agents, ALL, "the average of five")
    assert agents[4].last["age"] < agents[4].last["round"]  # it jumped to the others' round
    figure(f"late joiner: average of all {took:.1f} s after its process started")


def test_fleet_restarted_in_any_order(start: Start, tmp_path: Path) -> None:
    settings = [
        s.with_(store=tmp_path / f"{s.id}.db") for s in fleet(Network.cycle(5), death=1.0, timeout=0.1)
    ]
    agents = [start(s, mean=MEANS[s.id], count=50) for s in settings]
    reach(agents, ALL, "the average of all")
    until(lambda: all(a.last["acknowledged"] == 50 for a in agents), "the last acknowledgement")
    for agent in agents:
        agent.end(signal.SIGKILL)
    order = [3, 0, 4, 2, 1]
    again = [start(settings[i], mean=0.0, count=0) for i in order]
    took = reach(again, ALL, "the average of all again")
    assert all(a.last["samples"] == 50 for a in again)
    figure(f"fleet of five killed and restarted: average of all {took:.1f} s after the first start")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path | None]:
    """A disk of 300 kB where the tests may mount one, else None."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk], capture_output=True, check=False
    )
    yield disk if mounted.returncode == 0 else None
    if mounted.returncode == 0:
        subprocess.run(["umount", "-l", disk], check=True)


def test_full_disk(small_disk: Path | None, start: Start, tmp_path: Path) -> None:
    """A store needs no more room than it has. If writing fails, the agent goes on unacknowledged and says so.

    Writing fails by the kernel's limit on file sizes; the full disk takes the right to mount a small one.
    """
    settings = fleet(Network.path(2), death=2.0, timeout=0.1, commit=0.05)
    settings[0] = settings[0].with_(store=(small_disk or tmp_path) / "0.db")
    agents = [start(s, mean=[1.0, 3.0][s.id], std=0.1, seed=s.id) for s in settings]
    until(lambda: agents[0].last.get("acknowledged", 0) > 0, "an acknowledgement")
    if small_disk is not None:
        with (small_disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:  # until no space is left
                file.write(bytes(4096))
        kept = agents[0].last["acknowledged"]
        until(lambda: agents[0].last["acknowledged"] > kept + 50, "acknowledgements on a full disk")
        assert agents[0].last["state"] == "running"
    limits = resource.prlimit(agents[0].pid, resource.RLIMIT_FSIZE)
    resource.prlimit(agents[0].pid, resource.RLIMIT_FSIZE, (1, limits[1]))
    until(lambda: agents[0].last["state"] == "degraded", "the failure being noticed")
    assert "the store cannot be written: " in agents[0].last["problem"]
    kept, samples = agents[0].last["acknowledged"], agents[0].last["samples"]
    until(lambda: agents[0].last["samples"] > samples + 50, "50 more observations used")
    assert agents[0].last["acknowledged"] == kept
    assert agents[0].estimate == pytest.approx(2.0, abs=0.2)
    resource.prlimit(agents[0].pid, resource.RLIMIT_FSIZE, limits)
    until(lambda: agents[0].last["state"] == "running", "the recovery")
    until(lambda: agents[0].last["acknowledged"] > samples + 50, "acknowledgements again")
    figure(
        "full disk: " + ("a tmpfs of 300 kB, and a file size limit" if small_disk else "a file size limit")
    )
