"""estimate and evaluate-policy: the two applications on built-in problems or on a user's own files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import gossamer as gs  # its names load when they are used, so that help pages stay fast
from gossamer.cli.options import AsJson, Csv, Graph, Plot, Rounds, Seed, Trials, Weights
from gossamer.cli.output import column, emit, wide, writing
from gossamer.cli.parsing import parse_horizons, parse_method, parse_methods, parse_network
from gossamer.errors import InvalidInput

Methods = Annotated[
    str, typer.Option("--methods", "-m", help="Averaging methods to use, separated by spaces, or all.")
]
Rivals = Annotated[bool, typer.Option("--rivals/--no-rivals", help="Also show methods from earlier papers.")]

KNOWN = ", Abar known (exact)"


def estimate(
    graph: Graph,
    data: Annotated[
        Path | None,
        typer.Option(
            help="CSV with a header row, or NPZ with X, y (rows of data) or A, parameter, covariance (sensors)."
        ),
    ] = None,
    target: Annotated[str, typer.Option(help="The CSV column to predict from the others.")] = "y",
    split: Annotated[
        str, typer.Option(help="Which agent holds which rows: contiguous, random or by:COLUMN.")
    ] = "contiguous",
    intercept: Annotated[bool, typer.Option(help="Add a column of ones.")] = False,
    dimension: Annotated[int, typer.Option(help="Random sensors: number of parameters.")] = 5,
    measurements: Annotated[int, typer.Option(help="Random sensors: rows of every A_i.")] = 2,
    noise: Annotated[float, typer.Option(help="Random sensors: typical standard deviation.")] = 1.0,
    weighting: Annotated[
        str, typer.Option(help="How sensors are weighted: precision, or plain as in the paper.")
    ] = "precision",
    methods: Methods = "sda anytime-sda dsg",
    rivals: Rivals = True,
    rounds: Rounds = "100,400,1600",
    trials: Trials = 100,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """Estimate one parameter vector at every sensor: our methods, earlier ones, and the limit."""
    from gossamer.cli.application_files import read_sensors

    network = parse_network(graph, weights, seed)
    horizons = parse_horizons(rounds)
    if data is None:
        problem = gs.LinearEstimation.random(
            network, dimension, measurements, noise=noise, weighting=weighting, seed=seed
        )
    else:
        problem = read_sensors(
            network, data, target=target, split=split, intercept=intercept, weighting=weighting, seed=seed
        )
    recorded = problem.measurements is not None
    curves, notes = _estimation_curves(problem, methods, rivals, horizons, trials, seed)
    limits = [math.nan if recorded else float(problem.centralized_error(t)) for t in horizons]
    rows: dict[str, Mapping[int, float]] = dict(curves)
    beside: dict[str, Mapping[int, float]] = {}
    if not recorded:
        bounds = {t: problem.bound(t) for t in horizons}
        beside = _terms("Corollary 1", bounds)
        rows |= {"centralized limit": dict(zip(horizons, limits, strict=True)), **beside}
        notes += _conditions("Corollary 1", bounds)
    limit = dict(zip(horizons, limits, strict=True))
    records = [
        {
            "network": network.name,
            "method": name,
            "rounds": t,
            "total_error": value,
            "mse": value / network.agents,
            "centralized_limit": limit[t],
            "over_limit": value / limit[t] if limit[t] else math.inf,
            **_at(t, beside),
        }
        for name, values in curves.items()
        for t, value in values.items()
    ]
    what = "distance from the pooled fit" if recorded else "error of the parameter"
    title = f"Total squared {what} (summed over agents) on {network.name}, after T rounds"
    emit(records, title=title, as_json=as_json, csv=csv, notes=notes, table=wide(rows, _few(horizons)))
    if recorded and not as_json:
        _coefficients(problem, horizons[-1])
    if plot:
        from gossamer.cli.plots import draw_errors

        shown = {name: _points(values) for name, values in curves.items() if not name.endswith(KNOWN)}
        with writing(plot):
            title = f"Linear estimation on {network.name}"
            draw_errors(shown, horizons, limits, title, plot, r"$E\,\sum_i\|\hat\beta_i-\beta^*\|^2$")


def evaluate_policy(
    graph: Graph,
    problem: Annotated[
        str,
        typer.Option(
            "--problem",
            "-p",
            help="garnet:20x3, chain:10, grid-world:5x5, gym:FrozenLake, or a file: CSV with the matrix P "
            "(and --rewards), or NPZ with P, rewards and optionally reward_std.",
        ),
    ] = "garnet:20x3",
    rewards: Annotated[
        Path | None, typer.Option(help="CSV of rewards, one row per agent, one column per state.")
    ] = None,
    policy: Annotated[
        str, typer.Option(help="For gym: optimal, uniform, or a CSV with one row per state.")
    ] = "optimal",
    discount: Annotated[
        float, typer.Option("--discount", "-g", help="Discount factor gamma, at least 0 and below 1.")
    ] = 0.9,
    rule: Annotated[
        str, typer.Option(help="How agents share the reward: perturb, split, one or same.")
    ] = "perturb",
    spread: Annotated[float, typer.Option(help="How far apart perturbed rewards are.")] = 1.0,
    reward_std: Annotated[float, typer.Option(help="Standard deviation of every observed reward.")] = 1.0,
    methods: Methods = "sda anytime-sda dsg",
    rivals: Rivals = True,
    rounds: Rounds = "100,400,1600",
    trials: Trials = 20,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> None:
    """Evaluate a policy with agents that each see their own rewards: our methods, temporal differences, the limit."""
    from gossamer.cli.application_files import parse_policy_problem

    network = parse_network(graph, weights, seed)
    horizons = parse_horizons(rounds)
    task = parse_policy_problem(
        network,
        problem,
        rewards=rewards,
        policy=policy,
        discount=discount,
        rule=rule,
        spread=spread,
        reward_std=reward_std,
        seed=seed,
    )
    solvers: dict[str, Any] = {f"plug-in, {name}": method for name, method in _chosen(methods).items()}
    if rivals:
        solvers["TD, last iterate"] = gs.applications.TemporalDifference()
        solvers["TD, averaged"] = gs.applications.TemporalDifference(step="sqrt", output="average")
        solvers["each agent alone"] = gs.applications.Alone()
    solvers["centralized limit"] = gs.applications.Centralized()
    runs = {
        name: task.simulate(solver, horizons, trials, seed, keep=False) for name, solver in solvers.items()
    }
    curves = {name: dict(zip(horizons, map(float, run.error), strict=True)) for name, run in runs.items()}
    bounds = {t: task.bound(t) for t in horizons}
    beside = _terms("Corollary 2", bounds)
    records = [
        {"network": network.name, "method": name, "rounds": t, "error": value, **_at(t, beside)}
        for name, values in curves.items()
        for t, value in values.items()
    ]
    title = f"Largest error of any agent in any state, {problem} on {network.name}, gamma = {task.discount:g}"
    notes = [f"{task.states} states; {trials} trials{_uncertainty(runs.values())}"]
    notes += _conditions("Corollary 2", bounds)
    rows = {**curves, **beside}
    emit(records, title=title, as_json=as_json, csv=csv, notes=notes, table=wide(rows, _few(horizons)))
    if plot:
        from gossamer.cli.plots import draw_errors

        limits = list(curves.pop("centralized limit").values())
        shown = {name: _points(values) for name, values in curves.items()}
        with writing(plot):
            title = f"{problem}, $\\gamma$ = {task.discount:g}, {network.name}"
            draw_errors(shown, horizons, limits, title, plot, r"$E\,\max_i\|\hat J_i-J^*\|_\infty$")


def _uncertainty(runs: Iterable[Any]) -> str:
    """How large the standard errors are next to the values; nothing can be said of a single trial."""
    worst = max(float((run.stderr / run.error).max()) for run in runs)
    return "" if math.isnan(worst) else f", standard errors up to {worst:.1%} of the values"


# -- tables -----------------------------------------------------------------------------------------------------


def _chosen(methods: str) -> dict[str, gs.Method]:
    """Methods by the user's names for them, so that one method with two settings makes two rows."""
    if methods.strip() == "all":
        return {method.name: method for method in parse_methods(methods)}
    return {text: parse_method(text) for text in methods.replace(";", " ").split()}


def _few(horizons: list[int]) -> list[int]:
    """At most four horizons, which fit on a narrow screen; files and JSON hold all of them."""
    return [horizons[k] for k in sorted({round(k * (len(horizons) - 1) / 3) for k in range(4)})]


def _at(rounds: int, beside: Mapping[str, Mapping[int, float]]) -> dict[str, float | None]:
    """What stands beside every method after so many rounds, under names for files."""
    return {column(name): values.get(rounds) for name, values in beside.items()}


def _points(values: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(values), list(values.values())


def _terms(name: str, bounds: dict[int, Any]) -> dict[str, Mapping[int, float]]:
    """The terms of a corollary and their sum, where its conditions hold; its constant is taken as 1."""
    holds = {t: bound for t, bound in bounds.items() if bound.applies}
    names = next(iter(bounds.values())).terms
    rows = {f"{name}, {term}": {t: bound.terms[term] for t, bound in holds.items()} for term in names}
    return {**rows, f"{name}, sum (constant 1)": {t: bound.total for t, bound in holds.items()}}


def _conditions(name: str, bounds: dict[int, Any]) -> list[str]:
    """Why a bound is missing at some horizons."""
    missing = [b.condition for b in bounds.values() if not b.applies]
    return [f"{name} needs {missing[0]}"] if missing else []


def _estimation_curves(
    problem: gs.LinearEstimation, methods: str, rivals: bool, horizons: list[int], trials: int, seed: int
) -> tuple[dict[str, dict[int, float]], list[str]]:
    """Errors by method and horizon, without the horizons at which it is too early to invert."""
    curves: dict[str, dict[int, float]] = {}
    notes = []
    recorded = problem.measurements is not None
    for name, method in _chosen(methods).items():
        if method.mixing != "matrix":
            raise InvalidInput(
                f"{name} gossips at random; use a method that mixes with one fixed gossip matrix"
            )
        if not recorded:
            known = problem.exact(method, horizons).total_error
            curves[name + KNOWN] = dict(zip(horizons, map(float, known), strict=True))
        needed = problem.gram_rounds_needed(method)
        enough = [t for t in horizons if t >= needed]
        if len(enough) < len(horizons):
            notes.append(f"{name} needs {needed} rounds before A_i'A_i may be inverted")
        if enough:
            run = problem.simulate(method, enough, 1 if recorded else trials, seed)
            curves[name] = dict(zip(enough, map(float, run.total_error), strict=True))
    if rivals and not recorded:
        others = {
            "Xiao-Boyd-Lall, one sample": gs.applications.XiaoBoydLall(),
            "Xiao-Boyd-Lall, T samples first": gs.applications.XiaoBoydLall(samples=None),
            "Kar-Moura, LU": gs.applications.KarMoura("LU"),
            "Kar-Moura, mixed": gs.applications.KarMoura("mixed"),
            "each sensor alone": gs.applications.Alone(),
        }
        for name, rival in others.items():
            run = problem.simulate(rival, horizons, trials, seed)
            curves[name] = dict(zip(horizons, map(float, run.total_error), strict=True))
    if not recorded:
        notes.append(f"{trials} trials; rows without 'exact' are simulated")
    return curves, notes


def _coefficients(problem: gs.LinearEstimation, rounds: int) -> None:
    """What was estimated: the pooled fit, and how far the agents are from it."""
    needed = problem.gram_rounds_needed("chebyshev")
    held = problem.estimate("chebyshev", max(rounds, needed))
    records = [
        {
            "parameter": name,
            "pooled_fit": float(problem.parameter[k]),
            "agent_0": float(held[0, k]),
            "largest_difference": float(abs(held[:, k] - problem.parameter[k]).max()),
        }
        for k, name in enumerate(problem.names)
    ]
    emit(records, title=f"Estimates after {max(rounds, needed)} rounds of Chebyshev averaging")
