"""What the dashboard knows of a fleet, from files that agents would write."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from tests.support.small_fleets import free_ports
from tests.support.snapshots import some_snapshot
from tests.support.written_fleet import WrittenFleet

from gossamer.agents.host.metrics import AgentCollector
from gossamer.agents.host.status import StatusFile, StatusReport
from gossamer.agents.host.web import serve
from gossamer.agents.membership import changes as membership
from gossamer.agents.sources.opening import FromIterable
from gossamer.dashboard.fleet import CROWD, EVENTS, FACTS, FleetReader, FleetView
from gossamer.networks import Network

ENDED = {"pid": 2**22 - 3}
"""No process has so large a number."""


@pytest.fixture
def four(tmp_path: Path) -> WrittenFleet:
    return WrittenFleet(tmp_path / "fleet", Network.path(4))


def states(view: FleetView) -> dict[str, str]:
    return {agent.member.name: agent.state for agent in view.agents}


def test_the_written_files_are_like_real_ones(four: WrittenFleet, tmp_path: Path) -> None:
    four.play(1)
    (tmp_path / "real").mkdir()
    report = StatusReport("agent1", FromIterable(1, []))
    StatusFile(tmp_path / "real" / "agent1.json", report).write(some_snapshot())
    real = json.loads((tmp_path / "real" / "agent1.json").read_text())
    written = json.loads(four.file("agent1").read_text())
    assert written.keys() <= real.keys()
    assert {"observing", "total", "total_standard_error"} >= real.keys() - written.keys()
    assert written["neighbors"]["agent0"].keys() == next(iter(real["neighbors"].values())).keys()


def test_states_and_reasons(four: WrittenFleet) -> None:
    four.changes["agent1"] = {"state": "degraded", "problem": "the store cannot be written"}
    four.changes["agent2"] = ENDED
    four.missing = {"agent3"}
    four.play(10)
    reader = FleetReader(four.path)
    view = reader.look()
    assert states(view) == {"agent0": "running", "agent1": "degraded", "agent2": "gone", "agent3": "unknown"}
    assert view.agents[1].problem == "the store cannot be written"
    assert [(event.agent, event.text, event.bad) for event in view.events] == [
        ("agent1", "degraded: the store cannot be written", True),
        ("agent2", "gone", True),
    ]
    four.changes = {}
    four.play(10)
    assert [event.text for event in reader.look().events[2:]] == ["running", "running"]


@pytest.mark.parametrize("content", ["{", "[]", '{"state": "running"}'])
def test_a_file_that_makes_no_sense_is_shown_as_that(four: WrittenFleet, content: str) -> None:
    four.play(1)
    four.file("agent1").write_text(content)
    agent = FleetReader(four.path).look().agents[1]
    assert agent.state == "unknown"
    assert "cannot be read" in agent.problem


@pytest.mark.parametrize(
    "changes",
    [
        {"neighbors": []},
        {"rejected": {"late": "many"}},
        {"estimate": "five"},
        {"estimate": [[1]]},
        {"distance": "far"},
        {"neighbors": {"agent0": {"lost": 1, "last_heard": "now"}}},
    ],
    ids=str,
)
def test_so_is_one_with_fields_that_make_no_sense(four: WrittenFleet, changes: dict[str, object]) -> None:
    four.changes["agent1"] = changes
    four.play(1)
    agent = FleetReader(four.path).look().agents[1]
    assert agent.state == "unknown"
    assert "cannot be read: not the status of an agent" in agent.problem


def test_rates_and_losses_are_those_of_the_last_seconds(four: WrittenFleet) -> None:
    reader, now = FleetReader(four.path), time.time()
    four.play(10, at=now - 1)
    assert np.isnan(reader.look().rates).all()
    for k in (1, 2):
        four.play(10, at=now - 1 + k / 2)
        view = reader.look()
    assert view.rates.tolist() == pytest.approx([20.0] * 4)
    assert view.losses["agent1"] == {"agent0": 0.0, "agent2": 0.0}
    four.more_lost = 6
    four.play(10, at=now + 0.5)
    assert reader.look().losses["agent1"] == pytest.approx({"agent0": 6 / 30, "agent2": 6 / 30})


def test_a_restart_starts_over(four: WrittenFleet) -> None:
    reader, now = FleetReader(four.path), time.time()
    four.play(100, at=now - 2)
    reader.look()
    four.play(10, at=now - 1)
    assert reader.look().rates[0] == pytest.approx(10.0)
    four.rounds = 0
    four.play(1, at=now)
    assert math.isnan(reader.look().rates[0])


def test_the_history_has_quantiles_and_refused_messages(four: WrittenFleet) -> None:
    reader, now = FleetReader(four.path), time.time()
    for k in range(4):
        four.changes["agent2"] = {"rejected": {"settings": 10 * k}} if k else {}
        four.play(10, at=now - 2 + k / 2)
        view = reader.look()
    assert view.facts.shape == (4, len(FACTS) + len(view.reasons))
    row = dict(zip([*FACTS, *view.reasons], view.facts[-1], strict=True))
    known = [agent.estimate[0] or 0.0 for agent in view.agents]
    assert row["spread"] == pytest.approx(max(known) - min(known))
    assert [row["estimate0"], row["estimate0.5"], row["estimate1"]] == pytest.approx(
        [min(known), float(np.median(known)), max(known)]
    )
    assert row["settings"] == pytest.approx(20.0)
    assert math.isnan(view.facts[0, len(FACTS) + view.reasons.index("settings")])
    assert view.agents_over_time.shape == (4, 3, 4)
    assert view.agents_over_time[-1, 0].tolist() == known


def test_agents_that_do_not_speak_are_not_in_the_history(four: WrittenFleet) -> None:
    four.changes["agent2"] = {**ENDED, "estimate": 1000.0}
    four.play(10)
    view = FleetReader(four.path).look()
    assert view.facts[-1, FACTS.index("estimate1")] < 100
    assert np.isnan(view.agents_over_time[-1, :, 2]).all()


def test_it_follows_the_roster(four: WrittenFleet) -> None:
    four.play(10)
    reader = FleetReader(four.path)
    before = reader.look().agents_over_time[-1, 0, 3]
    membership.publish(four.path, membership.remove(membership.draft(four.path), "agent0"))
    added = membership.add(membership.draft(four.path), "press", "127.0.0.1:9999", ["agent2", "agent3"])
    membership.publish(four.path, added)
    view = reader.look()
    assert list(states(view)) == ["agent1", "agent2", "agent3", "press"]
    assert view.agents_over_time[0, 0, 2] == before  # agent3's column moved
    assert [(event.agent, event.text) for event in view.events] == [
        ("agent0", "left the fleet"),
        ("press", "joined the fleet"),
    ]


def test_a_file_that_cannot_be_followed_is_not(four: WrittenFleet) -> None:
    four.play(10)
    reader = FleetReader(four.path)
    good = four.path.read_text()
    four.path.write_text("fleet = [")
    view = reader.look()
    assert list(states(view).values()) == ["running"] * 4
    assert view.problem.startswith("still showing epoch 1: ")
    four.path.write_text(good)
    assert reader.look().problem == ""


@pytest.mark.slow
def test_what_happens_to_many_at_once_is_one_event_and_events_are_bounded(tmp_path: Path) -> None:
    many = WrittenFleet(tmp_path / "fleet", Network.cycle(CROWD + 2))
    many.play(1)
    reader = FleetReader(many.path)
    assert reader._events.maxlen == EVENTS
    reader._events = deque(maxlen=6)
    for k in range(9):
        view = reader.look()
        many.changes = {} if k % 2 else {member.name: ENDED for member in many.fleet.agents}
        many.play(1)
    assert len(view.events) == 6
    assert {event.agent for event in view.events} == {f"{CROWD + 2} agents"}
    names = [member.name for member in many.fleet.agents]
    for why in (dict.fromkeys(names, "no space left"), {name: f"{name} says so" for name in names}):
        many.changes = {}
        many.play(1)
        reader.look()
        many.changes = {name: {"state": "degraded", "problem": why[name]} for name in names}
        many.play(1)
        view = reader.look()
    told = [(event.agent, event.text) for event in view.events if event.bad][-2:]
    assert told == [(f"{len(names)} agents", "degraded: no space left"), (f"{len(names)} agents", "degraded")]


def test_agents_of_other_hosts_are_asked_for_their_status(four: WrittenFleet) -> None:
    port, nobody = free_ports(2)
    four.missing = {"agent1", "agent2", "agent3"}
    four.play(10)
    report = StatusReport("agent1", FromIterable(1, []))
    collector = AgentCollector(some_snapshot, "agent1")
    stop = serve(collector, lambda: report.content(some_snapshot(age=10)), port)
    try:
        view = FleetReader(four.path, [f"127.0.0.1:{port}", f"127.0.0.1:{nobody}"]).look()
    finally:
        stop()
    assert states(view) == {
        "agent0": "running",
        "agent1": "running",
        "agent2": "unknown",
        "agent3": "unknown",
        f"127.0.0.1:{nobody}": "unreachable",
    }
    assert view.agents[-1].problem.endswith("Connection refused")
    assert view.agents[1].rounds == 10
