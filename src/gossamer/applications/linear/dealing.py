"""Data in rows, dealt to agents: arrays, columns by name, pandas or polars frames, and the rules that split them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, nearest

_RULES = ("contiguous", "random", "sorted")


class DealtRows(NamedTuple):
    """Features and targets of every agent, and what the columns and the agents are called."""

    features: list[Floats]
    targets: list[Floats]
    names: list[str]
    labels: list[Any]


def deal(X: Any, y: Any, agents: int | None, split: Any, intercept: bool, seed: int) -> DealtRows:
    """Deal the rows of (X, y) to agents; see `LinearEstimation.from_data` for the rules."""
    columns = _columns(X)
    if isinstance(y, str):
        if y not in columns:
            raise InvalidInput(f"y names the column {y!r}, which the data do not have{nearest(y, columns)}")
        target = columns.pop(y)
    else:
        target = y.to_numpy() if hasattr(y, "to_numpy") else y
    by: Any = split
    if isinstance(split, str) and split.startswith("by:"):
        key = split.removeprefix("by:")
        if key not in columns:
            raise InvalidInput(
                f"split={split!r} names a column that the data do not have{nearest(key, columns)}"
            )
        by = columns.pop(key)
    names = list(columns)
    if not names:
        raise InvalidInput("no feature columns are left; at least one is needed")
    features = np.column_stack([_numbers(name, columns[name]) for name in names])
    target = _numbers("y", target).squeeze()
    if target.shape != (len(features),):
        raise InvalidInput(f"y needs one value per row of X ({len(features)}), got shape {target.shape}")
    if intercept:
        features, names = np.column_stack([features, np.ones(len(features))]), [*names, "intercept"]
    groups, labels = _groups(by, target, agents, seed)
    return DealtRows([features[g] for g in groups], [target[g] for g in groups], names, labels)


def _columns(X: Any) -> dict[str, Any]:
    if isinstance(X, Mapping):
        return {str(name): np.asarray(column) for name, column in X.items()}
    if hasattr(X, "columns"):  # a pandas or polars frame
        return {str(name): X[name].to_numpy() for name in X.columns}
    try:
        array = np.asarray(X)
    except ValueError:
        raise InvalidInput(f"every row of X needs equally many features, got {checks.brief(X)}") from None
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInput(
            f"X must be a frame or an array of shape (rows, features), got shape {array.shape}"
        )
    return {f"x{k}": array[:, k] for k in range(array.shape[1])}


def _numbers(name: str, column: Any) -> Floats:
    try:
        values = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
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


def _groups(split: Any, target: Floats, agents: int | None, seed: int) -> tuple[list[Integers], list[Any]]:
    rows = len(target)
    if not isinstance(split, str):
        labels = checks.listed("split", split)
        if len(labels) != rows or any(isinstance(label, list | np.ndarray) for label in labels):
            raise InvalidInput(f"split needs one label per row ({rows}), got {checks.brief(split)}")
        found, member = np.unique(labels, return_inverse=True)
        if agents is not None and agents != len(found):
            raise InvalidInput(
                f"the rows carry {len(found)} different labels, one per agent, got agents={agents}; "
                "leave agents out, or give a network of that many agents"
            )
        if len(found) < 2:
            raise InvalidInput(
                "splitting by labels needs at least 2 different labels, but all rows carry the same"
            )
        return [np.flatnonzero(member == k) for k in range(len(found))], found.tolist()
    if split not in _RULES:
        raise InvalidInput(
            "split must be 'contiguous', 'random', 'sorted', 'by:<column>' or one label per row, "
            f"got {split!r}{nearest(split, _RULES)}"
        )
    if agents is None:
        raise InvalidInput(f"split={split!r} needs the number of agents: pass agents=10, or a network")
    if not 2 <= agents <= rows:
        raise InvalidInput(f"between 2 and {rows} agents can share {rows} rows, got agents={agents}")
    order = np.arange(rows)
    if split == "random":
        order = np.random.default_rng(seed).permutation(rows)
    elif split == "sorted":
        order = np.argsort(target, kind="stable")
    return [np.sort(part) for part in np.array_split(order, agents)], list(range(agents))
