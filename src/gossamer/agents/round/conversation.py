"""One agent's conversation with its neighbors, round by round, over any transport.

In a round the agent sends a message to every neighbor, receives theirs, and finishes.

- It waits for a connected neighbor for at most its `timeout` (`round_trip.py`). The wait is halved for each consecutive
  round in which nothing arrived from the neighbor, down to a sixteenth, so a neighbor that falls silent costs two
  timeouts in total instead of one per round. A neighbor whose messages arrive late still gets the full wait.
- It does not wait for a neighbor whose message for a later round has already arrived.
- With a pace, a round stays open for missing neighbors until the next round is due, so that every message of a slow
  agent is used.
- Round numbers are Lamport clocks: an agent two or more rounds behind a neighbor jumps to that neighbor's round, by at
  most `rounds_ahead` rounds at once. A message from further ahead is not used, but the agent still advances by
  `rounds_ahead` toward it, so that it can join a fleet that ran for years without it, or that a lying member advanced.
- A message from an earlier round is late and counts as lost.
- Every message carries the epoch of its sender's roster. A neighbor that is behind is sent the newest roster,
  repeatedly, until it has caught up.
- A neighbor that keeps making impossible claims, or keeps sending what no agent sends, is quarantined: its messages are
  ignored and none are sent to it, as if it were dead, until this agent restarts or pardons it.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import numpy as np

from gossamer.agents.config.settings import Limits
from gossamer.agents.round.closing import ENDS
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.masking import told_value
from gossamer.agents.round.messages import Received, standing_of
from gossamer.agents.round.quiet import SilenceRule
from gossamer.agents.round.transport import Transport
from gossamer.agents.round.wire import Codec, Reason, roster_of, roster_payload
from gossamer.agents.statistics.extremes import Extremes
from gossamer.arrays import Floats
from gossamer.methods.ledger import DROPPED

log = logging.getLogger("gossamer.agents")

_MOST_HALVINGS = 4

_FAREWELLS = 5
"""Number of times that former neighbors are told why the edge ended, because messages may be lost."""

_REMIND = 2.0
"""Seconds after which a neighbor that is still behind is sent the roster again."""
_LIES = frozenset({Reason.VALUE, Reason.FLOW, Reason.ECHO})
_MOST_LIES = 5
"""An honest agent never makes an impossible claim (`bounds.py`), so a single one would be proof. A few are tolerated,
because they have no effect, and because agents may have different versions of fleet.toml while it is being replaced."""

_GARBAGE = frozenset({Reason.SIZE, Reason.GARBAGE, Reason.SENDER, Reason.DIMENSION, Reason.ROSTER})
_MOST_GARBAGE = 32.0
"""Number of messages that no agent sends after which a neighbor is quarantined; one per second is forgiven, because a
version of the future may send what this one does not know, and rosters fail while the authority's file is replaced."""

_ROSTER_EVERY = 1.0
"""Seconds between two rosters of one neighbor of which the signature is checked, because that takes long."""


class Peer:
    """What the conversation knows about one neighbor."""

    def __init__(self, id: int, timeout: float) -> None:
        self.id = id
        self.timeout = timeout  # seconds that a round waits for it
        self.current: Received | None = None  # its message for the current round
        self.ahead: Received | None = None  # its newest message for a later round
        self.last: Received | None = None  # its newest used message that told a value
        self.newest = 0  # the largest serial seen
        self.misses = 0  # rounds in a row without a used message
        self.silent = 0  # rounds in a row without any valid message, used or late
        self.quiet = 0.0  # seconds of listening since anything valid arrived
        self.came_at = -math.inf  # when anything valid arrived last
        self.heard_at = -math.inf  # when its newest used message was used
        self.dead = False
        self.answered = False  # whether it has echoed a message of this run
        self.lies = 0  # its messages with impossible claims
        self.garbage = 0.0  # its messages that no agent sends, less those that were forgiven
        self.garbage_at = -math.inf  # when the last of them came
        self.roster_at = -math.inf  # when a roster of it was last checked
        self.roster_hash = 0  # of the last one that was valid
        self.quarantined = False
        self.used = 0
        self.lost = 0
        self.late = 0
        self.epoch = 0  # of its roster
        self.reminded_at = -math.inf  # when it was last sent the roster
        self.foreign = False  # whether its messages are of another version
        self.agreed = b""  # fingerprint of its settings, if they are not this agent's
        self.stopped = False  # whether it said that it is closing the edge

    @property
    def value(self) -> Floats:
        """The rows of `last`; empty before the first."""
        return np.frombuffer(b"" if self.last is None else self.last.rows)


class Conversation:
    """Drives an agent's part of a method over a transport, one round at a time."""

    def __init__(
        self,
        me: int,
        core: Ledger,
        transport: Transport,
        neighbors: tuple[int, ...],
        *,
        timeout: float,
        death: float = math.inf,
        limits: Limits | None = None,
        agreed: bytes = b"",
        extremes: Extremes | None = None,
        most: Floats | None = None,
        masks: Floats | None = None,
        quiet: SilenceRule | None = None,
        single: Callable[[Floats], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core = core
        self.transport = transport
        self.peers = {j: Peer(j, timeout) for j in neighbors}
        self._all = tuple(self.peers.values())
        self.round = 0
        self.sent = self.received = 0
        self.rejected: Counter[str] = Counter()
        self._timeout, self._death, self._clock = timeout, death, clock
        self._quiet, self._single = quiet, single
        shape, limits = (core.dimension, core.edge_registers), limits or Limits()
        self._codec = Codec(me, frozenset(neighbors), *shape, limits, agreed, extremes, masks)
        self._codec.limit(most)
        self._closings = core.closings
        self._reset = 0  # epoch of the last reset of all flows; messages from before it are not used
        self.roster_came: Callable[[int, bytes], object] | None = None
        self.names: dict[int, str] = {}  # of the neighbors, for the log
        self._roster = b""  # sent to neighbors that are behind
        self._born = self._serial = core.serial  # of this run's first message, and of its newest
        self._stride = limits.rounds_ahead
        self.barred: frozenset[int] = frozenset()  # the neighbors in quarantine
        self._far = False  # whether a neighbor is further ahead than that
        self._was = clock()
        self._slot = 0.0  # the longest time a round was given, that is, the pace
        self._stopped = False
        self._missing: set[int] = set()  # sent a message in this round, and not heard from yet
        self._uneven = False
        self._in_step = False  # whether the last round heard every neighbor
        self._behind = False  # whether a neighbor is two or more rounds ahead

    def rewire(self, neighbors: Collection[int], most: Floats | None = None) -> None:
        """Continue with these neighbors; what is known about the ones that remain is kept."""
        self._codec.limit(most)
        self.peers = {j: self.peers.get(j) or Peer(j, self._timeout) for j in neighbors}
        self._all = tuple(self.peers.values())
        self._codec.neighbors = frozenset(neighbors)
        self._missing.clear()

    def part(self, neighbors: Collection[int], roster: bytes) -> None:
        """Send the roster to former neighbors: an agent that was removed stops when it reads it."""
        messages = {
            j: roster_payload(roster)
            for j in self.transport.present()
            if j not in neighbors and j in self.peers
        }
        for later in range(_FAREWELLS if messages and roster else 0):
            self.transport.exchange(self.round + later, messages, 0.0, self._deliver_all)

    def bid_farewell(self, neighbors: Collection[int]) -> None:
        """Tell these neighbors, between two rounds, that their edges are closed, and send the final flows."""
        present = self._present()
        messages = {
            j: self._codec.encode(self.round, self.core.farewell(j))
            for j in neighbors
            if j in present and j in self._closings
        }
        for later in range(_FAREWELLS if messages else 0):
            self.transport.exchange(self.round + later, messages, 0.0, self._deliver_all)

    def follow(self, epoch: int, roster: bytes, reset: int = 0) -> None:
        """Use this epoch from now on, and send the signed roster to neighbors that are behind.

        Messages from an epoch before `reset` are not used, because all flows were then set to zero.
        """
        self._reset = reset
        if self._codec.extremes is not None and epoch != self._codec.epoch:
            self._codec.extremes.begin_epoch()
        self._codec.epoch, self._roster = epoch, roster

    def gather(self, seconds: float) -> bool:
        """Wait until all neighbors are connected, at most `seconds`; return whether they are."""
        deadline = self._clock() + seconds
        while not (together := self.transport.present() >= self.peers.keys()):
            if self._stopped or self._clock() >= deadline:
                break
            self.listen(deadline)  # until a neighbor connects
        return together

    def adjust(self, timeout: float, death: float) -> None:
        """Change how long a round waits for neighbors; any thread may call this."""
        self._timeout, self._death, self._slot = timeout, death, 0.0
        for peer in self._all:
            peer.timeout = timeout

    def await_each(self, timeouts: Mapping[int, float]) -> None:
        """Set the timeout of each of these neighbors; without connected neighbors, the longest one applies."""
        for j, timeout in timeouts.items():
            if j in self.peers:
                self.peers[j].timeout = timeout
        self._timeout = max(peer.timeout for peer in self._all) if self._all else self._timeout

    def stop(self) -> None:
        """End the current round without waiting for neighbors; any thread may call this."""
        self._stopped = True
        self.transport.wake()

    def pardon(self) -> None:
        """Accept messages from the neighbors in quarantine again; any thread may call this."""
        for peer in self._all:
            peer.lies = 0
            peer.garbage = 0.0
            peer.quarantined = False
        self.barred = frozenset()

    def listen(self, deadline: float, *, until_called: bool = False) -> None:
        """Receive messages until the deadline, or only the next one if `until_called`; send nothing."""
        deliver = self._deliver_each if until_called else self._deliver_all
        self.transport.exchange(self.round, {}, deadline, deliver)

    def called(self) -> bool:
        """Whether a neighbor has already begun the next round."""
        return any(peer.current or peer.ahead for peer in self.peers.values())

    def step(
        self, observation: Floats, samples: float = 1.0, weight: float | None = None, until: float = 0.0
    ) -> None:
        """Run one round: begin, send, receive, finish. It stays open for missing neighbors at least until `until`."""
        started = self._clock()
        self._slot = max(self._slot, until - started)
        self.core.begin(observation, samples, weight)
        self._serial = self.core.serial
        # An agent that may have fallen behind reads messages first; agents in step are at most one round apart.
        if not self._in_step or started - self._was > self._timeout / 16:
            self.listen(started)
        if self._far:
            self._far = False
            self.round += self._stride
        for peer in self._all:
            if peer.ahead and peer.ahead.round > self.round:  # jump to the latest round heard
                self.round = peer.ahead.round
        present = self._present()
        if self._single is not None:
            self._codec.single = self._single(self.core.estimate)
        outgoing: dict[int, bytes] = {}
        self._missing.clear()
        for peer in self._all:
            if peer.current or peer.ahead:
                self._sort(peer)
            if peer.id in present:
                message = self.core.tell(peer.id, self._held(peer))
                outgoing[peer.id] = self._codec.encode(self.round, message)
                # What an incompatible neighbor sends cannot be used, so there is nothing to wait for.
                if not (peer.current or peer.ahead or peer.foreign or peer.agreed):
                    self._missing.add(peer.id)
        alone = not outgoing
        if self._quiet is not None and not (alone or self._closings):
            known = [p.value for p in self._all if p.id in outgoing and not p.dead]
            if not self._quiet.speaks(self.round, np.frombuffer(message.rows), known):
                outgoing = {}
        self.sent += len(outgoing)
        self._hear(outgoing, alone, started, until)
        self._finish()

    def _sort(self, peer: Peer) -> None:
        """Sort a neighbor's waiting messages into current, later and late."""
        if peer.current and peer.current.round < self.round:
            self._lose(peer)
            peer.current = None
        if peer.ahead and peer.ahead.round <= self.round:
            if peer.ahead.round == self.round:
                peer.current = peer.ahead
            else:
                self._lose(peer)
            peer.ahead = None

    def _held(self, peer: Peer) -> int:
        """Serial of a neighbor's message for this round; 0 if there is none, or if it must not be echoed yet.

        For an agent that has dropped an edge, an echo means that the other end has restarted the edge as well.
        """
        if peer.current is None or standing_of(peer.current) == DROPPED:
            return 0
        return peer.current.serial

    def _lose(self, peer: Peer) -> None:
        peer.late += 1
        self.rejected[Reason.LATE] += 1

    def _hear(self, outgoing: dict[int, bytes], alone: bool, started: float, until: float) -> None:
        """Send, then receive until all neighbors have answered or patience ends; without neighbors, until one
        connects."""
        self._behind = False
        patience = self._patience(alone)
        while not self._stopped:
            deadline = max(started + patience, until) if patience else 0.0
            if self._quiet is not None and 0 < until < deadline:
                deadline = until  # which neighbors have nothing to say is not known
            self.transport.exchange(self.round, outgoing, deadline, self._deliver)
            patience = self._patience(alone)
            if not patience or self._behind or self._clock() >= deadline:
                return
            outgoing = {}

    def _patience(self, alone: bool) -> float:
        """Seconds that this round may still wait for missing neighbors; 0 if none is missing."""
        if alone:
            return 0.0 if self._present() else self._timeout
        if not self._missing:
            return 0.0
        present = self.transport.present()
        patience = 0.0
        self._uneven = False
        for peer in self._all:
            if peer.id in self._missing and peer.id in present:
                patience = max(patience, peer.timeout / (1 << min(peer.silent, _MOST_HALVINGS)))
                # If one of them has been silent, each message may end the wait for the others.
                self._uneven = self._uneven or peer.silent > 0
        return patience

    def _present(self) -> frozenset[int]:
        """The neighbors that are connected and not in quarantine."""
        present = self.transport.present()
        return present - self.barred if self.barred else present

    def _deliver(self, sender: int, payload: bytes) -> bool:
        self._take(sender, payload)
        return not self._missing or self._behind or self._uneven

    def _deliver_each(self, sender: int, payload: bytes) -> bool:
        self._take(sender, payload)
        return True

    def _deliver_all(self, sender: int, payload: bytes) -> bool:
        self._take(sender, payload)
        return False

    def _take(self, sender: int, payload: bytes) -> None:
        self.received += 1
        peer = self.peers.get(sender)
        if peer is not None and peer.quarantined:
            self.rejected[Reason.QUARANTINE] += 1
            return
        message = self._codec.decode(sender, payload, self.round)
        if isinstance(message, Received):
            self._accept(self.peers[sender], message)
        else:
            self._refuse(sender, payload, message)

    def _refuse(self, sender: int, payload: bytes, reason: Reason) -> None:
        peer = self.peers.get(sender)
        if peer is not None and reason in (Reason.SIZE, Reason.GARBAGE) and (roster := roster_of(payload)):
            if self._valid(peer, roster):
                return
            reason = Reason.ROSTER
        else:
            self.rejected[reason] += 1
        self._far = self._far or reason is Reason.FUTURE
        if peer is None:
            return
        if reason is Reason.VERSION:
            peer.foreign = True
        elif reason is Reason.SETTINGS:
            peer.agreed = self._codec.agreed(payload)
        elif reason in _LIES:
            self._suspect(peer, reason)
        elif reason in _GARBAGE:
            now = self._clock()
            peer.garbage = max(peer.garbage - (now - peer.garbage_at), 0.0) + 1.0
            peer.garbage_at = now
            if peer.garbage >= _MOST_GARBAGE:
                self._quarantine(peer, f"it keeps sending what no agent sends ({reason})")

    def _valid(self, peer: Peer, roster: bytes) -> bool:
        """Offer a roster to whoever checks it, unless it came again or too early; return whether it was not refused."""
        refused, seen = self.rejected[Reason.ROSTER], hash(roster)
        if seen == peer.roster_hash:  # messages may be lost, so each is sent several times
            return True
        if self._clock() - peer.roster_at < _ROSTER_EVERY:
            self.rejected[Reason.ROSTER] += 1
        elif self.roster_came:
            peer.roster_at = self._clock()
            self.roster_came(peer.id, roster)
        valid: bool = self.rejected[Reason.ROSTER] == refused
        peer.roster_hash = seen if valid else 0
        return valid

    def _suspect(self, peer: Peer, reason: Reason) -> None:
        """Count an impossible claim; quarantine the neighbor after too many of them."""
        peer.lies += 1
        if peer.lies >= _MOST_LIES:
            self._quarantine(peer, f"it made impossible claims ({reason}) {peer.lies} times")

    def _quarantine(self, peer: Peer, why: str) -> None:
        peer.quarantined = True
        self.barred |= {peer.id}
        peer.current = peer.ahead = None
        self._missing.discard(peer.id)
        log.error(
            "neighbor %s is in quarantine because %s; its flow returns, and the others average without it until this "
            "agent restarts or reloads",
            self.names.get(peer.id, peer.id),
            why,
        )

    def _accept(self, peer: Peer, message: Received) -> None:
        if message.serial <= peer.newest:
            self.rejected[Reason.STALE] += 1
            return
        if message.echo > self._serial:
            self.rejected[Reason.ECHO] += 1
            # Otherwise it may be from an earlier run, with another clock, whose store was lost.
            if peer.answered:
                self._suspect(peer, Reason.ECHO)
            return
        if message.echo >= self._born:
            peer.answered = True
        peer.newest = message.serial
        peer.epoch = message.epoch
        peer.agreed = b""
        peer.foreign = False
        if self._codec.extremes is not None and message.epoch == self._codec.epoch:
            self._codec.extremes.hear(message.extremes)
        peer.quiet = 0.0
        peer.silent = 0
        peer.came_at = self._clock()
        peer.stopped = bool(message.closing & ENDS)
        if message.epoch < self._reset:
            self._missing.discard(peer.id)
            self._lose(peer)
            return
        if message.closing or (self._closings and peer.id in self._closings):
            self.core.hear_closing(peer.id, message)
        if message.closing:
            self._missing.discard(peer.id)
            return
        if message.round < self.round:
            self._lose(peer)
            return
        self._missing.discard(peer.id)
        if message.round == self.round:
            peer.current = message
        else:
            if peer.ahead:
                self._lose(peer)
            peer.ahead = message
            self._behind = self._behind or message.round > self.round + 1

    def _finish(self) -> None:
        now = self._clock()
        # A process that was suspended must not count its own pause as silence of its neighbors.
        elapsed = min(now - self._was, 2 * max(self._timeout, self._slot))
        self._was = now
        heard = {}
        died = []
        behind = {}
        for peer in self._all:
            late = peer.silent == 0 and peer.epoch < self._codec.epoch and bool(peer.newest)
            if late and self._roster and now - peer.reminded_at >= _REMIND:
                peer.reminded_at = now
                behind[peer.id] = roster_payload(self._roster)
            if peer.current:
                heard[peer.id] = peer.current
                if told_value(peer.current):
                    peer.last = peer.current
                peer.current = None
                peer.misses = 0
                peer.dead = False
                peer.used += 1
                peer.heard_at = now
            else:
                peer.misses += 1
                peer.silent += 1
                peer.lost += 1
                peer.quiet += min(elapsed, now - peer.came_at)
                if (peer.quiet >= self._death or peer.quarantined) and not peer.dead:
                    peer.dead = True
                    peer.newest = 0  # when it comes back, it may have lost its store and its clock
                    died.append(peer.id)
        self._in_step = len(heard) == len(self._all)
        self.core.finish(heard)
        for j in died:
            if self.peers[j].quarantined:
                self._closings.pop(j, None)
            self.core.drop(j, at_once=self.peers[j].quarantined)
        self.round += 1
        if behind:
            self.transport.exchange(self.round, behind, 0.0, self._deliver_all)
