"""A fleet on the screen: a table of its agents, or a line for logs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.cli.formatting import compact, small, vector

if TYPE_CHECKING:
    from gossamer.agents.host.status import AgentStatus

_COLORS = {"running": "green", "starting": "cyan", "stopped": "dim", "unknown": "dim"}
_SPEAKING = ("running", "degraded", "alone")
_NOTICE = 14 * 86400
"""Seconds before the end of a certificate from which on the table says so."""

_NO_TROUBLE = ("running", "starting", "stopped", "unknown")


def fleet_table(
    name: str, status: Sequence[AgentStatus], *, seconds: float | None = None, rows: int | None = None
) -> RenderableType:
    """The fleet's agents in a table of at most `rows` rows, those in trouble first if not all fit."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False
    )
    table.add_column("agent", overflow="ellipsis", max_width=16)  # the one to shrink if the screen is narrow
    for heading in ("rounds", "samples", "estimate", "± s.e.", "distance", "msgs", "lost"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    coefficients = _coefficients(status)
    shown = list(status)
    if rows is not None and coefficients:
        rows = max(rows - coefficients[-1].row_count - 3, 3)
    if rows is not None and len(shown) > max(rows, 1):
        ordered = sorted(shown, key=lambda agent: (agent.state in _NO_TROUBLE, agent.member.id))
        shown = ordered[: max(rows - 1, 1)]
    for agent in shown:
        table.add_row(
            Text(agent.member.name),
            compact(agent.rounds),
            compact(agent.samples),
            vector(agent.estimate),
            small(agent.standard_error[0] if agent.standard_error else None),
            small(agent.distance),
            compact(agent.sent + agent.received),
            _losses(agent),
            _state(agent),
        )
    parts: list[RenderableType] = [_heading(name, status, seconds), "", table]
    if len(shown) < len(status):
        parts.append(Text(f"... and {len(status) - len(shown)} more agents", style="dim"))
    parts += ["", *coefficients] if coefficients else []
    parts += [
        Text(f"{agent.member.name}: {agent.problem}", style="red", overflow="ellipsis", no_wrap=True)
        for agent in [agent for agent in status if agent.problem][:3]
    ]
    parts += [Text(note, style="yellow", overflow="ellipsis", no_wrap=True) for note in _notes(status)]
    return Group(*parts)


def _coefficients(status: Sequence[AgentStatus]) -> list[Table]:
    """The model that a fleet learns, as its first agent knows it, and how far the others are from that."""
    known = [agent for agent in status if agent.details.get("coefficients") and None not in agent.estimate]
    if not known:
        return []
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False
    )
    for heading in ("coefficient", "estimate", "± s.e.", "spread"):
        table.add_column(heading, justify="left" if heading == "coefficient" else "right", no_wrap=True)
    first = known[0]
    for k, name in enumerate(first.details["coefficients"]):
        values = [agent.estimate[k] for agent in known]
        spread = max(values) - min(values)  # type: ignore[type-var, operator]
        table.add_row(Text(name), vector([first.estimate[k]]), small(first.standard_error[k]), small(spread))
    return [table]


def _notes(status: Sequence[AgentStatus]) -> list[str]:
    """Who follows which roster, if not all follow the same; and whose certificate ends soon."""
    speaking = [agent for agent in status if agent.state in _SPEAKING]
    epochs = sorted({agent.epoch for agent in speaking}, reverse=True)
    groups = [
        f"epoch {epoch}: {_names([agent for agent in speaking if agent.epoch == epoch])}" for epoch in epochs
    ]
    soon = [
        agent
        for agent in speaking
        if agent.certificate_expires is not None and agent.certificate_expires - time.time() < _NOTICE
    ]
    notes = ["rosters differ: " + "; ".join(groups)] if len(groups) > 1 else []
    if soon:
        days = (min(agent.certificate_expires or 0.0 for agent in soon) - time.time()) / 86400
        notes.append(
            f"certificates end in {max(days, 0):.0f} days or later: {_names(soon)}; run `gossamer fleet renew`"
        )
    return notes


def _names(agents: Sequence[AgentStatus]) -> str:
    return ", ".join(agent.member.name for agent in agents) if len(agents) <= 5 else f"{len(agents)} agents"


def fleet_line(status: Sequence[AgentStatus], seconds: float) -> str:
    """The whole fleet in one line, where there is no terminal."""
    facts = summary(status)
    words = [f"{seconds:.0f}s", *(f"{count} {state}" for state, count in facts["states"].items())]
    words += [f"rounds {facts['rounds']}", f"samples {facts['samples']}", f"lost {facts['lost']}"]
    if facts["estimate"] is not None:
        words += [f"estimate {facts['estimate']:.6g}", f"spread {facts['spread']:.3g}"]
    problem = next((f"{agent.member.name}: {agent.problem}" for agent in status if agent.problem), "")
    return ", ".join(words) + (f" ({problem})" if problem else "")


def summary(status: Sequence[AgentStatus]) -> dict[str, Any]:
    """The fleet in a few numbers: how many in which state, and how well those that run agree."""
    states: dict[str, int] = {}
    for agent in status:
        states[agent.state] = states.get(agent.state, 0) + 1
    speaking = [agent for agent in status if agent.state in _SPEAKING] or status
    known = [agent.estimate[0] for agent in speaking if agent.estimate and agent.estimate[0] is not None]
    return {
        "states": states,
        "rounds": max((agent.rounds for agent in status), default=0),
        "samples": sum(agent.samples for agent in status),
        "lost": sum(agent.lost for agent in status),
        "estimate": math.fsum(known) / len(known) if known else None,
        "spread": max(known) - min(known) if known else None,
    }


def _heading(name: str, status: Sequence[AgentStatus], seconds: float | None) -> Text:
    facts = summary(status)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(name, style="bold")
    for state, count in facts["states"].items():
        text.append(f"  {count} {state}", style=_COLORS.get(state, "bold red"))
    if facts["estimate"] is not None:
        text.append(f"  estimate {vector((facts['estimate'],))}  spread {small(facts['spread'])}")
    if seconds is not None:
        text.append(f"  {seconds:.0f} s", style="dim")
    return text


def _state(agent: AgentStatus) -> Text:
    """The state; how often the agent was started again follows an arrow."""
    text = Text(agent.state, style=_COLORS.get(agent.state, "bold red"))
    return text.append(f" ↻{compact(agent.restarts)}", style="yellow") if agent.restarts else text


def _losses(agent: AgentStatus) -> Text:
    """Rounds without a neighbor's message; messages that were refused follow a plus sign."""
    text = Text(compact(agent.lost))
    if agent.rejected:
        text.append(f"+{compact(agent.rejected)}", style="red")
    return text
