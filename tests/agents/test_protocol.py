"""docs/protocol.md, kept: its test vectors are what the package does, and enough to write an agent from."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import Any

import msgspec
import pytest
from tests.support import protocol_vectors

from gossamer.agents.round.messages import Received

KNOWN: dict[str, Any] = json.loads(protocol_vectors.FILE.read_text())


def test_the_vectors_are_those_of_the_package():
    made = json.loads(json.dumps(protocol_vectors.vectors()))
    assert {name: part for name, part in made.items() if name != "ledger"} == {
        name: part for name, part in KNOWN.items() if name != "ledger"
    }
    for found, expected in zip(made["ledger"]["rounds"], KNOWN["ledger"]["rounds"], strict=True):
        assert _numbers(found) == pytest.approx(_numbers(expected), rel=1e-12, abs=1e-12)


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
            if 2 in (mine, theirs) or (mine == theirs == 0 and self.serial - facts["since"] > 5):
                facts["begun"] = self.age
            if mine == 2 and facts["echoed"]:
                mine = 1
            alone = mine < 2 and not facts["echoed"] and unheard > 5
            if theirs == 2:
                self.returning += self.edges[j][0]
                self.edges[j] = [0.0, 0.0]
            elif alone or theirs > mine or (theirs == mine and j < self.me):
                self.edges[j] = [-x, -y]
            facts.update(standing=2 if mine == 2 > theirs else 1, up=True, used=message["serial"])
            if 0 <= unheard <= 5 and 2 not in (mine, theirs):
                weight = 1 / (1 + max(self.degree, message["degree"]))
                flow, memory = self.edges[j]
                moved = flow - 0.65 * weight * (self.message - value)
                t = self.age - facts["begun"]
                self.edges[j] = [moved + min(t / (t + 8), 0.97) * (moved - memory), moved]
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


def test_a_message_written_from_the_page_has_the_same_bytes():
    texts, known = KNOWN["fingerprint"]["texts"], bytes.fromhex(KNOWN["fingerprint"]["bytes"])
    assert b"".join(hashlib.blake2s(text.encode(), digest_size=2).digest() for text in texts) == known
    greeting = KNOWN["greeting"]
    assert f"gossamer 1 {greeting['fleet']} {greeting['id']}\n".encode().hex() == greeting["bytes"]
    for m in KNOWN["messages"]:
        fields = [m["sender"], m["round"], m["serial"], m["echo"], m["settled"], m["degree"], 0]
        closing = [m["closing"]] if "closing" in m else []
        body = msgspec.msgpack.encode([*fields, struct.pack("<3d", *m["rows"]), b"", *closing])
        assert (b"Gs\x02" + known + body).hex() == m["bytes"]
