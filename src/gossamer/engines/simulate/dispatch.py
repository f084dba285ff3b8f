"""Simulation: many trials of a method, compiled, reproducible, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, overload

import numpy as np

from gossamer import checks, theory
from gossamer.arrays import Floats, Integers, Precision
from gossamer.engines.faulty import FaultySimulation, simulate_faulty
from gossamer.engines.horizons import Horizons, horizons_of
from gossamer.engines.results import OneOrMore, TrialResult, standard_error
from gossamer.engines.simulate.checkpoints import Checkpoints
from gossamer.engines.simulate.cluster import Problem, StreamsOf, simulate_cluster
from gossamer.engines.simulate.directed import DirectedRun, directed
from gossamer.engines.simulate.layouts import Run
from gossamer.engines.simulate.result import Simulation
from gossamer.engines.trials import Trials, by_name, finish
from gossamer.errors import InvalidInput, Unsupported
from gossamer.faults import Fault, Faults, FaultsLike, Join
from gossamer.methods import Method, resolve
from gossamer.networks import ChangingNetwork, DirectedNetwork, NetworkLike, changing_of
from gossamer.networks.parts import NetworkParts
from gossamer.observations import Masked, Masks, Observations, check_match, check_streams

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class TrialOptions(TypedDict, total=False):
    """The options of `simulate` that do not decide what it returns."""

    masks: Masks | float | None
    first_trial: int
    keep: str | None
    dtype: Precision
    progress: bool | None


class ClusterOptions(TrialOptions, total=False):
    cluster: Intracomm | None
    checkpoint: str | PathLike[str] | None
    every: int


@overload
def simulate(
    method: Method | str,
    network: NetworkLike | DirectedNetwork | NetworkParts,
    observations: Observations | StreamsOf,
    rounds: int,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: None = ...,
    **options: Unpack[ClusterOptions],
) -> Simulation[int, float]: ...
@overload
def simulate(
    method: Method | str,
    network: NetworkLike | DirectedNetwork | NetworkParts,
    observations: Observations | StreamsOf,
    rounds: Horizons,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: None = ...,
    **options: Unpack[ClusterOptions],
) -> Simulation[Integers, Floats]: ...
@overload
def simulate(
    method: Method | str,
    network: NetworkLike | DirectedNetwork,
    observations: Observations,
    rounds: int,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: Faults | Fault | Iterable[Fault],
    **options: Unpack[TrialOptions],
) -> FaultySimulation[int, float]: ...
@overload
def simulate(
    method: Method | str,
    network: NetworkLike | DirectedNetwork,
    observations: Observations,
    rounds: Horizons,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: Faults | Fault | Iterable[Fault],
    **options: Unpack[TrialOptions],
) -> FaultySimulation[Integers, Floats]: ...
@overload
def simulate(
    method: Method | str,
    network: ChangingNetwork,
    observations: Observations,
    rounds: int,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: FaultsLike = ...,
    **options: Unpack[TrialOptions],
) -> FaultySimulation[int, float]: ...
@overload
def simulate(
    method: Method | str,
    network: ChangingNetwork,
    observations: Observations,
    rounds: Horizons,
    trials: int = ...,
    seed: int = ...,
    *,
    faults: FaultsLike = ...,
    **options: Unpack[TrialOptions],
) -> FaultySimulation[Integers, Floats]: ...
def simulate(
    method: Method | str,
    network: NetworkLike | ChangingNetwork | DirectedNetwork | NetworkParts,
    observations: Observations | StreamsOf,
    rounds: int | Horizons,
    trials: int = 100,
    seed: int = 0,
    *,
    faults: FaultsLike = None,
    masks: Masks | float | None = None,
    first_trial: int = 0,
    keep: str | None = None,
    dtype: Precision = np.float64,
    progress: bool | None = None,
    cluster: Intracomm | None = None,
    checkpoint: str | PathLike[str] | None = None,
    every: int = 500,
) -> TrialResult[OneOrMore, OneOrMore]:
    """Run `trials` independent trials of `method` and return their errors and estimates.

    Trial r uses the random streams (seed, r, agent), so a run can be split with `first_trial` and does not
    depend on threads. Memory: about 8 (R + 7 + 2 H) bytes per agent and trial in progress (R registers, H horizons),
    plus what is kept; at most 128 trials per thread, or as many as fit in 128 MB, are in progress. Ctrl-C
    returns the trials finished so far, marked partial (with keep="errors", their `per_agent` is unknown).

    Parameters
    ----------
    method : Method or str
        The method that all agents run, or its name in `gossamer.METHODS`.
    network : Network, ChangingNetwork, DirectedNetwork, NetworkX graph or str
        The network of the agents, for example "grid:10x10". A `DirectedNetwork` is for `gs.PushSum`, which also runs on
        undirected networks, with every edge as two links.
    observations : Observations
        The streams of the agents, one per agent.
    rounds : int or sequence of int
        Number of rounds T after which to report the error, or several such numbers.
    trials, seed : int
        Number of trials, and the seed of their random numbers.
    faults : Faults, Fault or list of Fault, optional
        With faults, or on a changing network, the method runs in its edge-ledger form (see `methods/ledger.py`). A
        method without such a form omits the neighbors that it does not hear from its sum. `rule` of the result says
        which of the two was used.
    masks : Masks or float, optional
        Masks that hide the readings (see `Masks`), or their scale; not with agents that join or are declared dead.
    first_trial : int
        The number of the first trial, from which the others follow; 0 unless a run is split.
    keep : str, optional
        What the result keeps of every trial: "errors", only its errors; "estimates" (the default), also the agents'
        estimates at each horizon; "iterates", also every register and the estimate after every round (with several
        horizons, of the run with the largest one).
    dtype : dtype
        The precision of all numbers: np.float64 (the default) or np.float32, which halves memory.
    progress : bool, optional
        Whether to show a progress bar: on long runs if standard error is a terminal (None), always or never.
    cluster : MPI communicator, optional
        For example MPI.COMM_WORLD: the agents are spread over its ranks, each of which must make this call. The result
        is the same on every rank, contains only errors (`per_agent` is empty), and is identical to that of one process.
        `network` is then best a name, or a folder written by `gossamer partition`, so that no rank holds all of it, and
        `observations` may be a function that returns the Gaussian streams of a range of agents.
    checkpoint, every : path and int, optional
        Save the state in this folder every `every` rounds. The same call, with any number of ranks, resumes from the
        last checkpoint.

    Returns
    -------
    Simulation or FaultySimulation
        Errors with their standard errors, and what was kept.

    See Also
    --------
    exact : The expected error, without trials.
    compare : Several methods and networks side by side.
    Simulation : The result; with faults, it is a FaultySimulation.

    Examples
    --------
    >>> net, obs = gs.Network.grid(5, 5), gs.Gaussian(np.arange(25.0))
    >>> run = gs.simulate("anytime-sda", net, obs, rounds=500, trials=200)
    >>> abs(run.total_error - gs.exact("anytime-sda", net, obs, 500).total_error) < 4 * run.stderr
    True
    >>> gs.simulate("anytime-sda", net, obs, 500, trials=20, faults=gs.faults.Loss(0.5)).mse < 0.001
    True
    """
    if masks is not None:
        observations = _masked(network, observations, Masks.of(masks), faults, cluster)
    if cluster is not None:

        def prepare() -> Problem:
            wanted = Trials.check(trials, seed, first_trial, "errors" if keep is None else keep)
            saving = Checkpoints(None if checkpoint is None else Path(checkpoint), every)
            return Problem.check(method, network, observations, rounds, faults, wanted, dtype, saving)

        return simulate_cluster(cluster, prepare, progress)
    if checkpoint is not None:
        raise InvalidInput(
            "is for runs on a cluster; give cluster=MPI.COMM_WORLD, or leave it out", parameter="checkpoint"
        )
    if isinstance(network, NetworkParts) or callable(observations):
        raise InvalidInput(
            f"without a cluster a network and the streams of all its agents are needed, got {network!r} and "
            f"{checks.brief(observations)}"
        )
    keep = "estimates" if keep is None else keep
    method = resolve(method)
    changing = changing_of(network)
    if dtype not in (np.float64, np.float32):
        raise InvalidInput(parameter="dtype", required="numpy.float64 or numpy.float32", got=repr(dtype))
    horizons, one = horizons_of(rounds)
    if faults is not None or changing is not None:
        if dtype is not np.float64:
            raise InvalidInput(
                f"with faults, dtype must be numpy.float64 (and so on a changing network), got {dtype!r}"
            )
        return simulate_faulty(
            method,
            network if changing is None else changing,
            observations,
            int(horizons[0]) if one else horizons,
            trials,
            seed,
            None if faults is None else Faults.of(faults),
            first_trial=first_trial,
            keep=keep,
            progress=progress,
        )
    assert not isinstance(network, ChangingNetwork)  # it was simulated above
    pushes = method.mixing == "push"
    network = directed(network) if pushes else check_match(network, observations)
    check_streams(network.agents, observations)
    distinct, order = np.unique(horizons, return_inverse=True)
    wanted = Trials.check(trials, seed, first_trial, keep)
    run = (DirectedRun if pushes else Run)(method, network, observations, distinct, wanted, dtype)
    partial = finish(run, progress)
    return _result(run, int(horizons[0]) if one else horizons, 0 if one else order, partial)


def _masked(
    network: NetworkLike | ChangingNetwork | DirectedNetwork | NetworkParts,
    observations: Observations | StreamsOf,
    masks: Masks | None,
    faults: FaultsLike,
    cluster: object,
) -> Masked:
    if (
        cluster is not None
        or isinstance(network, NetworkParts | ChangingNetwork)
        or callable(observations)
        or changing_of(network)
    ):
        raise Unsupported("masks are simulated on fixed networks in one process; leave masks or cluster out")
    assert masks is not None
    if faults is not None and np.any(masks.scale) and _changes_the_edges(Faults.of(faults)):
        raise Unsupported(
            "masks are simulated while all agents take part: those on the edges of an agent that joins late or is "
            "declared dead would not cancel (in a fleet they leave with their edges); leave masks, crashes or joins out"
        )
    return Masked(observations, check_match(network, observations), masks)


def _changes_the_edges(faults: Faults) -> bool:
    """Return whether an agent joins, or stays away until its neighbors declare it dead."""
    dropped = any(event.what == "drop" for event in faults.events)
    return dropped or any(isinstance(item, Join) for item in faults.items)


def _result(run: Run, rounds: OneOrMore, order: OneOrMore, partial: bool) -> Simulation[OneOrMore, OneOrMore]:
    """Return the result of a run, with its horizons in the requested `order`."""
    done = run.done
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
        network=run.network,
        observations=run.observations,
        agents=run.network.agents,
        rounds=rounds,
        trials=trials,
        seed=run.seed,
        total_error=errors.mean(axis=1)[order],
        stderr=standard_error(errors)[order],
        centralized_limit=limit[order],
        errors=errors[order],
        per_agent=per_agent[order],
        kept_estimates=estimates[order] if run.keep else None,
        kept_iterates=by_name(run.method, run.iterates[:, done] if partial else run.iterates),
        partial=partial,
    )
