"""gossamer fleet add|remove|link|unlink|replace|sign|roster, as an operator types them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.commands import invoke
from typer.testing import Result

from gossamer.agents.membership import changes as membership
from gossamer.agents.membership.fleet import Fleet
from gossamer.errors import InvalidInput


def gossamer(*words: object) -> Result:
    return invoke("fleet", *words)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands find fleet/fleet.toml by themselves, where `fleet init` writes it."""
    monkeypatch.chdir(tmp_path)
    assert gossamer("init", "--topology", "cycle:4").exit_code == 0
    return Path("fleet/fleet.toml")


def heirs_of(path: Path, fleet: Fleet, agent: str) -> tuple[int, ...]:
    """In place of `membership.hand_over`, which needs agents that run: to all neighbors."""
    return tuple(fleet.weights[fleet.member(agent).id])


@pytest.mark.slow
def test_a_fleet_lives(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "hand_over", heirs_of)
    done = gossamer(
        "add", "pump", "--host", "10.0.0.9", "--neighbors", "agent0, 2", "--listen", "0.0.0.0:7447"
    )
    assert done.exit_code == 0, done.output
    assert "fleet/fleet.toml: epoch 2, 5 agents, 6 edges" in done.output
    assert "new certificates: fleet/certificates/pump.pem, fleet/certificates/pump.key" in done.output
    assert (
        "give fleet/fleet.roster to any one running agent: `gossamer fleet push`, or copy it" in done.output
    )
    assert "gossamer agent fleet.toml --id pump" in done.output
    pump = Fleet.read(path).member("pump")
    assert (pump.endpoint, pump.listen, pump.source) == ("10.0.0.9:7447", "0.0.0.0:7447", "-")
    for words, counts in (
        ("link agent1 pump", "epoch 3, 5 agents, 7 edges"),
        ("unlink agent1 agent2", "epoch 4, 5 agents, 6 edges"),
        ("replace agent3", "epoch 5, 5 agents, 6 edges"),
        ("remove agent1 --keep", "epoch 6, 4 agents, 4 edges"),
        ("remove agent3", "epoch 7, 3 agents, 2 edges"),
        ("sign", "epoch 8, 3 agents, 2 edges"),
    ):
        done = gossamer(*words.split(), "--fleet", path)
        assert done.exit_code == 0, done.output
        assert counts in done.output
        assert ("new certificates" in done.output) == words.startswith("replace")


def test_data_are_kept_only_if_they_were_handed_over(path: Path) -> None:
    before = path.read_bytes(), path.with_suffix(".roster").read_bytes()
    done = gossamer("remove", "agent1", "--keep")
    assert done.exit_code != 0
    assert "agent1 must be running and reachable to hand its data over" in str(done.exception)
    assert (path.read_bytes(), path.with_suffix(".roster").read_bytes()) == before


def test_flows_are_set_to_zero_in_an_epoch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "hand_over", heirs_of)
    gossamer("remove", "agent1", "--keep")
    kept = Fleet.read(path)
    assert (kept.left[0].heirs, kept.reset) == ((0, 2), 0)
    assert [kept.settings(i, path.parent).kept for i in (0, 2, 3)] == [(1,), (1,), ()]
    assert gossamer("reset-flows").exit_code == 0
    after = Fleet.read(path)
    assert (after.epoch, after.reset, after.roster.reset) == (3, 3, 3)
    assert (after.left[0].keep, after.left[0].heirs) == (False, ())
    assert gossamer("sign").exit_code == 0
    assert Fleet.read(path).reset == 3


def test_the_roster_is_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "hand_over", heirs_of)
    gossamer("remove", "agent1", "--keep")
    gossamer("replace", "agent3")
    shown = gossamer("roster", "-f", path)
    assert shown.exit_code == 0
    assert "gossamer: epoch 3, 3 agents, 2 edges" in shown.output
    assert "fleet/fleet.roster: epoch 3, the signature of the fleet's authority is good" in shown.output
    rows = [line.split() for line in shown.output.splitlines()]
    assert ["3", "agent3", "127.0.0.1:7450", "agent3@3", "agent0", "agent2"] in rows
    assert "agent1   left in epoch 2, its data stayed" in shown.output
    path.write_text(path.read_text().replace("127.0.0.1:7450", "10.0.0.1:7450"))
    assert "epoch 3, signed, but fleet/fleet.toml says otherwise; sign that with" in gossamer("roster").output
    assert gossamer("sign").exit_code == 0
    assert "signature of the fleet's authority is good" in gossamer("roster").output
    path.with_suffix(".roster").unlink()
    assert (
        "no roster: there is no fleet/fleet.roster; make one with `gossamer fleet sign`"
        in gossamer("roster").output
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("add pump --host nowhere: --neighbors 0", "--host must be host:port"),
        ("add pump --host h:1 --neighbors ,", "--neighbors must name one or more different agents, got none"),
        ("add pump --host h:1 --neighbors 0 --listen x", "--listen must be host:port"),
        ("add pump --host h:1 --neighbors 0 --source magic", "--source"),
        ("remove pump", "agents 0 to 3 .* got 'pump'"),
        ("link agent0 agent1", "must not be linked yet"),
        ("unlink agent0 agent2", "its neighbors are agent1, agent3"),
        ("replace pump", "got 'pump'"),
        ("sign --fleet nowhere.toml", "nowhere.toml cannot be read"),
        ("init --topology cycle:4", "fleet/fleet.toml exists already, .*`gossamer fleet add`"),
    ],
)
def test_a_mistake_says_what_was_required(path: Path, words: str, message: str) -> None:
    before = path.read_text()
    done = gossamer(*words.split())
    assert isinstance(done.exception, InvalidInput)
    assert re.search(message, str(done.exception))
    assert path.read_text() == before


@pytest.mark.slow
def test_a_topology_on_hosts_is_numbered_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.txt").write_text("west 10.0.0.9\neast 10.0.0.1:8000\nnorth 10.0.0.3\nsouth 10.0.0.2\n")
    done = gossamer("init", "--topology", "path:4", "--hosts", "hosts.txt")
    assert done.exit_code == 0, done.output
    fleet = Fleet.read(Path("fleet/fleet.toml"))
    assert [(m.id, m.name, m.endpoint) for m in fleet.agents][:2] == [
        (0, "west", "10.0.0.9:7447"),
        (1, "east", "10.0.0.1:8000"),
    ]
    pairs = "west east\neast north\nnorth south\n"
    assert gossamer("edges").output == pairs
    assert gossamer("edges", "--topology", "path:4", "--hosts", "hosts.txt").output == pairs
    # The same edges as a file, in another order: the numbers are still those of the hosts.
    Path("edges.txt").write_text("south north\neast west\nnorth east\n")
    assert gossamer("init", "--edges", "edges.txt", "--hosts", "hosts.txt", "--out", "again").exit_code == 0
    again = Fleet.read(Path("again/fleet.toml"))
    assert [m.name for m in again.agents] == ["west", "east", "north", "south"]
    assert {edge.pair for edge in again.edges} == {(0, 1), (1, 2), (2, 3)}
    assert gossamer("bundle", "east").exit_code == 0
    assert Path("east.tar.gz").exists()
    assert "10.0.0.3:9464" in gossamer("targets", "--metrics-port", "9464").output
    Path("given.txt").write_text("west 10.0.0.9 7\neast 10.0.0.1 2\nnorth 10.0.0.3 30\nsouth 10.0.0.2 0\n")
    for words, order in (
        (["--edges", "edges.txt"], {(2, 7), (2, 30), (0, 30)}),
        (["--topology", "path:4"], {(0, 2), (2, 7), (7, 30)}),
    ):
        assert gossamer("init", *words, "--hosts", "given.txt", "--out", f"in-{words[1]}").exit_code == 0
        given = Fleet.read(Path(f"in-{words[1]}") / "fleet.toml")
        numbers = {"south": 0, "east": 2, "west": 7, "north": 30}
        assert {m.name: m.id for m in given.agents} == numbers
        assert {tuple(sorted(edge.pair)) for edge in given.edges} == order
    assert [n.id for n in given.settings("east", Path(f"in-{words[1]}")).neighbors] == [0, 7]
    done = gossamer("init", "--topology", "path:5", "--hosts", "hosts.txt", "--out", "other")
    assert "hosts must have a line for each of the 5 agents of this topology, got 4" in str(done.exception)


def test_commands_that_look_at_a_fleet_run_none_of_its_code(path: Path) -> None:
    """The file of a method is code; a fleet that belongs to someone else may name any."""
    ran = path.parent / "ran"
    (path.parent / "evil.py").write_text("open('fleet/ran', 'w').close()\nraise SystemExit('the code ran')\n")
    text = path.read_text()
    start, end = text.index("[method]"), text.index("[", text.index("[method]") + 1)
    path.write_text(text[:start] + '[method]\nname = "evil.py:M"\n\n' + text[end:])
    for words in (
        ("roster",),
        ("renew", path),
        ("link", "agent0", "agent2"),
        ("unlink", "agent0", "agent2"),
        ("targets", "--metrics-port", 9464),
        ("bundle", "agent1"),
        ("status", path),
    ):
        result = gossamer(*words)
        assert not ran.exists(), words
        assert result.exit_code == 0 or words[0] == "status", result.output
    assert Fleet.read(path).epoch == 3  # the changes were made
    with pytest.raises(SystemExit, match="the code ran"):
        Fleet.read(path, load=True)
    assert ran.exists()


def test_two_agents_that_cannot_be_reached_are_no_neighbors(tmp_path: Path) -> None:
    """`fleet init`, `add` and `link` say so; fleet.toml and the roster say who cannot be reached."""
    (tmp_path / "edges").write_text("meter hub\nhub well\n")
    (tmp_path / "hosts").write_text("meter -\nhub 127.0.0.1:7447\nwell -\n")
    words = ("fleet", "init", "--edges", tmp_path / "edges", "--hosts", tmp_path / "hosts", "--out")
    assert invoke(*words, tmp_path / "fleet").exit_code == 0
    file = tmp_path / "fleet" / "fleet.toml"
    made = Fleet.read(file)
    assert [(m.name, m.endpoint, m.reachable) for m in made.roster.members] == [
        ("meter", "", False),
        ("hub", "127.0.0.1:7447", True),
        ("well", "", False),
    ]
    assert 'name = "hub", endpoint = "127.0.0.1:7447", source' in file.read_text()
    assert 'name = "well", reachable = false, source' in file.read_text()
    assert made.settings("meter", file.parent).calls(made.settings("meter", file.parent).neighbors[0])
    why = "meter and well cannot be neighbors, because neither can be reached"
    assert why in str(invoke("fleet", "link", "meter", "well", "-f", file).exception)
    added = invoke("fleet", "add", "yard", "--host", "-", "--neighbors", "hub,well", "-f", file)
    assert "well and yard cannot be neighbors, because neither can be reached" in str(added.exception)
    assert invoke("fleet", "add", "yard", "--host", "-", "--neighbors", "hub", "-f", file).exit_code == 0
    assert not Fleet.read(file).member("yard").reachable
    (tmp_path / "edges").write_text("meter hub\nhub well\nwell meter\n")
    refused = str(invoke(*words, tmp_path / "other").exception)
    assert "cannot be neighbors, because neither can be reached" in refused
    assert "link both to an agent that can be, or give [transport] a broker" in refused
    text = file.read_text().replace('"127.0.0.1:7447", ', '"127.0.0.1:7447", reachable = false, ')
    (tmp_path / "fleet.toml").write_text(text)
    with pytest.raises(InvalidInput, match=r"agents\[1\].endpoint must be left out where reachable = false"):
        Fleet.read(tmp_path / "fleet.toml")
