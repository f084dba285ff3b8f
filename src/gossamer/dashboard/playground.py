"""A session of the playground: a page sends scenarios, and gets what they give."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from gossamer.dashboard.code import to_python
from gossamer.dashboard.presets import PRESETS
from gossamer.dashboard.scenario import Scenario, catalog
from gossamer.dashboard.server import Channel, Page
from gossamer.dashboard.worker import Workers
from gossamer.errors import GossamerError


def playground(command_of: Callable[[Scenario], str]) -> Page:
    """The page; `command_of` says what a scenario is on the command line."""
    workers = Workers()

    async def play(channel: Channel) -> None:
        """Answer a page until it closes. A new run takes the place of the one before."""
        await channel.send("hello", catalog=catalog(), presets=PRESETS)
        running: asyncio.Task[None] | None = None
        try:
            async for message in channel:
                which = message.get("id")
                try:
                    if message["type"] in ("run", "cancel") and running is not None:
                        await _end(running)
                        running = None
                    if message["type"] == "run":
                        Scenario.of(message.get("scenario"))
                        job = {"id": which, "scenario": message["scenario"]}
                        running = asyncio.create_task(_relay(channel, workers, job))
                    elif message["type"] == "cancel":
                        await channel.send("canceled", id=which)
                    elif message["type"] == "code":
                        await _show_code(channel, message, command_of)
                except GossamerError as error:
                    await channel.complain(error, id=which)
                    if message["type"] == "run":
                        await channel.send("done", id=which)
        finally:
            if running is not None:
                await _end(running)

    return Page("/", "index.html", play, workers.ready)


async def _relay(channel: Channel, workers: Workers, job: dict[str, Any]) -> None:
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


async def _show_code(
    channel: Channel, message: dict[str, Any], command_of: Callable[[Scenario], str]
) -> None:
    scenario = Scenario.of(message.get("scenario"))
    python = await asyncio.to_thread(to_python, scenario)
    await channel.send("code", id=message.get("id"), python=python, command=command_of(scenario))
