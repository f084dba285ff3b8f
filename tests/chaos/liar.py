"""A member that lies: an honest agent, with its own certificate, whose messages are rewritten on their way out.

    python liar.py FLEET.TOML NAME LOW HIGH

[LOW, HIGH] is the range of honest observations. The lies change every ten seconds.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gossamer.agents.agent import Agent
from gossamer.agents.fleet.file import Fleet
from gossamer.agents.round.wire import roster_of
from gossamer.agents.settings import AgentSettings
from gossamer.agents.statistics import Layout
from gossamer.agents.transports.base import Deliver, Transport
from gossamer.agents.transports.tls import TlsTransport

EVERY = 10.0


def lies(low: float, high: float) -> list[Callable[[np.ndarray], None]]:
    """What is done to the rows of a message, in turn: out of bounds, and just within."""

    def ledger(amount: float) -> Callable[[np.ndarray], None]:
        def change(rows: np.ndarray) -> None:
            rows[1:] += amount

        return change

    def value(rows: np.ndarray) -> None:
        rows[0] *= high / max(abs(float(rows[0, 0])), 1e-9)

    def first(rows: np.ndarray) -> None:
        rows[1:, 0] += 15.5

    width = high - low
    return [ledger(0.1 * width), value, ledger(0.9 * width), first, ledger(1e6), ledger(-1e12)]


class Lying:
    """A transport that rewrites what is sent.

    Behind its header a message is a list of fields, of which the rows are the first that is bytes: value, then the
    ledger of the edge.
    """

    def __init__(
        self, transport: Transport, lie: Callable[[np.ndarray], None], settings: AgentSettings
    ) -> None:
        self._transport, self.lie = transport, lie
        self._size, self._header = Layout.of(settings).size, 3 + len(settings.fingerprint)

    def exchange(
        self,
        round: int,
        outgoing: Mapping[int, bytes],
        deadline: float,
        deliver: Deliver,
    ) -> None:
        told = {receiver: self._rewrite(payload) for receiver, payload in outgoing.items()}
        self._transport.exchange(round, told, deadline, deliver)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _rewrite(self, payload: bytes) -> bytes:
        if roster_of(payload):
            return payload
        fields = msgspec.msgpack.decode(payload[self._header :])
        place = next(k for k, field in enumerate(fields) if isinstance(field, bytes))
        rows = np.frombuffer(fields[place]).reshape(-1, self._size).copy()
        self.lie(rows)
        fields[place] = rows.tobytes()
        return payload[: self._header] + msgspec.msgpack.encode(fields)


async def main(path: Path, name: str, low: float, high: float) -> None:
    settings = Fleet.read(path).settings(name, path.parent)
    chosen = lies(low, high)
    transport = Lying(TlsTransport(settings), chosen[0], settings)
    agent = Agent(settings, transport=transport)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    began = time.monotonic()
    async with agent:
        agent.observe((low + high) / 2)
        while not stop.is_set():
            transport.lie = chosen[int((time.monotonic() - began) / EVERY) % len(chosen)]
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))
