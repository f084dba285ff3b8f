"""From columns to covariates: numbers, categories and formulas, missing values, and labels of any kind.

The levels of a category, the replacements of missing values and the classes depend on all rows, so agents agree on them
over the network, by forwarding or by averaging, before the fit begins. The result is a `Design`, which turns new rows
into the same covariates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.linear.dealing import DataTable
from gossamer.arrays import AnyArray, Booleans, Floats
from gossamer.errors import InvalidInput, Unsupported, require

LARGEST = 1e100
"""Covariates must be smaller than this, so that sums of their squares are finite."""


class Column(NamedTuple):
    """A column of the data. With levels it is a category, and every level in `shown` has an indicator."""

    name: str
    levels: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    def values(self, numbers: bool) -> list[Any]:
        """Return the levels, as numbers if the column holds numbers."""
        return [float(level) for level in self.levels] if numbers else list(self.levels)

    @property
    def covariates(self) -> list[str]:
        return [f"{self.name}={level}" for level in self.shown] if self.levels else [self.name]


def parsed(name: str, column: object) -> tuple[Floats, None] | tuple[None, AnyArray]:
    """Return a column as numbers (NaN where missing), or as text (empty where missing)."""
    array = np.asarray(column)
    category = str(getattr(column, "dtype", "")) == "category"  # a categorical column of pandas
    if array.dtype.kind in "iuf" and not category:
        values = np.asarray(array, dtype=float)
        if np.isinf(values).any():
            raise InvalidInput(
                f"column {name!r} must be finite, but {int(np.isinf(values).sum())} values are infinite"
            )
        return values, None
    if array.dtype.kind in "Mm":
        raise InvalidInput(
            f"column {name!r} must hold numbers, got {'dates' if array.dtype.kind == 'M' else 'durations'}, whose unit "
            "is not known; convert it to a number first, for example to days since a start"
        )
    if array.dtype.kind == "c":
        raise InvalidInput(f"column {name!r} must hold real numbers, got complex ones")
    if array.dtype.kind == "b":
        return array.astype(float), None
    absent = missing(array)
    text = np.where(absent, "", array).astype(str)
    if category:
        return None, text
    try:
        numbers = np.full(array.shape, np.nan)
        numbers[~absent] = text[~absent].astype(float)
    except ValueError:
        return None, text
    return numbers, None


def as_text(name: str, table: DataTable) -> AnyArray:
    """Return the values of a category as text, empty where missing; numbers are written as given."""
    numbers, text = parsed(name, table[name])
    if numbers is None:
        return np.asarray(text)
    return np.where(np.isnan(numbers), "", np.asarray(table[name]).astype(str))


def missing(column: AnyArray) -> Booleans:
    """Return which values of a column of objects or strings are missing: None, NaN and empty text."""
    if column.dtype.kind in "US":
        return np.asarray(column == column.dtype.type(""))
    return np.array([value is None or value != value or value == "" for value in column.tolist()], dtype=bool)


@dataclass(frozen=True, eq=False)
class Design:
    """How the columns of data become covariates.

    names      the names of the covariates, without the intercept
    columns    the columns that they are computed from; empty with a formula
    formula    formulaic's specification, if there is one
    used       the columns that it uses
    factors    the columns of the formula that are categories, with their levels
    fills      (d,) replacements of missing covariates, or None
    classes    the labels of the classes 0, 1, ..., or None if labels are numbers
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...] = ()
    formula: Any = None
    used: tuple[str, ...] = ()
    factors: tuple[Column, ...] = ()
    fills: Floats | None = None
    classes: tuple[Any, ...] | None = None

    @property
    def plain(self) -> bool:
        """Return whether the covariates are the columns themselves."""
        return self.formula is None and self.fills is None and not any(c.levels for c in self.columns)

    def covariates(self, table: DataTable, rows: Any = slice(None)) -> Floats:
        """Return the (n, d) covariates of some rows, NaN where missing."""
        if self.formula is not None:
            return self._by_formula(table, rows)
        if table.array is not None:
            if table.array.shape[1] != len(self.names):
                raise InvalidInput(
                    f"needs {len(self.names)} columns, got {table.array.shape[1]}", parameter="X"
                )
            return np.asarray(table.array[rows])
        return np.column_stack([self._column(table, column, rows) for column in self.columns])

    def __call__(self, X: Any) -> Floats:
        """Return the covariates of new rows; missing values are an error unless means replace them."""
        x = self.covariates(DataTable(X))
        if self.fills is not None:
            return np.where(np.isnan(x), self.fills, x)
        refuse_missing(x, self.names)
        return x

    def _column(self, table: DataTable, column: Column, rows: Any) -> Floats:
        if column.levels:
            return _indicators(column, as_text(column.name, table)[rows])
        numbers, _ = parsed(column.name, table[column.name])
        if numbers is None:
            raise InvalidInput(
                f"column {column.name!r} must hold numbers, got {checks.brief(table[column.name])}"
            )
        return np.asarray(numbers[rows])[:, None]

    def _by_formula(self, table: DataTable, rows: Any) -> Floats:
        levels = {column.name: column for column in self.factors}
        data, absent = {}, np.zeros(table.rows, dtype=bool)[rows]
        for name in self.used:
            numbers, text = parsed(name, table[name])
            data[name] = np.asarray(numbers if text is None else text)[rows]
            if name in levels:
                values = as_text(name, table)[rows]
                _indicators(levels[name], values)  # refuses a level that no agent had
                absent |= values == ""
                first = levels[name].values(text is None)[0]
                data[name] = np.where(values == "", first, data[name])
        frame = require("pandas", "data").DataFrame(data)
        terms = self.formula.get_model_matrix(frame, na_action="ignore")
        matrix = np.array(terms.drop(columns=["Intercept"], errors="ignore"), dtype=float)
        matrix[absent] = np.nan
        return matrix


def _indicators(column: Column, values: AnyArray) -> Floats:
    """Return (n, shown) indicators of the level of each value; NaN where it is missing."""
    absent = values == ""
    unknown = sorted(set(values[~absent].tolist()) - set(column.levels))
    if unknown:
        raise InvalidInput(
            f"column {column.name!r} has the levels {', '.join(column.levels)}, got {unknown[0]!r}; "
            "leave out rows of other levels"
        )
    indicators = np.asarray(values[:, None] == np.array(column.shown), dtype=float)
    indicators[absent] = np.nan
    return indicators


def refuse_missing(x: Floats, names: Sequence[str], largest: float = LARGEST) -> None:
    """Raise an error if values are missing, infinite or too large."""
    if not x.size or -largest < x.min() <= x.max() < largest:  # false for NaN
        return
    infinite, absent = np.isinf(x).sum(axis=0), np.isnan(x).sum(axis=0)
    if infinite.any():
        k = int(np.argmax(infinite > 0))
        raise InvalidInput(
            f"column {names[k]!r} must be finite, but {int(infinite[k])} of {len(x)} values are infinite"
        )
    if absent.any():
        k = int(np.argmax(absent > 0))
        raise InvalidInput(
            f"column {names[k]!r} must be finite, but {int(absent[k])} of {len(x)} values are missing; drop these rows "
            "(missing='drop') or put in the mean over the network (missing='mean')"
        )
    k = int(np.argmax(np.abs(x).max(axis=0) >= largest))
    raise InvalidInput(
        f"column {names[k]!r} must be below {largest:g} in size, got {np.abs(x[:, k]).max():g}; choose another unit"
    )


def _levels(name: str, table: DataTable, groups: Sequence[Any], exchange: Consensus) -> tuple[str, ...]:
    """Return all levels of a category, which agents forward until all of them know them."""
    values = as_text(name, table)
    levels = exchange.union([set(values[group].tolist()) - {""} for group in groups])
    numbers = parsed(name, table[name])[1] is None
    return tuple(sorted(levels, key=float) if numbers else levels)


def agree(table: DataTable, groups: Sequence[object], exchange: Consensus, intercept: bool) -> Design:
    """Return the design of all columns: numbers as they are, and an indicator for each level of a category.

    The first level of a category has no indicator, because the intercept represents it; without an intercept the first
    category has indicators for all of its levels.
    """
    if table.array is not None:
        return Design(tuple(table), tuple(Column(name) for name in table))
    columns, whole = [], not intercept
    for name in table:
        if parsed(name, table[name])[1] is None:
            columns.append(Column(name))
            continue
        levels = _levels(name, table, groups, exchange)
        columns.append(Column(name, levels, levels if whole else levels[1:]))
        whole = False
        if len(levels) < 2:
            raise InvalidInput(
                f"the category {name!r} needs at least 2 levels, got {', '.join(levels) or 'none'}; drop the column"
            )
    return Design(tuple(name for column in columns for name in column.covariates), tuple(columns))


def agree_on_formula(
    text: str, table: DataTable, groups: Sequence[object], exchange: Consensus
) -> tuple[Design, bool]:
    """Return the design of the right side of a formula, and whether it has an intercept."""
    formulaic = require("formulaic", "formula")
    try:
        formula = formulaic.Formula(text)
        # formulaic misses some variables, such as the one in center(x).
        words = set(re.findall(r"[^\W\d]\w*", text)) & set(table)
        used = sorted(words | set(formula.required_variables))
    except Exception as error:
        reason = str(error).partition("\n")[0]  # the other lines mark the position with terminal colors
        raise InvalidInput(f"{text!r} cannot be read as a formula: {reason}") from error
    marked = set(re.findall(r"\bC\(\s*([\w.]+)", text))
    factors = []
    for name in used:
        if name in marked or parsed(name, table[name])[1] is not None:
            levels = _levels(name, table, groups, exchange)
            factors.append(Column(name, levels, levels))
    # formulaic sees only a made-up table with every level, not the agents' rows.
    length = max([2, *(len(column.levels) for column in factors)])
    made: dict[str, Any] = {name: np.arange(1.0, 1 + length) for name in used}
    for column in factors:
        values = column.values(parsed(column.name, table[column.name])[1] is None)
        made[column.name] = [values[k % len(values)] for k in range(length)]
    spec = formula.get_model_matrix(require("pandas", "data").DataFrame(made)).model_spec
    if spec.transform_state:
        raise Unsupported(
            f"{next(iter(spec.transform_state))} in a formula depends on all rows, which no agent has; use functions "
            "of single rows, and standardize=True for scales"
        )
    names = [str(name) for name in spec.column_names]
    covariates = tuple(name for name in names if name != "Intercept")
    if not covariates:
        raise InvalidInput(f"the formula {text!r} has no covariates; at least one is needed")
    return (
        Design(
            covariates,
            formula=spec,
            used=tuple(used),
            factors=tuple(factors),
        ),
        "Intercept" in names,
    )
