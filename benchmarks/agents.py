"""Rounds per second of fleets on a cycle over TCP and TLS, next to a bare exchange of the same payload.

    python -m benchmarks agents

Every agent runs in its own process on this machine. The bare exchange does what a round needs of the network and
nothing else: send a payload of the same size to each neighbor, wait for one from each; Python's sockets, `ssl` and
`select.poll`, in a loop as anyone would write it. Both run in turn, with and without TLS; the best of the repeats
counts, because other programs only ever slow things down.

Then what fleets cost that have little to do: started as `gossamer fleet up` does, with TLS and stores. Processor time
and wake-ups are those of all threads of all agents, from /proc.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.timing import Row

SHARE = 1 / 3
"""Of the rounds of bare sockets: an agent's round also checks every message, keeps its ledgers and its answers."""

MEGABYTES = 80.0
IDLE_PERCENT = 0.3
HUNDRED_CORES = 0.5
PATIENCE, SETTLING = 60.0, 4.0
"""Seconds that a fleet has to get going, and that it then runs before anything is counted."""


# -- the workers ------------------------------------------------------------------------------------------------


def rss_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


async def agent_worker(settings: Any, payload: int) -> None:
    """A whole agent that observes once per round."""
    import itertools

    import numpy as np

    from gossamer.agents.agent import Agent

    stream = np.random.default_rng(settings.id).normal(settings.id, 1.0, 1000).tolist()
    async with Agent(settings, source=itertools.cycle(stream)) as agent:
        while not all(n.state == "alive" for n in agent.snapshot.neighbors):
            await asyncio.sleep(0.01)
        say(ready=True)
        start, stop = json.loads(await asyncio.to_thread(sys.stdin.readline))
        await asyncio.sleep(max(0.0, start - time.time()))
        before, began = agent.snapshot.age, time.monotonic()
        await asyncio.sleep(max(0.0, stop - time.time()))
        rate = (agent.snapshot.age - before) / (time.monotonic() - began)
        say(rate=rate, memory=rss_megabytes())
        await asyncio.to_thread(sys.stdin.readline)  # stay until all have counted


def meet(settings: Any) -> list[socket.socket]:
    """A connection to each neighbor, made by the end with the larger number, with mutual TLS if the settings say so."""
    contexts = {}
    if settings.tls:
        for purpose in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
            context = contexts[purpose] = ssl.SSLContext(purpose)
            context.minimum_version, context.verify_mode = ssl.TLSVersion.TLSv1_3, ssl.CERT_REQUIRED
            context.load_verify_locations(settings.tls.authority)
            context.load_cert_chain(settings.tls.certificate, settings.tls.key)
    host, _, port = settings.endpoint.rpartition(":")
    listener = socket.create_server((host, int(port)))
    connections: list[socket.socket] = []
    for neighbor in settings.neighbors:
        if neighbor.id > settings.id:
            continue
        there, _, port = neighbor.endpoint.rpartition(":")
        while True:
            try:
                made = socket.create_connection((there, int(port)))
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        if contexts:
            made = contexts[ssl.PROTOCOL_TLS_CLIENT].wrap_socket(made, server_hostname=there)
        connections.append(made)
    while len(connections) < len(settings.neighbors):
        made, _ = listener.accept()
        connections.append(contexts[ssl.PROTOCOL_TLS_SERVER].wrap_socket(made, True) if contexts else made)
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
    return connections


def bare_worker(settings: Any, payload: int) -> None:
    """Sockets alone: send to each neighbor, wait for one from each."""
    connections = {connection.fileno(): connection for connection in meet(settings)}
    arrived = dict.fromkeys(connections, 0)  # bytes that are not used yet
    poll = select.poll()
    for descriptor in connections:
        poll.register(descriptor, select.POLLIN)
    body = bytes(4 + payload)  # behind its length
    say(ready=True)
    start, stop = json.loads(sys.stdin.readline())
    threading.Thread(target=lambda: (sys.stdin.readline(), os._exit(0)), daemon=True).start()
    time.sleep(max(0.0, start - 0.5 - time.time()))  # everyone is listening half a second before the start
    counting = False
    rounds, before, began = 0, 0, 0.0
    while True:
        for connection in connections.values():
            connection.sendall(body)
        while any(size < len(body) for size in arrived.values()):
            for descriptor, _ in poll.poll():
                with suppress(BlockingIOError, ssl.SSLWantReadError):
                    piece = connections[descriptor].recv(1 << 16)
                    if not piece:  # the neighbors have counted, and are gone
                        return
                    arrived[descriptor] += len(piece)
        for descriptor in arrived:
            arrived[descriptor] -= len(body)
        rounds += 1
        if rounds % 16 == 0:
            now = time.time()
            if not counting and now >= start:
                counting, before, began = True, rounds, now
            elif counting and now >= stop:
                say(rate=(rounds - before) / (now - began), memory=rss_megabytes())
                stop = float("inf")


def worker(kind: str) -> None:
    warnings.simplefilter("ignore")
    settings = pickle.loads(bytes.fromhex(sys.stdin.readline()))
    payload = int(sys.stdin.readline())
    if kind == "agent":
        asyncio.run(agent_worker(settings, payload))
    else:
        with suppress(ConnectionError):
            bare_worker(settings, payload)


# -- the benchmark ----------------------------------------------------------------------------------------------


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()


def fleet(agents: int, certificates: Path | None) -> list[Any]:
    """Settings of a cycle of agents (for two: a single edge), with the default settings of an agent."""
    from gossamer.agents.config.settings import AgentSettings, Neighbor, Tls
    from gossamer.facts import KnownFacts
    from gossamer.methods import AnytimeSDA
    from gossamer.networks import Network

    network = Network.cycle(agents) if agents > 2 else Network.path(2)
    ports, facts = free_ports(agents), KnownFacts.of(network.spectrum.eigenvalues)
    return [
        AgentSettings(
            i,
            tuple(
                Neighbor(int(j), float(-network.gossip[i, int(j)]), f"127.0.0.1:{ports[int(j)]}")
                for j in network.neighbors(i)
            ),
            AnytimeSDA(),
            facts,
            timeout=5.0,
            death=30.0,
            endpoint=f"127.0.0.1:{ports[i]}",
            tls=certificates
            and Tls(certificates / "ca.pem", certificates / f"agent{i}.pem", certificates / f"agent{i}.key"),
        )
        for i in range(agents)
    ]


def payload_bytes(settings: Any) -> int:
    """Length of the message that such an agent sends."""
    import numpy as np

    from gossamer.agents.round.messages import Outgoing
    from gossamer.agents.round.wire import Codec
    from gossamer.agents.statistics.layout import Layout

    size = Layout.of(settings).size
    content = Outgoing(time.time_ns() // 1000, time.time_ns() // 1000, True, np.ones((3, size)).tobytes())
    return len(Codec(0, frozenset(), size, 2, settings.limits, settings.fingerprint).encode(10**6, content))


def measure(kind: str, settings: list[Any], payload: int, seconds: float) -> tuple[float, float]:
    """Rounds per second and megabytes per process of one fleet."""
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in settings
    ]
    try:
        for process, s in zip(processes, settings, strict=True):
            assert process.stdin is not None
            process.stdin.write(f"{pickle.dumps(s).hex()}\n{payload}\n")
            process.stdin.flush()
        for process in processes:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]
        start = time.time() + 1.5
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps([start, start + seconds]) + "\n")
            process.stdin.flush()
        results = [json.loads(process.stdout.readline()) for process in processes if process.stdout]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
    rates = [r["rate"] for r in results]
    return sum(rates) / len(rates), max(r["memory"] for r in results)


# -- fleets with little to do -----------------------------------------------------------------------------------


def spent(pid: int) -> tuple[float, int]:
    """Seconds of processor time and number of waits of a process so far."""
    nanoseconds, waits = 0, 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        nanoseconds += int((task / "schedstat").read_text().split()[0])
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                waits += int(line.split()[1])
    return nanoseconds / 1e9, waits


def quiet(network: Any, every: str, directory: Path, seconds: float) -> tuple[float, float, int]:
    """Cores that a fleet uses in all, wake-ups per second and agent, and the fewest agents seen running."""
    from gossamer.agents.fleet.launcher import LocalFleet

    from gossamer.agents.config.tables import RoundsTable
    from gossamer.agents.membership.fleet import Fleet

    endpoints = [f"127.0.0.1:{port}" for port in free_ports(network.agents)]
    made = Fleet.create(network, endpoints=endpoints, rounds=RoundsTable(every=every))
    directory.mkdir()
    with LocalFleet(made.write(directory), store=str(directory / "store")) as agents:

        def running() -> int:
            return sum(status.state == "running" for status in agents.status())

        deadline = time.monotonic() + PATIENCE
        while running() < network.agents and time.monotonic() < deadline:
            time.sleep(0.5)
        time.sleep(SETTLING)
        pids, began = agents.pids.values(), time.monotonic()
        before = [spent(pid) for pid in pids]
        fewest = network.agents
        while time.monotonic() < began + seconds:
            time.sleep(1.0)
            fewest = min(fewest, running())
        after, elapsed = [spent(pid) for pid in pids], time.monotonic() - began
    used, waits = (sum(a[k] - b[k] for a, b in zip(after, before, strict=True)) / elapsed for k in (0, 1))
    return used, waits / network.agents, fewest


def quiet_rows(directory: Path) -> Iterator[Row]:
    from benchmarks.timing import Row
    from gossamer.networks import Network

    cores, wakes, _ = quiet(Network.cycle(8), "10s", directory / "cycle", 20.0)
    percent = 100 * cores / 8
    yield Row(
        "an agent at one round per 10 s, TLS, store",
        f"{percent:.2f}% of a core, {wakes:.0f} wake-ups/s",
        f"limit {IDLE_PERCENT}%",
        IDLE_PERCENT / percent,
        1.0,
    )
    cores, wakes, _ = quiet(Network.grid(10, 10), "1s", directory / "hundred", 10.0)
    yield Row(
        "100 agents on a grid at one round per second, TLS, stores",
        f"{cores:.2f} cores, {wakes:.0f} wake-ups/s each",
        f"limit {HUNDRED_CORES} cores",
        HUNDRED_CORES / cores,
        1.0,
    )
    cores, wakes, running = quiet(Network.grid(10, 20), "1s", directory / "two hundred", 10.0)
    yield Row(
        "200 agents on a grid at one round per second, TLS, stores",
        f"{running} running, {cores:.2f} cores, {wakes:.0f} wake-ups/s each",
        "all running",
        running / 200,
        1.0,
    )


def rows(fleets: Sequence[int] = (2, 10, 50), seconds: float = 3.0, repeats: int = 3) -> Iterator[Row]:
    from benchmarks.timing import Row
    from gossamer.agents.membership.certificates import Authority

    with tempfile.TemporaryDirectory() as directory:
        authority = Authority.create(Path(directory) / "ca")
        for i in range(max(fleets)):
            authority.issue(f"agent{i}", ["127.0.0.1"])
        for agents in fleets:
            for certificates in (None, authority.directory):
                payload = payload_bytes(fleet(agents, certificates)[0])
                rates: dict[str, float] = {"agent": 0.0, "bare": 0.0}
                memory = 0.0
                for _ in range(repeats):
                    for kind in rates:
                        rate, size = measure(kind, fleet(agents, certificates), payload, seconds)
                        rates[kind] = max(rates[kind], rate)
                        memory = max(memory, size) if kind == "agent" else memory
                what = f"{agents} agents on a cycle, {'TLS' if certificates else 'TCP'}"
                yield Row(
                    f"{what}, {payload} bytes",
                    f"{rates['agent']:.0f} rounds/s",
                    f"bare sockets {rates['bare']:.0f} rounds/s",
                    rates["agent"] / rates["bare"],
                    SHARE,
                )
                room = MEGABYTES / memory
                yield Row(
                    f"{what}: memory", f"{memory:.0f} MB per agent", f"limit {MEGABYTES:.0f} MB", room, 1.0
                )
        yield from quiet_rows(Path(directory))


if __name__ == "__main__":
    worker(sys.argv[1])
