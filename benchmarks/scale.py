"""Large networks over MPI ranks, next to one process with as many threads; and peers on a job that all can do.

    python -m benchmarks scale

A peer runs if the interpreter that GOSSAMER_PEERS names, or this one, can import it; the others are named and left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import gossamer as gs
from benchmarks.peers import PEERS
from benchmarks.timing import Row, best

ROUNDS = 60

PROGRAM = """
import json, resource, sys, time
import numpy as np
import gossamer as gs

name, rounds, kind, cluster = sys.argv[1], int(sys.argv[2]), getattr(np, sys.argv[3]), sys.argv[4] == "ranks"
method = gs.SDA(step_size=0.6, momentum=0.9)

def streams(agents):
    return gs.Gaussian(np.sin(np.arange(agents.start, agents.stop)))

def whole(name):
    if cluster:
        gs.simulate(method, name, streams, rounds, 1, dtype=kind, progress=False, cluster=comm)
    else:
        network = gs.Network.named(name)
        given = streams(range(network.agents))
        gs.simulate(method, network, given, rounds, 1, dtype=kind, keep="errors", progress=False)

if cluster:
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
whole("grid:150x150")  # loads the compiled code
times = []
for _ in range(int(sys.argv[5])):
    start = time.perf_counter()
    whole(name)
    times.append(time.perf_counter() - start)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
if cluster:
    memory = comm.allreduce(memory)
if not cluster or comm.rank == 0:
    print(json.dumps([min(times), memory]))
"""


def run(
    name: str, ranks: int, *, rounds: int = ROUNDS, kind: str = "float64", repeats: int = 2
) -> list[float]:
    """Seconds of a whole call, and GB of all processes; with 0 ranks, in one process with a thread per core."""
    command = [sys.executable, "-c", PROGRAM, name, str(rounds), kind]
    if ranks:
        command = [str(mpiexec()), "-n", str(ranks), *command, "ranks", str(repeats)]
    else:
        command += ["threads", str(repeats)]
    settings = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm",
    }
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=True, timeout=600
    )
    found: list[float] = json.loads(done.stdout)
    return found


def mpiexec() -> str | None:
    return shutil.which(
        "mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )


def cluster_rows(side: int = 3000) -> Iterator[Row]:
    if mpiexec() is None:
        print("no mpiexec: install gossamer[mpi] for the rows of ranks", file=sys.stderr)
        return
    whole = f"grid:{side}x{side}"
    threads, _ = run(whole, 0)
    two, memory = run(whole, 2)
    yield Row(
        f"grid {side}x{side}, {ROUNDS} rounds: 2 ranks",
        f"{two:.2f} s, {memory:.1f} GB",
        f"one process, 2 threads: {threads:.2f} s",
        threads / two,
        0.9,
    )
    half, _ = run(f"grid:{side // 2}x{side}", 1)
    yield Row(
        "weak scaling: twice the agents on 2 ranks", f"{two:.2f} s", f"1 rank: {half:.2f} s", half / two, 0.85
    )
    agents, rounds = side * side, 4
    base = run("torus:150x150", 2, rounds=rounds, kind="float32", repeats=1)[1]
    seconds, memory = run(f"torus:{side}x{side}", 2, rounds=rounds, kind="float32", repeats=1)
    each = (memory - base) * 2**30 / agents
    whole_torus = base + each * 10**8 / 2**30
    yield Row(
        f"torus {side}x{side}, float32, {rounds} rounds, 2 ranks: memory",
        f"{each:.0f} bytes per agent, so {whole_torus:.1f} GB for 10⁸ agents ({seconds:.1f} s here)",
        "limit 20 GB",
        20 / whole_torus,
        1,
    )


def peer_rows() -> Iterator[Row]:
    """The average of what 100 agents on a path know, after 1000 rounds of plain gossip, without noise."""
    python = os.environ.get("GOSSAMER_PEERS", sys.executable)
    network = gs.Network.path(100)
    known = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 100), 0.0)
    ours = best(
        lambda: gs.simulate("linear", network, known, 1000, 1, keep="errors", progress=False), repeats=5
    )
    for name, program in PEERS.items():
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=300)
        if done.returncode:
            print(f"{name}: skipped ({done.stderr.strip().splitlines()[-1]})", file=sys.stderr)
            continue
        version, seconds = done.stdout.split()[-2:]
        yield Row(
            "path, 100 agents, 1000 rounds of plain averaging",
            f"{ours * 1e3:.2f} ms",
            f"{name} {version}: {float(seconds) * 1e3:.3g} ms",
            float(seconds) / ours,
            None,
        )


def rows() -> list[Row]:
    return [*cluster_rows(), *peer_rows()]
