"""partition, and simulate on a cluster: networks that no single machine has to hold."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import gossamer as gs
from gossamer.cli.options import AsJson, Csv, Graph, ProblemOptions, Seed, Weights, option
from gossamer.cli.output import emit
from gossamer.cli.parsing import parse_horizons, parse_method, parse_network
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    from gossamer.arrays import Floats, Integers


def partition(
    graph: Graph,
    out: Annotated[Path, option("The folder to write, which must be new or empty.")],
    parts: Annotated[int, option("Number of parts, for example 16: at least the number of ranks.")] = 16,
    by: Annotated[
        str,
        option(
            "How to divide: metis (few edges between parts), curve (space-filling, for agents with positions) "
            "or blocks (in the order of the agents)."
        ),
    ] = "metis",
    weights: Weights = "metropolis",
    seed: Seed = 0,
    as_json: AsJson = False,
    csv: Csv = None,
) -> None:
    """Divide a network into parts, one file each, for the ranks of a cluster.

    mpiexec -n 16 gossamer simulate FOLDER --cluster reads them. Agents are renumbered part by part.

    A part is made of whole blocks of 512 agents, so that results do not depend on the parts.
    """
    from gossamer.networks.partitioning import partition as cut

    network = parse_network(graph, weights, seed)
    try:
        shards = cut(network, parts, out, by)
    except InvalidInput as error:
        error.parameter = "--out" if error.parameter == "folder" else error.parameter
        raise
    sizes = [last - first for first, last in pairwise(shards.bounds)]
    edges = len(network.links.neighbors) // 2
    record = {
        "network": network.name,
        "agents": network.agents,
        "edges": edges,
        "parts": len(sizes),
        "smallest": min(sizes),
        "largest": max(sizes),
        "cut_edges": shards.cut,
        "cut_share": shards.cut / edges,
    }
    emit(
        [record],
        title=f"{network.name} in {len(sizes)} parts by {by}",
        notes=["parts are whole blocks of 512 agents"],
        as_json=as_json,
        csv=csv,
    )


def simulate_on_cluster(
    graph: str,
    method: str,
    rounds: str,
    trials: int,
    given: ProblemOptions,
    checkpoint: Path | None,
    every: int,
) -> gs.Simulation[Integers, Floats] | None:
    """Return the result on rank 0, and None on the others."""
    from gossamer.engines.simulate.collective import on_all_ranks
    from gossamer.networks.parts import parts_of

    comm = require("mpi4py.MPI", "mpi").COMM_WORLD
    problem = on_all_ranks(
        comm,
        lambda: (parse_method(method), parts_of(graph, given.weights, given.seed), parse_horizons(rounds)),
    )
    streams = on_all_ranks(comm, lambda: streams_in_parts(given.spread, given.std, given.seed))
    result = gs.simulate(
        problem[0],
        problem[1],
        streams,
        problem[2],
        trials,
        given.seed,
        cluster=comm,
        checkpoint=checkpoint,
        every=every,
    )
    return result if comm.rank == 0 else None


def streams_in_parts(spread: float, std: float | None, seed: int) -> Callable[[range], gs.Observations]:
    """Return the streams of `parse_observations`, for a range of agents at a time."""
    import numpy as np

    from gossamer import checks

    spread = checks.number("spread", spread, least=0)

    def streams(agents: range) -> gs.Observations:
        bits = np.random.PCG64(seed)  # that of `numpy.random.default_rng`
        generator = np.random.Generator(bits.advance(agents.start))  # one number per agent
        return gs.Gaussian(generator.uniform(0, spread, len(agents)), 1.0 if std is None else std)

    return streams
