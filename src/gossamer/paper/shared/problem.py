"""The paper's problem: five networks, means uniform on [0, b], Gaussian noise of variance 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gossamer.arrays import Floats, Integers
from gossamer.engines.results import OneOrMore, TrialResult
from gossamer.engines.simulate import simulate
from gossamer.methods import Method
from gossamer.networks import ChangingNetwork, Network
from gossamer.observations import Gaussian
from gossamer.paper.pipeline.results import Row
from gossamer.plotting import half_width

GRAPHS = ("path", "cycle", "star", "grid", "erdos-renyi")
"""From the least to the best connected."""

TITLES = {
    "path": "Path",
    "cycle": "Cycle",
    "star": "Star",
    "grid": "Square grid",
    "erdos-renyi": "Erdős–Rényi",
}


def network(graph: str, agents: int, seed: int = 0, draw: int = 0) -> Network:
    """Return one of the five networks; only the random graph depends on seed and draw."""
    if graph == "grid":
        side = math.isqrt(agents)
        return Network.grid(side, side)
    if graph == "erdos-renyi":
        return Network.erdos_renyi(
            agents, seed=int(np.random.SeedSequence([seed, draw]).generate_state(1)[0])
        )
    return {"path": Network.path, "cycle": Network.cycle, "star": Network.star}[graph](agents)


def means(agents: int, spread: float, seed: int, draw: int = 0) -> Floats:
    """Return (N,) means, uniform on [0, spread]. The figures show draw 0."""
    return spread * np.random.default_rng([seed, draw]).random(agents)


def observations(agents: int, spread: float, seed: int, draw: int = 0) -> Gaussian:
    return Gaussian(means(agents, spread, seed, draw), 1.0)


def run(
    method: Method,
    net: Network | ChangingNetwork,
    obs: Gaussian,
    rounds: int | Sequence[int] | Integers,
    **options: Any,
) -> TrialResult[OneOrMore, OneOrMore]:
    """Simulate without a progress bar; an interrupt stops the piece, so that no partial result is stored."""
    result: TrialResult[OneOrMore, OneOrMore] = simulate(method, net, obs, rounds, progress=False, **options)
    if result.partial:
        raise KeyboardInterrupt
    return result


def first_at_most(errors: Floats, epsilon: float) -> int | None:
    """Return the first T = 1, 2, ... whose error is at most epsilon, or None."""
    good = np.flatnonzero(errors <= epsilon)
    return int(good[0]) + 1 if good.size else None


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Return the least-squares slope of ln y against ln x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def described(experiment: str, graph: str, agents: int, spread: float, seed: int, **more: object) -> Row:
    """Return the columns that say what a row is about; the first draw of the means unless `more` says otherwise."""
    about = {"experiment": experiment, "graph": graph, "agents": agents, "spread": spread, "seed": seed}
    return {**about, "draw": 0, **more}


def around(mean: float, stderr: float, trials: int) -> dict[str, float]:
    """Return the columns of a simulated mean with its 95% interval."""
    half = float(half_width(stderr, trials))
    return {"value": mean, "low": mean - half, "high": mean + half}
