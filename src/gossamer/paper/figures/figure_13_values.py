"""Figure 13, ours: values from experience, with features instead of a table of states.

Agents walk through a process whose values are known. Least-squares temporal differences averaged by Anytime SDA are
compared with a center, with temporal differences over the network (plain, with a trace, with gradient tracking, and
averaged once at the end), with solutions averaged once at the end, and with each agent alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.applications import Alone, DistributedTD, OneShot, PolicyEvaluation, ValueEstimation, problems
from gossamer.methods import AnytimeSDA
from gossamer.networks import Network
from gossamer.paper.figures.figure_12_learning import networks
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import Claim, Finding, extremes, number, span, verdict
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

ENVIRONMENTS = {
    "process": "Random process",
    "grid-world": "Grid world, episodes",
    "copies": "Random process, own copies",
}
GRAPHS = ("cycle", "grid", "erdos-renyi")
HORIZONS = (100, 200, 400, 1000)
MOST_AGENTS, MOST_TRIALS, DISCOUNT, TRACE = 30, 6, 0.9, 0.8
STEPS = (1.0, 4.0, 16.0)
"""First steps of temporal differences; the best at each horizon is shown, which requires knowing the values."""

TD = ("td", "td-trace", "tracking", "td-once")
MARKS = {
    "cycle": style.Mark("least squares, cycle", style.RED, (0, (4, 1.5)), "s", False),
    "grid": style.Mark("least squares, grid", style.BLUE, "-", "o"),
    "erdos-renyi": style.Mark("least squares, random graph", style.GREEN, (0, (4, 1.2, 1, 1.2)), "^"),
    "td": style.Mark("TD(0), best step", style.ORANGE, (0, (4, 1.5)), "D"),
    "td-trace": style.Mark(f"TD({TRACE:g}), best step", style.ORANGE, (0, (1, 1)), "v", False),
    "tracking": style.Mark("gradient tracking TD, best step", style.PURPLE, (0, (2, 1)), "x"),
    "td-once": style.Mark("TD(0) averaged once, best step", style.PURPLE, (0, (1, 1)), "+"),
    "one-shot": style.Mark("least squares averaged once", style.GRAY, "-", "P", False),
    "alone": style.Mark("each agent alone", style.GRAY, (0, (1, 1)), "h"),
}


def environment(name: str, network: Network, trace: float, seed: int) -> ValueEstimation:
    """Return the problem of one panel; all features contain a constant."""
    rng = np.random.default_rng(seed)
    if name == "grid-world":
        row, column = np.divmod(np.arange(25.0), 5) / np.array(4.0)
        process = problems.grid_world(5, 5)
        features = np.column_stack([np.ones(25), row, column, row * column])
    else:
        states, count = (100, 8) if name == "process" else (30, 4)
        process = problems.garnet(states, 4, seed=seed)
        features = np.column_stack([np.ones(states), rng.normal(size=(states, count - 1))])
    task = PolicyEvaluation.from_problem(network, process, DISCOUNT, seed=seed)
    return ValueEstimation.from_policy(task, features, trace, shared=name != "copies")


def learning_values(name: str, agents: int, trials: int, seed: int) -> list[Row]:
    """Return errors as multiples of a center's, and the largest error in any state, in one environment."""
    nets = networks(agents, seed)
    rows: list[Row] = []
    for graph in GRAPHS:
        run = environment(name, nets[graph], 0.0, seed).simulate(AnytimeSDA(), HORIZONS, trials, seed)
        rows += _rows(run, name, graph, "least-squares")
    plain, traced = (environment(name, nets["grid"], trace, seed) for trace in (0.0, TRACE))
    rivals = {
        "td": (plain, "rounds"),
        "td-trace": (traced, "rounds"),
        "tracking": (plain, "tracking"),
        "td-once": (plain, "once"),
    }
    for method, (task, mixing) in rivals.items():
        runs = [task.simulate(DistributedTD(step, mixing=mixing), HORIZONS, trials, seed) for step in STEPS]
        tables = [_rows(run, name, "grid", method) for run in runs]
        best = np.argmin([np.nan_to_num(run.total_error, nan=np.inf) for run in runs], axis=0)
        rows += [row for h, k in enumerate(best.tolist()) for row in tables[k][2 * h : 2 * h + 2]]
    for solver in (OneShot(), Alone()):
        rows += _rows(plain.simulate(solver, HORIZONS, trials, seed), name, "grid", solver.name)
    return rows


def _rows(run: Any, name: str, graph: str, method: str) -> list[Row]:
    """Return the rows of one run."""
    rows: list[Row] = []
    for k, t in enumerate(HORIZONS):
        common = {
            "experiment": f"values {name}",
            "graph": graph,
            "method": method,
            "agents": run.agents,
            "seed": run.seed,
            "trials": run.trials,
            "source": "simulation",
            "rounds": t,
        }
        ratio = problem.around(float(run.over_limit[k]), float(run.over_limit_stderr[k]), run.trials)
        worst = problem.around(float(run.worst[k]), float(run.worst_stderr[k]), run.trials)
        rows.append({**common, "quantity": "over_limit", **ratio})
        rows.append({**common, "quantity": "worst", **worst})
    return rows


def pieces(settings: Settings) -> list[Piece]:
    agents, trials = min(settings.agents, MOST_AGENTS), min(max(2, settings.trials // 8), MOST_TRIALS)
    common = {"agents": agents, "trials": trials, "seed": settings.seed}
    return [Piece(f"values-{name}", learning_values, {"name": name, **common}, 4.0) for name in ENVIRONMENTS]


def curves(results: Results, name: str) -> dict[str, Results]:
    """Return the rows of each curve in the panels of an environment."""
    rows = results.where(experiment=f"values {name}").sort("rounds")
    ours = {graph: rows.where(graph=graph, method="least-squares") for graph in GRAPHS}
    return ours | {method: rows.where(method=method) for method in MARKS if method not in GRAPHS}


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL, 4.6)
    axes = drawn.subplots(2, len(ENVIRONMENTS), sharex=True, sharey="row")
    for (name, title), above, below in zip(ENVIRONMENTS.items(), *axes, strict=True):
        for curve, rows in curves(results, name).items():
            for ax, quantity in ((above, "over_limit"), (below, "worst")):
                shown = rows.where(quantity=quantity)
                style.line(ax, MARKS[curve], shown.column("rounds"), shown.column("value"), linewidth=0.8)
                style.points(ax, MARKS[curve], shown.column("rounds"), shown)
        above.axhline(1, color=style.GRAY, linewidth=0.9, zorder=1)
        above.set(xscale="log", yscale="log", ylim=(0.5, 2e4))
        above.set_title(title)
        below.set(xscale="log", yscale="log", xlabel="steps $T$")
    axes[0, 0].set_ylabel("error, as a multiple of\nthe center's")
    axes[1, 0].set_ylabel("largest error of any agent\nin any state")
    drawn.legend(
        handles=[style.key(mark) for mark in MARKS.values()],
        loc="outside lower center",
        ncols=3,
        handlelength=3,
    )
    return drawn


def multiples(results: Results, methods: str | list[str], rounds: int) -> Results:
    """Return the multiples of the center's error after some number of steps, in all environments."""
    return results.where(method=methods, quantity="over_limit", rounds=rounds)


def explain(results: Results, settings: Settings) -> str:
    last = HORIZONS[-1]
    ours = multiples(results, "least-squares", last).column("value")
    plain = multiples(results, "td", last).column("value")
    alone = multiples(results, "alone", last).column("value")
    return (
        f"{min(settings.agents, MOST_AGENTS)} agents with their own rewards, discount {DISCOUNT:g}, features with a "
        f"constant. After {last} steps, least squares averaged over the networks is at {span(ours, 3)} times the error "
        f"of a center that holds all rewards, TD(0) at {span(plain)} times although its best of {len(STEPS)} steps is "
        f"chosen by knowing the values, and an agent alone at {span(alone)} times."
    )


LIMIT, LEAST = 1.15, 2.0
"""Multiples of the error of a center: the largest of least squares, and the smallest of temporal differences."""


def _near_the_center(results: Results, settings: Settings) -> Finding:
    subset = multiples(results, "least-squares", HORIZONS[-1])
    low, high = extremes(subset.column("value"))
    sure = float(subset.column("high").max()) <= LIMIT
    return Finding(
        verdict(high <= LIMIT, caveat=not sure), high, low, high,
        f"{number(low)} to {number(high)} times at T = {HORIZONS[-1]}",
        "three environments on three networks; without proof",
    )  # fmt: skip


def _rivals_are_behind(results: Results, settings: Settings) -> Finding:
    subset = multiples(results, list(TD), HORIZONS[-1])
    low, high = extremes(subset.column("value"))
    sure = float(subset.column("low").min()) >= LEAST
    return Finding(
        verdict(low >= LEAST, caveat=not sure), low, low, high,
        f"{number(low, 2)} to {number(high, 2)} times at T = {HORIZONS[-1]}",
        f"four kinds of temporal differences, with the best of {len(STEPS)} steps each; features with a constant",
    )  # fmt: skip


FIGURE = Figure(
    "13", "Values from experience", pieces, draw, explain,
    (
        Claim("values-center", "after Corollary 2 (ours)",
              f"With features, averaged least squares is within {LIMIT:g} of the error of a center.", _near_the_center),
        Claim("values-td", "after Corollary 2 (ours)",
              f"Distributed temporal differences have at least {LEAST:g} times the error of a center.",
              _rivals_are_behind),
    ),
    ours=True,
)  # fmt: skip
