"""A fleet of 12 processes with masks, under loss, a kill and a join, and an attack on the wire of a curious member.

    python -m benchmarks.masked_fleet --runs 3
    python -m benchmarks.masked_fleet --cost

Eleven members are processes with TLS and stores; the twelfth, agent 5, runs here and records every message that it is
sent. 30% of all messages are lost. Agent 11 joins late, agent 2 is killed with SIGKILL and started again. Printed are
the errors of all averages, and the attack: what is left of the first value of each neighbor after the mask that agent 5
knows, minus the neighbor's level, in units of the standard deviation that the theorem predicts. If the masks hide as
much as it says, these are standard normal numbers.

With --cost it prints the processor time of a round with masks and without, by turns: of agents in lockstep, without a
network, and of processes with TLS and stores, where fleets with masks and without run at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.support.lockstep import Lockstep

import gossamer as gs
from benchmarks.agents import spent
from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import Limits
from gossamer.agents.fleet.local import LocalFleet
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.round.masking import LARGEST_MASK
from gossamer.agents.round.messages import Received
from gossamer.agents.round.transport import Deliver, Transport
from gossamer.agents.round.wire import Codec
from gossamer.agents.transports.faulty import Faulty
from gossamer.agents.transports.tls import TlsTransport

NETWORK = gs.Network.grid(3, 4)
LEVELS = np.array([3.0, 8.0, -2.0, 5.0, 7.5, 1.0, 0.0, 12.0, 4.0, 9.0, -6.0, 2.5])
SCALE, LOSS, CURIOUS, JOINER, VICTIM = 1000.0, 0.3, 5, 11, 2


class Recorder:
    """A transport that keeps everything that arrives."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.wire: list[tuple[int, bytes]] = []

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        def keep(sender: int, payload: bytes) -> bool:
            self.wire.append((sender, payload))
            return deliver(sender, payload)

        self._transport.exchange(round, outgoing, deadline, keep)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


def free_ports(count: int) -> list[int]:
    """Return unused ports of this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def make_fleet(folder: Path) -> Path:
    """Write the fleet and the files of its members; return the path of fleet.toml."""
    for i, level in enumerate(LEVELS):
        (folder / f"{i}.csv").write_text(f"{level}\n")
    fleet = Fleet.create(
        NETWORK,
        endpoints=[f"127.0.0.1:{port}" for port in free_ports(12)],
        sources=[f"csv:{folder / str(i)}.csv" for i in range(12)],
        privacy={"mask": SCALE},
        rounds={"every": "10ms", "timeout": "200ms", "death": "2s"},
    )
    return fleet.write(folder)


async def until(reached: Callable[[], bool], what: str, seconds: float = 120.0) -> float:
    """Wait; return the seconds that passed."""
    began = time.monotonic()
    while not reached():
        if time.monotonic() > began + seconds:
            raise SystemExit(f"not reached in {seconds:g} s: {what}")
        await asyncio.sleep(0.1)
    return time.monotonic() - began


async def run(folder: Path) -> list[float]:
    """One fleet; return the scores of the attack."""
    path = make_fleet(folder)
    fleet = Fleet.read(path)
    faults = gs.faults.Faults(gs.faults.Loss(LOSS)).bind(seed=1)
    options = {"store": str(folder / "stores"), "faults": (str(gs.faults.Loss(LOSS)),), "insecure": False}
    settings = fleet.settings(CURIOUS, path.parent)
    recorder = Recorder(Faulty(TlsTransport(settings), CURIOUS, faults))
    others = ",".join(str(i) for i in range(12) if i not in (CURIOUS, JOINER))
    agent = Agent(settings, transport=recorder, store=folder / "curious.db")  # type: ignore[arg-type]
    with LocalFleet(path, others, **options) as processes:
        async with agent:
            agent.observe(LEVELS[CURIOUS])

            def error(members: list[int]) -> float:
                processes.supervise()
                estimates = [s.estimate for s in processes.status() if s.estimate and None not in s.estimate]
                mine = [float(agent.estimate), *(float(np.ravel(e)[0]) for e in estimates)]
                return (
                    float(np.abs(np.array(mine) - LEVELS[members].mean()).max())
                    if len(mine) >= 11
                    else np.inf
                )

            early = list(range(JOINER))
            seconds = await until(lambda: error(early) < 0.05, "the average of 11")
            print(f"11 members: within 0.05 of their average after {seconds:.1f} s, error {error(early):.1e}")
            with LocalFleet(path, str(JOINER), **options) as late:
                everyone = list(range(12))
                seconds = await until(lambda: late.supervise() is None and error(everyone) < 0.05, "all 12")
                print(
                    f"agent {JOINER} joined: within 0.05 after {seconds:.1f} s, error {error(everyone):.1e}"
                )
                os.kill(processes.pids[VICTIM], signal.SIGKILL)
                await until(lambda: error(everyone) == np.inf, "the kill shows")
                seconds = await until(lambda: error(everyone) < 0.05, "after the kill")
                await asyncio.sleep(2.0)
                print(
                    f"agent {VICTIM} killed: within 0.05 after {seconds:.1f} s, error {error(everyone):.1e}"
                )
                known = {j: float(mask[1]) for j, mask in agent._ledger.masks.kept.items()}  # type: ignore[union-attr]
            assert agent._ledger.masks is not None
            largest = LARGEST_MASK * agent._ledger.masks.scales
            limits = Limits(rounds_ahead=2**62)
            size = agent.layout.size
            reader = Codec(
                CURIOUS, frozenset(range(12)), size, 2, limits, settings.fingerprint, masks=largest
            )
            return attack(recorder.wire, reader, known)


def attack(wire: list[tuple[int, bytes]], reader: Codec, known: dict[int, float]) -> list[float]:
    """Return what is left of the neighbors' first values, in standard deviations of the theorem."""
    first: dict[int, float] = {}
    for sender, payload in wire:
        message = reader.decode(sender, payload, 0)
        if isinstance(message, Received) and message.mask[0] & 1:
            first.setdefault(sender, float(np.frombuffer(message.rows)[1]))
    print(f"{len(wire)} messages recorded; first values of agents {sorted(first)}")
    return [
        (value + known[i] - LEVELS[i]) / (SCALE * np.sqrt(len(NETWORK.neighbors(i)) - 1))
        for i, value in first.items()
    ]


def lockstep_cost(repeats: int = 21, rounds: int = 200) -> None:
    """Print the time of a round of agents that run in one thread."""
    fleets = [Lockstep(NETWORK, LEVELS, method=gs.AnytimeSDA("local"), mask=mask) for mask in (0.0, SCALE)]
    times = np.empty((repeats, 2))
    for repeat in range(-1, repeats):  # the first one is not counted
        for k, fleet in enumerate(fleets):
            began = time.process_time()
            fleet.run(rounds)
            times[repeat, k] = (time.process_time() - began) / (rounds * NETWORK.agents)
    print_cost("lockstep", times)


def process_cost(repeats: int = 9, seconds: float = 5.0) -> None:
    """Print the time of a round of agents in processes of their own."""
    with contextlib.ExitStack() as stack:
        fleets = []
        for mask in (0.0, SCALE):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            made = Fleet.create(
                gs.Network.cycle(4),
                endpoints=[f"127.0.0.1:{port}" for port in free_ports(4)],
                privacy={"mask": mask},
                rounds={"every": "10ms"},
            )
            options = {"store": str(folder / "stores"), "insecure": False}
            fleets.append(stack.enter_context(LocalFleet(made.write(folder), **options)))

        def counted(fleet: LocalFleet) -> tuple[float, int]:
            return sum(spent(pid)[0] for pid in fleet.pids.values()), sum(s.rounds for s in fleet.status())

        while not all(len(f.status()) == 4 and min(s.rounds for s in f.status()) > 300 for f in fleets):
            time.sleep(0.5)
        times = np.empty((repeats, 2))
        before = [counted(fleet) for fleet in fleets]
        for repeat in range(repeats):
            time.sleep(seconds)
            after = [counted(fleet) for fleet in fleets]
            times[repeat] = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in zip(before, after, strict=True)]
            before = after
        print_cost("processes", times)


def print_cost(where: str, times: NDArray[np.float64]) -> None:
    """Print the medians of the times without masks and with them, in the columns, and of their ratios."""
    without, with_masks = np.median(times, axis=0) * 1e6
    low, ratio, high = np.quantile(times[:, 1] / times[:, 0], [0.25, 0.5, 0.75])
    print(f"{where}: {without:.1f} us without masks, {with_masks:.1f} us with them, ", end="")
    print(f"ratio {ratio:.2f} (quartiles {low:.2f} and {high:.2f})")


def main() -> None:
    """Run some fleets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--cost", action="store_true")
    given = parser.parse_args()
    if given.cost:
        lockstep_cost()
        process_cost()
        return
    scores: list[float] = []
    for _ in range(given.runs):
        with tempfile.TemporaryDirectory() as folder:
            scores += asyncio.run(run(Path(folder)))
    print("attack:", " ".join(f"{score:+.2f}" for score in scores))
    print(f"mean of squares {np.mean(np.square(scores)):.2f} +- {np.sqrt(2 / len(scores)):.2f} (theorem: 1)")


if __name__ == "__main__":
    main()
