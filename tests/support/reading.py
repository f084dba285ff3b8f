"""A source of an agent, and its observations without one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

from gossamer.agents.config.urls import Place
from gossamer.agents.sources.kinds import AnySource, LiveSource, PacedSource
from gossamer.agents.sources.opening import open_source
from tests.support.waiting import PATIENCE


def parse_source(text: str, dimension: int, agent: int, **place: Any) -> AnySource:
    """The source at an address, for an agent with this number."""
    return open_source(text, Place(dimension, agent, **place))


def collect(source: PacedSource | LiveSource, count: int | None = None) -> list[list[float]]:
    """The first `count` observations of a source, or all of them, within the time of `PATIENCE`."""
    if isinstance(source, PacedSource):
        return [value.tolist() for value in itertools.islice(source, count)]

    async def gather() -> list[list[float]]:
        found: list[list[float]] = []
        async with contextlib.aclosing(aiter(source)) as values:  # type: ignore[type-var]
            async for value in values:
                found.append(value.tolist())
                if len(found) == count:
                    break
        return found

    return asyncio.run(asyncio.wait_for(gather(), PATIENCE))
