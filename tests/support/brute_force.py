"""Tuning by brute force: a dense grid over all parameters, then descents from its best points. Slow and obvious.

What it finds for `CASES` takes minutes, so brute_force.json keeps it;
`python -m tests.support.brute_force` writes it anew.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
from scipy.optimize import minimize

import gossamer as gs
from gossamer.engines.exact import Runs, integrate, measures
from gossamer.methods import tabulate_all

FOUND = Path(__file__).with_suffix(".json")
CASES = [0, 2, 3, 7, 12]

GRIDS = {
    "step_size": np.geomspace(1e-5, 10, 70),  # in units of 1/lambda_max
    "momentum": np.concatenate([np.linspace(0, 0.95, 20), 1 - np.geomspace(0.03, 1e-6, 14)]),
    "smoothing": np.concatenate([[0], np.geomspace(1.2, 400, 14)]),
}


def brute_force(method, net, obs, rounds, starts=8):
    """The least exact error that a dense search over the method's parameters finds."""
    names = [name for name in method.tunable(net, rounds) if name != "burn_in"]
    over = measures(net, obs)
    grids = [GRIDS[name] / (net.lambda_max if name == "step_size" else 1) for name in names]
    burn_ins = [{}]
    if isinstance(method, gs.SDA):
        burn_ins = [{"burn_in": k} for k in np.unique(np.linspace(0, rounds - 1, 9).astype(int)).tolist()]
    candidates = [
        replace(method, **extra, **dict(zip(names, map(float, point), strict=True)))
        for extra in burn_ins
        for point in itertools.product(*grids)
    ]
    errors = []
    for k in range(0, len(candidates), 500):
        runs = Runs.of(tabulate_all(candidates[k : k + 500], net, rounds), rounds)
        with np.errstate(all="ignore"):
            found = integrate([runs], net, obs, over)
            errors.append(found.bias + found.variance)
    errors = np.nan_to_num(np.concatenate(errors), nan=np.inf)
    return min(_refined(candidates[k], names, net, obs, rounds) for k in np.argsort(errors)[:starts])


def _refined(best, names, net, obs, rounds):
    """Nelder-Mead over the continuous parameters, and every burn-in, in turns; by `gs.exact` alone."""

    def error(candidate):
        with np.errstate(all="ignore"):
            found = gs.exact(candidate, net, obs, rounds).total_error
        return found if np.isfinite(found) else np.inf

    least = error(best)
    for _ in range(2 if isinstance(best, gs.SDA) else 1):
        if isinstance(best, gs.SDA):
            near = range(max(0, best.burn_in - rounds // 8), min(rounds, best.burn_in + rounds // 8 + 1))
            least, burn_in = min((error(replace(best, burn_in=k)), k) for k in [*near, 0])
            best = replace(best, burn_in=burn_in)
        scale = np.array([max(getattr(best, name), 1e-3) for name in names])

        def at(x, best=best, scale=scale):
            values = dict(zip(names, np.abs(x * scale).tolist(), strict=True))
            if "momentum" in values:
                values["momentum"] = min(values["momentum"], 1.0)
            return replace(best, **values)

        found = minimize(
            lambda x: np.log(max(min(error(at(x)), 1e300), 1e-300)),
            [getattr(best, name) / s for name, s in zip(names, scale, strict=True)],
            method="Nelder-Mead",
            options={"maxiter": 60 * len(names), "xatol": 1e-4, "fatol": 1e-5},
        )
        if error(at(found.x)) < least:
            best, least = at(found.x), error(at(found.x))
    return least


def random_case(seed):
    """A network of at most 30 agents, observations with little or much noise and spread, rounds and a method."""
    rng = np.random.default_rng([11, seed])
    n = int(rng.integers(6, 31))
    kinds = [
        lambda: nx.barbell_graph(max(3, n // 3), n // 4),
        lambda: nx.path_graph(n),
        lambda: nx.star_graph(n - 1),
        lambda: nx.cycle_graph(n),
        lambda: nx.lollipop_graph(max(3, n // 2), n // 3),
        lambda: nx.random_labeled_tree(n, seed=seed),
        lambda: nx.connected_watts_strogatz_graph(n, 4, 0.3, seed=seed),
        lambda: nx.full_rary_tree(2, n),
        lambda: nx.compose(nx.gnp_random_graph(n, 0.25, seed=seed), nx.path_graph(n)),
    ]
    graph = kinds[int(rng.integers(len(kinds)))]()
    net = gs.Network.from_networkx(graph)
    spread, noise = (float(10.0 ** rng.integers(-2, 2)) for _ in range(2))
    mean = rng.uniform(0, spread, net.agents) + (rng.uniform(0, 5) if rng.random() < 0.3 else 0.0)
    rounds = int(np.exp(rng.uniform(np.log(10), np.log(300))))
    methods = [gs.SDA(), gs.AnytimeSDA(), gs.AnytimeSDA("chebyshev"), gs.DASG()]
    return methods[seed % 4], net, gs.Gaussian(mean, noise), rounds


if __name__ == "__main__":
    found = {}
    for seed in CASES:
        found[seed] = brute_force(*random_case(seed))
        print(seed, found[seed], flush=True)
    FOUND.write_text(json.dumps(found, indent=1) + "\n")
