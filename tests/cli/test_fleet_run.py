"""gossamer fleet up: a fleet as an operator runs it, with real processes on loopback."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.support.commands import invoke
from tests.support.fleet_commands import make, pids, running
from tests.support.processes import runs
from tests.support.waiting import until

from gossamer.agents.host.status import read_status
from gossamer.agents.membership.fleet import Fleet
from gossamer.errors import InvalidInput
from gossamer.networks import Network


def serious(directory: Path) -> list[str]:
    """The warnings and errors in all logs of a fleet."""
    lines = [line for log in (directory / "logs").glob("*.log") for line in log.read_text().splitlines()]
    return [line for line in lines if json.loads(line)["level"] not in ("info", "debug")]


@pytest.mark.slow
def test_up_runs_the_fleet_and_status_reads_it(tmp_path: Path) -> None:
    """The estimates agree with the average of the simulated means, and Ctrl-C leaves no process behind."""
    path = make(tmp_path, Network.path(3), sources=[f"sim:{mean},0.1,7" for mean in (1, 2, 6)])
    with running("fleet", "up", path, start_new_session=True) as process:

        def settled() -> bool:
            found = read_status(Fleet.read(path), tmp_path)
            return all(status.state == "running" and status.rounds > 60 for status in found)

        until(settled, "sixty rounds")
        seen = invoke("fleet", "status", path, "--json")
        assert seen.exit_code == 0, seen.output
        answers = json.loads(seen.output)
        np.testing.assert_allclose([a["estimate"] for a in answers], 3.0, atol=0.1)
        assert {a["state"] for a in answers} == {"running"}
        assert "agent2" in invoke("fleet", "status", path).output
        agents = pids(path)
        assert len(agents) == 3
        second = running("fleet", "up", path)
        with second as other:
            assert other.wait(timeout=60) == 1
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all that are in the foreground
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, output + errors
    assert "3 running" in output
    assert "all agents stopped" in output
    assert not any(runs(pid) for pid in agents.values())
    assert {status.state for status in read_status(Fleet.read(path), tmp_path)} == {"stopped"}
    assert serious(tmp_path) == []
    assert invoke("fleet", "status", path).exit_code == 1


@pytest.mark.slow
def test_no_agent_outlives_its_starter(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))
    with running("fleet", "up", path) as process:
        until(lambda: len(pids(path)) == 2, "two agents")
        agents = pids(path)
        assert all(runs(pid) for pid in agents.values())
        process.kill()  # no chance to clean up
        process.wait()
    try:
        until(lambda: not any(runs(pid) for pid in agents.values()), "the end of the agents")
    finally:
        for pid in filter(runs, agents.values()):  # only if the test fails
            os.kill(pid, signal.SIGKILL)
    assert "the process that started this agent has ended" in (tmp_path / "logs" / "agent0.log").read_text()


@pytest.mark.slow
def test_an_agent_that_dies_is_shown_and_reported(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(3))
    with running("fleet", "up", path, "--no-restart") as process:
        until(lambda: len(pids(path)) == 3, "three agents")
        os.kill(pids(path)["agent2"], signal.SIGKILL)
        until(lambda: read_status(Fleet.read(path), tmp_path)[2].state == "gone", "the status")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "1 SIGKILL" in output
    assert "1 of them ended on their own" in output


@pytest.mark.slow
def test_up_starts_a_killed_agent_again_and_passes_a_reload_on(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))

    def states() -> list[tuple[str, int]]:
        return [(status.state, status.restarts) for status in read_status(Fleet.read(path), tmp_path)]

    with running("fleet", "up", path, start_new_session=True) as process:
        until(lambda: states() == [("running", 0)] * 2, "two agents")
        os.kill(pids(path)["agent1"], signal.SIGKILL)
        until(lambda: states() == [("running", 0), ("running", 1)], "the restart")
        assert "↻1" in invoke("fleet", "status", path).output
        process.send_signal(signal.SIGHUP)  # it has no terminal that could be gone
        logs = [tmp_path / "logs" / f"agent{k}.log" for k in range(2)]
        until(lambda: all("read fleet.toml again" in log.read_text() for log in logs), "the reload")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, output + errors
    assert "started again after a failure: agent1 (1)" in output


@pytest.mark.slow
def test_up_tells_of_agents_that_had_to_be_killed(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))
    with running("fleet", "up", path) as process:
        until(lambda: len(pids(path)) == 2, "two agents")
        os.kill(pids(path)["agent1"], signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "agent1 did not stop in time and had to be killed" in output


@pytest.mark.slow
def test_up_for_a_while_logs_nothing_serious(tmp_path: Path) -> None:
    path = make(tmp_path, Network.path(2))
    with running("fleet", "up", path, "--for", "1s") as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, output + errors
    assert "all agents stopped" in output
    assert serious(tmp_path) == []


def test_up_refuses_to_feed_standard_input_to_many(tmp_path: Path) -> None:
    result = invoke("fleet", "up", make(tmp_path, Network.path(2), sources=["-", "-"]))
    assert isinstance(result.exception, InvalidInput)
    assert "source must not be - (standard input)" in str(result.exception)


@pytest.mark.slow
def test_up_injects_faults(tmp_path: Path) -> None:
    """A third of the messages is lost, agents 0 and 1 are cut off for ever, and each part has its own average."""
    path = make(tmp_path, Network.path(4), sources=[f"sim:{mean},0,7" for mean in (1, 2, 5, 6)])
    with running("fleet", "up", path, "--loss", 0.3, "--delay", "2,0.1", "--partition", "0,1@0-") as process:

        def apart() -> bool:
            found = [status.estimate for status in read_status(Fleet.read(path), tmp_path)]
            wanted = zip(found, (1.5, 1.5, 5.5, 5.5), strict=True)
            return all(e and e[0] is not None and abs(e[0] - mean) < 1e-3 for e, mean in wanted)

        until(apart, "two averages")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert "faults are injected" in (tmp_path / "logs" / "agent3.log").read_text()


@pytest.mark.parametrize("command", [("agent", "--id", 0), ("fleet", "up")])
def test_impossible_faults_are_refused(tmp_path: Path, command: tuple[object, ...]) -> None:
    path = make(tmp_path, Network.path(3))
    for words, text in (
        (("--loss", 2), "--loss: probability must be"),
        (("--partition", "0-5@0-"), "Partition names agent 5, but the agents are 0..2"),
        (("--partition", "0:2@0-"), "cuts the edge 0-2, which the network does not have"),
    ):
        result = invoke(*command, path, *words)
        assert isinstance(result.exception, InvalidInput)
        assert text in str(result.exception)


@pytest.mark.slow
def test_up_with_a_dashboard(tmp_path: Path) -> None:
    """Its address is the first line, it shows the fleet, and it ends with it."""
    import httpx

    path = make(tmp_path, Network.path(2))
    with running("fleet", "up", path, "--dashboard") as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert "gossamer fleet" in httpx.get(address).text
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, output + errors
    assert "all agents stopped" in output
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)
