"""Results of a scenario, frame by frame: its network, the run and the expected error of every method, and the
limits."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator

import numpy as np

import gossamer as gs
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.comparison.points import THEOREMS
from gossamer.dashboard.code import to_python
from gossamer.dashboard.frames import packed
from gossamer.dashboard.layout import is_regular, places
from gossamer.dashboard.scenario import Scenario
from gossamer.engines.results import TrialResult
from gossamer.errors import GossamerError

LENGTHS = "each point of the curves is a run of that many rounds"
"""A note for methods that depend on the number of rounds."""

FACTS_UP_TO = 1500
"""Largest number of agents for which eigenvalues are shown; for larger networks they take seconds."""


def frames_of(job: dict[str, object]) -> Iterator[bytes]:
    """Yield the frames of a job {"id": ..., "scenario": ...}; a job that fails ends with an error frame.

    With {"python": true} the result is the scenario as code.
    """
    which = job["id"]
    try:
        if job.get("python"):
            yield packed({"type": "code", "id": which, "text": to_python(Scenario.of(job["scenario"]))})
            return
        for kind, header, arrays in _parts(Scenario.of(job["scenario"])):
            yield packed({"type": kind, "id": which, **header}, **arrays)
    except GossamerError as error:
        yield packed({"type": "error", "id": which, "message": str(error)})
    except MemoryError:
        message = "this does not fit into memory; make it smaller"
        yield packed({"type": "error", "id": which, "message": message})
    except Exception as error:  # a bug must not leave the page waiting
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        message = f"this could not be computed ({what}); the terminal of the dashboard tells more"
        yield packed({"type": "error", "id": which, "message": message})


Part = tuple[str, dict[str, object], dict[str, AnyArray]]
"""The type, the header and the arrays of a frame."""


def _parts(scenario: Scenario) -> Iterator[Part]:
    network, methods = scenario.build_network(), scenario.build_methods()
    streams, faults = scenario.build_streams(network.agents), scenario.build_faults()
    yield _network(scenario, network, streams)
    horizons = scenario.horizons
    for number, method in enumerate(methods):
        try:
            yield _run(number, method, network, streams, scenario, faults)
        except GossamerError as error:  # the other methods may succeed
            yield "missing", {"method": number, "label": method.label, "message": str(error)}, {}
    for number, method in enumerate(methods):
        yield from _expected(number, method, network, streams, horizons)
    yield "limits", {"rounds": horizons, **_limits(network, streams, horizons)}, {}
    for version, events in enumerate(scenario.forks):
        for number, method in enumerate(methods):
            try:
                run = _simulated(method, network, streams, scenario, scenario.build_faults(events), "errors")
            except GossamerError:
                continue
            yield (
                "fork",
                {"fork": version, "method": number, "rounds": horizons, "error": _numbers(run.total_error)},
                {},
            )


def _network(scenario: Scenario, network: gs.Network | gs.ChangingNetwork, streams: gs.Observations) -> Part:
    """Return positions, links and the true means and average."""
    positions = places(network, scenario.network, scenario.rounds)
    header: dict[str, object] = {
        "name": network.name,
        "agents": network.agents,
        "rounds": scenario.rounds,
        "target": float(streams.target(scenario.rounds)[0]),
        "names": None
        if list(network.labels) == list(range(network.agents))
        else [str(x) for x in network.labels],
        "square": is_regular(scenario.network),
        "changing": isinstance(network, gs.ChangingNetwork),
    }
    arrays: dict[str, AnyArray] = {"positions": positions, "means": streams.mean[:, 0].astype(np.float32)}
    if isinstance(network, gs.ChangingNetwork):
        starts, pairs = network.edges_in(range(scenario.rounds))
        arrays |= {"starts": starts.astype(np.uint32), "links": pairs.astype(np.uint16)}
    else:
        header["edges"] = len(network.edges)
        arrays["links"] = network.edges.astype(np.uint16)
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
    """Return one method's run: its error at some horizons, and the estimates of all agents after every round."""
    run = _simulated(method, network, streams, scenario, faults, "iterates")
    estimates = run.iterates["estimate"][0, :, :, 0].astype(np.float32)
    estimates[: method.averages_since(scenario.rounds) or 0] = np.nan  # it has no answer before that
    header = {
        "method": number,
        "label": method.label,
        "rounds": scenario.horizons,
        "error": _numbers(run.total_error),
        "alive": np.broadcast_to(run.agents, len(scenario.horizons)).tolist(),
        "notes": _notes(run, method),
    }
    return "run", header, {"estimates": estimates}


def _notes(run: TrialResult[Integers, Floats], method: gs.Method) -> list[str]:
    said = run.records()[-1]["note"]
    return [*(said.split("; ") if said else []), *([] if method.anytime else [LENGTHS])]


def _expected(
    number: int,
    method: gs.Method,
    network: gs.Network | gs.ChangingNetwork,
    streams: gs.Observations,
    horizons: list[int],
) -> Iterator[Part]:
    """Return the expected error without faults, and the theorem about it, if they exist."""
    if isinstance(network, gs.ChangingNetwork):
        return
    try:
        exact = gs.exact(method, network, streams, horizons)
    except GossamerError as error:
        yield "unknown", {"method": number, "message": str(error)}, {}
        return
    yield "exact", {"method": number, "rounds": horizons, "error": _numbers(exact.total_error)}, {}
    for name, (plain, theorem) in THEOREMS.items():
        if method != plain:
            continue
        bounds = [theorem(network, streams, t) for t in horizons]
        values = [bound.total if bound.applies else np.nan for bound in bounds]
        header = {"method": number, "rounds": horizons, "error": _numbers(values)}
        words = name.replace("_", " ").capitalize()
        yield "bound", {**header, "label": words, "condition": bounds[-1].condition}, {}


def _limits(
    network: gs.Network | gs.ChangingNetwork, streams: gs.Observations, horizons: list[int]
) -> dict[str, list[float | None]]:
    rounds = np.array(horizons)
    limits = {"centralized": _numbers(gs.theory.centralized_limit(streams, rounds))}
    if isinstance(network, gs.Network):
        limits["network"] = _numbers(gs.theory.network_limit(network, streams, rounds))
    return limits


def _numbers(values: Floats | list[float]) -> list[float | None]:
    """Numbers as JSON has them."""
    return [float(value) if np.isfinite(value) else None for value in np.asarray(values)]
