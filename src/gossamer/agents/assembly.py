"""How the parts of an agent are made from its settings and from what it has stored."""

from __future__ import annotations

import logging

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.rewiring import resumed
from gossamer.agents.round.batching import Batcher
from gossamer.agents.round.bounds import Bounds
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.round_trip import timeout_of
from gossamer.agents.round.row_batching import RowBatcher
from gossamer.agents.round.transport import Transport
from gossamer.agents.sources.kinds import Source
from gossamer.agents.statistics.extremes import Extremes
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.store.agent_store import Saved, first_serial
from gossamer.methods.ledger import LedgerProgram

log = logging.getLogger("gossamer.agents")


def ledger_of(
    settings: AgentSettings,
    program: LedgerProgram,
    layout: Layout,
    saved: Saved | None,
    bounds: Bounds | None,
) -> Ledger:
    """The agent's ledger, with what an earlier run saved."""
    restored = resumed(saved.ledger, settings) if saved else None
    return Ledger(
        program,
        settings.id,
        {n.id: n.weight for n in settings.neighbors},
        layout.size,
        silence=settings.silence,
        return_rate=settings.return_rate,
        serial=first_serial(saved),
        restored=bounds.clip(restored) if bounds and restored else restored,
        kept=settings.kept,
        names=settings.names,
        reset=settings.reset,
        most=None if bounds is None else bounds.rows,
    )


def reads_again(batcher: Batcher, source: Source | None, ledger: Ledger) -> bool:
    """Whether rows from before a restart are read once more, because their sums are not good enough; then they are
    forgotten first."""
    stored = int(ledger.samples)
    if not isinstance(batcher, RowBatcher) or source is None or not stored or batcher.fits():
        return False
    if not source.repeats(stored):
        return False
    log.info("agent %d reads its rows again: their sums are not good enough", ledger.me)
    batcher.begin_again()
    ledger.samples = 0.0
    return True


def conversation_of(
    settings: AgentSettings,
    ledger: Ledger,
    transport: Transport,
    extremes: Extremes | None,
    bounds: Bounds | None,
) -> Conversation:
    """The agent's conversation with its neighbors."""
    conversation = Conversation(
        settings.id,
        ledger,
        transport,
        tuple(n.id for n in settings.neighbors),
        timeout=timeout_of(settings),
        death=settings.dead_after,
        limits=settings.limits,
        agreed=settings.fingerprint,
        extremes=extremes,
        most=None if bounds is None else bounds.rows,
    )
    conversation.follow(settings.epoch, settings.roster, settings.reset)
    conversation.names = {n.id: n.label for n in settings.neighbors}
    return conversation
