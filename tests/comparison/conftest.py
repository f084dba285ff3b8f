"""Comparisons that are interrupted on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gossamer.comparison import sweep


@pytest.fixture
def interrupt(monkeypatch) -> Callable[[int], None]:
    """Let Ctrl-C come with the batch of this number."""

    def at(number: int) -> None:
        whole, calls = sweep.evaluate, []

        def stopping(batch):
            calls.append(batch)
            if len(calls) == number:
                raise KeyboardInterrupt
            return whole(batch)

        monkeypatch.setattr(sweep, "evaluate", stopping)

    return at
