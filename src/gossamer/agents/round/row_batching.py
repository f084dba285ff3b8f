"""The rows of an agent that learns a model, and the sums over them that it averages (`models.py`, `learning.py`).

A table (a CSV file that is not followed) is read as a whole at every start. Rows enter the sums at common times
(`learning.py`). Rows that are not from a table also wait until there are at least `FleetModel.least` of them, so that
the difference between two messages, which is a difference of sums, never reveals a single row. Rows are never stored on
disk. An agent with more than `FleetModel.memory` rows, none of them from a table, discards the oldest once the estimate
is good; a restart discards all. The sums over discarded rows are kept, and are used as long as they fit the estimate.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.batching import Batch, Batcher
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.step_batching import StepBatcher
from gossamer.agents.statistics.layout import Answers, Layout
from gossamer.agents.statistics.models import ModelAnswers, ModelLayout
from gossamer.agents.statistics.values import ValueLayout
from gossamer.arrays import Floats
from gossamer.models import (
    CLOSE,
    FAR,
    FINE,
    PUBLISHED,
    leveraged,
    moved,
    next_look,
    placed,
    row_sums,
)

log = logging.getLogger("gossamer.agents")

_CHUNK = 1 << 15
"""Number of rows that are linearized at once."""

_WINDOW = 8
"""Rows enter in the first eighth of a turn, which leaves time for late agents; averages are read in the last eighth."""

_PATIENCE = 4
"""Largest number of rows that an agent holds while there is no good estimate, as a multiple of its memory."""


class Clock(NamedTuple):
    """What an agent knows about its fleet: the current round, the number of members (0 if unknown), and the values of
    its neighbors."""

    round: Callable[[], int]
    members: Callable[[], int]
    heard: Callable[[], tuple[Floats, ...]]


def spread_of(members: int) -> int:
    """Number of rounds after which rows have spread through a fleet of `members` agents, even if it is a chain."""
    return min(8 + 10 * members, 600) if members else 256


def batcher_of(
    settings: AgentSettings,
    layout: Layout,
    ledger: Ledger,
    seed: int | None,
    clock: Clock,
    noise: Floats | None = None,
    stored: bytes = b"",
) -> Batcher:
    """Return the object that turns an agent's observations into the components that it averages.

    `noise`, (n,), is what it adds to its level; None if that is nothing. `stored` is what `StepBatcher.own` returned.
    """
    if isinstance(layout, ModelLayout):
        own = ledger.mean, ledger.samples
        return RowBatcher(layout, lambda: ledger.estimate, own, seed, clock)
    weighted = ledger.program.weighted
    gain = getattr(settings.method, "gain", None) if weighted else None
    if isinstance(layout, ValueLayout):
        return StepBatcher(
            layout,
            lambda: ledger.estimate,
            lambda: (clock.members(), clock.heard()),
            stored,
            seed,
            gain=gain,
            holds=not weighted,
        )
    return Batcher(layout, gain=gain, holds=not weighted, seed=seed, shift=noise)


def answers_of(batcher: Batcher, ledger: Ledger) -> Answers:
    """Return an agent's answers; those of a model are the latest that were read after rows had spread."""
    if isinstance(batcher, RowBatcher | StepBatcher):
        return batcher.answers()
    return batcher.layout.read(ledger.estimate)


class RowBatcher(Batcher):
    """Turns an agent's rows into the sums that it averages, as described at the top of this file.

    estimate  the agent's estimate of the network's average, (n,)
    own       its own sums from before a restart, (n,), and the number of rows in them
    clock     what it knows about its fleet
    """

    def __init__(
        self,
        layout: ModelLayout,
        estimate: Callable[[], Floats],
        own: tuple[Floats, float],
        seed: int | None,
        clock: Clock,
    ) -> None:
        self.layout: ModelLayout = layout
        self._estimate = estimate
        self.ending = False
        self._clock = clock
        self._answers = ModelAnswers(layout, np.zeros(layout.size), members=clock.members())
        # The turns in which rows entered, and averages were read.
        self._taken = self._read = self._looked = -1
        self._random = np.random.default_rng(seed)
        self._by_agents = layout.weighting == "agents"
        sums, samples = own
        self._frozen = sums * samples**layout.squared if self._by_agents else sums.copy()
        self._kept = KeptRows(layout)
        self._sums = np.zeros(layout.size)  # of the rows in memory
        self._waiting: list[Floats] = []
        self._table = False
        self._next = 0
        self._good = False  # whether rows may be discarded
        self._near = self._nearing = False  # whether new rows are linearized at theta; from the next look on
        half_life = layout.model.forgetting
        self._half_life = half_life

    @property
    def held(self) -> int:
        """Number of rows in memory."""
        return self._kept.count

    def fits(self) -> bool:
        """Whether the sums from before a restart were linearized close to the estimate.

        The limit is much stricter than for publication, because these sums can no longer be moved, while the estimate
        may change until all rows have mixed.
        """
        most = PUBLISHED / 100
        return bool(self.layout.judge(self._estimate(), self._clock.members()).linearization <= most)

    def begin_again(self) -> None:
        """Discard the sums from before a restart, because all rows will be read again."""
        self._frozen[:] = 0.0

    def answers(self) -> ModelAnswers:
        """The answers of the latest reading."""
        return self._answers

    def _turn(self) -> tuple[int, float]:
        """Return the number of the current turn, and the fraction of it that has passed."""
        return divmod(self._clock.round() / spread_of(self._clock.members()), 1.0)  # type: ignore[return-value]

    def takes(self) -> bool:
        turn, over = self._turn()
        return self.ending or (turn > self._taken and over < 1 / _WINDOW)

    def batch(self, new: Sequence[Floats], mean: Floats, samples: float, age: int) -> Batch:
        self._waiting += new
        turn, over = self._turn()
        takes = self.takes()
        if age >= self._next or (turn > self._looked and over >= 0.5):
            if over >= 0.5:
                self._looked = int(turn)
            self._look(age)
        if turn > self._read and over >= 1 - 1 / _WINDOW:
            self._read = int(turn)
            self._answers = self._reading()
        count = 0
        if takes:
            if self._half_life and self._taken >= 0:
                fade = 0.5 ** ((int(turn) - self._taken) * spread_of(self._clock.members()) / self._half_life)
                for sums in (self._frozen, self._sums):
                    sums *= fade**self.layout.squared
                self._kept.weights[: self._kept.count] *= fade
            self._taken = int(turn)
            count = self._take_in(samples)
        total = self._frozen + self._sums
        total[self.layout.sums.summarized] = self._frozen[0]
        if not total[0]:
            return Batch(total, 0, 0.0)
        return Batch(total / total[0] ** self.layout.squared if self._by_agents else total, count, 1.0)

    def _reading(self) -> ModelAnswers:
        return ModelAnswers(
            self.layout,
            self._estimate()[: self.layout.size],
            members=self._clock.members(),
            others=self._clock.heard(),
            reference=self._kept.theta,
        )

    def _take_in(self, samples: float) -> int:
        """Add the waiting rows to the sums; return how many are new to an agent that had `samples` rows before."""
        rows, count = self._take(samples)
        if len(rows):
            layout, last = self.layout, self.layout.sums.components
            lengths = () if layout.sums.meat else (len(rows),)
            noise = self._random.standard_normal((*lengths, layout.noise))
            if layout.sums.meat:  # noise of the sum over these rows
                self._frozen[last:] += np.sqrt(len(rows)) * noise
            self._sums += self._kept.add(rows, noise, careful=not self._near)
            if not self._table:
                self._let_go()
        return count

    def _take(self, samples: float) -> tuple[Floats, int]:
        """Return the rows to add now, and how many are new to an agent that had `samples` rows before."""
        least, count = self.layout.model.least, 0
        rows = np.zeros((0, self.layout.dimension))
        for table in (item for item in self._waiting if item.ndim == 2):
            if len(table) < least:
                log.warning(
                    "a table of %d rows is not used: fewer than %d rows are never shared", len(table), least
                )
                continue
            rows, count = table, max(len(table) - int(samples), 0)
            self._frozen[:] = 0.0  # the table contains all rows that this agent had before the restart
            self._table = True
        self._waiting = [item for item in self._waiting if item.ndim == 1]
        if len(self._waiting) >= least:
            rows = np.vstack([rows, *self._waiting])
            count += len(self._waiting)
            self._waiting = []
        return rows, count

    def _let_go(self) -> None:
        """Replace the oldest rows by their sums once there is a good estimate."""
        memory = self.layout.model.memory
        most = memory if self._good else _PATIENCE * max(memory, self.layout.model.least)
        if self._kept.count > most:
            freed = self._kept.drop(self._kept.count - memory)
            self._frozen += freed
            self._sums -= freed

    def _look(self, age: int) -> None:
        """Linearize the rows in memory closer to the current estimate, if they are too far from it."""
        self._next = next_look(age, self._near, self.layout.model.forgetting)
        held = self._estimate()
        if not held[0] > 0:
            return
        judgement = self.layout.judge(held, self._clock.members())
        near = bool(judgement.ready and judgement.linearization <= FAR)
        self._near, self._nearing = near and self._nearing, near
        self._good = bool(self._near and judgement.linearization <= PUBLISHED)
        if not (judgement.ready and (self._by_agents or judgement.enough(self.layout.penalty))):
            return
        theta = self._kept.theta
        moves = judgement.linearization > CLOSE or self.layout.family.jumps or self._kept.known is None
        if moves or theta is None or judgement.step(theta) > FINE:
            own = float(self._frozen[0] + self._sums[0]) if self._by_agents else 1.0
            self._kept.known = judgement.inverse, float(judgement.rows) * own
            self._sums = self._kept.move(judgement.theta, careful=bool(judgement.linearization > FAR))


class KeptRows:
    """The rows in memory, with the predictors at which they are linearized, their weights and their noise."""

    def __init__(self, layout: ModelLayout) -> None:
        self._layout = layout
        self.count = 0
        self._careful = True
        self.theta: Floats | None = None
        # The inverse of the mean curvature, and of how many rows.
        self.known: tuple[Floats, float] | None = None
        self.rows = np.zeros((0, layout.dimension))
        self.predictors = np.zeros((0, layout.family.outputs))
        self.weights = np.zeros(0)
        self.noise = np.zeros((0, 0 if layout.sums.meat else layout.noise), dtype=np.float32)

    def add(self, rows: Floats, noise: Floats, careful: bool) -> Floats:
        """Keep rows, and return the sums over them."""
        family, labels = self._layout.family, rows[:, -1]
        seen = np.append(self.rows[: min(self.count, _CHUNK), -1], labels)
        start = family.start(labels, seen)
        if self.theta is not None:
            target = self._predict(rows, self.theta)
            reach = np.abs(self.predictors[: self.count]).max(initial=0.0)
            start = placed(family, target, labels, reach) if careful else target
        last, self.count = self.count, self.count + len(rows)
        for name, values in (
            ("rows", rows),
            ("predictors", np.clip(start, *self._layout.reach).T),
            ("weights", np.ones(len(rows))),
            ("noise", noise if self.noise.shape[1] else 0.0),
        ):
            old = getattr(self, name)
            if self.count > len(old):
                new = np.empty((max(self.count, 2 * len(old)), *old.shape[1:]), dtype=old.dtype)
                new[:last] = old[:last]
                setattr(self, name, new)
            getattr(self, name)[last : self.count] = values
        return self._sums(slice(last, self.count))

    def drop(self, count: int) -> Floats:
        """Discard the oldest rows, and return the sums over them."""
        dropped = self._sums(slice(0, count))
        for name in ("rows", "predictors", "weights", "noise"):
            values = getattr(self, name)
            values[: self.count - count] = values[count : self.count].copy()
        self.count -= count
        return dropped

    def move(self, theta: Floats, careful: bool) -> Floats:
        """Move the rows' predictors toward those of theta, and return the sums over all rows."""
        self._careful, self.theta = careful, theta
        sums = np.zeros(self._layout.size)
        for start in range(0, self.count, _CHUNK):
            part = slice(start, min(start + _CHUNK, self.count))
            target = np.clip(self._predict(self.rows[part], theta), *self._layout.reach)
            self.predictors[part] = moved(
                self._layout.family, self.predictors[part].T, target, self.rows[part, -1]
            ).T
            sums += self._sums(part)
        return sums

    def _covariates(self, rows: Floats) -> Floats:
        x = rows[:, :-1]
        return np.column_stack([x, np.ones(len(x))]) if self._layout.model.intercept else x

    def _predict(self, rows: Floats, theta: Floats) -> Floats:
        return np.asarray(theta.reshape(self._layout.family.outputs, -1) @ self._covariates(rows).T)

    def _sums(self, part: slice) -> Floats:
        """Return the sums over some rows at their current linearization, without the replicates of weights."""
        layout = self._layout
        x, y, weights = self._covariates(self.rows[part]), self.rows[part, -1], self.weights[part]
        predictors = self.predictors[part].T
        target = predictors if self.theta is None else self._predict(self.rows[part], self.theta)
        target = np.clip(target, *layout.reach)
        sums = np.zeros(layout.size)
        sums[: layout.sums.components] = row_sums(
            layout.sums, layout.family, x, y, predictors, target, weights, self._careful, known=self.known
        )
        if not layout.sums.meat and layout.noise:
            slopes = layout.family.slopes(predictors, y)
            if self.known is not None:
                bends = layout.family.careful_curvatures(predictors, y, self._careful) * weights
                slopes = leveraged(x, slopes, bends, *self.known)
            slopes = slopes * weights
            noise = self.noise[part].T
            sums[layout.sums.components :] = np.hstack([(noise * slope) @ x for slope in slopes]).ravel()
        return sums
