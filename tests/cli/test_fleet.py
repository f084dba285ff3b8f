"""gossamer fleet and gossamer agent: as a user runs them, with real processes on loopback."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support import SUPPORT
from tests.support.commands import invoke
from tests.support.fleet_commands import make, running
from tests.support.small_fleets import free_ports
from tests.support.snapshots import some_snapshot
from tests.support.waiting import until

from gossamer.agents.config.tables import Member, RoundsTable
from gossamer.agents.host.options import Options
from gossamer.agents.host.status import AgentStatus, read_status, status_line
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.sources.opening import FromIterable
from gossamer.cli.fleet_table import compact, fleet_line, fleet_table, small, vector
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods import AnytimeSDA
from gossamer.networks import Network

# -- init -------------------------------------------------------------------------------------------------


def test_init_writes_a_fleet(tmp_path: Path) -> None:
    out = tmp_path / "fleet"
    result = invoke("fleet", "init", "--topology", "grid:4x4", "--out", out, "--dimension", 2)
    assert result.exit_code == 0, result.output
    assert "16 agents, 24 edges" in result.output
    made = Fleet.read(out / "fleet.toml")
    assert made.network == "grid:4x4"
    assert made.observations.dimension == 2
    assert len(list((out / "certificates").glob("*.key"))) == 18  # with the authority's and the operator's
    again = invoke("fleet", "init", "--topology", "grid:4x4", "--out", out)
    assert isinstance(again.exception, InvalidInput)
    assert "exists already" in str(again.exception)


def test_init_sets_the_range(tmp_path: Path) -> None:
    words = ("fleet", "init", "--topology", "cycle:4", "--out")
    assert invoke(*words, tmp_path / "a", "--range=-40,60").exit_code == 0
    assert Fleet.read(tmp_path / "a" / "fleet.toml").observations.range == (-40.0, 60.0)
    both = invoke(*words, tmp_path / "b", "--range=-40,60:0,1", "--dimension", 2)
    assert both.exit_code == 0, both.output
    assert Fleet.read(tmp_path / "b" / "fleet.toml").observations.range == ((-40.0, 60.0), (0.0, 1.0))
    for wrong in ("60", "a,b", "1,2,3", ""):
        refused = invoke(*words, tmp_path / "c", f"--range={wrong}")
        assert isinstance(refused.exception, InvalidInput)
        assert "--range must be two numbers such as -40,60" in str(refused.exception)


def test_init_suggests_a_range_and_warns_without_one(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("time,degrees\n1,20.5\n2,23.1\n3,bad\n4,21.0\n")
    words = ("fleet", "init", "--topology", "cycle:4", "--out")
    warned = invoke(*words, tmp_path / "a", f"--source=csv:{rows},follow,columns=degrees")
    assert "warning: no range is set, so a broken sensor or a member that lies can move" in warned.output
    assert "for example --range=10,30 (the first rows have 20.5 to 23.1)" in warned.output
    blind = invoke(*words, tmp_path / "b", "--source=-")
    assert "set --range=LOW,HIGH\n" in blind.output
    ranged = invoke(*words, tmp_path / "c", "--source=-", "--range=0,1")
    simulated = invoke(*words, tmp_path / "d")
    assert not any("warning" in result.output for result in (ranged, simulated))


def test_init_chooses_the_method(tmp_path: Path) -> None:
    words = ("fleet", "init", "--topology", "cycle:4", "--out")
    assert invoke(*words, tmp_path / "a").exit_code == 0
    plain = Fleet.read(tmp_path / "a" / "fleet.toml").method
    assert (plain.name, list(plain.parameters)) == (
        "anytime-sda",
        ["acceleration", "gain"],
    )
    assert invoke(*words, tmp_path / "n", "--method", "anytime-sda:acceleration=nesterov").exit_code == 0
    tuned = Fleet.read(tmp_path / "n" / "fleet.toml")
    assert list(tuned.method.parameters) == ["step_size", "momentum", "smoothing", "gain"]
    assert all(edge.weight == 1 / 3 for edge in tuned.edges)
    assert invoke(*words, tmp_path / "b", "--method", "ssda:step_size=0.1").exit_code == 0
    assert Fleet.read(tmp_path / "b" / "fleet.toml").method.in_file() == {"name": "ssda", "step_size": 0.1}
    own = SUPPORT / "own_methods.py"
    result = invoke(*words, tmp_path / "c", "--method", f"{own}:HeavyBall")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "c" / "own_methods.py").read_text() == own.read_text()  # beside fleet.toml
    made = Fleet.read(tmp_path / "c" / "fleet.toml")
    assert made.settings(0, tmp_path / "c", insecure=True).method.name == "heavy-ball"
    refused = invoke(*words, tmp_path / "d", "--method", "dsg")
    assert isinstance(refused.exception, Unsupported)
    assert "dsg cannot be deployed" in str(refused.exception)
    assert not (tmp_path / "d").exists()


def test_init_says_where_metrics_are(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("a b\nb c\n")
    (tmp_path / "hosts").write_text("a 10.0.0.1:7447\nb 10.0.0.1:7448\nc c.example\n")
    words = ["--edges", tmp_path / "edges", "--hosts", tmp_path / "hosts", "--out"]
    assert invoke("fleet", "init", *words, tmp_path / "fleet", "--metrics-port", 9464).exit_code == 0
    made = Fleet.read(tmp_path / "fleet" / "fleet.toml")
    assert [agent.metrics for agent in made.agents] == ["10.0.0.1:9464", "10.0.0.1:9465", "c.example:9464"]
    refused = invoke("fleet", "init", *words, tmp_path / "other", "--metrics-port", 65535)
    assert "--metrics-port must be a whole number of at least 1 and at most 65534" in str(refused.exception)


def test_init_takes_real_host_names(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("a b\nb c\n")
    (tmp_path / "hosts").write_text("a 10.0.0.1\nb 10.0.0.2:9000\nc c.example\n")
    words = ["--edges", tmp_path / "edges", "--hosts", tmp_path / "hosts", "--out", tmp_path / "fleet"]
    result = invoke("fleet", "init", *words, "--source", "cmd:sensor")
    assert result.exit_code == 0, result.output
    made = Fleet.read(tmp_path / "fleet" / "fleet.toml")
    assert [agent.endpoint for agent in made.agents] == ["10.0.0.1:7447", "10.0.0.2:9000", "c.example:7447"]
    assert {agent.source for agent in made.agents} == {"cmd:sensor"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give either --topology NAME_OR_FILE or --edges FILE"),
        (["--topology", "path:3", "--edges", "x"], "give either"),
        (["--topology", "path:3", "--hosts", "x"], "x cannot be read as text"),
        (["--topology", "gird:3x3"], "did you mean 'grid'"),
        (["--topology", "path:3", "--every", "soon"], "--every must be a time"),
        (["--topology", "path:3", "--source", "tea"], "--source must be one of -"),
        (
            ["--topology", "path:3", "--port", "65534"],
            "--port is the first of 3 ports in a row, so it must be from 1 to 65533",
        ),
    ],
)
def test_init_says_what_was_required(tmp_path: Path, words: list[str], message: str) -> None:
    result = invoke("fleet", "init", "--out", tmp_path / "fleet", *words)
    assert isinstance(result.exception, InvalidInput)
    assert message in str(result.exception)
    assert not (tmp_path / "fleet").exists()


@pytest.mark.parametrize("host", ["pümp", "::1"])
def test_init_writes_nothing_for_a_host_it_cannot_use(tmp_path: Path, host: str) -> None:
    (tmp_path / "edges").write_text("a b\n")
    (tmp_path / "hosts").write_text(f"a 10.0.0.1\nb {host}\n")
    words = ["--edges", tmp_path / "edges", "--hosts", tmp_path / "hosts", "--out", tmp_path / "fleet"]
    result = invoke("fleet", "init", *words)
    assert isinstance(result.exception, InvalidInput)
    assert "agents[1].endpoint must be" in str(result.exception)
    assert not (tmp_path / "fleet").exists()


def test_renew_gives_new_certificates_of_the_same_authority(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))
    before = {file.name: file.read_bytes() for file in (tmp_path / "certificates").iterdir()}
    result = invoke("fleet", "renew", path)
    assert result.exit_code == 0
    assert "2 certificates renewed" in result.output
    after = {file.name: file.read_bytes() for file in (tmp_path / "certificates").iterdir()}
    assert {name for name in after if after[name] == before[name]} == {"ca.pem", "ca.key"}


# -- agent ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_agents_agree_and_speak_json(tmp_path: Path) -> None:
    """One from standard input, one from a command; metrics on a port; both stop on SIGTERM."""
    path = make(tmp_path, Network.path(2))
    port = free_ports(1)[0]
    words = ("--report", "50ms")
    with (
        running(
            *("agent", path, "--id", 0, "--source", "-", "--metrics-port", port, *words),
            stdin=subprocess.PIPE,
        ) as first,
        running(
            "agent", path, "--id", "agent1", "--source", "cmd:echo 4; echo oops; sleep 60", *words
        ) as second,
    ):
        assert first.stdin is not None
        first.stdin.write("2\nnot a number\n[2]\n")
        first.stdin.flush()

        def agreed() -> bool:
            found = [status.estimate for status in read_status(Fleet.read(path), tmp_path)]
            return all(e and e[0] is not None and abs(e[0] - 3) < 1e-3 for e in found)

        until(agreed, "agreement")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        assert 'gossamer_samples_total{agent="agent0"} 2.0' in text
        assert 'gossamer_bad_observations_total{agent="agent0"} 1.0' in text
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
        answers = [process.communicate(timeout=60) for process in (first, second)]
        assert [first.returncode, second.returncode] == [0, 0]
    for output, errors in answers:
        lines = [json.loads(line) for line in output.splitlines()]
        assert lines[-1]["state"] == "stopped"
        assert lines[-1]["estimate"] == pytest.approx(3, abs=1e-3)
        assert lines[-1]["bad_observations"] == 1
        entries = [json.loads(line) for line in errors.splitlines()]
        assert any("observation skipped" in entry["message"] for entry in entries)


@pytest.mark.slow
def test_an_agent_takes_up_its_store_where_it_left_it(tmp_path: Path) -> None:
    """A replayed file is not counted twice: after kill -9 the agent reads on behind what it has stored."""
    # The numbers grow, so a method that smooths over few rounds: what it says is close to what it has read.
    rounds, method = RoundsTable(every="5ms", timeout="5ms"), AnytimeSDA()
    path = make(tmp_path / "fleet", Network.path(2), rounds, method=method)
    data = tmp_path / "data.csv"
    data.write_text("\n".join(str(k) for k in range(400)))
    words = ("agent", path, "--id", 0, "--source", f"csv:{data}", "--store", tmp_path / "store")

    def samples() -> int:
        return read_status(Fleet.read(path), path.parent)[0].details.get("acknowledged", 0)

    with running(*words) as process:
        until(lambda: samples() > 50, "some observations")
        process.kill()
        process.wait()
    with running(*words) as process:
        until(lambda: samples() == 400, "all observations")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    last = json.loads(output.splitlines()[-1])
    assert last["samples"] == 400
    assert last["estimate"] == pytest.approx(199.5, abs=0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--id", "9"), "agents 0 to 1"),
        (("--id", "0", "--every", "soon"), "--every must be a time"),
        (("--id", "0", "--source", "tcp:x"), "--source must be one of -"),
        (("--id", "0", "--report", "0"), '--report must be a time of at least "10ms"'),
    ],
)
def test_agent_reports_mistakes_to_a_person(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = invoke("agent", make(tmp_path, Network.path(2)), *words)
    assert isinstance(result.exception, InvalidInput)
    assert message in str(result.exception)


@pytest.mark.parametrize("words", [("--rounds", -1), ("--metrics-port", 70000), ("--metrics-port", -1)])
def test_numbers_out_of_range_are_refused(tmp_path: Path, words: tuple[object, ...]) -> None:
    result = invoke("agent", make(tmp_path, Network.path(2)), "--id", 0, *words)
    assert result.exit_code == 2
    assert f"Invalid value for '{words[0]}'" in result.output


def test_signals_wait_until_the_agent_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked: list[set[int]] = []
    monkeypatch.setattr(
        os, "execv", lambda *words: blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    )
    assert invoke("agent", make(tmp_path, Network.path(2)), "--id", 0).exit_code == 0
    assert blocked[0] >= {signal.SIGINT, signal.SIGTERM}
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}


@pytest.mark.slow
def test_a_port_in_use_ends_the_agent_with_one_line(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))
    host, _, port = Fleet.read(path).agents[0].endpoint.partition(":")
    with socket.socket() as taken:
        taken.bind((host, int(port)))
        taken.listen()
        options = Options(fleet=str(path), agent="0")
        command = [sys.executable, "-m", "gossamer.agents.host.process", options.text()]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    last = json.loads(result.stderr.splitlines()[-1])
    assert last["level"] == "error"
    assert "Address already in use" in last["message"]
    assert ".rs" not in result.stderr


# -- the table --------------------------------------------------------------------------------------------


def some_status(count: int, **changes: Any) -> list[AgentStatus]:
    facts: dict[str, Any] = {
        "rounds": 123_456_789,
        "samples": 98_765,
        "estimate": (-1.23456e-7,),
        "standard_error": (0.00012345,),
        "distance": 0.000123,
        "sent": 10**9,
        "lost": 12_345,
        "rejected": 4,
    }
    members = [Member(id=k, name=f"agent{k}", endpoint=f"h:{k + 1}") for k in range(count)]
    return [AgentStatus(member, "running", **(facts | changes)) for member in members]


def render(content: Any, width: int) -> list[str]:
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        console.print(content)
        return console.export_text().splitlines()


def test_the_coefficients_of_a_model_are_below_the_agents() -> None:
    status = some_status(
        2,
        estimate=(0.5, -2.25),
        standard_error=(0.01, 0.125),
        details={"coefficients": ["age", "intercept"]},
    )
    lines = render(fleet_table("clinics", status), 80)
    assert [line.split() for line in lines if line.startswith(("age ", "intercept "))] == [
        ["age", "0.50000", "0.010", "0.0"],
        ["intercept", "-2.2500", "0.12", "0.0"],
    ]
    assert not any("coefficient" in line for line in render(fleet_table("clinics", some_status(2)), 80))


def test_the_table_fits_eighty_columns_with_large_numbers() -> None:
    lines = render(fleet_table("grid:4x4", some_status(3)), 80)
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert not any("…" in line for line in lines)
    assert "-1.235e-7" in "\n".join(lines)


def test_agents_in_trouble_come_first_where_not_all_fit() -> None:
    status = some_status(30)
    status[29] = AgentStatus(status[29].member, "silent", problem="disk full")
    lines = render(fleet_table("path:30", status, rows=5), 80)
    assert "agent29" in lines[4]
    assert any("and 26 more agents" in line for line in lines)
    assert any("agent29: disk full" in line for line in lines)
    assert len(lines) <= 5 + 8


def test_a_long_problem_is_cut_only_where_the_table_must_fit_the_screen() -> None:
    status = some_status(3)
    status[1] = AgentStatus(status[1].member, "degraded", problem=f"settings differ: {'weighting, ' * 9}end")
    assert "end" in "".join(render(fleet_table("path:3", status), 80))
    live = render(fleet_table("path:3", status, rows=20), 80)
    assert any("…" in line for line in live)
    assert len(live) == len(render(fleet_table("path:3", some_status(3), rows=20), 80)) + 1


def test_restarts_and_unreachable_agents_fit_eighty_columns() -> None:
    status = some_status(3, restarts=12)
    status[1] = AgentStatus(status[1].member, "unreachable", problem="10.0.0.1:9464: timed out")
    lines = render(fleet_table("grid:4x4", status), 80)
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert not any("…" in line for line in lines)
    assert "running ↻12" in "\n".join(lines)
    assert "agent1: 10.0.0.1:9464: timed out" in "\n".join(lines)


def test_the_table_says_who_follows_which_roster_and_whose_certificate_ends() -> None:
    status = some_status(8, epoch=4, certificate_expires=time.time() + 40 * 86400)
    assert "epoch" not in "\n".join(render(fleet_table("cycle:8", status), 80))
    old = {"epoch": 3, "certificate_expires": time.time() + 3.2 * 86400}
    status[2:4] = [dataclasses.replace(agent, **old) for agent in status[2:4]]
    status[7] = dataclasses.replace(status[7], epoch=1, state="gone")  # what it followed when it lived
    shown = "\n".join(render(fleet_table("cycle:8", status), 120))
    assert "rosters differ: epoch 4: agent0, agent1, agent4, agent5, agent6; epoch 3: agent2, agent3" in shown
    assert "certificates expire in 3 days or later: agent2, agent3; run `gossamer fleet renew`" in shown


def test_status_shows_the_worst_first_and_asks_where_it_is_told(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    result = invoke("fleet", "status", path, "--metrics", nobody, "--json")
    assert result.exit_code == 1
    rows = json.loads(result.output)
    assert [(row["name"], row["state"]) for row in rows] == [
        (nobody, "unreachable"),
        ("agent0", "unknown"),
        ("agent1", "unknown"),
    ]
    assert "Connection refused" in rows[0]["problem"]


def test_a_status_that_names_another_agent_is_shown_as_that_of_its_own(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))
    line = status_line(some_snapshot(), "agent1", FromIterable(1, []))
    (tmp_path / "status").mkdir()
    (tmp_path / "status" / "agent0.json").write_text(json.dumps(line | {"agent": 1, "at": time.time()}))
    rows = json.loads(invoke("fleet", "status", path, "--json").output)
    assert sorted((row["agent"], row["name"]) for row in rows) == [(0, "agent0"), (1, "agent1")]


def test_a_fleet_of_which_nothing_is_seen_is_not_well(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))
    assert invoke("fleet", "status", path).exit_code == 1


def test_the_estimate_of_a_fleet_is_not_that_of_an_agent_that_is_alone() -> None:
    two, alone = some_status(3, estimate=(2.0,))[:2], some_status(3, estimate=(9.0,))[2]
    apart = dataclasses.replace(alone, state="alone")
    assert "estimate 2, spread 0" in fleet_line([*two, apart], 5)
    away = {"neighbors": {"agent0": {"state": "dead"}}, "neighbors_alive": 0}
    degraded = dataclasses.replace(alone, state="degraded", details=alone.details | away)
    assert "estimate 2, spread 0" in fleet_line([*two, degraded], 5)
    assert "estimate 9, spread 0" in fleet_line([apart], 5)  # where there is no other


def test_a_fleet_in_one_line() -> None:
    status = some_status(3, estimate=(2.0,))
    line = fleet_line([*status[:2], AgentStatus(status[2].member, "gone")], 5)
    assert line.startswith("5s, 2 running, 1 gone, rounds 123456789")
    assert "estimate 2, spread 0" in line


def test_numbers_stay_short() -> None:
    shown = {None: "-", 0.0: "0.0", 0.0123: "0.012", 12.3: "12", 1.2e-5: "1.2e-5", 1.2e7: "1.2e7"}
    assert {x: small(x) for x in shown} == shown
    assert vector((101325.2,)) == "101325"
    assert vector((-4.8, None)) == "-4.8000 (+1)"


def test_counts_stay_short() -> None:
    numbers = [0, 999, 99_999, 100_000, 1_234_567, 10**9, 123 * 10**9]
    assert [compact(n) for n in numbers] == ["0", "999", "99999", "100k", "1.23M", "1G", "123G"]


def test_a_status_file_that_is_half_written_or_old_is_not_believed(tmp_path: Path) -> None:
    fleet = Fleet.create(Network.path(2))
    (tmp_path / "status").mkdir()
    (tmp_path / "status" / "agent0.json").write_text('{"at": 1')
    first, second = read_status(fleet, tmp_path)
    assert first.state == second.state == "unknown"
    assert "cannot be read" in first.problem
    facts = {
        "at": time.time(),
        "pid": os.getpid(),
        "state": "running",
        "neighbors_alive": 1,
        "rejected": {"late": 2},
        "estimate": [1, 2],
        "standard_error": [None, 0.1],
        "distance": 0.1,
        "problem": "",
        **dict.fromkeys(("rounds", "samples", "sent", "received", "lost"), 1),
    }
    for change, state in (
        ({}, "running"),
        ({"neighbors_alive": 0}, "alone"),
        ({"at": time.time() - 60}, "silent"),
        ({"pid": 2**22 - 1}, "gone"),
        ({"state": "stopped", "pid": 2**22 - 1}, "stopped"),
    ):
        (tmp_path / "status" / "agent0.json").write_text(json.dumps({**facts, **change}))
        found = read_status(fleet, tmp_path)[0]
        assert found.state == state
        assert found.estimate == (1, 2)
        assert found.rejected == 0
