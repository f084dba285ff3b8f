"""Readings from an MQTT broker, each counted exactly once.

The session is persistent: while the agent is away, the broker keeps what is published at QoS 1. A message is
acknowledged (PUBACK) only when the agent's store holds what it said, so a crash loses nothing; the broker then delivers
again what was not acknowledged. That includes messages that are in the store but whose acknowledgment got lost, so the
store also keeps the identities of the latest messages:

    sequence=PATH   the topic and the sequence number in the message
    time=PATH       the topic and the time in the message
    otherwise       a digest of the topic, the payload and the packet identifier, which a repeated delivery has again;
                    it counts only for messages that the broker marks as repeated, because sensors repeat values

A broker repeats at most the messages that it has in flight, whose number a client of MQTT 5 can limit; the window is as
long. In a new session nothing is repeated, and packet identifiers begin again: then digests are forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
from collections import deque
from collections.abc import AsyncGenerator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from gossamer.agents.broker import Broker
from gossamer.agents.config.urls import Place, Url
from gossamer.agents.sources.formats import ReadingFormat, TimedReading
from gossamer.agents.sources.kinds import LiveSource
from gossamer.agents.statistics.readings import Vector, vector
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    from paho.mqtt.client import Client

_WINDOW = 256
"""Number of the latest messages whose identities are kept, and of messages that may be in flight."""

_DIGEST = 8
"""Bytes of an identity."""

_BACKLOG = 10_000
"""Number of messages of QoS 0 that may wait; the broker does not limit them."""


class _Delivery(NamedTuple):
    """A message as the client received it; `connection` numbers the connections of this run."""

    connection: int
    topic: str
    payload: bytes
    packet: int
    qos: int
    retained: bool
    repeated: bool


class _Seen(NamedTuple):
    """A message that was looked at: its number, its identity, and the components that then waited for others."""

    number: int
    identity: bytes
    waiting: tuple[float | None, ...]


class MqttSource(LiveSource):
    """Readings from an MQTT broker, each counted exactly once.

    The path of the address is a topic, which may have wildcards. Several topics with commas between them give the
    components of a vector: one observation as soon as each of them has a new value.
    """

    def __init__(self, url: Url, owner: Place) -> None:
        super().__init__(owner.dimension)
        topics = url.paths
        if not topics or (owner.dimension > 1 and len(topics) not in (1, owner.dimension)):
            raise InvalidInput(
                f"{url.kind}: needs a topic, or one for each of the {owner.dimension} component(s) of an observation "
                f"with commas between them, got {len(topics)}: {url.text!r}"
            )
        self.topics = topics
        self.joins = owner.dimension > 1 and len(topics) > 1
        self.format = ReadingFormat.of(url, owner.dimension, sequence=True)
        self.qos = int(url.text_of("qos", "1", choices=("0", "1")))
        self.retained = url.flag("retained")
        self.broker = Broker(
            url, owner, role="source", session="24h", connected=self._on_connection, says=self._say
        )
        self._identified = bool(self.format.sequence or self.format.time)
        self._count = 0  # messages that were looked at, across restarts
        self._stored = 0  # of which are in the store
        self._waiting: list[float | None] = [None] * owner.dimension
        self._seen: deque[_Seen] = deque()
        self._identities: dict[bytes, int] = {}  # the number of the latest message with each
        self._unacknowledged: deque[tuple[int, int, int]] = deque()  # number, connection, packet
        self._lock = threading.Lock()  # guards the three above and `_connection`
        self._connection = 0
        self._items: asyncio.Queue[_Delivery | bool] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._matches: Any = None

    # -- the agent's side --------------------------------------------------------------------------

    @property
    def position(self) -> bytes:
        return str(self._count).encode()

    def keep(self, position: bytes) -> bytes:
        """The number of a message, what waited after it, and the identities of the latest messages up to it."""
        number = int(position)
        with self._lock:
            seen = [entry for entry in self._seen if entry.number <= number][-_WINDOW:]
        waiting = seen[-1].waiting if seen else ()
        identities = b"".join(entry.identity for entry in seen).hex()
        return json.dumps({"number": number, "waiting": waiting, "identities": identities}).encode()

    def resume(self, kept: bytes) -> None:
        state = json.loads(kept or b"{}")
        if "identities" not in state:  # the position of another source
            return
        identities = bytes.fromhex(state["identities"])
        self._count = self._stored = int(state["number"])
        if len(state["waiting"]) == self.dimension and self.joins:
            self._waiting = list(state["waiting"])
        for k in range(0, len(identities), _DIGEST):
            self._remember(_Seen(self._count, identities[k : k + _DIGEST], tuple(self._waiting)))

    def stored(self, kept: bytes) -> None:
        """Acknowledge what is in the store, in the order in which it came."""
        with self._lock:
            self._stored = max(self._stored, int(json.loads(kept)["number"]))
            ready = []
            while self._unacknowledged and self._unacknowledged[0][0] <= self._stored:
                _, connection, packet = self._unacknowledged.popleft()
                if connection == self._connection:  # otherwise it is delivered again
                    ready.append(packet)
            client = self._client
        if client is not None:
            for packet in ready:
                client.ack(packet, 1)

    def begin(self, stored: int, largest: float) -> None:
        super().begin(stored, largest)
        self.failing = self.broker.failing
        self._client = client = self.broker.client(manual_ack=True)
        self._matches = require("paho.mqtt.client", "mqtt").topic_matches_sub
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe

    async def raw(self) -> AsyncGenerator[_Delivery]:
        self._loop = asyncio.get_running_loop()
        self.broker.start(receive_maximum=_WINDOW)
        try:
            while True:
                item = await self._items.get()
                if isinstance(item, _Delivery):
                    yield item
                elif not item and not self._identified:  # a new session
                    self._forget()
        finally:
            await asyncio.to_thread(self.broker.stop)

    # -- messages ----------------------------------------------------------------------------------

    def understand(self, item: Any) -> Vector | None:
        delivery: _Delivery = item
        identity = _digest(delivery.topic, delivery.payload, delivery.packet)
        try:
            if delivery.retained and not self.retained:
                return None
            known = delivery.repeated and identity in self._identities
            reading = None if known else self._reading(delivery)
            if reading is not None and self._identified:
                sender = "" if math.isnan(reading.time) else repr(reading.time)
                identity = _digest(delivery.topic, reading.sequence or sender)
                known = identity in self._identities
            return None if reading is None or known else self._observation(delivery.topic, reading)
        finally:
            self._note(delivery, identity)

    def _reading(self, delivery: _Delivery) -> TimedReading | None:
        text = delivery.payload.decode("utf-8", "replace")
        if not self.joins:
            return self.format.read(text, self.dimension, self.largest)
        return self.format.component(self._component(delivery.topic)).read(text, 1, self.largest)

    def _component(self, topic: str) -> int:
        return next(k for k, pattern in enumerate(self.topics) if self._matches(pattern, topic))

    def _observation(self, topic: str, reading: TimedReading) -> Vector | None:
        """The reading itself; if it is one component, all of them once each has a new value."""
        if not self.joins:
            return reading.value
        self._waiting[self._component(topic)] = float(reading.value[0])
        if None in self._waiting:
            return None
        values, self._waiting = self._waiting, [None] * self.dimension
        return vector(values, self.dimension, self.largest)

    def _note(self, delivery: _Delivery, identity: bytes) -> None:
        """Number a message that was looked at, remember it, and acknowledge it once it is in the store."""
        with self._lock:
            self._count += 1
            self._remember(_Seen(self._count, identity, tuple(self._waiting) if self.joins else ()))
            if delivery.qos:
                self._unacknowledged.append((self._count, delivery.connection, delivery.packet))

    def _remember(self, entry: _Seen) -> None:
        self._seen.append(entry)
        self._identities[entry.identity] = entry.number
        while len(self._seen) > _WINDOW and self._seen[0].number <= self._stored:
            old = self._seen.popleft()
            if self._identities.get(old.identity) == old.number:
                del self._identities[old.identity]

    def _forget(self) -> None:
        """Forget digests, which are of no use in another session; what waits for others stays."""
        with self._lock:
            self._identities.clear()
            self._seen = deque(entry._replace(identity=bytes(_DIGEST)) for entry in self._seen)

    def _queue(self, item: _Delivery | bool) -> None:
        if isinstance(item, _Delivery) and not item.qos and self._items.qsize() > _BACKLOG:
            self.complain(
                f"messages of QoS 0 must not arrive faster than they are used, got more than {_BACKLOG}"
            )
        else:
            self._items.put_nowait(item)

    # -- the client's thread -------------------------------------------------------------------------

    def _say(self, failing: str) -> None:
        self.failing = failing

    def _hand_over(self, item: _Delivery | bool) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._queue, item)

    def _on_connection(self, session_present: bool) -> None:
        with self._lock:
            self._connection += 1
        self._hand_over(session_present)
        assert self._client is not None
        self._client.subscribe([(topic, self.qos) for topic in self.topics])

    def _on_subscribe(
        self, client: Client, data: object, packet: int, reasons: list[Any], properties: object
    ) -> None:
        refused = [topic for topic, reason in zip(self.topics, reasons, strict=False) if reason.is_failure]
        if refused:
            self.broker.fail(f"refuses the subscription to {', '.join(refused)}")
        else:
            self.broker.works()

    def _on_message(self, client: Client, data: object, message: Any) -> None:
        self._hand_over(
            _Delivery(
                self._connection,
                message.topic,
                bytes(message.payload),
                message.mid,
                message.qos,
                bool(message.retain),
                bool(message.dup),
            )
        )


def _digest(topic: str, content: bytes | str, packet: int = 0) -> bytes:
    data = content if isinstance(content, bytes) else content.encode()
    return blake2b(f"{packet}\0{topic}\0".encode() + data, digest_size=_DIGEST).digest()
