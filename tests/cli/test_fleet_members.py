"""gossamer fleet add|remove|link|unlink|replace|sign|roster, as an operator types them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from gossamer.agents.fleet.file import Fleet
from gossamer.cli.fleet import fleet_app
from gossamer.errors import InvalidInput

app = typer.Typer(pretty_exceptions_enable=False)
app.add_typer(fleet_app, name="fleet")


def gossamer(*words: object) -> Result:
    return CliRunner().invoke(app, ["fleet", *map(str, words)])


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The commands find fleet/fleet.toml by themselves, where `fleet init` writes it."""
    monkeypatch.chdir(tmp_path)
    assert gossamer("init", "--topology", "cycle:4").exit_code == 0
    return Path("fleet/fleet.toml")


def test_a_fleet_lives(path: Path) -> None:
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


def test_the_roster_is_shown(path: Path) -> None:
    gossamer("remove", "agent1", "--keep")
    gossamer("replace", "agent3")
    shown = gossamer("roster", path)
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
