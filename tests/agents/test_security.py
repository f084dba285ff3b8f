"""Strangers kept out: each attack of docs/security.md, with real certificates on loopback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import SUPPORT
from tests.support.small_fleets import fleet, free_ports, make_certificates
from tests.support.waiting import until, until_true

from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import Limits
from gossamer.agents.config.tables import RoundsTable
from gossamer.agents.host.options import Options
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.round.messages import Outgoing
from gossamer.agents.round.wire import Codec
from gossamer.agents.transports.tls import TlsTransport
from gossamer.networks import Network

STRANGERS = {1: "none", 2: "other", 3: "expired", 4: "plaintext"}
HONEST = 5


class Scene:
    """Agent 0 in the middle of a star, an honest neighbor, and four strangers that knock at its door."""

    def __init__(self, directory: Path) -> None:
        star = Network.star(6)
        ports = free_ports(star.agents)
        made = Fleet.create(
            star,
            endpoints=[f"127.0.0.1:{port}" for port in ports],
            rounds=RoundsTable(every="20ms"),
        )
        self.path = made.write(directory)
        self.directory = directory
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        run = [sys.executable, "-m", "gossamer.agents.host.process"]
        for agent in (0, HONEST):
            options = Options(fleet=str(self.path), agent=str(agent), guarded=True, report=0.1)
            self._start(agent, [*run, options.text()])
        for agent, kind in STRANGERS.items():
            stranger = str(SUPPORT / "stranger.py")
            self._start(agent, [sys.executable, stranger, kind, str(self.path), str(agent)])

    def _start(self, agent: int, command: list[str]) -> None:
        with (
            (self.directory / f"{agent}.log").open("wb") as log,
            (self.directory / f"{agent}.out").open("wb") as out,
        ):
            self.processes[agent] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=log)

    def log(self, agent: int) -> str:
        lines = (self.directory / f"{agent}.log").read_text().splitlines()
        return "\n".join(json.loads(line)["message"] for line in lines if line.startswith("{"))

    def complaints(self, agent: int, words: str) -> list[str]:
        """What a stranger says of not getting in, where it says one of the words."""
        lines = [line for line in self.log(agent).splitlines() if line.startswith("cannot connect to")]
        return [line for line in lines if any(word in line for word in words.split("|"))]

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.directory / "status" / "agent0.json").read_text())
        except (OSError, ValueError):
            return {}
        return found

    def stop(self) -> None:
        for process in self.processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes.values():
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


REFUSALS = {
    "none": ("it presented no certificate", "tls/127.0.0.1"),
    "other": ("invalid peer certificate: unable to get local issuer certificate", "tls/127.0.0.1"),
    "expired": ("invalid peer certificate: certificate has expired", "tls/127.0.0.1"),
    "plaintext": ("it does not speak TLS", "tcp/127.0.0.1"),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("scene"))
    try:
        until(lambda: made.status().get("neighbors_alive") == 1, "the honest neighbor")
        for agent, kind in STRANGERS.items():
            here, there = REFUSALS[kind]
            until(lambda here=here: here in made.log(0), f"agent 0's refusal of {kind}")
            until(lambda k=agent, there=there: made.complaints(k, there), f"the complaint of {kind}")
        yield made
    finally:
        made.stop()


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "kind"), STRANGERS.items(), ids=STRANGERS.values())
def test_a_stranger_is_refused_and_both_logs_say_so(scene: Scene, agent: int, kind: str) -> None:
    here, there = REFUSALS[kind]
    assert here in scene.log(0)
    assert scene.complaints(agent, there)
    status = scene.status()
    assert status["neighbors"][f"agent{agent}"]["state"] in ("joining", "dead")
    assert f"neighbor {agent} connected" not in scene.log(0)


@pytest.mark.slow
def test_strangers_do_not_disturb_those_who_belong(scene: Scene) -> None:
    before = scene.status()["rounds"]
    until(lambda: scene.status().get("rounds", 0) > before + 5, "more rounds")
    status = scene.status()
    assert status["neighbors"][f"agent{HONEST}"]["state"] == "alive"
    assert sum(status["rejected"].get(reason, 0) for reason in ("garbage", "sender", "size")) == 0
    assert scene.processes[0].poll() is None


@pytest.mark.slow
def test_no_key_is_in_any_log(scene: Scene) -> None:
    keys = [path.read_text() for path in (scene.directory / "certificates").glob("*.key")]
    secrets = {line for key in keys for line in key.splitlines() if "-----" not in line}
    assert len(secrets) > 6
    written = "".join(
        path.read_text()
        for path in scene.directory.rglob("*")
        if path.is_file() and path.suffix in (".log", ".out", ".json", ".toml")
    )
    assert not any(secret in written for secret in secrets)


# -- a valid neighbor that sends nonsense --------------------------------------------------------------------

LIMIT = 1000


def valid(codec: Codec, number: int, **changes: Any) -> bytes:
    size = changes.pop("size", codec._shape[1])
    value = changes.pop("value", 1e6)
    registers = codec._shape[0]
    told = Outgoing(
        changes.pop("serial", 2**61 + number), 0, False, np.full((registers, size), value).tobytes()
    )
    return codec.encode(changes.pop("round", 0), told)


ATTACKS: dict[str, tuple[str, Callable[[Codec, int], bytes]]] = {
    "garbage": ("garbage", lambda codec, k: b"\x00\xff" * 20),
    "empty": ("garbage", lambda codec, k: b""),
    "cut short": ("garbage", lambda codec, k: valid(codec, k)[:-3]),
    "other settings": ("settings", lambda codec, k: valid(codec, k)[:3] + b"?" + valid(codec, k)[4:]),
    "another version": ("version", lambda codec, k: b"Gs\x63" + valid(codec, k)[3:]),
    "huge": ("size", lambda codec, k: valid(codec, k, size=100_000)),
    "another dimension": ("dimension", lambda codec, k: valid(codec, k, size=1)),
    "nan": ("numbers", lambda codec, k: valid(codec, k, value=np.nan)),
    "infinity": ("numbers", lambda codec, k: valid(codec, k, value=np.inf)),
    "absurd": ("numbers", lambda codec, k: valid(codec, k, value=1e300)),
    "far future": ("future", lambda codec, k: valid(codec, k, round=10**9)),
    "an old round": ("late", lambda codec, k: valid(codec, k, round=0)),
    "another's name": ("sender", lambda codec, k: valid(_as(codec, 7), k)),
}


def _as(codec: Codec, agent: int) -> Codec:
    agreed = codec.agreed(valid(codec, 0))
    return Codec(agent, frozenset({0}), codec._shape[1], codec._shape[0] - 1, Limits(), agreed)


@pytest.mark.slow
def test_a_neighbor_that_sends_nonsense_changes_nothing(tmp_path: Path) -> None:
    """Every attack is dropped under its own reason, the agent lives, and its estimate stays what it was."""
    settings = fleet(
        Network.path(2),
        certificates=make_certificates(tmp_path / "c", 2),
        dimension=2,
        pace=0.005,
        limits=Limits(rounds_ahead=LIMIT),
    )
    attacker = TlsTransport(settings[1])

    def tell(message: bytes) -> None:
        """Send all of a message, which may be too long to be sent at once."""
        attacker.exchange(0, {0: message}, 0.0, lambda sender, payload: False)
        until(
            lambda: not attacker._connections[0].unsent or attacker.exchange(0, {}, 0.0, lambda s, p: False),
            "sending",
        )

    async def live() -> None:
        async with Agent(settings[0]) as agent:
            agent.observe([3.0, 4.0])
            shape = agent.layout.size, agent._ledger.edge_registers
            codec = Codec(1, frozenset({0}), *shape, Limits(), settings[0].fingerprint)
            attacker.open()
            await until_true(
                lambda: attacker.present() == {0} and agent.snapshot.age > 10, "the attacker is connected"
            )
            for number, (name, (reason, attack)) in enumerate(ATTACKS.items()):
                before = agent.snapshot.rejected.get(reason, 0)
                tell(attack(codec, number))
                await until_true(lambda r=reason, b=before: agent.snapshot.rejected.get(r, 0) == b + 1, name)  # type: ignore[misc]
                np.testing.assert_array_equal(agent.estimate, [3.0, 4.0], err_msg=name)
            after = agent.snapshot
            assert after.state == "running"
            assert after.neighbors[0].used == 0
            assert sum(after.rejected.values()) == len(ATTACKS)
            # And the same message, told in time, does get through: the attacks failed for their own faults.
            for number in range(400):
                message = valid(codec, 100 + number, round=agent.snapshot.round + 1)
                tell(message)
                await asyncio.sleep(0.005)
                if agent.snapshot.neighbors[0].used:
                    break
            assert agent.snapshot.neighbors[0].used > 0

    try:
        asyncio.run(live())
    finally:
        attacker.close()


def test_a_neighbor_that_floods_loses_its_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = fleet(Network.path(2), certificates=make_certificates(tmp_path / "c", 2), pace=0.005)
    attacker = TlsTransport(settings[1])

    def attend() -> None:
        attacker.exchange(0, {}, 0.0, lambda sender, payload: False)

    async def live() -> None:
        async with Agent(settings[0]) as agent:
            attacker.open()
            await until_true(lambda: attacker.present() == {0}, "the connection")
            for _ in range(40):
                attacker.exchange(0, {0: b"nonsense"}, 0.0, lambda sender, payload: False)
            await until_true(lambda: agent.snapshot.neighbors[0].state == "quarantined", "quarantine")
            assert agent.snapshot.problem == "in quarantine for impossible claims or a flood: agent1"
            await until_true(lambda: not agent._transport.present(), "the end of the connection")
            attend()
            why = "agent1 is an agent of this fleet, but not a neighbor, or in quarantine"
            await until_true(lambda: why in caplog.text, "the refusal")
            agent.pardon()
            await until_true(lambda: agent._transport.present() == {1}, "the connection after the pardon")

    try:
        asyncio.run(live())
    finally:
        attacker.close()


@pytest.mark.slow
def test_plaintext_must_be_asked_for(tmp_path: Path) -> None:
    """TLS is the default: without certificates an agent does not start; with --insecure it warns."""
    made = Fleet.create(Network.path(2), endpoints=[f"127.0.0.1:{port}" for port in free_ports(2)])
    path = made.write(tmp_path)
    assert Fleet.read(path).settings(0, tmp_path).tls is not None
    for key in (tmp_path / "certificates").glob("*.key"):
        key.unlink()
    options = Options(fleet=str(path), agent="0", rounds=1)
    refused = run_agent(options)
    assert refused.returncode == 2
    assert "private key" in refused.stderr
    warned = run_agent(Options(fleet=str(path), agent="0", rounds=1, insecure=True))
    assert warned.returncode == 0
    levels = [json.loads(line) for line in warned.stderr.splitlines()]
    assert any(entry["level"] == "warning" and "without TLS" in entry["message"] for entry in levels)


def run_agent(options: Options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gossamer.agents.host.process", options.text()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
