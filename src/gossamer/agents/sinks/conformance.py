"""The conformance check of sinks: what every implementation must do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gossamer.agents.sinks.kinds import Sink

_PATIENCE = 20.0


def check_sink(sink: Sink, received: Callable[[], list[dict[str, Any]]]) -> None:
    """Check that answers arrive as they are, also those with unknown numbers and with vectors; the sink is closed.

    Parameters
    ----------
    sink : Sink
        A new sink, such as MySink(Url("my://host"), Place()).
    received : callable
        A function without arguments that returns the answers that have arrived, as a list of dictionaries.

    See Also
    --------
    check_source : The same for sources.
    Sink : The contract that is checked.

    Examples
    --------
    >>> class Kept(gs.agents.Sink):
    ...     answers = []
    ...     def write(self, answer):
    ...         self.answers.append(dict(answer))
    >>> gs.agents.check_sink(Kept(gs.agents.Url("kept://"), gs.agents.Place()), lambda: Kept.answers)
    """
    assert isinstance(sink, Sink), f"a sink must be a Sink, got {type(sink).__name__}"
    first = {
        "name": "pump",
        "fleet": "plant",
        "estimate": 21.5,
        "standard_error": 0.25,
        "settled": True,
        "age": 7,
    }
    answers = [first, {**first, "estimate": [1.0, None], "standard_error": None, "age": 8}]
    try:
        sink.open()
        for k, answer in enumerate(answers):
            sink.write(answer)
            deadline = time.monotonic() + _PATIENCE
            while len(received()) <= k and time.monotonic() < deadline:
                time.sleep(0.005)
    finally:
        sink.close()
    got = [{name: line.get(name) for name in first} for line in received()]
    assert got == answers, f"{answers} must arrive, got {got}"
