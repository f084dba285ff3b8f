"""A session of the playground: a page sends scenarios and receives their results."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from gossamer.dashboard.presets import PRESETS
from gossamer.dashboard.scenario import Scenario, catalog
from gossamer.dashboard.server import Channel, Page
from gossamer.dashboard.worker import Workers
from gossamer.errors import GossamerError


def playground(command_of: Callable[[Scenario], str]) -> Page:
    """Return the page; `command_of` translates a scenario to the command line."""
    workers = Workers()

    async def play(channel: Channel) -> None:
        """Answer a page until it closes."""
        await channel.send("hello", catalog=catalog(), presets=PRESETS)
        tasks: dict[str, asyncio.Task[None]] = {}  # by the type of message; a new one replaces the old

        async def end(*types: str) -> None:
            for kind in types:
                if kind in tasks:
                    await _end(tasks.pop(kind))

        try:
            async for message in channel:
                kind, which = str(message["type"]), message.get("id")
                try:
                    if kind == "cancel":
                        await end("run")
                        await channel.send("canceled", id=which)
                    if kind not in ("run", "python", "command", "page"):
                        continue
                    scenario = Scenario.of(message.get("scenario"))
                    await end(kind)
                    if kind == "command":
                        await channel.send("code", id=which, text=command_of(scenario))
                    else:
                        words = {name: message.get(name, "") for name in ("title", "words", "lesson")}
                        job = {"id": which, "wanted": kind, "scenario": message["scenario"], **words}
                        tasks[kind] = asyncio.create_task(_relay(channel, workers, job))
                except GossamerError as error:
                    await end(kind)
                    await channel.complain(error, id=which)
                    await channel.send("done", id=which)
        finally:
            await end(*list(tasks))

    return Page("/", "index.html", play, workers.ready)


async def _relay(channel: Channel, workers: Workers, job: dict[str, object]) -> None:
    """Pass on a job's frames; "done" is sent when its worker is free for the next job."""
    try:
        async with contextlib.aclosing(workers.run(job)) as frames:
            async for frame in frames:
                await channel.pass_on(frame)
    except GossamerError as error:
        await channel.complain(error, id=job["id"])
    await channel.send("done", id=job["id"])


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
