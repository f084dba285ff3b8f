"""Figure 7, ours: SDA's exact error against Theorem 1, term by term, and Anytime SDA's against Theorem 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gossamer.engines.exact import exact
from gossamer.methods import SDA, AnytimeSDA
from gossamer.observations import Gaussian
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import Claim, Finding, extremes, listed, near, span, verdict
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import convergence, problem
from gossamer.paper.shared.modes import EverySDA
from gossamer.paper.shared.problem import GRAPHS, TITLES, slope
from gossamer.theory import k_star, theorem_1, theorem_3

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

TERMS = {
    "bias": style.Mark("bias", style.RED, (0, (4, 1.5)), ""),
    "mixing noise": style.Mark(
        r"mixing noise ($\sim N\sqrt{\kappa}\,\sigma^2/T^2$)", style.BLUE, (0, (4, 1.2, 1, 1.2)), ""
    ),
    "averaging noise": style.Mark(r"averaging noise ($\sim\sigma^2/T$)", style.GREEN, (0, (1, 1.3)), ""),
}
TOTAL = style.Mark("SDA, total", style.BLACK, "-", "o")
ANYTIME = style.Mark("Anytime SDA, total", style.ORANGE, "-", "")
GRID = 40
FAR = 64
"""Rounds per agent after which only the first two orders of 1/T are left of Anytime SDA's error."""


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
    base = problem.described("bound", graph, agents, spread, seed, method="sda")
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
    method, rounds = AnytimeSDA(), np.unique(np.geomspace(4, last, 5 * GRID).astype(int))
    error = exact(method, net, obs, rounds).total_error
    bounds = [theorem_3(net, obs, t, method.window(net)) for t in rounds.tolist()]
    for t, value, bound in zip(rounds.tolist(), error.tolist(), bounds, strict=True):
        common = {**base, "method": "anytime-sda", "rounds": t, "quantity": "total_error"}
        rows.append({**common, "source": "exact", "value": value})
        if bound.applies:
            rows.append({**common, "source": "theorem 3", "value": bound.total})
    return rows


def orders(graph: str, sizes: Sequence[int], seed: int) -> list[Row]:
    """Return the first two orders of the error, a/T + c/T^2 for noise of variance 1, and how c grows with kappa."""
    rows: list[Row] = []
    kappas, constants = [], []
    base = {"experiment": "orders", "graph": graph, "seed": seed, "source": "exact"}
    for agents in sizes:
        net, obs = problem.network(graph, agents, seed), Gaussian(np.zeros(agents), 1.0)
        rounds = np.array([FAR, 2 * FAR]) * agents
        for name, method in {"anytime-sda": AnytimeSDA(smoothing=0), "sda": SDA()}.items():
            early, late = exact(method, net, obs, rounds).total_error * rounds
            common = {**base, "agents": agents, "method": name}
            rows.append({**common, "quantity": "leading constant", "value": 2 * late - early})
            if name == "anytime-sda":
                constants.append((late - 1) * rounds[1])
                rows.append({**common, "quantity": "second-order constant", "value": constants[-1]})
        kappas.append(net.condition_number)
    rows.append({**base, "quantity": "slope", "value": slope(kappas, constants)})
    return rows


def pieces(settings: Settings) -> list[Piece]:
    s = settings
    parts = convergence.main_pieces(s, ["sda"])
    for graph in GRAPHS:
        sizes = {"agents": s.agents, "spread": s.spread, "stages": list(s.stages)}
        work = {"graph": graph, **sizes, "seed": s.seed}
        parts.append(Piece(f"bound-{graph}", terms, work, 0.5))
    for graph in ("star", "path"):
        work = {"graph": graph, "sizes": list(s.star_agents), "seed": s.seed}
        parts.append(Piece(f"orders-{graph}", orders, work, 1.0))
    return parts


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL, 4.5)
    axes = drawn.subplots(2, 3, sharey=True)
    results = results.sort("rounds")
    for ax, graph in zip(axes.flat, GRAPHS, strict=False):
        rows = results.where(experiment="bound", graph=graph)
        total, limit = np.zeros(()), np.zeros(())
        for name, mark in TERMS.items():
            truth, above = (rows.where(quantity=name, source=source) for source in ("exact", "theorem 1"))
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
        truth, above = (rows.where(method="anytime-sda", source=source) for source in ("exact", "theorem 3"))
        style.line(ax, ANYTIME, truth.column("rounds"), truth.column("value"), linewidth=1.5)
        style.line(ax, ANYTIME, above.column("rounds"), above.column("value"), linewidth=0.7)
        start = rows.value(quantity="k*")
        ax.axvline(2 * start, color=style.GRAY, linewidth=0.7)
        ax.text(2 * start, 1.4e-5, " $2k^*$", fontsize=6.5, color=style.GRAY, ha="left", va="bottom")
        ax.set(xscale="log", yscale="log", xlim=(3, None), ylim=(1e-5, 3e5))
        ax.set_title(TITLES[graph])
    for ax in axes[:, 0]:
        ax.set_ylabel("total error")
    for ax in (*axes[1, :2], axes[0, 2]):
        ax.set_xlabel("rounds $T$")
    keys = [style.key(mark) for mark in (TOTAL, *TERMS.values(), ANYTIME)]
    note = (
        "\nthick: errors and their parts\nthin: their bounds in Theorem 1,\n"
        "which applies right of $2k^*$,\nand in Theorem 3"
    )
    style.legend_panel(axes[1, 2], keys, style.marks_note(settings) + note)
    return drawn


def _slack(results: Results) -> tuple[float, float]:
    rows = results.where(experiment="bound", quantity="slack")
    return float(rows.column("low").min()), float(rows.column("high").max())


def _ratios(results: Results, name: str) -> tuple[float, float]:
    """Return the smallest and largest ratio of bound to exact part where the theorem applies, rounding aside."""
    ratios = []
    for graph in GRAPHS:
        rows = results.where(experiment="bound", graph=graph).sort("rounds")
        start = rows.value(quantity="k*")
        truth, above = (rows.where(quantity=name, source=source) for source in ("exact", "theorem 1"))
        counts = (truth.column("rounds") >= 2 * start) & (truth.column("value") > 1e-12)
        ratios += (above.column("value")[counts] / truth.column("value")[counts]).tolist()
    return (min(ratios), max(ratios)) if ratios else (float("nan"), float("nan"))


def _anytime_ratios(results: Results, last: bool = False) -> tuple[float, float]:
    """Return the smallest and largest ratio of Theorem 3 to Anytime SDA's error, where it applies or only at the last T
    of each graph."""
    ratios: list[float] = []
    for graph in GRAPHS:
        rows = results.where(experiment="bound", graph=graph, method="anytime-sda").sort("rounds")
        truth, above = (rows.where(source=source) for source in ("exact", "theorem 3"))
        covered = np.isin(truth.column("rounds"), above.column("rounds"))
        multiples = (above.column("value") / truth.column("value")[covered]).tolist()
        ratios += multiples[-1:] if last else multiples
    return extremes(ratios)


def explain(results: Results, settings: Settings) -> str:
    mixing, averaging, bias = (_ratios(results, name) for name in ("mixing noise", "averaging noise", "bias"))
    return (
        f"Where it applies (T/2 ≥ k*), Theorem 1's bound is {span(_slack(results), 2)} times SDA's exact error: its "
        f"σ²/T term is {span(averaging, 2)} times the part it bounds, its mixing term {span(mixing, 2)} times, its "
        f"bias term {span(bias, 2)} times. "
        f"Theorem 3's bound is {span(_anytime_ratios(results, last=True), 3)} times Anytime SDA's error at the last T."
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


def _anytime_bound_holds(results: Results, settings: Settings) -> Finding:
    low, high = _anytime_ratios(results)
    end = _anytime_ratios(results, last=True)
    return Finding(
        verdict(low >= 1),
        float(np.median(end)),
        low,
        high,
        f"bound/error is {span((low, high), 3)}, and {span(end, 4)} at the last T",
        "at 200 numbers of rounds on all five graphs; Anytime SDA with its default window, whose error is exact",
    )


def _leading(results: Results, settings: Settings) -> Finding:
    rows = results.where(experiment="orders", quantity="leading constant")
    ours, papers = (rows.where(method=method).column("value") for method in ("anytime-sda", "sda"))
    off = max(float(np.abs(ours - 1).max()), float(np.abs(papers - 2).max()) / 2)
    return Finding(
        verdict(off < 0.02, caveat=off > 0.005),
        float(np.median(ours)),
        *extremes(ours),
        f"T times the error tends to {span(ours, 4)}; SDA's to {span(papers, 4)}",
        f"stars and paths of {min(settings.star_agents)} to {max(settings.star_agents)} agents, from the exact errors "
        f"after {FAR} N and {2 * FAR} N rounds",
    )


def _growth(results: Results, settings: Settings) -> Finding:
    exponents = {g: results.value(experiment="orders", graph=g, quantity="slope") for g in ("star", "path")}
    off = [exponents["star"] - 1.5, exponents["path"] - 0.75]
    return Finding(
        near(off, 0.0, close=0.1, loose=0.3),
        exponents["star"],
        *extremes(list(exponents.values())),
        f"fitted exponents {listed(exponents)}",
        "N modes are slow on a star, where κ = N, and about κ^(1/4) of them on a path; sizes as in Figure 5",
    )


CLAIMS = (
    Claim("theorem-1", "Theorem 1", "For T/2 ≥ k* the error of SDA is below the bound.", _bound_holds),
    Claim(
        "theorem-3",
        "ours (Theorem 3)",
        "Where it applies, the error of Anytime SDA is below the bound.",
        _anytime_bound_holds,
    ),
    Claim(
        "leading-constant",
        "ours (Theorem 3)",
        "Anytime SDA's error is σ²/T to first order; SDA's is 2σ²/T.",
        _leading,
    ),
    Claim(
        "second-order",
        "ours (Theorem 3)",
        "The term in 1/T² grows like N√κ = κ^(3/2) on stars and like κ^(3/4) on paths.",
        _growth,
    ),
)

FIGURE = Figure(
    "7",
    "SDA's error against Theorem 1, and Anytime SDA's against Theorem 3",
    pieces,
    draw,
    explain,
    CLAIMS,
    ours=True,
)
