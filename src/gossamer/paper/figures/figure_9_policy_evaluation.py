"""Figure 9, ours: policy evaluation, the second of the paper's two applications.

The paper bounds its error (Corollary 2) but shows no experiment. This figure compares the plug-in estimator with
temporal differences, for several discounts and networks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import Claim, Finding, Judge, extremes, listed, number, span, verdict
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.results import Results
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared.policy import DISCOUNTS, GRAPHS, MOST_AGENTS, STATES, pieces, quantity_at
from gossamer.paper.shared.problem import TITLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL, 5.4)
    axes = drawn.subplots(len(GRAPHS), len(DISCOUNTS), sharex=True, sharey=True)
    results = results.sort("rounds")
    names = ("centralized", "anytime-sda", "sda", "td, last", "td, averaged")
    for i, graph in enumerate(GRAPHS):
        for j, discount in enumerate(DISCOUNTS):
            ax = axes[i, j]
            subset = results.where(graph=graph, quantity=quantity_at(discount))
            for name in names:
                rows = subset.where(method=name, source="simulation")
                style.line(ax, style.MARKS[name], rows.column("rounds"), rows.column("value"))
                if style.MARKS[name].marker:
                    style.points(ax, style.MARKS[name], rows.column("rounds"), rows)
            bound = subset.where(source="corollary 2")
            ax.plot(bound.column("rounds"), bound.column("value"), color=style.BLUE, linewidth=0.6)
            ax.set_yscale("log")
            style.rounds_axis(ax, rows.column("rounds"))
            if i == 0:
                ax.set_title(rf"$\gamma$ = {discount:g}")
            if i == len(GRAPHS) - 1:
                ax.set_xlabel("rounds $T$")
        axes[i, 0].set_ylabel(f"{TITLES[graph]}\n" + r"E max$_i\,\|\hat J_i - J^*\|_\infty$")
    keys = [*(style.key(style.MARKS[name]) for name in names), style.bound_key("Corollary 2")]
    drawn.legend(handles=keys, loc="outside lower center", ncols=3, handlelength=3)
    return drawn


def _rates(results: Results, solver: str) -> dict[str, float]:
    """Return the fitted rates by network, each a median over discounts."""
    names = [f"rate at {discount:g}" for discount in DISCOUNTS]
    return {
        TITLES[graph]: float(
            np.median(results.where(graph=graph, method=solver, quantity=names).column("value"))
        )
        for graph in GRAPHS
    }


def explain(results: Results, settings: Settings) -> str:
    last = float(np.nanmax(results.column("rounds")))
    ratios = [
        results.value(graph=g, method="td, last", source="simulation", quantity=quantity_at(d), rounds=last)
        / results.value(
            graph=g, method="anytime-sda", source="simulation", quantity=quantity_at(d), rounds=last
        )
        for g in GRAPHS
        for d in DISCOUNTS
    ]
    return (
        f"A random Markov reward process of {STATES} states, {min(settings.agents, MOST_AGENTS)} agents with their "
        "own rewards; all estimators see the same samples, and the thin line is Corollary 2 with constants derived "
        "from Theorem 1 and Hoeffding's lemma. "
        f"Fitted rates: plug-in with Anytime SDA T^{number(_overall(results, 'anytime-sda'), 2)}, averaged temporal "
        f"differences T^{number(_overall(results, 'td, averaged'), 2)}; after {int(last)} rounds the last iterate of "
        f"temporal differences has {number(min(ratios), 2)} to {number(max(ratios), 2)} times the error of the "
        "plug-in estimator with Anytime SDA."
    )


def _overall(results: Results, solver: str) -> float:
    return float(np.median(list(_rates(results, solver).values())))


def _rate_claim(solver: str, target: float, close: float, words: str) -> Judge:
    """Judge the rate of a bound. An error that falls faster meets the bound but not the rate, which is a caveat."""

    def judge(results: Results, settings: Settings) -> Finding:
        names = [f"rate at {discount:g}" for discount in DISCOUNTS]
        exponents = results.where(method=solver, quantity=names).column("value")
        rates = _rates(results, solver)
        slowest, fastest = max(rates.values()), min(rates.values())
        return Finding(
            verdict(slowest <= target + close, caveat=fastest < target - close),
            float(np.median(exponents)), *extremes(exponents),
            f"fitted exponents {listed(rates, 2)} (medians over γ)", words,
        )  # fmt: skip

    return judge


def _ratios(results: Results, source: str) -> list[float]:
    """Return the values of `source` divided by the measured error, for every case that the corollary covers."""
    bounds = results.where(source=source)
    return [
        value / results.value(graph=graph, method="sda", source="simulation", quantity=quantity, rounds=t)
        for graph, quantity, t, value in zip(
            *(bounds.column(name) for name in ("graph", "quantity", "rounds", "value")), strict=True
        )
    ]


def _corollary_2(results: Results, settings: Settings) -> Finding:
    slack = _ratios(results, "corollary 2")
    low, high = extremes(slack)
    return Finding(
        verdict(low >= 1), float(np.median(slack)), low, high,
        f"the bound is {number(low, 2)} to {number(high, 2)} times the measured error",
        f"{len(slack)} cases with T/2 ≥ k*; the paper's own terms, which are for rewards of size 1, are "
        f"{span(_ratios(results, 'corollary 2, order'))} times the error with constant 1",
    )  # fmt: skip


FIGURE = Figure(
    "9", "Decentralized policy evaluation", pieces, draw, explain,
    (
        Claim("corollary-2", "Corollary 2", "Corollary 2 bounds the error of the plug-in estimator.", _corollary_2),
        Claim("plug-in-rate", "after Corollary 2", "The plug-in error falls like T^(-1/2).",
              _rate_claim("anytime-sda", -0.5, 0.06, "the leading terms of the corollary, here with Anytime SDA")),
        Claim("td-rate", "after Corollary 2", "The error of distributed TD falls like T^(-1/4).",
              _rate_claim("td, averaged", -0.25, 0.1, "steps 1/√k and the averaged iterate, as in the cited theorem; "
                          "the last iterate with steps 1/k does better")),
    ),
    ours=True,
)  # fmt: skip
