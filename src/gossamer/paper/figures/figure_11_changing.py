"""Figure 11, ours: networks that change (the paper's first open question).

Agents move, meet in pairs or lose most of their edges every round, and know nothing about the network. Shown are the
local form of Anytime SDA with the edge ledger, DSG with the Metropolis weights of each round, and the centralized
limit.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gossamer.arrays import Floats
from gossamer.methods import DSG, AnytimeSDA
from gossamer.networks import ChangingNetwork, Network
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import span
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

TITLES = {
    "mobile": "Mobile, dense",
    "sparse": "Mobile, sparse",
    "matchings": "One matching per round",
    "dropout": "Grid, 20% of edges",
}
METHODS = {"local": AnytimeSDA("local"), "dsg": DSG()}
HORIZONS = (30, 60, 100, 200, 300, 600, 1000, 2000, 3000)
MOST_TRIALS = 40


def changing(graph: str, agents: int, seed: int) -> ChangingNetwork:
    """Return one of the four networks; radii are scaled so that the number of neighbors does not depend on the size."""
    reach = math.sqrt(60 / agents)
    if graph == "mobile":
        return ChangingNetwork.mobile(agents, radius=0.2 * reach, speed=0.01, seed=seed)
    if graph == "sparse":
        return ChangingNetwork.mobile(agents, radius=0.12 * reach, speed=0.01, seed=seed)
    if graph == "matchings":
        return ChangingNetwork.matchings(agents, seed=seed)
    side = math.isqrt(agents)
    return ChangingNetwork.dropout(Network.grid(side, side), 0.2, seed=seed)


def changing_networks(graph: str, agents: int, spread: float, trials: int, seed: int) -> list[Row]:
    """Return simulated errors of both methods on one changing network."""
    net, obs = changing(graph, agents, seed), problem.observations(agents, spread, seed)
    about = {"quantity": "total_error", "source": "simulation", "trials": trials}
    base = problem.described("changing", graph, agents, spread, seed, **about)
    rows: list[Row] = []
    for name, method in METHODS.items():
        runs = problem.run(method, net, obs, HORIZONS, trials=trials, seed=seed, keep="errors")
        for t, value, error in zip(HORIZONS, runs.total_error, runs.stderr, strict=True):
            rows.append(
                {**base, "method": name, "rounds": t, **problem.around(float(value), float(error), trials)}
            )
    return rows


def pieces(settings: Settings) -> list[Piece]:
    s = settings
    common = {"agents": s.agents, "spread": s.spread, "trials": min(s.trials, MOST_TRIALS), "seed": s.seed}
    return [
        Piece(f"changing-{graph}", changing_networks, {"graph": graph, **common}, 3.0) for graph in TITLES
    ]


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL, 2.6)
    for ax, graph in zip(drawn.subplots(1, 4, sharey=True), TITLES, strict=True):
        for name in METHODS:
            runs = results.where(graph=graph, method=name).sort("rounds")
            rounds = runs.column("rounds")
            style.line(ax, style.MARKS[name], rounds, runs.column("value") * rounds, linewidth=0.8)
            style.points(ax, style.MARKS[name], rounds, runs, partial(np.multiply, rounds))
        ax.axhline(1, color=style.GRAY, linewidth=0.9, zorder=1)
        ax.set(xscale="log", yscale="log", xlabel="rounds $T$")
        ax.set_title(TITLES[graph])
    drawn.axes[0].set_ylabel("error, as a multiple of\nthe centralized limit $\\sigma^2/T$")
    keys = [style.key(style.MARKS[name]) for name in (*METHODS, "centralized limit")]
    drawn.legend(handles=keys, loc="outside upper center", ncols=3, handlelength=3)
    return drawn


def multiples(results: Results, method: str, rounds: int) -> Floats:
    """Return (4,) errors as multiples of the centralized limit, one per network."""
    errors = [results.where(graph=graph, method=method, rounds=rounds).column("value")[0] for graph in TITLES]
    return np.array(errors) * rounds


def explain(results: Results, settings: Settings) -> str:
    early, late = 600, HORIZONS[-1]
    last = results.where(method="local", rounds=late)
    interval = float(np.max((last.column("high") - last.column("low")) / 2)) * late
    return (
        "With edges that come and go every round, the local form of Anytime SDA is at "
        f"{span(multiples(results, 'local', early), 3)} times the centralized limit after {early} rounds and at "
        f"{span(multiples(results, 'local', late), 3)} after {late} (95% intervals of up to ±{interval:.2f}); DSG with "
        f"the same edges is at {span(multiples(results, 'dsg', late), 3)} then. "
        "Neither knows anything about the network except its current neighbors."
    )


FIGURE = Figure("11", "Networks that change", pieces, draw, explain, ours=True)
