"""Masks that cancel: a secret random number per component and edge, m_ij = -m_ji, so that no value is told as it is.

An agent's values are its own mean plus its flows plus X_i, the sum of the masks of its edges (docs/privacy.md). A mask
is the constant part of its edge's flow that is never told: the flow in messages is without it, and when an edge is
dropped, unlinked or handed over, mask and flow go together. What a message says of the mask of its edge is one byte of
`TELLS`, `OFFERS` and `REFUSES`, and the digest of the mask that the sender has:

- If neither end has a mask, the one with the smaller number draws it from the system's generator.
- An end that has a mask, and hears that the other end does not have the same one, sends it in place of its value
  (`OFFERS`). The other end takes it if it has none, or if the sender's number is smaller.
- An end that hears its own digest knows that the other end has the mask (*sure*). From then on the mask counts.
- An agent tells no value before it is sure of the masks of all its edges but those of dead neighbors: it is *open*
  then. Its observations wait in its own mean. So X_i is complete in the first value that it tells, and the masks of
  agents that open later hide it as well. Once open, it tells its values over every edge of whose mask it is sure.
- The first observation must not be the difference between two values with the same masks. So an agent waits for it for
  `_HOPE` rounds before it opens. If the observation comes still later, the agent starts all its edges anew.
- An edge moves only in rounds in which both ends tell values (`TELLS`).
- An agent with fewer than `least` neighbors that take part does not take part, either: it drops its edges and says so
  (`REFUSES`). So that those who have refused can find together again, an agent that starts, or hears one that refuses
  no longer, takes part for `_HOPE` rounds even if the others refuse, but tells no value in them.

With `refresh` the masks change in every round, so that they hide the differences between readings as well. The ends
agree on a secret (`OFFERS` sends it after the digest), and the mask of an edge is a function of the secret and of an
index k, which messages say after the digest: mask k adds to mask k-1 a normal number with standard deviation
scale/(k+1), from a stream that is keyed with the secret and k. An end that hears its own index may advance to
the next one; an end that hears a larger index, to that one. So an end advances only past an index that the other end
has reached: the two never differ by more than one, whatever is lost, and the average is off by at most the last
increment of such edges, which vanishes as k grows. An end that is restored from an older store is behind, and advances
past the other's index.

A mask that changes in one value, and an observation that enters the next one, would hide nothing from each other. So an
agent that is open advances with all its edges at once, or not at all, and takes new observations only when it does
(`fresh`). An agent that starts again, with a store or without, tells no value before it has advanced past the indices
of the other ends, because it may have told values with these.

So whatever is lost, whoever is killed or restored from an older store, the two ends of an edge that moves have the same
mask. Only the ends of an edge ever see its mask; it is in their stores, and in no log, status or metric.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b

import numpy as np

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.messages import Outgoing
from gossamer.agents.statistics.layout import Layout
from gossamer.arrays import Floats
from gossamer.errors import Unsupported
from gossamer.methods.ledger import LedgerProgram

TELLS, OFFERS, REFUSES = 1, 2, 4

LARGEST_MASK = 8.6
"""The largest mask in standard deviations: `gauss` makes at most sqrt(2 ln 2^53) = 8.57 of 53 random bits."""

REFRESHED = math.pi / math.sqrt(6)
"""Standard deviation of a mask after all its changes, as a multiple of that of the first one."""

_DIGEST, _INDEX, _SECRET = 8, 8, 32
_STEPS = 1000
"""Largest number of changes of a mask that an end catches up with in one round."""

_HOPE = 64

AWAITED = _HOPE
"""Age of an agent from which on it tells values although it has observed nothing."""


def told_value(message: Outgoing) -> bool:
    """Whether the first row of a message is a value; otherwise it is a mask, or zero."""
    mask = message.mask
    return not mask or bool(mask[0] & TELLS)


def well_formed(mask: bytes) -> bool:
    """Whether a message of a fleet with masks can say this about a mask."""
    # flags and a digest, an index, a secret
    return len(mask) in (9, 17, 49) or mask in (b"\0", b"\x04")


def draw_normals(size: int) -> Floats:
    """Standard normal numbers from the operating system's generator."""
    source = secrets.SystemRandom()
    return np.array([source.gauss(0.0, 1.0) for _ in range(size)])


def stream(secret: bytes, index: int, size: int) -> Floats:
    """(size,) standard normal numbers that are a function of a secret and an index."""
    # Only fleets with masks that change need this package here.
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key = HKDF(hashes.SHA256(), 32, None, b"gossamer mask").derive(secret)
    cipher = Cipher(algorithms.ChaCha20(key, bytes(8) + index.to_bytes(8, "little")), mode=None)
    bits = np.frombuffer(cipher.encryptor().update(bytes(16 * size)), "<u8") >> np.uint64(11)
    radius, angle = np.split(bits * 2.0**-53, 2)
    normals: Floats = np.sqrt(-2 * np.log(1 - radius)) * np.cos(2 * np.pi * angle)
    return normals


def check_maskable(program: LedgerProgram) -> None:
    """Raise unless a constant flow shows in values and answers as if it were added to the observations."""
    first = len(program.own) + 1
    shows = (program.tell[:, 0, first:-1], program.estimate[:, first:-1], program.step[:, :, 1:])
    if not all(np.allclose(part.sum(axis=-1), 1.0) for part in shows):
        raise Unsupported(
            f"needs a method that adds flows to what it averages, and {program.method} does not; leave mask out, or "
            "use anytime-sda",
            parameter="mask",
        )


def scales_of(scale: tuple[float, ...], layout: Layout, program: LedgerProgram) -> Floats | None:
    """The standard deviations of the masks of all averaged components; None if the fleet has no masks."""
    if not scale:
        return None
    check_maskable(program)
    return layout.masks(scale)


def spread_of(settings: AgentSettings, layout: Layout, program: LedgerProgram) -> Floats | None:
    """The standard deviations that these masks can reach; None if the fleet has no masks."""
    scales = scales_of(settings.mask, layout, program)
    return scales * REFRESHED if scales is not None and settings.refresh else scales


class MaskedEdge:
    """What one end knows of the mask of its edge.

    mask     (n,) as this end adds it; None: it has none
    digest   that of the mask, or of the secret from which it is drawn, the same at both ends
    secret   with `refresh`, what the mask is drawn from
    index    with `refresh`, how often the mask has changed
    counts   whether the other end has confirmed it since it was drawn or taken
    inside   whether it is in this agent's values; it stays there until the edge is dropped
    sure     whether the other end had it, too, when it was heard last
    refuses  whether the other end does not take part
    answers  whether the other end tells values
    tells    whether this end tells values in the current round
    heard    with `refresh`, the index of the other end that was heard last
    level    whether the other end's mask has changed as often
    rests    whether nothing has moved since the edge got its mask
    said     what messages say of the mask
    """

    def __init__(self) -> None:
        self.refuses = False
        self.forget()

    @property
    def agrees(self) -> bool:
        """Whether the other end has the same mask, or both have none."""
        return (self.sure and self.level) or not self.counts

    def forget(self) -> None:
        self.mask: Floats | None = None
        self.digest = self.secret = b""
        self.index = 0
        self.heard = -1
        self.counts = self.inside = self.sure = self.answers = self.tells = False
        self.rests = self.level = True
        self.said = b"\0"

    def hold(self, mask: Floats, digest: bytes) -> None:
        self.forget()
        self.mask, self.digest = mask, digest


class Masking:
    """The masks of one agent's edges; see the top of this file.

    scales  (n,) the standard deviation of a mask in each component; 0: it is not masked
    least   with fewer live edges than this, the agent does not take part
    draw    gives as many standard normal numbers as it is asked for
    known   with masks that change: the restored secrets and indices; None if masks do not change
    stream  gives the normal numbers of a secret and an index

    opened    whether the agent has been sure of the masks of all its edges
    refusing  whether it does not take part
    stale     whether `update` has something to do
    fresh     whether observations may enter the next values, because the masks in them are others than in the last ones
    """

    def __init__(
        self,
        me: int,
        scales: Floats,
        least: int = 1,
        restored: Mapping[int, Floats] | None = None,
        draw: Callable[[int], Floats] = draw_normals,
        known: Mapping[int, tuple[bytes, int]] | None = None,
        stream: Callable[[bytes, int, int], Floats] = stream,
    ) -> None:
        self.me = me
        self.scales = scales
        self.least = least
        self.refusing = False
        self.stale = True
        self._hope = _HOPE  # rounds in which it waits for others that refuse
        self._live: Collection[int] = ()
        self.edges: dict[int, MaskedEdge] = {}
        self.opened = bool(restored)
        self._draw, self._stream = draw, stream
        self.refresh = known is not None
        self.fresh = True
        self._again = self.refresh and self.opened  # it may have told values with the same masks
        for j, mask in (restored or {}).items():
            edge = self.edges[j] = MaskedEdge()
            if known is None:
                edge.hold(mask, self._digest(j, mask))
            elif j in known:
                edge.hold(mask, _digest(known[j][0]))
                edge.secret, edge.index = known[j]
            edge.counts = edge.inside = edge.mask is not None

    def rewire(self, neighbors: Collection[int], *, anew: bool = False) -> None:
        """Continue with these neighbors; `anew`: without the masks so far."""
        if anew:
            self.edges, self.opened = {}, False
        self.edges = {j: self.edges.get(j) or MaskedEdge() for j in sorted(neighbors)}
        self.stale = True

    @property
    def kept(self) -> dict[int, Floats]:
        """The masks that are in the agent's values, by neighbor."""
        return {j: edge.mask for j, edge in self.edges.items() if edge.mask is not None and edge.inside}

    @property
    def secrets(self) -> dict[int, tuple[bytes, int]]:
        """The secrets and indices of these masks, if they change."""
        return {j: (self.edges[j].secret, self.edges[j].index) for j in self.kept if self.refresh}

    @property
    def total(self) -> Floats:
        """X_i, (n,)."""
        total: Floats = sum(self.kept.values(), np.zeros(len(self.scales)))
        return total

    @property
    def unanswered(self) -> Floats:
        """The part of X_i that the other ends do not tell the opposite of, (n,)."""
        silent = (mask for j, mask in self.kept.items() if not self.edges[j].answers)
        total: Floats = sum(silent, np.zeros(len(self.scales)))
        return total

    def forget(self, neighbor: int) -> Floats | None:
        """Give up the mask of an edge; return it if it is in the agent's values."""
        mask = self.kept.get(neighbor)
        self.edges[neighbor].forget()
        self.stale = True
        return mask

    def waits_for(self, live: Collection[int]) -> list[int]:
        """The neighbors, of those alive, on whose masks the agent waits before it tells values."""
        if self.opened or self.refusing:
            return []
        return [j for j in live if not self.edges[j].sure and not self.edges[j].refuses]

    def say(self, neighbor: int, rows: bytes) -> tuple[bytes, bytes]:
        """What a message says of the mask, and its rows: with a value, the mask, or zeros in the first one."""
        edge = self.edges[neighbor]
        if edge.tells:
            return edge.said, rows
        size = 8 * len(self.scales)
        offers = edge.mask is not None and not self.refresh and edge.said[0] & OFFERS
        return edge.said, (edge.mask.tobytes() if offers else bytes(size)) + rows[size:]  # type: ignore[union-attr]

    def hear(self, neighbor: int, message: Outgoing, rests: bool = False) -> bool:
        """Take what a message says of the mask; return whether both ends tell values in this round.

        The mask of an edge that `rests` does not change any more.
        """
        edge, theirs = self.edges[neighbor], message.mask
        if edge.tells and theirs == edge.said:
            edge.answers = edge.level = True
            if self.refresh:
                edge.heard, self.stale = edge.index, True
            return True
        self.stale = True
        tells, flags, digest = edge.tells, theirs[0], theirs[1 : 1 + _DIGEST]
        index, secret = int.from_bytes(theirs[9:17], "little"), theirs[17:]
        if edge.refuses and not flags & REFUSES:
            self._hope = _HOPE
        edge.refuses = bool(flags & REFUSES)
        edge.answers = bool(flags & TELLS)
        if self.refusing or edge.refuses:
            return False
        if flags & OFFERS and digest != edge.digest and (not edge.digest or neighbor < self.me):
            if self.refresh:
                if digest == _digest(secret):
                    self._begin(neighbor, secret)
                    self._again = self._again or index > 0
            else:
                mask = -np.frombuffer(message.rows, count=len(self.scales))
                if digest == self._digest(neighbor, mask):
                    edge.hold(mask, digest)
        elif not (edge.digest or digest) and self.me < neighbor:
            if self.refresh:
                self._begin(neighbor, secrets.token_bytes(_SECRET))
            else:
                mask = self.scales * self._draw(len(self.scales))
                edge.hold(mask, self._digest(neighbor, mask))
        edge.sure = bool(digest) and digest == edge.digest
        edge.counts = edge.counts or edge.sure
        if self.refresh and edge.sure:
            edge.level = index == edge.index
            edge.heard = min(index, edge.index + _STEPS)
            if rests:
                self._advance(neighbor, edge.heard)
        return tells and edge.sure and edge.answers

    def _begin(self, neighbor: int, secret: bytes) -> None:
        """Hold the first mask of a secret."""
        self.edges[neighbor].hold(np.zeros(len(self.scales)), _digest(secret))
        self.edges[neighbor].secret, self.edges[neighbor].index = secret, -1
        self._advance(neighbor, 0)

    def _advance(self, neighbor: int, index: int) -> None:
        """Let a mask change until it has this index, if that is larger."""
        edge = self.edges[neighbor]
        assert edge.mask is not None
        for k in range(edge.index + 1, index + 1):
            change = self.scales * self._stream(edge.secret, k, len(self.scales)) / (k + 1)
            edge.mask = edge.mask + (change if self.me < neighbor else -change)
            edge.index, self.stale = k, True

    def begins(self, neighbor: int) -> bool:
        """Whether an edge that moves now has not moved since it got its mask."""
        edge = self.edges[neighbor]
        rests, edge.rests = edge.rests, False
        return rests

    def _change(self, live: Collection[int]) -> None:
        """Let the masks of these edges change: in an agent that is open, all of them or none."""
        may = [j for j in live if self.edges[j].sure and self.edges[j].heard >= self.edges[j].index]
        together = len(may) == len(live)
        self.fresh = not self.opened or together
        for j in may if self.fresh else ():
            edge = self.edges[j]
            self._advance(j, edge.heard + 1 if self._again else max(edge.index + 1, edge.heard))
        self._again = self._again and not together

    def update(self, live: Collection[int], observed: bool = True) -> None:
        """Decide what the next messages say, if these neighbors' edges are neither dropped nor closed.

        observed  whether the agent has observed something, or has waited long enough for it
        """
        ready = self._ready(live)
        few = len(ready) < self.least
        if not set(live) <= set(self._live):
            self._hope = _HOPE
        self._live, self.stale = live, few and self._hope > 0
        self._hope -= self.stale
        self.refusing = len(live) < self.least or (few and not self._hope)
        if self.refresh:
            self._change(ready)
        self.opened = not few and (self.opened or (observed and all(self.edges[j].sure for j in ready)))
        for edge in self.edges.values():
            edge.inside = edge.inside or (self.opened and edge.counts)
            edge.tells = self.opened and edge.sure and not self._again
            offers = edge.mask is not None and not edge.sure
            flags = REFUSES if self.refusing else TELLS if edge.tells else OFFERS if offers else 0
            edge.said = bytes([flags]) + edge.digest
            if self.refresh and edge.digest:
                edge.said += edge.index.to_bytes(_INDEX, "little") + (edge.secret if flags & OFFERS else b"")

    def withdraws(self, live: Collection[int]) -> bool:
        """Whether the agent must drop its edges, because too few of its neighbors take part."""
        return len(self._ready(live)) < self.least and any(edge.counts for edge in self.edges.values())

    def _ready(self, live: Collection[int]) -> list[int]:
        return [j for j in live if not self.edges[j].refuses]

    def _digest(self, neighbor: int, mask: Floats) -> bytes:
        """The digest of a mask, as the end with the smaller number adds it."""
        content = mask if self.me < neighbor else -mask
        return blake2b(content.astype("<f8").tobytes(), digest_size=_DIGEST).digest()


def _digest(secret: bytes) -> bytes:
    return blake2b(secret, digest_size=_DIGEST).digest()
