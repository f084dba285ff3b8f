"""`gs.compare`: any number of methods, networks and horizons, in one call that can be interrupted and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, groupby
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, TypeAlias, TypeVar
from warnings import warn

from gossamer import checks
from gossamer.comparison.backends import carry_along, compute
from gossamer.comparison.content import own_modules
from gossamer.comparison.points import COLUMNS, ROUNDS, Contender, Label, Point, Row, Setting, limits
from gossamer.comparison.result import Comparison
from gossamer.comparison.store import Store
from gossamer.comparison.values import Digests, Facts
from gossamer.engines.horizons import Horizons, check_horizons
from gossamer.errors import InvalidInput
from gossamer.faults import Faults, FaultsLike
from gossamer.methods import Method, resolve
from gossamer.networks import AnyNetwork, DirectedNetwork, Graph, NetworkLike, network_of
from gossamer.observations import Observations, check_streams
from gossamer.progress import progress_bar

Item = TypeVar("Item")
Value = TypeVar("Value")

Several: TypeAlias = Iterable[Item] | Mapping[Label, Item]
"""Several values, each under its own name or under that of the key."""

MethodLike = Method | str
AnyNetworkLike = AnyNetwork | NetworkLike
Streams = Observations | Callable[[Any], Observations]
"""Observations, or a function of the network that returns them."""


class Missing(NamedTuple):
    """A point that has to be computed: its position in the comparison, and its horizons.

    The trials of `kept` rows are not simulated again. Their exact errors are recomputed, so that an extended comparison
    equals one that is computed at once: how an error is rounded depends on the horizons that share a pass.
    """

    position: int
    point: Point
    horizons: list[int]
    kept: dict[int, Row]
    facts: Facts


class Outcome(NamedTuple):
    """The result of a task: its rows and their origins."""

    position: int
    rows: list[Row]
    values: Digests
    facts: Facts


class Origin(NamedTuple):
    """The origin of a row: a digest of the values that it was computed from, and the horizons computed with it.

    The last digits of an exact error depend on the horizons that were computed with it.
    """

    values: str
    together: str


@dataclass(frozen=True)
class Kept:
    """The rows of a point by number of rounds, their origins, and the known facts of the network's spectrum."""

    rows: dict[int, Row] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)

    @classmethod
    def read(cls, store: Store, key: str) -> Kept:
        """Return the stored results of a point."""
        stored = store.read(key)
        if stored is None:
            return cls()
        origins = {int(t): Origin(*values) for t, values in stored.metadata["rows"].items()}
        return cls({row[ROUNDS]: row for row in stored.rows}, origins, stored.metadata["facts"])

    def write(self, store: Store, key: str) -> None:
        store.write(key, list(self.rows.values()), {"rows": self.origins, "facts": self.facts})


def compare(
    methods: MethodLike | Several[MethodLike],
    networks: AnyNetworkLike | Several[AnyNetworkLike],
    observations: Streams | Mapping[Label, Streams],
    rounds: int | Horizons,
    *,
    trials: int = 0,
    seed: int = 0,
    faults: FaultsLike = None,
    store: str | Path | None = None,
    backend: str = "threads",
    workers: int | None = None,
    address: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compare methods on networks after some numbers of rounds, by exact errors and optionally by trials.

    A method that cannot run on a network has a row with a note and no error. Ctrl-C returns the finished points, marked
    partial.

    Parameters
    ----------
    methods : Method, str, sequence or dict
        One or several methods or their names, or a dictionary from labels to methods. Labels that are numbers, such as
        the values of a parameter, stay numbers in the column "method".
    networks : Network, DirectedNetwork, ChangingNetwork, NetworkX graph, str, sequence or dict
        One or several networks, or a dictionary from labels to networks. On directed networks only push-sum runs.
    observations : Observations, callable or dict
        The streams, or a function of the network that returns them; or a dictionary from labels to either, such as
        levels of noise, for the column "streams".
    rounds : int or sequence of int
        Number of rounds T after which to report the error, or several such numbers.
    trials : int
        Number of trials to simulate in addition to exact errors; with `faults` there are only trials.
    seed : int
        Seed of the random numbers of the trials, at least 0.
    faults : Faults, Fault or list of Fault, optional
        Faults that occur in every trial, for example `gs.faults.Loss(0.3)`.
    store : path, optional
        A folder that keeps every finished point in a Parquet file, by its content: a second call computes only what is
        missing, and an interrupted one resumes. A damaged file is detected by its digest and recomputed, with a
        warning.
    backend : str
        Where to compute: "threads", "processes" (one per core, or `workers`), or "dask" (the cluster at `address`,
        or a local one).
    workers : int, optional
        Number of threads or processes; by default one per core.
    address : str, optional
        Address of the scheduler of a Dask cluster, such as ``"tcp://10.0.0.1:8786"``.
    progress : bool, optional
        Whether to show a progress bar: if standard error is a terminal (None), always (True) or never (False).

    Returns
    -------
    Comparison
        One row per network, streams, method and number of rounds.

    See Also
    --------
    exact : The expected error of one method.
    plan : The rounds needed for a target error.
    tune : Parameters that minimize the error.

    Examples
    --------
    >>> def streams(network):
    ...     return gs.Gaussian(np.arange(network.agents) % 7.0)
    >>> comparison = gs.compare(["sda", "anytime-sda"], ["path:10", "grid:4x4"], streams, rounds=[100, 1000])
    >>> [round(value, 2) for value in comparison.column("over_limit")]
    [3.47, 2.15, 1.08, 1.01, 3.73, 2.17, 1.05, 1.0]
    """
    points = _points(methods, networks, observations, trials, seed, faults)
    horizons = list(dict.fromkeys(check_horizons(rounds).tolist()))
    if not isinstance(store, str | Path | None):
        raise InvalidInput(parameter="store", required="a folder", got=repr(store))
    kept = None if store is None else Store(Path(store), COLUMNS)
    results: list[Kept] = []
    missing: list[Missing] = []
    for index, point in enumerate(points):
        results.append(_current(point, Kept.read(kept, point.key), horizons) if kept else Kept())
        if any(t not in results[index].rows for t in horizons):
            missing.append(
                Missing(index, point, horizons, _reusable(results[index], horizons), results[index].facts)
            )
    if kept and kept.damaged:
        names = ", ".join(f"{key}.parquet" for key in kept.damaged)
        warn(f"damaged files in {store} are ignored, and their points computed again: {names}", stacklevel=2)
    if backend != "threads":
        travel = {id(one): one for p in points for one in (p.method, p.setting.observations)}
        carry_along(module for one in travel.values() for module in own_modules(one).values())
    partial = False
    outcomes = compute(evaluate, missing, backend=backend, workers=workers, address=address)
    with closing(outcomes), progress_bar(progress, "comparing", len(missing)) as advance:
        try:
            for batch in outcomes:
                for outcome in batch:
                    _add(results[outcome.position], outcome, horizons)
                    if kept:
                        results[outcome.position].write(kept, points[outcome.position].key)
                    advance(1)
        except KeyboardInterrupt:
            partial = True
            if not any(one.rows for one in results):
                raise
    rows = [
        point.named(mine.rows[t])
        for point, mine in zip(points, results, strict=True)
        for t in horizons
        if t in mine.rows
    ]
    return Comparison(rows, partial, _remarks(results, horizons))


def evaluate(batch: Sequence[Missing]) -> list[Outcome]:
    """Return the rows of several points; consecutive points on one network share their limits."""
    outcomes = []
    for _, group in groupby(batch, key=lambda piece: (id(piece.point.setting), piece.horizons)):
        some = list(group)
        on = some[0].point.setting
        shared = limits(on.network, on.observations, some[0].horizons)
        for missing in some:
            rows = missing.point.rows(missing.horizons, shared, missing.kept)
            values = missing.point.values(missing.horizons, missing.facts)
            outcomes.append(Outcome(missing.position, rows, *values))
    return outcomes


def _together(horizons: Sequence[int]) -> str:
    return " ".join(map(str, sorted(horizons)))


def _current(point: Point, kept: Kept, horizons: Sequence[int]) -> Kept:
    """Return the kept rows, without requested rows that were computed from values that have changed."""
    wanted = [t for t in horizons if t in kept.rows]
    if not wanted:
        return kept
    now, facts = point.values(wanted, kept.facts)
    fresh = [t for t in kept.rows if t not in now or kept.origins[t].values == now[t]]
    return Kept({t: kept.rows[t] for t in fresh}, {t: kept.origins[t] for t in fresh}, facts)


def _reusable(kept: Kept, horizons: Sequence[int]) -> dict[int, Row]:
    """Return the requested rows whose trials are known."""
    simulated = list(COLUMNS).index("simulated_error")
    return {t: row for t in horizons if (row := kept.rows.get(t)) is not None and row[simulated] is not None}


def _add(kept: Kept, outcome: Outcome, horizons: Sequence[int]) -> None:
    together = _together(horizons)
    for row in outcome.rows:
        kept.rows[row[ROUNDS]] = row
        kept.origins[row[ROUNDS]] = Origin(outcome.values[row[ROUNDS]], together)
    kept.facts.update(outcome.facts)


def _remarks(results: Sequence[Kept], horizons: Sequence[int]) -> list[str]:
    """Return remarks on rows from a store, in addition to their own notes."""
    together, exact = _together(horizons), list(COLUMNS).index("bias")
    others = {
        kept.origins[t].together
        for kept in results
        for t in horizons
        if t in kept.rows and kept.rows[t][exact] is not None
    } - {together}
    if not others:
        return []
    return [
        "some exact errors were stored when they were computed together with other numbers of rounds "
        f"({'; '.join(sorted(others))}), so their last digits may differ from those of a fresh comparison"
    ]


def _points(
    methods: MethodLike | Several[MethodLike],
    networks: AnyNetworkLike | Several[AnyNetworkLike],
    observations: Streams | Mapping[Label, Streams],
    trials: int,
    seed: int,
    faults: FaultsLike,
) -> list[Point]:
    trials = checks.whole_number("trials", trials, least=0)
    seed = checks.seed(seed)
    if faults is not None:
        faults = Faults.of(faults)
        if not trials:
            raise InvalidInput("with faults there is no exact error, so trials must be at least 1, got 0")
    chosen = _named(methods, Method, resolve, lambda method: method.label)
    contenders = [Contender(label, method) for label, method in chosen.items()]
    points = []
    several: list[tuple[Label | None, Streams]] = (
        [*_labels(observations.items()).items()]
        if isinstance(observations, Mapping)
        else [(None, observations)]
    )
    for name, network in _named(networks, AnyNetwork, _network, lambda network: network.name).items():
        for label, given in several:
            streams = given(network) if callable(given) else given
            check_streams(network.agents, streams)
            kind = type(streams).__name__ if label is None else label
            setting = Setting(name, network, kind, streams, trials, seed, faults)
            points += [Point(setting, contender) for contender in contenders]
    return points


def _network(value: AnyNetworkLike) -> AnyNetwork:
    if isinstance(value, Graph) and value.is_directed():
        return DirectedNetwork.from_networkx(value)
    return value if isinstance(value, DirectedNetwork) else network_of(value)


def _named(
    given: object, kind: type | UnionType, make: Callable[[Any], Value], name: Callable[[Value], str]
) -> dict[Label, Value]:
    """Return the given values by name: the keys of a dictionary, or the name of each value."""
    if isinstance(given, Mapping):
        return _labels((key, make(value)) for key, value in given.items())
    one = isinstance(given, (kind, str)) or hasattr(given, "edges")
    values = map(make, given if isinstance(given, Iterable) and not one else [given])
    return _labels((name(value), value) for value in values)


def _labels(pairs: Iterable[tuple[Label, Value]]) -> dict[Label, Value]:
    """Return values by label, numbered if a label occurs twice; numeric labels stay numbers if all labels are
    numeric."""
    pairs = list(pairs)
    numbers = all(isinstance(label, int | float) for label, _ in pairs)
    by_label: dict[Label, Value] = {}
    for label, value in ((label if numbers else str(label), value) for label, value in pairs):
        again = (f"{label} ({number})" for number in count(2))
        by_label[label if label not in by_label else next(new for new in again if new not in by_label)] = (
            value
        )
    if not by_label:
        raise InvalidInput(
            "a comparison needs at least one method, one network and one kind of streams, got none"
        )
    return by_label
