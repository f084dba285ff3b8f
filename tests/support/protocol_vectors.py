"""Writes `protocol-vectors.json`, what docs/protocol.md says in bytes and numbers, from the package itself.

python -m tests.support.protocol_vectors
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.agents.config.settings import AGREED, AgentSettings, Limits, Neighbor
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.messages import Outgoing
from gossamer.agents.round.wire import Codec
from gossamer.agents.transports import secured
from gossamer.facts import UnknownFacts
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.ledger import ledger_program

FILE = Path(__file__).with_name("protocol-vectors.json")
SERIALS = {0: 5_000, 1: 1_000, 2: 9_000}
METHOD = AnytimeSDA("local")


def settings() -> AgentSettings:
    return AgentSettings(1, (Neighbor(0), Neighbor(2)), method=METHOD)


def rows(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def codec() -> Codec:
    return Codec(1, frozenset({0, 2}), 1, 2, Limits(), settings().fingerprint)


def messages() -> list[dict[str, Any]]:
    fields = (
        {"round": 7, "serial": 1007, "echo": 5006, "settled": True, "degree": 2, "rows": [2.5, 0.125, -0.25]},
        {"round": 0, "serial": 1, "echo": 0, "settled": False, "degree": 1, "rows": [0.0, 0.0, 0.0]},
        {
            "round": 2**40,
            "serial": 2**50,
            "echo": 2**50 - 1,
            "settled": True,
            "degree": 300,
            "rows": [1e99, -1.0, 3.0],
        },
        {
            "round": 8,
            "serial": 1008,
            "echo": 5006,
            "settled": True,
            "degree": 1,
            "rows": [2.5, 0.125, 0.125],
            "closing": 7,
        },
    )
    found = []
    for each in fields:
        content = each["serial"], each["echo"], each["settled"], rows(*each["rows"]), each["degree"]
        out = Outgoing(*content, each.get("closing", 0))
        found.append({"sender": 1, **each, "bytes": codec().encode(each["round"], out).hex()})
    return found


def refused() -> list[dict[str, str]]:
    """Bytes that arrive from neighbor 0 in round 7, and why they are dropped."""
    other = Codec(0, frozenset({1}), 1, 2, Limits(), settings().fingerprint)
    good = other.encode(7, Outgoing(5007, 1006, True, rows(1.0, 2.0, 3.0), 2))
    absurd = other.encode(7, Outgoing(5007, 1006, True, rows(float("nan"), 2.0, 3.0), 2))
    ahead = other.encode(7 + 2_000_000, Outgoing(5007, 1006, True, rows(1.0, 2.0, 3.0), 2))
    longer = other.encode(7, Outgoing(5007, 1006, True, rows(1.0, 2.0, 3.0, 4.0), 2))
    strange = Codec(2, frozenset({1}), 1, 2, Limits(), settings().fingerprint)
    posing = strange.encode(7, Outgoing(5007, 1006, True, rows(1.0, 2.0, 3.0), 2))
    elsewhere = settings().with_(dimension=2).fingerprint
    payloads = {
        "": good,
        "garbage": good[:-1],
        "version": good[:2] + b"\x09" + good[3:],
        "settings": good[:3] + elsewhere + good[21:],
        "sender": posing,
        "future": ahead,
        "dimension": longer,
        "numbers": absurd,
        "size": good + bytes(200),
    }
    return [{"bytes": payload.hex(), "reason": reason} for reason, payload in payloads.items()]


def make_ledger() -> Ledger:
    program = ledger_program(METHOD, UnknownFacts())
    return Ledger(program, 1, {0: 0.0, 2: 0.0}, dimension=1, serial=SERIALS[1])


def script() -> Iterable[tuple[float | None, dict[int, dict[str, Any]], int | None]]:
    """What agent 1 sees, what it hears, and who is declared dead, round by round."""

    def heard(j: int, t: int, echo: int, settled: bool, degree: int, *values: float) -> dict[str, Any]:
        return {
            "serial": SERIALS[j] + t,
            "echo": echo,
            "settled": settled,
            "degree": degree,
            "rows": list(values),
        }

    yield 3.0, {0: heard(0, 0, 0, False, 1, 1.0, 0.0, 0.0), 2: heard(2, 0, 0, False, 1, 8.0, 0.0, 0.0)}, None
    yield 3.5, {0: heard(0, 1, 1000, True, 1, 1.5, 0.4, 0.4)}, None  # nothing came from 2
    yield (
        None,
        {0: heard(0, 2, 1001, True, 1, 1.75, 0.5, 0.5), 2: heard(2, 2, 1000, True, 3, 7.0, -1.0, -1.0)},
        None,
    )
    for t in range(3, 9):  # agent 0 hears nothing any more, and its echo grows old
        yield (
            2.0,
            {0: heard(0, t, 1001, True, 2, 2.0, 0.6, 0.6), 2: heard(2, t, 999 + t, True, 3, 6.0, 0.0, 0.0)},
            None,
        )
    yield 4.0, {2: heard(2, 9, 1008, True, 3, 5.0, 0.0, 0.0)}, 0  # and is declared dead
    near = {2: heard(2, 10, 1009, True, 3, 5.0, 0.0, 0.0)}
    yield (
        4.0,
        {0: heard(0, 10, 0, False, 2, 2.5, 0.0, 0.0), **near},
        None,
    )  # agent 0 is back, and has heard nothing
    yield 4.0, near | {0: heard(0, 11, 1010, True, 2, 2.5, 0.0, 0.0)}, None  # now it has
    yield 4.0, near | {0: heard(0, 12, 1011, True, 2, 3.0, 0.1, 0.1)}, None
    yield 4.0, {2: heard(2, 13, 0, True, 3, 5.0, 0.0, 0.0)}, None  # agent 2 has dropped agent 1


def rounds() -> list[dict[str, Any]]:
    ledger, found = make_ledger(), []
    for observation, heard, dead in script():
        ledger.begin(np.array([observation or 0.0]), 0.0 if observation is None else 1.0)
        told = {j: ledger.tell(j) for j in (0, 2)}
        outgoing = {
            str(j): {
                "serial": out.serial,
                "echo": out.echo,
                "settled": out.settled,
                "degree": out.degree,
                "rows": list(struct.unpack("<3d", out.rows)),
            }
            for j, out in told.items()
        }
        ledger.finish(
            {
                j: Outgoing(m["serial"], m["echo"], m["settled"], rows(*m["rows"]), m["degree"])
                for j, m in heard.items()
            }
        )
        if dead is not None:
            ledger.drop(dead)
        found.append(
            {
                "observation": observation,
                "tells": outgoing,
                "hears": {str(j): message for j, message in heard.items()},
                "dies": dead,
                "estimate": float(ledger.estimate[0]),
                "mean": float(ledger.mean[0]),
                "smooth": float(ledger.local("smooth")[0]),
                "edges": {str(j): ledger.flow(j).ravel().tolist() for j in (0, 2)},
                "degree": ledger.degree,
            }
        )
    return found


def closings() -> list[dict[str, Any]]:
    """How agent 1 closes its edges: what it hears between rounds, and what it holds and says then.

    Neighbor 0 ends its edge, and confirms; agent 1 ends that to 2, which ends it at another flow first, and then not.
    """
    ledger, found = make_ledger(), []
    ledger.begin(np.array([3.0]), 1.0)
    steps: list[tuple[int, int | None, list[float]]] = [
        (0, 5, [0.0, 1.25, 1.25]),
        (0, 7, [0.0, 1.25, 1.25]),
        (2, None, []),
        (2, 5, [0.0, 0.5, 0.5]),
        (2, 7, [0.0, 0.0, 0.0]),
        (0, 0, [1.0, 1.25, 1.25]),
    ]
    for t, (j, flags, values) in enumerate(steps):
        if flags is None:
            ledger.close(j)
        else:
            message = Outgoing(SERIALS[j] + t, 0, True, rows(*values), 2, flags)
            ledger.hear_closing(j, message)
        said = ledger.tell(j)
        found.append(
            {
                "neighbor": j,
                "hears": None if flags is None else {"closing": flags, "rows": values},
                "closing": said.closing,
                "edge": ledger.flow(j).ravel().tolist(),
            }
        )
    ledger.finish({})
    found.append(
        {
            "neighbor": 0,
            "hears": None,
            "closing": ledger.tell(0).closing,
            "edge": ledger.flow(0).ravel().tolist(),
        }
    )
    return found


def vectors() -> dict[str, Any]:
    own = settings()
    return {
        "greeting": {
            "fleet": "gossamer",
            "id": 7,
            "bytes": (b" ".join(secured.who_in(secured.greeting_of("gossamer", 7))) + b"\n").hex(),
        },
        "fingerprint": {
            "texts": [repr(getattr(own, name)) for name in AGREED[: len(own.fingerprint) // 2]],
            "bytes": own.fingerprint.hex(),
        },
        "messages": messages(),
        "refused": {"me": 1, "from": 0, "round": 7, "payloads": refused()},
        "closings": {"me": 1, "neighbors": [0, 2], "steps": closings()},
        "ledger": {"me": 1, "neighbors": [0, 2], "first_serial": SERIALS[1], "rounds": rounds()},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
