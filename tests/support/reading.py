"""Observations of a source, without an agent."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

from gossamer.agents.sources.kinds import LiveSource, PacedSource
from tests.support.waiting import PATIENCE


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
