"""Simulation: many trials of a method, compiled, reproducible, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, overload

import numpy as np

from gossamer import checks, theory
from gossamer.arrays import Floats, Integers
from gossamer.engines.faulty import simulate_faulty
from gossamer.engines.horizons import Horizons, check_horizons
from gossamer.engines.results import FaultySimulation, Simulation, standard_error
from gossamer.engines.simulate.layouts import Run
from gossamer.errors import InvalidInput
from gossamer.faults import Fault, Faults
from gossamer.methods import Method, resolve
from gossamer.networks import NetworkLike
from gossamer.observations import Observations, check_match


@overload
def simulate(
    method: Method | str,
    network: NetworkLike,
    observations: Observations,
    rounds: int,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: None = ...,
    first_trial: int = ...,
    keep_estimates: bool = ...,
    dtype: type[np.floating[Any]] = ...,
    progress: bool | None = ...,
) -> Simulation[int, float]: ...
@overload
def simulate(
    method: Method | str,
    network: NetworkLike,
    observations: Observations,
    rounds: Horizons,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: None = ...,
    first_trial: int = ...,
    keep_estimates: bool = ...,
    dtype: type[np.floating[Any]] = ...,
    progress: bool | None = ...,
) -> Simulation[Integers, Floats]: ...
@overload
def simulate(
    method: Method | str,
    network: NetworkLike,
    observations: Observations,
    rounds: int,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: Faults | Fault,
    first_trial: int = ...,
    keep_estimates: bool = ...,
    dtype: type[np.floating[Any]] = ...,
    progress: bool | None = ...,
) -> FaultySimulation: ...
def simulate(
    method: Method | str,
    network: NetworkLike,
    observations: Observations,
    rounds: int | Horizons,
    trials: int = 100,
    seed: int = 0,
    *,
    faults: Faults | Fault | None = None,
    first_trial: int = 0,
    keep_estimates: bool = True,
    dtype: type[np.floating[Any]] = np.float64,
    progress: bool | None = None,
) -> Simulation[Any, Any]:
    """Run `trials` independent trials of `method` and return their errors and estimates.

    Trial r uses the random streams (seed, r, agent), so a run can be split with `first_trial` and does not
    depend on threads. Memory: about 8 (R + 7 + 2 H) bytes per agent and trial in flight (R registers, H horizons),
    plus the estimates; in flight are at most 128 trials for each thread, or as many as fit in 128 MB. `progress`
    shows a bar on long runs when standard error is a terminal (None), always (True) or never (False). Ctrl-C
    returns the trials finished so far, marked partial (without `keep_estimates`, their `per_agent` is unknown).

    With `faults` the method runs in its edge-ledger form (see `methods/ledger.py`), for one number of rounds.
    """
    method = resolve(method)
    if faults is not None:
        if first_trial or dtype is not np.float64:
            raise InvalidInput("with faults, trials must start at 0 and be computed in float64")
        if not isinstance(faults, Faults):
            faults = Faults(faults)
        return simulate_faulty(method, network, observations, rounds, trials, seed, faults)  # type: ignore[arg-type]
    network = check_match(network, observations)
    horizons = check_horizons(rounds)
    trials = checks.whole_number("trials", trials, least=1)
    first_trial = checks.whole_number("first_trial", first_trial, least=0)
    if first_trial + trials > 2**32:
        raise InvalidInput(f"trials must be numbered below 2^32, got {first_trial} + {trials}")
    if dtype not in (np.float64, np.float32):
        raise InvalidInput(f"dtype must be numpy.float64 or numpy.float32, got {dtype!r}")
    checks.seed(seed)
    one = np.ndim(rounds) == 0
    distinct, place = np.unique(horizons, return_inverse=True)
    run = Run(
        method,
        network,
        observations,
        distinct,
        trials=trials,
        seed=seed,
        first_trial=first_trial,
        keep=keep_estimates,
        dtype=dtype,
    )
    partial = False
    with _progress(progress, run.work) as advance:
        try:
            run.go(advance)
        except KeyboardInterrupt:
            if not run.finished.all(axis=0).any():
                raise
            partial = True
    return _result(run, int(horizons[0]) if one else horizons, 0 if one else place, partial)


def _result(run: Run, rounds: Any, place: Any, partial: bool) -> Simulation[Any, Any]:
    """What a run gave, its horizons in the order `place` in which they were asked for."""
    done = run.finished.all(axis=0)
    errors = run.errors[:, done]
    trials = int(done.sum())
    per_agent = run.per_agent / trials
    estimates = run.estimates
    if partial:
        # The sums per agent may hold trials whose other components are not finished: recount the finished ones.
        estimates = estimates[:, done]
        goal = np.stack([run.observations.target(int(t)) for t in run.horizons])
        per_agent = np.full_like(per_agent, np.nan)
        if run.keep:
            per_agent = ((estimates - goal[:, None, None]) ** 2).sum(axis=3).mean(axis=1)
    limit = theory.centralized_limit(run.observations, run.horizons)
    return Simulation(
        method=run.method,
        agents=run.network.agents,
        rounds=rounds,
        trials=trials,
        seed=run.seed,
        total_error=errors.mean(axis=1)[place],
        stderr=standard_error(errors)[place],
        centralized_limit=limit[place],
        errors=errors[place],
        per_agent=per_agent[place],
        kept_estimates=estimates[place] if run.keep else None,
        partial=partial,
    )


@contextmanager
def _progress(wanted: bool | None, work: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many agent-updates are done; it draws a bar if one is wanted."""
    if wanted is None:
        import sys

        wanted = sys.stderr.isatty() and work > 5 * 10**8
    if not wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("simulating", total=work)
        yield lambda done: bar.update(task, advance=done)
