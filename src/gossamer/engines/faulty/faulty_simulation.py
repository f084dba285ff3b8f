"""Simulation with lost messages and crashed agents: the edge ledger, all edges and trials in one compiled loop.

The rules are those of `methods/ledger.py`. Observations are those of `gs.simulate` with the same seed. Errors are
measured against the average of the means of the agents alive at the end.

A method without an edge ledger runs by the naive skip rule: an agent omits the neighbors that it does not hear from its
sum, mixed_i = sum over heard neighbors of w_ij (m_i - m_j).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.engines.faulty.result import FaultySimulation
from gossamer.engines.faulty.runs import FaultyRun, Scene
from gossamer.engines.horizons import Horizons, check_horizons, passes
from gossamer.engines.results import OneOrMore, standard_error
from gossamer.engines.trials import Trials, by_name, finish
from gossamer.errors import Unsupported
from gossamer.faults import Faults
from gossamer.methods import METHODS, Method, Table, resolve, tabulate
from gossamer.methods.ledger import RETURN_RATE, SILENCE
from gossamer.networks import ChangingNetwork, DirectedNetwork, Network, NetworkLike, network_of
from gossamer.observations import Observations, check_streams


def simulate_faulty(
    method: Method | str,
    network: NetworkLike | ChangingNetwork | DirectedNetwork,
    observations: Observations,
    rounds: int | Horizons,
    trials: int = 100,
    seed: int = 0,
    faults: Faults | None = None,
    *,
    rule: str | None = None,
    silence: int = SILENCE,
    return_rate: float = RETURN_RATE,
    first_trial: int = 0,
    keep: str = "estimates",
    progress: bool | None = None,
) -> FaultySimulation[OneOrMore, OneOrMore]:
    """Run `method` for one or several numbers of rounds while `faults` happen.

    Parameters
        method, network, observations, rounds, trials, seed, first_trial, keep, progress   as in `gs.simulate`
        faults        the faults; None if there are none
        rule          "ledger", or "skip" to see what happens without it: an agent omits the neighbors that it does not
                      hear from its sum; by default the ledger, if the method has one
        silence       A of the ledger's rules
        return_rate   the factor per round by which the flow of an edge to a dead agent returns; 0 returns it at once

    Memory: 8 bytes per agent, trial and horizon, about 256 MB for each thread, and what is kept.
    """
    faults = Faults() if faults is None else faults
    method = resolve(method)
    _check_mixing(method)
    network = network_of(network)
    check_streams(network.agents, observations)
    horizons = check_horizons(rounds)
    wanted = Trials.check(trials, seed, first_trial, keep)
    silence = checks.whole_number("silence", silence, least=1)
    return_rate = checks.number("return_rate", return_rate, least=0, below=1)
    faults.check(network.agents, network.edges if isinstance(network, Network) else None)
    distinct, order = np.unique(horizons, return_inverse=True)
    groups = passes(method, network, distinct)
    rule = _rule(method, groups[0][0], rule)
    if isinstance(network, ChangingNetwork) and rule == "ledger" and groups[0][0].flow < 0:
        raise Unsupported(
            f"{method.name} cannot run on a changing network: its messages read several registers of an edge, so "
            "that momentum and flow cannot be separated; use anytime-sda with acceleration='local-heavy-ball'"
        )
    if faults.quiet is not None:
        _check_quiet(method, network, faults, rule)
    scene = Scene(network, observations, faults, silence if rule == "ledger" else None, return_rate)
    run = FaultyRun(scene, method, groups, distinct, wanted)
    partial = finish(run, progress)
    one = np.ndim(rounds) == 0
    return _result(run, rule, int(horizons[0]) if one else horizons, 0 if one else order, partial)


def _check_mixing(method: Method) -> None:
    if method.mixing != "matrix":
        raise Unsupported(
            f"{method.name} cannot run with faults: {method.mixes}, and faults, like changing networks, are about "
            "rounds in which all neighbors exchange messages; use a method that mixes with all neighbors, such as "
            "anytime-sda"
        )


def _check_quiet(method: Method, network: Network | ChangingNetwork, faults: Faults, rule: str) -> None:
    if rule == "skip":
        raise Unsupported(
            f"{method.name} cannot be quiet: without a ledger, a message that is not sent is lost for good"
        )
    if isinstance(network, ChangingNetwork) or faults.events:
        raise Unsupported(
            "quiet agents are simulated on a fixed network whose agents neither join nor crash; leave quiet out"
        )


def _rule(method: Method, table: Table, wanted: str | None) -> str:
    """Return the rule by which the method runs: the requested one, or the ledger if it has one."""
    if wanted is None:
        return "ledger" if table.ledger else "skip"
    if checks.choice("rule", wanted, ("ledger", "skip")) == "ledger" and not table.ledger:
        raise Unsupported(_without_ledger(method))
    return wanted


def _result(
    run: FaultyRun, rule: str, rounds: OneOrMore, order: OneOrMore, partial: bool
) -> FaultySimulation[OneOrMore, OneOrMore]:
    """Return the result of a run, with its horizons in the requested `order`."""
    count = int(run.done.sum())  # trials are finished in their order
    errors = np.stack(
        [squares[:count, alive].sum(axis=1) for squares, alive in zip(run.squares, run.alive, strict=True)]
    )
    variance = run.scene.observations.variance.sum(axis=1)
    limits = [
        (variance[alive] / present[alive]).mean()
        for alive, present in zip(run.alive, run.rounds_present, strict=True)
    ]

    def pick(values: ArrayLike) -> OneOrMore:
        """Return a plain number for one horizon."""
        value = np.asarray(values)[order]
        return value if np.ndim(value) else value.item()

    return FaultySimulation(
        method=run.method,
        network=run.scene.network,
        observations=run.scene.observations,
        rounds=rounds,
        trials=count,
        seed=run.trials.seed,
        agents=pick(run.alive.sum(axis=1)),
        total_error=pick(errors.mean(axis=1)),
        stderr=pick(standard_error(errors)),
        centralized_limit=pick(limits),
        errors=errors[order],
        per_agent=np.stack([squares[:count].mean(axis=0) for squares in run.squares])[order],
        kept_estimates=run.estimates[:, :count][order] if len(run.estimates) else None,
        kept_iterates=by_name(run.method, run.iterates[:, :count]),
        partial=partial,
        alive=run.alive[order],
        target=run.targets[order],
        since=pick([run.scene.faults.last_change(t) for t in run.horizons.tolist()]),
        parts=pick(run.parts),
        rule=rule,
        worst=pick(run.worst[:, :count].max(axis=1)),
        messages=pick(run.messages[:, :count].mean(axis=1)),
        faults=run.scene.faults,
    )


def _without_ledger(method: Method) -> str:
    able = []
    for name, candidate in METHODS.items():
        if candidate.mixing == "matrix" and tabulate(candidate(), Network.path(2), 8).ledger:
            able.append(name)
    return (
        f"{type(method).__name__} has no edge ledger, so lost messages would make it drift away; "
        f"methods with a ledger are {', '.join(able)}"
    )
