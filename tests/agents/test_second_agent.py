"""An agent in another language among those of the package: docs/protocol.md suffices to write one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.own_hosts import Hosts
from tests.support.waiting import until

from gossamer.agents.membership import changes as membership
from gossamer.faults import Loss
from gossamer.networks import Network

SCRIPT = Path(__file__).parents[1] / "support" / "second_agent.mjs"
MEANS = {"pump": 1.0, "valve": 2.0, "tank": 8.0, "press": 5.0}
CLOSE = 1e-6


class SecondAgent:
    """The agent `name` as a process of Node.js, in the folder of its host."""

    def __init__(self, hosts: Hosts, name: str) -> None:
        self._folder, fleet = hosts.folder / name, hosts.fleet
        fingerprint = fleet.settings(name, hosts.file.parent).fingerprint.hex()
        arguments = [str(self._folder), name, str(MEANS[name]), "25", "3000", fingerprint]
        with (self._folder / "output").open("w") as output:
            self._process = subprocess.Popen(
                ["node", str(SCRIPT), *arguments], stdin=subprocess.PIPE, stdout=output
            )

    @property
    def state(self) -> dict[str, Any]:
        """The last complete line that it wrote."""
        lines = (self._folder / "output").read_text().split("\n")
        state: dict[str, Any] = json.loads(lines[-2]) if len(lines) > 1 else {}
        return state

    def close_connections(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(60)


def average(*names: str) -> float:
    return sum(MEANS[name] for name in names) / len(names)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("node") is None, reason="Node.js is not installed, so the second implementation is not run"
)
def test_an_agent_written_from_the_page_takes_part(tmp_path: Path) -> None:
    """Its neighbors lose a tenth of their messages; then connections, a neighbor, itself, an edge and a member."""
    hosts = Hosts(tmp_path, Network.cycle(4), MEANS)
    hosts.loss = Loss(0.1)
    others, second = ["pump", "tank", "press"], SecondAgent(hosts, "valve")

    def at(value: float, names: list[str], close: float = CLOSE) -> bool:
        found = [second.state.get("estimate"), *(hosts.status(name).get("estimate") for name in names)]
        return all(estimate is not None and abs(estimate - value) < close for estimate in found)

    try:
        for name in others:
            hosts.start(name)
        until(lambda: at(average(*MEANS), others), "the average of four")

        for _ in range(5):
            round = second.state["round"]
            second.close_connections()
            until(lambda r=round: second.state["round"] > r + 10, "more rounds")  # type: ignore[misc]
        until(lambda: second.state["alive"] == 2 and at(average(*MEANS), others), "both are back")

        hosts.processes["tank"].kill()
        hosts.processes["tank"].wait()
        rest = ["pump", "press"]
        until(lambda: at(average("valve", *rest), rest), "the average without the neighbor that was killed")
        hosts.start("tank")
        until(lambda: at(average(*MEANS), others), "the average with it")

        samples = second.state["samples"]
        second.kill()
        second = SecondAgent(hosts, "valve")
        until(lambda: second.state.get("samples", 0) > samples, "it resumes")
        until(lambda: at(average(*MEANS), others), "the average after its own restart")

        # Its edge to pump ends by agreement, and one to press begins.
        draft = membership.unlink(
            membership.link(membership.draft(hosts.file), "valve", "press"), "pump", "valve"
        )
        hosts.change(draft, "tank")
        until(lambda: second.state["epoch"] == 2 and hosts.all_at(2, others), "the second epoch everywhere")
        until(lambda: at(average(*MEANS), others), "the average over other edges")
        log = hosts.log("pump")
        assert "is in quarantine" not in log
        assert "refused a roster" not in log

        # A roster given to the second agent spreads from there; the member that it removes stops, and the edge that
        # ended continues with its flow.
        linked = membership.link(membership.draft(hosts.file), "pump", "valve")
        hosts.change(membership.remove(linked, "press"), "valve")
        assert hosts.processes["press"].wait(60) == 0
        until(lambda: second.state["epoch"] == 3 and hosts.all_at(3, rest[:1]), "the third epoch")
        until(lambda: at(average("pump", "valve", "tank"), ["pump", "tank"]), "the average of three")

        # Stopped in order, its data stay until it is back. It was all that connects the other two, so each keeps its
        # own share of what still returns of the flow to press.
        assert second.stop() == 0
        seen = hosts.status("pump")["rounds"]
        until(lambda: hosts.status("pump")["rounds"] > seen + 200, "rounds without it")
        assert at(average("pump", "valve", "tank"), ["pump", "tank"], 1e-3)
    finally:
        second.kill()
        hosts.stop()
