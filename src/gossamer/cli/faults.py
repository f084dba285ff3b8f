"""Faults on the command line: a flag for each kind, whose text the kind itself reads (`faults/kinds.py`).

--loss 0.3 --burst 10,0.17 --delay 2,0.1
--loss 0.3@200-1200,0.5@1200-
--crash 17@500 --restart 17@800 --join 5@100 --partition 0-49@200-1200

Agents are numbers or, where the network gives them names, names (`--crash oslo@500`); a partition takes numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import gossamer as gs
from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    from gossamer.agents.membership.fleet import Fleet


def parse_faults(*, names: Sequence[Hashable] = (), **flags: str | Iterable[str] | None) -> gs.faults.Faults:
    """The faults that the flags describe, by kind; `names` are the agents' names, in order."""
    items = []
    for kind, given in flags.items():
        texts = (
            [] if given is None else given.split(",") if kind == "loss" and isinstance(given, str) else given
        )
        items += [_parse(kind, text, names) for text in ([texts] if isinstance(texts, str) else texts)]
    return gs.faults.Faults(*gs.faults.in_order(items))


def _parse(kind: str, text: str, names: Sequence[Hashable]) -> gs.faults.Fault:
    """Read one fault; a complaint begins with the flag that gave its text."""
    try:
        return gs.faults.parse(f"{kind}={text}", names)
    except InvalidInput as error:
        if error.parameter != kind:
            raise error.inside(f"--{kind}") from None
        error.parameter = f"--{kind}"
        raise


def flags_of(given: gs.faults.FaultsLike) -> list[str]:
    """The flags that describe these faults: what `parse_faults` reads."""
    faults = gs.faults.Faults.of(given)
    losses = [fault.text for fault in faults.items if fault.kind == "loss"]
    words = ["--loss", ",".join(losses)] if losses else []
    for fault in faults.items:
        words += [] if fault.kind == "loss" else [f"--{fault.kind}", fault.text]
    return words


def agent_faults(fleet: Fleet, **flags: str | Iterable[str] | None) -> tuple[str, ...]:
    """The texts of the faults to inject into what the agents of a deployed fleet send."""
    import numpy as np

    faults = parse_faults(names=(), **flags)
    ids = 1 + max(member.id for member in fleet.agents)  # which may have gaps
    faults.check(ids, np.array([edge.pair for edge in fleet.edges]))
    return tuple(map(str, faults.items))
