"""An agent inside a program: with everything that one in a process of its own has."""

from __future__ import annotations

import asyncio
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.small_fleets import free_ports
from tests.support.waiting import until, until_true

import gossamer as gs
from gossamer.agents.config.tables import RoundsTable
from gossamer.agents.fleet.survey import ask
from gossamer.agents.host import hosting, reloading
from gossamer.agents.host.hosting import _invalid
from gossamer.agents.membership.certificates import Authority
from gossamer.agents.membership.changes import change, link, remove, reset_flows
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.transports.calling import ask as ask_agent
from gossamer.errors import GossamerError, InvalidInput
from gossamer.networks import Network


@pytest.fixture
def path(tmp_path: Path) -> Path:
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(3)]
    return Fleet.create(
        Network.path(3), endpoints=endpoints, rounds=RoundsTable(every="20ms"), sources=["-"] * 3
    ).write(tmp_path)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(hosting, "LOOK_EVERY", 0.05)


@pytest.mark.slow
def test_agents_of_a_plain_program_follow_the_roster(path: Path) -> None:
    """With a status file and metrics, which are asked for; one that is removed stops."""
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    with (
        gs.agents.running(path, "agent0", status=True, metrics=metrics, store=path.parent / "store") as first,
        gs.agents.running(path, 1) as second,
        gs.agents.running(path, "agent2", source=[5.0]) as third,
    ):
        first.observe(1.0)
        second.observe(3.0)
        agents = (first, second, third)
        until(lambda: all(abs(agent.estimate - 3.0) < 1e-3 for agent in agents), "agreement")
        assert json.loads((path.parent / "status" / "agent0.json").read_text())["state"] == "running"
        assert not (path.parent / "status" / "agent1.json").exists()
        member = Fleet.read(path).agents[0]
        assert ask(type(member)(id=0, name="agent0", endpoint="h:1", metrics=metrics)).state == "running"
        until(lambda: first.snapshot.acknowledged == 1, "the commit")

        change(path, lambda fleet: link(fleet, "agent0", "agent2"))
        until(lambda: all(agent.snapshot.epoch == 2 for agent in agents), "the second epoch")
        assert len(first.snapshot.neighbors) == 2
        change(path, lambda fleet: remove(fleet, "agent1"))
        until(lambda: second.snapshot.state == "stopped", "the end of the one that was removed")
        until(lambda: abs(first.estimate - 3.0) < 0.01 and first.snapshot.members == 2, "the average of two")
    assert json.loads((path.parent / "status" / "agent0.json").read_text())["state"] == "stopped"
    with pytest.raises(GossamerError, match="agent0 has stopped"):
        first.observe(1.0)


@pytest.mark.slow
def test_errors_reach_the_program(path: Path) -> None:
    with (
        pytest.raises(InvalidInput, match="this fleet has the agents 0 to 2"),
        gs.agents.running(path, "agent9"),
    ):
        pass
    with (
        pytest.raises(InvalidInput, match="metrics must be host:port"),
        gs.agents.running(path, 0, metrics="x"),
    ):
        pass

    def broken() -> object:
        yield 1.0
        raise OSError("unplugged")

    with (
        pytest.raises(GossamerError, match="agent0: the source failed: OSError: unplugged"),
        gs.agents.running(path, "agent0", source=broken()) as agent,
    ):
        until(lambda: bool(agent.snapshot.problem), "the failure")
    with pytest.raises(ZeroDivisionError), gs.agents.running(path, "agent0") as agent:
        _ = 1 / 0
    assert agent.snapshot.state == "stopped"


def test_a_certificate_that_is_not_valid_now_degrades_the_agent_until_it_is(path: Path) -> None:
    now = datetime.now(UTC)
    assert _invalid(None) == _invalid((now - timedelta(1), now + timedelta(1))) == ""
    assert "is valid from" in _invalid((now + timedelta(1), now + timedelta(2)))
    where = path.parent / "certificates"
    Authority.load(where).issue("agent0", ["127.0.0.1"], days=-1, common_name="agent0")
    with gs.agents.running(path, "agent0") as agent:
        assert agent.snapshot.state == "degraded"
        assert "this agent's certificate expired on" in agent.snapshot.problem
        Authority.load(where).issue("agent0", ["127.0.0.1"], common_name="agent0")
        until(lambda: agent.snapshot.state == "running", "the new certificate")


def test_metrics_wait_for_their_address(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when an agent starts before the network of its machine is up."""
    port = free_ports(1)[0]
    absent = f"192.0.2.1:{port}"  # which no machine has
    with gs.agents.running(path, "agent0", metrics=absent) as agent:
        assert agent.snapshot.state == "degraded"
        assert f"the metrics cannot be served on {absent} yet" in agent.snapshot.problem
        agent.observe(1.0)
        until(lambda: agent.snapshot.samples == 1, "a round")
        monkeypatch.setattr(hosting.Hosted, "_metrics_address", lambda self: (port, "127.0.0.1"))
        until(lambda: agent.snapshot.state == "running", "the address")
        member = Fleet.read(path).agents[0]
        assert (
            ask(type(member)(id=0, name="agent0", endpoint="h:1", metrics=f"127.0.0.1:{port}")).state
            == "alone"
        )


def test_an_asyncio_program_uses_the_same(path: Path) -> None:
    async def main() -> float:
        async with gs.agents.joined(path, "agent0") as agent:
            agent.observe(2.0)
            await until_true(lambda: not math.isnan(agent.estimate), "an estimate")
            return float(agent.estimate)

    assert asyncio.run(main()) == 2.0


def test_answers_go_to_the_sinks_and_one_that_fails_degrades_the_agent(path: Path) -> None:
    lines = path.parent / "agent0.jsonl"
    good, bad = (
        "file://{name}.jsonl?interval=20ms&unsettled=true",
        "file://no/such/folder?interval=20ms&unsettled=true",
    )
    with gs.agents.running(path, "agent0", sinks=[good, bad]) as agent:
        agent.observe(21.5)
        until(lambda: lines.exists() and "21.5" in lines.read_text(), "an answer")
        until(lambda: agent.snapshot.state == "degraded", "a sink that fails")
        assert "the sink file://no/such/folder" in agent.snapshot.problem
        (path.parent / "no" / "such").mkdir(parents=True)
        until(lambda: agent.snapshot.state == "running", "a sink that works")
    last = json.loads(lines.read_text().splitlines()[-1])
    assert {"estimate", "standard_error", "settled", "participating", "age", "state", "fleet", "name"} <= set(
        last
    )


@pytest.mark.slow
def test_agents_behind_nat_average_and_learn_of_changes(tmp_path: Path) -> None:
    """The first and the last of three cannot be reached, so both connect to the one between them."""
    endpoints = ["", f"127.0.0.1:{free_ports(1)[0]}", ""]
    fleet = Fleet.create(
        Network.path(3), endpoints=endpoints, rounds=RoundsTable(every="20ms"), sources=["-"] * 3
    )
    path = fleet.write(tmp_path)
    with (
        gs.agents.running(path, "agent0", source=[1.0]) as first,
        gs.agents.running(path, 1, source=[3.0]) as second,
        gs.agents.running(path, "agent2", source=[5.0]) as third,
    ):
        agents = (first, second, third)
        until(lambda: all(abs(agent.estimate - 3.0) < 1e-3 for agent in agents), "agreement")
        change(path, lambda fleet: reset_flows(fleet))
        until(lambda: all(agent.snapshot.epoch == 2 for agent in agents), "the second epoch")
    contact = gs.Neighbor(0, name="agent0")
    with pytest.raises(OSError, match=r"agent0 cannot be asked: it cannot be reached \(reachable = false\)"):
        ask_agent(fleet.tls(1, tmp_path), "gossamer", contact, b"")
