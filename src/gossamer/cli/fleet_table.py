"""Show a fleet as a table of its agents, or as one line for logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.text import Text

from gossamer.cli.formatting import compact, small, vector
from gossamer.cli.tables import FittedTable

if TYPE_CHECKING:
    from gossamer.agents.host.status import AgentStatus

_COLORS = {"running": "green", "starting": "cyan", "stopped": "dim", "unknown": "dim"}
_NO_TROUBLE = ("running", "starting", "stopped", "unknown")


def fleet_table(
    name: str, status: Sequence[AgentStatus], *, seconds: float | None = None, rows: int | None = None
) -> RenderableType:
    """Return the fleet's agents in a table of at most `rows` rows, those in trouble first if not all fit."""
    from gossamer.agents.fleet.survey import notes

    coefficients = _coefficients(status)
    shown = list(status)
    if rows is not None and coefficients:
        rows = max(rows - len(coefficients[-1].rows) - 3, 3)
    if rows is not None and len(shown) > max(rows, 1):
        ordered = sorted(shown, key=lambda agent: (agent.state in _NO_TROUBLE, agent.member.id))
        shown = ordered[: max(rows - 1, 1)]
    headings = ("agent", "rounds", "samples", "estimate", "± s.e.", "state", "distance", "msgs", "lost")
    table = FittedTable(
        headings,
        [_row(agent) for agent in shown],
        [heading not in ("agent", "state") for heading in headings],
        box=box.SIMPLE_HEAD,
        most=None if rows is None else 1,  # where the table must fit on the screen
    )
    parts: list[RenderableType] = [_heading(name, status, seconds), "", table]
    if len(shown) < len(status):
        parts.append(Text(f"... and {len(status) - len(shown)} more agents", style="dim"))
    parts += ["", *coefficients] if coefficients else []
    cut = rows is not None
    parts += [
        Text(f"{agent.member.name}: {agent.problem}", style="red", overflow="ellipsis", no_wrap=cut)
        for agent in [agent for agent in status if agent.problem][:3]
    ]
    parts += [Text(note, style="yellow", overflow="ellipsis", no_wrap=cut) for note in notes(status)]
    return Group(*parts)


def _coefficients(status: Sequence[AgentStatus]) -> list[FittedTable]:
    """Return the model that a fleet learns, as estimated by its first agent, and how far the others differ."""
    models = [agent.details["coefficients"] for agent in status if agent.details.get("coefficients")]
    names: list[str] = models[0] if models else []
    known = [
        agent
        for agent in status
        if agent.details.get("coefficients") == names
        and len(agent.estimate) == len(agent.standard_error) == len(names)
        and None not in agent.estimate
    ]
    if not names or not known:
        return []
    first, rows = known[0], []
    for k, name in enumerate(names):
        values = [agent.estimate[k] for agent in known]
        spread = max(values) - min(values)  # type: ignore[type-var, operator]
        numbers = (vector([first.estimate[k]]), small(first.standard_error[k]), small(spread))
        rows.append([Text(name), *map(Text, numbers)])
    headings = ("coefficient", "estimate", "± s.e.", "spread")
    return [FittedTable(headings, rows, [False, True, True, True], box=box.SIMPLE_HEAD)]


def fleet_line(status: Sequence[AgentStatus], seconds: float) -> str:
    """Return the whole fleet in one line, for output that is not a terminal."""
    from gossamer.agents.fleet.survey import summary

    facts = summary(status)
    words = [f"{seconds:.0f}s", *(f"{count} {state}" for state, count in facts["states"].items())]
    words += [f"rounds {facts['rounds']}", f"samples {facts['samples']}", f"lost {facts['lost']}"]
    if facts["estimate"] is not None:
        words += [f"estimate {facts['estimate']:.6g}", f"spread {facts['spread']:.3g}"]
    problem = next((f"{agent.member.name}: {agent.problem}" for agent in status if agent.problem), "")
    return ", ".join(words) + (f" ({problem})" if problem else "")


def _heading(name: str, status: Sequence[AgentStatus], seconds: float | None) -> Text:
    from gossamer.agents.fleet.survey import summary

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


def _row(agent: AgentStatus) -> list[Text]:
    name = Text(agent.member.name)
    name.truncate(16, overflow="ellipsis")
    error = agent.standard_error[0] if agent.standard_error else None
    return [
        name,
        Text(compact(agent.rounds)),
        Text(compact(agent.samples)),
        Text(vector(agent.estimate)),
        Text(small(error)),
        _state(agent),
        Text(small(agent.distance)),
        Text(compact(agent.sent + agent.received)),
        _losses(agent),
    ]


def _state(agent: AgentStatus) -> Text:
    """Return the state, followed by an arrow and the number of restarts."""
    text = Text(agent.state, style=_COLORS.get(agent.state, "bold red"))
    return text.append(f" ↻{compact(agent.restarts)}", style="yellow") if agent.restarts else text


def _losses(agent: AgentStatus) -> Text:
    """Return the rounds without a neighbor's message, followed by a plus sign and the number of refused messages."""
    text = Text(compact(agent.lost))
    if agent.rejected:
        text.append(f"+{compact(agent.rejected)}", style="red")
    return text
