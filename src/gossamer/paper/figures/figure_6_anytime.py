"""Figure 6, ours: what the paper's method leaves on the table.

The experiments of Figures 2-4 again with Anytime SDA, next to two limits: what a center that sees all samples would
achieve, and what any unbiased estimate can achieve while information travels one edge per round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

from gossamer.arrays import Floats
from gossamer.engines.exact import exact
from gossamer.methods import AnytimeSDA
from gossamer.networks import Network
from gossamer.numerics.search import first_true
from gossamer.observations import Gaussian
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import span
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import convergence, problem, samples
from gossamer.paper.shared.complexity import examined, first_passages
from gossamer.paper.shared.modes import EverySDA
from gossamer.paper.shared.problem import GRAPHS, TITLES, around, described, first_at_most
from gossamer.plotting import log_ticks
from gossamer.theory import centralized_limit, network_limit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

METHODS = {name: AnytimeSDA(name) for name in ("nesterov", "chebyshev", "heavy-ball", "local")}
CURVES = ("sda", *METHODS, "network limit")
GRID, MOST_TRIALS = 48, 40


def anytime_convergence(
    graph: str, agents: int, spread: float, stages: Sequence[int], trials: int, seed: int
) -> list[Row]:
    """Return exact errors (SDA, all accelerations, both limits) on a grid of T, and simulations at the paper's T."""
    net = problem.network(graph, agents, seed)
    obs = problem.observations(agents, spread, seed)
    marked = convergence.horizons(net, stages)
    grid = np.unique(np.geomspace(max(2, marked[0] // 8), marked[-1], GRID).astype(int))
    base = described("anytime", graph, agents, spread, seed, quantity="total_error")
    errors = {"sda": EverySDA(net, marked[-1]).total_error(obs.mean.T)[:, 0]}
    rows: list[Row] = []
    for name, method in METHODS.items():
        errors[name] = exact(method, net, obs, range(1, marked[-1] + 1)).total_error
        runs = problem.run(method, net, obs, marked, trials=trials, seed=seed, keep="errors")
        for t, value, error in zip(marked, runs.total_error.tolist(), runs.stderr.tolist(), strict=True):
            common = {**base, "method": name, "rounds": t, "source": "simulation", "trials": trials}
            rows.append({**common, **around(value, error, trials)})
    for t in np.union1d(grid, marked).tolist():
        values = {name: float(curve[t - 1]) for name, curve in errors.items()}
        values["network limit"] = float(network_limit(net, obs, t))
        values["centralized limit"] = centralized_limit(obs, t)
        rows += [
            {**base, "method": name, "rounds": t, "source": "exact", "value": value}
            for name, value in values.items()
            if math.isfinite(value)
        ]
    return rows


def anytime_samples(
    graph: str, agents: int, spread: float, epsilons: Sequence[float], trials: int, seed: int
) -> list[Row]:
    """Return the samples needed for every accuracy: exactly, by the protocol, and at least by either limit."""
    net = problem.network(graph, agents, seed)
    obs = problem.observations(agents, spread, seed)
    base = described("anytime", graph, agents, spread, seed, quantity="samples")
    rows: list[Row] = []
    for name, method in METHODS.items():
        errors = _until(method, net, obs, min(epsilons))
        firsts = [first_at_most(errors, eps) for eps in epsilons]
        assert None not in firsts
        rows += [
            {**base, "method": name, "source": "exact", "epsilon": eps, "rounds": t, "value": t}
            for eps, t in zip(epsilons, firsts, strict=True)
        ]
        horizons = examined(math.ceil(1.6 * max(t for t in firsts if t)))
        runs = problem.run(method, net, obs, horizons, trials=trials, seed=seed, keep="errors")
        rows += [
            {**base, "method": name, "source": "protocol", "trials": trials, **row}
            for row in first_passages(horizons, runs.errors, epsilons, seed)
        ]
    for eps in epsilons:
        center = math.ceil(1 / eps)
        rows.append(
            {**base, "method": "centralized limit", "source": "exact", "epsilon": eps, "value": center}
        )
        edge = _first_allowed(net, obs, eps)
        rows.append({**base, "method": "network limit", "source": "exact", "epsilon": eps, "value": edge})
    return rows


def _until(method: AnytimeSDA, net: Network, obs: Gaussian, least: float) -> Floats:
    """Return exact errors after 1, 2, ... rounds until `least` is reached."""
    rounds = math.ceil(1.2 / least)
    while True:
        errors = exact(method, net, obs, range(1, rounds + 1)).total_error
        if errors[-1] <= least:
            return errors
        rounds *= 2


def _first_allowed(net: Network, obs: Gaussian, epsilon: float) -> int:
    """Return the first T whose network limit, which falls with T, is at most epsilon."""
    return first_true(lambda t: bool(network_limit(net, obs, t) <= epsilon))


def pieces(settings: Settings) -> list[Piece]:
    s = settings
    common = {"agents": s.agents, "trials": min(s.trials, MOST_TRIALS), "seed": s.seed}
    both = [*s.large, *s.small]
    parts = [*convergence.main_pieces(s, ["sda"]), *samples.main_pieces(s)]
    for graph in GRAPHS:
        work = dict(graph=graph, spread=s.spread, stages=list(s.stages), **common)
        parts.append(Piece(f"anytime-convergence-{graph}", anytime_convergence, work, 1.5))
        work = dict(graph=graph, spread=s.small_spread, epsilons=both, **common)
        parts.append(Piece(f"anytime-samples-{graph}", anytime_samples, work, 1.7))
    return parts


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL + 0.6, 4.1)
    axes = drawn.subplots(2, 5, sharey="row")
    need = results.where(quantity="samples", draw=0, method=CURVES)
    top = 1.6 * float((need.column("value") * need.column("epsilon")).max())
    for column, graph in enumerate(GRAPHS):
        rows = results.where(graph=graph, draw=0)
        _errors(axes[0, column], rows)
        _samples(axes[1, column], rows, settings, top)
        axes[0, column].set_title(TITLES[graph])
    axes[0, 0].set_ylabel("error, as a multiple of\nthe centralized limit $\\sigma^2/T$")
    axes[1, 0].set_ylabel("samples, as a multiple of\nthe centralized need $\\sigma^2/\\varepsilon$")
    for ax in axes[0]:
        ax.set_xlabel("rounds $T$")
    for ax in axes[1]:
        ax.set_xlabel(r"accuracy $\varepsilon$")
    for ax in axes[:, 0]:
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    keys = [style.key(style.MARKS[name]) for name in (*CURVES, "centralized limit")]
    drawn.legend(handles=keys, loc="outside upper center", ncols=4, handlelength=3, columnspacing=1.4)
    return drawn


def _errors(ax: Axes, results: Results) -> None:
    total = results.where(quantity="total_error").sort("rounds")
    for name in CURVES:
        truth = total.where(experiment="anytime", method=name, source="exact")
        mark, rounds = style.MARKS[name], truth.column("rounds")
        style.line(ax, mark, rounds, truth.column("value") * rounds)
        experiment = "convergence" if name == "sda" else "anytime"
        runs = total.where(experiment=experiment, method=name, source="simulation")
        if len(runs):
            rounds = runs.column("rounds")
            style.points(ax, mark, rounds, runs, partial(np.multiply, rounds))
    ax.axhline(1, color=style.GRAY, linewidth=0.9, zorder=1)
    ax.set(xscale="log", yscale="log", ylim=(0.6, 3000))
    log_ticks(ax.xaxis, room=17)


def _samples(ax: Axes, results: Results, settings: Settings, top: float) -> None:
    rows = results.where(quantity="samples").sort("epsilon")
    for name in CURVES:
        mark = style.MARKS[name]
        truth = rows.where(method=name, source="exact")
        runs = rows.where(method=name, source="protocol")
        for part in (settings.large, settings.small):
            exactly = truth.where(epsilon=tuple(part))
            style.line(
                ax, mark, exactly.column("epsilon"), exactly.column("value") * exactly.column("epsilon")
            )
        # Where the two groups of accuracies are far apart, a faint line joins them.
        style.line(
            ax, mark, truth.column("epsilon"), truth.column("value") * truth.column("epsilon"), alpha=0.35
        )
        if len(runs):
            eps = runs.column("epsilon")
            style.points(ax, mark, eps, runs, partial(np.multiply, eps))
    ax.axhline(1, color=style.GRAY, linewidth=0.9, zorder=1)
    ax.set(xscale="log", yscale="log", ylim=(0.6, top))
    ax.set_yticks([tick for tick in (1, 2, 5, 10, 20, 50, 100) if tick <= top])
    ax.yaxis.set_minor_formatter(NullFormatter())
    log_ticks(ax.xaxis, room=17)
    ax.invert_xaxis()


def gains(results: Results, method: str) -> Floats:
    """Return (graph, T) ratios of SDA's error to this method's, at the paper's T."""
    results = results.where(quantity="total_error", source="exact", draw=0)
    rounds = [
        results.where(experiment="convergence", method="sda", graph=g).sort("rounds").column("rounds")
        for g in GRAPHS
    ]
    results = results.where(experiment="anytime")
    ratios = []
    for graph, wanted in zip(GRAPHS, rounds, strict=True):
        rows = results.where(graph=graph, rounds=tuple(wanted.tolist())).sort("rounds")
        ratios.append(rows.where(method="sda").column("value") / rows.where(method=method).column("value"))
    return np.asarray(ratios, dtype=float)


def explain(results: Results, settings: Settings) -> str:
    need = results.where(quantity="samples", source="exact", draw=0)
    multiple = {}
    for name in ("sda", *METHODS):
        rows = need.where(method=name)
        multiple[name] = rows.column("value") * rows.column("epsilon")
    short = {name: style.MARKS[name].label.split(", ")[1] for name in METHODS}
    gained = [f"{span(gains(results, name), 2)} ({short[name]})" for name in METHODS]
    needed = [f"{span(multiple[name], 3)} ({short[name]})" for name in METHODS]
    return (
        "At the paper's T, reading the last iterate of Anytime SDA instead of SDA's windowed mean divides the error "
        f"by {', '.join(gained)}, with the same messages and no horizon to choose. "
        f"To reach ε, SDA takes {span(multiple['sda'], 2)} times the samples of a center, Anytime SDA "
        f"{', '.join(needed)}."
    )


FIGURE = Figure("6", "What the paper's method leaves on the table", pieces, draw, explain, ours=True)
