"""Other packages of the field on the job that all of them can do: 100 agents on a path average what each of them knows,
1000 rounds, no noise. Each program prints the package's version and its fastest time of three, in seconds."""

from __future__ import annotations

TVOPT = """
import time
from importlib.metadata import version
import numpy as np
from tvopt import distributed_solvers, networks

network = networks.Network(np.diag(np.ones(99), 1) + np.diag(np.ones(99), -1))
known = np.random.default_rng(0).uniform(0, 10, (1, 100))
times = []
for _ in range(3):
    start = time.perf_counter()
    distributed_solvers.average_consensus(network, known, 1000)
    times.append(time.perf_counter() - start)
print(version("tvopt"), min(times))
"""

DISROPT = """
import disropt
raise SystemExit("every agent is an MPI rank of its own, and 100 ranks are more than this machine has cores")
"""

PEERS = {
    "tvopt": TVOPT,
    "disropt": DISROPT,
    "nda": "import nda.optimizers\nraise SystemExit('no program for it is written here')",
    "decent-bench": "import decent_bench\nraise SystemExit('no program for it is written here')",
}
