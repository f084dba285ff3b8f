"""A fleet of real processes whose members change while it runs.

Every agent has a folder of its own, as on its own host: what it knows of the others comes from the first roster, and
then from its neighbors.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.own_hosts import STD, Hosts, seen_by, source
from tests.support.small_fleets import free_ports
from tests.support.waiting import until

from gossamer.agents.config.settings import Tls
from gossamer.agents.membership import changes as membership
from gossamer.agents.membership import roster
from gossamer.agents.membership.certificates import Authority
from gossamer.networks import Network


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(tmp_path, Network.grid(3, 4))
    yield made
    made.stop()


def rounds(hosts: Hosts, names: Sequence[str], least: int) -> None:
    until(lambda: all(hosts.status(name).get("rounds", 0) >= least for name in names), f"{least} rounds", 120)


@pytest.mark.slow
def test_a_fleet_grows_and_shrinks_under_loss_and_a_crash(hosts: Hosts) -> None:
    """From 12 to 16 to 9, a fifth of all messages lost, one agent away during three changes; nobody is restarted."""
    first = [member.name for member in hosts.fleet.agents]
    for name in first:
        hosts.start(name)
    rounds(hosts, first, 50)

    grown = membership.draft(hosts.file)
    for k, (near, port) in enumerate(zip([(0, 3), (3, 7), (8, 12), (11, 13)], free_ports(4), strict=True)):
        names = [f"agent{j}" if j < 12 else f"new{j}" for j in near]
        grown = membership.add(grown, f"new{12 + k}", f"127.0.0.1:{port}", names, source=source(12 + k))
    assert hosts.change(grown, "agent5").startswith("agent5 follows epoch 2")
    new = [f"new{k}" for k in range(12, 16)]
    for name in new:
        hosts.copy(name)
        hosts.start(name)
    until(lambda: hosts.all_at(2, first + new), "epoch 2 everywhere")
    until(lambda: all(hosts.status(name).get("neighbors_alive") for name in new), "the new ones are heard")

    away = hosts.processes["agent6"]
    acknowledged = hosts.status("agent6")["acknowledged"]
    assert acknowledged > 0
    away.send_signal(signal.SIGKILL)
    away.wait()

    stolen = [f"../../agent2/certificates/agent2.{kind}" for kind in ("pem", "key")]
    gone = ["agent0", "agent1", "agent4", "new12", "agent8", "new14", "agent2"]
    for epoch, (who, to) in enumerate(
        [(gone[:3], "agent9"), (gone[3:5], "new15"), (gone[5:], "agent7")], start=3
    ):
        shrunk = membership.draft(hosts.file)
        if epoch == 4:  # or it would fall apart
            shrunk = membership.link(shrunk, "new14", "new15")
        for name in who:
            shrunk = membership.remove(shrunk, name)
        assert "follows epoch" in hosts.change(shrunk, to)
    members = [member.name for member in hosts.fleet.agents]
    assert len(members) == 9
    others = [name for name in members if name != "agent6"]
    until(lambda: hosts.all_at(5, others), "epoch 5 everywhere")
    hosts.start("agent6")  # with the roster of epoch 1 or 2
    until(lambda: hosts.all_at(5, members), "epoch 5 everywhere", 90)
    for name in gone:
        assert hosts.processes[name].wait(90) == 0
        assert "this agent was removed from the fleet" in hosts.log(name)
    ids = {member.name: member.id for member in hosts.fleet.agents}

    def error(now: dict[str, dict[str, Any]]) -> float:
        """Squared distance from a perfect center, in units of that center's own expected error."""
        center = np.mean([seen_by(ids[name], now[name]["samples"]) for name in members], axis=0)
        found = np.array([now[name]["estimate"] for name in members])
        ideal = STD**2 * np.mean([1 / now[name]["samples"] for name in members]) / len(members)
        return float(((found - center) ** 2).mean() / ideal)

    until(lambda: error({name: hosts.status(name) for name in members}) < 0.1, "the members' average", 120)
    now = {name: hosts.status(name) for name in members}
    assert now["agent6"]["samples"] >= acknowledged
    for name in members:
        assert hosts.processes[name].poll() is None
        assert now[name]["state"] == "running", now[name]["problem"]
    # A removed agent is refused, though its certificate is valid: all it hears is that it is out.
    thief = Tls(*(hosts.file.parent / "certificates" / f for f in ("ca.pem", *stolen)))
    with pytest.raises(OSError, match="cannot be asked"):
        hosts.push(b"a roster", "agent3", by=thief)
    why = "agent2 is not a member of this fleet, so it may only ask for the roster"
    until(lambda: why in hosts.log("agent3"), "the refusal is in the log")
    signed = roster.roster_path(hosts.file).read_bytes()
    assert hosts.ask("agent3", by=thief) == signed


def forged(hosts: Hosts) -> dict[str, tuple[bytes, str]]:
    """Rosters that must not count, each with what is said of it."""
    authority = Authority.load(hosts.file.parent / "certificates")
    fine = msgspec.structs.replace(hosts.fleet.roster, epoch=7)
    signed = fine.sign(authority)

    def signed_anyway(made: roster.Roster) -> bytes:
        body = msgspec.json.encode(made)
        signature = authority.key.sign(roster._MAGIC + body, ec.ECDSA(hashes.SHA256()))
        return roster._MAGIC + roster._LENGTHS.pack(len(signature), len(body)) + signature + body

    alone = [edge for edge in fine.edges if 0 not in edge.pair]
    cut = msgspec.structs.replace(fine, edges=tuple(alone))
    other = msgspec.structs.replace(fine, epoch=hosts.fleet.epoch, edges=fine.edges[:-1])
    return {
        "forged": (signed[:-1] + bytes([signed[-1] ^ 1]), "must be signed by this fleet's authority"),
        "truncated": (signed[: len(signed) // 2], "must have the"),
        "old": (msgspec.structs.replace(fine, epoch=0).sign(authority), "is not newer than epoch 1"),
        "cut": (signed_anyway(cut), "averaging needs a connected network"),
        "twice": (other.sign(authority), "two rosters of one epoch must be the same"),
    }


@pytest.mark.slow
def test_rosters_that_do_not_count(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path, Network.cycle(4))
    names = [member.name for member in hosts.fleet.agents]
    try:
        for name in names:
            hosts.start(name)
        rounds(hosts, names, 20)
        for name, (data, text) in forged(hosts).items():
            assert text in hosts.push(data, "agent1"), name
            if name != "old":
                assert text in hosts.log("agent1"), name
        until(lambda: hosts.status("agent1")["rejected"].get("roster") == 4, "they are counted")
        again = hosts.push(roster.roster_path(hosts.file).read_bytes(), "agent1")
        assert again == "agent1 already follows epoch 1"
        # The same, put beside fleet.toml; and new certificates, which are taken into use without a restart.
        hosts.fleet.certify(hosts.file.parent)
        for name in names:
            hosts.copy(name)
        (tmp_path / "agent2" / "fleet.roster").write_bytes(forged(hosts)["cut"][0])
        refused = "refused a roster from the file next to fleet.toml"
        until(lambda: refused in hosts.log("agent2"), "it is seen")
        until(lambda: all("new certificates" in hosts.log(name) for name in names), "they are read")
        rounds(hosts, names, max(hosts.status(name)["rounds"] for name in names) + 20)
        assert hosts.all_at(1, names)
        # And one that is right.
        linked = membership.link(membership.draft(hosts.file), "agent0", "agent2")
        hosts.change(linked, "agent3")
        until(lambda: hosts.all_at(2, names), "epoch 2 everywhere")
        degrees = dict(zip(names, (3, 2, 3, 2), strict=True))
        until(lambda: all(hosts.status(n)["neighbors_alive"] == degrees[n] for n in names), "all are heard")
        assert all(hosts.processes[name].poll() is None for name in names)
    finally:
        hosts.stop()


@pytest.mark.slow
def test_who_was_away_asks_around_and_hears_what_became_of_it(tmp_path: Path) -> None:
    """Two agents are away: one gets other neighbors, none of which it knows, and one is removed."""
    hosts = Hosts(tmp_path, Network.path(5))
    others = ["agent0", "agent1", "agent3"]
    try:
        for name in others:
            hosts.start(name)
        rounds(hosts, others, 20)
        moved = membership.draft(hosts.file)
        for a, b in (("agent1", "agent3"), ("agent0", "agent2")):
            moved = membership.link(moved, a, b)
        for a, b in (("agent1", "agent2"), ("agent2", "agent3")):
            moved = membership.unlink(moved, a, b)
        moved = membership.remove(moved, "agent4")
        hosts.change(moved, "agent0")
        hosts.push(roster.roster_path(hosts.file).read_bytes(), "agent3")  # which agent 2 has cut off
        until(lambda: hosts.all_at(2, others), "epoch 2")
        hosts.start("agent2")
        hosts.start("agent4")
        until(lambda: hosts.status("agent2").get("epoch") == 2, "it learns of its new neighbor")
        until(lambda: hosts.status("agent2")["neighbors_alive"] == 1, "and is heard")
        assert "agent2 is an agent of this fleet, but not a neighbor" in hosts.log("agent1")
        assert hosts.processes["agent4"].wait(90) == 0
        assert "this agent was removed from the fleet" in hosts.log("agent4")
    finally:
        hosts.stop()
