"""Figure 7, ours: SDA's exact error against Theorem 1's bound, term by term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import Claim, Finding, span, verdict
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import convergence, problem
from gossamer.paper.shared.modes import EverySDA
from gossamer.paper.shared.problem import GRAPHS, TITLES
from gossamer.theory import k_star, theorem_1

TERMS = {
    "bias": style.Mark("bias", style.RED, (0, (4, 1.5)), ""),
    "mixing noise": style.Mark(
        r"mixing noise ($\sim N\sqrt{\kappa}\,\sigma^2/T^2$)", style.BLUE, (0, (4, 1.2, 1, 1.2)), ""
    ),
    "averaging noise": style.Mark(r"averaging noise ($\sim\sigma^2/T$)", style.GREEN, (0, (1, 1.3)), ""),
}
TOTAL = style.Mark("total", style.BLACK, "-", "o")
GRID = 40


def terms(graph: str, agents: int, spread: float, stages: Sequence[int], seed: int) -> list[Row]:
    """Return each part of SDA's error and its bound in Theorem 1, and the ratio of bound to error over all T."""
    net = problem.network(graph, agents, seed)
    obs = problem.observations(agents, spread, seed)
    last = convergence.horizons(net, stages)[-1]
    sda = EverySDA(net, last)
    parts = {
        "bias": sda.bias(obs.mean.T)[:, 0],
        "mixing noise": sda.mixing,
        "averaging noise": 1.0 / sda.window,
    }
    start = k_star(net)
    base = {
        "experiment": "bound",
        "graph": graph,
        "agents": agents,
        "spread": spread,
        "draw": 0,
        "seed": seed,
        "method": "sda",
    }
    rows: list[Row] = [{**base, "source": "exact", "quantity": "k*", "value": float(start)}]
    for t in np.unique(np.geomspace(4, last, GRID).astype(int) // 2 * 2).tolist():
        limit = theorem_1(net, obs, t)
        for name, curve in parts.items():
            rows.append(
                {**base, "rounds": t, "source": "exact", "quantity": name, "value": float(curve[t - 1])}
            )
            rows.append(
                {**base, "rounds": t, "source": "theorem 1", "quantity": name, "value": limit.terms[name]}
            )
    # The theorem is stated for T0 = T/2, so for even T.
    covered = np.arange(2 * start, last + 1, 2)
    slack = [
        theorem_1(net, obs, int(t)).total / sum(curve[t - 1] for curve in parts.values()) for t in covered
    ]
    rows.append(
        {**base, "source": "theorem 1", "quantity": "slack", "value": float(np.median(slack)),
         "low": float(min(slack)), "high": float(max(slack))}
    )  # fmt: skip
    return rows


def pieces(settings: Settings) -> list[Piece]:
    s = settings
    parts = convergence.main_pieces(s, ["sda"])
    for graph in GRAPHS:
        work = {
            "graph": graph,
            "agents": s.agents,
            "spread": s.spread,
            "stages": list(s.stages),
            "seed": s.seed,
        }
        parts.append(Piece(f"bound-{graph}", terms, work, 0.5))
    return parts


def draw(results: Results, settings: Settings) -> Any:
    drawn = style.picture(style.FULL, 4.5)
    axes = drawn.subplots(2, 3, sharey=True)
    results = results.sort("rounds")
    for ax, graph in zip(axes.flat, GRAPHS, strict=False):
        here = results.where(experiment="bound", graph=graph)
        total: Any = 0.0
        limit: Any = 0.0
        for name, mark in TERMS.items():
            truth, above = (here.where(quantity=name, source=source) for source in ("exact", "theorem 1"))
            rounds = truth.column("rounds")
            style.line(ax, mark, rounds, truth.column("value"), linewidth=1.5)
            style.line(ax, mark, rounds, above.column("value"), linewidth=0.7)
            total, limit = total + truth.column("value"), limit + above.column("value")
        style.line(ax, TOTAL, rounds, total, linewidth=1.5)
        style.line(ax, TOTAL, rounds, limit, linewidth=0.7)
        runs = results.where(
            experiment="convergence", graph=graph, method="sda", source="simulation", quantity="total_error"
        )
        style.points(ax, TOTAL, runs.column("rounds"), runs)
        start = here.value(quantity="k*")
        ax.axvline(2 * start, color=style.GRAY, linewidth=0.7)
        ax.text(2 * start, 1.4e-5, " $2k^*$", fontsize=6.5, color=style.GRAY, ha="left", va="bottom")
        ax.set(xscale="log", yscale="log", xlim=(3, None), ylim=(1e-5, 3e5))
        ax.set_title(TITLES[graph])
    for ax in axes[:, 0]:
        ax.set_ylabel("total error")
    for ax in (*axes[1, :2], axes[0, 2]):
        ax.set_xlabel("rounds $T$")
    keys = [style.key(TOTAL), *(style.key(mark) for mark in TERMS.values())]
    note = "\nthick: the parts of the error\nthin: their bounds in Theorem 1,\nwhich applies right of $2k^*$"
    style.legend_panel(axes[1, 2], keys, style.marks_note(settings) + note)
    return drawn


def _slack(results: Results) -> tuple[float, float]:
    rows = results.where(experiment="bound", quantity="slack")
    return float(rows.column("low").min()), float(rows.column("high").max())


def _ratios(results: Results, name: str) -> tuple[float, float]:
    """Return the smallest and largest ratio of bound to exact part where the theorem applies, rounding aside."""
    ratios = []
    for graph in GRAPHS:
        here = results.where(experiment="bound", graph=graph).sort("rounds")
        start = here.value(quantity="k*")
        truth, above = (here.where(quantity=name, source=source) for source in ("exact", "theorem 1"))
        counts = (truth.column("rounds") >= 2 * start) & (truth.column("value") > 1e-12)
        ratios += (above.column("value")[counts] / truth.column("value")[counts]).tolist()
    return (min(ratios), max(ratios)) if ratios else (float("nan"), float("nan"))


def explain(results: Results, settings: Settings) -> str:
    low, high = _slack(results)
    mixing, averaging, bias = (_ratios(results, name) for name in ("mixing noise", "averaging noise", "bias"))
    return (
        f"Where it applies (T/2 ≥ k*), Theorem 1's bound is {span((low, high), 2)} times the exact error. "
        f"Its σ²/T term is {span(averaging, 2)} times the part it bounds, its mixing term "
        f"{span(mixing, 2)} times, its bias term {span(bias, 2)} "
        "times."
    )


def _bound_holds(results: Results, settings: Settings) -> Finding:
    low, high = _slack(results)
    middle = float(np.median(results.where(experiment="bound", quantity="slack").column("value")))
    parts = {name: span(_ratios(results, name)) for name in ("averaging noise", "mixing noise")}
    return Finding(
        verdict(low >= 1),
        middle,
        low,
        high,
        f"bound/error is {span((low, high), 3)}",
        f"at every even T ≥ 2k* on all five graphs; the σ²/T term is {parts['averaging noise']} times the part that it "
        f"bounds, the mixing term {parts['mixing noise']} times",
    )


CLAIMS = (Claim("theorem-1", "Theorem 1", "For T/2 ≥ k* the error of SDA is below the bound.", _bound_holds),)

FIGURE = Figure("7", "SDA's error against Theorem 1, term by term", pieces, draw, explain, CLAIMS, ours=True)
