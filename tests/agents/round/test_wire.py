"""The wire format: what is sent comes back, and nothing else is believed or can do harm."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.agents.config.settings import LARGEST, Limits
from gossamer.agents.round.closing import ENDS
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.messages import Outgoing, Received
from gossamer.agents.round.wire import VERSION, Codec, Reason
from gossamer.agents.transports.memory import Memory
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import ledger_program
from gossamer.networks import Network

N, EDGES = 3, 2
SENDER = Codec(1, frozenset({0}), N, EDGES, Limits())
HEARER = Codec(0, frozenset({1, 2}), N, EDGES, Limits())
finite = st.floats(-1e90, 1e90)


def content(**changes) -> Outgoing:
    plain = {"serial": 9, "echo": 4, "settled": True, "rows": np.ones((3, 3)).tobytes()}
    return Outgoing(**{**plain, **changes})


@given(
    st.integers(0, 2**40),
    st.integers(1, 2**50),
    st.integers(0, 2**50),
    st.booleans(),
    st.lists(finite, min_size=9, max_size=9),
)
def test_round_trip(round: int, serial: int, echo: int, settled: bool, numbers: list[float]) -> None:
    rows = np.array(numbers).tobytes()
    payload = SENDER.encode(round, Outgoing(serial, echo, settled, rows))
    assert len(payload) <= HEARER.longest
    message = HEARER.decode(1, payload, round)
    assert isinstance(message, Received)
    assert (message.sender, message.round) == (1, round)
    assert (message.serial, message.echo, message.settled) == (serial, echo, settled)
    assert message.rows == rows


def packed(*fields: object, head: bytes = b"Gs" + bytes([VERSION])) -> bytes:
    return head + msgspec.msgpack.encode(fields)


ROWS = np.zeros(9).tobytes()
GOOD = (1, 5, 9, 4, True, 2, 1, ROWS, b"")


def changed(place: int, value: object) -> bytes:
    return packed(*(value if k == place else v for k, v in enumerate(GOOD)))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"x" * 10_000, Reason.SIZE),
        (b"", Reason.GARBAGE),
        (b"Gs", Reason.GARBAGE),
        (b"\x00\x00\x01\x90", Reason.GARBAGE),
        (packed(*GOOD, head=b"Gs\x01"), Reason.VERSION),
        (packed(*GOOD)[:-1], Reason.GARBAGE),
        (packed(*GOOD) + b"\x00", Reason.GARBAGE),
        (packed(*GOOD, 8), Reason.GARBAGE),
        (packed(*GOOD, 7, 0), Reason.GARBAGE),
        (packed(*GOOD[:-1]), Reason.GARBAGE),
        (changed(0, 2), Reason.SENDER),
        (changed(1, "5"), Reason.GARBAGE),
        (changed(1, 5.5), Reason.GARBAGE),
        (changed(1, -1), Reason.GARBAGE),
        (changed(2, -1), Reason.GARBAGE),
        (changed(4, 1), Reason.GARBAGE),
        (changed(1, 2**41), Reason.FUTURE),
        (changed(1, 2**63), Reason.FUTURE),
        (changed(2, 2**63), Reason.FUTURE),
        (changed(3, 2**63), Reason.FUTURE),
        (changed(5, -1), Reason.GARBAGE),
        (changed(5, 2**63), Reason.FUTURE),
        (changed(6, 2**63), Reason.FUTURE),
        (changed(7, np.zeros(8).tobytes()), Reason.DIMENSION),
        (changed(7, np.zeros(10).tobytes()), Reason.DIMENSION),
        (changed(7, ROWS + b"\x00"), Reason.DIMENSION),
        (changed(7, b""), Reason.DIMENSION),
        (changed(7, np.full(9, np.nan).tobytes()), Reason.NUMBERS),
        (changed(7, np.array([0.0] * 8 + [np.inf]).tobytes()), Reason.NUMBERS),
        (changed(7, np.array([0.0] * 8 + [-np.inf]).tobytes()), Reason.NUMBERS),
        (changed(7, np.array([-2 * LARGEST] + [0.0] * 8).tobytes()), Reason.NUMBERS),
        (changed(7, np.array([1e300] + [0.0] * 8).tobytes()), Reason.NUMBERS),
    ],
)
def test_reasons(payload: bytes, reason: Reason) -> None:
    assert HEARER.decode(1, payload, 5) is reason
    assert isinstance(HEARER.decode(1, packed(*GOOD), 5), Received)


def test_a_stranger_is_not_believed() -> None:
    assert HEARER.decode(3, packed(3, *GOOD[1:]), 5) is Reason.SENDER


@pytest.mark.slow
@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_any_bytes(payload: bytes) -> None:
    """Never an exception; with the right header in front the decoder itself is reached."""
    for data in (payload, b"Gs" + bytes([VERSION]) + payload):
        assert isinstance(HEARER.decode(1, data, 5), Reason | Received)


def agents_rounds() -> tuple[Conversation, Memory]:
    """Agent 0 of a path 1 - 0 - 2, whose neighbors are played by the test."""
    network = Network.path(3)
    memory = Memory()
    core = Ledger(ledger_program(AnytimeSDA(), network), 0, {1: 0.3, 2: 0.3}, N)
    transport = memory.transport(0, (1, 2))
    transport.open()
    return Conversation(0, core, transport, (1, 2), timeout=0.001), memory


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_bad_messages_are_counted_and_change_nothing(data: st.DataObject) -> None:
    """A neighbor that sends garbage changes no estimate: as if it had sent nothing at all."""
    attacked, memory = agents_rounds()
    quiet, _ = agents_rounds()
    attacker = memory.transport(1, (0,))
    attacker.open()
    sent = 0
    for t in range(4):
        good = bytearray(SENDER.encode(t, content(serial=t + 1)))
        kind = data.draw(st.sampled_from(["bytes", "flip", "cut", "field"]))
        if kind == "bytes":
            payload = data.draw(st.binary(max_size=200))
        elif kind == "cut":
            payload = bytes(good[: data.draw(st.integers(0, len(good) - 1))])
        elif kind == "flip":
            good[0] ^= data.draw(st.integers(1, 255))
            payload = bytes(good)
        else:
            place = data.draw(st.integers(0, 5))
            junk: st.SearchStrategy[object] = st.one_of(
                st.none(),
                st.text(max_size=5),
                st.lists(st.integers(-(2**63), 2**64 - 1), max_size=3),
                st.just(float("nan")),
            )
            payload = changed(place, data.draw(junk))
        attacker.exchange(t, {0: payload}, 0.0, lambda sender, payload: False)
        sent += 1
        for rounds in (attacked, quiet):
            rounds.step(np.full(N, float(t)))
    assert sum(attacked.rejected.values()) == sent
    np.testing.assert_array_equal(attacked.core.estimate, quiet.core.estimate)


def test_stale_late_and_future_rounds() -> None:
    rounds, memory = agents_rounds()
    neighbor = memory.transport(1, (0,))
    neighbor.open()

    def send(round: int, serial: int) -> None:
        payload = SENDER.encode(round, content(serial=serial, echo=0))
        neighbor.exchange(round, {0: payload}, 0.0, lambda sender, payload: False)

    send(0, 10)
    rounds.step(np.zeros(N))
    assert rounds.peers[1].used == 1
    send(1, 10)  # a replay
    send(0, 11)  # of a round that is over
    send(1 + 2**41, 12)  # beyond belief: not used, but the agent goes toward it
    rounds.step(np.zeros(N))
    assert rounds.peers[1].used == 1
    assert rounds.rejected == {Reason.STALE: 1, Reason.LATE: 1, Reason.FUTURE: 1}
    far = 2 + Limits().rounds_ahead
    assert rounds.round == far
    send(far + 500, 13)  # Lamport: the agent jumps
    rounds.step(np.zeros(N))
    assert (rounds.peers[1].used, rounds.round) == (2, far + 501)


def single(codec: Codec, norm: float = 1e30) -> Codec:
    codec.single = norm
    return codec


def test_single_precision_halves_the_rows_unless_both_ends_must_hold_the_same() -> None:
    sender = single(Codec(1, frozenset({0}), N, EDGES, Limits()))
    numbers = np.random.default_rng(0).normal(size=9)
    rounded, exact = numbers.astype("f4").astype(float), numbers.tobytes()
    short = sender.encode(5, Outgoing(9, 4, True, exact))
    assert len(SENDER.encode(5, Outgoing(9, 4, True, exact))) - len(short) == 36
    message = HEARER.decode(1, short, 5)
    assert isinstance(message, Received)
    assert np.array_equal(np.frombuffer(message.rows), rounded)
    final = HEARER.decode(1, sender.encode(5, Outgoing(9, 4, True, exact, closing=ENDS)), 5)
    assert isinstance(final, Received)
    assert final.rows == exact
    large = HEARER.decode(
        1, single(sender, 0.9 * np.sqrt(numbers @ numbers)).encode(5, Outgoing(9, 4, True, exact)), 5
    )
    assert isinstance(large, Received)
    assert large.rows == exact


def test_a_number_at_its_bound_may_be_rounded_up() -> None:
    hearer, sender = (Codec(i, frozenset({1 - i}), N, EDGES, Limits()) for i in (0, 1))
    most = np.full((1 + EDGES, N), 0.1)  # which is larger as float32
    hearer.limit(most)
    told = single(sender).encode(5, Outgoing(9, 4, True, most.tobytes()))
    assert isinstance(hearer.decode(1, told, 5), Received)
    assert (
        hearer.decode(1, sender.encode(5, Outgoing(9, 4, True, (1.001 * most).tobytes())), 5) is Reason.VALUE
    )
