"""Writes `protocol-vectors.json`, what docs/protocol.md says in bytes and numbers, from the package itself.

python -m tests.support.protocol_vectors
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gossamer.agents.config.members import Edge, Left, RosterMember
from gossamer.agents.config.settings import AGREED, AgentSettings, Limits, Neighbor
from gossamer.agents.membership.roster import Roster
from gossamer.agents.rewiring import HELD, Rewiring
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.messages import Outgoing
from gossamer.agents.round.wire import Codec
from gossamer.agents.transports import secured
from gossamer.facts import UnknownFacts
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.ledger import ledger_program

FILE = Path(__file__).with_name("protocol-vectors.json")
SERIALS = {0: 5_000, 1: 1_000, 2: 9_000}
METHOD = AnytimeSDA("local-heavy-ball")


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
        {
            "round": 9,
            "serial": 1009,
            "echo": 5008,
            "settled": True,
            "degree": 2,
            "rows": [2.5, 0.125, -0.25],
            "precision": "single",
        },
    )
    found = []
    for each in fields:
        content = each["serial"], each["echo"], each["settled"], rows(*each["rows"]), each["degree"]
        out = Outgoing(*content, each.get("closing", 0))
        writer = codec()
        writer.single = 1e38 * ("precision" in each)
        found.append({"sender": 1, **each, "bytes": writer.encode(each["round"], out).hex()})
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
        outgoing = {str(j): _told(out) for j, out in told.items()}
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


NAMES = {0: "pump", 1: "valve", 2: "tank", 3: "press@2", 4: "mixer@4"}


def histories() -> list[dict[str, Any]]:
    """Agents through changes of the roster, losses and restarts: what is given in each step, and the state after it."""

    def heard(serial: int, echo: int, *values: float, settled: bool = True) -> dict[str, Any]:
        return {"serial": serial, "echo": echo, "settled": settled, "degree": 2, "rows": list(values)}

    def rewired(
        weights: dict[int, float], *kept: int, gone: tuple[int, ...] = (), reset: int = 0
    ) -> dict[str, Any]:
        names = [[j, name] for j, name in NAMES.items() if j not in (*gone, *kept)]
        return {
            "weights": [[j, w] for j, w in weights.items()],
            "kept": list(kept),
            "names": names,
            "reset": reset,
        }

    steps: list[dict[str, Any]] = [
        {
            "observation": 3.0,
            "hears": {0: heard(5000, 0, 1.0, 0.0, 0.0, settled=False), 2: heard(9000, 0, 8.0, 0.0, 0.0)},
        },
        {
            "observation": 5.0,
            "hears": {0: heard(5001, 1000, 1.5, 0.5, 0.4), 2: heard(9001, 1000, 7.0, -0.75, -0.7)},
        },
        {
            "rewire": rewired({0: 0.0, 3: 0.0}, gone=(2,))
        },  # 2 is removed, without its data; 3 is a new neighbor
        {
            "observation": None,
            "hears": {0: heard(5002, 1001, 2.0, 0.6, 0.5), 3: heard(70, 0, 4.0, 0.0, 0.0, settled=False)},
        },
        {
            "observation": 4.0,
            "hears": {0: heard(5003, 1002, 2.5, 0.7, 0.6), 3: heard(71, 1002, 4.5, 0.0, 0.0)},
        },
        {"rewire": rewired({3: 0.0, 4: 0.125}, 0, gone=(2,))},  # 0 is removed, and its data stay
        {"observation": 4.0, "hears": {3: heard(72, 1003, 4.5, 0.25, 0.2)}},
        {"park": 3, "rewire": rewired({4: 0.125}, 0, gone=(2,))},  # both ends hold the flow of the edge to 3
        {"observation": 2.0, "hears": {4: heard(33, 1004, 6.0, 0.0, 0.0)}},
        {"rewire": rewired({3: 0.0, 4: 0.125}, 0, gone=(2,))},  # linked again
        {
            "observation": None,
            "hears": {3: heard(90, 0, 4.0, -0.5, -0.5), 4: heard(34, 1006, 5.5, -0.25, -0.25)},
        },
        {"restart": 2_000_000},
        {
            "observation": 1.0,
            "hears": {3: heard(91, 1006, 4.0, 0.5, 0.5), 4: heard(35, 2_000_000, 5.0, 0.0, 0.125)},
        },
        {"observation": 1.0, "hears": {3: heard(92, 2_000_001, 4.0, 0.5, 0.5)}},
        {"rewire": rewired({3: 0.0, 4: 0.125}, 0, gone=(2,), reset=7)},  # all flows are set to zero
        {
            "observation": 1.0,
            "hears": {3: heard(93, 0, 4.0, 0.0, 0.0, settled=False), 4: heard(37, 0, 5.0, 0.0, 0.0)},
        },
    ]
    # The step of the heavy ball from the 21st round on, and the careful one after a missed message and a restart.
    steady: list[dict[str, Any]] = [
        {
            "observation": 3.0,
            "hears": {2: heard(9000 + t, 999 + t if t else 0, 5.0, 0.0, 0.0, settled=t > 0)},
        }
        for t in range(23)
    ]
    steady += [
        {"observation": 3.0, "hears": {}},
        {"observation": 3.0, "hears": {2: heard(9024, 1023, 4.0, 0.0, 0.0)}},
        {"restart": 2_000_000},
        {"observation": 3.0, "hears": {2: heard(9025, 1024, 4.0, -1.75, -1.75)}},
        {"observation": 3.0, "hears": {2: heard(9026, 2_000_000, 4.0, -1.75, -1.75)}},
    ]
    return [_history({0: 0.0, 2: 0.25}, steps), _history({2: 0.0}, steady)]


def _history(weights: dict[int, float], steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "me": 1,
        "weights": [[j, w] for j, w in weights.items()],
        "first_serial": 1000,
        "names": list(map(list, NAMES.items())),
        "steps": _play(weights, steps),
    }


def _play(weights: dict[int, float], steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps, each with the state of agent 1 after it."""
    program = ledger_program(METHOD, UnknownFacts())
    names, reset = NAMES, 0
    ledger, played = Ledger(program, 1, weights, serial=1000, names=NAMES), []
    for step in steps:
        tells = {}
        if (j := step.get("park")) is not None:
            ledger.close(j)
            ledger.park(j, NAMES[1], NAMES[j])
        if (change := step.get("rewire")) is not None:
            weights, names, reset = dict(change["weights"]), dict(change["names"]), change["reset"]
            ledger.rewire(weights, change["kept"], None, names, reset)
        if serial := step.get("restart"):
            ledger = Ledger(
                program, 1, weights, serial=serial, names=names, reset=reset, restored=ledger.remember()
            )
        if "hears" in step:
            seen = step["observation"]
            ledger.begin(np.array([seen or 0.0]), 0.0 if seen is None else 1.0)
            tells = {str(j): _told(ledger.tell(j)) for j in weights}
            ledger.finish(
                {
                    j: Outgoing(m["serial"], m["echo"], m["settled"], rows(*m["rows"]), m["degree"])
                    for j, m in step["hears"].items()
                }
            )
        state = {
            "tells": tells,
            "edges": {str(j): ledger.flow(j).ravel().tolist() for j in weights},
            "estimate": float(ledger.estimate[0]),
            "returning": float(ledger.returning[0]),
            "degree": ledger.degree,
        }
        played.append(step | {"state": state})
    return played


def _told(out: Outgoing) -> dict[str, Any]:
    values = list(struct.unpack("<3d", out.rows))
    return {
        "serial": out.serial,
        "echo": out.echo,
        "settled": out.settled,
        "degree": out.degree,
        "rows": values,
    }


AUTHORITY = ec.derive_private_key(27, ec.SECP256R1())
_MAGIC = b"gossamer roster 1\n"


def _members(*ids: int) -> tuple[RosterMember, ...]:
    return tuple(
        RosterMember(
            id=j,
            name=NAMES[j].partition("@")[0],
            endpoint=f"10.0.0.{j}:7447" if j else "[fd00::1]:7447",
            common_name=NAMES[j] if "@" in NAMES[j] else "",
        )
        for j in ids
    )


def rosters() -> dict[str, Any]:
    """Signed rosters, and some that are refused. A signature of the file stays as long as it is valid."""
    first = Roster(fleet="plant", epoch=1, members=_members(0, 1, 2), edges=(Edge(0, 1), Edge(2, 1, 0.25)))
    second = Roster(
        fleet="plant",
        epoch=3,
        members=_members(0, 1, 3),
        edges=(Edge(0, 1), Edge(1, 3)),
        left=(Left(id=2, name="tank", keep=True, epoch=3, heirs=(0, 1)),),
        reset=2,
    )
    bodies = [msgspec.json.encode(roster.canonical()) for roster in (first, second)]
    before = json.loads(FILE.read_text()).get("rosters", {}).get("signed", []) if FILE.exists() else []
    known = [bytes.fromhex(each["bytes"]) for each in before]
    good, grown = (_signed(body, known) for body in bodies)
    other = _signed(bodies[0].replace(b"plant", b"other"), known)
    changed = good.replace(b'"epoch":1', b'"epoch":9')
    signed = [
        ("", good),
        ("", grown),
        ("another signature", changed),
        ("truncated", good[:-1]),
        ("another fleet", other),
    ]
    public = AUTHORITY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return {
        "authority": public.decode(),
        "fleet": "plant",
        "bodies": [body.decode() for body in bodies],
        "signed": [{"bytes": data.hex(), "refused": why} for why, data in signed],
    }


def _signed(body: bytes, known: Iterable[bytes]) -> bytes:
    for data in known:
        size = int.from_bytes(data[len(_MAGIC) : len(_MAGIC) + 2])
        start = len(_MAGIC) + 6
        try:
            AUTHORITY.public_key().verify(
                data[start : start + size], _MAGIC + body, ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature:
            continue
        if data[start + size :] == body:
            return data
    signature = AUTHORITY.sign(_MAGIC + body, ec.ECDSA(hashes.SHA256()))
    return _MAGIC + struct.pack(">HI", len(signature), len(body)) + signature + body


def asks() -> list[dict[str, str]]:
    """Questions on a connection of their own, as they are sent, and their answers as they come back."""
    ledger = make_ledger()
    ledger.begin(np.array([3.0]), 1.0)
    ledger.hear_closing(0, Outgoing(SERIALS[0], 0, True, rows(0.0, 1.25, 1.25), 2, 5))
    ledger.park(0, "valve", "pump")
    ledger.rewire({2: 0.0})
    own: Any = SimpleNamespace(neighbors=(Neighbor(2),), epoch=2)
    nothing: Any = None
    changes = Rewiring(own, ledger, nothing, nothing, nothing)
    roster = bytes.fromhex(rosters()["signed"][1]["bytes"])
    greeting = b" ".join(secured.who_in(secured.greeting_of("plant", secured.ASKS))) + b"\n"
    questions = [
        ("the roster", b"", roster),
        ("the flow of an edge that ended", HELD, changes.held(0)),
        ("the flow of an edge of which nothing is kept", HELD, changes.held(3)),
        ("the flow of an edge that is not decided, or is there", HELD, changes.held(2)),
    ]
    return [
        {
            "what": what,
            "sent": (greeting + struct.pack("<I", len(question)) + question).hex(),
            "answered": (struct.pack("<I", len(answer)) + answer).hex(),
        }
        for what, question, answer in questions
    ]


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
        "rosters": rosters(),
        "asks": asks(),
        "histories": histories(),
        "ledger": {"me": 1, "neighbors": [0, 2], "first_serial": SERIALS[1], "rounds": rounds()},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
