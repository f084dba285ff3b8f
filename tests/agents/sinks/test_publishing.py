"""When answers are published, and that a sink that blocks or fails holds up nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.support.waiting import PATIENCE, until

from gossamer.agents.config.urls import Place
from gossamer.agents.sinks import publishing
from gossamer.agents.sinks.kinds import Answer, Sink
from gossamer.agents.sinks.publishing import Publisher
from gossamer.errors import InvalidInput


class Slow(Sink):
    """Waits for the test, and fails if it says so."""

    def __init__(self, url: Any, place: Place) -> None:
        super().__init__(url, place)
        self.go = threading.Semaphore(0)
        self.busy = threading.Event()
        self.error = ""
        self.written: list[Answer] = []
        self.closed = False

    def write(self, answer: Answer) -> None:
        self.busy.set()
        assert self.go.acquire(timeout=PATIENCE)
        if self.error:
            raise OSError(self.error)
        self.written.append(answer)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[Publisher, Slow]:
    monkeypatch.setattr(publishing, "opener", lambda group, kinds, url: Slow)
    publisher = Publisher("slow://{name}?interval=10s", Place(name="pump"))
    sink = publisher._sink
    assert isinstance(sink, Slow)
    return publisher, sink


def test_only_the_newest_answer_waits_and_offers_return_at_once(made: tuple[Publisher, Slow]) -> None:
    publisher, sink = made
    assert publisher.text == "slow://pump"
    publisher.open()
    publisher.offer({"settled": True, "k": 0}, 0.0)
    assert sink.busy.wait(PATIENCE)
    for k in range(1, 1000):  # while the sink is away
        publisher.offer({"settled": True, "k": k}, 10.0 * k)
    sink.go.release(2)
    publisher.close(PATIENCE)
    assert [answer["k"] for answer in sink.written] == [0, 999]
    assert sink.closed


def test_at_most_one_per_interval_and_only_settled_ones(made: tuple[Publisher, Slow]) -> None:
    publisher, sink = made
    sink.go.release(100)
    publisher.open()
    for k, (now, settled) in enumerate(
        [(0, False), (0.5, True), (1, True), (5, True), (10.9, True), (11, True)]
    ):
        publisher.offer({"settled": settled, "k": k}, now)
        if k in (2, 5):
            until(lambda: [a["k"] for a in sink.written][-1:] == [k], "an answer")  # noqa: B023
    publisher.close(PATIENCE)
    assert [answer["k"] for answer in sink.written] == [
        2,
        5,
    ]  # an unsettled agent is looked at again after 1 s


def test_unsettled_answers_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "opener", lambda group, kinds, url: Slow)
    publisher = Publisher("slow://?unsettled=true", Place())
    sink = publisher._sink
    assert isinstance(sink, Slow)
    sink.go.release()
    publisher.open()
    publisher.offer({"settled": False}, 0.0)
    publisher.close(PATIENCE)
    assert sink.written == [{"settled": False}]


def test_a_failure_is_told_until_it_is_over(
    made: tuple[Publisher, Slow], caplog: pytest.LogCaptureFixture
) -> None:
    publisher, sink = made
    publisher.open()
    sink.error = "no route"
    for k in range(3):
        sink.go.release()
        publisher.offer({"settled": True}, 10.0 * k)
        until(lambda: publisher.failing and publisher._answer is None, "a failure")
    assert publisher.failing == "the sink slow://pump fails: no route"
    sink.error = ""
    sink.go.release(2)
    publisher.offer({"settled": True}, 100.0)
    until(lambda: not publisher.failing, "success")
    publisher.close(PATIENCE)
    assert len([r for r in caplog.records if "fails: no route" in r.getMessage()]) == 1
    assert "works again" in caplog.text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("smoke://x", r"sink must be one of file://PATH.*, got 'smoke://x'; `gossamer sources` lists"),
        ("file://", "the sink file://PATH needs a path"),
        ("mqtt://host/a/+", r"mqtt: needs a topic without \+ and #, got 'a/\+'"),
        ("mqtt://host?discovery=a/#", "needs a topic without"),
        ("http:///x", "the sink http://HOST/PATH needs a host"),
        ("http://ann@host/x", "http: needs a user and password_file, or none of both"),
        ("http://host/x?intervall=3s", r"got 'intervall' \(did you mean 'interval'\?\)"),
        ("http://host/x?interval=3", "interval must be a time"),
        ("http://host/x?interval=0s", "interval must be a finite number above 0"),
    ],
)
def test_a_wrong_address_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Publisher(text, Place())
