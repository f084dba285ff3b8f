"""The door of an agent: who may ask there, how long a connection is good, and what neighbors say while they wait."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.small_fleets import PLAINTEXT, fleet, free_ports, make_certificates
from tests.support.waiting import until

from gossamer.agents.config.settings import OPERATOR, AgentSettings, Neighbor, Tls
from gossamer.agents.membership.certificates import Authority
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.round.transport import Transport
from gossamer.agents.transports import calling
from gossamer.agents.transports.calling import LONGEST_QUESTION, ask
from gossamer.agents.transports.tls import TlsTransport
from gossamer.errors import GossamerError
from gossamer.networks import Network


@contextmanager
def opened(*transports: TlsTransport) -> Iterator[None]:
    try:
        for transport in transports:
            transport.open()
        yield
    finally:
        for transport in transports:
            transport.close()


def seen(transport: Transport) -> frozenset[int]:
    """Who is connected, as an agent that exchanges messages sees it."""
    transport.exchange(0, {}, 0.0, lambda sender, payload: False)
    return transport.present()


def have_met(a: Transport, b: Transport) -> Callable[[], bool]:
    return lambda: seen(a) == {1} and seen(b) == {0}


def two(directory: Path) -> tuple[AgentSettings, AgentSettings]:
    first, second = fleet(Network.path(2), certificates=make_certificates(directory, 2))
    return first, second


# -- questions ------------------------------------------------------------------------------------------------


def echo(name: str, question: bytes) -> bytes:
    return f"{name} asked ".encode() + question


class Office:
    """Agent 0, which answers its members agent0 and agent2 and the operator; agent1 is not one of them any more."""

    def __init__(self, directory: Path) -> None:
        self.certificates = make_certificates(directory / "c", 3)
        self.settings = replace(
            fleet(Network.path(2), certificates=self.certificates)[0], bringers=("agent0", "agent2")
        )
        Authority.load(self.certificates).issue(OPERATOR, [])
        Authority.create(directory / "other", "another").issue("agent2", [])
        self.transport = TlsTransport(self.settings, echo)

    def ask(
        self, name: str, question: bytes = b"", *, whom: str = "agent0", fleet: str = "gossamer"
    ) -> bytes:
        where = self.certificates.parent / "other" if name == "stranger" else self.certificates
        file = "agent2" if name == "stranger" else name
        tls = Tls(self.certificates / "ca.pem", where / f"{file}.pem", where / f"{file}.key")
        return ask(tls, fleet, Neighbor(0, endpoint=self.settings.endpoint, name=whom), question)


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    with opened(made.transport):
        yield made


@pytest.mark.parametrize("name", [OPERATOR, "agent2"])
def test_the_operator_and_members_may_ask(name: str, office: Office) -> None:
    assert office.ask(name) == f"{name} asked ".encode()
    long = bytes(range(256)) * 1000
    assert office.ask(name, long) == f"{name} asked ".encode() + long
    assert office.transport.present() == frozenset()  # a question makes nobody a neighbor


def test_a_removed_member_is_told_the_roster(office: Office) -> None:
    assert office.ask("agent1") == b"agent1 asked "


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("agent1", "agent1 is not a member of this fleet, so it may only ask for the roster"),
        ("stranger", "invalid peer certificate: unable to get local issuer certificate"),
    ],
)
def test_a_removed_member_and_a_stranger_may_bring_nothing(
    name: str, why: str, office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OSError, match="cannot be asked"):
        office.ask(name, b"a roster")
    until(lambda: why in caplog.text, why)
    assert office.ask(OPERATOR, b"still there?") == b"operator asked still there?"


def test_a_question_is_refused(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    """If it is too long, to another fleet, or meant for another agent."""
    with pytest.raises(OSError, match="cannot be asked"):
        office.ask("agent2", bytes(LONGEST_QUESTION + 1))
    why = f"agent2 sent a question of {LONGEST_QUESTION + 1} bytes, which is too long"
    until(lambda: why in caplog.text, why)
    with pytest.raises(OSError, match="cannot be asked"):
        office.ask("agent2", fleet="another")
    until(lambda: "agent2 is an agent of this fleet, but not a neighbor" in caplog.text, "the refusal")
    with pytest.raises(OSError, match="cannot be asked: it is agent0, not agent7"):
        office.ask("agent2", whom="agent7")
    assert len(office.ask("agent2", bytes(LONGEST_QUESTION - 100))) > LONGEST_QUESTION - 100


def test_an_agent_that_answers_nobody_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    office = Office(tmp_path)
    office.transport = TlsTransport(office.settings)
    with opened(office.transport):
        with pytest.raises(OSError, match="cannot be asked"):
            office.ask(OPERATOR)
        until(lambda: "operator is not allowed to ask questions" in caplog.text, "the refusal")


def test_nobody_to_ask(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be asked: Connection refused"):
        Office(tmp_path).ask(OPERATOR)


# -- certificates that end and begin --------------------------------------------------------------------------


def issue(settings: AgentSettings, seconds: float) -> None:
    """Write a certificate that ends so many seconds from now in the place of an agent's own."""
    assert settings.tls is not None
    start = datetime.now(UTC) - timedelta(hours=1)
    Authority.load(settings.tls.authority.parent).issue(
        settings.name, ["127.0.0.1"], start=start, days=(3600 + seconds) / 86400
    )


@pytest.mark.slow  # waits for the end of a certificate
@pytest.mark.parametrize("ends", [0, 1])
def test_a_connection_ends_with_its_certificate(
    ends: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever end the certificate is of; and it does not open another connection."""
    settings = two(tmp_path)
    issue(settings[ends], 3)
    a, b = (TlsTransport(s) for s in settings)
    with caplog.at_level(logging.INFO), opened(a, b):
        until(have_met(a, b), "the connection")
        until(lambda: seen(a) == seen(b) == frozenset(), "its end")
        until(lambda: "certificate has expired" in caplog.text, "the refusal")
        assert seen(a) == seen(b) == frozenset()
        issue(settings[ends], 3600)
        (a, b)[ends].rewire(settings[ends])
        until(have_met(a, b), "the connection with the renewed certificate")


@pytest.mark.parametrize("late", [0, 1])
def test_renewed_certificates_are_taken_into_use(
    late: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the agent that listens, or of the one that connects; both keep running."""
    settings = two(tmp_path)
    issue(settings[late], -60)
    a, b = (TlsTransport(s) for s in settings)
    with caplog.at_level(logging.INFO), opened(a, b):
        until(lambda: "certificate has expired" in caplog.text, "the refusal")
        assert seen(a) == seen(b) == frozenset()
        issue(settings[late], 3600)
        (a, b)[late].rewire(settings[late])
        until(have_met(a, b), "the connection")


def test_a_connection_outlives_a_renewed_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = two(tmp_path)
    a, b = (TlsTransport(s) for s in settings)
    with caplog.at_level(logging.INFO), opened(a, b):
        until(have_met(a, b), "the connection")
        issue(settings[1], 3600)
        b.rewire(settings[1])
        a.rewire(settings[0])
        assert have_met(a, b)()
        assert "disconnected" not in caplog.text


# -- neighbors that change ------------------------------------------------------------------------------------


def test_a_neighbor_that_left_is_shut_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is disconnected at once, and let in again when it is a neighbor again."""
    first, second = two(tmp_path)
    a, b = TlsTransport(first), TlsTransport(second)
    with caplog.at_level(logging.INFO), opened(a, b):
        until(have_met(a, b), "the connection")
        a.rewire(replace(first, neighbors=()))
        assert seen(a) == frozenset()
        until(lambda: seen(b) == frozenset(), "its end at the other side")
        until(lambda: "agent1 is an agent of this fleet, but not a neighbor" in caplog.text, "the refusal")
        a.rewire(first)
        until(have_met(a, b), "the connection")


def test_an_agent_cannot_move_while_it_runs(tmp_path: Path) -> None:
    first, _ = two(tmp_path)
    [port] = free_ports(1)
    transport = TlsTransport(first)
    with (
        opened(transport),
        pytest.raises(GossamerError, match=r"listens on .* until it is restarted.*restart it"),
    ):
        transport.rewire(replace(first, endpoint=f"127.0.0.1:{port}"))


# -- waiting for neighbors ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(PLAINTEXT)
@pytest.mark.parametrize(("settling", "level"), [(15.0, logging.INFO), (0.0, logging.WARNING)])
def test_a_neighbor_that_is_not_there_is_a_warning_only_if_it_lasts(
    settling: float, level: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(calling, "_SETTLING", settling)
    first, second = fleet(Network.path(2))
    with caplog.at_level(logging.INFO), opened(TlsTransport(second)):
        until(lambda: bool(caplog.records), "the complaint")
    assert caplog.records[0].levelno == level
    assert caplog.records[0].getMessage() == (
        f"cannot connect to {first.label} at tcp/{first.endpoint}: Connection refused"
    )


def test_a_neighbor_with_a_false_certificate_is_a_warning_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Waiting would not help."""
    first, second = two(tmp_path / "c")
    issued = Authority.create(tmp_path / "other", "another").issue("agent0", ["127.0.0.1"])
    assert first.tls is not None
    false = replace(first, tls=replace(first.tls, certificate=issued.certificate, key=issued.key))
    with caplog.at_level(logging.INFO), opened(TlsTransport(false), TlsTransport(second)):
        until(lambda: "cannot connect" in caplog.text, "the complaint")
    complaint = next(r for r in caplog.records if "cannot connect" in r.getMessage())
    assert complaint.levelno == logging.WARNING
    assert "invalid peer certificate: unable to get local issuer certificate" in complaint.getMessage()


# -- IPv6 -----------------------------------------------------------------------------------------------------


def ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as trial:
            trial.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not ipv6(), reason="this machine has no IPv6 loopback")
def test_agents_meet_over_ipv6(tmp_path: Path) -> None:
    endpoints = [f"[::1]:{port}" for port in free_ports(2)]
    path = Fleet.create(Network.path(2), endpoints=endpoints).write(tmp_path / "fleet")
    a, b = (TlsTransport(Fleet.read(path).settings(i, path.parent)) for i in range(2))
    with opened(a, b):
        until(have_met(a, b), "the connection")
