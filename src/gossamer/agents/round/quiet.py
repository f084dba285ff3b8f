"""When an agent without news stays silent (`rounds.quiet`), and when it may round what it says (`wire.precision`).

`gossamer.faults.Quiet` is the rule of silence in simulations.

To the ledger, a message that is not sent is one that is lost, so neighbors need not know about it. An agent may be
silent if its answer differs by less than a tenth of its standard error from the answer that it told last, and from the
last ones of its neighbors. Without the second condition, neighbors that differ, and whose answers do not change because
both are silent, would hardly ever agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.statistics.replicates import Replicates
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput

NEWS = 0.1
"""Fraction of the standard error below which a difference is not news."""

ROUNDING = 0.01
"""Fraction of the standard error below which rounding does not matter."""


class SilenceRule:
    """The rule of one agent, which speaks in its first round of every `silence` rounds in any case.

    So edges keep moving (see `silence` in `methods/ledger.py`), and all agents speak in the same rounds.
    """

    def __init__(self, layout: Layout, silence: int) -> None:
        self._layout = layout
        self._silence = silence
        self._told: Floats | None = None
        self._spoke = -1  # the round

    @classmethod
    def of(cls, settings: AgentSettings, layout: Layout) -> SilenceRule | None:
        """The rule that the settings ask for, if they do."""
        if not settings.quiet:
            return None
        _check_errors(settings, "quiet")
        return cls(layout, settings.silence)

    def speaks(self, round: int, rows: Floats, heard: Iterable[Floats]) -> bool:
        """Whether to send these rows in this round; `heard` are the last ones of the neighbors, empty if unknown.

        Rows begin with a value, of the size of the layout.
        """
        answer, limit = self.answer(rows), self.limit(rows)
        speaks = (
            round // self._silence != self._spoke // self._silence
            or self._told is None
            or not all(
                len(other) and np.all(np.abs(answer - other) < limit)
                for other in (self._told, *(self.answer(other) for other in heard))
            )
        )
        if speaks:
            self._told, self._spoke = answer, round
        return speaks

    def answer(self, rows: Floats) -> Floats:
        """What is compared: the average."""
        return self._layout.read(rows[: self._layout.size]).held if len(rows) else rows

    def limit(self, rows: Floats) -> Floats:
        """The smallest difference that is news."""
        error: Floats = self._layout.read(rows[: self._layout.size]).get(Replicates)
        return NEWS * error


def single_rule(settings: AgentSettings, layout: Layout) -> Callable[[Floats], float] | None:
    """Return the largest norm of rows that may be sent as float32, as a function of the agent's averages.

    It is None if the settings do not ask for that. Rounding moves neither end of an edge for good: in every round, one
    of them adopts the other's ledger.
    """
    if settings.precision == "double":
        return None
    _check_errors(settings, "precision")
    if settings.variance:
        raise InvalidInput(
            "cannot be combined with variance, a difference of large averages in which rounding grows",
            parameter="precision",
        )

    return partial(largest_single, layout)


def largest_single(layout: Layout, vector: Floats) -> float:
    """Return the largest norm of rows that an agent with these averages sends as float32; 0 if there is none."""
    error = vector[0] * float(np.min(layout.read(vector).get(Replicates)))
    return ROUNDING * error * 2.0**24 if 0 < error < math.inf else 0.0


def _check_errors(settings: AgentSettings, name: str) -> None:
    """Raise unless the agents average nothing but means, and know their standard errors."""
    learned = settings.model is not None or settings.values is not None
    if learned or settings.mask or not settings.replicates:
        raise InvalidInput(
            "is for averages with a standard error: it cannot be combined with a model or masks, and needs "
            "replicates above 0",
            parameter=name,
        )
