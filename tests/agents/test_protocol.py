"""docs/protocol.md, kept: its test vectors are what the package does, and enough to write an agent from."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.support import protocol_vectors
from tests.support.small_fleets import fleet, make_certificates, member

from gossamer.agents.membership.roster import Roster
from gossamer.agents.round.messages import Received
from gossamer.agents.transports.tls import TlsTransport
from gossamer.errors import InvalidRoster
from gossamer.networks import Network

KNOWN: dict[str, Any] = json.loads(protocol_vectors.FILE.read_text())
COMPUTED = ("ledger", "histories")
"""Vectors with results of floating point, in which the last digits differ between processors."""


def test_the_vectors_are_those_of_the_package():
    made = json.loads(json.dumps(protocol_vectors.vectors()))
    assert {name: part for name, part in made.items() if name not in COMPUTED} == {
        name: part for name, part in KNOWN.items() if name not in COMPUTED
    }
    for name in COMPUTED:
        assert _numbers(made[name]) == pytest.approx(_numbers(KNOWN[name]), rel=1e-12, abs=1e-12)


def test_rosters_read_as_the_vectors_say():
    rosters = KNOWN["rosters"]
    authority: Any = SimpleNamespace(public_key=protocol_vectors.AUTHORITY.public_key)
    read = []
    for signed in rosters["signed"]:
        data = bytes.fromhex(signed["bytes"])
        if signed["refused"]:
            with pytest.raises(InvalidRoster):
                Roster.open(data, authority, rosters["fleet"])
        else:
            read.append(Roster.open(data, authority, rosters["fleet"]))
    assert [msgspec.json.encode(roster).decode() for roster in read] == rosters["bodies"]
    assert [edge.weight for roster in read for edge in roster.edges] == [0.0, 0.25, 0.0, 0.0]


def test_questions_are_answered_as_the_vectors_say(tmp_path: Path) -> None:
    """There is no greeting before the answer, and the connection ends with it."""
    first, second = fleet(Network.path(2), certificates=make_certificates(tmp_path, 2), fleet="plant")
    answers = {bytes.fromhex(ask["sent"]).partition(b"asks\n")[2]: ask["answered"] for ask in KNOWN["asks"]}
    asked: list[bytes] = []

    def answer(name: str, question: bytes) -> bytes:
        asked.append(struct.pack("<I", len(question)) + question)
        return bytes.fromhex(answers[asked[-1]])[4:]

    transport = TlsTransport(replace(first, bringers=("agent0", "agent1")), answer)
    transport.open()
    try:
        for sent, answered in answers.items():
            whole = b""
            with member(second, first, b"gossamer 1 plant asks\n" + sent) as connection:
                while piece := connection.recv(1 << 16):
                    whole += piece
            assert (asked[-1], whole.hex()) == (sent, answered)
    finally:
        transport.close()


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("node") is None, reason="Node.js is not installed, so the second implementation is not run"
)
def test_the_second_implementation_gives_the_same_states() -> None:
    script = protocol_vectors.FILE.with_name("second_vectors.mjs")
    ran = subprocess.run(["node", script, protocol_vectors.FILE], capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    for k, (made, step) in enumerate(zip(found["ledger"], KNOWN["ledger"]["rounds"], strict=True)):
        assert _state(made) == pytest.approx(_state(step), abs=1e-12), k
    for states, history in zip(found["histories"], KNOWN["histories"], strict=True):
        for k, (made, step) in enumerate(zip(states, history["steps"], strict=True)):
            known = [*_state(step["state"]), step["state"]["returning"]]
            assert [*_state(made), made["returning"]] == pytest.approx(known, abs=1e-12), k
    rosters = KNOWN["rosters"]
    valid = [not signed["refused"] for signed in rosters["signed"]]
    assert [roster is not None for roster in found["rosters"]] == valid
    for roster, body in zip(found["rosters"], rosters["bodies"], strict=False):
        assert roster == {"left": [], "reset": 0} | json.loads(body)
    for message, known in zip(found["messages"], KNOWN["messages"], strict=True):
        same = ("round", "serial", "echo", "settled", "degree")
        assert [message[name] for name in same] == [known[name] for name in same]
        assert [row[0] for row in message["rows"]] == known["rows"]
        assert message["closing"] == known.get("closing", 0)
    for message, payload in zip(found["refused"], KNOWN["refused"]["payloads"], strict=True):
        assert (message is not None and message["rows"] is not None) == (not payload["reason"]), payload


def _state(step: dict[str, Any]) -> list[float]:
    """What an agent says in a step, and what it holds after it."""
    told = [
        [step["tells"][j][name] for name in ("serial", "echo", "settled", "degree", "rows")]
        for j in sorted(step["tells"])
    ]
    return _numbers(
        [told, [step["edges"][j] for j in sorted(step["edges"])], step["estimate"], step["degree"]]
    )


def _numbers(part: Any) -> list[float]:
    """All the numbers of a piece of JSON, in order."""
    if isinstance(part, dict):
        return [number for key in sorted(part) for number in _numbers(part[key])]
    if isinstance(part, list):
        return [number for each in part for number in _numbers(each)]
    return [float(part)] if isinstance(part, int | float) else []


def test_messages_and_refusals_read_as_the_vectors_say():
    reader = protocol_vectors.Codec(
        0, frozenset({1}), 1, 2, protocol_vectors.Limits(), protocol_vectors.settings().fingerprint
    )
    for message in KNOWN["messages"]:
        found = reader.decode(1, bytes.fromhex(message["bytes"]), message["round"])
        assert isinstance(found, Received)
        assert list(struct.unpack("<3d", found.rows)) == message["rows"]
        for field in ("serial", "echo", "settled", "degree", "round"):
            assert getattr(found, field) == message[field]
        assert found.closing == message.get("closing", 0)
    for payload in KNOWN["refused"]["payloads"]:
        found = protocol_vectors.codec().decode(0, bytes.fromhex(payload["bytes"]), KNOWN["refused"]["round"])
        assert (isinstance(found, Received) and not payload["reason"]) or found == payload["reason"]


# -- an agent from the page alone: nothing below this line uses the package ------------------------------------


class PlainAgent:
    """An agent of one component, written from docs/protocol.md."""

    def __init__(self, me: int, neighbors: list[int], first_serial: int) -> None:
        self.me, self.serial, self.born = me, first_serial, first_serial
        self.age, self.samples, self.mean, self.smooth = 0, 0, 0.0, 0.0
        self.edges = {j: [0.0, 0.0] for j in neighbors}
        self.facts = {
            j: {"standing": 0, "echoed": False, "up": True, "used": 0, "since": first_serial, "begun": 0}
            | {"heard": -1, "careful": 0}
            for j in neighbors
        }
        self.returning = 0.0
        self.degree = len(neighbors)

    def begin(self, observation: float | None) -> dict[int, dict[str, Any]]:
        if observation is not None:
            self.samples += 1
            self.mean += (observation - self.mean) / self.samples
        t = self.age + 1
        self.smooth += max(1 / t, 1 / max(2 * math.sqrt(min(t, 4096)), 1)) * (self.mean - self.smooth)
        self.message = self.estimate
        return {
            j: {
                "serial": self.serial,
                "echo": 0 if self.facts[j]["standing"] == 2 else self.facts[j]["used"],
                "settled": self.facts[j]["standing"] > 0,
                "degree": self.degree,
                "rows": [self.message, x, y],
            }
            for j, (x, y) in self.edges.items()
        }

    @property
    def estimate(self) -> float:
        return self.smooth + sum(x for x, _ in self.edges.values()) + self.returning

    def finish(self, heard: dict[int, dict[str, Any]], dies: int | None) -> None:
        for j, message in sorted(heard.items()):
            facts, (value, x, y) = self.facts[j], message["rows"]
            unheard = self.serial - (message["echo"] or facts["since"])
            facts["echoed"] |= message["echo"] >= facts["since"]
            mine, theirs = facts["standing"], message["settled"] and (1 if message["echo"] else 2)
            begins = 2 in (mine, theirs) or (mine == theirs == 0 and self.serial - facts["since"] > 5)
            if begins:
                facts["begun"] = self.age
            if begins or unheard > 1 or facts["heard"] < self.age - 1:
                facts["careful"] = self.age + 100
            if mine == 2 and facts["echoed"]:
                mine = 1
            alone = mine < 2 and not facts["echoed"] and unheard > 5
            if theirs == 2:
                self.returning += self.edges[j][0]
                self.edges[j] = [0.0, 0.0]
            elif alone or theirs > mine or (theirs == mine and j < self.me):
                self.edges[j] = [-x, -y]
            facts.update(
                standing=2 if mine == 2 > theirs else 1, up=True, used=message["serial"], heard=self.age
            )
            if 0 <= unheard <= 5 and 2 not in (mine, theirs):
                weight = 1 / (1 + max(self.degree, message["degree"]))
                flow, memory = self.edges[j]
                t = self.age - facts["begun"]
                careful = t < 20 or self.age < facts["careful"]
                step, limit = (0.65, 0.97) if careful else (0.95, 0.96)
                moved = flow - step * weight * (self.message - value)
                later = moved + min(t / (t + 8), limit) * (moved - memory)
                self.edges[j] = [later, moved if careful else flow]
        self.returning *= 0.98
        self.serial, self.age = self.serial + 1, self.age + 1
        if dies is not None:
            self.returning += self.edges[dies][0]
            self.edges[dies] = [0.0, 0.0]
            self.facts[dies].update(standing=2, echoed=False, up=False, used=0, since=self.serial)
        self.degree = sum(facts["up"] for facts in self.facts.values())


def test_an_agent_written_from_the_page_gives_the_same_states():
    agent = PlainAgent(KNOWN["ledger"]["me"], KNOWN["ledger"]["neighbors"], KNOWN["ledger"]["first_serial"])
    for t, step in enumerate(KNOWN["ledger"]["rounds"]):
        tells = agent.begin(step["observation"])
        assert _numbers({str(j): tells[j] for j in tells}) == pytest.approx(
            _numbers(step["tells"]), abs=1e-12
        ), t
        agent.finish({int(j): message for j, message in step["hears"].items()}, step["dies"])
        state = [agent.estimate, agent.mean, agent.smooth, *agent.edges[0], *agent.edges[2], agent.degree]
        expected = [step["estimate"], step["mean"], step["smooth"], *step["edges"]["0"], *step["edges"]["2"]]
        assert state == pytest.approx([*expected, step["degree"]], abs=1e-12), t
    history = KNOWN["histories"][1]
    agent = PlainAgent(history["me"], [j for j, _ in history["weights"]], history["first_serial"])
    for t, step in enumerate(history["steps"][:25]):  # until its restart
        agent.begin(step["observation"])
        agent.finish({int(j): message for j, message in step["hears"].items()}, None)
        assert agent.edges[2] == pytest.approx(step["state"]["edges"]["2"], abs=1e-12), t


def test_a_message_written_from_the_page_has_the_same_bytes():
    texts, known = KNOWN["fingerprint"]["texts"], bytes.fromhex(KNOWN["fingerprint"]["bytes"])
    assert b"".join(hashlib.blake2s(text.encode(), digest_size=2).digest() for text in texts) == known
    greeting = KNOWN["greeting"]
    assert f"gossamer 1 {greeting['fleet']} {greeting['id']}\n".encode().hex() == greeting["bytes"]
    for m in KNOWN["messages"]:
        fields = [m["sender"], m["round"], m["serial"], m["echo"], m["settled"], m["degree"], 0]
        closing = [m["closing"]] if "closing" in m else []
        rows = struct.pack("<3f" if "precision" in m else "<3d", *m["rows"])
        body = msgspec.msgpack.encode([*fields, rows, b"", *closing])
        assert (b"Gs\x02" + known + body).hex() == m["bytes"]
