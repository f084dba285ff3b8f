"""Changes of a fleet of processes, as an operator makes them: the average is what it was, to rounding."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from tests.support.own_hosts import Hosts, constant
from tests.support.small_fleets import free_ports
from tests.support.waiting import until

from gossamer.agents.config.settings import Tls
from gossamer.agents.membership import changes as membership
from gossamer.agents.membership.certificates import Authority
from gossamer.agents.membership.renewal import RENEW, renew_running
from gossamer.errors import OutputError
from gossamer.networks import Network

PLANT = {"pump": 2.5, "valve": 4.0, "tank": 8.0}
PRESS = 10.0
AVERAGE = 6.125
CLOSE = 1e-9


def at(hosts: Hosts, names: list[str], value: float, close: float = CLOSE) -> bool:
    found = [hosts.status(name).get("estimate") for name in names]
    return all(estimate is not None and abs(estimate - value) < close for estimate in found)


@pytest.mark.slow
def test_several_changes_in_one_push_leave_the_average(tmp_path: Path) -> None:
    """A link, an unlink, a replaced certificate whose files come later, and an agent that leaves its data."""
    hosts = Hosts(tmp_path, Network.cycle(3), PLANT)
    try:
        for name in PLANT:
            hosts.start(name)
        until(lambda: at(hosts, list(PLANT), sum(PLANT.values()) / 3), "the plant's average")
        where, near = f"127.0.0.1:{free_ports(1)[0]}", ["pump", "valve"]
        grown = membership.add(membership.draft(hosts.file), "press", where, near, source=constant(PRESS))
        hosts.change(grown, "valve")
        hosts.copy("press")
        hosts.start("press")
        until(lambda: at(hosts, [*PLANT, "press"], AVERAGE), "the average of four")

        for step in (
            lambda fleet: membership.link(fleet, "press", "tank"),
            lambda fleet: membership.unlink(fleet, "pump", "valve"),
            lambda fleet: membership.replace(fleet, "tank"),
            lambda fleet: membership.remove(
                fleet, "pump", heirs=membership.hand_over(hosts.file, fleet, "pump")
            ),
        ):
            membership.change(hosts.file, step)
        assert set(hosts.fleet.left[0].heirs) == {
            hosts.fleet.member(name).id for name in ("valve", "tank", "press")
        }
        hosts.push((hosts.file.parent / "fleet.roster").read_bytes(), "valve")
        assert hosts.processes["pump"].wait(60) == 0
        # The old certificate of tank opens nothing, and the new one is not there.
        until(lambda: hosts.status("tank")["neighbors_alive"] == 0, "nobody hears tank")
        hosts.copy("tank")
        rest = ["valve", "tank", "press"]
        until(lambda: hosts.all_at(hosts.fleet.epoch, rest), "the new epoch everywhere")
        until(lambda: at(hosts, rest, AVERAGE), "the average of four, in three agents")
        until(
            lambda: all(abs(hosts.status(n)["observing"] - 3.0) < 1e-6 for n in rest),
            "three of three observe",
        )
        assert {hosts.status(name)["state"] for name in rest} == {"running"}
        # And all that changes of the fleet have moved can be undone: what is left are the members' own data.
        hosts.change(membership.reset_flows(membership.draft(hosts.file)), "press")
        until(lambda: at(hosts, rest, 22.0 / 3), "the members' own average")
    finally:
        hosts.stop()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_leaves_its_data_while_a_neighbor_is_away(tmp_path: Path, how: signal.Signals) -> None:
    means = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 9.0}
    hosts = Hosts(tmp_path, Network.cycle(4), means)
    try:
        for name in means:
            hosts.start(name)
        until(lambda: at(hosts, list(means), 4.0), "the average")
        hosts.processes["c"].send_signal(how)
        hosts.processes["c"].wait(30)
        others = ["a", "b", "d"]
        if how == signal.SIGTERM:  # stopped in order: its data stay, and nothing moves
            seen = hosts.status("a")["rounds"]
            until(lambda: hosts.status("a")["rounds"] > seen + 60, "the others go on")
            assert at(hosts, others, 4.0)
        draft = membership.link(membership.draft(hosts.file), "a", "c")
        heirs = membership.hand_over(hosts.file, draft, "b")
        assert heirs == ((0,) if how == signal.SIGKILL else (0, 2))
        hosts.change(membership.remove(draft, "b", heirs=heirs), "a")
        assert hosts.processes["b"].wait(60) == 0
        hosts.start("c")  # with its old files
        until(lambda: hosts.all_at(2, ["a", "c", "d"]), "epoch 2", 90)
        until(lambda: at(hosts, ["a", "c", "d"], 4.0), "the average of four, in three agents")
    finally:
        hosts.stop()


@pytest.mark.slow
def test_who_cannot_hand_its_data_over_says_why_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    means = {"a": 1.0, "b": 5.0, "c": 9.0}
    hosts = Hosts(tmp_path, Network.cycle(3), means)
    monkeypatch.setattr(membership, "_PATIENCE", 0.0)
    try:
        hosts.start("b")
        until(lambda: bool(hosts.status("b").get("samples")), "it runs")
        with pytest.raises(OutputError, match="b cannot hand its data over: none of its neighbors is up"):
            membership.hand_over(hosts.file, hosts.fleet, "b")
        with pytest.raises(OutputError, match="a must be running and reachable to hand its data over"):
            membership.hand_over(hosts.file, hosts.fleet, "a")
        hosts.start("a")
        hosts.start("c")
        until(lambda: at(hosts, list(means), 5.0), "the average")
    finally:
        hosts.stop()


@pytest.mark.slow
def test_certificates_are_renewed_over_the_fleets_own_connections(tmp_path: Path) -> None:
    means = {"a": 1.0, "b": 2.0}
    hosts = Hosts(tmp_path, Network.path(2), means)
    certificates = {name: tmp_path / name / "certificates" for name in means}
    before = {name: (where / f"{name}.key").read_bytes() for name, where in certificates.items()}
    kept = {file.name: file.read_bytes() for file in (hosts.file.parent / "certificates").iterdir()}
    try:
        for name in means:
            hosts.start(name)
        until(lambda: at(hosts, list(means), 1.5), "the average")
        authority, tls = (
            Authority.load(hosts.file.parent / "certificates"),
            membership.operator_files(hosts.file, hosts.fleet),
        )
        for member in hosts.fleet.agents:
            assert renew_running(authority, tls, hosts.fleet.fleet, member) == ""
        for name, where in certificates.items():
            assert (where / f"{name}.key").read_bytes() != before[name]
            assert (where / f"{name}.key").stat().st_mode & 0o777 == 0o600
            until(lambda name=name: "new certificates" in hosts.log(name), "it is taken into use")
        assert {
            file.name: file.read_bytes() for file in (hosts.file.parent / "certificates").iterdir()
        } == kept
        seen = max(hosts.status(name)["rounds"] for name in means)
        until(
            lambda: all(
                hosts.status(n)["rounds"] > seen + 20 and hosts.status(n)["neighbors_alive"] for n in means
            ),
            "it goes on",
        )
        # A member is not the operator, and a certificate for another key is refused.
        thief = Tls(*(certificates["b"] / file for file in ("ca.pem", "b.pem", "b.key")))
        assert hosts.ask("a", RENEW, by=thief) == b"only the operator may ask for that"
        hosts.ask("a", RENEW)
        other = (certificates["b"] / "b.pem").read_bytes()
        assert b"refused a certificate that is not for its key and name" in hosts.ask("a", RENEW + other)
        assert b"was not asked for a signing request" in hosts.ask("a", RENEW + other)
    finally:
        hosts.stop()


@pytest.mark.slow
def test_an_agent_from_an_old_copy_of_its_folder_does_not_average_with_a_removed_member(
    tmp_path: Path,
) -> None:
    """The removed member runs from an old copy too, so both ends of their edge still have the roster with it."""
    hosts = Hosts(tmp_path, Network.cycle(3), {"pump": 1.0, "valve": 2.0, "liar": 9.0})

    def restore(name: str) -> None:
        shutil.rmtree(tmp_path / name)
        (tmp_path / f"{name}.old").rename(tmp_path / name)
        hosts.start(name)

    try:
        for name in ("pump", "valve", "liar"):
            hosts.start(name)
        until(lambda: at(hosts, ["pump", "valve", "liar"], 4.0), "all at 4")
        for name in ("pump", "liar"):
            hosts.processes[name].kill()
            hosts.processes[name].wait()
            shutil.copytree(tmp_path / name, tmp_path / f"{name}.old")
        hosts.start("pump")
        hosts.change(membership.remove(membership.draft(hosts.file), "liar"), "valve")
        until(lambda: hosts.all_at(2, ["pump", "valve"]), "the liar is removed")

        hosts.processes["pump"].kill()
        hosts.processes["pump"].wait()
        for name in ("liar", "pump"):
            restore(name)
        assert hosts.processes["liar"].wait(60) == 0  # it learned that it is no longer a member
        until(lambda: hosts.all_at(2, ["pump"]), "the newer roster, which was not in its folder")
        until(lambda: at(hosts, ["pump", "valve"], 1.5), "the average of two")
        assert list(hosts.status("pump")["neighbors"]) == ["valve"]
    finally:
        hosts.stop()
