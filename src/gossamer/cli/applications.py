"""estimate and evaluate-policy: the two applications, on built-in problems or on your own files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

import gossamer as gs  # its names load when they are used, so that help pages stay fast
from gossamer.cli.commands import refuse
from gossamer.cli.formatting import plain, shown
from gossamer.cli.options import (
    Graph,
    OutputOptions,
    Rounds,
    Seed,
    Trials,
    Weights,
    complete_methods,
    complete_networks,
    grouped,
    option,
)
from gossamer.cli.output import Record, column, emit, few, wide
from gossamer.cli.parsing import parse_horizons, parse_methods, parse_network
from gossamer.cli.values import NETWORK, ExperienceOptions, environment_of, learn_values
from gossamer.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from gossamer.arrays import Floats
    from gossamer.results import Result
    from gossamer.theory import Bound

Methods = Annotated[
    str,
    option(
        "Averaging methods to use, separated by spaces, or all.",
        "--methods",
        "-m",
        autocompletion=complete_methods,
    ),
]
Rivals = Annotated[bool, option("Also show methods from earlier papers.", "--rivals/--no-rivals")]

KNOWN = ", Abar known (exact)"

ESTIMATION = (
    "network",
    "method",
    "agents",
    "rounds",
    "total_error",
    "stderr",
    "trials",
    "mse",
    "centralized_limit",
    "over_limit",
    "note",
)
"""The columns of `estimate`; columns of the corollary, or of a fit to recorded data, are added to them."""


@grouped()
def estimate(
    graph: Graph,
    data: Annotated[
        Path | None,
        option(
            "CSV with a header row, or NPZ with X, y (rows of data) or A, parameter, covariance (sensors)."
        ),
    ] = None,
    target: Annotated[str, option("The CSV column to predict from the others.")] = "y",
    split: Annotated[
        str, option("Which agent holds which rows: contiguous, random or by:COLUMN.")
    ] = "contiguous",
    intercept: Annotated[bool, option("For rows of data: add a column of ones.")] = True,
    dimension: Annotated[int, option("For random sensors: number of parameters, for example 5.")] = 5,
    measurements: Annotated[
        int, option("For random sensors: number of rows of every A_i, for example 2.")
    ] = 2,
    noise: Annotated[
        float,
        option("For random sensors: typical standard deviation of the noise, for example 1.0."),
    ] = 1.0,
    weighting: Annotated[
        str, option("Weighting of the sensors: precision, or plain as in the paper.")
    ] = "precision",
    methods: Methods = "sda anytime-sda dsg",
    rivals: Rivals = True,
    rounds: Rounds = "100,400,1600",
    trials: Trials = 100,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    *,
    output: OutputOptions,
) -> None:
    """Estimate one parameter vector at every sensor, and compare with earlier methods and the limit."""
    from gossamer.cli.application_files import read_sensors

    network = parse_network(graph, weights, seed)
    horizons = sorted(set(parse_horizons(rounds)))
    if data is None:
        refuse("target split intercept", "without --data")
        problem = gs.LinearEstimation.random(
            network, dimension, measurements, noise=noise, weighting=weighting, seed=seed
        )
    else:
        refuse("dimension measurements noise", "with --data, which is not random")
        problem = read_sensors(
            network, data, target=target, split=split, intercept=intercept, weighting=weighting, seed=seed
        )
    recorded = problem.measurements is not None
    if recorded:
        refuse("trials rivals", "with rows of data, where nothing is random")
    corollary = Corollary(
        "Corollary 1", f"sda{KNOWN}", {} if recorded else {t: problem.bound(t) for t in horizons}
    )
    rows = _all_rows(problem, methods, rivals, horizons, trials, seed)
    records = corollary.added_to(rows)
    what = "distance from the pooled fit" if recorded else "error of the parameter"
    output.emit(
        records,
        title=f"Total squared {what} (summed over agents) on {network.name}, after T rounds",
        notes=[
            *_notes(rows),
            *corollary.conditions(),
            *([] if recorded else [f"{trials} trials, ± standard error"]),
        ],
        table=_table(rows, "total_error", corollary.rows()),
    )
    if recorded and not output.as_json:
        _show_fit(problem, records)
    simulated = [row for row in rows if not row["method"].endswith(KNOWN)]
    output.draw(lambda: _draw(simulated, "total_error", f"Linear estimation on {network.name}"))


@grouped()
def evaluate_policy(
    graph: Annotated[
        str,
        typer.Argument(
            help="A network by name (cycle:10, grid:3x3, ...) or a file; or an environment without a table of states: "
            "cartpole, mountaincar, or a module of PettingZoo such as mpe2.simple_spread_v3.",
            autocompletion=complete_networks,
        ),
    ],
    problem: Annotated[
        str,
        option(
            "garnet:20x3, chain:10, grid-world:5x5, gym:FrozenLake, or a file: CSV with the matrix P "
            "(and --rewards), or NPZ with P, rewards and optionally reward_std.",
            "--problem",
            "-p",
        ),
    ] = "garnet:20x3",
    rewards: Annotated[
        Path | None, option("CSV file of rewards, one row per agent and one column per state.")
    ] = None,
    policy: Annotated[
        str,
        option(
            "For gym problems: optimal, uniform, or a CSV file with one row per state; for environments without a "
            "table uniform, or FILE.py:FUNCTION from an observation to an action."
        ),
    ] = "optimal",
    discount: Annotated[
        float,
        option("Discount factor gamma, at least 0 and below 1, for example 0.95.", "--discount", "-g"),
    ] = 0.9,
    rule: Annotated[str, option("How agents share the reward: perturb, split, one or same.")] = "perturb",
    spread: Annotated[float, option("Standard deviation of the perturbations, for example 1.0.")] = 1.0,
    reward_std: Annotated[
        float, option("Standard deviation of every observed reward, for example 0.5.")
    ] = 1.0,
    methods: Methods = "sda anytime-sda dsg",
    rivals: Rivals = True,
    rounds: Rounds = "100,400,1600",
    trials: Trials = 20,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    *,
    experience: ExperienceOptions,
    output: OutputOptions,
) -> None:
    """Evaluate a policy with agents that see only their own rewards; compare with temporal differences."""
    from gossamer.cli.application_files import parse_policy_problem

    horizons = sorted(set(parse_horizons(rounds)))
    environment = environment_of(graph, problem, experience)
    if environment is not None or experience.trajectories is not None:
        named = environment == graph
        if named:
            refuse("problem trajectories", f"with the environment {graph}")
        else:
            refuse("network", f"with the network {graph}")
        own = experience.network or (None if named and "." in graph else NETWORK)
        text = own if named else graph
        learn_values(
            environment,
            None if text is None else parse_network(text, weights, seed),
            horizons,
            experience,
            policy=policy,
            discount=discount,
            rule=rule,
            spread=spread,
            seed=seed,
            output=output,
        )
        return
    refuse(
        "features network trace",
        "with a table of states; use an environment, --problem gym:NAME or --trajectories",
    )
    network = parse_network(graph, weights, seed)
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
    solvers: dict[str, object] = {f"plug-in, {method.label}": method for method in parse_methods(methods)}
    if rivals:
        solvers["TD, last iterate"] = gs.applications.TemporalDifference()
        solvers["TD, averaged"] = gs.applications.TemporalDifference(step="sqrt", output="average")
        solvers["each agent alone"] = gs.applications.Alone()
    corollary = Corollary("Corollary 2", "plug-in, sda", {t: task.bound(t) for t in horizons})
    rows: list[Record] = [
        {**record, "method": name}
        for name, solver in solvers.items()
        for record in task.simulate(solver, horizons, trials, seed, keep=False).records()
    ]
    title = f"{problem} on {network.name}, gamma = {task.discount:g}"
    output.emit(
        corollary.added_to(rows),
        title=f"Largest error of any agent in any state, {title}",
        notes=[
            f"{task.states} states; {trials} trials, ± standard error",
            *_notes(rows),
            *corollary.conditions(),
        ],
        table=_table(rows, "error", corollary.rows()),
    )
    output.draw(lambda: _draw(rows, "error", title))


# -- rows -------------------------------------------------------------------------------------------------------


class Corollary(NamedTuple):
    """A corollary of the paper after each number of rounds, as columns of the method that it is about."""

    name: str
    method: str
    bounds: Mapping[int, Bound]

    def rows(self) -> dict[str, dict[int, float]]:
        """Return its terms and their sum by the number of rounds, where its conditions hold."""
        holds = {t: bound for t, bound in self.bounds.items() if bound.applies}
        terms = next((bound.terms for bound in self.bounds.values()), {})
        rows = {
            f"{self.name}, {term}": {t: bound.terms[term] for t, bound in holds.items()} for term in terms
        }
        total = {f"{self.name}, sum": {t: bound.total for t, bound in holds.items()}}
        return rows | (total if terms else {})

    def conditions(self) -> list[str]:
        """Return why it does not apply after some of these rounds."""
        missing = [bound.condition for bound in self.bounds.values() if not bound.applies]
        return [f"{self.name} needs {missing[0]}"] if missing else []

    def added_to(self, records: Iterable[Record]) -> list[Record]:
        """Return the records with a column for each term, and the note last."""
        rows = {column(name): values for name, values in self.rows().items()}
        extended: list[Record] = []
        for record in records:
            t, about = record["rounds"], record["method"] == self.method
            missing = self.conditions() if about and t in self.bounds and not self.bounds[t].applies else []
            note = "; ".join(filter(None, [record["note"], *missing]))
            terms = {name: values.get(t) if about else None for name, values in rows.items()}
            extended.append({**{k: v for k, v in record.items() if k != "note"}, **terms, "note": note})
        return extended


def _estimation_rows(name: str, result: Result) -> list[Record]:
    """Return the rows of a run or of exact errors, all with the same columns."""
    return [{key: record.get(key) for key in ESTIMATION} | {"method": name} for record in result.records()]


def _averaged(
    problem: gs.LinearEstimation, method: gs.Method, horizons: list[int], trials: int, seed: int
) -> list[Record]:
    """Return the rows of a method that averages A_i'A_i as well; rows before it may be inverted have no error."""
    try:
        needed: float = problem.gram_rounds_needed(method)
        reason = f"needs {needed} rounds before A_i'A_i may be inverted"
    except Unsupported as refusal:
        needed, reason = math.inf, str(refusal)
    early = [t for t in horizons if t < needed]
    rows: list[Record] = [
        {
            **dict.fromkeys(ESTIMATION),
            "network": problem.network.name,
            "method": method.label,
            "agents": problem.network.agents,
            "rounds": t,
            "centralized_limit": problem.centralized_error(t),
            "note": reason,
            **_fit(problem, None),
        }
        for t in early
    ]
    if len(early) < len(horizons):
        run = problem.simulate(method, horizons[len(early) :], trials, seed)
        errors = _estimation_rows(method.label, run)
        rows += [{**row, **_fit(problem, held[0])} for row, held in zip(errors, run.estimates, strict=True)]
    return rows


def _all_rows(
    problem: gs.LinearEstimation, methods: str, rivals: bool, horizons: list[int], trials: int, seed: int
) -> list[Record]:
    """Return the rows of all methods; recorded data are not random, so there are no rows besides the methods."""
    recorded = problem.measurements is not None
    rows: list[Record] = []
    for method in {method.label: method for method in parse_methods(methods)}.values():
        if method.mixing != "matrix":
            how = "over one-way links" if method.mixing == "push" else "at random"
            raise InvalidInput(
                f"{method.label} gossips {how}; use a method that mixes with one fixed gossip matrix"
            )
        if not recorded:
            rows += _estimation_rows(method.label + KNOWN, problem.exact(method, horizons))
        rows += _averaged(problem, method, horizons, 1 if recorded else trials, seed)
    others = {
        "Xiao-Boyd-Lall, one sample": gs.applications.XiaoBoydLall(),
        "Xiao-Boyd-Lall, T samples first": gs.applications.XiaoBoydLall(samples=None),
        "Kar-Moura, LU": gs.applications.KarMoura("LU"),
        "Kar-Moura, mixed": gs.applications.KarMoura("mixed"),
        "each sensor alone": gs.applications.Alone(),
    }
    for name, rival in others.items() if rivals and not recorded else ():
        rows += _estimation_rows(name, problem.simulate(rival, horizons, trials, seed))
    return rows


def _fit(problem: gs.LinearEstimation, held: Floats | None) -> Record:
    """Return the estimates from recorded data: for each parameter the pooled fit and the agents' estimates, (N, d)."""
    if problem.measurements is None:
        return {}
    estimates: dict[str, float | None] = {}
    for k, name in enumerate(problem.names):
        value = float(problem.parameter[k])
        estimates[f"pooled_fit_{name}"] = value
        estimates[f"agent_0_{name}"] = None if held is None else float(held[0, k])
        estimates[f"largest_difference_{name}"] = (
            None if held is None else float(abs(held[:, k] - value).max())
        )
    return estimates


# -- the screen and plots -----------------------------------------------------------------------------------------


def _table(
    records: Sequence[Record], quantity: str, corollary: Mapping[str, Mapping[int, float]]
) -> list[Record]:
    """Return one row per method and, below, their reference; at most four horizons fit on a narrow screen."""
    rows: dict[str, dict[int, float | str]] = {}
    for record in records:
        value, stderr = record[quantity], plain(record["stderr"])
        words = value if stderr is None else f"{shown(value)} ± {shown(stderr)}"
        rows.setdefault(record["method"], {})[record["rounds"]] = words
    rows["centralized limit"] = {record["rounds"]: record["centralized_limit"] for record in records}
    return wide({**rows, **corollary}, few(sorted(rows["centralized limit"]), 4))


def _notes(records: Sequence[Record]) -> list[str]:
    """Return the notes of the rows, once for each method."""
    return list(dict.fromkeys(f"{row['method']}: {row['note']}" for row in records if row["note"]))


def _show_fit(problem: gs.LinearEstimation, records: Sequence[Record]) -> None:
    """Show the pooled fit, and how far the agents are from it in the end."""
    last = max(records, key=lambda row: (row["total_error"] is not None, row["rounds"]))
    names = ("pooled_fit", "agent_0", "largest_difference")
    rows = [{"parameter": name, **{what: last[f"{what}_{name}"] for what in names}} for name in problem.names]
    emit(rows, title=f"Estimates after {last['rounds']} rounds of {last['method']}")


def _draw(records: Sequence[Record], quantity: str, title: str) -> None:
    """Plot errors with 95% intervals, and the centralized limit."""
    from gossamer.plotting import PARAMETER_ERROR, VALUE_ERROR, Curve, draw_errors, half_width

    known = [record for record in records if record[quantity] is not None]
    curves = []
    for name in dict.fromkeys(record["method"] for record in known):
        mine = [record for record in known if record["method"] == name]
        x, y = ([record[key] for record in mine] for key in ("rounds", quantity))
        half = [half_width(record["stderr"], record["trials"]) for record in mine]
        curves.append(Curve(name, x, y, half))
    limits = {record["rounds"]: record["centralized_limit"] for record in records}
    if any(limits.values()):
        curves.append(Curve("centralized limit", list(limits), list(limits.values()), limit=True))
    label = VALUE_ERROR if quantity == "error" else PARAMETER_ERROR
    draw_errors(None, curves, title, label)
