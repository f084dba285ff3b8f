"""What is true of the fleet after the chaos, and the table that says so."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.chaos.members import ChaosMember
from tests.chaos.troubles import Troubles

from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.store import maintenance

TOLERANCE = 1e-3
"""Of estimates, whose means are between 1 and 9; a quiet minute brings a fleet much closer."""

WORST = 0.5
"""How far an estimate may leave the range of the observations on the way, as a multiple of its width. A liar can
move estimates within the range of the fleet, and no further; without a range nothing bounds it, so there is none."""

MASKS = 10.0
"""How much further, as a multiple of the masks: while an agent without a store has no masks, those of its neighbors are
in the average."""

MEMORY = 100.0
GROWTH = 24.0
"""Megabytes that an agent may have, and by how many it may have grown since it was warm: a crowd in the middle of its
handshakes takes up to 18, once, and the allocator keeps them."""

GUIDE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"


Suspects = dict[str, dict[str, Any]]
"""What each neighbor of the liar thinks of it."""


@dataclass
class Verdict:
    """The rows of the report, what failed, and all that happened."""

    title: str
    rows: list[tuple[str, str]]
    entries: list[str]
    failures: list[str] = field(default_factory=list)

    def check(self, what: str, found: str, ok: bool) -> None:
        self.rows.append((what, found if ok else f"**{found}**"))
        if not ok:
            self.failures.append(f"FAILED {what}: {found}")


def judge(
    members: list[ChaosMember],
    troubles: Troubles,
    fleet: Fleet,
    liar: int | None,
    suspects: Suspects,
    minutes: float,
    reached: float | None,
) -> Verdict:
    """Compare what the agents say with what they were given."""
    name = "" if liar is None else fleet.agents[liar].name
    size = f"{len(fleet.agents)} agents, {fleet.network}, {len(fleet.edges)} edges"
    bounds = "with" if fleet.observations.range else "without"
    lies = "without a liar" if liar is None else "with a liar"
    mask = float(np.max(fleet.privacy.mask))
    masked = f", masks of {mask:g}" if mask else ""
    title = f"{size}, TLS, stores, {bounds} a range{masked}, {lies}, 20% loss, {minutes:g} minutes"
    verdict = Verdict(title, _done(troubles, minutes), troubles.entries)
    statuses = {member.name: member.status() for member in members}
    for member in members:
        member.settle()
    right = float(np.mean([member.average for member in members]))
    worst, off = farthest(members)
    when = "never" if reached is None else f"after {reached:.0f} s of quiet"
    verdict.check(
        "every member is at the members' average",
        f"average {right:.6f}: all within {TOLERANCE:g} {when}; in the end the farthest, {worst}, is off by {off:.1g}",
        off < TOLERANCE,
    )
    low, high = min(member.low for member in members), max(member.high for member in members)
    told = [extreme for member in members for extreme in member.told]
    beyond = max(low - min(told), max(told) - high, 0.0) / (high - low)
    possible = fleet.observations.range or (-np.inf, np.inf)
    bounded = liar is not None and possible[0] <= min(told) and max(told) <= possible[1]
    verdict.check(
        "the worst estimate on the way",
        f"{min(told):.2f} to {max(told):.2f}; observations {low:g} to {high:g}: {beyond:.2f} of their width beyond",
        beyond <= WORST + MASKS * mask / (high - low) or bounded,
    )
    followers = [member for member in members if member.file is not None]
    missing = uneven(members)
    verdict.check(
        "members that follow a file have used every row once",
        ", ".join(missing) or f"{sum(m.rows for m in followers)} rows, {len(followers)} members",
        not missing,
    )
    complaints = [f"{m.name}: {text}" for m in members for text in m.complaints]
    restarts = sum(member.restarts for member in members)
    verdict.check(
        "no restart lost what was acknowledged",
        "; ".join(complaints[:5]) or f"{restarts} restarts",
        not complaints,
    )
    unwell = [
        f"{n} {s.get('state')} ({s.get('problem')})"
        for n, s in statuses.items()
        if s.get("state") != "running" and not _only_quarantine(s, name)
    ]
    verdict.check(
        "every member is running", "; ".join(unwell) or f"{len(members)} of {len(members)}", not unwell
    )
    heavy = max(members, key=lambda member: member.megabytes)
    grown = max(members, key=lambda member: member.growth)
    verdict.check(
        "no agent's memory grew",
        f"at most {heavy.megabytes:.0f} MB; by at most {grown.growth:.1f} MB since it was warm",
        0.0 < heavy.megabytes < MEMORY and grown.growth < GROWTH,
    )
    if mask:
        torn = differing(members, fleet)
        verdict.check(
            "both ends of every edge have the same mask",
            ", ".join(torn) or f"{len(fleet.edges)} edges",
            not torn,
        )
    if liar is None or not fleet.observations.range:
        return verdict
    states = [f"{n} {about['state']} {_refused(about['rejected'])}" for n, about in suspects.items()]
    quarantined = bool(suspects) and all(about["state"] == "quarantined" for about in suspects.values())
    verdict.check("the liar's neighbors quarantined it", "; ".join(states), quarantined)
    return verdict


def farthest(members: list[ChaosMember]) -> tuple[str, float]:
    """The member whose estimate is farthest from the members' average, and by how much."""
    right = float(np.mean([member.average for member in members]))
    found = {member.name: member.status().get("estimate") for member in members}
    off = {name: np.inf if estimate is None else abs(estimate - right) for name, estimate in found.items()}
    worst = max(off, key=lambda name: off[name])
    return worst, float(off[worst])


def differing(members: list[ChaosMember], fleet: Fleet) -> list[str]:
    """The edges whose ends have not stored the same mask."""
    records = {member.id: maintenance.check(member.store) for member in members}
    masks = {i: {j: record.array(mask) for j, mask in record.masks.items()} for i, record in records.items()}
    return [
        f"{i}-{j}"
        for i, j in ((edge.a, edge.b) for edge in fleet.edges)
        if j not in masks[i] or i not in masks[j] or not np.array_equal(masks[i][j], -masks[j][i])
    ]


def uneven(members: list[ChaosMember]) -> list[str]:
    """The members that follow a file and have not used and acknowledged every row of it once."""
    known = [(member, member.status()) for member in members if member.file is not None]
    return [
        f"{m.name} {now.get('samples')} of {m.rows}"
        for m, now in known
        if not now.get("samples") == now.get("acknowledged") == m.rows
    ]


def _done(troubles: Troubles, minutes: float) -> list[tuple[str, str]]:
    """What was done to the fleet, most often first."""
    done = {
        what: "once" if count == 1 else f"{count} times"
        for what, count in troubles.counts.most_common()
        if what != "strangers"
    }
    if "kill -9" in done:
        done["kill -9"] += f", {troubles.counts['kill -9'] / minutes:.0f} per minute"
    if "flipped bits" in done:
        done["flipped bits"] += ": " + ", ".join(
            f"{count} {kind}" for kind, count in troubles.flipped.items()
        )
    if "crowds of strangers" in done:
        done["crowds of strangers"] += f", {troubles.counts['strangers']} connections kept open in total"
    return list(done.items())


def _only_quarantine(status: dict[str, Any], liar: str) -> bool:
    """Whether an agent is degraded for no other reason than that it has found the liar out."""
    problems = status.get("problem", "").split("; ")
    return status.get("state") == "degraded" and all("in quarantine" in p and liar in p for p in problems)


def _refused(rejected: dict[str, int]) -> str:
    return (
        ", ".join(f"{why} {count}" for why, count in rejected.items() if why not in ("late", "stale"))
        or "nothing refused"
    )


def report(verdict: Verdict) -> str:
    """The table, in Markdown."""
    lines = [f"{verdict.title}:", "", "| what | result |", "|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {found} |" for what, found in verdict.rows)])


def write(text: str) -> None:
    """Put the table between the two marks in docs/reliability.md."""
    before, _, rest = GUIDE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    GUIDE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
