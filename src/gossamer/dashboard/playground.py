"""A session of the playground."""

from __future__ import annotations

from gossamer.dashboard.server import Channel, Page


async def play(channel: Channel) -> None:
    """Answer a page until it closes."""
    async for _ in channel:
        pass


def playground() -> Page:
    return Page("/", "index.html", play)
