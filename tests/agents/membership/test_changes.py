"""Changing a fleet: ids are stable, edits in fleet.toml survive, and nobody keeps a way in who should not."""

from __future__ import annotations

import json
import logging
import random
import shutil
import threading
import tomllib
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.small_fleets import free_ports
from tests.support.waiting import until

from gossamer.agents.membership import changes as membership
from gossamer.agents.membership.certificates import common_name_of, expires
from gossamer.agents.membership.changes import (
    add,
    draft,
    link,
    publish,
    remove,
    replace,
    signed_roster,
    unlink,
)
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.roster import roster_path
from gossamer.agents.transports.tls import TlsTransport
from gossamer.errors import GossamerError, InvalidInput
from gossamer.methods import AnytimeSDA
from gossamer.networks import Network


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Four agents in a ring."""
    return Fleet.create(Network.cycle(4), fleet="plant").write(tmp_path / "fleet")


def keys(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (path.parent / "certificates").iterdir()}


def change(path: Path, step: Callable[[Fleet], Fleet]) -> list[Path]:
    """Make one change as a command does; the roster and the file then say the same."""
    before = Fleet.read(path)
    _, written = membership.change(path, step)
    after = Fleet.read(path)
    assert after.epoch == before.epoch + 1
    assert signed_roster(path, after) == after.roster
    assert tomllib.loads(path.read_text())["epoch"] == after.epoch
    return written


@pytest.mark.slow
def test_an_agent_is_added(path: Path) -> None:
    before = keys(path)
    written = change(
        path,
        lambda f: add(f, "pump", "10.0.0.9:7447", ["agent1", "3"], listen="0.0.0.0:7447", source="cmd:x"),
    )
    fleet = Fleet.read(path)
    pump = fleet.member("pump")
    assert (pump.id, pump.endpoint, pump.listen, pump.source) == (4, "10.0.0.9:7447", "0.0.0.0:7447", "cmd:x")
    assert [n.id for n in fleet.settings("pump", path.parent).neighbors] == [1, 3]
    after = keys(path)
    assert {name: after[name] for name in before} == before  # nobody else gets new keys
    assert {file.name for file in written} == after.keys() - before.keys() == {"pump.pem", "pump.key"}
    assert common_name_of(path.parent / "certificates" / "pump.pem") == "pump@2"


@pytest.mark.slow
def test_an_agent_leaves_and_its_number_is_not_used_again(path: Path) -> None:
    before = keys(path)
    change(path, lambda f: remove(f, "agent3"))
    change(path, lambda f: add(f, "pump", "h:1", ["agent0"]))
    change(path, lambda f: remove(f, "pump", heirs=[0]))
    change(path, lambda f: add(f, "agent3", "h:1", ["agent0"]))
    fleet = Fleet.read(path)
    assert [(m.id, m.name, m.certified) for m in fleet.agents] == [
        (0, "agent0", "agent0"),
        (1, "agent1", "agent1"),
        (2, "agent2", "agent2"),
        (5, "agent3", "agent3@5"),  # the old certificate of this name opens nothing
    ]
    assert [(gone.id, gone.name, gone.keep, gone.epoch) for gone in fleet.left] == [
        (3, "agent3", False, 2),
        (4, "pump", True, 4),
    ]
    after = keys(path)
    assert "pump.key" not in after
    assert "pump.pem" not in after
    assert after["agent3.key"] != before["agent3.key"]


def test_changes_at_the_same_time_are_made_one_after_the_other(path: Path) -> None:
    def some(k: int) -> None:
        change = lambda f: add(f, f"new{k}", f"10.0.0.{k}:7447", ["agent0"])  # noqa: E731
        membership.change(path, change)

    threads = [threading.Thread(target=some, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fleet = Fleet.read(path)
    assert fleet.epoch == 5
    assert sorted(member.name for member in fleet.agents[4:]) == [f"new{k}" for k in range(4)]
    assert signed_roster(path, fleet) == fleet.roster


def test_the_link_that_is_proposed_is_not_the_one_that_goes(path: Path) -> None:
    change(path, lambda f: unlink(f, "agent0", "agent3"))
    with pytest.raises(InvalidInput, match="`gossamer fleet link agent2 agent0`"):
        change(path, lambda f: unlink(f, "agent0", "agent1"))


def test_edges_come_and_go(path: Path) -> None:
    before = keys(path)
    change(path, lambda f: link(f, "agent0", "2"))
    assert sorted(Fleet.read(path).weights[0]) == [1, 2, 3]
    change(path, lambda f: unlink(f, "1", "agent0"))
    assert sorted(Fleet.read(path).weights[0]) == [2, 3]
    assert keys(path) == before


def test_a_replaced_agent_has_a_new_certificate_in_the_same_place(path: Path) -> None:
    before, fleet = keys(path), Fleet.read(path)
    change(path, lambda f: replace(f, "agent2"))
    after = keys(path)
    assert {name for name in after if after[name] != before[name]} == {"agent2.pem", "agent2.key"}
    changed = Fleet.read(path)
    assert changed.member("agent2") == msgspec.structs.replace(fleet.member("agent2"), common_name="agent2@2")
    assert [n.name for n in changed.settings(1, path.parent).neighbors] == ["agent0", "agent2@2"]
    for name in ("agent2.pem", "agent2.key"):
        (path.parent / "certificates" / name).write_bytes(before[name])
    with pytest.raises(
        InvalidInput, match=r"must be the certificate of 'agent2@2', .* got that of 'agent2'; copy"
    ):
        changed.settings("agent2", path.parent)


def test_a_renewed_certificate_keeps_its_common_name(path: Path) -> None:
    change(path, lambda f: replace(f, "agent2"))
    Fleet.read(path).certify(path.parent)
    assert common_name_of(path.parent / "certificates" / "agent2.pem") == "agent2@2"
    Fleet.read(path).settings("agent2", path.parent)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            lambda f: add(f, "agent1", "h:1", ["0"]),
            "name must be a new one, .* agent 'agent1'; .*fleet replace",
        ),
        (lambda f: add(f, "x/y", "h:1", ["0"]), "an agent's name must have 1 to 53"),
        (lambda f: add(f, "x" * 54, "h:1", ["0"]), r"must have 1 to 53 letters, .*\(54 characters\)"),
        (lambda f: add(f, "x", "nowhere", ["0"]), "endpoint must be host:port"),
        (
            lambda f: add(f, "x", "127.0.0.1:7448", ["0"]),
            "endpoint must be different .* '127.0.0.1:7448' twice",
        ),
        (lambda f: add(f, "x", "h:1", []), "neighbors must name one or more different agents, got none"),
        (
            lambda f: add(f, "x", "h:1", ["0", "agent0"]),
            "neighbors must name .* different agents, got 0, agent0",
        ),
        (lambda f: add(f, "x", "h:1", ["agent7"]), r"agents 0 to 3 .* got 'agent7'"),
        (lambda f: add(f, "x", "h:1", ["0"], listen="here"), "listen must be host:port"),
        (lambda f: add(f, "x", "h:1", ["0"], source="magic:1"), "source"),
        (lambda f: remove(f, "agent7"), "got 'agent7'"),
        (lambda f: link(f, "0", "1"), "agent0 and agent1 must not be linked yet, but they are"),
        (lambda f: link(f, "0", "agent0"), "two different agents, got agent0 twice"),
        (
            lambda f: unlink(f, "0", "2"),
            "agent0 must be linked to agent2, but its neighbors are agent1, agent3",
        ),
        (
            lambda f: unlink(unlink(f, "0", "1"), "2", "3"),
            r"unlinking agent2 and agent3 would cut the network into 2 parts \(agent0, agent3; agent1, agent2\); "
            r"link them first, for example with `gossamer fleet link agent0 agent1`",
        ),
        (
            lambda f: remove(unlink(f, "0", "1"), "agent2"),
            r"removing agent2 would cut .* 2 parts \(agent0, agent3; agent1\); link .*fleet link agent0 agent1`",
        ),
        (lambda f: remove(remove(remove(f, "0"), "1"), "2"), "at least 2 agents, got 1"),
        (lambda f: replace(f, "agent7"), "got 'agent7'"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(
    path: Path, step: Callable[[Fleet], Fleet], message: str
) -> None:
    before, secrets, roster = path.read_text(), keys(path), roster_path(path).read_bytes()
    with pytest.raises(GossamerError, match=message):
        publish(path, step(draft(path)))
    assert (path.read_text(), keys(path), roster_path(path).read_bytes()) == (before, secrets, roster)


def test_without_the_authoritys_key_nothing_changes(path: Path) -> None:
    (path.parent / "certificates" / "ca.key").unlink()
    before = path.read_text()
    with pytest.raises(
        InvalidInput,
        match=r"needs the authority's key, .*ca\.key, which is not on this machine; run it where",
    ):
        publish(path, link(draft(path), "0", "2"))
    assert path.read_text() == before


# -- the operator's own edits -----------------------------------------------------------------------------


@pytest.mark.slow
def test_comments_and_edited_fields_survive_every_command(path: Path) -> None:
    text = path.read_text()
    edits = {
        'every = "100ms"': 'every = "250ms"  # slow sensors',
        "# Pace and timeouts;": "# OUR PACE;",
        "  {id = 1,": "  # on the second floor\n  {id = 1,",
        "  [0, 1],": "  [0, 1],   # a long cable",
        "replicates = 8": "replicates = 4",
        'network = "cycle:4"': 'network = "plant, hall 3"',
    }
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    change(path, lambda f: add(f, "pump", "h:1", ["1", "2"], source="cmd:sensor"))
    change(path, lambda f: link(f, "agent0", "2"))
    change(path, lambda f: unlink(f, "agent3", "2"))
    change(path, lambda f: replace(f, "agent1"))
    change(path, lambda f: remove(f, "agent3"))
    after = path.read_text()
    for new in edits.values():
        assert new in after, new
    fleet = Fleet.read(path)
    assert fleet.rounds.every == "250ms"
    assert fleet.statistics.replicates == 4
    changed = {line for line in after.splitlines() if line not in text.splitlines()}
    assert {line.split("=")[0].strip() for line in changed} == {
        "epoch",
        "{id",
        "[0, 2],",
        "[1, 4],",
        "[2, 4],",
    }


def test_a_table_per_agent_works_as_well(path: Path) -> None:
    """TOML has two ways to write a list of agents."""
    found = tomllib.loads(path.read_text())
    rows = "".join(
        "[[agents]]  # by hand\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items())
        for row in found["agents"]
    )
    path.write_text(f'format = 1\nfleet = "plant"\nedges = {json.dumps(found["edges"])}\n{rows}')
    roster_path(path).unlink()
    change(path, lambda f: add(f, "pump", "h:1", ["1", "2"]))
    change(path, lambda f: remove(f, "agent3"))
    assert [member.name for member in Fleet.read(path).agents] == ["agent0", "agent1", "agent2", "pump"]
    assert path.read_text().count("# by hand") == 3


def edit(path: Path, *changes: tuple[str, str]) -> None:
    """Edit fleet.toml as a person would."""
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)


PUMP = 'name = "pump", endpoint = "h:1"},\n]\n\n# One line per edge'


def test_what_was_edited_by_hand_is_signed(path: Path) -> None:
    """An agent less, one more, another endpoint and other edges, all in fleet.toml; nobody is renumbered."""
    before = keys(path)
    edit(
        path,
        ("127.0.0.1:7448", "10.0.0.1:7448"),
        ("  {id = 3, ", "  # {id = 3, "),
        ("]\n\n# One line per edge", "  {id = 4, " + PUMP),
        ("  [0, 3],\n", "  [0, 4],\n"),
        ("  [2, 3],\n", ""),
    )
    written = change(path, lambda f: f)
    fleet = Fleet.read(path)
    assert [(m.id, m.certified) for m in fleet.agents] == [
        (0, "agent0"),
        (1, "agent1"),
        (2, "agent2"),
        (4, "pump@2"),
    ]
    assert [(gone.id, gone.name) for gone in fleet.left] == [(3, "agent3")]
    assert {file.name for file in written} == {
        "pump.pem",
        "pump.key",
        "agent1.pem",
        "agent1.key",
    }  # new address
    assert keys(path).keys() == before.keys() - {"agent3.pem", "agent3.key"} | {"pump.pem", "pump.key"}


def test_a_number_edited_by_hand_must_not_change_its_owner(path: Path) -> None:
    refusal = r"the id 3 must stay that of agent3, got pump; .* such as 4"
    before = path.read_text()
    edit(path, ('name = "agent3"', 'name = "pump"'))
    with pytest.raises(InvalidInput, match=refusal):
        draft(path)
    path.write_text(before)
    change(path, lambda f: remove(f, "agent3"))
    edit(
        path,
        ("]\n\n# One line per edge", "  {id = 3, " + PUMP),
        ("  [0, 1],", "  [0, 1],\n  [0, 3],"),
        ('  {id = 3, name = "agent3", keep', '  # {id = 3, name = "agent3", keep'),
    )
    with pytest.raises(InvalidInput, match=refusal):
        draft(path)


def test_a_fleet_with_tuned_parameters_says_what_to_change(tmp_path: Path) -> None:
    """Its step size is that of a path; a link makes eigenvalues larger."""
    path = Fleet.create(Network.path(4), method=AnytimeSDA()).write(tmp_path)
    weights = [edge.weight for edge in Fleet.read(path).edges]
    before = path.read_text()
    with pytest.raises(
        InvalidInput, match=r"method\.step_size must be at most .* acceleration = \"local-heavy-ball\""
    ):
        publish(path, link(draft(path), "0", "2"))
    assert path.read_text() == before
    change(path, lambda f: replace(f, "0"))
    assert [edge.weight for edge in Fleet.read(path).edges] == weights  # in the roster as well
    assert [edge.weight for edge in signed_roster(path, Fleet.read(path)).edges] == weights


def test_a_file_from_before_there_were_rosters_gets_one(path: Path) -> None:
    old = "\n".join(
        line for line in path.read_text().replace("left = [\n]\n", "").splitlines() if line != "epoch = 1"
    )
    path.write_text(old)
    roster_path(path).unlink()
    change(path, lambda f: link(f, "0", "2"))
    change(path, lambda f: remove(f, "1"))
    fleet = Fleet.read(path)
    assert (fleet.epoch, [gone.id for gone in fleet.left]) == (2, [1])


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_ids_stay_whatever_happens(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Random changes, some refused: an id never has two names, and the network is connected in every epoch."""
    fleet = Fleet.create(Network.cycle(4))
    choose = random.Random(seed)
    owners: dict[int, str] = {member.id: member.name for member in fleet.agents}
    for k in range(12):
        fleet = msgspec.structs.replace(fleet, epoch=fleet.epoch + 1)
        one, other = (choose.choice(fleet.agents).name for _ in range(2))
        steps = [
            lambda f, k=k, one=one: add(f, f"n{k % 3}", f"h:{k + 1}", [one]),
            lambda f, one=one: remove(f, one),
            lambda f, one=one, other=other: link(f, one, other),
            lambda f, one=one, other=other: unlink(f, one, other),
            lambda f, one=one: replace(f, one),
        ]
        try:
            after = choose.choice(steps)(fleet)
            after.check()
        except InvalidInput:
            continue
        fleet = after
        for member in (*fleet.agents, *fleet.left):
            assert owners.setdefault(member.id, member.name) == member.name
        assert not {member.id for member in fleet.agents} & {gone.id for gone in fleet.left}
        certified = [member.certified for member in fleet.agents]
        assert len(set(certified)) == len(certified)


# -- over the network -------------------------------------------------------------------------------------


def test_the_old_certificate_of_a_replaced_agent_is_locked_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The authority signed the old one as well, but it has another name than the neighbor has now."""
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(2)]
    path = Fleet.create(Network.path(2), endpoints=endpoints).write(tmp_path / "fleet")
    stolen = shutil.copytree(path.parent, tmp_path / "stolen")
    publish(path, replace(draft(path), "agent1"))
    victim = TlsTransport(Fleet.read(path).settings(0, path.parent))
    thief = TlsTransport(Fleet.read(stolen / "fleet.toml").settings(1, stolen))
    agent = TlsTransport(Fleet.read(path).settings(1, path.parent))
    with caplog.at_level(logging.INFO), closing(victim), closing(thief), closing(agent):
        victim.open()
        thief.open()
        until(lambda: "agent1 is an agent of this fleet, but not a neighbor" in caplog.text, "the refusal")
        assert victim.present() == thief.present() == frozenset()
        thief.close()
        agent.open()
        until(lambda: victim.present() == {1} and agent.present() == {0}, "being let in")


def test_an_agent_listens_where_it_says_and_is_reached_at_its_endpoint(tmp_path: Path) -> None:
    ports = free_ports(2)
    path = Fleet.create(Network.path(2), endpoints=[f"localhost:{port}" for port in ports]).write(tmp_path)
    path.write_text(
        path.read_text().replace(
            f'endpoint = "localhost:{ports[0]}"',
            f'endpoint = "localhost:{ports[0]}", listen = "0.0.0.0:{ports[0]}"',
        )
    )
    fleet = Fleet.read(path)
    zero = fleet.settings(0, tmp_path)
    transports = [TlsTransport(zero), TlsTransport(fleet.settings(1, tmp_path))]
    try:
        for transport in transports:
            transport.open()
        until(lambda: transports[0].present() == {1} and transports[1].present() == {0}, "the connection")
    finally:
        for transport in transports:
            transport.close()


def test_certificates_are_valid_for_ninety_days(path: Path) -> None:
    assert 89 <= (expires(path.parent / "certificates" / "agent0.pem") - datetime.now(UTC)).days <= 90


def test_names_that_no_certificate_could_hold_are_refused_at_once(tmp_path: Path) -> None:
    """An agent is replaced with the common name NAME@EPOCH, of at most 64 characters."""
    network = Network.path(2)
    with pytest.raises(InvalidInput, match=r"must have 1 to 53 letters, .* got 'a+' \(54 characters\)"):
        Fleet.create(network, names=["a" * 54, "b"])
    path = Fleet.create(network, names=["a" * 53, "b"], fleet="f" * 64).write(tmp_path / "longest")
    for _ in range(2):
        change(path, lambda draft: replace(draft, "a" * 53))
    for long in ("f" * 300, ""):
        required = r"fleet must be a word of 1 to 64 letters, digits, - and _, got 'f*'?"
        with pytest.raises(InvalidInput, match=required):
            Fleet.create(network, fleet=long)
        with pytest.raises(InvalidInput, match=required):
            Fleet.create(network).with_(fleet=long).write(tmp_path / "long")
    assert not (tmp_path / "long").exists()
