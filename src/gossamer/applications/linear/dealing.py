"""Rows of data distributed over agents: arrays, columns by name, pandas or polars frames, and the rules that split
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import AnyArray, Floats
from gossamer.errors import InvalidInput, nearest

_RULES = ("contiguous", "random", "sorted")


class DealtRows(NamedTuple):
    """Features and targets of every agent, and the names of the columns and the agents."""

    features: list[Floats]
    targets: list[Floats]
    names: list[str]
    labels: list[Any]


class DataTable:
    """Columns by name, of an array (rows, features), a dictionary of columns, or a pandas or polars frame.

    rows   number of rows
    array  the array itself, if the columns are those of an array of numbers
    """

    def __init__(self, X: Any) -> None:
        self.array: Floats | None = None
        names = X if isinstance(X, Mapping) else getattr(X, "columns", ())
        check_unique([str(name) for name in names])
        if isinstance(X, Mapping):
            self._columns = {str(name): column for name, column in X.items()}
        elif hasattr(X, "columns"):  # a pandas or polars frame
            self._columns = {str(name): X[name] for name in X.columns}
        else:
            array = _matrix(X)
            self._columns = {f"x{k}": array[:, k] for k in range(array.shape[1])}
            self.array = array.astype(float, copy=False) if array.dtype.kind in "iufb" else None
        lengths = {}
        for name, column in self._columns.items():
            if not hasattr(column, "__len__"):
                raise InvalidInput(
                    f"column {name!r} of X must hold one value per row, got {checks.brief(column)}"
                )
            lengths[name] = len(column)
        self.rows = next(iter(lengths.values()), 0)
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"all columns need the same number of rows, got {lengths}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Any:
        """Return the column as given."""
        if name not in self._columns:
            raise InvalidInput(f"the data have no column {name!r}{nearest(name, self._columns)}")
        return self._columns[name]

    def pop(self, name: str) -> Any:
        """Return the column and remove it from the table."""
        column = self[name]
        del self._columns[name]
        self.array = None
        return column


def deal(X: object, y: object, agents: int | None, split: object, intercept: bool, seed: int) -> DealtRows:
    """Distribute the rows of (X, y) over agents; see `LinearEstimation.from_data` for the rules.

    Blocks of consecutive rows of an array of floats are views of it.
    """
    table = DataTable(X)
    target = take(table, y)
    split = take_split(table, split)
    names = list(table)
    if not names:
        raise InvalidInput("no feature columns are left; at least one is needed")
    features = table.array
    if features is None or not np.isfinite(features.sum()):
        features = np.column_stack([_numbers(name, table[name]) for name in names])
    target = one_per_row("y", _numbers("y", target), len(features))
    if intercept:
        names = with_intercept(names)
        features = np.column_stack([features, np.ones(len(features))])
    groups, labels = groups_of(split, target, agents, seed)
    return DealtRows([features[g] for g in groups], [target[g] for g in groups], names, labels)


def take(table: DataTable, y: object) -> Any:
    """Return the labels: a column, which is removed from the table, or values."""
    if not isinstance(y, str):
        return y.to_numpy() if hasattr(y, "to_numpy") else y
    if y not in table:
        raise InvalidInput(
            f"names the column {y!r}, which the data do not have{nearest(y, table)}", parameter="y"
        )
    return np.asarray(table.pop(y))


def one_per_row(name: str, values: object, rows: int) -> AnyArray:
    """Return the values as an array of one per row; a column of shape (rows, 1) is accepted as well."""
    try:
        column = np.asarray(values)
    except ValueError:  # ragged
        raise InvalidInput(
            f"needs one value per row of X ({rows}), got {checks.brief(values)}", parameter=name
        ) from None
    if column.shape == (rows, 1):
        column = column[:, 0]
    if column.shape != (rows,):
        raise InvalidInput(f"needs one value per row of X ({rows}), got shape {column.shape}", parameter=name)
    return column


def take_split(table: DataTable, split: object) -> Any:
    """Return a rule, or the label of each row; the column of "by:<column>" is removed from the table."""
    if not (isinstance(split, str) and split.startswith("by:")):
        return split
    key = split.removeprefix("by:")
    if key not in table:
        raise InvalidInput(f"split={split!r} names a column that the data do not have{nearest(key, table)}")
    return np.asarray(table.pop(key))


def with_intercept(names: Sequence[str]) -> list[str]:
    """Return the names of covariates and of an intercept."""
    if "intercept" in names:
        raise InvalidInput(
            "a column is called 'intercept', which is the name of the constant that the model adds; rename the column, "
            "or leave the constant out with intercept=False"
        )
    return [*names, "intercept"]


def check_unique(names: Sequence[str]) -> None:
    """Raise an error if columns have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidInput(
            f"column names must be unique, but {twice[0]!r} is the name of {names.count(twice[0])} columns; "
            "rename or drop all but one"
        )


def _matrix(X: object) -> AnyArray:
    try:
        array = np.asarray(X)
    except ValueError:
        raise InvalidInput(f"every row of X needs equally many features, got {checks.brief(X)}") from None
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInput(
            parameter="X",
            required="a frame or an array of shape (rows, features)",
            got=f"shape {array.shape}",
        )
    return array


def _numbers(name: str, column: object) -> Floats:
    kind = np.asarray(column).dtype.kind
    if kind in "Mm":
        raise InvalidInput(
            f"column {name!r} must hold numbers, got {'dates' if kind == 'M' else 'durations'}, whose unit is not "
            "known; convert it to a number first, for example to days since a start"
        )
    try:
        values = np.asarray(column, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            f"column {name!r} must hold numbers, got {checks.brief(column)}; "
            "encode it as numbers, drop it, or split by it with split='by:<column>'"
        ) from None
    missing = int(np.sum(~np.isfinite(values)))
    if missing:
        raise InvalidInput(
            f"column {name!r} must be finite, but {missing} of {values.size} values are missing or infinite; "
            "drop or fill these rows first"
        )
    return values


def groups_of(
    split: Any, target: Any, agents: int | None, seed: int, members: Sequence[Any] | None = None
) -> tuple[list[Any], list[Any]]:
    """Return the rows of every agent, and the names of the agents.

    With `members`, the names of all agents, agents may have no rows: rows are labeled with names of members, or (with
    other names) with one label per agent in sorted order.
    """
    rows = len(target)
    if not isinstance(split, str):
        labels = checks.listed("split", split)
        if len(labels) != rows or any(isinstance(label, list | np.ndarray) for label in labels):
            raise InvalidInput(
                f"needs one label per row ({rows}), got {checks.brief(split)}", parameter="split"
            )
        values, member = np.unique(labels, return_inverse=True)
        if members is not None and set(values.tolist()) <= set(members):
            number = {name: k for k, name in enumerate(members)}
            member = np.array([number[name] for name in values.tolist()])[member]
            return [np.flatnonzero(member == k) for k in range(len(members))], list(members)
        if agents is not None and agents != len(values):
            raise InvalidInput(
                f"the rows have {len(values)} different labels, one per agent, got agents={agents}; "
                "leave agents out, or give a network of that many agents"
            )
        if len(values) < 2:
            raise InvalidInput(
                "splitting by labels needs at least 2 different labels, but all rows have the same"
            )
        return [np.flatnonzero(member == k) for k in range(len(values))], values.tolist()
    if split not in _RULES:
        raise InvalidInput(
            parameter="split",
            required="'contiguous', 'random', 'sorted', 'by:<column>' or one label per row",
            got=f"{split!r}{nearest(split, _RULES)}",
        )
    if agents is None:
        raise InvalidInput(f"split={split!r} needs the number of agents: pass agents=10, or a network")
    if not agents >= 2 or (agents > rows and members is None):
        raise InvalidInput(f"between 2 and {rows} agents can share {rows} rows, got agents={agents}")
    names = list(range(agents)) if members is None else list(members)
    if split == "contiguous":
        ends = np.cumsum([rows // agents + (k < rows % agents) for k in range(agents)]).tolist()
        return [slice(first, last) for first, last in pairwise([0, *ends])], names
    shuffled = split == "random"
    order = np.random.default_rng(seed).permutation(rows) if shuffled else np.argsort(target, kind="stable")
    return [np.sort(part) for part in np.array_split(order, agents)], names
