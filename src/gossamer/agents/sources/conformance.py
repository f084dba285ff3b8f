"""The conformance check of sources: what every implementation must do."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing

from gossamer.agents.sources.kinds import AnySource, LiveSource, PacedSource
from gossamer.agents.statistics.readings import LARGEST_OBSERVATION

_PATIENCE = 20.0
_SLACK = 5.0

Rows = Sequence[Sequence[float]]


def check_source(make: Callable[[], AnySource], expected: Rows) -> None:
    """Check that sources give the `expected` observations, and after a restart the rest of them, each once.

    Parameters
    ----------
    make : callable
        Function without arguments that opens the source from its beginning.
    expected : sequence of array_like
        The observations that it must give, in this order, each of shape (n,).

    See Also
    --------
    check_sink : The same for sinks.
    PacedSource : Contract of a source that is read once per round.
    LiveSource : Contract of a source that delivers at its own pace.

    Examples
    --------
    >>> class Ramp(gs.agents.PacedSource):
    ...     def raw(self):
    ...         yield from ("1", "2", "3")
    >>> gs.agents.check_source(lambda: Ramp(1), [[1], [2], [3]])
    """
    source = make()
    assert isinstance(source, PacedSource | LiveSource), (
        f"a source must be a PacedSource or a LiveSource, got {type(source).__name__}"
    )
    values, _ = _read(source, b"", 0, len(expected), store=False)  # a crash: all of it comes again
    assert values == list(map(list, expected)), f"the observations must be {expected}, got {values}"
    assert source.bad == 0, f"no item may be refused, got {source.last_problem!r}"
    half = len(expected) // 2
    first = make()
    _, kept = _read(first, b"", 0, half)
    if not (first.replays or kept):
        return  # nothing is read twice, but observations may be lost
    rest, _ = _read(make(), kept, half, len(expected) - half)
    assert rest == list(map(list, expected[half:])), (
        f"after a restart with {half} observations in the store, the others must follow, {expected[half:]}, got {rest}"
    )


def _read(
    source: AnySource, kept: bytes, stored: int, count: int, *, store: bool = True
) -> tuple[list[list[float]], bytes]:
    """Return the first observations of a source, as an agent reads them, and what its store then keeps."""
    source.resume(kept)
    source.begin(stored, LARGEST_OBSERVATION)
    if isinstance(source, PacedSource):
        return [value.tolist() for value in itertools.islice(source, count)], b""
    return asyncio.run(_follow(source, count, store))


async def _follow(source: LiveSource, count: int, store: bool) -> tuple[list[list[float]], bytes]:
    values: list[list[float]] = []
    try:
        async with asyncio.timeout(_PATIENCE), aclosing(source.raw()) as items:
            async for item in items:
                value = source.accept(item)
                values += [] if value is None else [value.tolist()]
                if len(values) >= count:
                    break
            kept = source.keep(source.position) if source.position else b""
            if kept and store:
                source.stored(kept)
            ending = time.monotonic()
    except TimeoutError:
        raise AssertionError(
            f"{count} observations must arrive, got {len(values)}; it says {source.failing or source.last_problem!r}"
        ) from None
    assert time.monotonic() - ending < _SLACK, "closing `raw` must end it, but it went on"
    return values, kept
