"""The state of a whole fleet: from status files of this machine, and from the /status of others."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.small_fleets import free_ports
from tests.support.snapshots import some_snapshot
from tests.support.waiting import PATIENCE

from gossamer.agents.config.tables import Member
from gossamer.agents.fleet.survey import _ask_all, ask, survey
from gossamer.agents.host.metrics import AgentCollector
from gossamer.agents.host.status import StatusReport, status_line
from gossamer.agents.host.web import serve
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.sources.opening import FromIterable
from gossamer.errors import InvalidInput
from gossamer.fingerprint import full_version
from gossamer.networks import Network


class Far:
    """A fleet of four: `agent0` has a fresh status file on this machine, the others are on other hosts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = free_ports(4)
        fleet = Fleet.create(Network.path(4))
        members = [
            msgspec.structs.replace(member, metrics=f"127.0.0.1:{port}")
            for member, port in zip(fleet.agents, self.ports, strict=True)
        ]
        self.fleet = msgspec.structs.replace(fleet, agents=members)
        self.write(0, age=-60.0)  # fresh for as long as the test lasts
        self.stops = [self.serve(k) for k in (1, 2)]

    def serve(self, agent: int) -> Callable[[], None]:
        report = StatusReport(f"agent{agent}", FromIterable(1, []), restarts=2)
        collector = AgentCollector(some_snapshot, f"agent{agent}")
        return serve(collector, lambda: report.content(some_snapshot(age=10)), self.ports[agent])

    def write(self, agent: int, age: float, **changes: object) -> None:
        facts = status_line(some_snapshot(age=99), f"agent{agent}", FromIterable(1, []))
        (self.directory / "status").mkdir(exist_ok=True)
        found = {**facts, "at": time.time() - age, "pid": os.getpid(), "restarts": 1, **changes}
        (self.directory / "status" / f"agent{agent}.json").write_text(json.dumps(found))

    def states(self, addresses: list[str] | None = None) -> dict[str, tuple[str, int]]:
        found = survey(self.fleet, self.directory, addresses, timeout=PATIENCE)
        return {status.member.name: (status.state, status.rounds) for status in found}


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Far]:
    made = Far(tmp_path)
    try:
        yield made
    finally:
        for stop in made.stops:
            stop()


def test_agents_of_other_hosts_are_asked(far: Far) -> None:
    assert far.states() == {
        "agent0": ("running", 99),
        "agent1": ("running", 10),
        "agent2": ("running", 10),
        "agent3": ("unreachable", 0),
    }
    _, remote, _, missing = survey(far.fleet, far.directory, timeout=PATIENCE)
    assert (remote.restarts, remote.details["version"]) == (2, full_version())
    assert "pid" not in remote.details  # it means something only on its own host
    assert missing.problem == f"127.0.0.1:{far.ports[3]}: Connection refused"


def test_a_file_that_is_old_is_believed_only_if_nobody_answers(far: Far) -> None:
    far.write(1, age=60.0)
    far.write(3, age=60.0)
    assert far.states()["agent1"] == ("running", 10)
    assert far.states()["agent3"] == ("silent", 99)


def test_any_addresses_can_be_asked(far: Far) -> None:
    nobody = free_ports(1)[0]
    addresses = [f"127.0.0.1:{far.ports[2]}", f"localhost:{far.ports[1]}", f"127.0.0.1:{nobody}"]
    assert far.states(addresses) == {
        "agent0": ("running", 99),
        "agent1": ("running", 10),
        "agent2": ("running", 10),
        "agent3": ("unknown", 0),
        f"127.0.0.1:{nobody}": ("unreachable", 0),
    }
    with pytest.raises(InvalidInput, match="metrics must be host:port"):
        far.states(["nowhere"])


def nothing(connection: socket.socket) -> None:
    pass


def slowly(connection: socket.socket) -> None:
    """An endless header, a byte at a time: no single read takes long."""
    connection.sendall(b"HTTP/1.0 200 OK\r\n")
    try:
        while True:  # until the other end closes
            connection.sendall(b"x")
            time.sleep(0.01)
    except OSError:
        pass


def says(text: str) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(text.encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (nothing, "timed out"),
        (slowly, "timed out"),
        (says("SSH-2.0-OpenSSH\r\n"), "it does not speak HTTP"),
        (says("HTTP/1.0 404 Not Found\r\n\r\n"), "it answers /status with 404 Not Found"),
        (says("HTTP/1.0 302 Found\x1b[2J\r\nLocation: {}\r\n\r\n"), "it answers /status with 302 Found [2J"),
        (says("HTTP/1.0 200 OK\r\n\r\n" + "[" * 10**5), "not the status of an agent (maximum recursion"),
        (says("HTTP/1.0 200 OK\r\n\r\n<html>"), "not the status of an agent (JSON is malformed"),
        (says('HTTP/1.0 200 OK\r\n\r\n{"at": 1}'), "not the status of an agent (Object missing"),
    ],
    ids=["silent", "slow", "not HTTP", "no status", "redirect", "nested", "not JSON", "incomplete"],
)
def test_one_that_answers_with_nonsense_is_unreachable_and_holds_up_no_other(
    far: Far, answer: Callable[[socket.socket], None], why: str
) -> None:
    """A redirect, to an agent that does answer, is not followed."""

    def play() -> None:
        with server, server.accept()[0] as connection:
            connection.recv(1 << 12)
            answer(connection)
            ended.wait(PATIENCE) if answer is nothing else None

    ended = threading.Event()
    server = socket.create_server(("127.0.0.1", far.ports[3]))
    thread = threading.Thread(target=play)
    thread.start()
    try:
        began = time.monotonic()
        found = survey(far.fleet, far.directory, timeout=2.0 if why == "timed out" else PATIENCE)[3]
        assert time.monotonic() - began < PATIENCE
    finally:
        ended.set()
        thread.join()
    assert (found.state, found.rounds) == ("unreachable", 0)
    assert found.problem.startswith(f"127.0.0.1:{far.ports[3]}: {why}")


def test_agents_that_all_hang_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of ten groups use it up; the others are not asked any more."""
    monkeypatch.setattr("gossamer.agents.fleet.survey._AT_ONCE", 10)
    monkeypatch.setattr("gossamer.agents.fleet.survey._IN_ALL", 2)
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:  # which answers nothing
        address = f"127.0.0.1:{server.getsockname()[1]}"
        members = [Member(id=k, name=f"a{k}", endpoint="h:1", metrics=address) for k in range(100)]
        answers = _ask_all(members, 0.2)
    assert {answer.state for answer in answers} == {"unreachable"}
    reasons = [answer.problem.removeprefix(f"{address}: ") for answer in answers]
    assert reasons[:10] == ["timed out"] * 10
    assert reasons[30:] == ["not asked, because too many did not answer"] * 70


def test_an_agent_cannot_answer_in_the_name_of_another(far: Far) -> None:
    """At an address that fleet.toml lists, the answer is that agent's, whatever it calls itself."""
    far.stops.append(
        serve(
            AgentCollector(some_snapshot, "agent3"),
            lambda: StatusReport("agent0", FromIterable(1, [])).content(some_snapshot(age=10)),
            far.ports[3],
        )
    )
    states = far.states([f"127.0.0.1:{far.ports[3]}"])
    assert (states["agent0"], states["agent3"]) == (("running", 99), ("running", 10))


def test_an_answer_that_is_too_long_is_not_read_to_its_end(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.agents.fleet.survey.LONGEST", 100)
    assert "longer than 100 bytes" in ask(far.fleet.agents[1]).problem


def test_control_characters_of_others_reach_no_terminal(far: Far) -> None:
    evil = "disk full\x1b]0;owned\x07\u202e"
    far.write(0, age=-60.0, state="degraded", problem=evil, neighbors={"a\nb": {"lost": 1}})
    status = survey(far.fleet, far.directory, timeout=PATIENCE)[0]
    assert status.problem == status.details["problem"] == "disk full ]0;owned  "
    assert list(status.details["neighbors"]) == ["a b"]
