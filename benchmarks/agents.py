"""Rounds per second of fleets on a cycle over Zenoh, beside a bare Zenoh exchange of the same payload.

    python benchmarks/agents.py [--agents 2 10 50] [--seconds 3] [--repeat 3]

Every agent is a process of its own on this machine. The bare exchange does what a round needs of the network
and nothing else: put a payload of the same size to each neighbour, wait for one from each. Both run in turn,
with and without TLS; the best of the repeats counts, because other programs only ever slow things down.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from queue import SimpleQueue
from typing import Any

TARGET = 0.6
MEMORY_TARGET = 80.0


# -- the workers ------------------------------------------------------------------------------------------------


def rss_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


async def agent_worker(settings: Any, payload: int) -> None:
    """A whole agent that observes once a round."""
    import itertools

    import numpy as np

    from gossamer.agents.agent import Agent

    stream = np.random.default_rng(settings.id).normal(settings.id, 1.0, 1000).tolist()
    async with Agent(settings, source=itertools.cycle(stream)) as agent:
        while not all(n.state == "alive" for n in agent.snapshot.neighbours):
            await asyncio.sleep(0.01)
        say(ready=True)
        start, stop = json.loads(await asyncio.to_thread(sys.stdin.readline))
        await asyncio.sleep(max(0.0, start - time.time()))
        before, began = agent.snapshot.age, time.monotonic()
        await asyncio.sleep(max(0.0, stop - time.time()))
        rate = (agent.snapshot.age - before) / (time.monotonic() - began)
        say(rate=rate, memory=rss_megabytes(), lost=sum(n.lost for n in agent.snapshot.neighbours))
        await asyncio.to_thread(sys.stdin.readline)  # stay until all have counted


def bare_worker(settings: Any, payload: int) -> None:
    """Zenoh alone, with the same configuration: put to each neighbour, wait for one from each."""
    import threading

    import zenoh

    from gossamer.agents.transports.zenoh import configuration, inbox_key, outbox_key

    session = zenoh.open(zenoh.Config.from_json5(json.dumps(configuration(settings))))
    inboxes = []
    publishers = []
    for n in settings.neighbours:
        inbox: SimpleQueue[bytes] = SimpleQueue()
        inboxes.append(inbox)
        hear = zenoh.handlers.Callback(lambda s, i=inbox: i.put(s.payload.to_bytes()), indirect=False)
        session.declare_subscriber(inbox_key(settings, n), hear)
        publishers.append(
            session.declare_publisher(
                outbox_key(settings, n),
                congestion_control=zenoh.CongestionControl.BLOCK,
                reliability=zenoh.Reliability.RELIABLE,
                express=True,
            )
        )
    body = bytes(payload)
    while not all(p.matching_status.matching for p in publishers):
        time.sleep(0.01)
    say(ready=True)
    start, stop = json.loads(sys.stdin.readline())
    threading.Thread(target=lambda: (sys.stdin.readline(), os._exit(0)), daemon=True).start()
    time.sleep(max(0.0, start - 0.5 - time.time()))  # everybody is listening half a second before
    counting = False
    rounds, before, began = 0, 0, 0.0
    while True:
        for publisher in publishers:
            publisher.put(body)
        for inbox in inboxes:
            inbox.get()
        rounds += 1
        if rounds % 16 == 0:
            now = time.time()
            if not counting and now >= start:
                counting, before, began = True, rounds, now
            elif counting and now >= stop:
                say(rate=(rounds - before) / (now - began), memory=rss_megabytes(), lost=0)
                stop = float("inf")


def worker(kind: str) -> None:
    warnings.simplefilter("ignore")
    settings = pickle.loads(bytes.fromhex(sys.stdin.readline()))
    payload = int(sys.stdin.readline())
    if kind == "agent":
        asyncio.run(agent_worker(settings, payload))
    else:
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
    from gossamer.agents.settings import AgentSettings, Neighbour, Tls
    from gossamer.methods import AnytimeSDA
    from gossamer.network import Network

    network = Network.cycle(agents) if agents > 2 else Network.path(2)
    ports, c = free_ports(agents), AnytimeSDA().coefficients(network, 1)
    return [
        AgentSettings(
            i,
            tuple(
                Neighbour(int(j), float(-network.gossip[i, int(j)]), f"127.0.0.1:{ports[int(j)]}")
                for j in network.neighbours(i)
            ),
            c.step_size,
            float(c.momentum),
            AnytimeSDA().window(network),
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

    from gossamer.agents.node import Outgoing
    from gossamer.agents.statistics import Layout
    from gossamer.agents.wire import Codec

    size = Layout.of(settings).size
    content = Outgoing(time.time_ns() // 1000, time.time_ns() // 1000, True, np.ones((3, size)))
    return len(Codec(0, frozenset(), size, 2, settings.limits).encode(10**6, content))


def measure(kind: str, settings: list[Any], payload: int, seconds: float) -> tuple[float, float, int]:
    """(rounds per second, megabytes per process, rounds without a neighbour) of one fleet."""
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", kind],
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
    return sum(rates) / len(rates), max(r["memory"] for r in results), sum(r["lost"] for r in results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agents", type=int, nargs="+", default=[2, 10, 50])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--worker", choices=["agent", "bare"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker)
        return
    print(
        f"{'agents':>6} {'link':>6} {'agent/s':>9} {'bare/s':>9} {'share':>6} {'MB/agent':>9} {'bytes':>6} {'lost':>5}"
    )
    with tempfile.TemporaryDirectory() as directory:
        from gossamer.agents.certificates import Authority

        authority = Authority.create(Path(directory) / "ca")
        for i in range(max(arguments.agents)):
            authority.issue(f"agent{i}", ["127.0.0.1"])
        for agents in arguments.agents:
            for certificates in (None, authority.directory):
                settings = fleet(agents, certificates)
                payload = payload_bytes(settings[0])
                best: dict[str, float] = {"agent": 0.0, "bare": 0.0}
                memory, lost = 0.0, 0
                for _ in range(arguments.repeat):
                    for kind in best:
                        rate, size, missing = measure(
                            kind, fleet(agents, certificates), payload, arguments.seconds
                        )
                        best[kind] = max(best[kind], rate)
                        if kind == "agent":
                            memory, lost = max(memory, size), lost + missing
                share = best["agent"] / best["bare"]
                missed = "" if share >= TARGET and memory <= MEMORY_TARGET else "  below target"
                print(
                    f"{agents:>6} {'tls' if certificates else 'plain':>6} {best['agent']:>9.0f} {best['bare']:>9.0f} "
                    f"{share:>6.0%} {memory:>9.1f} {payload:>6} {lost:>5}{missed}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
