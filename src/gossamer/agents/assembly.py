"""How the parts of an agent are made from its settings and from what it has stored."""

from __future__ import annotations

import math

from gossamer.agents.bounds import Bounds
from gossamer.agents.host.store import Saved, first_serial
from gossamer.agents.rewiring import resumed
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.extremes import Extremes
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round_trip import timeout_of
from gossamer.agents.settings import AgentSettings
from gossamer.agents.statistics import Layout
from gossamer.agents.transports.base import Transport
from gossamer.methods.ledger import LedgerProgram


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


def conversation_of(
    settings: AgentSettings,
    ledger: Ledger,
    transport: Transport,
    extremes: Extremes | None,
    bounds: Bounds | None,
) -> Conversation:
    """The agent's conversation with its neighbors; one whose data are to stay is never held for dead."""
    keep = settings.model is not None and settings.model.keep
    conversation = Conversation(
        settings.id,
        ledger,
        transport,
        tuple(n.id for n in settings.neighbors),
        timeout=timeout_of(settings),
        death=math.inf if keep else settings.dead_after,
        limits=settings.limits,
        agreed=settings.fingerprint,
        extremes=extremes,
        most=None if bounds is None else bounds.rows,
    )
    conversation.follow(settings.epoch, settings.roster, settings.reset)
    conversation.names = {n.id: n.label for n in settings.neighbors}
    return conversation
