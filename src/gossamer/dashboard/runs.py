"""Results of a scenario, frame by frame: its network, the run and the expected error of every method, and the
limits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

import gossamer as gs
from gossamer.accounting import neighbor_uncertainty
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.comparison.points import THEOREMS
from gossamer.dashboard.layout import is_regular, places
from gossamer.engines.results import TrialResult
from gossamer.errors import GossamerError
from gossamer.networks import AnyNetwork

if TYPE_CHECKING:
    from gossamer.dashboard.scenario import Scenario

LENGTHS = "each point of the curves is a run of that many rounds"
"""A note for methods that depend on the number of rounds."""

FACTS_UP_TO = 1500
"""Largest number of agents for which eigenvalues are shown; for larger networks they take seconds."""


Part = tuple[str, dict[str, object], dict[str, AnyArray]]
"""The type, the header and the arrays of a frame."""


def parts(scenario: Scenario, *, expected: bool = True) -> Iterator[Part]:
    """Yield the network and the runs and, with `expected`, parts that do not depend on this run's events, and forks."""
    network, methods = scenario.build_network(), scenario.build_methods()
    streams, faults = scenario.build_streams(network.agents), scenario.build_faults()
    masks = scenario.build_masks()
    yield network_part(scenario.network, scenario.rounds, network, streams, masks=masks)
    horizons = scenario.horizons
    for number, method in enumerate(methods):
        try:
            yield _run(number, method, network, streams, scenario, faults)
        except GossamerError as error:  # the other methods may succeed
            yield "missing", {"method": number, "label": method.label, "message": str(error)}, {}
    if not expected:
        return
    yield from references(methods, network, streams, horizons, masks)
    for version, events in enumerate(scenario.forks):
        for number, method in enumerate(methods):
            try:
                run = _simulated(
                    method, network, streams, scenario, scenario.build_faults(events), "errors", masks
                )
            except GossamerError:
                continue
            yield (
                "fork",
                {"fork": version, "method": number, "rounds": horizons, "error": numbers(run.total_error)},
                {},
            )


def network_part(
    name: str,
    rounds: int,
    network: AnyNetwork,
    streams: gs.Observations,
    component: int = 0,
    masks: gs.Masks | None = None,
) -> Part:
    """Return positions, links and the true means and average of one component, and how well masks hide them."""
    positions = places(network, rounds)
    header: dict[str, object] = {
        "name": network.name,
        "agents": network.agents,
        "rounds": rounds,
        "target": float(streams.target(rounds)[component]),
        "names": None
        if list(network.labels) == list(range(network.agents))
        else [str(x) for x in network.labels],
        "square": is_regular(name),
        "changing": isinstance(network, gs.ChangingNetwork),
    }
    means = streams.mean[:, component].astype(np.float32)
    arrays: dict[str, AnyArray] = {"positions": positions, "means": means}
    if isinstance(network, gs.ChangingNetwork):
        starts, pairs = network.edges_in(range(rounds))
        arrays |= {"starts": starts.astype(np.uint32), "links": pairs.astype(np.uint16)}
    else:
        pairs = network._drawn()[0]  # one-way links are lines too
        header["edges"] = len(pairs)
        arrays["links"] = pairs.astype(np.uint16)
    if isinstance(network, gs.Network):
        if masks is not None:
            arrays["hidden"] = neighbor_uncertainty(network, masks).astype(np.float32)
        if network.agents <= FACTS_UP_TO:
            header |= {
                "condition_number": float(network.condition_number),
                "k_star": gs.theory.k_star(network),
            }
    return "network", header, arrays


def _simulated(
    method: gs.Method,
    network: gs.Network | gs.ChangingNetwork,
    streams: gs.Observations,
    scenario: Scenario,
    faults: gs.faults.Faults | None,
    keep: str,
    masks: gs.Masks | None,
) -> TrialResult[Integers, Floats]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gs.simulate(
            method,
            network,
            streams,
            scenario.horizons,
            1,
            scenario.seed,
            faults=faults,
            masks=masks,
            keep=keep,
            progress=False,
        )


def _run(
    number: int,
    method: gs.Method,
    network: gs.Network | gs.ChangingNetwork,
    streams: gs.Observations,
    scenario: Scenario,
    faults: gs.faults.Faults | None,
) -> Part:
    """Return one method's run: its error at some horizons, and the estimates of all agents after every round.

    With masks, also the error and the estimates of the same run without them.
    """
    masks = scenario.build_masks()
    first = method.averages_since(scenario.rounds) or 0  # it has no answer before that

    def simulated(masks: gs.Masks | None) -> tuple[TrialResult[Integers, Floats], AnyArray]:
        run = _simulated(method, network, streams, scenario, faults, "iterates", masks)
        estimates = run.iterates["estimate"][0, :, :, 0].astype(np.float32)
        estimates[:first] = np.nan
        return run, estimates

    run, estimates = simulated(masks)
    header: dict[str, object] = {
        "method": number,
        "label": method.label,
        "rounds": scenario.horizons,
        "error": numbers(run.total_error),
        "alive": np.broadcast_to(run.agents, len(scenario.horizons)).tolist(),
        "notes": _notes(run, method),
    }
    arrays = {"estimates": estimates}
    if masks is not None:
        plain, arrays["unmasked"] = simulated(None)
        header["unmasked_error"] = numbers(plain.total_error)
    return "run", header, arrays


def _notes(run: TrialResult[Integers, Floats], method: gs.Method) -> list[str]:
    said = run.records()[-1]["note"]
    return [*(said.split("; ") if said else []), *([] if method.anytime else [LENGTHS])]


def references(
    methods: Sequence[gs.Method],
    network: AnyNetwork,
    streams: gs.Observations,
    horizons: list[int],
    masks: gs.Masks | None = None,
) -> Iterator[Part]:
    """Yield the expected error and the theorem of each method, where they exist, and the limits."""
    for number, method in enumerate(methods):
        yield from _expected(number, method, network, streams, horizons, masks)
    yield "limits", {"rounds": horizons, **_limits(network, streams, horizons)}, {}


def _expected(
    number: int,
    method: gs.Method,
    network: AnyNetwork,
    streams: gs.Observations,
    horizons: list[int],
    masks: gs.Masks | None,
) -> Iterator[Part]:
    """Return the expected error without faults, and the theorem about it, if they exist."""
    if not isinstance(network, gs.Network):
        return
    try:
        exact = gs.exact(method, network, streams, horizons, masks=masks)
    except GossamerError as error:
        yield "unknown", {"method": number, "message": str(error)}, {}
        return
    yield "exact", {"method": number, "rounds": horizons, "error": numbers(exact.total_error)}, {}
    for name, (plain, theorem) in THEOREMS.items():
        if method != plain or masks is not None:
            continue
        bounds = [theorem(network, streams, t) for t in horizons]
        values = [bound.total if bound.applies else np.nan for bound in bounds]
        header = {"method": number, "rounds": horizons, "error": numbers(values)}
        words = name.replace("_", " ").capitalize()
        yield "bound", {**header, "label": words, "condition": bounds[-1].condition}, {}


def _limits(
    network: AnyNetwork, streams: gs.Observations, horizons: list[int]
) -> dict[str, list[float | None]]:
    rounds = np.array(horizons)
    limits = {"centralized": numbers(gs.theory.centralized_limit(streams, rounds))}
    if isinstance(network, gs.Network):
        limits["network"] = numbers(gs.theory.network_limit(network, streams, rounds))
    return limits


def numbers(values: Floats | list[float]) -> list[float | None]:
    """Numbers as JSON has them."""
    return [float(value) if np.isfinite(value) else None for value in np.asarray(values)]
