"""Graphs written as rows of words: edge lists, adjacency lists and adjacency matrices.

The three look alike, so their format is given by the user or by the name of the file. Only two words per line, or a
header that names the ends of an edge, are unambiguously an edge list.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np
import scipy.sparse as sp

from gossamer.arrays import AnyArray
from gossamer.errors import InvalidNetwork


class Row(NamedTuple):
    """A line of a file: its number and its words."""

    line: int
    words: list[str]

    def __str__(self) -> str:
        return f"line {self.line}: {' '.join(self.words)!r}"


_WORD = re.compile(r'"([^"]*)"|\'([^\']*)\'|(\{[^}]*\}|[^\s,;]+)')
_COMMENT = re.compile(r'^\s*%.*|^((?:[^"#]|"[^"]*")*)#.*')
_ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("node1", "node2"), ("u", "v"), ("i", "j"))


def rows_of(text: str) -> list[Row]:
    """Return the words of every line that has any; # starts a comment, and % does at the start of a line.

    Words are separated by `;`, by tabs or by commas, whichever is in every line, and then may hold spaces; otherwise by
    any mixture of these and spaces. Words in quotes may hold anything.
    """
    remarks = "#" in text or "%" in text
    bare = [(_COMMENT.sub(r"\1", line) if remarks else line).strip(" \r") for line in text.splitlines()]
    lines = [(number, line) for number, line in enumerate(bare, start=1) if line.strip()]
    for mark in (";", "\t", ","):
        if "{" not in text and lines and all(mark in line for _, line in lines):
            cells = csv.reader((line for _, line in lines), delimiter=mark, skipinitialspace=True)
            return [Row(number, _trimmed(row)) for (number, _), row in zip(lines, cells, strict=True)]
    return [Row(number, ["".join(groups) for groups in _WORD.findall(line)]) for number, line in lines]


def _trimmed(row: list[str]) -> list[str]:
    """Return the cells without the empty ones at the end, which spreadsheets add to short rows."""
    row = [cell.strip() for cell in row]
    while len(row) > 1 and not row[-1]:
        row.pop()
    return row


# -- edge lists ---------------------------------------------------------------------------------------------------


def is_edge_list(rows: list[Row]) -> bool:
    """Return whether rows are unambiguously an edge list: two agents per line, or a header that names the ends."""
    columns, below = _below_heading(rows)
    if below is not rows and (columns != (0, 1, 2) or "weight" in (word.lower() for word in rows[0].words)):
        return True
    return all(len(row.words) == 2 or (row.words[2:3] and row.words[2].startswith("{")) for row in rows)


def edge_list(rows: list[Row]) -> nx.Graph:
    """Read two agents per line, and a weight after them if there is one; both directions are one edge."""
    if not rows:
        raise InvalidNetwork("it holds no agents; an edge list has two agent names per line")
    columns, below = _below_heading(rows)
    graph = nx.Graph()
    for row in below:
        a, b, weight = _edge(row, columns)
        known = graph.edges[a, b]["weight"] if graph.has_edge(a, b) else weight
        # It is unknown which of two weights is meant, which matters only if weights are used.
        graph.add_edge(a, b, weight=weight if known == weight else np.nan)
    return graph


def _edge(row: Row, columns: Sequence[int]) -> tuple[str, str, float | None]:
    """Return both ends and the weight, None if the row has none."""
    cells = [row.words[column] if column < len(row.words) else "" for column in columns]
    if not (cells[0] and cells[1]):
        raise InvalidNetwork(f"two agent names are needed in {row}")
    if len(cells) > 2 and cells[2].startswith("{"):  # NetworkX writes all attributes of an edge
        return cells[0], cells[1], ast.literal_eval(cells[2]).get("weight")
    return cells[0], cells[1], _number(cells[2]) if len(cells) > 2 else None


def _below_heading(rows: list[Row]) -> tuple[tuple[int, ...], list[Row]]:
    """Return the columns of the two ends and of the weight, by the heading if there is one, and the rows below it."""
    width = max((len(row.words) for row in rows), default=0)
    plain = (0, 1, 2)[: max(width, 2)]
    if not rows:
        return plain, rows
    heading = [word.lower() for word in rows[0].words]
    if {word for row in rows[1:] for word in row.words} & set(rows[0].words):
        return plain, rows  # its words appear again, so they are agents
    for ends in _ENDS:
        if set(ends) <= set(heading):
            named = [*ends, "weight"] if "weight" in heading else ends
            return tuple(heading.index(word) for word in named), rows[1:]
    # A header differs in kind from the rows below it: words above numbers.
    below = zip(*(row.words for row in rows[1:]), strict=False)
    words = not any(_numeric([word]) for word in heading)
    return plain, rows[1:] if words and any(map(_numeric, below)) else rows


def check_counts(rows: list[Row]) -> None:
    """Raise an error if the first line may be the numbers of agents and edges rather than an edge."""
    if _below_heading(rows)[1] is not rows:  # a heading says that what follows are edges
        return
    agents = {word for row in rows[1:] for word in row.words[:2]}
    if len(rows) > 1 and rows[0].words == [str(len(agents)), str(len(rows) - 1)]:
        raise InvalidNetwork(
            f"{rows[0]} may be an edge, or the numbers of agents and edges; delete it if it is not an edge, or give "
            "format='edge-list'"
        )


# -- adjacency lists ----------------------------------------------------------------------------------------------


def adjacency_list(rows: list[Row]) -> nx.Graph:
    """Read an agent and its neighbors per line, with or without a colon between them."""
    graph = nx.Graph()
    for row in rows:
        agent, *neighbors = (word for word in row.words if word not in ("", ":"))
        graph.add_node(agent.removesuffix(":"))
        graph.add_edges_from((agent.removesuffix(":"), neighbor) for neighbor in neighbors)
    return graph


# -- adjacency matrices -------------------------------------------------------------------------------------------


def matrix(rows: list[Row]) -> nx.Graph:
    """Read as many rows as columns of numbers; the agents' names may be above, or above and to the left."""
    names, lines = _below_names([row.words for row in rows])
    wrong = next((len(line) for line in lines if len(line) != len(lines)), None)
    if wrong is not None or not lines:
        raise InvalidNetwork(f"as many columns as rows are needed, got {wrong or 0} in {len(lines)} rows")
    if not all(map(_numeric, lines)):
        raise InvalidNetwork("only numbers are allowed, got other words")
    return of_matrix(np.array(lines, dtype=float), names)


def _below_names(rows: list[list[str]]) -> tuple[list[str] | None, list[list[str]]]:
    if len(rows) < 2:
        return None, rows
    top, left = rows[0], [row[0] for row in rows[1:]]
    # The corner above the names on the left is empty, or holds anything but a number.
    if top == left or (top[1:] == left and _number(top[0]) is None):
        return left, [row[1:] for row in rows[1:]]
    if len(top) == len(left) and not any(map(_numeric, [[word] for word in top])):
        return top, rows[1:]
    return None, rows


def of_matrix(array: AnyArray | sp.spmatrix, names: Sequence[str] | None = None) -> nx.Graph:
    """Return the graph of a symmetric matrix, dense or sparse: its nonzero entries are edges and their weights."""
    if not sp.issparse(array):
        array = np.asarray(array)
        if array.ndim != 2 or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
            raise InvalidNetwork(
                f"a square table of numbers is needed, got {array.dtype} of shape {array.shape}"
            )
    if array.shape[0] != array.shape[1]:
        raise InvalidNetwork(f"an adjacency matrix must be square, got shape {array.shape}")
    if np.iscomplexobj(array) or not np.all(np.isfinite(array.data if sp.issparse(array) else array)):
        raise InvalidNetwork(
            "an adjacency matrix must hold finite real numbers, got complex or infinite ones"
        )
    entries = sp.csr_array(array, dtype=float)
    entries.eliminate_zeros()
    if entries.nnz and entries.data.min() < 0:
        raise InvalidNetwork(
            f"an adjacency matrix must have no negative entries, got {entries.data.min():g}; "
            "for a gossip matrix use Network.from_gossip_matrix"
        )
    gap = abs(entries - entries.T).tocoo()
    if gap.nnz and gap.data.max() > 1e-12 * entries.data.max():
        i, j = (int(places[gap.data.argmax()]) for places in (gap.row, gap.col))
        raise InvalidNetwork(
            f"an adjacency matrix must be symmetric, but [{i},{j}] is {entries[i, j]:g} and [{j},{i}] is "
            f"{entries[j, i]:g}; an edge needs both"
        )
    if names is not None and len(set(names)) < len(names):
        raise InvalidNetwork("the names above an adjacency matrix must be different, but some are the same")
    graph = nx.from_scipy_sparse_array(entries)
    return graph if names is None else nx.relabel_nodes(graph, dict(enumerate(names)))


def _numeric(words: Sequence[str]) -> bool:
    return all(_number(word) is not None for word in words)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
