"""Figure 5: T = sqrt(N) rounds on stars of increasing size, with noise only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gossamer.arrays import Floats
from gossamer.engines.exact import exact
from gossamer.methods import DMASG, SDA, Method
from gossamer.networks import Network
from gossamer.observations import Gaussian
from gossamer.paper.pipeline import style
from gossamer.paper.pipeline.claims import (
    Claim,
    Finding,
    Judge,
    extremes,
    interval,
    near,
    number,
    span,
    verdict,
)
from gossamer.paper.pipeline.figure import Figure
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Results, Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import problem
from gossamer.paper.shared.problem import around, slope
from gossamer.theory import k_star

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

METHODS: dict[str, Method] = {"sda": SDA(), "d-masg": DMASG(stages=1)}
RESAMPLES = 1000


def stars(sizes: list[int], trials: int, seed: int) -> list[Row]:
    """Return exact and simulated errors on every star, and the slopes fitted to them."""
    rows: list[Row] = []
    base = {"experiment": "star", "graph": "star", "spread": 0.0, "seed": seed}
    errors: dict[str, list[Floats]] = {method: [] for method in METHODS}
    kappas = []
    for n in sizes:
        net, obs, rounds = Network.star(n), Gaussian(np.zeros(n), 1.0), math.isqrt(n)
        kappas.append(net.condition_number)
        common = {**base, "agents": n, "rounds": rounds}
        shifted = 1 - net.spectrum.eigenvalues / 2 if net.spectrum is not None else np.empty(0)
        facts = {
            "condition number": net.condition_number,
            "condition number of W1": float(shifted.max() / shifted.min()),
            "1/gap of W1": float(2 / net.lambda_2),
            "k*": k_star(net),
        }
        rows += [
            {**common, "source": "exact", "quantity": name, "value": float(v)} for name, v in facts.items()
        ]
        alone = {**common, "method": "alone", "source": "exact"}
        rows.append({**alone, "quantity": "total_error", "value": n / rounds})
        for method, parameters in METHODS.items():
            truth = exact(parameters, net, obs, rounds)
            runs = problem.run(parameters, net, obs, rounds, trials=trials, seed=seed, keep="errors")
            errors[method].append(runs.errors)
            for quantity in ("total_error", "bias"):
                value = getattr(truth, quantity)
                rows.append(
                    {**common, "method": method, "source": "exact", "quantity": quantity, "value": value}
                )
            rows.append(
                {**common, "method": method, "source": "simulation", "quantity": "total_error", "trials": trials,
                 **around(runs.total_error, runs.stderr, trials)}
            )  # fmt: skip
    for method, by_star in errors.items():
        exactly = Results(rows).where(method=method, source="exact", quantity="total_error").column("value")
        low, high = _bootstrap(kappas, np.stack(by_star), seed)
        common = {**base, "method": method, "quantity": "slope"}
        rows.append({**common, "source": "exact", "value": slope(kappas, exactly)})
        simulated = slope(kappas, np.mean(by_star, axis=1))
        rows.append(
            {**common, "source": "simulation", "trials": trials, "value": simulated, "low": low, "high": high}
        )
    return rows


def _bootstrap(kappas: list[float], errors: Floats, seed: int) -> tuple[float, float]:
    """Return the 95% interval of the fitted slope from resampled trials of every star."""
    rng = np.random.default_rng([seed, errors.shape[1]])
    trials = errors.shape[1]
    chosen = rng.integers(trials, size=(RESAMPLES, *errors.shape))
    means = np.take_along_axis(errors[None], chosen, axis=2).mean(axis=2)
    slopes = [slope(kappas, mean) for mean in means]
    low, high = np.quantile(slopes, [0.025, 0.975])
    return float(low), float(high)


def pieces(settings: Settings) -> list[Piece]:
    work = {"sizes": list(settings.star_agents), "trials": settings.trials, "seed": settings.seed}
    return [Piece("star", stars, work, 1.0)]


def draw(results: Results, settings: Settings) -> Picture:
    drawn = style.picture(4.6, 2.7)
    ax = drawn.subplots()
    rows = results.where(quantity="total_error").sort("agents")
    keys = []
    for method in ("d-masg", "sda", "alone"):
        mark = style.MARKS[method]
        truth, runs = (
            rows.where(method=method, source="exact"),
            rows.where(method=method, source="simulation"),
        )
        style.line(ax, mark, truth.column("agents"), np.log(truth.column("value")))
        label = mark.label
        if len(runs):
            style.points(ax, mark, runs.column("agents"), runs, np.log)
            label += f"\nslope {number(results.value(method=method, source='exact', quantity='slope'))}"
        keys.append(style.key(mark, label))
    style.listed_axis(ax, settings.star_agents)
    ax.set_xlabel(r"agents $N = \kappa(L)$ (log scale)")
    ax.set_ylabel(r"$\ln\,\mathrm{E}\,\sum_i (\hat\theta_{i,T}-\bar\mu)^2$")
    drawn.legend(handles=keys, loc="outside right center", handlelength=3, labelspacing=1.1, borderpad=1.2)
    return drawn


def explain(results: Results, settings: Settings) -> str:
    sda, masg = (results.value(method=m, source="exact", quantity="slope") for m in METHODS)
    ratio = _ratio(results, "sda", "alone")
    return (
        f"With T = √N rounds on a star the error grows like κ to the power {number(sda)} for SDA and {number(masg)} "
        f"for D-MASG. SDA's error is {span(ratio, 3)} times that of an agent that never sends a message and averages "
        "its own T samples, which is enough here because all means are equal."
    )


def _ratio(results: Results, above: str, below: str) -> Floats:
    rows = results.where(quantity="total_error", source="exact").sort("agents")
    return np.asarray(
        rows.where(method=above).column("value") / rows.where(method=below).column("value"), dtype=float
    )


def _slope_claim(method: str, target: float, close: float) -> Judge:
    def judge(results: Results, settings: Settings) -> Finding:
        value = results.value(method=method, source="exact", quantity="slope")
        runs = results.where(method=method, source="simulation", quantity="slope")
        low, high = float(runs.column("low")[0]), float(runs.column("high")[0])
        return Finding(
            near([value], target, close=close, loose=3 * close), value, low, high,
            f"exact {number(value)}; {settings.trials} runs {interval(float(runs.column('value')[0]), low, high)}",
            f"T = floor(√N) on {len(settings.star_agents)} stars, N = {min(settings.star_agents)} to "
            f"{max(settings.star_agents)}",
        )  # fmt: skip

    return judge


def _superior(results: Results, settings: Settings) -> Finding:
    ahead, alone = _ratio(results, "d-masg", "sda"), _ratio(results, "sda", "alone")
    low, high = extremes(ahead)
    return Finding(
        verdict(low > 1, caveat=alone.min() > 1), float(np.median(ahead)), low, high,
        f"D-MASG's error is {span((low, high), 2)} times SDA's",
        f"SDA's is {span(alone, 3)} times that of an agent that never communicates",
    )  # fmt: skip


def _covered(results: Results, settings: Settings) -> Finding:
    rows = results.where(quantity="k*").sort("agents")
    ratio = np.asarray(rows.column("rounds"), dtype=float) / 2 / np.asarray(rows.column("value"), dtype=float)
    low, high = extremes(ratio)
    return Finding(
        verdict(low >= 1), float(np.median(ratio)), low, high, f"(T/2)/k* is {span((low, high), 2)}",
        f"{int((ratio < 1).sum())} of {len(ratio)} stars violate T/2 ≥ k*, so Theorem 1 does not cover them",
    )  # fmt: skip


def _condition(results: Results, settings: Settings) -> Finding:
    per_agent = {}
    for name in ("condition number", "condition number of W1", "1/gap of W1"):
        rows = results.where(quantity=name).sort("agents")
        per_agent[name] = np.asarray(rows.column("value") / rows.column("agents"), dtype=float)
    own, shifted, gap = (
        per_agent["condition number"],
        per_agent["condition number of W1"],
        per_agent["1/gap of W1"],
    )
    plain = results.where(quantity="condition number of W1").column("value")
    low, high = extremes(shifted)
    exactly = bool(np.all(np.abs(own - 1) < 0.01))
    return Finding(
        verdict(exactly, caveat=not (low > 0.9 and high < 1.1)), float(own.mean()), *extremes(own),
        f"κ(L)/N = {span(own, 3)}; κ(W₁) = {span(plain, 3)}",
        f"κ(L) is N; W₁ as a matrix has condition number {number(float(np.median(plain)), 2)}, and 1/(1 − λ₂(W₁)) is "
        f"{number(float(gap.mean()), 2)} N",
    )  # fmt: skip


def _no_bias(results: Results, settings: Settings) -> Finding:
    bias = results.where(quantity="bias").column("value")
    low, high = extremes(bias)
    return Finding(
        verdict(high < 1e-20), high, low, high, f"largest squared bias {number(high, 1)}",
        "all means are equal and every method starts at their average",
    )  # fmt: skip


CLAIMS = (
    Claim(
        "star-kappa", "Sec. 5.3", "On a star κ is about N, for L and for the shifted matrix W₁.", _condition
    ),
    Claim("star-sda", "Sec. 5.3", "The slope of SDA is very close to 0.5.", _slope_claim("sda", 0.5, 0.05)),
    Claim("star-dmasg", "Sec. 5.3", "The slope of D-MASG is around 1.", _slope_claim("d-masg", 1.0, 0.1)),
    Claim("superior", "Sec. 5.3", "SDA performs better than D-MASG when T ≍ √κ.", _superior),
    Claim("no-bias", "App. Implementation", "With b = 0 the deterministic errors remain zero.", _no_bias),
    Claim(
        "star-covered",
        "App. Implementation",
        "SDA's parameters follow Theorem 1 (T/2 ≥ k*) on the stars.",
        _covered,
    ),
)

FIGURE = Figure("5", "T = √N rounds on stars", pieces, draw, explain, CLAIMS)
