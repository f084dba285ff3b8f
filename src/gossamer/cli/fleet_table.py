"""A fleet on the screen: a table of its agents, or a line for logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gossamer.cli.formatting import compact, small, vector

if TYPE_CHECKING:
    from gossamer.agents.host.status import AgentStatus

_COLORS = {"running": "green", "starting": "cyan", "stopped": "dim", "unknown": "dim"}
_NO_TROUBLE = ("running", "starting", "stopped", "unknown")


def fleet_table(
    name: str, status: Sequence[AgentStatus], *, seconds: float | None = None, rows: int | None = None
) -> RenderableType:
    """The fleet's agents in a table of at most `rows` rows, those in trouble first if not all fit."""
    from gossamer.agents.fleet.survey import notes

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
    cut = rows is not None  # where the table must fit on the screen
    parts += [
        Text(f"{agent.member.name}: {agent.problem}", style="red", overflow="ellipsis", no_wrap=cut)
        for agent in [agent for agent in status if agent.problem][:3]
    ]
    parts += [Text(note, style="yellow", overflow="ellipsis", no_wrap=cut) for note in notes(status)]
    return Group(*parts)


def _coefficients(status: Sequence[AgentStatus]) -> list[Table]:
    """The model that a fleet learns, as its first agent knows it, and how far the others are from that."""
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
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False
    )
    for heading in ("coefficient", "estimate", "± s.e.", "spread"):
        table.add_column(heading, justify="left" if heading == "coefficient" else "right", no_wrap=True)
    first = known[0]
    for k, name in enumerate(names):
        values = [agent.estimate[k] for agent in known]
        spread = max(values) - min(values)  # type: ignore[type-var, operator]
        table.add_row(Text(name), vector([first.estimate[k]]), small(first.standard_error[k]), small(spread))
    return [table]


def fleet_line(status: Sequence[AgentStatus], seconds: float) -> str:
    """The whole fleet in one line, where there is no terminal."""
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
