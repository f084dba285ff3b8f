"""Faults in the words of the command line.

--loss 0.3 --burst 10,0.17 --delay 2,0.1
--loss 0.3@200-1200,0.5@1200-
--crash 17@500 --restart 17@800 --join 5@100 --partition 0-49@200-1200

Agents are numbers or, where the network gives them names, names (`--crash oslo@500`); a partition takes numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gossamer as gs
from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    from gossamer.agents.fleet.file import Fleet


def _naming_flag(option: str, parse: Callable[[str], gs.faults.Fault], text: str) -> gs.faults.Fault:
    """Let a complaint about a fault's numbers begin with the flag that gave them."""
    try:
        return parse(text)
    except InvalidInput as error:
        said = str(error)
        raise InvalidInput(said if said.startswith(option) else f"{option}: {said}") from None


def parse_loss(text: str) -> gs.faults.Loss:
    """`0.3`, or `0.3@200-1200` for some rounds, or `0.3@200-` from one on"""
    form = "PROBABILITY[@START-STOP], for example 0.3 or 0.3@200-1200"
    matched = re.fullmatch(r"([^@]*)(?:@(\d+)-(\d*))?", text.strip())
    if matched is None:
        raise _misread("--loss", text, form)
    (probability,) = _numbers("--loss", matched[1], form, 1)
    return gs.faults.Loss(probability, int(matched[2] or 0), int(matched[3]) if matched[3] else None)


def parse_bursts(text: str) -> gs.faults.Bursts:
    """`10,0.17` or, with both directions of a link bad together, `10,0.17,both`"""
    numbers, _, both = text.rpartition(",") if text.endswith(",both") else (text, "", "")
    length, fraction = _numbers("--burst", numbers, "MEAN_LENGTH,FRACTION[,both], for example 10,0.17", 2)
    return gs.faults.Bursts(length, fraction, both=bool(both))


def parse_delay(text: str) -> gs.faults.Delay:
    """`2,0.1`"""
    rounds, probability = _numbers("--delay", text, "ROUNDS,PROBABILITY, for example 2,0.1", 2)
    return gs.faults.Delay(int(rounds) if rounds.is_integer() else rounds, probability)  # type: ignore[arg-type]


def parse_crash(text: str, names: Sequence[Hashable] = ()) -> gs.faults.Crash:
    """`17@500`"""
    return gs.faults.Crash(*_agent_and_round("--crash", text, names))


def parse_restart(text: str, names: Sequence[Hashable] = ()) -> gs.faults.Restart:
    """`17@800`"""
    return gs.faults.Restart(*_agent_and_round("--restart", text, names))


def parse_join(text: str, names: Sequence[Hashable] = ()) -> gs.faults.Join:
    """`5@100`"""
    return gs.faults.Join(*_agent_and_round("--join", text, names))


def parse_partition(text: str) -> gs.faults.Partition:
    """`0-49@200-1200`, groups separated by `/`; `3:4@200-1200` cuts an edge; `0-49@200-` never heals"""
    agents = r"\d+(?:-\d+)?(?:[,/]\d+(?:-\d+)?)*"
    edges = r"\d+:\d+(?:,\d+:\d+)*"
    matched = re.fullmatch(rf"({agents}|{edges})@(\d+)-(\d*)", text.strip())
    if matched is None:
        raise _misread(
            "--partition",
            text,
            "AGENTS@START-STOP, for example 0-49@200-1200 or 0-9,20/10-19@200- or (edges) 3:4,4:5@0-100",
        )
    who, start, stop = matched.groups()
    span = int(start), int(stop) if stop else None
    if ":" in who:
        pairs = [pair.split(":") for pair in who.split(",")]
        return gs.faults.Partition((), *span, edges=[(int(a), int(b)) for a, b in pairs])
    return gs.faults.Partition([_agents(group) for group in who.split("/")], *span)


def parse_faults(
    *,
    loss: str | None = None,
    burst: str | None = None,
    delay: str | None = None,
    crash: Iterable[str] = (),
    restart: Iterable[str] = (),
    join: Iterable[str] = (),
    partition: Iterable[str] = (),
    names: Sequence[Hashable] = (),
) -> gs.faults.Faults:
    """The faults that the options describe; `names` are the agents' names, in order."""
    losses = [] if loss is None else loss.split(",")
    # A random fault's place decides its random numbers: a later loss must not change those of the rounds before it.
    given: list[tuple[str, Iterable[str], Callable[[str], gs.faults.Fault]]] = [
        ("--loss", losses[:1], parse_loss),
        ("--burst", [] if burst is None else [burst], parse_bursts),
        ("--delay", [] if delay is None else [delay], parse_delay),
        ("--loss", losses[1:], parse_loss),
        ("--crash", crash, partial(parse_crash, names=names)),
        ("--restart", restart, partial(parse_restart, names=names)),
        ("--join", join, partial(parse_join, names=names)),
        ("--partition", partition, parse_partition),
    ]
    items = [_naming_flag(option, parse, text) for option, texts, parse in given for text in texts]
    return gs.faults.Faults(*items)


def agent_faults(
    fleet: Fleet, loss: str | None, burst: str | None, delay: str | None, partition: Iterable[str] | None
) -> dict[str, Any]:
    """The faults to inject into a deployed fleet, as options of its agents (`agents.host.options.Options`)."""
    import numpy as np

    faults = parse_faults(loss=loss, burst=burst, delay=delay, partition=partition or ())
    ids = 1 + max(member.id for member in fleet.agents)  # which may have gaps
    faults.check(ids, np.array([edge.pair for edge in fleet.edges]))
    if sum(isinstance(fault, gs.faults.Loss) for fault in faults.items) > 1:
        raise InvalidInput(f"--loss takes one probability for a fleet, got {loss!r}")
    kinds = {gs.faults.Loss: "loss", gs.faults.Bursts: "burst", gs.faults.Delay: "delay"}
    return {
        "partition": faults.partitions,
        **{kinds[type(fault)]: fault for fault in faults.items if type(fault) in kinds},
    }


def _misread(option: str, text: str, form: str) -> InvalidInput:
    return InvalidInput(f"{option} takes {form}, got {text!r}")


def _numbers(option: str, text: str, form: str, count: int) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise _misread(option, text, form) from None
    if len(numbers) != count:
        raise _misread(option, text, form)
    return numbers


def _agent_and_round(option: str, text: str, names: Sequence[Hashable]) -> tuple[int, int]:
    who, _, when = text.strip().rpartition("@")
    known = [str(name) for name in names]
    if when.isdecimal() and who in known:
        return known.index(who), int(when)
    if not (when.isdecimal() and who.isdecimal()):
        form = "AGENT@ROUND, for example 17@500"
        raise _misread(
            option, text, f"{form} or {known[-1]}@500" if known and not known[-1].isdecimal() else form
        )
    return int(who), int(when)


def _agents(text: str) -> list[int]:
    """`0-9,20` as numbers."""
    agents: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise InvalidInput(f"--partition takes agents in ascending order, got {part!r}")
        agents += range(int(first), int(last or first) + 1)
    return agents
