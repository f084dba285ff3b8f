"""Figure 8, ours: linear estimation, the first of the paper's two applications.

The paper bounds its error (Corollary 1) but shows no experiment. This figure compares our methods and earlier ones with
the centralized limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.applications import KarMoura, LinearEstimation, XiaoBoydLall
from gossamer.methods import DSG, SDA, AnytimeSDA, Method
from gossamer.networks import Network
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import Claim, Finding, extremes, number, span, verdict
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import problem
from gossamer.paper.shared.problem import TITLES, around

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

GRAPHS = ("path", "grid", "erdos-renyi")
PARAMETERS, ROWS = 5, 2
SMALL = 36
"""Networks of at most this many agents run fewer rounds."""
MOST_TRIALS = 50
OURS: dict[str, Method] = {"sda": SDA(), "anytime-sda": AnytimeSDA(), "dsg": DSG()}
EARLIER = {
    "xiao-boyd-lall": XiaoBoydLall(samples=None),
    "kar-moura, lu": KarMoura("LU"),
    "kar-moura, mixed": KarMoura("mixed"),
}


ORDER = "corollary 1, order"
"""The terms of Corollary 1 as in the paper, with the constant 1."""

CONSTANT = "constant, identical sensors"


def estimation(graph: str, agents: int, rounds: list[int], trials: int, seed: int) -> list[Row]:
    """Return the errors of all methods as multiples of the centralized limit, and Corollary 1."""
    sensors = LinearEstimation.random(
        problem.network(graph, agents, seed), PARAMETERS, ROWS, weighting="precision", seed=seed
    )
    limit = sensors.centralized_error(rounds)
    base = {"experiment": "linear estimation", "graph": graph, "agents": agents, "seed": seed}
    rows: list[Row] = []
    for name, method in OURS.items():
        known = sensors.exact(method, rounds).total_error / limit
        for t, value in zip(rounds, known.tolist(), strict=True):
            rows.append(
                {**base, "method": name, "rounds": t, "source": "exact", "quantity": "ratio", "value": value}
            )
    solvers: dict[str, Any] = {**OURS, **EARLIER}
    for name, solver in solvers.items():
        enough = rounds
        if name in OURS:
            enough = [t for t in rounds if t >= sensors.gram_rounds_needed(solver)]
        if not enough:
            continue
        run = sensors.simulate(solver, enough, trials, seed)
        common = {**base, "method": name, "source": "simulation", "quantity": "ratio", "trials": trials}
        for t, total, stderr in zip(enough, run.total_error, run.stderr, strict=True):
            scale = float(sensors.centralized_error(t))
            rows.append(
                {**common, "rounds": t, **around(float(total) / scale, float(stderr) / scale, trials)}
            )
    for t in rounds:
        bound, scale = sensors.bound(t), float(sensors.centralized_error(t))
        if bound.applies:
            common = {**base, "method": "sda", "rounds": t, "quantity": "ratio"}
            rows.append({**common, "source": "corollary 1", "value": bound.total / scale})
            rows.append({**common, "source": ORDER, "value": sum(bound.order.values()) / scale})
    return rows + _identical(base, sensors.network, rounds)


def _identical(base: Row, network: Network, rounds: list[int]) -> list[Row]:
    """Return the constant that Corollary 1 would need if every sensor measured the parameter itself."""
    sensors = LinearEstimation(network, [[[1.0]]] * network.agents, [1.0])
    bounds = {t: sensors.bound(t) for t in rounds}
    covered = [t for t, bound in bounds.items() if bound.applies]
    needed = sensors.exact("sda", covered).total_error if covered else []
    common = {**base, "method": "sda", "source": "exact", "quantity": CONSTANT}
    return [
        {**common, "rounds": t, "value": float(error) / sum(bounds[t].order.values())}
        for t, error in zip(covered, needed, strict=True)
    ]


def pieces(settings: Settings) -> list[Piece]:
    s = settings
    rounds = [50, 100, 200, 400, 800, 1600] if s.agents > SMALL else [50, 100, 200, 400, 800]
    trials = min(s.trials, MOST_TRIALS)
    return [
        Piece(
            f"linear-estimation-{graph}",
            estimation,
            {
                "graph": graph, "agents": s.agents, "rounds": rounds, "trials": trials, "seed": s.seed,
            },
            s.agents * trials * max(rounds) / 4e6,
        )
        for graph in GRAPHS
    ]  # fmt: skip


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL, 2.9)
    axes = drawn.subplots(1, len(GRAPHS), sharey=True)
    results = results.sort("rounds")
    names = [*OURS, *EARLIER]
    keys = [*(style.key(style.MARKS[name]) for name in names), style.bound_key("Corollary 1")]
    for ax, graph in zip(axes, GRAPHS, strict=True):
        rows = results.where(graph=graph)
        ax.axhline(1, color=style.GRAY, linewidth=0.8)
        bound = rows.where(source="corollary 1")
        ax.plot(bound.column("rounds"), bound.column("value"), color=style.BLUE, linewidth=0.6)
        for name in names:
            truth, runs = (rows.where(method=name, source=source) for source in ("exact", "simulation"))
            mark = style.MARKS[name]
            if len(truth):
                style.line(ax, mark, truth.column("rounds"), truth.column("value"))
            else:
                style.line(ax, mark, runs.column("rounds"), runs.column("value"), linewidth=0.8)
            style.points(ax, mark, runs.column("rounds"), runs)
        ax.set(yscale="log", xlabel="rounds $T$")
        style.rounds_axis(ax, rows.column("rounds"))
        ax.set_title(TITLES[graph])
    axes[0].set_ylabel("total error / centralized limit")
    drawn.legend(handles=keys, loc="outside lower center", ncols=4, handlelength=3)
    return drawn


def explain(results: Results, settings: Settings) -> str:
    last = float(max(results.column("rounds")))
    ours, best = ([results.value(graph=g, method=m, source=s, rounds=last) for g in GRAPHS]
                  for m, s in (("anytime-sda", "exact"), ("kar-moura, mixed", "simulation")))  # fmt: skip
    bias = _matched(results)
    return (
        f"{settings.agents} sensors with {ROWS} noisy measurements of {PARAMETERS} unknowns each (lines: every agent "
        "knows Ā exactly; marks: Ā is averaged like the measurements, which leaves no bias and on the worst network "
        f"divides DSG's error by {number(bias, 2)}; thin line: Corollary 1, its constants derived from Theorem 1). "
        f"After {int(last)} rounds the error of Anytime SDA is {number(min(ours))} to {number(max(ours))} times the "
        "centralized limit, that of consensus + innovations "
        f"{number(min(best), 2)} to {number(max(best), 2)} times."
    )


def _matched(results: Results) -> float:
    """Return the largest factor by which averaging the matrices like the measurements reduces DSG's error."""
    gains = []
    for graph in GRAPHS:
        runs = results.where(graph=graph, method="dsg", source="simulation")
        for t, value in zip(runs.column("rounds"), runs.column("value"), strict=True):
            gains.append(results.value(graph=graph, method="dsg", source="exact", rounds=t) / value)
    return float(max(gains)) if gains else 1.0


def _ratios(results: Results, source: str) -> list[float]:
    """Return the values of `source` divided by SDA's exact error, for every case that the corollary covers."""
    ratios = []
    for graph in GRAPHS:
        bound = results.where(graph=graph, source=source).sort("rounds")
        for t, value in zip(bound.column("rounds"), bound.column("value"), strict=True):
            exact = {"method": "sda", "source": "exact", "quantity": "ratio"}
            ratios.append(value / results.value(graph=graph, rounds=t, **exact))
    return ratios


def _corollary_1(results: Results, settings: Settings) -> Finding:
    slack = _ratios(results, "corollary 1")
    low, high = extremes(slack)
    return Finding(
        verdict(low >= 1), float(np.median(slack)), low, high,
        f"the bound is {number(low, 2)} to {number(high, 2)} times the exact error",
        f"{len(slack)} cases that meet its conditions, Ā known to every agent; constants derived from Theorem 1's",
    )  # fmt: skip


def _constant_1(results: Results, settings: Settings) -> Finding:
    random = [1 / ratio for ratio in _ratios(results, ORDER)]
    identical = results.where(quantity=CONSTANT).column("value").tolist()
    least, most = extremes([*random, *identical])
    return Finding(
        verdict(most <= 1), most, least, most,
        f"it must be {span(random)} for random sensors and {span(identical)} for identical ones",
        "with SDA's burn-in of T/2 only half of the observations are averaged, so the σ²/T term alone needs 2",
    )  # fmt: skip


FIGURE = Figure(
    "8", "Distributed linear estimation", pieces, draw, explain,
    (
        Claim("corollary-1", "Corollary 1", "Corollary 1 bounds the error of linear estimation.", _corollary_1),
        Claim("corollary-1-constant", "Corollary 1", "Its constant C₁ need not exceed 1.", _constant_1),
    ),
    ours=True,
)  # fmt: skip
