"""Speed of the core against what a researcher would write with NumPy and SciPy, as ratios within one run.

Both baselines are vectorized over trials and draw their noise from NumPy's Generator, like any careful script.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from numba import prange

import gossamer as gs
from benchmarks import changing
from benchmarks.timing import Row, best, per_round
from gossamer.numerics.compiling import parallel


def numpy_sda(gossip, mean, rounds, trials, eta, zeta, seed=0):
    """SDA, all trials at once; `gossip` dense or CSR. Returns the estimates (N, trials)."""
    rng = np.random.default_rng(seed)
    n = len(mean)
    x, y, average = np.zeros((n, trials)), np.zeros((n, trials)), np.zeros((n, trials))
    burn_in = rounds // 2
    for t in range(rounds):
        theta = x + (mean[:, None] + rng.standard_normal((n, trials)))
        following = x - eta * (gossip @ theta)
        x = following + zeta * (following - y)
        y = following
        if t >= burn_in:
            average += (theta - average) / (t - burn_in + 1)
    return average


def _parameters(net):
    root = np.sqrt(net.condition_number)
    return 1 / net.lambda_max, (root - 1) / (root + 1)


def simulation(name, net, rounds, trials, required, dense=True, baseline_rounds=None) -> list[Row]:
    mean = np.random.default_rng(0).uniform(0, 10, net.agents)
    obs = gs.Gaussian(mean)
    eta, zeta = _parameters(net)
    method = gs.SDA(step_size=eta, momentum=zeta)
    short = baseline_rounds or rounds
    ours = per_round(
        lambda t: gs.simulate(method, net, obs, t, trials=trials, seed=0, keep="errors", progress=False),
        rounds,
    )
    rivals = {"SciPy CSR": net.gossip.tocsr()}
    if dense:
        rivals["NumPy dense"] = net.gossip.toarray()
    times = {
        kind: per_round(lambda t, g=g: numpy_sda(g, mean, t, trials, eta, zeta), short)
        for kind, g in rivals.items()
    }
    better = min(times, key=times.get)
    return [
        Row(
            name,
            f"{ours * 1e9 / (net.agents * trials):.2f} ns per agent-update",
            f"{better}: {times[better] * 1e9 / (net.agents * trials):.2f} ns",
            times[better] / ours,
            required,
        )
    ]


def exact_comparison(required=300) -> list[Row]:
    """SDA, DSG, D-MASG on five graphs and six horizons: all exact, against 100 NumPy trials of the same."""
    nets = [
        gs.Network.path(100),
        gs.Network.cycle(100),
        gs.Network.star(100),
        gs.Network.grid(10, 10),
        gs.Network.erdos_renyi(100, seed=1),
    ]
    mean = np.random.default_rng(0).uniform(0, 10, 100)
    obs = gs.Gaussian(mean)
    horizons = [[gs.DMASG.rounds_for(net, k) for k in range(3, 9)] for net in nets]

    def ours():
        for net, rounds in zip(nets, horizons, strict=True):
            net.__dict__.pop("spectrum", None)  # the decomposition is part of the work
            for method in (gs.SDA(), gs.DSG(), gs.DMASG()):
                gs.exact(method, net, obs, rounds)

    time = best(ours, repeats=5)
    # The NumPy trials are timed for one graph and horizon and scaled to all rounds: SDA stands for all three.
    eta, zeta = _parameters(nets[0])
    each = min(
        per_round(lambda t, g=g: numpy_sda(g, mean, t, 100, eta, zeta), 1000)
        for g in (nets[0].gossip.tocsr(), nets[0].gossip.toarray())
    )
    total = each * 3 * sum(sum(rounds) for rounds in horizons)
    return [
        Row(
            "exact comparison: 3 methods, 5 graphs, 6 horizons",
            f"{time:.3f} s",
            f"100 NumPy trials: {total:.0f} s (scaled from 1000 rounds of the fastest)",
            total / time,
            required,
        )
    ]


def trajectories(required=50) -> list[Row]:
    """SDA's exact error after 1, 2, ..., 1000 rounds in one call, against one call for each; set-up included."""
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 1, 100))
    horizons = range(1, 1001)
    rows = []
    for name, make in {
        "path, 100 agents": lambda: gs.Network.path(100),
        "grid 10x10": lambda: gs.Network.grid(10, 10),
    }.items():
        ours = best(lambda make=make: gs.exact("sda", make(), obs, horizons), repeats=5)

        def one_by_one(make=make):
            net = make()
            for rounds in horizons:
                gs.exact("sda", net, obs, rounds)

        each = best(one_by_one, repeats=2)
        rows.append(
            Row(
                f"exact SDA after 1, ..., 1000 rounds, {name}",
                f"{ours * 1e3:.1f} ms",
                f"one call per horizon: {each:.2f} s",
                each / ours,
                required,
            )
        )
    return rows


def growth() -> list[Row]:
    """Cost per round against the number of edges, N = 10^2 .. 10^6, one trial on a torus."""
    sides = [10, 32, 100, 316, 1000]
    edges, costs = [], []
    for side in sides:
        net = gs.Network.torus(side, side)
        obs = gs.Gaussian(np.zeros(net.agents))
        trials = max(1, 4096 // net.agents)
        cost = per_round(
            lambda t, net=net, obs=obs, trials=trials: gs.simulate(
                "sda", net, obs, t, trials=trials, keep="errors", progress=False
            ),
            max(20, 2**24 // (net.agents * trials)),
        )
        edges.append(len(net.edges))
        costs.append(cost / trials)
    slope = np.polyfit(np.log(edges), np.log(costs), 1)[0]
    cells = ", ".join(
        f"10{'⁰¹²³⁴⁵⁶'[round(np.log10(s * s))]}: {c * 1e9 / (s * s):.1f}"
        for s, c in zip(sides, costs, strict=True)
    )
    return [
        Row(
            "cost per round, as a power of the number of edges",
            f"slope {slope:.2f}",
            f"ns per agent and round, N = {cells}",
            None,
            None,
        )
    ]


def million_exact() -> list[Row]:
    net = gs.Network.path(10**6)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 10**6))
    time = best(lambda: gs.exact(gs.AnytimeSDA(), net, obs, 1500), repeats=2)
    return [Row("exact error of 10⁶ agents, 1500 rounds", f"{time:.1f} s", "-", None, None)]


FIRST_ROUND = """
import resource, sys, time
import numpy as np
import gossamer as gs

side, method = int(sys.argv[1]), gs.SDA(step_size=0.6, momentum=0.9)
mean = np.random.default_rng(0).uniform(0, 10, side * side)

def whole(side):
    start = time.perf_counter()
    gs.simulate(method, gs.Network.grid(side, side), gs.Gaussian(mean[: side**2]), 1, 1, keep="errors", progress=False)
    return time.perf_counter() - start

whole(150)  # loads the compiled code
print(whole(side), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def first_round(side: int, seconds: float) -> Row:
    """A network, its streams and one round, in a process of its own: seconds, and memory at its peak."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", FIRST_ROUND, str(side)], capture_output=True, text=True, check=True
        )
        for _ in range(3)
    ]
    time, memory = min(tuple(map(float, run.stdout.split())) for run in runs)
    return Row(
        f"grid {side}x{side}: network, streams and first round",
        f"{time:.2f} s, peak {memory:.1f} GB",
        f"limits {seconds:g} s and 2 GB",
        min(seconds / time, 2 / memory),
        1,
    )


@parallel
def _triad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    for i in prange(a.size):
        a[i] = b[i] + 3.0 * c[i]


def roofline(side: int = 1000, rounds: int = 60, registers: int = 3) -> Row:
    """The memory traffic that one round after another would need, next to what the memory gives to a triad.

    Per agent and round: registers are read and written, a message is read and another one written (its line is fetched
    first), two rounds of noise and a mean are read, and every fourth round writes four of noise. Rounds that are played
    in the cache move less, so the ratio can exceed 1.
    """
    agents, size = side * side, 8
    bytes_each = size * (2 * registers + 1 + 2 + 2 + 1 + 2)
    a, b, c = (np.ones(2**24) for _ in range(3))
    bandwidth = (
        4 * a.nbytes / best(lambda: _triad(a, b, c), repeats=5)
    )  # the line written to is fetched first
    net = gs.Network.grid(side, side)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, agents))
    method = gs.SDA(step_size=0.6, momentum=0.9)
    time = per_round(lambda t: gs.simulate(method, net, obs, t, 1, keep="errors", progress=False), rounds)
    achieved = bytes_each * agents / time
    return Row(
        f"roofline, grid {side}x{side}: {bytes_each} bytes per agent and round",
        f"{achieved / 1e9:.1f} GB/s",
        f"triad: {bandwidth / 1e9:.1f} GB/s",
        achieved / bandwidth,
        1 / 1.5,
    )


def rows() -> list[Row]:
    return [
        *simulation("path, 100 agents x 100 trials x 1000 rounds", gs.Network.path(100), 1000, 100, 6),
        *simulation(
            "grid 100x100 x 100 trials",
            gs.Network.grid(100, 100, weights="laplacian"),
            60,
            100,
            6,
            dense=False,
        ),
        *simulation(
            "grid 1000x1000, Metropolis weights, one trial",
            gs.Network.grid(1000, 1000),
            60,
            1,
            4,
            dense=False,
        ),
        roofline(),
        first_round(1000, 0.5),
        first_round(3162, 4),
        *exact_comparison(),
        *trajectories(),
        *changing.rows(),
        *growth(),
        *million_exact(),
    ]
