"""The page of a fleet: what it gets, and when. It can only ask to see; nothing it sends reaches an agent.

A page asks for the next frame once it has drawn the last one, and every frame is complete. So a page that was hidden,
or is slow, goes on with the newest state and the history that leads to it, and there is never a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

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
"""Seconds between two looks at status files, which agents write as often; at metrics, which cost agents more, 2."""

SHARE = 0.05
"""Of one core, at most, for looking: with thousands of agents there are fewer looks."""

LINES = 12
"""Agents up to which each has its own line in the charts; beyond, there are bands."""

SHOWN_EVENTS = 60
LOG_BYTES, LOG_LINES = 1 << 15, 150


def fleet_page(path: Path, metrics: Sequence[str] | None = None) -> Page:
    """The page of the fleet in a file; `metrics` are addresses to ask instead of those in the file."""
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
        """Look at the fleet, again and again, while the server runs."""
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking

    async def _look(self) -> None:
        """Look again and again; if one look fails, pages keep what they have, and the next may succeed."""
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
        """The newest view, and the processor time that looking took; a new layout is rare and does not count."""
        began = time.thread_time()
        view = self._reader.look()
        seconds = time.thread_time() - began
        return FleetFrames(view, self._reader.path.parent, self._shown), seconds

    async def _newer(self, than: int) -> FleetFrames:
        """The newest view, once there is one with a larger number."""
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

        tasks = [asyncio.create_task(each()) for each in (push, listen)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()  # raises what ended it


class FleetFrames:
    """A view of a fleet in the form in which pages get it, made once for all of them."""

    def __init__(self, view: FleetView, directory: Path, before: FleetFrames | None = None) -> None:
        self.view = view
        self._directory = directory
        self._place = {agent.member.name: k for k, agent in enumerate(view.agents)}
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
    def _wiring(self) -> tuple[Any, ...]:
        return tuple(self._place), tuple(self._links)

    def _laid_out(self, before: FleetFrames | None) -> AnyArray:
        known = {} if before is None else dict(zip(before._place, before._positions, strict=True))
        return fleet_places(self._shape, list(self._place), self._links, known)

    @property
    def _shape(self) -> str:
        """The name of the network, as long as nobody has come or left."""
        return self.view.fleet.network if self.view.fleet.epoch <= 1 else ""

    @cached_property
    def frame(self) -> bytes:
        """Everything a page shows; estimates in the history are differences from `center`, to keep their digits."""
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
            "names": list(self._place),
            "states": [agent.state for agent in agents],
            "problems": [agent.problem for agent in agents],
            "worst": [self._place[agent.member.name] for agent in worst_first(map(_coarse, agents))],
            "linkStates": LINKS,
            "square": is_regular(self._shape),
            "facts": [*FACTS, *view.reasons],
            "reasons": view.reasons,
            "refused": self._refused(),
            "center": center,
        }
        return packed(header, **self._now(), **self._edges(), **self._history(center))

    def _refused(self) -> dict[str, int]:
        """How many messages were refused, by reason, as far as agents say."""
        found: dict[str, int] = {}
        for agent in self.view.agents:
            for why, count in agent.details.get("rejected", {}).items() if agent.state in SPEAKING else ():
                found[why] = found.get(why, 0) + count
        return found

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
        """The mean loss from the neighbors that are alive; nan if there is none."""
        losses, neighbors = self.view.losses[agent.member.name], agent.details.get("neighbors", {})
        known = [
            loss
            for name, loss in losses.items()
            if not math.isnan(loss) and neighbors[name].get("state") == "alive"
        ]
        return math.fsum(known) / len(known) if known else math.nan

    def _edges(self) -> dict[str, AnyArray]:
        """The links as both ends see them; of two words, the worse one."""
        by_name = {agent.member.name: agent for agent in self.view.agents}
        ends = [(self._place[a], self._place[b]) for a, b in self._links]
        said = [(*self._said(by_name[a], b), *self._said(by_name[b], a)) for a, b in self._links]
        numbers = np.array(said, dtype=np.float64).reshape(-1, 2, 3)
        worst = np.fmax(numbers[:, 0], numbers[:, 1])
        return {
            "links": np.array(ends, dtype=np.uint32).reshape(-1, 2),
            "linkState": np.nan_to_num(worst[:, 0]).astype(np.uint8),
            "linkLoss": worst[:, 1].astype(np.float32),
            "linkHeard": worst[:, 2].astype(np.float32),
        }

    def _said(self, agent: AgentStatus, neighbor: str) -> tuple[float, float, float]:
        """What an agent says of a neighbor: its state, its loss, and how long ago it was heard."""
        found = agent.details.get("neighbors", {}).get(neighbor)
        if agent.state not in SPEAKING or found is None:
            return math.nan, math.nan, math.nan
        state = LINKS.index(found["state"]) if found.get("state") in LINKS else 0
        heard = found.get("last_heard")
        age = math.nan if heard is None else heard + max(self.view.time - agent.details["at"], 0.0)
        return state, self.view.losses[agent.member.name].get(neighbor, math.nan), age

    def _history(self, center: float) -> dict[str, AnyArray]:
        view = self.view
        facts = view.facts.T.copy()
        facts[[k for k, name in enumerate(FACTS) if name.startswith("estimate")]] -= center
        each = view.agents_over_time[:, :2].transpose(1, 2, 0)  # estimate and error, by agent, over time
        lines = each if len(view.agents) <= LINES else each[:, :0]
        lines = np.array([lines[0] - center, lines[1]], dtype=np.float32)
        return {
            "times": view.facts[:, 0].copy(),
            "history": facts.astype(np.float32),
            "lines": lines,
        }

    def agent(self, name: str) -> bytes:
        """More about one agent: what it publishes, its history, and the end of its log."""
        k = self._place.get(name)
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

    def _log(self, agent: AgentStatus) -> dict[str, Any]:
        """The end of an agent's log, or why there is none."""
        file = self._directory / LOGS / f"{agent.member.name}.log"
        try:
            lines = tail(file, LOG_BYTES)[-LOG_LINES:]
        except FileNotFoundError:
            here = "pid" in agent.details
            why = (
                f"There is no {LOGS}/{file.name} here: an agent that runs by itself logs to its standard error."
                if here
                else f"Its log is on its own host, {agent.member.host}."
            )
            return {"log": [], "logProblem": why}
        except (OSError, InvalidInput) as error:
            return {"log": [], "logProblem": f"The log cannot be read: {error}"}
        return {"log": [_entry(line) for line in lines], "logProblem": "" if lines else "The log is empty."}


def _coarse(agent: AgentStatus) -> AgentStatus:
    """The agent with its distance in whole standard errors: those that agree do not change places all the time."""
    error = max((each for each in agent.standard_error if each), default=0.0)
    return replace(agent, distance=agent.distance // error) if agent.distance and error > 0 else agent


def _entry(line: str) -> dict[str, str]:
    """A line of a log: its time, level, logger and message, and whatever else it says."""
    try:
        found = json.loads(line)
        known = {key: str(found.pop(key)) for key in ("time", "level", "message")}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"time": "", "level": "", "message": line, "more": ""}
    more = "\n".join(f"{key}: {value}" for key, value in found.items() if key not in ("agent", "logger"))
    return {**known, "more": more}


def _column(values: Any) -> Floats:
    """The first of some numbers each, nan where there is none."""
    firsts = [next(iter(value), None) for value in values]
    return np.array([math.nan if first is None else first for first in firsts], dtype=np.float64)


def _json(value: Any) -> Any:
    """A value as JSON can hold it: what is no finite number becomes null."""
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
