"""learn: fit one model at every agent, to simulated streams of samples or to your own rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import gossamer as gs  # its names load when they are used, so that help pages stay fast
from gossamer.cli.applications import Rivals
from gossamer.cli.commands import refuse
from gossamer.cli.faults import parse_faults
from gossamer.cli.formatting import plain, shown
from gossamer.cli.options import (
    Graph,
    Loss,
    OutputOptions,
    Rounds,
    Seed,
    Trials,
    Weights,
    complete_methods,
    grouped,
    option,
)
from gossamer.cli.output import Record, emit, few, wide
from gossamer.cli.parsing import parse_horizons, parse_methods, parse_network

if TYPE_CHECKING:
    from gossamer.fitted import Summary


@grouped()
def learn(
    graph: Graph,
    family: Annotated[
        str,
        option(
            "logistic, softmax, poisson, gamma or huber; with --data also least-squares or negative-binomial.",
            "--family",
            "-f",
        ),
    ] = "logistic",
    dimension: Annotated[int, option("For simulated samples: number of covariates, for example 5.")] = 5,
    intercept: Annotated[bool, option("Add an intercept, a covariate that is always 1.")] = True,
    ridge: Annotated[
        str,
        option(
            "Penalty: ridge/2 times the sum of squared parameters, for example 0.01; with --data also cv or gcv, "
            "which choose it by (generalized) cross-validation."
        ),
    ] = "0",
    lasso: Annotated[
        float,
        option("With --data: penalty of this times the sum of absolute parameters, for example 0.01."),
    ] = 0.0,
    robust: Annotated[
        bool,
        option("With --data: compute z, p and intervals from robust standard errors.", "--robust"),
    ] = False,
    samples: Annotated[int, option("Number of simulated samples per agent and round, for example 1.")] = 1,
    data: Annotated[
        Path | None,
        option(
            "CSV file with a header row: fit its rows, which stay with their agents, instead of simulated samples."
        ),
    ] = None,
    target: Annotated[str, option("The CSV column with the labels.")] = "y",
    split: Annotated[
        str, option("Which agent holds which rows: contiguous, random, sorted or by:COLUMN.")
    ] = "contiguous",
    methods: Annotated[
        str,
        option(
            "Forms of anytime-sda, separated by spaces.",
            "--methods",
            "-m",
            autocompletion=complete_methods,
        ),
    ] = "anytime-sda anytime-sda:acceleration=local-heavy-ball",
    rivals: Rivals = True,
    tune: Annotated[
        bool,
        option("Also run the other methods with the best step of a grid, which takes longer.", "--tune"),
    ] = False,
    rounds: Rounds = "100,300,1000",
    trials: Trials = 20,
    loss: Loss = None,
    weights: Weights = "metropolis",
    seed: Seed = 0,
    *,
    output: OutputOptions,
) -> None:
    """Fit one model at every agent to the samples of all agents; compare with stochastic gradients."""
    network = parse_network(graph, weights, seed)
    if data is not None:
        from gossamer.cli.application_files import read_rows

        refuse("dimension samples methods trials loss tune", "with --data, whose rows are not simulated")
        options = {"family": family, "intercept": intercept, "lasso": lasso, "seed": seed}
        rule = ridge if ridge in ("cv", "gcv") else None
        penalty = 0.0 if rule else _number(ridge)
        rows = read_rows(network, data, target=target, split=split, ridge=penalty, **options)
        if rule:
            chosen = rows.ridge_path(rule, seed=seed).best
            rows = read_rows(network, data, target=target, split=split, ridge=chosen, **options)
        _fit(rows, rivals, max(parse_horizons(rounds)), robust, output)
        return
    refuse("target split lasso robust", "without --data")
    problem = gs.LikelihoodEstimation.random(
        network, family, dimension, samples=samples, intercept=intercept, ridge=_number(ridge), seed=seed
    )
    faults = None if loss is None else parse_faults(loss=loss)
    horizons = sorted(set(parse_horizons(rounds)))
    runs = problem.simulate(parse_methods(methods), horizons, trials, seed, faults=faults)
    if rivals:
        steps = (1.0, None) if tune else (1.0,)
        kinds = (gs.applications.DSGD, gs.applications.DSGT)
        others = [*(kind(step) for kind in kinds for step in steps), gs.applications.Alone()]
        runs.extend(problem.simulate(others, horizons, trials, seed))
    lossy = "" if loss is None else f", ours losing {loss} of all messages"
    output.present(
        runs,
        title=(
            f"{family}, {problem.size} parameters, on {network.name}{lossy}: error after T rounds, as a multiple of a "
            "center's"
        ),
        table=_table(runs.records()),
        notes=[
            *dict.fromkeys(f"{row['method']}: {row['note']}" for row in runs.records() if row["note"]),
            f"bytes: sent by all agents up to T={horizons[-1]}; {trials} trials, ± standard error",
        ],
    )


def _table(records: Sequence[Record]) -> list[Record]:
    """Return one row per method: multiples of the centralized error, and the bytes sent up to the last horizon."""
    rows: dict[str, dict[int, float | str]] = {}
    for record in records:
        error = plain(record["over_limit_stderr"])
        value = shown(record["over_limit"])
        rows.setdefault(record["method"], {})[record["rounds"]] = (
            value if error is None else f"{value} ± {shown(error)}"
        )
    sent = {record["method"]: record["bytes"] for record in records}
    table = wide(rows, few(sorted({record["rounds"] for record in records}), 4))
    limits = {record["rounds"]: record["centralized_limit"] / record["agents"] for record in records}
    center = {"method": "mse of a center", **{f"T={t}": limits[t] for t in few(sorted(limits), 4)}}
    return [*({**row, "bytes": sent[row["method"]]} for row in table), {**center, "bytes": None}]


def _fit(
    problem: gs.LikelihoodEstimation, rivals: bool, rounds: int, robust: bool, output: OutputOptions
) -> None:
    """Fit the rows of all agents; show what each method reached, every parameter with its accuracy, and the fit."""
    from gossamer.applications.likelihood.stored_rows import RIVALS

    every = RIVALS if rivals and problem.differentiable else RIVALS[:1]
    fits = problem.compare_fits(every, rounds)
    newton = fits.fits[0]
    summary = newton.summary(robust=robust or None)
    extra = {**_accuracy(summary), **_figures(summary)}
    best = {name: float(value) for name, value in zip(newton.names, newton.estimates[0], strict=True)}
    records = [
        {**row, **{f"agent_0_{k}": v for k, v in best.items()}, **extra}
        if row["method"] == newton.method
        else {**row, **dict.fromkeys(f"agent_0_{k}" for k in best), **dict.fromkeys(extra)}
        for row in fits.records()
    ]
    output.emit(
        records,
        title=f"{problem.family.name} on {problem.network.name}: largest difference from the fit in one place",
        notes=fits.notes,
        columns=list(fits.shown[:-1]),
        headings={
            "error": "difference",
            "rounds_to_target": "rounds to 1e-6",
            "bytes_to_target": "bytes to 1e-6",
        },
    )
    if not output.as_json:
        emit(
            summary.records(),
            title=f"Parameters of agent 0 after {int(newton.rounds[-1])} rounds of Newton's method",
            columns=list(summary.shown),
            headings={
                "standard_error": "std error",
                "robust_error": "robust",
                "low": "2.5%",
                "high": "97.5%",
            },
            notes=[
                *summary.notes,
                f"agents differ by at most {newton.disagreement:.1e}",
                ", ".join(
                    f"{name.replace('_', ' ')} {shown(value)}" for name, value in _figures(summary).items()
                ),
            ],
        )
    output.draw(fits.plot)


def _figures(summary: Summary) -> Record:
    """Return the statistics of the whole model that its family has."""
    return {name: value for name, value in summary.figures.items() if value == value}


def _accuracy(summary: Summary) -> Record:
    """Return both standard errors of every parameter, by name."""
    return {
        f"{kind}_{row['parameter']}": row[kind]
        for kind in ("standard_error", "robust_error")
        for row in summary.records()
    }


def _number(ridge: str) -> float:
    """Parse a penalty."""
    try:
        return float(ridge)
    except ValueError:
        from gossamer.errors import InvalidInput

        raise InvalidInput(
            parameter="ridge", required="a number of at least 0, or cv or gcv with --data", got=repr(ridge)
        ) from None
