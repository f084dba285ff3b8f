"""Figures 8-10, ours: the paper's two applications, which it has bounds for but no experiment.

Figure 8   linear estimation: our methods and the earlier ones against the centralized limit
Figure 9   policy evaluation: the plug-in estimator and temporal differences, for several discounts and networks
Figure 10  how both errors grow with 1/(1 - gamma)
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import NDArray

from gossamer import applications
from gossamer.applications import (
    Centralized,
    KarMoura,
    LinearEstimation,
    PolicyEvaluation,
    TemporalDifference,
    XiaoBoydLall,
    problems,
)
from gossamer.applications.solvers import averages
from gossamer.methods import DSG, SDA, AnytimeSDA, Method
from gossamer.paper import problem
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.cache import Piece, Row, Table
from gossamer.paper.pipeline.claims import (
    Claim,
    Finding,
    Verdict,
    extremes,
    interval,
    listed,
    number,
    verdict,
)
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.problem import NORMAL_95, TITLES, slope

Array = NDArray[np.float64]

GRAPHS = ("path", "grid", "erdos-renyi")
DISCOUNTS = (0.8, 0.9, 0.95, 0.99)
PARAMETERS, ROWS = 5, 2
STATES, BRANCHING = 20, 3
MOST_AGENTS = 36  # of policy evaluation
MOST_TRIALS, FEW_TRIALS = 50, 20  # few of temporal differences, the slowest to simulate
FITTED = 8
"""Rates are fitted to the rounds from the last/8 on, where the mixing of the network is over."""
PLUG_IN: dict[str, Any] = {"sda": SDA(), "anytime-sda": AnytimeSDA(), "centralized": Centralized()}
LEARNING = {
    "td, last": TemporalDifference(),
    "td, averaged": TemporalDifference(step="sqrt", output="average"),
}
OURS: dict[str, Method] = {"sda": SDA(), "anytime-sda": AnytimeSDA(), "dsg": DSG()}
EARLIER = {
    "xiao-boyd-lall": XiaoBoydLall(samples=None),
    "kar-moura, lu": KarMoura("LU"),
    "kar-moura, mixed": KarMoura("mixed"),
}
MARKS = {
    "anytime-sda": style.Mark("Anytime SDA", style.RED, (0, (4, 1.5)), "s", False),
    "sda": style.MARKS["sda"],
    "dsg": style.MARKS["dsg"],
    "xiao-boyd-lall": style.Mark("Xiao–Boyd–Lall, all samples first", style.BLACK, (0, (1, 1.3)), "v"),
    "kar-moura, lu": style.Mark("Kar–Moura, LU", style.ORANGE, (0, (4, 1.5)), "D"),
    "kar-moura, mixed": style.Mark("Kar–Moura, mixed", style.PURPLE, "-", "X"),
    "td, last": style.Mark("TD(0), last iterate", style.ORANGE, (0, (4, 1.5)), "D"),
    "td, averaged": style.Mark("TD(0), averaged", style.PURPLE, (0, (4, 1.2, 1, 1.2)), "X"),
    "centralized": style.Mark("centralized", style.GRAY, "-", ""),
}


def _code() -> str:
    """A digest of the applications: rows on disk are found again only if it is the same."""
    folder = Path(applications.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _around(mean: float, stderr: float) -> dict[str, float]:
    return {"value": mean, "low": mean - NORMAL_95 * stderr, "high": mean + NORMAL_95 * stderr}


def _rounds_axis(ax: Any, rounds: Any) -> None:
    """A logarithmic axis with every other number of rounds written out."""
    shown = sorted({int(t) for t in rounds})[::2]
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(shown))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([str(t) for t in shown])


def _keys(names: Any, corollary: str) -> list[Any]:
    """Legend entries of methods, and of the thin line of a corollary."""
    bound = style.key(style.Mark(f"{corollary}, constant 1 (SDA)", style.BLUE, "-", ""))
    bound.set_linewidth(0.6)
    return [*(style.key(MARKS[name]) for name in names), bound]


# -- Figure 8: linear estimation ----------------------------------------------------------------------------------


def estimation(graph: str, agents: int, rounds: list[int], trials: int, seed: int, code: str) -> list[Row]:
    """Errors of all methods as multiples of the centralized limit, and Corollary 1 beside them."""
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
        here = {**base, "method": name, "source": "simulation", "quantity": "ratio", "trials": trials}
        for t, mse, stderr in zip(enough, run.total_error, run.stderr, strict=True):
            scale = float(sensors.centralized_error(t))
            rows.append({**here, "rounds": t, **_around(float(mse) / scale, float(stderr) / scale)})
    for t in rounds:
        bound = sensors.bound(t)
        if bound.applies:
            value = bound.total / float(sensors.centralized_error(t))
            rows.append(
                {
                    **base,
                    "method": "sda",
                    "rounds": t,
                    "source": "corollary 1",
                    "quantity": "ratio",
                    "value": value,
                }
            )
    return rows


def estimation_pieces(settings: Settings) -> list[Piece]:
    s = settings
    rounds = [50, 100, 200, 400, 800, 1600] if s.agents > MOST_AGENTS else [50, 100, 200, 400, 800]
    trials = min(s.trials, MOST_TRIALS)
    return [
        Piece(
            f"linear-estimation-{graph}",
            estimation,
            {
                "graph": graph, "agents": s.agents, "rounds": rounds, "trials": trials, "seed": s.seed,
                "code": _code(),
            },
            s.agents * trials * max(rounds) / 1e6,
        )
        for graph in GRAPHS
    ]  # fmt: skip


def draw_estimation(table: Table, settings: Settings) -> Any:
    drawn = style.picture(style.FULL, 2.9)
    axes = drawn.subplots(1, len(GRAPHS), sharey=True)
    table = table.sort("rounds")
    names = [*OURS, *EARLIER]
    for ax, graph in zip(axes, GRAPHS, strict=True):
        here = table.where(graph=graph)
        ax.axhline(1, color=style.GRAY, linewidth=0.8)
        bound = here.where(source="corollary 1")
        ax.plot(bound.column("rounds"), bound.column("value"), color=style.BLUE, linewidth=0.6)
        for name in names:
            truth, runs = (here.where(method=name, source=source) for source in ("exact", "simulation"))
            mark = MARKS[name]
            if len(truth):
                style.line(ax, mark, truth.column("rounds"), truth.column("value"))
            else:
                style.line(ax, mark, runs.column("rounds"), runs.column("value"), linewidth=0.8)
            style.points(ax, mark, runs.column("rounds"), runs)
        ax.set(yscale="log", xlabel="rounds $T$")
        _rounds_axis(ax, here.column("rounds"))
        ax.set_title(TITLES[graph])
    axes[0].set_ylabel("squared error / centralized limit")
    drawn.legend(handles=_keys(names, "Corollary 1"), loc="outside lower center", ncols=4, handlelength=3)
    return drawn


def explain_estimation(table: Table, settings: Settings) -> str:
    last = float(max(table.column("rounds")))
    ours, best = ([table.value(graph=g, method=m, source=s, rounds=last) for g in GRAPHS]
                  for m, s in (("anytime-sda", "exact"), ("kar-moura, mixed", "simulation")))  # fmt: skip
    bias = _matched(table)
    return (
        f"{settings.agents} sensors with {ROWS} noisy measurements of {PARAMETERS} unknowns each: lines with every "
        "agent knowing Ā exactly, marks with Ā averaged like the measurements, which leaves no bias (on the worst "
        f"network this divides the error of DSG by {number(bias, 2)}); thin: Corollary 1 with constant 1. After "
        f"{int(last)} rounds the error of Anytime SDA is {number(min(ours))} to {number(max(ours))} times the "
        "centralized limit, that of consensus + innovations "
        f"{number(min(best), 2)} to {number(max(best), 2)} times."
    )


def _matched(table: Table) -> float:
    """How much averaging the matrices alike gains for DSG, at most."""
    gains = []
    for graph in GRAPHS:
        runs = table.where(graph=graph, method="dsg", source="simulation")
        for t, value in zip(runs.column("rounds"), runs.column("value"), strict=True):
            gains.append(table.value(graph=graph, method="dsg", source="exact", rounds=t) / value)
    return float(max(gains)) if gains else 1.0


def _corollary_1(table: Table, settings: Settings) -> Finding:
    slack = []
    for graph in GRAPHS:
        bound = table.where(graph=graph, source="corollary 1").sort("rounds")
        for t, value in zip(bound.column("rounds"), bound.column("value"), strict=True):
            slack.append(value / table.value(graph=graph, method="sda", source="exact", rounds=t))
    low, high = extremes(slack)
    return Finding(
        verdict(low >= 1), float(np.median(slack)), low, high,
        f"the bound with constant 1 is {number(low, 2)} to {number(high, 2)} times the exact error",
        f"{len(slack)} cases with T/2 ≥ k*, Ā known to every agent; the constant C₁ need not exceed 1 here",
    )  # fmt: skip


FIGURE_8 = Figure(
    "8", "Distributed linear estimation", estimation_pieces, draw_estimation, explain_estimation,
    (Claim("corollary-1", "Corollary 1", "Corollary 1 bounds the error of linear estimation.", _corollary_1),),
    ours=True,
)  # fmt: skip


# -- Figures 9 and 10: policy evaluation --------------------------------------------------------------------------


def _task(graph: str, agents: int, discount: float, seed: int) -> PolicyEvaluation:
    process = problems.garnet(STATES, BRANCHING, seed=seed)
    return PolicyEvaluation.from_problem(problem.network(graph, agents, seed), process, discount, seed=seed)


def _quantity(discount: float) -> str:
    return f"error at {discount:g}"


def evaluation(
    graph: str, agents: int, solver: str, rounds: list[int], trials: int, seed: int, code: str
) -> list[Row]:
    """The largest error of any agent in any state by discount and rounds, and the rate fitted to it."""
    horizons = np.array(rounds)
    base = {
        "experiment": "policy evaluation",
        "graph": graph,
        "method": solver,
        "agents": agents,
        "seed": seed,
    }
    tasks = {discount: _task(graph, agents, discount, seed) for discount in DISCOUNTS}
    if solver in PLUG_IN:
        # Rewards and transitions do not depend on the discount: one simulation serves all of them.
        first = tasks[DISCOUNTS[0]]
        rewards = averages(PLUG_IN[solver], first.network, first.streams, horizons, trials, seed)
        moves = first.sample_transitions(rounds, trials, seed)
    rows: list[Row] = []
    for discount, task in tasks.items():
        if solver in PLUG_IN:
            found = np.abs(task.plug_in(rewards, moves) - task.values).max(axis=(2, 3))
        else:
            found = task.simulate(LEARNING[solver], rounds, trials, seed, keep=False).errors
        here = {**base, "source": "simulation", "quantity": _quantity(discount), "trials": trials}
        for t, errors in zip(rounds, found, strict=True):
            rows.append({**here, "rounds": t, **_around(errors.mean(), errors.std(ddof=1) / np.sqrt(trials))})
        rows.append({**here, "quantity": f"rate at {discount:g}", **_rate(horizons, found)})
        if solver == "sda":
            for t in rounds:
                bound = task.bound(t)
                if bound.applies:
                    rows.append({**here, "rounds": t, "source": "corollary 2", "value": bound.total})
    return rows


def _rate(horizons: NDArray[np.int64], found: Array) -> dict[str, float]:
    """The fitted exponent of T, with the 95% interval of a bootstrap over trials."""
    late = horizons >= horizons.max() / FITTED
    rng = np.random.default_rng(0)
    trials = found.shape[1]
    fits = [
        slope(horizons[late], found[late][:, rng.integers(trials, size=trials)].mean(axis=1))
        for _ in range(200)
    ]
    low, high = np.quantile(fits, [0.025, 0.975])
    return {"value": slope(horizons[late], found[late].mean(axis=1)), "low": float(low), "high": float(high)}


def evaluation_pieces(settings: Settings) -> list[Piece]:
    s = settings
    rounds = [100, 200, 400, 800, 1600, 3200] if s.agents > MOST_AGENTS else [100, 200, 400, 800]
    agents = min(s.agents, MOST_AGENTS)
    parts = []
    for graph in GRAPHS:
        for solver in (*PLUG_IN, *LEARNING):
            trials = min(s.trials, FEW_TRIALS if solver in LEARNING else MOST_TRIALS)
            work = {
                "graph": graph, "agents": agents, "solver": solver, "rounds": rounds, "trials": trials, "seed": s.seed,
                "code": _code(),
            }  # fmt: skip
            weight = agents * trials * max(rounds) / 2e6 * (4 if solver in LEARNING else 1)
            parts.append(
                Piece(f"policy-evaluation-{graph}-{solver.replace(', ', '-')}", evaluation, work, weight)
            )
    return parts


def draw_evaluation(table: Table, settings: Settings) -> Any:
    drawn = style.picture(style.FULL, 5.4)
    axes = drawn.subplots(len(GRAPHS), len(DISCOUNTS), sharex=True, sharey=True)
    table = table.sort("rounds")
    names = ("centralized", "anytime-sda", "sda", "td, last", "td, averaged")
    for i, graph in enumerate(GRAPHS):
        for j, discount in enumerate(DISCOUNTS):
            ax = axes[i, j]
            here = table.where(graph=graph, quantity=_quantity(discount))
            for name in names:
                rows = here.where(method=name, source="simulation")
                style.line(ax, MARKS[name], rows.column("rounds"), rows.column("value"))
                if MARKS[name].marker:
                    style.points(ax, MARKS[name], rows.column("rounds"), rows)
            bound = here.where(source="corollary 2")
            ax.plot(bound.column("rounds"), bound.column("value"), color=style.BLUE, linewidth=0.6)
            ax.set_yscale("log")
            _rounds_axis(ax, rows.column("rounds"))
            if i == 0:
                ax.set_title(rf"$\gamma$ = {discount:g}")
            if i == len(GRAPHS) - 1:
                ax.set_xlabel("rounds $T$")
        axes[i, 0].set_ylabel(f"{TITLES[graph]}\n" + r"E max$_i\,\|\hat J_i - J^*\|_\infty$")
    drawn.legend(handles=_keys(names, "Corollary 2"), loc="outside lower center", ncols=3, handlelength=3)
    return drawn


def _rates(table: Table, solver: str) -> dict[str, float]:
    """Fitted rates by network, the median over discounts."""
    names = [f"rate at {discount:g}" for discount in DISCOUNTS]
    return {
        graph: float(np.median(table.where(graph=graph, method=solver, quantity=names).column("value")))
        for graph in GRAPHS
    }


def explain_evaluation(table: Table, settings: Settings) -> str:
    last = float(np.nanmax(table.column("rounds")))
    ratios = [
        table.value(graph=g, method="td, last", source="simulation", quantity=_quantity(d), rounds=last)
        / table.value(graph=g, method="anytime-sda", source="simulation", quantity=_quantity(d), rounds=last)
        for g in GRAPHS
        for d in DISCOUNTS
    ]
    return (
        f"A random Markov reward process of {STATES} states, {min(settings.agents, MOST_AGENTS)} agents with rewards "
        "of their own; all estimators see the same samples, and the thin line is Corollary 2 with constant 1. "
        f"Fitted rates: plug-in with Anytime SDA T^{number(_overall(table, 'anytime-sda'), 2)}, averaged temporal "
        f"differences T^{number(_overall(table, 'td, averaged'), 2)}; after {int(last)} rounds the last iterate of "
        f"temporal differences is {number(min(ratios), 2)} to {number(max(ratios), 2)} times as far off as the "
        "plug-in estimator with Anytime SDA."
    )


def _overall(table: Table, solver: str) -> float:
    return float(np.median(list(_rates(table, solver).values())))


def _rate_claim(solver: str, target: float, close: float, words: str) -> Any:
    """A bound's rate: an error that falls faster is within it, but is another rate, and so a caveat."""

    def judge(table: Table, settings: Settings) -> Finding:
        names = [f"rate at {discount:g}" for discount in DISCOUNTS]
        found = table.where(method=solver, quantity=names).column("value")
        rates = _rates(table, solver)
        slowest, fastest = max(rates.values()), min(rates.values())
        return Finding(
            verdict(slowest <= target + close, caveat=fastest < target - close),
            float(np.median(found)), *extremes(found),
            f"fitted exponents {listed(rates, 2)} (medians over γ)", words,
        )  # fmt: skip

    return judge


def _corollary_2(table: Table, settings: Settings) -> Finding:
    bounds = table.where(source="corollary 2")
    slack = [
        value / table.value(graph=graph, method="sda", source="simulation", quantity=quantity, rounds=t)
        for graph, quantity, t, value in zip(
            *(bounds.column(name) for name in ("graph", "quantity", "rounds", "value")), strict=True
        )
    ]
    low, high = extremes(slack)
    return Finding(
        verdict(low >= 1), float(np.median(slack)), low, high,
        f"the bound with constant 1 is {number(low, 2)} to {number(high, 2)} times the measured error",
        f"{len(slack)} cases with T/2 ≥ k*; the constant C₂ need not exceed 1 here",
    )  # fmt: skip


FIGURE_9 = Figure(
    "9", "Decentralized policy evaluation", evaluation_pieces, draw_evaluation, explain_evaluation,
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


# -- Figure 10: the discount ----------------------------------------------------------------------------------------


def _growth(table: Table, graph: str, solver: str) -> Array:
    """Errors after the last round by discount."""
    last = float(np.nanmax(table.column("rounds")))
    return np.array(
        [
            table.value(graph=graph, method=solver, source="simulation", quantity=_quantity(d), rounds=last)
            for d in DISCOUNTS
        ]
    )


def _exponent(errors: Array) -> float:
    return slope([1 / (1 - d) for d in DISCOUNTS], errors)


def draw_growth(table: Table, settings: Settings) -> Any:
    drawn = style.picture(style.FULL, 2.9)
    axes = drawn.subplots(1, len(GRAPHS), sharey=True)
    horizon = np.array([1 / (1 - d) for d in DISCOUNTS])
    for ax, graph in zip(axes, GRAPHS, strict=True):
        for name in ("anytime-sda", "sda", "td, last", "td, averaged"):
            errors = _growth(table, graph, name)
            mark = MARKS[name]
            face = mark.color if mark.filled else "white"
            style.line(ax, mark, horizon, errors, marker=mark.marker, markerfacecolor=face)
            at = (horizon[-1] * 1.12, errors[-1])
            ax.text(*at, number(_exponent(errors), 2), color=mark.color, fontsize=6.5, va="center")
        ax.set(xscale="log", yscale="log", xlabel=r"$1/(1-\gamma)$", xlim=(4.3, 190))
        ax.xaxis.set_major_locator(FixedLocator(horizon.round().tolist()))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticklabels([f"{h:.0f}" for h in horizon])
        ax.set_title(TITLES[graph])
    axes[0].set_ylabel(r"E max$_i\,\|\hat J_i - J^*\|_\infty$")
    names = ("anytime-sda", "sda", "td, last", "td, averaged")
    drawn.legend(
        handles=[style.key(MARKS[n]) for n in names], loc="outside lower center", ncols=4, handlelength=3
    )
    return drawn


def explain_growth(table: Table, settings: Settings) -> str:
    found = {s: [_exponent(_growth(table, g, s)) for g in GRAPHS] for s in ("anytime-sda", "td, last")}
    last = int(np.nanmax(table.column("rounds")))
    return (
        f"After {last} rounds the plug-in error grows like 1/(1-γ) to the power "
        f"{number(min(found['anytime-sda']), 2)} to {number(max(found['anytime-sda']), 2)} (numbers beside the lines), "
        "below the 3/2 that Corollary 2 allows. "
        f"The last iterate of temporal differences grows with exponents {number(min(found['td, last']), 2)} to "
        f"{number(max(found['td, last']), 2)}, from a larger error to begin with."
    )


def _growth_claim(table: Table, settings: Settings) -> Finding:
    found = [_exponent(_growth(table, graph, "anytime-sda")) for graph in GRAPHS]
    low, high = extremes(found)
    kind = Verdict.HOLDS if high <= 1.5 else Verdict.FAILS
    return Finding(
        kind, float(np.median(found)), low, high, f"exponent {interval(float(np.median(found)), low, high, 2)}",
        f"γ in {{{', '.join(f'{d:g}' for d in DISCOUNTS)}}}; an upper bound, and not tight for this process",
    )  # fmt: skip


FIGURE_10 = Figure(
    "10", "Errors against the effective horizon", evaluation_pieces, draw_growth, explain_growth,
    (Claim("discount", "after Corollary 2", "The plug-in error grows at most like (1-γ)^(-3/2).", _growth_claim),),
    ours=True,
)  # fmt: skip

FIGURES = (FIGURE_8, FIGURE_9, FIGURE_10)
