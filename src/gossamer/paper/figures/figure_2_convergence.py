"""Figure 2: how fast SDA, D-MASG and DSG converge on the five networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gossamer.arrays import Floats
from gossamer.networks import Network
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import (
    USUALLY,
    Claim,
    Finding,
    Judge,
    by_share,
    interval,
    listed,
    middle,
    number,
    percent,
    share,
    span,
    verdict,
)
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import problem
from gossamer.paper.shared.convergence import METHODS, horizons, main_pieces
from gossamer.paper.shared.modes import EverySDA, energies, modes
from gossamer.paper.shared.problem import GRAPHS, TITLES
from gossamer.plotting import log_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

DRAWS = "convergence draws"


def converge_draws(
    graph: str, agents: int, spread: float, stages: Sequence[int], first: int, draws: int, seed: int
) -> list[Row]:
    """Return the exact errors of all three methods for many draws of the means (and of the random graph)."""
    rows: list[Row] = []
    base = problem.described(DRAWS, graph, agents, spread, seed, source="exact")
    numbers = range(first, first + draws)
    groups = [[d] for d in numbers] if graph == "erdos-renyi" else [list(numbers)]
    for group in groups:
        net = problem.network(graph, agents, seed, group[0])
        rounds = horizons(net, stages)
        mean = np.stack([problem.means(agents, spread, seed, d) for d in group])
        for method, errors in _errors(net, mean, rounds).items():
            for stage, t, per_draw in zip(stages, rounds, errors, strict=True):
                common = {**base, "method": method, "rounds": t, "quantity": f"total_error, K={stage}"}
                rows += [
                    {**common, "draw": d, "value": v} for d, v in zip(group, per_draw.tolist(), strict=True)
                ]
    return rows


def _errors(net: Network, mean: Floats, rounds: list[int]) -> dict[str, Floats]:
    """Return (H, D) exact errors by method."""
    energy = energies(net, mean)
    errors = {"sda": EverySDA(net, max(rounds)).total_error(mean)[np.array(rounds) - 1]}
    for method in ("d-masg", "dsg"):
        response, gain = modes(METHODS[method], net, rounds)
        # Primal methods start at zero and forget this slowly, so their constant mode is biased as well.
        off_center = np.outer((response[:, 0] - 1) ** 2, net.agents * mean.mean(axis=1) ** 2)
        errors[method] = off_center + response[:, 1:] ** 2 @ energy + gain.sum(axis=1)[:, None]
    return errors


def pieces(settings: Settings) -> list[Piece]:
    s = settings
    parts = main_pieces(s)
    for graph in GRAPHS:
        # The random graph is new in every draw, so its draws are split into pieces of work.
        split = 8 if graph == "erdos-renyi" and s.draws >= 8 else 1
        bounds = np.linspace(0, s.draws, split + 1).astype(int) + 1
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            work = {
                "graph": graph,
                "agents": s.agents,
                "spread": s.spread,
                "stages": list(s.stages),
                "first": first,
                "draws": last - first,
                "seed": s.seed,
            }
            name = f"convergence-draws-{graph}-{first}"
            parts.append(Piece(name, converge_draws, work, 0.1 * (last - first) if split > 1 else 0.5))
    return parts


# -- the picture -------------------------------------------------------------------------------------------


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(style.FULL, 4.3)
    axes = drawn.subplots(2, 3)
    results = results.where(experiment="convergence", quantity="total_error").sort("rounds")
    for ax, graph in zip(axes.flat, GRAPHS, strict=False):
        for method in METHODS:
            mark = style.MARKS[method]
            truth = results.where(graph=graph, method=method, source="exact")
            runs = results.where(graph=graph, method=method, source="simulation")
            style.line(ax, mark, truth.column("rounds"), np.log(truth.column("value")))
            style.points(ax, mark, runs.column("rounds"), runs, np.log)
        ax.set_xscale("log")
        log_ticks(ax.xaxis, room=26)
        ax.set_title(TITLES[graph])
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\ln\,\mathrm{E}\,\sum_i (\hat\theta_{i,T}-\bar\mu)^2$")
    for ax in (*axes[1, :2], axes[0, 2]):
        ax.set_xlabel("rounds $T$")
    style.legend_panel(axes[1, 2], [style.key(style.MARKS[m]) for m in METHODS], style.marks_note(settings))
    return drawn


def explain(results: Results, settings: Settings) -> str:
    stages = settings.stages
    ahead = {TITLES[g]: middle(_lead(results, g, stages[-1]))[0] for g in GRAPHS}
    outside, of = agreement(results.where(experiment="convergence"))
    return (
        "SDA's lead at the last point over the better of the two primal methods, in ln error (negative: behind), is "
        f"{listed(ahead, 2)} (median of {settings.draws} draws). "
        f"{of - outside} of {of} simulated points have the exact value inside their 95% interval."
    )


def agreement(results: Results) -> tuple[int, int]:
    """Return the number of simulated errors whose 95% interval misses the exact error, and their total number."""
    runs = results.where(source="simulation", quantity="total_error").sort("graph", "method", "rounds")
    truth = (
        results.where(source="exact", quantity="total_error")
        .sort("graph", "method", "rounds")
        .column("value")
    )
    outside = (truth < runs.column("low")) | (truth > runs.column("high"))
    return int(outside.sum()), len(runs)


# -- the claims --------------------------------------------------------------------------------------------


def _logs(results: Results, graph: str, method: str, stage: int) -> Floats:
    """Return (D,) logarithms of the exact error in every draw."""
    rows = results.where(
        experiment=DRAWS, graph=graph, method=method, quantity=f"total_error, K={stage}"
    ).sort("draw")
    return np.asarray(np.log(rows.column("value").astype(float)))


def _lead(results: Results, graph: str, stage: int) -> Floats:
    """Return (D,) differences: the ln error of the better primal method minus SDA's."""
    primal = np.minimum(_logs(results, graph, "d-masg", stage), _logs(results, graph, "dsg", stage))
    return np.asarray(primal - _logs(results, graph, "sda", stage))


def _outperforms(results: Results, settings: Settings) -> Finding:
    lead = np.stack([[_lead(results, g, k) for k in settings.stages] for g in GRAPHS])  # (graph, K, draw)
    wins = np.all(lead > 0, axis=(0, 1))
    part, low, high = share(wins)
    ahead = {g: float(np.mean(values > 0)) for g, values in zip(GRAPHS, lead, strict=True)}
    behind = ", ".join(f"{TITLES[g]} in {100 * (1 - part_):.0f}%" for g, part_ in ahead.items() if part_ < 1)
    worst_graph = min(GRAPHS, key=lambda g: ahead[g])
    worst = middle(-lead[GRAPHS.index(worst_graph), -1])
    return Finding(
        by_share(wins),
        part,
        low,
        high,
        f"ahead on every graph at every K in {percent(part, low, high)} of draws; at the last K on "
        f"{TITLES[worst_graph]} its ln error exceeds the best primal method's by {interval(*worst, digits=2)}",
        f"behind at (draw, K): {behind or 'never'}; averaging over the last T/2 rounds, SDA's variance tends to 2σ²/T, "
        "DSG's to σ²/T",
    )


def _large_kappa(results: Results, settings: Settings) -> Finding:
    lead = np.stack([[_lead(results, g, k) for k in settings.stages] for g in GRAPHS])
    better = lead[:3].min(axis=0) > lead[3:].max(axis=0)  # (K, draw)
    ordered = np.all(lead[:-1] >= lead[1:], axis=(0, 1))
    part, low, high = share(better)
    center = {TITLES[g]: float(np.median(values[0])) for g, values in zip(GRAPHS, lead, strict=True)}
    last = {TITLES[g]: float(np.median(values[-1])) for g, values in zip(GRAPHS, lead, strict=True)}
    return Finding(
        verdict(part > 0.5, caveat=part < 0.95 or not ordered.mean() > 0.95),
        part,
        low,
        high,
        f"lead in ln error at the first K: {listed(center, 2)}; at the last: {listed(last, 2)}",
        f"path, cycle and star all lead by more than grid and random graph in {100 * part:.0f}% of (draw, K); "
        f"the lead falls with κ, graph by graph, in {100 * ordered.mean():.0f}% of draws",
    )


def _early(method: str) -> Judge:
    """Judge whether `method` beats DSG at the first K, or else at the second, where κ is large (path, cycle, star)."""

    def judge(results: Results, settings: Settings) -> Finding:
        first, second = settings.stages[:2]
        gap = {
            k: np.stack([_logs(results, g, "dsg", k) - _logs(results, g, method, k) for g in GRAPHS])
            for k in (first, second)
        }
        at_once, soon = (share(np.all(gap[k][:3] > 0, axis=0)) for k in (first, second))
        center = {
            k: {TITLES[g]: float(np.median(v)) for g, v in zip(GRAPHS, gap[k], strict=True)} for k in gap
        }
        everywhere = share(np.all(gap[first] > 0, axis=0))[0]
        return Finding(
            verdict(soon[0] > USUALLY, caveat=at_once[0] < USUALLY or everywhere < USUALLY),
            *at_once,
            f"ln error below DSG's at K={first}: {listed(center[first], 2)}; at K={second}: "
            f"{listed(center[second], 2)} (negative: above)",
            f"ahead on all of path, cycle and star at K={first} in {percent(*at_once)} of draws, at K={second} in "
            f"{percent(*soon)}; on all five graphs at K={first} in {100 * everywhere:.0f}%",
        )

    return judge


def _asymptotic(results: Results, settings: Settings) -> Finding:
    slopes = {}
    for method in ("sda", "d-masg"):
        for graph in GRAPHS:
            rows = results.where(
                experiment="convergence", graph=graph, method=method, quantity="variance"
            ).sort("rounds")
            slopes[f"{style.MARKS[method].label} on {TITLES[graph]}"] = problem.slope(
                rows.column("rounds")[-2:], rows.column("value")[-2:]
            )
    low, high = min(slopes.values()), max(slopes.values())
    worst = max(slopes, key=lambda name: abs(slopes[name] + 1))
    return Finding(
        verdict(high < -0.8, caveat=low < -1.2),
        slopes[worst],
        low,
        high,
        f"slope of ln variance against ln T over the last two K: {span((low, high), 3)}",
        f"furthest from −1: {worst} ({number(slopes[worst], 3)}); steeper than −1 where the higher-order term still "
        "matters",
    )


def _bias(results: Results, graph: str, method: str, settings: Settings) -> tuple[Floats, Floats]:
    """Return T and the squared bias where it is above the rounding error."""
    rows = results.where(experiment="convergence", graph=graph, method=method, quantity="bias").sort("rounds")
    rounds, bias = (np.asarray(rows.column(name), dtype=float) for name in ("rounds", "value"))
    visible = bias > 1e-20 * settings.agents * settings.spread**2
    return rounds[visible], bias[visible]


def _linear_bias(method: str) -> Judge:
    """Judge whether the bias falls like e^(-c T/sqrt κ) with a fixed c; if it is a power of T, c shrinks with T."""

    def judge(results: Results, settings: Settings) -> Finding | None:
        first, last, powers = {}, {}, {}
        for graph in GRAPHS:
            rounds, bias = _bias(results, graph, method, settings)
            if len(rounds) < 2:
                continue
            root = np.sqrt(results.value(experiment="convergence", graph=graph, quantity="condition number"))
            rates = -np.diff(np.log(bias)) / np.diff(rounds) * root
            first[TITLES[graph]], last[TITLES[graph]] = float(rates[0]), float(rates[-1])
            powers[TITLES[graph]] = problem.slope(rounds[-2:], bias[-2:])
        if not first:
            return None
        kept = [last[name] / first[name] for name in first]
        return Finding(
            verdict(min(kept) > 0.5, caveat=min(last.values()) < 0.1),
            float(np.median(list(last.values()))),
            min(last.values()),
            max(last.values()),
            f"exponent c of e^(−cT/√κ) between the first two K: {listed(first, 2)}; last two: {listed(last, 2)}",
            (
                "the same at both ends, as for a linear rate"
                if min(kept) > 0.5
                else "it shrinks: the decay is a power of T, not exponential; power at the last two K: "
                f"{listed(powers, 3)}"
            )
            + "; graphs whose bias is below rounding by the second K are left out"
            * (len(first) < len(GRAPHS)),
        )

    return judge


def _theorem_applies(results: Results, settings: Settings) -> Finding:
    rows = results.where(experiment="convergence", method="sda", source="simulation").sort("graph", "rounds")
    first = {g: float(rows.where(graph=g).column("rounds").min()) for g in GRAPHS}
    start = {g: results.value(experiment="convergence", graph=g, quantity="k*") for g in GRAPHS}
    bad = [
        f"{TITLES[g]} T={int(t)} (needs {int(2 * start[g])})"
        for g in GRAPHS
        for t in rows.where(graph=g).column("rounds")
        if t / 2 < start[g]
    ]
    tightest = min(first[g] / 2 / start[g] for g in GRAPHS)
    return Finding(
        verdict(not bad), tightest, tightest, tightest,
        f"{len(rows) - len(bad)} of {len(rows)} points satisfy T/2 ≥ k*",
        "Theorem 1 does not cover " + "; ".join(bad) if bad else "Theorem 1 covers every point",
    )  # fmt: skip


CLAIMS = (
    Claim("outperforms", "Sec. 5.1 (i)", "SDA outperforms D-MASG and DSG on each graph.", _outperforms),
    Claim("large-kappa", "Sec. 5.1 (i)", "SDA's advantage is significant when κ(L) is large.", _large_kappa),
    Claim(
        "early-sda", "Sec. 5.1 (ii)", "SDA converges much faster than DSG early on, especially when κ(L) is large.",
        _early("sda"),
    ),
    Claim(
        "early-dmasg", "Sec. 5.1 (ii)",
        "D-MASG converges much faster than DSG early on, especially when κ(L) is large.", _early("d-masg"),
    ),
    Claim(
        "one-over-t", "Sec. 5.3", "The stochastic error of SDA and D-MASG decays like σ²/T asymptotically.", _asymptotic
    ),
    Claim(
        "bias-sda", "Sec. 5.3", "SDA's deterministic error decays linearly with exponent O(−T/√κ).",
        _linear_bias("sda"),
    ),
    Claim(
        "bias-dmasg", "Sec. 5.3", "D-MASG's deterministic error decays linearly with exponent O(−T/√κ).",
        _linear_bias("d-masg"),
    ),
    Claim(
        "theorem-applies", "App. Implementation", "SDA's parameters are chosen according to Theorem 1 (T/2 ≥ k*).",
        _theorem_applies,
    ),
)  # fmt: skip

FIGURE = Figure("2", "Convergence of SDA, D-MASG and DSG", pieces, draw, explain, CLAIMS)
