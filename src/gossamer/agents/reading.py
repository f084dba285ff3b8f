"""What an agent knows at one moment: its answers, and its snapshot."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.intake import Intake
from gossamer.agents.rewiring import Rewiring
from gossamer.agents.round.batching import Batcher
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.round_trip import RoundTrip
from gossamer.agents.round.row_batching import answers_of
from gossamer.agents.round.transport import Transport
from gossamer.agents.snapshot import (
    CountCheck,
    NeighborView,
    Snapshot,
    incompatible,
    quarantined,
    strained,
    unmasked,
)
from gossamer.agents.statistics.extremes import Extremes
from gossamer.agents.statistics.layout import Answers, Layout
from gossamer.agents.statistics.mixing import Mixing, combined, settled
from gossamer.agents.store.agent_store import AgentStore
from gossamer.arrays import Floats

_DWARFED = (
    "its flows are so much larger than its values that rounding errors may be visible: a member may have lied; if "
    "this lasts for minutes, run `gossamer fleet reset-flows` and `gossamer fleet push`"
)


def neighbor_values(conversation: Conversation, most_misses: float = math.inf) -> tuple[Floats, ...]:
    """The latest averaged vectors of the neighbors that are alive and have missed at most `most_misses` rounds."""
    peers = conversation.peers.values()
    return tuple(peer.value for peer in peers if peer.last and not peer.dead and peer.misses <= most_misses)


class Reader:
    """Reads the parts of a running agent; any thread may use it."""

    def __init__(
        self,
        layout: Layout,
        ledger: Ledger,
        conversation: Conversation,
        transport: Transport,
        *,
        batcher: Batcher,
        mixing: Mixing,
        intake: Intake,
        changes: Rewiring,
        extremes: Extremes | None,
        store: AgentStore | None,
        clock: Callable[[], float],
    ) -> None:
        self.trips: Mapping[int, RoundTrip] = getattr(transport, "trips", {})
        self._layout = layout
        self._ledger = ledger
        self._conversation = conversation
        self._transport = transport
        self._batcher = batcher
        self._mixing = mixing
        self._intake = intake
        self._changes = changes
        self._extremes = extremes
        self._store = store
        self._clock = clock
        self._count_check = CountCheck()

    def note_round(self) -> None:
        """Remember the answer of a round, to see whether later ones still move."""
        self._mixing.note(self._ledger.age, self._ledger.estimate)

    def estimate(self, settings: AgentSettings) -> Any:
        """Return the estimate: a float (dimension 1) or an array (n,)."""
        return self._shape(self._answers(settings).mean)

    def standard_error(self, settings: AgentSettings) -> Any:
        """Return the standard error of the estimate, in the same shape."""
        answers = self._answers(settings)
        return self._shape(combined(answers.standard_error, self._mixing_error(answers)))

    def _answers(self, settings: AgentSettings) -> Answers:
        answers = answers_of(self._batcher, self._ledger)
        extremes = self._extremes
        return answers if extremes is None else replace(answers, extremes=(extremes.least, extremes.largest))

    def _mixing_error(self, answers: Answers) -> Floats:
        passing = self._ledger.returning
        if self._ledger.masks is not None:
            passing = passing + self._ledger.masks.unanswered
        return self._mixing.error(answers, passing, neighbor_values(self._conversation))

    def _shape(self, values: Floats) -> Any:
        return float(values[0]) if self._layout.dimension == 1 else values

    def snapshot(
        self, settings: AgentSettings, concerns: Iterable[str], *, acknowledged: int, stopped: bool
    ) -> Snapshot:
        """Return the agent at the end of its latest round; `concerns` are further reasons why it is degraded."""
        answers, conversation, now = self._answers(settings), self._conversation, self._clock()
        noise, mixing = answers.standard_error, self._mixing_error(answers)
        peers = conversation.peers.values()
        calm = settled(answers, noise, mixing)
        problem = "; ".join(filter(None, [*self._problems(settings, answers, calm, now), *concerns]))
        present, trips, masks = self._transport.present(), self.trips, self._ledger.masks
        members = settings.members or len(conversation.peers) + 1
        return Snapshot(
            agent=settings.id,
            time=time.time(),
            round=conversation.round,
            age=self._ledger.age,
            samples=int(self._ledger.samples),
            acknowledged=acknowledged if self._store else 0,
            estimate=answers.mean,
            standard_error=combined(noise, mixing),
            variance=answers.variance,
            answers=answers,
            state="stopped" if stopped else "degraded" if problem else "running",
            problem=problem,
            sent=conversation.sent,
            received=conversation.received,
            rejected={str(reason): count for reason, count in conversation.rejected.copy().items()},
            neighbors=tuple(
                NeighborView.of(p, answers, p.id in present, now, settings, trips.get(p.id)) for p in peers
            ),
            bad=self._intake.bad,
            store_failures=0 if self._store is None else self._store.failures,
            epoch=settings.epoch,
            members=settings.members,
            inherited=settings.inherited,
            settled=calm and (masks is None or masks.opened),
            participating=members - sum(peer.dead for peer in peers),
            least=None if answers.extremes is None else answers.extremes[0],
            largest=None if answers.extremes is None else answers.extremes[1],
            clipped=self._intake.range.clipped,
            withheld=answers.withheld,
        )

    def _problems(self, settings: AgentSettings, answers: Answers, calm: bool, now: float) -> list[str]:
        failure = None if self._store is None else self._store.failure
        peers = self._conversation.peers
        masks, impossible = self._ledger.masks, ""
        if not settings.noise_scale and (masks is None or calm):  # noise and masks may be outside any range
            impossible = self._intake.range.doubt(answers.held, observed=self._ledger.mean[0] > 0)
        count = self._count_check.problem(answers, settings, peers, now)
        return [
            "" if failure is None else f"the store cannot be written: {failure}",
            self._intake.problem,
            incompatible(peers.values(), settings, getattr(self._transport, "builds", {})),
            quarantined(peers.values(), settings),
            strained(self._ledger.limits, settings),
            "" if masks is None else unmasked(masks, self._ledger.live, settings),
            self._changes.problem
            or impossible
            or count
            or (_DWARFED if self._ledger.overgrowth.doubted else ""),
        ]
