"""A fleet on this machine: no agent runs twice, one that fails is started again, and all stop when told."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from tests.support.small_fleets import free_ports
from tests.support.waiting import until

from gossamer.agents.config.tables import RoundsTable
from gossamer.agents.fleet.local import LocalFleet
from gossamer.agents.host.hosting import claim
from gossamer.agents.host.status import AgentStatus
from gossamer.agents.membership import changes as membership
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.sources import backoff
from gossamer.errors import InvalidInput
from gossamer.networks import Network


@pytest.fixture
def path(tmp_path: Path) -> Path:
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(4)]
    names = ["3", "2", "1", "0"]
    rounds = RoundsTable(every="50ms")
    return Fleet.create(Network.path(4), endpoints=endpoints, names=names, rounds=rounds).write(tmp_path)


def logged(path: Path, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path.parent / "logs" / f"{name}.log").read_text().splitlines()]


def states(agents: LocalFleet) -> set[str]:
    agents.supervise()
    return {status.state for status in agents.status()}


def test_a_running_agent_is_not_started_again_and_keeps_its_files(path: Path) -> None:
    for name in ("logs/2.log", "logs/3.log", "status/2.json", "status/3.json"):
        (path.parent / name).parent.mkdir(exist_ok=True)
        (path.parent / name).write_text("{}")
    held = claim(path.parent, "2")
    try:
        with pytest.raises(InvalidInput, match=r"2 is already running .*fleet status"), LocalFleet(path):
            pass
        assert all((path.parent / f"logs/{name}.log").read_text() == "{}" for name in "23")
        assert all((path.parent / f"status/{name}.json").exists() for name in "23")
    finally:
        os.close(held)
    os.close(claim(path.parent, "3"))  # the refused start holds nothing


@pytest.mark.slow
def test_each_agent_is_held_by_its_process_alone(path: Path) -> None:
    """Others of the fleet can be started beside it; when it is killed it can be started again."""
    with LocalFleet(path, only="3", restart=False) as first:
        with LocalFleet(path, only="1,2") as second:
            assert set(second.pids) == {1, 2}
            with pytest.raises(InvalidInput, match="1 is already running"):
                claim(path.parent, "1")
        with pytest.raises(InvalidInput, match="3 is already running"):
            claim(path.parent, "3")
        os.kill(first.pids[0], signal.SIGKILL)
        until(lambda: first.running() == 0, "its end")
        os.close(claim(path.parent, "3"))


@pytest.mark.slow
def test_an_old_status_file_keeps_no_agent_from_starting(path: Path) -> None:
    """After a power cut its process number may be another's."""
    (path.parent / "status").mkdir()
    facts = {"at": time.time() - 1, "pid": os.getpid(), "state": "running"}
    (path.parent / "status" / "3.json").write_text(json.dumps(facts))
    with LocalFleet(path, only="3") as agents:
        assert agents.running() == 1
    assert agents.killed == []


@pytest.mark.slow
def test_agents_are_processes_of_their_own(path: Path) -> None:
    """With their own sessions and logs, forked from one process that is none of them, and gone at the end."""
    with LocalFleet(path, only="3,2") as agents:
        until(lambda: states(agents) == {"running"}, "two agents")
        assert len({agents.fork_server, os.getpid(), *agents.pids.values()}) == 4
        assert all(os.getsid(pid) == pid for pid in agents.pids.values())
        parents = [int(Path(f"/proc/{pid}/stat").read_text().split()[3]) for pid in agents.pids.values()]
        assert parents == [agents.fork_server] * 2
        family = [agents.fork_server, *agents.pids.values()]
    assert agents.killed == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in family)
    for name in ("3", "2"):
        assert [entry["message"] for entry in logged(path, name)][-1] == "stopped"
        lines = (path.parent / "logs" / f"{name}.jsonl").read_text().splitlines()
        assert json.loads(lines[-1])["state"] == "stopped"


@pytest.mark.slow
def test_a_killed_agent_is_started_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a delay that grows; the table says how often; its logs go on; and at the end all is well."""
    monkeypatch.setattr(backoff, "FIRST", 0.2)
    with LocalFleet(path, only="3,2") as agents:
        until(lambda: states(agents) == {"running"}, "two agents")
        for restarts in (1, 2):
            victim = agents.pids[0]
            os.kill(victim, signal.SIGKILL)
            until(lambda: agents.running() == 1, "its end")
            assert agents.status()[0].state == "SIGKILL"
            assert agents.active() == 2
            until(lambda: states(agents) == {"running"}, "the restart")
            assert agents.pids[0] != victim
            assert [status.restarts for status in agents.status()] == [restarts, 0]
        assert agents.status()[0].details["restarts"] == 2  # others see it, too
        assert agents.restarts == {"3": 2}
    assert agents.killed == []
    assert [entry["message"] for entry in logged(path, "3")].count("started") == 3


@pytest.mark.slow
def test_wrong_input_is_not_tried_again(path: Path) -> None:
    with LocalFleet(path, only="1", source="csv:nowhere.csv") as agents:
        until(lambda: agents.running() == 0, "its end")
        assert agents.active() == 0
        status = agents.status()[0]
    assert status.state == "exit 2"
    assert "nowhere.csv" in status.problem


@pytest.mark.slow
def test_what_may_pass_is_tried_again(path: Path) -> None:
    """Here another program has the agent's port."""
    host, _, port = Fleet.read(path).agents[2].endpoint.rpartition(":")
    with socket.create_server((host, int(port))), LocalFleet(path, only="1") as agents:
        until(lambda: agents.running() == 0, "its end")
        assert agents.active() == 1
        status = agents.status()[0]
    assert status.state == "exit 1"
    assert "Address already in use" in status.problem


@pytest.mark.slow
def test_without_the_fork_server_there_are_no_agents_until_there_is_a_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FIRST", 0.2)
    with LocalFleet(path, only="3,2") as agents:
        until(lambda: states(agents) == {"running"}, "two agents")
        before = {agents.fork_server, *agents.pids.values()}
        os.kill(agents.fork_server, signal.SIGKILL)
        until(lambda: agents.running() == 0, "their end")
        until(lambda: states(agents) == {"running"}, "new ones")
        assert not before & {agents.fork_server, *agents.pids.values()}
    assert agents.killed == []


@pytest.mark.slow
def test_who_had_to_be_killed_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.agents.fleet.local._PATIENCE", 1.0)
    with LocalFleet(path, only="1,0") as agents:
        until(lambda: states(agents) == {"running"}, "two agents")
        os.kill(agents.pids[2], signal.SIGSTOP)  # it cannot even be told
    assert agents.killed == ["1"]


@pytest.mark.parametrize("port", [-1, 65534, 70000])
def test_every_agent_needs_a_port_for_its_metrics(path: Path, port: int) -> None:
    with pytest.raises(InvalidInput, match=f"metrics_port must be from 1 to 65532, .*got {port}"):
        LocalFleet(path, metrics_port=port)
    LocalFleet(path, only="0", metrics_port=65532)


@pytest.mark.slow
def test_a_reload_reaches_every_agent(path: Path) -> None:
    with LocalFleet(path, only="3,2") as agents:
        until(lambda: states(agents) == {"running"}, "two agents")
        path.write_text(path.read_text().replace('every = "50ms"', 'every = "20ms"'))
        agents.reload()

        def said() -> bool:
            return all("read fleet.toml again: pace changed" in str(logged(path, name)) for name in "32")

        until(said, "the reload")
        assert states(agents) == {"running"}


@pytest.mark.slow
def test_a_normal_life_logs_nothing_serious(path: Path) -> None:
    """Neither the start, with neighbors that are not there yet, nor the end, with neighbors that are gone."""
    with LocalFleet(path) as agents:
        until(lambda: states(agents) == {"running"}, "four agents")
    entries: list[dict[str, object]] = [entry for name in "0123" for entry in logged(path, name)]
    assert [entry for entry in entries if entry["level"] not in ("info", "debug")] == []


def test_worst_agents_come_first() -> None:
    from gossamer.agents.host.status import worst_first

    members = Fleet.create(Network.path(9)).agents
    facts = [
        ("running", {"distance": 0.1}),
        ("degraded", {}),
        ("running", {"distance": 0.3}),
        ("unreachable", {}),
        ("running", {"distance": 0.0, "rejected": 5}),
        ("alone", {}),
        ("stopped", {}),
        ("running", {"distance": None}),
        ("SIGKILL", {"rejected": 1}),
    ]
    status = [AgentStatus(m, state, **more) for m, (state, more) in zip(members, facts, strict=True)]  # type: ignore[arg-type]
    assert [agent.member.id for agent in worst_first(status)] == [8, 3, 5, 1, 6, 4, 2, 0, 7]


@pytest.mark.slow
def test_who_was_removed_is_not_missing(tmp_path: Path) -> None:
    path = Fleet.create(Network.cycle(3)).write(tmp_path / "fleet")
    agents = LocalFleet(path, source="sim:1,1,1")
    assert agents.missing() == 3
    membership.change(path, lambda fleet: membership.remove(fleet, "agent1"))
    assert agents.missing() == 2
