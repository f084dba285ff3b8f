from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import networkx as nx
import numpy as np
import pytest
from hypothesis import strategies as st

import gossamer as gs
from tests.processes import guard
from tests.processes import processes_end as processes_end

hypothesis.settings.register_profile("gossamer", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("gossamer")
os.environ.setdefault("MPLBACKEND", "agg")


def pytest_configure() -> None:
    """Python prefers a compiled module to its source, so one that is older than its source would be tested unseen."""
    guard()
    for compiled in Path(gs.__file__).parent.rglob("*.so"):
        name = compiled.name.split(".")[0]
        for source in compiled.parent.glob(f"{name}.p*"):
            if source.stat().st_mtime > compiled.stat().st_mtime:
                pytest.exit(
                    f"{source.name} is newer than {compiled.name}; compile it: make setup", returncode=4
                )


LINEAR = [name for name, cls in gs.METHODS.items() if cls.mixing == "matrix"]


@st.composite
def connected_networks(
    draw, most: int = 12, weights=("metropolis", "laplacian", "max-degree", "best-constant")
):
    """Any connected graph: a random tree plus random extra edges."""
    n = draw(st.integers(2, most))
    graph = nx.Graph()
    graph.add_node(0)
    for i in range(1, n):
        graph.add_edge(i, draw(st.integers(0, i - 1)))
    for _ in range(draw(st.integers(0, n))):
        i, j = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
        if i != j:
            graph.add_edge(i, j)
    return gs.Network.from_networkx(graph, draw(st.sampled_from(weights)))


@pytest.fixture(scope="session")
def five_networks():
    return {
        "path": gs.Network.path(100),
        "cycle": gs.Network.cycle(100),
        "star": gs.Network.star(100),
        "grid": gs.Network.grid(10, 10),
        "erdos-renyi": gs.Network.erdos_renyi(100, seed=1),
    }


@pytest.fixture(scope="session")
def small():
    """A small irregular network with unequal noise."""
    rng = np.random.default_rng(5)
    net = gs.Network.erdos_renyi(12, p=0.3, seed=3)
    return net, gs.Gaussian(rng.uniform(0, 10, 12), rng.uniform(0.5, 2, 12))
