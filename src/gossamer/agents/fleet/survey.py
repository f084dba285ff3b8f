"""The state of a whole fleet: from status files on this machine, and from the /status of agents on other hosts."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from gossamer.agents.config.settings import check_endpoint
from gossamer.agents.config.tables import Member
from gossamer.agents.host.status import LONGEST, AgentStatus, Status, read_status
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.text import printable
from gossamer.errors import GossamerError

_AT_ONCE = 128
"""Agents that are asked at the same time."""

_IN_ALL = 5
"""All agents together are given this many times as long as one."""

SPEAKING = ("running", "degraded", "alone")
"""States of an agent whose status is current; if its status file is on this machine, no other source knows more."""

_NOTICE = 14 * 86400
"""Seconds before the expiry of a certificate from which a note says so."""


def survey(
    fleet: Fleet, directory: Path, addresses: Sequence[str] | None = None, *, timeout: float = 2.0
) -> list[AgentStatus]:
    """Return the state of every agent: from its status file if that is fresh, otherwise from its /status.

    `addresses`, "host:port", are asked instead of those in fleet.toml; the answers say which agents are there. An agent
    that does not answer properly within `timeout` seconds is "unreachable".
    """
    known = {status.member.name: status for status in read_status(fleet, directory)}
    if addresses is None:
        remote = [s.member for s in known.values() if s.member.metrics and s.state not in SPEAKING]
        answers = _ask_all(remote, timeout)
    else:
        for address in addresses:
            check_endpoint("metrics", address)
        listed = {member.metrics: member for member in fleet.agents}
        remote = [
            listed.get(address) or Member(id=-1, name=address, endpoint=address, metrics=address)
            for address in addresses
        ]
        by_name = {member.name: member for member in fleet.agents}
        answers = [
            replace(answer, member=by_name.get(answer.details.get("name", ""), answer.member))
            if answer.member.id < 0  # at an address that fleet.toml does not have
            else answer
            for answer in _ask_all(remote, timeout)
        ]
    for answer in answers:
        before = known.get(answer.member.name)
        # The status file of an agent that has ended says more than that there is no answer.
        if answer.state != "unreachable" or before is None or before.state == "unknown":
            known[answer.member.name] = answer
    return list(known.values())


# -- asking ------------------------------------------------------------------------------------------------


def ask(member: Member, timeout: float = 2.0) -> AgentStatus:
    """Return the state of one agent, from its /status; "unreachable", with the reason, if there is none in time."""
    return _ask_all([member], timeout)[0]


def _ask_all(members: Sequence[Member], timeout: float) -> list[AgentStatus]:
    """Ask agents, many at a time; each has `timeout` seconds in all, whatever it waits for."""
    answers: list[AgentStatus] = []
    last = time.monotonic() + _IN_ALL * timeout
    for start in range(0, len(members), _AT_ONCE):
        group, deadline = members[start : start + _AT_ONCE], time.monotonic() + timeout
        if deadline > last and start:
            answers += [
                _unreachable(m, "not asked, because too many did not answer") for m in members[start:]
            ]
            break
        waiting = [(member, _ask_in_thread(member, deadline)) for member in group]
        for member, queue in waiting:
            try:
                answers.append(queue.get(timeout=max(deadline - time.monotonic(), 0.0)))
            except Empty:
                answers.append(_unreachable(member, "timed out"))
    return answers


def _ask_in_thread(member: Member, deadline: float) -> SimpleQueue[AgentStatus]:
    """The queue for an agent's answer, from a thread that may outlast the deadline while it resolves a host name."""
    queue: SimpleQueue[AgentStatus] = SimpleQueue()
    thread = threading.Thread(target=lambda: queue.put(_ask(member, deadline)), name="survey", daemon=True)
    thread.start()
    return queue


def _ask(member: Member, deadline: float) -> AgentStatus:
    try:
        status, details = Status.parse(_get(member.metrics, deadline))
    except Exception as error:  # whatever it answers, the other agents must be seen
        return _unreachable(member, getattr(error, "strerror", None) or str(error) or type(error).__name__)
    details.pop("pid", None)  # means something only on its own host, as does its clock
    return AgentStatus.of(member, status, details | {"at": time.time()})


def _unreachable(member: Member, reason: str) -> AgentStatus:
    return AgentStatus(member, "unreachable", problem=printable(f"{member.metrics}: {reason}"))


def _get(address: str, deadline: float) -> bytes:
    """Return the body of /status at an address; redirects are not followed."""
    host, _, port = address.rpartition(":")
    content = bytearray()
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_left(deadline)) as connection:
        connection.sendall(f"GET /status HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
        while len(content) <= LONGEST:
            connection.settimeout(_left(deadline))
            if not (piece := connection.recv(1 << 16)):
                break
            content += piece
        else:
            raise GossamerError(f"the answer is longer than {LONGEST:,} bytes")
    head, _, body = content.partition(b"\r\n\r\n")
    version, _, answer = head.partition(b"\r\n")[0].partition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise GossamerError("it does not speak HTTP")
    if not answer.startswith(b"200"):
        raise GossamerError(f"it answers /status with {answer[:60].decode(errors='replace')}")
    return bytes(body)


def _left(deadline: float) -> float:
    if (seconds := deadline - time.monotonic()) <= 0:
        raise TimeoutError("timed out")
    return seconds


# -- summaries ---------------------------------------------------------------------------------------------


def summary(status: Sequence[AgentStatus]) -> dict[str, Any]:
    """Return the fleet in a few numbers: the agents by state, and how well those that run agree.

    The estimate of an agent that hears no neighbor counts only if no agent hears one.
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
    """Return whether an agent hears none of its neighbors, whatever its state."""
    neighbors = agent.details.get("neighbors", {})
    return agent.state == "alone" or (bool(neighbors) and not agent.details.get("neighbors_alive"))


def notes(status: Sequence[AgentStatus]) -> list[str]:
    """Notes for the operator: agents that follow different rosters, and certificates that expire soon."""
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
    texts = ["rosters differ: " + "; ".join(groups)] if len(groups) > 1 else []
    if soon:
        days = (min(agent.certificate_expires or 0.0 for agent in soon) - time.time()) / 86400
        texts.append(
            f"certificates expire in {max(days, 0):.0f} days or later: {_names(soon)}; run `gossamer fleet renew`"
        )
    return texts


def _names(agents: Sequence[AgentStatus]) -> str:
    return ", ".join(agent.member.name for agent in agents) if len(agents) <= 5 else f"{len(agents)} agents"
