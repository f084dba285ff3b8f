"""The state of a whole fleet: from status files of this machine, and from metrics of others."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.small_fleets import free_ports
from tests.support.snapshots import some_snapshot
from tests.support.waiting import until

from gossamer.agents.fleet.survey import survey
from gossamer.agents.host.metrics import AgentCollector
from gossamer.agents.host.status import status_line
from gossamer.agents.host.web import serve
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.sources.opening import FromIterable
from gossamer.errors import InvalidInput
from gossamer.networks import Network


class Far:
    """A fleet of four: `agent0` has a fresh status file here, the others' metrics are on other hosts."""

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
        self.stops = [
            serve(AgentCollector(lambda: some_snapshot(age=10), f"agent{k}"), self.ports[k]) for k in (1, 2)
        ]

    def write(self, agent: int, age: float, **changes: object) -> None:
        facts = status_line(some_snapshot(age=99), f"agent{agent}", FromIterable(1, []))
        (self.directory / "status").mkdir(exist_ok=True)
        found = {**facts, "at": time.time() - age, "pid": os.getpid(), "restarts": 1, **changes}
        (self.directory / "status" / f"agent{agent}.json").write_text(json.dumps(found))

    def states(self, places: list[str] | None = None) -> dict[str, tuple[str, int]]:
        found = survey(self.fleet, self.directory, places, timeout=5.0)
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
    missing = survey(far.fleet, far.directory, timeout=5.0)[3]
    assert missing.problem == f"127.0.0.1:{far.ports[3]}: Connection refused"


def test_a_file_that_is_old_is_believed_only_if_nobody_answers(far: Far) -> None:
    far.write(1, age=60.0)
    far.write(3, age=60.0)
    assert far.states()["agent1"] == ("running", 10)
    assert far.states()["agent3"] == ("silent", 99)


def test_any_addresses_can_be_asked(far: Far) -> None:
    nobody = free_ports(1)[0]
    places = [f"127.0.0.1:{far.ports[2]}", f"localhost:{far.ports[1]}", f"127.0.0.1:{nobody}"]
    assert far.states(places) == {
        "agent0": ("running", 99),
        "agent1": ("running", 10),
        "agent2": ("running", 10),
        "agent3": ("unknown", 0),
        f"127.0.0.1:{nobody}": ("unreachable", 0),
    }
    with pytest.raises(InvalidInput, match="metrics must be host:port"):
        far.states(["nowhere"])


def test_one_that_accepts_and_is_silent_or_talks_nonsense_holds_nobody_up(far: Far) -> None:
    with socket.create_server(("127.0.0.1", far.ports[3])):
        expected = {2: ("running", ""), 3: ("unreachable", f"127.0.0.1:{far.ports[3]}: timed out")}

        def seen() -> bool:
            found = survey(far.fleet, far.directory, timeout=0.3)
            return {k: (found[k].state, found[k].problem) for k in expected} == expected

        until(seen, "the answer of the others")
