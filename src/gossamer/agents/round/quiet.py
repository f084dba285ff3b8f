"""When an agent without news stays silent (`rounds.quiet`); `gossamer.faults.Quiet` is this rule in simulations.

To the ledger, a message that is not sent is one that is lost, so neighbors need not know about it. An agent may be
silent if its answer differs by less than a tenth of its standard error from the answer that it told last, and from the
last ones of its neighbors. Without the second condition, neighbors that differ, and whose answers do not change because
both are silent, would hardly ever agree.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.statistics.replicates import Replicates
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput

NEWS = 0.1
"""Fraction of the standard error below which a difference is not news."""


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
        if settings.model is not None or settings.mask or not settings.replicates:
            raise InvalidInput(
                "is for averages with a standard error: it cannot be combined with a model or masks, and needs "
                "replicates above 0",
                parameter="quiet",
            )
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
