"""A member that lies: an honest agent, with its own certificate, whose messages are rewritten on their way out.

    python -m tests.chaos.liar FLEET.TOML NAME LOW HIGH SECONDS

[LOW, HIGH] is the range of honest observations. The lies change after so many seconds.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.support.lockstep import Forger, Lie, Lying, Told

from gossamer.agents.agent import Agent
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.transports.tls import TlsTransport

REGISTERS = 2

LARGEST = 1e12
"""The largest flow that it claims."""


def lies(low: float, high: float) -> list[Lie]:
    """What is done to the rows of a message, in turn: out of bounds, and just within."""

    def changes(change: Callable[[np.ndarray], None]) -> Lie:
        def lie(told: Told) -> Told:
            change(told.shape(REGISTERS))
            return told

        return lie

    def ledger(amount: float) -> Lie:
        def change(rows: np.ndarray) -> None:
            rows[1:] += amount

        return changes(change)

    def value(rows: np.ndarray) -> None:
        rows[0] *= high / max(abs(float(rows[0, 0])), 1e-9)

    def first(rows: np.ndarray) -> None:
        rows[1:, 0] += 15.5

    width = high - low
    return [
        ledger(0.1 * width),
        changes(value),
        ledger(0.9 * width),
        changes(first),
        ledger(1e6),
        ledger(-LARGEST),
    ]


async def main(path: Path, name: str, low: float, high: float, every: float) -> None:
    settings = Fleet.read(path).settings(name, path.parent)
    chosen = lies(low, high)
    forger = Forger(settings.id, Layout.of(settings).size, REGISTERS, settings.fingerprint)
    transport = Lying(TlsTransport(settings), forger)
    agent = Agent(settings, transport=transport)  # type: ignore[arg-type]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    began = time.monotonic()
    async with agent:
        agent.observe((low + high) / 2)
        while not stop.is_set():
            transport.lie = chosen[int((time.monotonic() - began) / every) % len(chosen)]
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:])))
