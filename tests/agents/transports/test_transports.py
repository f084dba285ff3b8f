"""One conformance check on all transports, and what is special to each."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.mosquitto import Mosquitto
from tests.support.small_fleets import PLAINTEXT, fleet, hidden, make_certificates
from tests.support.waiting import PATIENCE, until
from tests.support.zenoh_router import MIDDLES, ZenohRouter

from gossamer.agents.config.settings import Neighbor
from gossamer.agents.round.transport import Deliver, Transport
from gossamer.agents.transports import calling
from gossamer.agents.transports.conformance import check
from gossamer.agents.transports.faulty import Faulty
from gossamer.agents.transports.memory import Memory
from gossamer.agents.transports.tls import TlsTransport
from gossamer.errors import GossamerError, InvalidInput
from gossamer.faults import Delay, Faults, Partition
from gossamer.networks import Network

NETWORK = Network.cycle(4)
MPI_FLAGS = ("--map-by", ":oversubscribe", "--mca", "pml", "ob1", "--mca", "btl", "self,sm")


def neighbors_of(i: int) -> tuple[int, ...]:
    return tuple(int(j) for j in NETWORK.neighbors(i))


def check_all(transports: list[Transport]) -> None:
    """Run the check for every agent at once, in a thread each."""
    failures: list[BaseException] = []

    def run(i: int) -> None:
        try:
            check(transports[i], i, neighbors_of(i))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(transports))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def seen(transport: Transport) -> frozenset[int]:
    """Who is connected, as an agent that exchanges messages sees it."""
    transport.exchange(0, {}, 0.0, lambda sender, payload: False)
    return transport.present()


def test_memory_conforms() -> None:
    network = Memory()
    check_all([network.transport(i, neighbors_of(i)) for i in range(4)])


@pytest.mark.filterwarnings(PLAINTEXT)
def test_plaintext_conforms() -> None:
    check_all([TlsTransport(s) for s in fleet(NETWORK)])


def test_tls_conforms(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "ca", 4)
    check_all([TlsTransport(s) for s in fleet(NETWORK, certificates=certificates)])


def test_agents_that_cannot_be_reached_conform(tmp_path: Path) -> None:
    """Whatever their numbers: 0 and 2 of the ring connect to both neighbors, and do not listen."""
    behind = hidden(fleet(NETWORK, certificates=make_certificates(tmp_path / "ca", 4)), (0, 2))
    check_all([TlsTransport(s) for s in behind])
    with pytest.raises(
        InvalidInput, match="neighbors must be reachable if this agent is not and there is no broker"
    ):
        replace(behind[0], neighbors=(Neighbor(1, reachable=False),))
    with pytest.raises(
        InvalidInput, match=r"must have an endpoint, because agent0 connects to them, but agent1 has none"
    ):
        TlsTransport(replace(behind[0], neighbors=(Neighbor(1),)))


@pytest.mark.parametrize("ids", [range(4), (1, 2, 3)], ids=["all", "mixed"])
@pytest.mark.parametrize("middle", MIDDLES)
def test_agents_behind_a_broker_conform(
    tmp_path: Path, middle: Callable[[Path], Mosquitto | ZenohRouter], ids: Sequence[int]
) -> None:
    """All edges through the broker or router, or two of four."""
    broker = middle(tmp_path)
    try:
        settings = fleet(NETWORK, certificates=make_certificates(tmp_path / "ca", 4))
        check_all([TlsTransport(s) for s in hidden(settings, ids, broker.address("site"))])
    finally:
        broker.stop()


@pytest.mark.slow
def test_mpi_conforms(tmp_path: Path) -> None:
    program = tmp_path / "rank.py"
    program.write_text(
        "from mpi4py import MPI\n"
        "from gossamer.agents.transports.conformance import check\n"
        "from gossamer.agents.transports.mpi import MpiTransport\n"
        "me, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()\n"
        "neighbors = tuple(sorted({(me - 1) % size, (me + 1) % size}))\n"
        "check(MpiTransport(neighbors), me, neighbors)\n"
        "MPI.COMM_WORLD.Barrier()\n"
        "print('conforms', me)\n"
    )
    mpiexec = Path(sys.executable).with_name("mpiexec")
    done = subprocess.run(
        [mpiexec, *MPI_FLAGS, "-n", "4", sys.executable, program],
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("conforms") == 4


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["twice", "sender", "deadline"])
def test_the_check_notices(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transport that duplicates, misattributes or ignores deadlines does not conform."""
    from gossamer.agents.transports import conformance

    monkeypatch.setattr(conformance, "_PATIENCE", 1.0)
    monkeypatch.setattr(conformance, "_SLACK", 0.3)
    network = Memory()
    transports = [network.transport(i, neighbors_of(i)) for i in range(4)]

    def wrong(exchange):
        def changed(round: int, outgoing, deadline: float, deliver: Deliver) -> None:
            if fault == "twice":
                exchange(round, outgoing, 0.0, lambda s, p: False)
            if fault == "sender":
                exchange(round, outgoing, deadline, lambda s, p: deliver((s + 1) % 4, p))
            elif fault == "deadline":
                exchange(round, outgoing, deadline if outgoing else deadline + 0.5, deliver)
            else:
                exchange(round, outgoing, deadline, deliver)

        return changed

    monkeypatch.setattr(transports[2], "exchange", wrong(transports[2].exchange))
    with pytest.raises(AssertionError):
        check_all(list(transports))


def test_an_absent_neighbor_is_no_error() -> None:
    network = Memory()
    alone = network.transport(0, (1, 2))
    alone.open()
    assert alone.present() == frozenset()
    started = time.monotonic()
    alone.exchange(0, {1: b"x", 2: b"y"}, started + 0.05, lambda sender, payload: True)
    assert time.monotonic() - started > 0.04
    alone.close()


def test_faults_lose_and_delay() -> None:
    class LosesAndDelays:
        def lost(self, round: int, sender: int, receiver: int) -> bool:
            return round == 1

        def delay(self, round: int, sender: int, receiver: int) -> int:
            return 2 if round == 0 else 0

    network = Memory()
    a, b = Faulty(network.transport(0, (1,)), 0, LosesAndDelays()), network.transport(1, (0,))
    a.open()
    b.open()
    got: list[bytes] = []

    def deliver(sender: int, payload: bytes) -> bool:
        got.append(payload)
        return False

    arrivals = []
    for t in range(4):
        a.exchange(t, {1: str(t).encode()}, 0.0, deliver)
        b.exchange(t, {}, 0.0, deliver)
        arrivals.append(tuple(got))
        got.clear()
    assert arrivals == [(), (), (b"0", b"2"), (b"3",)]


def test_faults_follow_an_agent_that_jumps_ahead() -> None:
    """What is late by two rounds is handed over in the first later round there is, however far away."""
    network = Memory()
    bound = Faults(Delay(2), Partition([0], 1000)).bind(seed=0)
    a, b = Faulty(network.transport(0, (1,)), 0, bound), network.transport(1, (0,))
    a.open()
    b.open()
    got: list[bytes] = []

    def deliver(sender: int, payload: bytes) -> bool:
        got.append(payload)
        return False

    arrivals = []
    for t in (0, 7, 2**40):
        a.exchange(t, {1: str(t).encode()}, 0.0, deliver)
        b.exchange(t, {}, 0.0, deliver)
        arrivals.append(tuple(got))
        got.clear()
    assert arrivals == [(), (b"0",), (b"7",)]


def test_plaintext_warns() -> None:
    settings = fleet(Network.path(2))[0]
    transport = TlsTransport(settings)
    with pytest.warns(UserWarning, match="plaintext"):
        transport.open()
    transport.close()


def test_a_transport_says_what_is_missing(tmp_path: Path) -> None:
    settings = fleet(Network.path(2))[1]
    with pytest.raises(InvalidInput, match="endpoint"):
        TlsTransport(settings.with_(endpoint=""))
    with pytest.raises(InvalidInput, match=r"neighbors must have an endpoint .*agent0 has none"):
        TlsTransport(settings.with_(neighbors=(settings.neighbors[0].__class__(0, 0.5),)))
    transport = TlsTransport(fleet(Network.path(2), certificates=tmp_path)[0])
    with pytest.raises(InvalidInput, match=r"tls.authority must be a readable PEM file, but there is no"):
        transport.open()


@pytest.mark.filterwarnings(PLAINTEXT)
def test_a_port_in_use_is_said() -> None:
    first, second = fleet(Network.path(2))
    holder = TlsTransport(first)
    holder.open()
    try:
        with pytest.raises(GossamerError, match=r"agent1 cannot listen on .*the port must be free"):
            TlsTransport(second.with_(endpoint=first.endpoint)).open()
    finally:
        holder.close()


@pytest.mark.filterwarnings(PLAINTEXT)
def test_a_transport_notices_who_comes_and_goes() -> None:
    first, second = fleet(Network.path(2))
    a, b = TlsTransport(first), TlsTransport(second)
    b.open()
    assert b.present() == frozenset()
    a.open()  # started second, though the other one connects
    until(lambda: seen(a) == {1} and seen(b) == {0}, "seeing each other")
    a.close()
    until(lambda: seen(b) == frozenset(), "seeing it go")
    again = TlsTransport(first)
    again.open()
    until(lambda: seen(b) == {0} and seen(again) == {1}, "seeing it come back")
    again.close()
    b.close()


@pytest.mark.filterwarnings(PLAINTEXT)
def test_closing_does_not_wait_long_for_a_neighbor_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Something listens at the neighbor's port, and says nothing."""
    monkeypatch.setattr(calling, "PATIENCE", 2 * PATIENCE)
    first, second = fleet(Network.path(2))
    host, _, port = first.endpoint.partition(":")
    with socket.socket() as mute:
        mute.bind((host, int(port)))
        mute.listen()
        transport = TlsTransport(second)
        transport.open()
        began = time.monotonic()
        transport.close()
        assert time.monotonic() - began < PATIENCE
