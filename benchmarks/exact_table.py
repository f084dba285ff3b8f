"""Check exact errors beyond 3000 agents against dense eigenvalues, and further on against simulation.

    python -m benchmarks.exact_table --write docs/decisions/spectra.md

Horizons are multiples of sqrt(kappa), the condition number of the gossip matrix. Means are uniform on [0, 10], the
standard deviations of the agents uniform on [0.5, 1.5]; `noise` is the same without means, where all depends on the
sampled variance. At 3001 to 6000 agents the truth is computed from all eigenvalues and eigenvectors. On larger
networks, the bias is compared with a run of the simulation without noise, and the total error with the mean over
trials.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np

import gossamer as gs
from gossamer.networks.spectrum import DenseSpectrum

FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
METHODS = ("sda", "anytime-sda", "dsg")
MOST_ROUNDS = 4000
"""Longer horizons of dense rows are left out, which would take most of an hour of processor time."""

WORK = 2.0**30
"""Updates of an agent in the longest run of a simulation: longer horizons are left out."""


def caterpillar(agents: int) -> nx.Graph:
    """A path with two leaves at each of its nodes."""
    spine = agents // 3
    graph = nx.path_graph(spine)
    graph.add_edges_from((i % spine, i) for i in range(spine, agents))
    return graph


def lattice(rows: int, columns: int) -> nx.Graph:
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns))


Make = Callable[[], gs.Network]


def _of(graph: Callable[[], nx.Graph]) -> Make:
    return lambda: gs.Network.from_networkx(graph())


DENSE: dict[str, Make] = {
    "path": _of(lambda: nx.path_graph(3001)),
    "random tree": _of(lambda: nx.random_labeled_tree(4000, seed=3)),
    "lollipop": _of(lambda: nx.lollipop_graph(60, 3200)),
    "caterpillar": _of(lambda: caterpillar(3300)),
    "grid": _of(lambda: lattice(50, 64)),
    "geometric": lambda: gs.Network.random_geometric(3300, seed=2),
    "scale-free": _of(lambda: nx.barabasi_albert_graph(3500, 2, seed=1)),
}
LARGE: dict[str, Make] = {
    "path": _of(lambda: nx.path_graph(10_000)),
    "random tree": _of(lambda: nx.random_labeled_tree(50_000, seed=3)),
    "lollipop": _of(lambda: nx.lollipop_graph(100, 10_000)),
    "caterpillar": _of(lambda: caterpillar(30_000)),
    "grid": lambda: gs.Network.of("grid:1000x1000"),
    "geometric": lambda: gs.Network.random_geometric(100_000, seed=2),
    "scale-free": _of(lambda: nx.barabasi_albert_graph(100_000, 2, seed=1)),
    "scale-free, larger": _of(lambda: nx.barabasi_albert_graph(1_000_000, 2, seed=1)),
}


class Row(NamedTuple):
    network: str
    agents: int
    horizons: str
    bias: float  #: largest relative error of a bias, as a share of the total error
    scores: np.ndarray  #: (total error - truth) / uncertainty
    relative: float  #: largest uncertainty as a share of the total error
    seconds: float  #: processor time of all calls of `gs.exact`, facts included

    def text(self) -> str:
        rms, least = math.sqrt(np.mean(self.scores**2)), self.scores.min()
        return (
            f"| {self.network} | {self.agents} | {self.horizons} | {self.bias:.0e} | {rms:.2f} | {least:+.1f} "
            f"| {self.scores.max():+.1f} | {self.relative:.2%} | {self.seconds:.0f} |"
        )


HEAD = (
    "| network | agents | T | error of the bias | rms score | least | largest | largest uncertainty | seconds |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def streams(agents: int) -> dict[str, gs.Gaussian]:
    rng = np.random.default_rng(agents)
    means, noise = rng.uniform(0, 10, agents), rng.uniform(0.5, 1.5, agents)
    return {"means": gs.Gaussian(means, noise), "noise": gs.Gaussian(np.zeros(agents), noise)}


def horizons_of(network: gs.Network, most: float = math.inf) -> list[int]:
    around = math.sqrt(network.condition_number)
    found = sorted({max(2, int(factor * around)) for factor in FACTORS})
    return [each for each in found if each <= most] or [max(2, int(most))]


def dense_row(name: str, make: Make) -> Row:
    """Dense eigenvalues and eigenvectors are the truth."""
    network, known = make(), make()
    begin = time.process_time()
    horizons = horizons_of(network, MOST_ROUNDS)
    facts = {name: getattr(network, name) for name in ("lambda_2", "lambda_max", "inverse_square_trace")}
    spent = time.process_time() - begin
    # Parameters follow from the facts, so these must be the same.
    known.__dict__.update(facts, spectrum=DenseSpectrum(known.gossip.toarray()))
    biases, scores, relative = [], [], []
    for observations in streams(network.agents).values():
        for method in METHODS:
            begin = time.process_time()
            found = gs.exact(method, network, observations, horizons)
            spent += time.process_time() - begin
            truth = gs.exact(method, known, observations, horizons)
            biases += list(np.abs(found.bias - truth.bias) / truth.total_error)
            scores += list((found.total_error - truth.total_error) / found.uncertainty)
            relative += list(found.uncertainty / found.total_error)
    return _row(name, network, horizons, (biases, scores, relative), spent)


def large_row(name: str, make: Make, trials: int = 24) -> Row:
    """Noiseless runs give the biases, and the mean over trials the total errors.

    A score takes the standard error of the simulation into account, which is the larger one.
    """
    network = make()
    begin = time.process_time()
    horizons = horizons_of(network, WORK / (network.agents * trials))
    spent = time.process_time() - begin
    observations = streams(network.agents)["means"]
    silent = gs.Gaussian(observations.mean, 0.0)
    biases, scores, relative = [], [], []
    for method in METHODS[:2]:
        begin = time.process_time()
        found = gs.exact(method, network, observations, horizons)
        spent += time.process_time() - begin
        runs = gs.simulate(method, network, observations, horizons, trials, seed=1, progress=False)
        bias = gs.simulate(method, network, silent, horizons, 1, progress=False).total_error
        biases += list(np.abs(found.bias - bias) / found.total_error)
        scores += list((found.total_error - runs.total_error) / np.hypot(found.uncertainty, runs.stderr))
        relative += list(found.uncertainty / found.total_error)
    return _row(name, network, horizons, (biases, scores, relative), spent)


def _row(
    name: str,
    network: gs.Network,
    horizons: list[int],
    found: tuple[list[float], list[float], list[float]],
    seconds: float,
) -> Row:
    biases, scores, relative = found
    rounds = f"{horizons[0]} to {horizons[-1]}" if len(horizons) > 1 else str(horizons[0])
    return Row(name, network.agents, rounds, max(biases), np.array(scores), max(relative), seconds)


def rows(only: str) -> Iterator[tuple[str, str]]:
    for kind, roster, measure in (("dense", DENSE, dense_row), ("large", LARGE, large_row)):
        for name, make in roster.items():
            if only in (kind, name, f"{kind} {name}", ""):
                yield kind, measure(name, make).text()


def write(document: Path, kind: str, row: str) -> None:
    """Replace the row of this network in the marked table of the document, or append it."""
    before, rest = document.read_text(encoding="utf-8").split(f"<!-- {kind} -->\n", 1)
    table, after = rest.split("<!-- end -->", 1)
    name = row.split("|")[1]
    lines = [line for line in table.splitlines()[2:] if line.split("|")[1] != name]
    table = "\n".join([HEAD, *lines, row])
    document.write_text(f"{before}<!-- {kind} -->\n{table}\n<!-- end -->{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help='"dense", "large", a network, or both: "large grid"')
    parser.add_argument(
        "--write", type=Path, help="a document whose marked tables get each row when it is measured"
    )
    options = parser.parse_args()
    for kind, row in rows(options.only):
        print(kind, row, flush=True)
        if options.write:
            write(options.write, kind, row)


if __name__ == "__main__":
    main()
