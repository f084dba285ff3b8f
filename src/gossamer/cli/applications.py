"""estimate and evaluate-policy: the two applications on built-in problems or on a user's own files."""

from __future__ import annotations

import csv as csv_module
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from gossamer.applications import (
    Alone,
    Centralized,
    KarMoura,
    LinearEstimation,
    PolicyEvaluation,
    TemporalDifference,
    XiaoBoydLall,
    problems,
)
from gossamer.cli.core import AsJson, Csv, Graph, Plot, Rounds, Seed, Weights
from gossamer.cli.output import emit, writing
from gossamer.cli.parsing import parse_horizons, parse_method, parse_methods, read_numbers
from gossamer.errors import InvalidInput, nearest
from gossamer.methods import Method
from gossamer.networks import Network
from gossamer.networks.reading import parse_network

Methods = Annotated[str, typer.Option("--methods", "-m", help="Our methods, separated by spaces.")]
Rivals = Annotated[bool, typer.Option("--rivals/--no-rivals", help="Show the earlier methods as well.")]
Trials = Annotated[int, typer.Option(help="Independent trials of every simulation.")]

KNOWN = ", Abar known (exact)"


def estimate(
    graph: Graph,
    data: Annotated[
        Path | None,
        typer.Option(
            help="CSV with a heading, or NPZ with X, y (rows of data) or A, parameter, covariance (sensors)."
        ),
    ] = None,
    target: Annotated[str, typer.Option(help="The CSV column that is explained by the others.")] = "y",
    split: Annotated[
        str, typer.Option(help="Who holds which rows: contiguous, random or by:COLUMN.")
    ] = "contiguous",
    intercept: Annotated[bool, typer.Option(help="Add a column of ones.")] = False,
    dimension: Annotated[int, typer.Option(help="Random sensors: number of parameters.")] = 5,
    measurements: Annotated[int, typer.Option(help="Random sensors: rows of every A_i.")] = 2,
    noise: Annotated[float, typer.Option(help="Random sensors: typical standard deviation.")] = 1.0,
    weighting: Annotated[str, typer.Option(help="precision, or plain as in the paper.")] = "precision",
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
    """Every sensor of a network estimates one parameter vector: ours, the earlier methods, and the limit."""
    network = parse_network(graph, weights, seed)
    horizons = parse_horizons(rounds)
    if data is None:
        problem = LinearEstimation.random(
            network, dimension, measurements, noise=noise, weighting=weighting, seed=seed
        )
    else:
        problem = _sensors(network, data, target, split, intercept, weighting, seed)
    recorded = problem.measurements is not None
    curves, notes = _estimation_curves(problem, methods, rivals, horizons, trials, seed)
    limits = [np.nan if recorded else float(problem.centralized_error(t)) for t in horizons]
    records = [_row(name, horizons, values) for name, values in curves.items()]
    if not recorded:
        records.append(_row("centralized limit", horizons, dict(zip(horizons, limits, strict=True))))
        bounds = {t: problem.bound(t) for t in horizons}
        records += _terms("Corollary 1", bounds)
        notes += _conditions("Corollary 1", bounds)
    what = "distance from the pooled fit" if recorded else "error of the parameter"
    title = f"Squared {what}, summed over agents, on {network.name}"
    emit(records, title=title, as_json=as_json, csv=csv, notes=notes, columns=_columns(horizons))
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
            "--problem", "-p",
            help="garnet:20x3, chain:10, grid-world:5x5, gym:FrozenLake, or a file: CSV with the matrix P "
            "(and --rewards), or NPZ with P, rewards and perhaps reward_std.",
        ),
    ] = "garnet:20x3",
    rewards: Annotated[Path | None, typer.Option(help="CSV of rewards, a row an agent, a column a state.")] = None,
    policy: Annotated[str, typer.Option(help="For gym: optimal, uniform, or a CSV, states by actions.")] = "optimal",
    discount: Annotated[float, typer.Option("--discount", "-g", help="gamma, at least 0 and below 1.")] = 0.9,
    rule: Annotated[str, typer.Option(help="How agents share the reward: perturb, split, one or same.")] = "perturb",
    spread: Annotated[float, typer.Option(help="How far perturbed rewards lie apart.")] = 1.0,
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
) -> None:  # fmt: skip
    """Agents with rewards of their own evaluate a policy together: ours, temporal differences, and the limit."""
    network = parse_network(graph, weights, seed)
    horizons = parse_horizons(rounds)
    task = _policy_problem(network, problem, rewards, policy, discount, rule, spread, reward_std, seed)
    solvers: dict[str, Any] = {f"plug-in, {name}": method for name, method in _chosen(methods).items()}
    if rivals:
        solvers["TD, last iterate"] = TemporalDifference()
        solvers["TD, averaged"] = TemporalDifference(step="sqrt", output="average")
        solvers["each agent alone"] = Alone()
    solvers["centralized limit"] = Centralized()
    runs = {
        name: task.simulate(solver, horizons, trials, seed, keep=False) for name, solver in solvers.items()
    }
    curves = {name: dict(zip(horizons, map(float, run.error), strict=True)) for name, run in runs.items()}
    records = [_row(name, horizons, values) for name, values in curves.items()]
    bounds = {t: task.bound(t) for t in horizons}
    records += _terms("Corollary 2", bounds)
    worst = (
        max(float(np.max(run.stderr / run.error)) for run in runs.values()) if trials > 1 else float("nan")
    )
    title = f"Largest error of any agent in any state, {problem} on {network.name}, gamma = {task.discount:g}"
    notes = [f"{task.states} states; {trials} trials, standard errors up to {worst:.1%} of the values"]
    notes += _conditions("Corollary 2", bounds)
    emit(records, title=title, as_json=as_json, csv=csv, notes=notes, columns=_columns(horizons))
    if plot:
        from gossamer.cli.plots import draw_errors

        limits = list(curves.pop("centralized limit").values())
        shown = {name: _points(values) for name, values in curves.items()}
        with writing(plot):
            title = f"{problem}, $\\gamma$ = {task.discount:g}, {network.name}"
            draw_errors(shown, horizons, limits, title, plot, r"$E\,\max_i\|\hat J_i-J^*\|_\infty$")


# -- tables -----------------------------------------------------------------------------------------------------


def _chosen(methods: str) -> dict[str, Method]:
    """Methods by what the user called them, so that one method with two settings makes two rows."""
    if methods.strip() == "all":
        return {method.name: method for method in parse_methods(methods)}
    return {text: parse_method(text) for text in methods.replace(";", " ").split()}


def _row(name: str, horizons: list[int], values: Mapping[int, float]) -> dict[str, Any]:
    return {"method": name, **{f"T={t}": values.get(t) for t in horizons}}


def _columns(horizons: list[int]) -> list[str]:
    """At most four horizons fit on a narrow screen; files and JSON hold all of them."""
    shown = np.unique(np.linspace(0, len(horizons) - 1, 4).round().astype(int))
    return ["method", *(f"T={horizons[k]}" for k in shown)]


def _points(values: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(values), list(values.values())


def _terms(name: str, bounds: dict[int, Any]) -> list[dict[str, Any]]:
    """The terms of a corollary and their sum, where its conditions hold; its constant is taken as 1."""
    horizons = list(bounds)
    names = next(iter(bounds.values())).terms
    rows = [
        _row(f"{name}, {term}", horizons, {t: b.terms[term] for t, b in bounds.items() if b.applies})
        for term in names
    ]
    total = {t: b.total for t, b in bounds.items() if b.applies}
    return [*rows, _row(f"{name}, sum (constant 1)", horizons, total)]


def _conditions(name: str, bounds: dict[int, Any]) -> list[str]:
    """Why a bound is missing at some horizons."""
    missing = [b.condition for b in bounds.values() if not b.applies]
    return [f"{name} needs {missing[0]}"] if missing else []


def _estimation_curves(
    problem: LinearEstimation, methods: str, rivals: bool, horizons: list[int], trials: int, seed: int
) -> tuple[dict[str, dict[int, float]], list[str]]:
    """Errors by method and horizon, without the horizons at which it is too early to invert."""
    curves: dict[str, dict[int, float]] = {}
    notes = []
    recorded = problem.measurements is not None
    for name, method in _chosen(methods).items():
        if method.mixing != "matrix":
            raise InvalidInput(f"{name} mixes by chance; here methods with one gossip matrix are compared")
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
            "Xiao-Boyd-Lall, one sample": XiaoBoydLall(),
            "Xiao-Boyd-Lall, T samples first": XiaoBoydLall(samples=None),
            "Kar-Moura, LU": KarMoura("LU"),
            "Kar-Moura, mixed": KarMoura("mixed"),
            "each sensor alone": Alone(),
        }
        for name, rival in others.items():
            run = problem.simulate(rival, horizons, trials, seed)
            curves[name] = dict(zip(horizons, map(float, run.total_error), strict=True))
    if not recorded:
        notes.append(f"{trials} trials; rows without 'exact' are simulated")
    return curves, notes


def _coefficients(problem: LinearEstimation, rounds: int) -> None:
    """What was estimated: the pooled fit, and how far the agents are from it."""
    needed = problem.gram_rounds_needed("chebyshev")
    held = problem.estimate("chebyshev", max(rounds, needed))
    records = [
        {
            "parameter": name,
            "pooled_fit": float(problem.parameter[k]),
            "agent_0": float(held[0, k]),
            "largest_difference": float(np.abs(held[:, k] - problem.parameter[k]).max()),
        }
        for k, name in enumerate(problem.names)
    ]
    emit(records, title=f"Estimates after {max(rounds, needed)} rounds of Chebyshev averaging")


# -- a user's files -----------------------------------------------------------------------------------------------


def _sensors(
    network: Network, path: Path, target: str, split: str, intercept: bool, weighting: str, seed: int
) -> LinearEstimation:
    if path.suffix.lower() == ".npz":
        arrays = _read_npz(path)
        if "A" in arrays:
            _needs(path, arrays, "A", "parameter")
            covariance = arrays.get("covariance", np.array(1.0))
            covariance = float(covariance) if covariance.ndim == 0 else list(covariance)
            return LinearEstimation(
                network, list(arrays["A"]), arrays["parameter"], covariance, weighting=weighting
            )
        _needs(path, arrays, "X", "y")
        rule: Any = arrays.get("agent", split)
        return LinearEstimation.from_data(
            arrays["X"], arrays["y"], network, rule, intercept=intercept, seed=seed
        )
    return LinearEstimation.from_data(
        _read_table(path), target, network, split, intercept=intercept, seed=seed
    )


def _policy_problem(
    network: Network, text: str, rewards: Path | None, policy: str, discount: float, rule: str, spread: float,
    reward_std: float, seed: int,
) -> PolicyEvaluation:  # fmt: skip
    path = Path(text)
    if path.suffix.lower() == ".npz":
        arrays = _read_npz(path)
        _needs(path, arrays, "P", "rewards")
        return PolicyEvaluation(
            network, arrays["P"], arrays["rewards"], discount, arrays.get("reward_std", reward_std)
        )
    if path.suffix.lower() == ".csv":
        if rewards is None:
            raise InvalidInput("a matrix P from a CSV file needs --rewards, a CSV with a row per agent")
        return PolicyEvaluation(
            network, read_numbers(path)[1], read_numbers(rewards)[1], discount, reward_std
        )
    process = _process(text, policy, discount, seed)
    return PolicyEvaluation.from_problem(
        network, process, discount, rule=rule, spread=spread, reward_std=reward_std, seed=seed
    )


def _process(text: str, policy: str, discount: float, seed: int) -> problems.MarkovRewardProcess:
    kind, _, rest = text.partition(":")
    if kind == "gym":
        table: Any = read_numbers(Path(policy))[1] if policy.endswith(".csv") else policy
        return problems.from_gymnasium(rest, table, discount)
    named: dict[str, Any] = {
        "garnet": problems.garnet,
        "chain": problems.chain,
        "grid-world": problems.grid_world,
    }
    if kind not in named:
        raise InvalidInput(
            f"{text!r} is no problem{nearest(kind, named)}; there are garnet:STATESxBRANCHING, chain:STATES, "
            "grid-world:ROWSxCOLS, gym:ENVIRONMENT, and files ending in .npz or .csv"
        )
    try:
        sizes = [int(part) for part in rest.split("x")] if rest else []
    except ValueError:
        raise InvalidInput(f"{text!r} needs whole numbers after the colon, such as garnet:20x3") from None
    most = 1 if kind == "chain" else 2
    if len(sizes) > most:
        raise InvalidInput(f"{kind} takes at most {most} numbers, got {len(sizes)} in {text!r}")
    seeded: dict[str, Any] = {"seed": seed} if kind == "garnet" else {}
    process: problems.MarkovRewardProcess = named[kind](*sizes, **seeded)
    return process


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as NPZ: {error}") from error


def _needs(path: Path, arrays: Mapping[str, Any], *names: str) -> None:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InvalidInput(
            f"{path} needs the arrays {', '.join(names)}, but it holds {', '.join(arrays) or 'none'}"
        )


def _read_table(path: Path) -> dict[str, Any]:
    """Columns by name; numbers where all cells of a column are numbers."""
    try:
        rows = [row for row in csv_module.reader(path.read_text().splitlines()) if row]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    if len(rows) < 2:
        raise InvalidInput(f"{path} needs a heading and rows of data, but it holds {len(rows)} lines")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise InvalidInput(f"{path}, line {number}: {len(rows[0])} cells are needed, got {len(row)}")
    columns: dict[str, Any] = {}
    for name, *cells in zip(*rows, strict=True):
        column = np.array(cells)
        try:
            columns[name.strip()] = column.astype(float)
        except ValueError:
            columns[name.strip()] = column
    return columns
