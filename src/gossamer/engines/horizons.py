"""Numbers of rounds: checked, and grouped so that one pass over the rounds serves as many as possible."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import InvalidInput
from gossamer.methods import Method
from gossamer.methods.table import Table, tabulate
from gossamer.networks import Network


def check_horizons(rounds: int | Sequence[int]) -> NDArray[np.int64]:
    """Return the horizons as an array of whole numbers >= 1."""
    raw = np.atleast_1d(np.asarray(rounds))
    if (
        raw.ndim != 1
        or raw.size == 0
        or not np.issubdtype(raw.dtype, np.number)
        or np.any(raw != np.floor(raw))
    ):
        raise InvalidInput(f"rounds must be a whole number or a list of them, but {rounds!r} came")
    if not np.all(np.isfinite(raw)):
        raise InvalidInput(f"rounds must be finite, but {rounds!r} came")
    if raw.min() < 1:
        raise InvalidInput(f"rounds must be at least 1, but {raw.min()} came")
    return raw.astype(np.int64)


def passes(method: Method, network: Network, horizons: NDArray[np.int64]) -> list[tuple[Table, list[int]]]:
    """Group horizons: a pass over the rounds of one table serves every horizon whose table starts like it."""
    longest = tabulate(method, network, int(horizons.max()))
    if len(horizons) > 2 and serves_all_horizons(longest, method, network):
        return [(longest, list(range(len(horizons))))]
    groups: list[tuple[Table, list[int]]] = []
    for which in np.argsort(-horizons, kind="stable").tolist():
        table = tabulate(method, network, int(horizons[which]))
        for leader, followers in groups:
            if table.starts_like(leader):
                followers.append(which)
                break
        else:
            groups.append((table, [which]))
    return groups


def serves_all_horizons(table: Table, method: Method, network: Network) -> bool:
    """Whether the coefficients do not depend on the horizon, judged by three shorter ones."""
    longest = table.rounds
    some = {1, (longest + 1) // 2, max(1, longest - 1)}
    try:
        return all(tabulate(method, network, t).starts_like(table) for t in some)
    except InvalidInput:  # too few rounds for the method's own parameters, a burn-in say
        return False
