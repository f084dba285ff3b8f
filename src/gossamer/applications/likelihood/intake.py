"""From the user's rows to the rows of agents: their distribution, the facts that agents agree on, and the model to fit.

Everything that depends on all rows is agreed on over the network: levels and classes by forwarding, means, scales and
the weights of classes by averaging. Its rounds and bytes are part of the cost of the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.consensus import Consensus
from gossamer.applications.likelihood.design import (
    LARGEST,
    Design,
    agree,
    agree_on_formula,
    parsed,
    refuse_missing,
)
from gossamer.applications.likelihood.rows import AgentRows
from gossamer.applications.linear.dealing import DataTable, groups_of, one_per_row, take, take_split
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.families import STORED, Family, Softmax, family_of, numbered, with_classes
from gossamer.networks import Network, NetworkLike

MISSING = ("refuse", "drop", "mean")
"""What to do with missing values: refuse them, drop their rows, or replace them by the mean over the network."""

_ACCURACY = 1e-12
"""Factor by which averaging shrinks the differences between agents here."""


@dataclass(frozen=True)
class IntakeOptions:
    """The options for rows besides X and y; see `LikelihoodEstimation.from_data`."""

    sample_weight: object = None
    offset: object = None
    exposure: object = None
    class_weight: object = None
    missing: str = "refuse"
    standardize: bool = False
    classes: object = None


class TakenRows(NamedTuple):
    """The rows of all agents, and what they agreed on.

    scales  (d,) by which covariates are divided in the penalty
    sites   the names of the agents
    spent   the rounds and bytes needed to agree
    note    a remark for the user
    """

    network: Network
    family: Family
    design: Design
    intercept: bool
    data: list[AgentRows]
    scales: Floats
    sites: list[object]
    spent: tuple[int, int]
    note: str


def take_rows(
    X: object,
    y: object,
    agents: int | NetworkLike | None,
    split: object,
    seed: int,
    family: Family | str,
    intercept: bool,
    options: IntakeOptions,
) -> TakenRows:
    """Distribute rows over agents, which agree on their meaning."""
    table, formula = DataTable(X), None
    if isinstance(y, str) and "~" in y:
        y, formula = (part.strip() for part in y.split("~", 1))
    target = one_per_row("y", take(table, y), table.rows)
    extras = [_extra(name, getattr(options, name), table) for name in ("sample_weight", "offset", "exposure")]
    split = take_split(table, split)
    network, members = None, None  # type: Network | None, list[Any] | None
    if isinstance(agents, int | np.integer):
        members = list(range(checks.whole_number("agents", agents, least=2)))
    elif agents is not None:
        network = Network.of(agents)
        members = network.labels
    groups, sites = groups_of(split, target, None if members is None else len(members), seed, members)
    network = Network.erdos_renyi(len(groups)) if network is None else network
    exchange = Consensus(network)
    if not list(table):
        raise InvalidInput("no feature columns are left; at least one is needed")
    if formula is None:
        design = agree(table, groups, exchange, intercept)
    else:
        design, intercept = agree_on_formula(formula, table, groups, exchange)
    family, labels, classes = _labels(family, target, groups, exchange, options.classes)
    design = replace(design, classes=classes)
    data = [
        _held(design.covariates(table, group), labels[group], *(e if e is None else e[group] for e in extras))
        for group in groups
    ]
    design, data, dropped = _filled(
        design, data, checks.choice("missing", options.missing, MISSING), exchange
    )
    if options.class_weight is not None:
        data = _by_class(
            data, options.class_weight, classes or range(family.outputs + (family.outputs == 1)), exchange
        )
    scales = _scales(data, exchange) if options.standardize else np.ones(len(design.names))
    note = f"{dropped} rows with missing values dropped" if dropped else ""
    return TakenRows(
        network, family, design, intercept, data, scales, sites, (exchange.rounds, exchange.bytes), note
    )


def _extra(name: str, value: object, table: DataTable) -> Floats | None:
    """Return weights, offsets or exposures, given as one number per row or as the name of a column."""
    if value is None:
        return None
    column = checks.array(name, one_per_row(name, take(table, value), table.rows))
    least = {"sample_weight": 0.0, "exposure": np.nextafter(0.0, 1.0)}.get(name, -LARGEST)
    outside = column[(column < least) | (column > LARGEST)]
    if outside.size:
        words = {"sample_weight": "at least 0", "exposure": "above 0"}.get(name, f"at least {least:g}")
        raise InvalidInput(
            parameter=name, required=f"{words} and at most {LARGEST:g}", got=f"{float(outside[0]):g}"
        )
    return column


def _held(
    x: Floats, y: Floats, weights: Floats | None, offset: Floats | None, exposure: Floats | None
) -> AgentRows:
    """Return one agent's rows; the logarithm of an exposure is an offset, and rows of weight 0 are left out."""
    if exposure is not None:
        offset = np.log(exposure) + (0.0 if offset is None else offset)
    rows = AgentRows(x, y, weights, offset)
    return rows if weights is None or np.all(weights > 0) else rows.where(weights > 0)


def _labels(
    family: Family | str, target: Any, groups: Sequence[Any], exchange: Consensus, given: object
) -> tuple[Family, Floats, tuple[Any, ...] | None]:
    """Return the family, the labels as numbers, and the names of the classes (None if they are numbers).

    Text becomes the number of its class in sorted order, unless `given` lists the classes in another order.
    """
    if given is not None:
        built, named = with_classes(family, given, symmetric=True)
        labels = numbered(target, named)
        _check_classes(built, labels, named)
        return built, labels, named
    several = isinstance(family, str) and family == "softmax"
    known = None if several else family_of(family, STORED)
    numbers, text = parsed("y", target)
    if text is not None and (several or (known is not None and known.categorical)):
        classes = exchange.union([set(text[group].tolist()) - {""} for group in groups])
        size = len(classes) if known is None else known.class_count
        if len(classes) != size or size < 2:
            raise InvalidInput(
                f"the family {'softmax' if known is None else known.name} needs labels of {max(size, 2)} classes, got "
                f"{len(classes)}: {checks.brief(classes)}"
            )
        return known or Softmax(size, symmetric=True), numbered(text, classes), tuple(classes)
    if numbers is None:
        raise InvalidInput(
            f"must hold numbers, got {checks.brief(target)}; encode it as numbers", parameter="y"
        )
    if several:
        return classes_of(numbers[~np.isnan(numbers)]), numbers, None
    assert known is not None
    return known, *known.recoded(numbers)


def classes_of(y: Floats) -> Softmax:
    """Return softmax with as many classes as there are labels."""
    family = Softmax(max(2, int(y.max()) + 1), symmetric=True)
    _check_classes(family, family.check_labels(y), range(family.classes))
    return family


def _check_classes(family: Family, y: Floats, classes: Sequence[object]) -> None:
    missing = np.setdiff1d(np.arange(family.class_count), y)
    if missing.size and family.outputs > 1:
        listed = f"0 to {len(classes) - 1}" if isinstance(classes, range) else ", ".join(map(str, classes))
        raise InvalidInput(
            f"softmax needs rows for each of the classes {listed}, got none of class {classes[int(missing[0])]} "
            "(without one its intercept has no finite estimate); number the labels from 0 on, without gaps, or list "
            "the classes that have rows, as in classes=['a', 'b']"
        )


def _filled(
    design: Design, data: Sequence[AgentRows], policy: str, exchange: Consensus
) -> tuple[Design, list[AgentRows], int]:
    """Treat missing values, and return the design, the rows and the number of dropped rows."""
    dropped, kept = 0, list(data)
    if policy != "refuse":
        for i, rows in enumerate(data):
            absent = np.isnan(rows.y) | (policy == "drop" and np.isnan(rows.x).any(axis=1))
            dropped += int(absent.sum())
            kept[i] = rows.where(~absent) if absent.any() else rows
    if policy == "mean":
        present = [~np.isnan(rows.x) for rows in kept]
        sums = [
            np.append(rows.weighted(known.T).sum(axis=1), rows.weighted(np.nan_to_num(rows.x).T).sum(axis=1))
            for rows, known in zip(kept, present, strict=True)
        ]
        held = exchange.average(np.stack(sums), _ACCURACY)
        empty = np.flatnonzero(held[0, : len(design.names)] <= 0)
        if empty.size:
            raise InvalidInput(f"column {design.names[empty[0]]!r} has no values at all; drop the column")
        means = held[:, len(design.names) :] / held[:, : len(design.names)]
        design = replace(design, fills=means[0])
        kept = [
            rows._replace(x=np.where(known, rows.x, mean))
            for rows, known, mean in zip(kept, present, means, strict=True)
        ]
    if not any(len(rows.y) for rows in kept):
        raise InvalidInput(f"no rows are left: {dropped or 'all'} have missing values or weight 0")
    for rows in kept:
        refuse_missing(rows.x, design.names)
        refuse_missing(rows.y[:, None], ["y"], np.inf)
    return design, kept, dropped


def _by_class(
    data: Sequence[AgentRows], weights: object, classes: Sequence[object], exchange: Consensus
) -> list[AgentRows]:
    """Weight rows by their class: "balanced" gives all classes the same total; or a weight for each label."""
    if isinstance(weights, str) and weights == "balanced":
        counts = np.array([[rows.weighted(rows.y == k).sum() for k in range(len(classes))] for rows in data])
        held = np.maximum(exchange.average(counts.astype(float), _ACCURACY), 1e-300)
        factors = held.sum(axis=1, keepdims=True) / (len(classes) * held)
    elif isinstance(weights, Mapping):
        unknown = [label for label in weights if label not in classes]
        if unknown:
            raise InvalidInput(
                f"must name labels ({', '.join(map(str, classes))}), got {unknown[0]!r}",
                parameter="class_weight",
            )
        given = [checks.number("class_weight", weights.get(label, 1.0), above=0) for label in classes]
        factors = np.tile(given, (len(data), 1))
    else:
        raise InvalidInput(
            parameter="class_weight", required="'balanced' or a dictionary", got=checks.brief(weights)
        )
    return [
        rows._replace(weights=rows.weighted(factor[rows.y.astype(int)]))
        for rows, factor in zip(data, factors, strict=True)
    ]


def _scales(data: Sequence[AgentRows], exchange: Consensus) -> Floats:
    """Return (d,) the standard deviation of every covariate over the network."""

    def averaged(of: Callable[[Floats], Floats]) -> Floats:
        sums = [np.append(rows.total, rows.weighted(of(rows.x).T).sum(axis=1)) for rows in data]
        held = exchange.average(np.stack(sums), _ACCURACY)
        return np.asarray(held[0, 1:] / held[0, 0])

    mean = averaged(lambda x: x)
    spreads = np.sqrt(averaged(lambda x: (x - mean) ** 2))
    return np.where(spreads > 0, spreads, 1.0)
