"""Networks and methods that tests draw from."""

from __future__ import annotations

import networkx as nx
from hypothesis import strategies as st

import gossamer as gs

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
