"""What an agent serves over HTTP: the paths, and that nobody can get in the way of others."""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from tests.support.small_fleets import free_ports
from tests.support.snapshots import some_snapshot, view
from tests.support.waiting import until

from gossamer.agents.host.metrics import AgentCollector
from gossamer.agents.host.status import Status, StatusReport
from gossamer.agents.host.web import CONNECTIONS, readiness, serve
from gossamer.agents.sources.opening import FromIterable


class Place:
    """An agent's metrics on a port, and the snapshot they show."""

    def __init__(self) -> None:
        self.now = some_snapshot()
        self.port = free_ports(1)[0]
        report = StatusReport("pump", FromIterable(1, []))
        self.stop = serve(
            AgentCollector(lambda: self.now, "pump"), lambda: report.content(self.now), self.port
        )

    def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode(), answer.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.headers["Content-Type"]


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    try:
        yield made
    finally:
        made.stop()


def test_the_paths(place: Place) -> None:
    status, text, kind = place.get("/metrics")
    assert status == 200
    assert kind.startswith("text/plain; version=")
    assert 'gossamer_round{agent="pump"} 7.0' in text
    assert place.get("/metrics?name[]=x")[0] == 200
    status, text, kind = place.get("/status")
    assert (status, kind) == (200, "application/json")
    assert Status.parse(text.encode())[0].rounds == 6
    assert place.get("/healthz")[:2] == (200, "ok\n")
    assert place.get("/readyz")[:2] == (200, "ok\n")
    for path in ("/", "/metric", "/metrics/", "/../etc/passwd", "/favicon.ico"):
        assert place.get(path)[0] == 404


def test_only_reading_is_answered(place: Place) -> None:
    assert place.get("/metrics", "HEAD")[:2] == (200, "")
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert place.get("/metrics", method)[0] == 501


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(
            ("127.0.0.1:9", 200),
            ("10.1.2.3", 200),
            ("[::1]:9464", 200),
            ("localhost", 200),
            ("PUMP:9464", 200),
        ),
        *((socket.gethostname(), 200), ("pump.plant.example:9464", 200), (None, 200)),
        *(("evil.example:9464", 403), ("127.0.0.1.evil.example", 403), ("pump.plant.example.evil", 403)),
    ],
)
def test_only_known_names_are_answered(host: str | None, status: int) -> None:
    """A site that lets its name point to this machine could read metrics and status through a browser here."""
    port = free_ports(1)[0]
    collector = AgentCollector(some_snapshot, "pump")
    stop = serve(collector, str, port, names=["pump.plant.example"])
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.putrequest("GET", "/metrics", skip_host=True)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        with connection.getresponse() as answer:
            content = answer.read()
        connection.close()
    finally:
        stop()
    assert (answer.status, b"gossamer_round" in content) == (status, status == 200)


def test_ready_means_running_and_heard(place: Place) -> None:
    for changes, why in (
        ({"state": "degraded", "problem": "disk full"}, "degraded: disk full"),
        ({"state": "stopped"}, "stopped"),
        ({"neighbors": (view("joining"), view("dead"))}, "alone: it hears none of its neighbors"),
    ):
        place.now = some_snapshot(**changes)
        assert place.get("/readyz")[:2] == (503, f"{why}\n")
        assert place.get("/healthz")[0] == 200  # the process lives: nothing to restart it for
    assert readiness(some_snapshot(neighbors=())) == ""


def test_idle_connections_keep_nobody_out_and_cost_few_threads(place: Place) -> None:
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", place.port)) for _ in range(3 * CONNECTIONS)]
    try:
        for k, connection in enumerate(idle):
            if k % 2:
                connection.sendall(b"GET /metr")
        assert place.get("/metrics")[0] == 200
        until(lambda: threading.active_count() - before <= CONNECTIONS + 1, "the end of surplus threads")
        assert place.get("/healthz")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_a_failing_answer_is_logged_and_the_next_one_works(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.now = SimpleNamespace()  # type: ignore[assignment]
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        place.get("/readyz")
    assert "the answer to 127.0.0.1 failed" in caplog.text
    place.now = some_snapshot()
    assert place.get("/readyz")[0] == 200
