"""`gs.compare`: any number of methods, networks and horizons, in one call that can be stopped and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any

from gossamer import checks
from gossamer.comparison.backends import carry_along, compute
from gossamer.comparison.content import own_modules
from gossamer.comparison.points import ROUNDS, Contender, Point, Row, Setting, limits
from gossamer.comparison.result import Comparison
from gossamer.comparison.store import Store
from gossamer.engines.horizons import Horizons, check_horizons
from gossamer.errors import InvalidInput
from gossamer.faults import Fault, Faults
from gossamer.methods import Method, resolve
from gossamer.networks import ChangingNetwork, Network, network_of
from gossamer.observations import Observations, check_streams
from gossamer.progress import progress_bar

Missing = tuple[int, Point, list[int]]
"""A point that has to be computed: its place in the comparison, itself, and for which horizons."""


def compare(
    methods: Any,
    networks: Any,
    observations: Observations | Callable[[Network], Observations],
    rounds: int | Horizons,
    *,
    trials: int = 0,
    seed: int = 0,
    faults: Faults | Fault | None = None,
    store: str | Path | None = None,
    backend: str = "threads",
    workers: int | None = None,
    address: str | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Compare methods on networks after some numbers of rounds: exact errors, and trials beside them.

    A method that cannot run somewhere has a row with a note and no error. Ctrl-C returns what is finished, marked
    partial.

    Parameters
    ----------
    methods : Method, str, sequence or dict
        One or several methods or their names, or a dictionary from labels to methods.
    networks : Network, NetworkX graph, str, sequence or dict
        One or several networks, or a dictionary from labels to networks.
    observations : Observations or callable
        The streams, or a function that makes them for a network.
    rounds : int or sequence of int
        One horizon, or several.
    trials : int
        How many trials to simulate as well; with `faults`, all there is.
    seed : int
        Of the trials.
    faults : Faults or Fault, optional
        What goes wrong.
    store : path, optional
        A folder that keeps every finished point in a Parquet file, by its content: a second call computes only what is
        missing, and one that was interrupted goes on.
    backend : str
        "threads", "processes" (one per core, or `workers`), or "dask" (the cluster at `address`, or a local one).
    workers : int, optional
        How many.
    address : str, optional
        Of the scheduler of a Dask cluster.
    progress : bool, optional
        A bar with the time left: if standard error is a terminal (None), always (True) or never (False).

    Returns
    -------
    Comparison
        One row per network, method and number of rounds.

    Examples
    --------
    >>> def streams(network):
    ...     return gs.Gaussian(np.arange(network.agents) % 7.0)
    >>> found = gs.compare(["sda", "anytime-sda"], ["path:10", "grid:4x4"], streams, rounds=[100, 1000])
    >>> [round(value, 2) for value in found.column("over_limit")]
    [3.47, 2.15, 1.08, 1.01, 3.73, 2.17, 1.05, 1.0]
    """
    points = _points(methods, networks, observations, trials, seed, faults)
    horizons = list(dict.fromkeys(check_horizons(rounds).tolist()))
    if not isinstance(store, str | Path | None):
        raise InvalidInput(f"store must be a folder, got {store!r}")
    kept = None if store is None else Store(Path(store))
    found: list[dict[int, Row]] = []
    missing: list[Missing] = []
    for place, point in enumerate(points):
        found.append({row[ROUNDS]: row for row in kept.read(point.key)} if kept else {})
        ahead = [t for t in horizons if t not in found[place]]
        if ahead:
            missing.append((place, point, ahead))
    if backend != "threads":
        travel = {id(each): each for p in points for each in (p.method, p.setting.observations)}
        carry_along(module for each in travel.values() for module in own_modules(each).values())
    partial = False
    outcomes = compute(evaluate, missing, backend=backend, workers=workers, address=address)
    with progress_bar(progress, "comparing", len(missing)) as advance:
        try:
            for outcome in outcomes if missing else ():
                for place, rows in outcome:
                    found[place] |= {row[ROUNDS]: row for row in rows}
                    if kept:
                        kept.write(points[place].key, list(found[place].values()))
                    advance(1)
        except KeyboardInterrupt:
            partial = True
            if not any(found):
                raise
    return Comparison(
        [
            point.named(mine[t])
            for point, mine in zip(points, found, strict=True)
            for t in horizons
            if t in mine
        ],
        partial,
    )


def evaluate(batch: Sequence[Missing]) -> list[tuple[int, list[Row]]]:
    """The rows of several points; neighbors on one network share what they are measured by."""
    found = []
    for _, group in groupby(batch, key=lambda each: (id(each[1].setting), each[2])):
        some = list(group)
        _, first, horizons = some[0]
        shared = limits(first.setting.network, first.setting.observations, horizons)
        found += [(place, point.rows(horizons, shared)) for place, point, _ in some]
    return found


def _points(
    methods: Any, networks: Any, observations: Any, trials: int, seed: int, faults: Faults | Fault | None
) -> list[Point]:
    trials = checks.whole_number("trials", trials, least=0)
    seed = checks.seed(seed)
    if faults is not None:
        faults = faults if isinstance(faults, Faults) else Faults(faults)
        if not trials:
            raise InvalidInput("with faults there is no exact error, so trials must be at least 1, got 0")
    chosen = _named(methods, Method, resolve, lambda method: method.label)
    contenders = [Contender(label, method) for label, method in chosen.items()]
    points = []
    kinds = Network | ChangingNetwork
    for name, network in _named(networks, kinds, network_of, lambda network: network.name).items():
        streams = observations(network) if callable(observations) else observations
        check_streams(network.agents, streams)
        setting = Setting(name, network, streams, trials, seed, faults)
        points += [Point(setting, contender) for contender in contenders]
    return points


def _named(given: Any, kind: Any, make: Callable[[Any], Any], name: Callable[[Any], str]) -> dict[str, Any]:
    """What was given, by name: of a dictionary its keys, else each one's own name, numbered where it occurs twice."""
    if isinstance(given, Mapping):
        pairs = [(str(key), make(value)) for key, value in given.items()]
    else:
        one = not isinstance(given, Iterable) or isinstance(given, kind | str) or hasattr(given, "edges")
        made = map(make, [given] if one else given)
        pairs = [(name(each), each) for each in made]
    found: dict[str, Any] = {}
    for label, each in pairs:
        again = (f"{label} ({number})" for number in count(2))
        found[label if label not in found else next(new for new in again if new not in found)] = each
    if not found:
        raise InvalidInput("a comparison needs at least one method and one network, got none")
    return found
