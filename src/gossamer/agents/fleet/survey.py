"""The state of a whole fleet, whatever hosts its agents are on: from status files here, and from metrics elsewhere."""

from __future__ import annotations

import math
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

from gossamer.agents.config.settings import check_endpoint
from gossamer.agents.config.tables import Member
from gossamer.agents.host.metrics import status_of
from gossamer.agents.host.status import AgentStatus, read_status
from gossamer.agents.membership.fleet import Fleet
from gossamer.errors import GossamerError

_AT_ONCE = 32
_LONGEST = 4_000_000
"""Bytes of metrics that are read; an agent with a thousand neighbors has a tenth of it."""

SPEAKING = ("running", "degraded", "alone")
"""States of an agent that says now what it knows; nobody knows more of one whose status file is here."""

_NOTICE = 14 * 86400
"""Seconds before the end of a certificate from which on a note says so."""


def survey(
    fleet: Fleet, directory: Path, places: Sequence[str] | None = None, *, timeout: float = 2.0
) -> list[AgentStatus]:
    """The state of every agent: from its status file if that is fresh, otherwise from its metrics.

    `places` are addresses, "host:port", to ask instead of those in fleet.toml; who is there is seen from the answer.
    An agent that does not answer within `timeout` seconds is "unreachable".
    """
    found = {status.member.name: status for status in read_status(fleet, directory)}
    if places is None:
        away = [s.member for s in found.values() if s.member.metrics and s.state not in SPEAKING]
        asking = partial(ask, timeout=timeout)
    else:
        for place in places:
            check_endpoint("metrics", place)
        known = {member.metrics: member for member in fleet.agents}
        away = [
            known.get(place) or Member(id=-1, name=place, endpoint=place, metrics=place) for place in places
        ]
        asking = partial(_ask_whoever, fleet, timeout)
    with ThreadPoolExecutor(max(min(len(away), _AT_ONCE), 1)) as pool:
        answers = list(pool.map(asking, away))
    for answer in answers:
        before = found.get(answer.member.name)
        # What a file says of an agent that ended here says more than that nobody answers.
        if answer.state != "unreachable" or before is None or before.state == "unknown":
            found[answer.member.name] = answer
    return list(found.values())


def ask(member: Member, timeout: float = 2.0) -> AgentStatus:
    """The state of one agent, as its metrics say."""
    try:
        return status_of(member, _metrics(member.metrics, timeout))
    except (GossamerError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return AgentStatus(member, "unreachable", problem=f"{member.metrics}: {text}")


def _ask_whoever(fleet: Fleet, timeout: float, member: Member) -> AgentStatus:
    """The state of the member of the fleet that answers in the place of `member`."""
    answer = ask(member, timeout)
    name = answer.details.get("name", member.name)
    return replace(answer, member=next((m for m in fleet.agents if m.name == name), member))


def _metrics(place: str, timeout: float) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + timeout
    content = bytearray()
    with opener.open(f"http://{place}/metrics", timeout=timeout) as answer:
        while (piece := answer.read1()) and len(content) < _LONGEST:
            content += piece
            if time.monotonic() > deadline:
                raise TimeoutError("timed out")
    return content.decode(errors="replace")


# -- in a few words ----------------------------------------------------------------------------------------


def summary(status: Sequence[AgentStatus]) -> dict[str, Any]:
    """The fleet in a few numbers: how many in which state, and how well those that run agree.

    An agent that is alone knows only itself, so its estimate is not that of the fleet, unless all are alone.
    """
    states: dict[str, int] = {}
    for agent in status:
        states[agent.state] = states.get(agent.state, 0) + 1
    speaking = [agent for agent in status if agent.state in SPEAKING] or status
    speaking = [agent for agent in speaking if not is_alone(agent)] or speaking
    known = [agent.estimate[0] for agent in speaking if agent.estimate and agent.estimate[0] is not None]
    return {
        "states": states,
        "rounds": max((agent.rounds for agent in status), default=0),
        "samples": sum(agent.samples for agent in status),
        "lost": sum(agent.lost for agent in status),
        "estimate": math.fsum(known) / len(known) if known else None,
        "spread": max(known) - min(known) if known else None,
    }


def is_alone(agent: AgentStatus) -> bool:
    """Whether an agent hears none of its neighbors, whatever else is wrong with it."""
    neighbors = agent.details.get("neighbors", {})
    return agent.state == "alone" or (bool(neighbors) and not agent.details.get("neighbors_alive"))


def notes(status: Sequence[AgentStatus]) -> list[str]:
    """Who follows which roster, if not all follow the same; and whose certificate ends soon."""
    speaking = [agent for agent in status if agent.state in SPEAKING]
    epochs = sorted({agent.epoch for agent in speaking}, reverse=True)
    groups = [
        f"epoch {epoch}: {_names([agent for agent in speaking if agent.epoch == epoch])}" for epoch in epochs
    ]
    soon = [
        agent
        for agent in speaking
        if agent.certificate_expires is not None and agent.certificate_expires - time.time() < _NOTICE
    ]
    found = ["rosters differ: " + "; ".join(groups)] if len(groups) > 1 else []
    if soon:
        days = (min(agent.certificate_expires or 0.0 for agent in soon) - time.time()) / 86400
        found.append(
            f"certificates end in {max(days, 0):.0f} days or later: {_names(soon)}; run `gossamer fleet renew`"
        )
    return found


def _names(agents: Sequence[AgentStatus]) -> str:
    return ", ".join(agent.member.name for agent in agents) if len(agents) <= 5 else f"{len(agents)} agents"
