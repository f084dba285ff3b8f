"""The commands network, exact, simulate, compare and plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import gossamer as gs  # its names load when they are used, so that help pages stay fast
from gossamer.cli.commands import refuse
from gossamer.cli.faults import parse_faults
from gossamer.cli.formatting import shown
from gossamer.cli.options import (
    FAULTS,
    Address,
    Animate,
    Backend,
    Checkpoint,
    Cluster,
    ClusterTrials,
    Every,
    FaultFlags,
    Graph,
    Graphs,
    MethodName,
    MethodNames,
    OutputOptions,
    ProblemOptions,
    Rounds,
    Seed,
    Weights,
    Workers,
    grouped,
    option,
)
from gossamer.cli.output import Record, emit, few, wide, writing, written
from gossamer.cli.parsing import (
    parse_any_network,
    parse_horizons,
    parse_method,
    parse_methods,
    parse_network,
    parse_observations,
)
from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    from gossamer.arrays import Floats, Integers
    from gossamer.engines.results import TrialResult

MaskScale = Annotated[
    float | None, option("Standard deviation of masks that hide the readings, for example 1000.")
]

REFERENCES = {
    "theorem_1": "Theorem 1 (SDA)",
    "theorem_2": "Theorem 2 (DSG)",
    "theorem_3": "Theorem 3 (Anytime SDA)",
    "network_limit": "network limit",
    "centralized_limit": "centralized limit",
}
"""Rows shown in addition to the methods, by the column that holds them."""

ONE_TRIAL = "the error of one trial is random, and its interval is unknown; --trials 100 shows one"
INTERVAL = "over limit: ± half of its 95% interval"


@grouped()
def network(
    graph: Graph,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    *,
    output: OutputOptions,
) -> None:
    """Describe a network: size, degrees, eigenvalues, k*, and the rounds that averaging on it takes."""
    net = parse_any_network(graph, weights, seed)
    if isinstance(net, gs.ChangingNetwork):
        output.emit([net.summary()], title=net.name)
        return
    record = {
        "network": net.name,
        "agents": net.agents,
        "edges": len(net.edges),
        "least_degree": int(net.degrees.min()),
        "most_degree": int(net.degrees.max()),
        "lambda_max": net.lambda_max,
        "lambda_2": net.lambda_2,
        "condition_number": net.condition_number,
        "k_star": gs.theory.k_star(net),
    }
    if output.as_json or output.csv:
        output.emit([record], title=net.name)
    if not output.as_json:
        rows = [{"property": key.replace("_", " "), "value": shown(value)} for key, value in record.items()]
        emit(rows, title=net.name, headings={})
    output.draw(net.plot)


@grouped()
def exact(
    graph: Graph,
    method: MethodName = "anytime-sda",
    rounds: Rounds = "1500",
    *,
    problem: ProblemOptions,
    output: OutputOptions,
) -> None:
    """Compute the expected error E Σᵢ‖estimateᵢ − μ̄‖² exactly, without sampling."""
    net = parse_network(graph, problem.weights, problem.seed)
    obs = parse_observations(net, problem)
    result = gs.exact(parse_method(method), net, obs, parse_horizons(rounds))
    uncertain = ["uncertainty"] if result.uncertainty.any() else []
    columns = [
        "rounds",
        "total_error",
        "bias",
        "variance",
        *uncertain,
        "mse",
        "centralized_limit",
        "over_limit",
    ]
    output.present(result, title=f"{result.title}: expected error", columns=columns)


@grouped()
def simulate(
    graph: Graph,
    method: MethodName = "anytime-sda",
    rounds: Rounds = "1500",
    trials: ClusterTrials = None,
    mask: MaskScale = None,
    *,
    problem: ProblemOptions,
    faults: FaultFlags,
    cluster: Cluster = False,
    checkpoint: Checkpoint = None,
    every: Every = 500,
    animate: Animate = None,
    output: OutputOptions,
) -> None:
    """Simulate trials; also show the exact error if it can be computed within a second.

    With faults, dual methods run in their edge-ledger form, and other methods skip neighbors that they do not hear.

    mpiexec -n 4 gossamer simulate grid:4000x4000 --rounds 1000 --cluster spreads the agents over four ranks.
    """
    if cluster:
        from gossamer.cli.cluster import simulate_on_cluster

        refuse(" ".join((*FAULTS, "data", "means", "noise", "mask", "animate")), "with --cluster")
        on_cluster = simulate_on_cluster(
            graph, method, rounds, 1 if trials is None else trials, problem, checkpoint, every
        )
        if on_cluster is not None:
            _show_trials(on_cluster, output)
        return
    refuse("checkpoint every", "without --cluster")
    trials = 100 if trials is None else trials
    net = parse_any_network(graph, problem.weights, problem.seed)
    if animate is not None:
        from gossamer.dashboard.animation import check_agents

        check_agents(net.agents)
    injected = parse_faults(names=net.labels, **faults)
    what, obs, horizons = parse_method(method), parse_observations(net, problem), parse_horizons(rounds)
    given = injected if injected.items else None
    result = gs.simulate(
        what, net, obs, horizons, trials, problem.seed, faults=given, masks=mask, keep="errors"
    )
    _show_trials(result, output)
    if animate is not None:
        first = gs.simulate(
            what, net, obs, max(horizons), 1, problem.seed, faults=given, masks=mask, keep="iterates"
        )
        with writing(animate):
            first.animate().save(animate)
        written(animate, output.as_json)
    if result.partial:
        raise typer.Exit(130)


def _show_trials(result: TrialResult[Integers, Floats], output: OutputOptions) -> None:
    known = result.quick_expected if isinstance(result, gs.Simulation) else None
    values = [None] * len(result.rounds) if known is None else known.total_error.tolist()
    records = [
        {**record, "exact_total_error": value} for record, value in zip(result.records(), values, strict=True)
    ]
    columns = [
        "rounds",
        "total_error",
        "stderr",
        "exact_total_error",
        "mse",
        "centralized_limit",
        "over_limit",
    ]
    output.present(
        result,
        records,
        title=f"{result.title}: {result.trials} trial{'s' if result.trials > 1 else ''}",
        notes=[*result.notes, ONE_TRIAL if result.trials == 1 else INTERVAL],
        columns=columns,
        headings={"exact_total_error": "exact"},
    )


@grouped()
def compare(
    graph: Graphs,
    methods: MethodNames = "sda anytime-sda anytime-sda:acceleration=chebyshev dsg d-masg",
    rounds: Rounds = "300,1500,3000",
    trials: Annotated[
        int | None,
        option(
            "Also simulate this many trials, for example 100 (the default with faults or changing networks)."
        ),
    ] = None,
    *,
    problem: ProblemOptions,
    faults: FaultFlags,
    out: Annotated[
        Path | None,
        option("Folder for finished points; points already there are not computed again."),
    ] = None,
    backend: Backend = "threads",
    workers: Workers = None,
    address: Address = None,
    output: OutputOptions,
) -> None:
    """Compare methods on one or more networks, with theoretical bounds and the limits that no method can beat.

    Errors are exact; with --trials, simulated errors are shown as well. With faults, or on changing networks
    (mobile:60,radius=0.2,speed=0.01, matchings:60, contacts:FILE), only simulated errors are shown.
    """
    networks = [parse_any_network(name, problem.weights, problem.seed) for name in graph]
    injected = parse_faults(names=networks[0].labels if len(networks) == 1 else (), **faults)
    if trials is None:
        changing = any(isinstance(net, gs.ChangingNetwork) for net in networks)
        trials = 100 if injected.items or changing else 0
    result = gs.compare(
        parse_methods(methods),
        networks,
        lambda net: parse_observations(net, problem),
        parse_horizons(rounds),
        trials=trials,
        seed=problem.seed,
        faults=injected if injected.items else None,
        store=out,
        backend=backend,
        workers=workers,
        address=address,
    )
    records = result.records()
    if all(record["total_error"] is None for record in records):
        raise InvalidInput(records[0]["note"])
    if not output.as_json:
        for name in dict.fromkeys(result.column("network")):
            mine = [record for record in records if record["network"] == name]
            table = _side_by_side(mine)
            emit(mine, title=f"Total error (summed over agents) on {name}, after T rounds", table=table)
    simulated = any(record["simulated_error"] is not None for record in records)
    notes = [
        *result.notes,
        *(["simulated errors: ± standard error"] if simulated else []),
        *(["interrupted: only the finished points are shown"] if result.partial else []),
    ]
    output.present(result, title="", table=[], notes=notes)
    if result.partial:
        raise typer.Exit(130)


def _side_by_side(records: Sequence[Record]) -> list[Record]:
    """Return one row per method and one column per horizon, with the bounds and limits."""
    rows: dict[str, dict[int, float | str]] = {}
    for record in records:
        t = record["rounds"]
        if record["bias"] is not None or record["simulated_error"] is None:
            rows.setdefault(record["method"], {})[t] = record["total_error"]
        if record["simulated_error"] is not None:
            value = f"{shown(record['simulated_error'])} ± {shown(record['stderr'])}"
            rows.setdefault(f"{record['method']}, {record['trials']} trials", {})[t] = value
    for column, name in REFERENCES.items():
        known = {record["rounds"]: record[column] for record in records if record[column] is not None}
        if known:
            rows[name] = known
    return wide(rows, few(sorted({record["rounds"] for record in records}), 5))


@grouped()
def tune(
    graph: Graph,
    method: MethodName = "anytime-sda",
    rounds: Annotated[int, option("Number of rounds, for example 1500.", "--rounds", "-T")] = 1500,
    parameters: Annotated[
        str | None,
        option("Parameters to choose, separated by commas: burn_in,step_size; all by default."),
    ] = None,
    *,
    problem: ProblemOptions,
    output: OutputOptions,
) -> None:
    """Choose the parameters of a method that minimize its exact error."""
    net = parse_network(graph, problem.weights, problem.seed)
    names = None if parameters is None else [name.strip() for name in parameters.split(",")]
    tuned = gs.tune(parse_method(method), net, parse_observations(net, problem), rounds, names)
    columns = ["method", "rounds", "before", "total_error", "over_limit"]
    output.present(tuned, title=tuned.title, columns=columns)


@grouped()
def plan(
    graph: Graphs,
    target: Annotated[
        str, option("Target error (summed over agents), or several: 1e-2,1e-3.", "--target", "-e")
    ] = "0.001",
    methods: MethodNames = "anytime-sda anytime-sda:acceleration=chebyshev sda",
    most_rounds: Annotated[
        int, option("Largest number of rounds to consider, for example 100000.")
    ] = 1_000_000,
    mask: MaskScale = None,
    level_noise: Annotated[
        float, option("Standard deviation of the noise that each agent adds to its level.")
    ] = 0.0,
    epsilon: Annotated[
        float | None,
        option("Choose the least noise that gives (epsilon, delta)-differential privacy, such as 1."),
    ] = None,
    delta: Annotated[float, option("The delta that goes with --epsilon.")] = 1e-6,
    change: Annotated[float, option("The change of a level that --epsilon hides.")] = 1.0,
    quiet: Annotated[
        float | None,
        option("Agents are silent while they have less news than this fraction of a standard error."),
    ] = None,
    *,
    problem: ProblemOptions,
    output: OutputOptions,
) -> None:
    """Find the rounds, samples, messages and bytes needed for a target error, and what privacy adds to them.

    The target is a total error, summed over agents. Notes name the cheapest method. The exit code is 1 if no method
    reaches the target.
    """
    networks = [parse_network(name, problem.weights, problem.seed) for name in graph]
    plans = gs.plan(
        networks,
        lambda net: parse_observations(net, problem),
        _targets(target),
        parse_methods(methods),
        most_rounds=most_rounds,
        masks=mask,
        noise=level_noise,
        epsilon=epsilon,
        delta=delta,
        change=change,
    )
    if quiet is not None:
        plans = gs.Plans(plan.quiet(quiet, seed=problem.seed) for plan in plans)
    notes = [
        f"{plan.network.name}: {plan.note}" if len(networks) > 1 else plan.note for plan in plans if plan.note
    ]
    missed = False
    for case in dict.fromkeys((plan.network.name, plan.target) for plan in plans):
        some = gs.Plans(plan for plan in plans if (plan.network.name, plan.target) == case)
        if not any(plan.reached for plan in some):
            missed = True
        elif len(some) > 1:
            rounds, samples = some.cheapest().method.label, some.cheapest("samples").method.label
            but = "" if rounds == samples else f", fewest samples with {samples}"
            notes.append(f"{case[0]}, {case[1]:g}: fewest rounds with {rounds}{but}")
    for name, masks in {plan.network.name: plan.masks for plan in plans if plan.masks is not None}.items():
        if masks.noise:
            notes.append(f"{name}: every agent adds noise of standard deviation {masks.noise:.4g}")
    output.present(
        plans,
        title="What a target error costs (samples per agent; messages and bytes in the whole network)",
        notes=notes,
        columns=["network", "target", "method", "rounds", "samples", "messages", "bytes", "over_limit"],
    )
    if missed:
        raise typer.Exit(1)


def _targets(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(
            parameter="target", required="a number, or several separated by commas", got=repr(text)
        ) from None
