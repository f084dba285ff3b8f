"""Figure 1: the five networks, and how well each is connected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from matplotlib.collections import LineCollection

from gossamer.networks.drawing import positions_of
from gossamer.networks.layout import fitted
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import (
    Claim,
    Finding,
    by_share,
    extremes,
    interval,
    listed,
    middle,
    number,
    percent,
    share,
    verdict,
)
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import problem
from gossamer.paper.shared.problem import GRAPHS, TITLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

PAPER = {"path": 4052, "cycle": 1013, "star": 100, "grid": 76, "erdos-renyi": 11}
"""kappa(L) for N = 100, as given in the paper."""


def measure(graph: str, agents: int, seed: int, draws: int) -> list[Row]:
    """Return kappa and two properties of the weight matrix W; for the random graph also kappa of many draws."""
    rows: list[Row] = []
    for draw in range(draws + 1 if graph == "erdos-renyi" else 1):
        net = problem.network(graph, agents, seed, draw)
        base = {
            "experiment": "networks",
            "graph": graph,
            "agents": agents,
            "draw": draw,
            "seed": seed,
            "source": "exact",
        }
        rows.append({**base, "quantity": "condition number", "value": net.condition_number})
        if draw == 0:
            weights = np.eye(agents) - net.gossip.toarray()
            apart = weights - 1 / agents
            rows.append({**base, "quantity": "norm of W - J", "value": float(np.linalg.norm(apart, 2))})
            off = max(np.abs(weights - weights.T).max(), np.abs(weights.sum(axis=1) - 1).max())
            rows.append({**base, "quantity": "asymmetry of W", "value": float(off)})
    return rows


def connected(agents: int, seed: int, draws: int) -> list[Row]:
    """Return the share of random graphs that are connected without a redraw."""
    p = 2 * math.log(agents) / agents
    seeds = np.random.default_rng([seed, agents]).integers(2**31, size=draws)
    hits = [nx.is_connected(nx.gnp_random_graph(agents, p, seed=int(s))) for s in seeds]
    part, low, high = share(hits)
    base = {
        "experiment": "networks",
        "graph": "erdos-renyi",
        "agents": agents,
        "seed": seed,
        "source": "draws",
        "trials": draws,
    }
    return [
        {**base, "quantity": "connected", "value": part, "low": low, "high": high},
        {**base, "quantity": "edge probability", "value": p},
    ]


def pieces(settings: Settings) -> list[Piece]:
    n, seed, draws = settings.agents, settings.seed, settings.draws
    parts = []
    for graph in GRAPHS:
        work = {"graph": graph, "agents": n, "seed": seed, "draws": draws}
        parts.append(Piece(f"networks-{graph}", measure, work, 2.0 if graph == "erdos-renyi" else 0.1))
    every = {"agents": n, "seed": seed, "draws": 10 * draws}
    return [*parts, Piece("networks-connected", connected, every, 1.5)]


# -- the picture -------------------------------------------------------------------------------------------


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL, 1.85)
    axes = drawn.subplots(1, 5)
    mean = problem.means(settings.agents, settings.spread, settings.seed)
    for ax, graph in zip(axes, GRAPHS, strict=True):
        net = problem.network(graph, settings.agents, settings.seed)
        places = 2 * fitted(positions_of(net)) - 1
        ax.add_collection(
            LineCollection(list(places[net.edges]), colors=style.GRAY, linewidths=0.45, alpha=0.8, zorder=1)
        )
        size = 600 / settings.agents
        shades = ax.scatter(
            *places.T, c=mean, cmap="viridis", s=size, linewidths=0.3, edgecolors="white", zorder=2,
            vmin=0, vmax=settings.spread,
        )  # fmt: skip
        ax.set_aspect("equal")
        ax.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08))
        ax.axis("off")
        kappa = results.value(graph=graph, draw=0, quantity="condition number")
        ax.set_title(f"{TITLES[graph]}\n$\\kappa$ = {kappa:.4g}")
    bar = drawn.colorbar(shades, ax=axes, orientation="vertical", fraction=0.02, pad=0.01, aspect=18)
    bar.set_label(r"mean $\mu_i$")
    bar.outline.set_visible(False)
    return drawn


def explain(results: Results, settings: Settings) -> str:
    kappas = {TITLES[g]: results.value(graph=g, draw=0, quantity="condition number") for g in GRAPHS}
    random = results.where(graph="erdos-renyi", quantity="condition number").column("value")
    return (
        f"The five networks of {settings.agents} agents, from the least to the best connected: {listed(kappas, 4)}; "
        "an agent's color is the mean of what it observes. "
        f"The random graph differs from draw to draw: κ is {interval(*middle(random))} "
        f"(median and 5–95% of {len(random)} draws)."
    )


# -- the claims --------------------------------------------------------------------------------------------


def _kappas(results: Results, settings: Settings) -> Finding | None:
    if settings.agents != 100:
        return None
    kappas = {g: results.value(graph=g, draw=0, quantity="condition number") for g in GRAPHS}
    fixed = max(abs(kappas[g] / PAPER[g] - 1) for g in GRAPHS[:-1])
    random = results.where(graph="erdos-renyi", quantity="condition number").column("value")
    center, low, high = middle(random)
    rare = float(np.mean(random >= PAPER["erdos-renyi"]))
    return Finding(
        verdict(fixed < 0.01, caveat=rare < 0.5),
        center,
        low,
        high,
        f"{listed({TITLES[g]: kappas[g] for g in GRAPHS[:-1]}, 4)}; Erdős–Rényi {interval(center, low, high)}",
        f"the four fixed graphs agree within {100 * fixed:.1f}%; a random graph with κ ≥ {PAPER['erdos-renyi']} is "
        f"drawn {100 * rare:.0f}% of the time",
    )


def _decreasing(results: Results, settings: Settings) -> Finding:
    fixed = [results.value(graph=g, draw=0, quantity="condition number") for g in GRAPHS[:-1]]
    random = results.where(graph="erdos-renyi", quantity="condition number").column("value")
    ordered = np.all(np.diff(fixed) < 0) & (random < fixed[-1])
    part, low, high = share(ordered)
    return Finding(
        by_share(ordered), part, low, high, percent(part, low, high) + " of draws in that order",
        f"κ: {' > '.join(number(k, 3) for k in fixed)} > {interval(*middle(random))}",
    )  # fmt: skip


def _connected(results: Results, settings: Settings) -> Finding:
    row = results.where(quantity="connected")
    part, low, high = (float(row.column(name)[0]) for name in ("value", "low", "high"))
    p, draws = results.value(quantity="edge probability"), int(row.column("trials")[0])
    return Finding(
        verdict(low > 0.9), part, low, high, f"{100 * part:.1f}% ({100 * low:.1f}–{100 * high:.1f}%) connected",
        f"{draws} draws with p = {p:.4f}",
    )  # fmt: skip


def _mixing(results: Results, settings: Settings) -> Finding:
    norms = [results.value(graph=g, quantity="norm of W - J") for g in GRAPHS]
    off = max(results.value(graph=g, quantity="asymmetry of W") for g in GRAPHS)
    low, high = extremes(norms)
    return Finding(
        verdict(high < 1 and off < 1e-12), high, low, high, f"‖W − 11ᵀ/N‖ from {low:.4f} to {high:.6f}",
        f"symmetric, unit row sums (to within {number(off, 1)}), norm below 1 on all five graphs",
    )  # fmt: skip


CLAIMS = (
    Claim(
        "kappas",
        "Sec. 5",
        "For N = 100, κ(L) is about 4052, 1013, 100, 76 and 11 on the five graphs.",
        _kappas,
    ),
    Claim(
        "decreasing",
        "Sec. 5",
        "With the same N, κ(L) decreases from the path to the random graph.",
        _decreasing,
    ),
    Claim(
        "connected",
        "Sec. 5 (5)",
        "With p = 2 ln N/N the random graph is connected with high probability.",
        _connected,
    ),
    Claim(
        "weights",
        "App. Implementation",
        "Metropolis–Hastings weights are symmetric, preserve averages, and mix.",
        _mixing,
    ),
)

FIGURE = Figure("1", "The five networks", pieces, draw, explain, CLAIMS)
