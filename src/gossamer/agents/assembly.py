"""Builds the parts of an agent from its settings and its store."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.intake import Intake
from gossamer.agents.reading import Reader, neighbor_values
from gossamer.agents.rewiring import STAYS, Rewiring, resumed
from gossamer.agents.round.batching import Batcher
from gossamer.agents.round.bounds import Bounds
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.loop import RoundLoop
from gossamer.agents.round.masking import LARGEST_MASK, Masking, draw_normals, scales_of, spread_of
from gossamer.agents.round.quiet import SilenceRule, single_rule
from gossamer.agents.round.round_trip import timeout_of
from gossamer.agents.round.row_batching import Clock, RowBatcher, batcher_of
from gossamer.agents.round.step_batching import StepBatcher
from gossamer.agents.round.transport import Transport
from gossamer.agents.sources.kinds import Source
from gossamer.agents.sources.opening import ObservationStream, as_source
from gossamer.agents.statistics.extremes import Extremes
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.statistics.mixing import Mixing
from gossamer.agents.statistics.models import layout_of, method_of, range_of
from gossamer.agents.store.agent_store import AgentStore, Saved, first_serial
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.methods.ledger import LedgerProgram, ledger_program

log = logging.getLogger("gossamer.agents")


@dataclass(frozen=True)
class Parts:
    """The parts of one agent.

    layout        what is averaged
    own           what the store keeps besides the ledger
    intake        takes observations
    loop          runs rounds with the ledger and the conversation
    changes       carries out changes of the neighbors
    reader        reads answers and snapshots
    """

    layout: Layout
    transport: Transport
    store: AgentStore | None
    ledger: Ledger
    own: Callable[[], bytes]
    conversation: Conversation
    changes: Rewiring
    loop: RoundLoop
    intake: Intake
    reader: Reader


def assemble(
    settings: AgentSettings,
    transport: Transport | None,
    source: ObservationStream | None,
    store: str | Path | None,
    *,
    seed: int | None,
    clock: Callable[[], float],
) -> Parts:
    """Build the parts of an agent; the arguments are those of `Agent`."""
    layout = layout_of(settings)
    if transport is None:
        from gossamer.agents.transports.tls import TlsTransport

        transport = TlsTransport(settings)
    observations = None if source is None else as_source(source, layout.dimension)
    range = range_of(settings, layout)
    if observations is not None:
        observations.range = range
    program = ledger_program(method_of(settings), settings.facts)

    def bounds_of(settings: AgentSettings) -> Bounds | None:
        # Former members count too, so that two epochs agree on what is possible.
        members = settings.members and settings.members + settings.former
        masks = spread_of(settings, layout, program)
        return Bounds.of(layout, program, members, masks, settings.neighbors)

    bounds = bounds_of(settings)
    opened = _open_store(settings, program, layout, store)
    saved = opened.load() if opened else None
    noise = _noise_of(layout, opened)
    try:
        ledger = _ledger_of(settings, program, layout, saved, bounds)
    except InvalidInput:  # the stored state does not fit the method
        if opened is not None:
            opened.close()
        raise
    extremes = None
    if settings.extremes:
        extremes = Extremes(settings.dimension, saved.extremes if saved else b"", settings.range)
    conversation = _conversation_of(settings, layout, ledger, transport, extremes, bounds, clock)
    conversation.round = saved.round if saved else 0
    changes = Rewiring(settings, ledger, conversation, transport, bounds_of)
    if opened is not None:
        ledger.durable = saved.ledger.serial if saved else 0
        changes.resume_leaving(saved.leaving if saved else STAYS)
    fleet = Clock(
        lambda: conversation.round,
        lambda: changes.settings.members,
        lambda: neighbor_values(conversation, settings.silence),
    )
    batcher = batcher_of(settings, layout, ledger, seed, fleet, noise, saved.extremes if saved else b"")
    again = saved is not None and _reads_again(batcher, observations, ledger, settings.label)
    position = saved.position if saved and not again else b""
    loop = RoundLoop(batcher, ledger, conversation, lambda failure: intake.lose(failure), extremes)
    intake = Intake(
        loop, layout, range, observations, position, stored=opened is not None, label=settings.label
    )
    reader = Reader(
        layout,
        ledger,
        conversation,
        transport,
        batcher=batcher,
        mixing=Mixing(layout, settings.return_rate),
        intake=intake,
        changes=changes,
        extremes=extremes,
        store=opened,
        clock=clock,
    )
    own = (
        batcher.own
        if isinstance(batcher, StepBatcher)
        else bytes
        if extremes is None
        else extremes.own.tobytes
    )
    return Parts(layout, transport, opened, ledger, own, conversation, changes, loop, intake, reader)


def _open_store(
    settings: AgentSettings, program: LedgerProgram, layout: Layout, store: str | Path | None
) -> AgentStore | None:
    path = settings.store if store is None else store
    what = program.method if settings.model is None else f"{program.method}, sums 3, for {settings.model}"
    if settings.values is not None:
        what = f"{program.method}, {settings.values}"
    if layout.level_noise is not None:
        what = f"{what}, noise {settings.noise_scale}"
        if path is None:
            raise InvalidInput(
                "must be set in a fleet with noise, because an agent keeps its noise there: noise drawn anew after "
                "each restart would average out",
                parameter="store",
            )
    return (
        None
        if path is None
        else AgentStore(path, settings.id, layout.size, what, {settings.id: settings.name, **settings.names})
    )


def _noise_of(layout: Layout, store: AgentStore | None) -> Floats | None:
    """Return (n,) the noise that the agent adds to its level; None if there is none."""
    scales = layout.level_noise
    return store.noise(lambda: scales * draw_normals(len(scales))) if store and scales is not None else None


def _ledger_of(
    settings: AgentSettings,
    program: LedgerProgram,
    layout: Layout,
    saved: Saved | None,
    bounds: Bounds | None,
) -> Ledger:
    """The agent's ledger, with the state that an earlier run saved."""
    restored = resumed(saved.ledger, settings) if saved else None
    scales = scales_of(settings.mask, layout, program)
    masks = None
    if scales is not None:
        held = (restored.masks, restored.secrets) if restored else ({}, {})
        known = held[1] if settings.refresh else None
        masks = Masking(settings.id, scales, settings.least_neighbors, held[0], known=known)
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
        bounds=bounds,
        masks=masks,
    )


def _reads_again(batcher: Batcher, source: Source | None, ledger: Ledger, label: str) -> bool:
    """Whether rows from before a restart are read again, because the stored sums are not accurate enough.

    If so, the stored sums are forgotten.
    """
    stored = int(ledger.samples)
    if not isinstance(batcher, RowBatcher) or source is None or not stored or batcher.fits():
        return False
    if not source.repeats(stored):
        return False
    log.info("%s reads its rows again: the stored sums are not accurate enough", label)
    batcher.begin_again()
    ledger.samples = 0.0
    return True


def _conversation_of(
    settings: AgentSettings,
    layout: Layout,
    ledger: Ledger,
    transport: Transport,
    extremes: Extremes | None,
    bounds: Bounds | None,
    clock: Callable[[], float],
) -> Conversation:
    """The agent's conversation with its neighbors; a neighbor whose data are to be kept is never declared dead."""
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
        masks=None if ledger.masks is None else LARGEST_MASK * ledger.masks.scales,
        quiet=SilenceRule.of(settings, layout),
        single=single_rule(settings, layout),
        clock=clock,
    )
    conversation.follow(settings.epoch, settings.roster, settings.reset)
    conversation.names = {n.id: n.label for n in settings.neighbors}
    return conversation
