"""Readings from an MQTT broker, each counted exactly once.

The session is persistent: while the agent is away, the broker keeps what is published at QoS 1. A message is
acknowledged (PUBACK) only when the agent's store holds what it said, so a crash loses nothing; the broker then delivers
again what was not acknowledged. That includes messages that are in the store but whose acknowledgment got lost, so the
store also keeps the identities of the latest messages:

    sequence=PATH   the topic, the reading, and its sequence number (and its time, if it is known)
    time=PATH       the topic, the reading, and its time
    otherwise       a digest of the topic, the payload and the packet identifier, which a repeated delivery has again;
                    it counts only for messages that the broker marks as repeated, because sensors repeat values

A broker may repeat every message whose acknowledgment it has not processed. A client of MQTT 5 can limit their number,
but Mosquitto 2.0 exceeds the limit, by 20 messages for each acknowledgment, so identities are kept until the broker is
known to have the acknowledgment. It handles packets in order: it has all acknowledgments that were sent before an
UNSUBSCRIBE (of a topic that was never subscribed to) which it answers. After a reconnection it repeats messages before
it sends new ones. In a new session nothing is repeated, and packet identifiers begin again: then digests are forgotten.

A session also keeps its subscriptions. So the store keeps the topics, and those of an earlier run are unsubscribed;
what the broker had queued for them is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import threading
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from gossamer.agents.broker import Broker, check_topic
from gossamer.agents.config.urls import Place, Url
from gossamer.agents.sources.formats import ReadingFormat, TimedReading
from gossamer.agents.sources.kinds import LiveSource
from gossamer.agents.statistics.readings import LINE_LIMIT, BadObservation, Vector, vector
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    from paho.mqtt.client import Client

log = logging.getLogger("gossamer.agents.sources.opening")

_WINDOW = 256
"""Number of the latest messages whose identities are always kept, and the limit on messages in flight that a broker is
asked to respect."""

_CONFIRMED = 128
"""Number of acknowledgments after which the broker is asked to confirm that it has processed them."""

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


@dataclass(slots=True)
class _Seen:
    """A message that was looked at: when, on which connection it came last, and whether it cannot be repeated."""

    number: int
    connection: int
    final: bool = False


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
        for topic in topics:
            check_topic(url.kind, topic, wildcards=True)
        self.topics = topics
        self._patterns = [re.sub(r"^\$share/[^/]*/", "", topic) for topic in topics]
        self._left: list[str] = []  # topics of an earlier run
        self._leaving = False  # whether the broker has not yet confirmed that it forgot them
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
        self._waited: deque[tuple[int, list[float | None]]] = (
            deque()
        )  # what waited after a message of this number
        self._seen: dict[bytes, _Seen] = {}  # by identity, in the order in which they came last
        self._unacknowledged: deque[tuple[int, int, int, bytes]] = (
            deque()
        )  # number, connection, packet, identity
        self._acknowledged: deque[bytes] = deque()  # on this connection, and not confirmed
        self._asked = 0  # how many of them the broker was asked to confirm
        self._new = 0  # messages of this connection that were not repeated
        self._lock = threading.Lock()  # guards all of these and `_connection`
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
        """Return the number of a message, what waited after it, and the identities of the latest messages up to it."""
        number = int(position)
        with self._lock:
            identities = b"".join(key for key, seen in self._seen.items() if seen.number <= number).hex()
            waiting = next((w for k, w in reversed(self._waited) if k <= number), [])
        kept = {"number": number, "waiting": waiting, "identities": identities, "topics": self.topics}
        return json.dumps(kept).encode()

    def resume(self, kept: bytes) -> None:
        state = json.loads(kept or b"{}")
        if "identities" not in state:  # the position of another source
            return
        identities = bytes.fromhex(state["identities"])
        topics = state.get("topics", self.topics)
        self._left = [topic for topic in topics if topic not in self.topics]
        self._count = self._stored = int(state["number"])
        if len(state["waiting"]) == self.dimension and self.joins and topics == self.topics:
            self._waiting = list(state["waiting"])
            self._waited.append((self._count, list(self._waiting)))
        for k in range(0, len(identities), _DIGEST):
            self._seen[identities[k : k + _DIGEST]] = _Seen(self._count, 0)

    def stored(self, kept: bytes) -> None:
        """Acknowledge what is in the store, in the order in which it came."""
        client = self._client
        # The client would send an acknowledgment even before it has introduced itself again.
        connected = client is not None and client.is_connected()
        with self._lock:
            self._stored = max(self._stored, int(json.loads(kept)["number"]))
            while len(self._waited) > 1 and self._waited[1][0] <= self._stored:
                self._waited.popleft()
            ready = []
            while self._unacknowledged and self._unacknowledged[0][0] <= self._stored:
                _, connection, packet, identity = self._unacknowledged.popleft()
                if connected and connection == self._connection:  # otherwise it is delivered again
                    ready.append(packet)
                    self._acknowledged.append(identity)
            asks = not self._asked and len(self._acknowledged) >= _CONFIRMED
            if asks:
                self._asked = len(self._acknowledged)
        if client is not None:
            for packet in ready:
                client.ack(packet, 1)
            if asks:
                client.unsubscribe(f"{self.broker.client_id}/acknowledged")

    def begin(self, stored: int, largest: float) -> None:
        super().begin(stored, largest)
        self.failing = self.broker.failing
        self._client = client = self.broker.client(manual_ack=True)
        self._matches = require("paho.mqtt.client", "mqtt").topic_matches_sub
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_confirmation

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
        known = delivery.repeated and identity in self._seen
        try:
            if delivery.retained and not self.retained:
                return None
            reading = None if known else self._reading(delivery)
            if reading is not None and self._identified:
                identity = _digest(delivery.topic, str((*reading[1:], reading.value.tolist())))
                known = identity in self._seen
            return None if reading is None or known else self._observation(delivery.topic, reading)
        finally:
            self._note(delivery, identity, known)

    def _reading(self, delivery: _Delivery) -> TimedReading | None:
        if len(delivery.payload) > LINE_LIMIT:
            raise BadObservation(f"a reading must be a short text, got {len(delivery.payload)} bytes")
        text = delivery.payload.decode("utf-8", "replace")
        component = self._component(delivery.topic)
        if not self.joins:
            return self.format.read(text, self.dimension, self.largest)
        return self.format.component(component).read(text, 1, self.largest)

    def _component(self, topic: str) -> int:
        for k, pattern in enumerate(self._patterns):
            if self._matches(pattern, topic):
                return k
        raise BadObservation(f"a reading must be from {','.join(self.topics)}, got one from {topic}")

    def _observation(self, topic: str, reading: TimedReading) -> Vector | None:
        """Return the reading itself; if it is one component, all of them once each has a new value."""
        if not self.joins:
            return reading.value
        self._waiting[self._component(topic)] = float(reading.value[0])
        if None in self._waiting:
            return None
        values, self._waiting = self._waiting, [None] * self.dimension
        return vector(values, self.dimension, self.largest)

    def _note(self, delivery: _Delivery, identity: bytes, known: bool) -> None:
        """Number a message that was looked at, remember it, and acknowledge it once it is in the store."""
        with self._lock:
            self._count += 1
            earlier = self._seen.pop(identity, None)
            number = earlier.number if earlier and known else self._count  # of the message that was counted
            self._seen[identity] = _Seen(number, delivery.connection, final=not delivery.qos)
            self._new += not known and delivery.connection == self._connection
            if self.joins:
                self._waited.append((self._count, list(self._waiting)))
            if delivery.qos:
                self._unacknowledged.append((self._count, delivery.connection, delivery.packet, identity))
            self._trim()

    def _trim(self) -> None:
        """Forget the oldest identities that no message can have again."""
        while len(self._seen) > _WINDOW:
            identity, seen = next(iter(self._seen.items()))
            repeated = seen.connection < self._connection and self._new > _WINDOW
            if seen.number > self._stored or not (seen.final or repeated):
                return
            del self._seen[identity]

    def _forget(self) -> None:
        """Forget digests, which are of no use in another session; what waits for others stays."""
        with self._lock:
            self._seen.clear()

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
        self._begin_connection()
        self._hand_over(session_present)
        assert self._client is not None
        if not session_present and self._count and self.broker.session:
            log.warning(
                "%s", f"the broker {self.broker.name} has kept no messages for this agent since they parted"
            )
        self._leaving = session_present and bool(self._left)
        if self._leaving:
            self._client.unsubscribe(self._left)
        self._client.subscribe([(topic, self.qos) for topic in self.topics])

    def _begin_connection(self) -> None:
        """Count a connection; what was not confirmed on the previous one may be delivered again."""
        with self._lock:
            self._connection += 1
            self._new = self._asked = 0
            self._acknowledged.clear()

    def _on_subscribe(
        self, client: Client, data: object, packet: int, reasons: list[Any], properties: object
    ) -> None:
        refused = [topic for topic, reason in zip(self.topics, reasons, strict=False) if reason.is_failure]
        if refused:
            self.broker.fail(f"refuses the subscription to {', '.join(refused)}")
        else:
            self.broker.works()

    def _on_confirmation(
        self, client: Client, data: object, packet: int, reasons: list[Any], properties: object
    ) -> None:
        """Note that the broker has the acknowledgments that were sent before it was asked."""
        if self._leaving:
            self._leaving, self._left = False, []
            return
        with self._lock:
            for _ in range(self._asked):
                seen = self._seen.get(self._acknowledged.popleft())
                if seen is not None and seen.connection == self._connection:
                    seen.final = True
            self._asked = 0

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
