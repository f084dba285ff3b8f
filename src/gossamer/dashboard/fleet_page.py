"""The page of a fleet: what it receives, and when. It can only read; nothing it sends reaches an agent.

A page asks for the next frame once it has drawn the last one, and every frame is complete. So a page that was hidden,
or is slow, continues with the newest state and its history, and there is never a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from gossamer.agents.fleet.local import LOGS
from gossamer.agents.fleet.survey import SPEAKING
from gossamer.agents.host.logs import tail
from gossamer.agents.host.status import AgentStatus, worst_first
from gossamer.arrays import AnyArray, Floats
from gossamer.dashboard.fleet import FACTS, LINKS, FleetReader, FleetView
from gossamer.dashboard.frames import packed
from gossamer.dashboard.layout import fleet_places, is_regular
from gossamer.dashboard.server import Channel, Page
from gossamer.errors import InvalidInput

log = logging.getLogger("gossamer.dashboard.fleet_page")

EVERY = 0.5
"""Seconds between two readings of status files, which agents write equally often; metrics cost more and are read every
2 s."""

SHARE = 0.05
"""Largest share of a core used for reading; with thousands of agents there are fewer readings."""

LINES = 12
"""Largest number of agents for which each has its own line in the charts; larger fleets are shown as bands."""

SHOWN_EVENTS = 60
LOG_BYTES, LOG_LINES = 1 << 15, 150


def fleet_page(path: Path, metrics: Sequence[str] | None = None) -> Page:
    """Return the page of the fleet in a file; `metrics` are addresses to query instead of those in the file."""
    watch = FleetWatch(FleetReader(path, metrics), every=4 * EVERY if metrics else EVERY)
    return Page("/fleet", "fleet.html", watch.session, watch.running)


class FleetWatch:
    """One reader for all pages that are open."""

    def __init__(self, reader: FleetReader, every: float = EVERY) -> None:
        self._reader = reader
        self._every = every
        self._shown: FleetFrames | None = None
        self._change = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read the state of the fleet repeatedly while the server runs."""
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking

    async def _look(self) -> None:
        """Read repeatedly; if one reading fails, pages keep what they have, and the next may succeed."""
        failing = False
        while True:
            seconds = 0.0
            try:
                self._shown, seconds = await asyncio.to_thread(self._look_once)
                failing = False
            except Exception:
                if not failing:
                    log.exception("cannot look at the fleet; trying again")
                failing = True
            async with self._change:
                self._change.notify_all()
            await asyncio.sleep(max(self._every, seconds / SHARE))

    def _look_once(self) -> tuple[FleetFrames, float]:
        """Return the newest view and the processor time that it took, excluding a new layout, which is rare."""
        began = time.thread_time()
        view = self._reader.look()
        seconds = time.thread_time() - began
        return FleetFrames(view, self._reader.path.parent, self._shown), seconds

    async def _newer(self, than: int) -> FleetFrames:
        """Return the newest view, once there is one with a larger number."""
        async with self._change:
            await self._change.wait_for(lambda: self._shown is not None and self._shown.view.number > than)
            assert self._shown is not None
            return self._shown

    async def session(self, channel: Channel) -> None:
        """Show the fleet to one page: "next" asks for the newest frame, "look" for more about one agent."""
        wanted, asked = asyncio.Event(), ""

        async def push() -> None:
            seen = 0
            while True:
                await wanted.wait()
                shown = await self._newer(seen)
                wanted.clear()
                seen = shown.view.number
                await channel.pass_on(shown.frame)
                if asked:
                    await channel.pass_on(await asyncio.to_thread(shown.agent, asked))

        async def listen() -> None:
            nonlocal asked
            async for message in channel:
                if message["type"] == "next":
                    wanted.set()
                elif message["type"] == "look":
                    asked = str(message.get("agent", ""))
                    if asked and self._shown is not None:
                        await channel.pass_on(await asyncio.to_thread(self._shown.agent, asked))
                else:
                    await channel.complain(
                        InvalidInput('a page must ask for "next" or "look"; it can only see')
                    )

        tasks = [asyncio.create_task(loop()) for loop in (push, listen)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()  # raises what ended it


class FleetFrames:
    """A view of a fleet as sent to pages, built once for all of them."""

    def __init__(self, view: FleetView, directory: Path, before: FleetFrames | None = None) -> None:
        self.view = view
        self._directory = directory
        self._numbers = {agent.member.name: k for k, agent in enumerate(view.agents)}
        self._positions: AnyArray = (
            before._positions
            if before is not None and before._wiring == self._wiring
            else self._laid_out(before)
        )

    @cached_property
    def _links(self) -> list[tuple[str, str]]:
        """The roster's links, by name."""
        names = {member.id: member.name for member in self.view.fleet.agents}
        return [(names[edge.a], names[edge.b]) for edge in self.view.fleet.edges]

    @cached_property
    def _wiring(self) -> tuple[object, ...]:
        return tuple(self._numbers), tuple(self._links)

    def _laid_out(self, before: FleetFrames | None) -> AnyArray:
        known = {} if before is None else dict(zip(before._numbers, before._positions, strict=True))
        return fleet_places(self._shape, list(self._numbers), self._links, known)

    @property
    def _shape(self) -> str:
        """Return the name of the network, as long as no agent has joined or left."""
        return self.view.fleet.network if self.view.fleet.epoch <= 1 else ""

    @cached_property
    def frame(self) -> bytes:
        """Return everything a page shows; estimates in the history are differences from `center`, for precision."""
        view, agents = self.view, self.view.agents
        center = view.summary["estimate"] or 0.0
        header = {
            "type": "fleet",
            "number": view.number,
            "time": view.time,
            "name": view.fleet.fleet,
            "network": view.fleet.network,
            "epoch": view.fleet.epoch,
            "dimension": view.fleet.observations.dimension,
            "summary": _json(view.summary),
            "notes": [*([view.problem] if view.problem else []), *view.notes],
            "events": view.events[-SHOWN_EVENTS:],
            "names": list(self._numbers),
            "states": [agent.state for agent in agents],
            "problems": [agent.problem for agent in agents],
            "worst": [self._numbers[agent.member.name] for agent in worst_first(map(_coarse, agents))],
            "linkStates": LINKS,
            "square": is_regular(self._shape),
            "facts": [*FACTS, *view.reasons],
            "reasons": view.reasons,
            "refused": self._refused(),
            "center": center,
        }
        return packed(header, **self._now(), **self._edges(), **self._history(center))

    def _refused(self) -> dict[str, int]:
        """Return the number of refused messages by reason, as reported by the agents."""
        counts: dict[str, int] = {}
        for agent in self.view.agents:
            for why, count in agent.details.get("rejected", {}).items() if agent.state in SPEAKING else ():
                counts[why] = counts.get(why, 0) + count
        return counts

    def _now(self) -> dict[str, AnyArray]:
        agents = self.view.agents
        loss = [self._loss(agent) for agent in agents]
        return {
            "positions": self._positions,
            "speaking": np.array([agent.state in SPEAKING for agent in agents], dtype=np.uint8),
            "estimate": _column(agent.estimate[:1] for agent in agents),
            "error": _column(agent.standard_error[:1] for agent in agents),
            "distance": _column([agent.distance] for agent in agents),
            "settled": _column([float(agent.details.get("settled", True))] for agent in agents),
            "rounds": _column([agent.rounds] for agent in agents),
            "samples": _column([agent.samples] for agent in agents),
            "rejected": _column([agent.rejected] for agent in agents),
            "restarts": _column([agent.restarts] for agent in agents),
            "epochs": _column([agent.epoch] for agent in agents),
            "rate": self.view.rates,
            "loss": np.array(loss, dtype=np.float64),
        }

    def _loss(self, agent: AgentStatus) -> float:
        """Return the mean loss from live neighbors; nan if there are none."""
        losses, neighbors = self.view.losses[agent.member.name], agent.details.get("neighbors", {})
        known = [
            loss
            for name, loss in losses.items()
            if not math.isnan(loss) and neighbors[name].get("state") == "alive"
        ]
        return math.fsum(known) / len(known) if known else math.nan

    def _edges(self) -> dict[str, AnyArray]:
        """Return the links as both ends see them; if they differ, the worse state."""
        by_name = {agent.member.name: agent for agent in self.view.agents}
        ends = [(self._numbers[a], self._numbers[b]) for a, b in self._links]
        said = [(*self._said(by_name[a], b), *self._said(by_name[b], a)) for a, b in self._links]
        numbers = np.array(said, dtype=np.float64).reshape(-1, 2, 3)
        worst = np.fmax(numbers[:, 0], numbers[:, 1])
        return {
            "links": np.array(ends, dtype=np.uint32).reshape(-1, 2),
            "linkState": np.nan_to_num(worst[:, 0]).astype(np.uint8),
            "linkLoss": _single(worst[:, 1]),
            "linkHeard": _single(worst[:, 2]),
        }

    def _said(self, agent: AgentStatus, neighbor: str) -> tuple[float, float, float]:
        """Return what an agent reports about a neighbor: its state, its loss, and the time since it was heard."""
        link = agent.details.get("neighbors", {}).get(neighbor)
        if agent.state not in SPEAKING or link is None:
            return math.nan, math.nan, math.nan
        state = LINKS.index(link["state"]) if link.get("state") in LINKS else 0
        heard = link.get("last_heard")
        age = math.nan if heard is None else heard + max(self.view.time - agent.details["at"], 0.0)
        return state, self.view.losses[agent.member.name].get(neighbor, math.nan), age

    def _history(self, center: float) -> dict[str, AnyArray]:
        view = self.view
        facts = view.facts.T.copy()
        facts[[k for k, name in enumerate(FACTS) if name.startswith("estimate")]] -= center
        curves = view.agents_over_time[:, :2].transpose(1, 2, 0)  # estimate and error, by agent, over time
        lines = curves if len(view.agents) <= LINES else curves[:, :0]
        lines = _single([lines[0] - center, lines[1]])
        return {
            "times": view.facts[:, 0].copy(),
            "history": _single(facts),
            "lines": lines,
        }

    def agent(self, name: str) -> bytes:
        """Return the details of one agent: what it publishes, its history, and the end of its log."""
        k = self._numbers.get(name)
        if k is None:
            return packed({"type": "agent", "name": name, "missing": True})
        status = self.view.agents[k]
        hidden = ("neighbors", "rejected", "state", "problem", "name", "agent", "time")
        header = {
            "type": "agent",
            "name": name,
            "missing": False,
            "number": self.view.number,
            "endpoint": status.member.endpoint,
            "state": status.state,
            "problem": status.problem,
            "details": _json({key: value for key, value in status.details.items() if key not in hidden}),
            "rejected": _json(status.details.get("rejected", {})),
            "neighbors": _json(status.details.get("neighbors", {})),
            "losses": _json(self.view.losses[name]),
            **self._log(status),
        }
        over_time = self.view.agents_over_time[:, :, k].T
        return packed(header, times=self.view.facts[:, 0].copy(), estimate=over_time[0], error=over_time[1])

    def _log(self, agent: AgentStatus) -> dict[str, object]:
        """Return the end of an agent's log, or why there is none."""
        file = self._directory / LOGS / f"{agent.member.name}.log"
        try:
            lines = tail(file, LOG_BYTES)[-LOG_LINES:]
        except FileNotFoundError:
            local = "pid" in agent.details
            why = (
                f"There is no {LOGS}/{file.name} here: an agent that runs by itself logs to its standard error."
                if local
                else f"Its log is on its own host, {agent.member.host or agent.member.name}."
            )
            return {"log": [], "logProblem": why}
        except (OSError, InvalidInput) as error:
            return {"log": [], "logProblem": f"The log cannot be read: {error}"}
        return {"log": [_entry(line) for line in lines], "logProblem": "" if lines else "The log is empty."}


def _coarse(agent: AgentStatus) -> AgentStatus:
    """Return the agent with its distance in whole standard errors, so that agents that agree do not keep changing
    places."""
    error = max((value for value in agent.standard_error if value), default=0.0)
    return replace(agent, distance=agent.distance // error) if agent.distance and error > 0 else agent


def _entry(line: str) -> dict[str, str]:
    """Parse a line of a log: its time, level, logger, message and further fields."""
    try:
        entry = json.loads(line)
        known = {key: str(entry.pop(key)) for key in ("time", "level", "message")}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"time": "", "level": "", "message": line, "more": ""}
    more = "\n".join(f"{key}: {value}" for key, value in entry.items() if key not in ("agent", "logger"))
    return {**known, "more": more}


def _column(values: Iterable[Iterable[float | None]]) -> Floats:
    """Return the first of each of some lists of numbers, nan for an empty one."""
    firsts = [next(iter(value), None) for value in values]
    return np.array([math.nan if first is None else first for first in firsts], dtype=np.float64)


def _single(values: ArrayLike) -> AnyArray:
    """Return numbers in single precision; larger ones, which no honest agent reports, become the largest."""
    most = float(np.finfo(np.float32).max)
    return np.clip(np.asarray(values, dtype=np.float64), -most, most).astype(np.float32)


def _json(value: object) -> object:
    """Return a value for JSON: NaN and infinities become null."""
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
