"""The conformance check of transports: what every implementation must do, for anyone's implementation.

    check(transport, me, neighbours)      run by every agent of a small connected fleet at the same time

Each agent runs `check` with its own transport (in its own thread, process or rank). It raises AssertionError,
with a text, at the first promise that is not kept.
"""

from __future__ import annotations

import time

from gossamer.agents.transports.base import Transport

ROUNDS = 20
_PATIENCE = 20.0


def check(transport: Transport, me: int, neighbours: tuple[int, ...]) -> None:
    """Open the transport, hold every promise of `Transport` against it, and close it."""
    assert isinstance(transport, Transport), f"{type(transport).__name__} lacks a method of Transport"
    transport.open()
    try:
        _neighbours_appear(transport, neighbours)
        backlog: list[tuple[int, bytes]] = []
        _every_message_arrives_once(transport, me, neighbours, backlog)
        _large_and_binary_payloads(transport, me, neighbours, backlog)
        _silence_ends_at_the_deadline(transport, backlog)
        _wake_ends_an_exchange(transport)
        _everybody_is_done(transport, me, neighbours)
    finally:
        transport.close()
        transport.close()


def _neighbours_appear(transport: Transport, neighbours: tuple[int, ...]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while transport.present() < frozenset(neighbours) and time.monotonic() < deadline:
        transport.exchange(0, {}, time.monotonic() + 0.02, lambda sender, payload: True)
    assert transport.present() == frozenset(neighbours), (
        f"present() must come to name the neighbours {neighbours}, but it is {transport.present()}"
    )


def _collect(
    transport: Transport,
    outgoing: dict[int, bytes],
    wanted: set[tuple[int, bytes]],
    backlog: list[tuple[int, bytes]],
) -> None:
    """Send, then receive until all of `wanted` came; what belongs to a later step goes to the backlog."""
    missing = set(wanted)
    for item in list(backlog):
        if item in missing:
            missing.remove(item)
            backlog.remove(item)

    def deliver(sender: int, payload: bytes) -> bool:
        assert isinstance(payload, bytes), f"payloads are bytes, but {type(payload).__name__} came"
        if (sender, payload) in missing:
            missing.remove((sender, payload))
        else:
            assert (sender, payload) not in wanted, f"a message from {sender} came twice"
            backlog.append((sender, payload))
        return not missing

    deadline = time.monotonic() + _PATIENCE
    transport.exchange(0, outgoing, deadline if missing else 0.0, deliver)
    while missing and time.monotonic() < deadline:  # an exchange may end early when a neighbour comes or goes
        transport.exchange(0, {}, deadline, deliver)
    assert not missing, (
        f"{len(missing)} messages never came, from {sorted({sender for sender, _ in missing})}"
    )


def _every_message_arrives_once(
    transport: Transport, me: int, neighbours: tuple[int, ...], backlog: list[tuple[int, bytes]]
) -> None:
    for t in range(ROUNDS):
        outgoing = {j: f"{t} from {me} to {j}".encode() for j in neighbours}
        _collect(transport, outgoing, {(j, f"{t} from {j} to {me}".encode()) for j in neighbours}, backlog)


def _large_and_binary_payloads(
    transport: Transport, me: int, neighbours: tuple[int, ...], backlog: list[tuple[int, bytes]]
) -> None:
    body = bytes(range(256)) * 400
    wanted = {(j, bytes([j]) + body) for j in neighbours}
    _collect(transport, dict.fromkeys(neighbours, bytes([me]) + body), wanted, backlog)


def _silence_ends_at_the_deadline(transport: Transport, backlog: list[tuple[int, bytes]]) -> None:
    def deliver(sender: int, payload: bytes) -> bool:
        backlog.append((sender, payload))
        return False

    started = time.monotonic()
    while time.monotonic() < started + 0.1:  # it may end early when a neighbour comes or goes
        transport.exchange(0, {}, started + 0.1, deliver)
    assert time.monotonic() - started < 5.0, "exchange must end at its deadline, but it went on"
    transport.exchange(0, {}, 0.0, deliver)


def _wake_ends_an_exchange(transport: Transport) -> None:
    started = time.monotonic()
    transport.wake()
    transport.exchange(0, {}, started + _PATIENCE, lambda sender, payload: True)
    assert time.monotonic() - started < _PATIENCE / 2, "wake must end an exchange, but it went on"


def _everybody_is_done(transport: Transport, me: int, neighbours: tuple[int, ...]) -> None:
    """Stay until the neighbours are done too: leaving early is an absence, which is not tested here."""
    farewells: set[int] = set()

    def deliver(sender: int, payload: bytes) -> bool:
        if payload == b"done":
            farewells.add(sender)
        return farewells >= set(neighbours)

    deadline = time.monotonic() + _PATIENCE
    outgoing = dict.fromkeys(neighbours, b"done")
    while farewells < set(neighbours) and time.monotonic() < deadline:
        transport.exchange(0, outgoing, deadline, deliver)
        outgoing = {}
