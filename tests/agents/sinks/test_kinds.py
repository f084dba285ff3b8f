"""One conformance check on all sinks."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from tests.support.small_fleets import free_ports, make_certificates
from tests.support.waiting import PATIENCE, until

from gossamer.agents.config.urls import Place
from gossamer.agents.sinks.conformance import check_sink
from gossamer.agents.sinks.publishing import Publisher
from gossamer.errors import InvalidInput

FAILURES = {"/moved": 301, "/broken": 500}

INFLUXD = shutil.which("influxd") or shutil.which("influxd", path=str(Path(sys.executable).parent))


def test_a_file_conforms_and_may_be_moved_away(tmp_path: Path) -> None:
    file = tmp_path / "pump.jsonl"

    def lines() -> list[dict[str, Any]]:
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    for _ in range(2):
        check_sink(Publisher("file://{name}.jsonl", Place(name="pump", directory=tmp_path))._sink, lines)
        file.rename(tmp_path / "pump.1")
    assert Publisher(f"file://{tmp_path}/a", Place())._sink.path == tmp_path / "a"  # type: ignore[attr-defined]


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path: Path) -> None:
    """A limit on the size of files stands for the end of the disk: both cut a write short."""
    program = """
import resource, signal, sys
from gossamer.agents.config.urls import Place
from gossamer.agents.sinks.publishing import Publisher
from gossamer.errors import InvalidInput
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sink = Publisher(f"file://{sys.argv[1]}", Place())._sink
sink.write({"k": 0})
resource.setrlimit(resource.RLIMIT_FSIZE, (15, resource.RLIM_INFINITY))
try:
    sink.write({"k": 1})
except OSError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sink.write({"k": 2})
"""
    file = tmp_path / "answers"
    done = subprocess.run(
        [sys.executable, "-c", program, file], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout == "[Errno 28] No space left on device\n"
    assert file.read_text() == '{"k": 0}\n{"k": 2}\n'


class Posted(NamedTuple):
    port: int
    messages: list[tuple[str, str | None, dict[str, Any]]]
    http: ThreadingHTTPServer


@pytest.fixture
def server() -> Iterator[Posted]:
    posted: list[tuple[str, str | None, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            content = json.loads(body) if "json" in self.headers["Content-Type"] else {"line": body.decode()}
            posted.append((self.path, self.headers["Authorization"], content))
            code = FAILURES.get(self.path, 204)
            self.send_response(code)
            if code == 301:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b"disk full" if code == 500 else b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield Posted(made.server_address[1], posted, made)
        made.shutdown()
        thread.join()


def test_a_webhook_conforms_and_tells_of_errors(server: Posted, tmp_path: Path) -> None:
    port, posted, _ = server
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "token").chmod(0o600)
    place = Place(directory=tmp_path)
    check_sink(
        Publisher(f"http://127.0.0.1:{port}/a/b?token_file=token", place)._sink,
        lambda: [p[2] for p in posted],
    )
    assert {p[:2] for p in posted} == {("/a/b", "Bearer abc")}
    for k, (path, code) in enumerate(FAILURES.items()):
        broken = Publisher(f"http://127.0.0.1:{port}{path}", place)
        broken.open()
        broken.offer({"settled": True}, 0.0)
        broken.close(PATIENCE)
        assert f"HTTP Error {code}" in broken.failing
        assert broken.failing.endswith(("/elsewhere", "disk full")[k])
        assert len(posted) == 3 + k  # and nothing elsewhere


def test_a_webhook_trusts_its_own_authority(server: Posted, tmp_path: Path) -> None:
    port, posted, http = server
    folder = make_certificates(tmp_path / "ca", 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "agent0.pem", folder / "agent0.key")
    http.socket = context.wrap_socket(http.socket, server_side=True)
    for ca, failing in (("?ca=ca/ca.pem", ""), ("", "certificate verify failed")):
        publisher = Publisher(f"https://127.0.0.1:{port}/a{ca}", Place(directory=tmp_path))
        publisher.open()
        publisher.offer({"settled": True}, 0.0)
        publisher.close(PATIENCE)
        assert failing in publisher.failing
        assert bool(publisher.failing) == bool(failing)
        assert len(posted) == 1
    for url, why in (
        (f"http://127.0.0.1:{port}/a?ca=ca/ca.pem", "ca is for https://"),
        (f"https://127.0.0.1:{port}/a?ca=none.pem", "https: cannot use .*none.pem: No such file"),
    ):
        with pytest.raises(InvalidInput, match=why):
            Publisher(url, Place(directory=tmp_path))


def test_influx_gets_lines(server: Posted, tmp_path: Path) -> None:
    port, posted, _ = server
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "token").chmod(0o600)
    answer = {
        "time": "2026-01-02T03:04:05.678+00:00",
        "name": "pump 1",
        "fleet": "plant",
        "agent": 0,
        "estimate": [21.5, None],
        "standard_error": 0.25,
        "age": 7,
        "settled": True,
        "state": 'a "bad" one',
    }
    for rest in ("site", "site?org=us&token_file=token&measurement=air"):
        publisher = Publisher(f"influxdb://127.0.0.1:{port}/{rest}", Place(directory=tmp_path))
        publisher.open()
        publisher.offer(answer, 0.0)
        publisher.close(PATIENCE)
        assert not publisher.failing
    line = (
        ",fleet=plant,agent=pump\\ 1 estimate_0=21.5,standard_error=0.25,age=7.0,settled=true,"
        'state="a \\"bad\\" one" 1767323045678'
    )
    assert posted == [
        ("/write?db=site&precision=ms", None, {"line": f"gossamer{line}"}),
        ("/api/v2/write?org=us&bucket=site&precision=ms", "Token abc", {"line": f"air{line}"}),
    ]


@pytest.fixture
def influx(tmp_path: Path) -> Iterator[int]:
    """The port of a real InfluxDB with the user ann, whose password is swordfish, and an empty database, "site"."""
    if INFLUXD is None:
        pytest.skip("needs InfluxDB, which is not installed; on Debian: apt-get install influxdb")
    port, rpc = free_ports(2)
    folders = "".join(f"{name} = '{tmp_path}/{name}'\n" for name in ("dir", "wal-dir"))
    (tmp_path / "influx.conf").write_text(
        f"reporting-disabled = true\nbind-address = '127.0.0.1:{rpc}'\n[meta]\ndir = '{tmp_path}/meta'\n"
        f"[data]\n{folders}[http]\nbind-address = '127.0.0.1:{port}'\nauth-enabled = true\nlog-enabled = false\n"
        "[monitor]\nstore-enabled = false\n"
    )
    process = subprocess.Popen(
        [INFLUXD, "-config", str(tmp_path / "influx.conf")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: answered(port), "the server's answer")
        query(port, "CREATE USER ann WITH PASSWORD 'swordfish' WITH ALL PRIVILEGES", post=True)
        query(port, "CREATE DATABASE site", post=True)
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def answered(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=PATIENCE).close()
    except urllib.error.URLError:
        return False
    return True


def query(port: int, text: str, *, post: bool = False) -> Any:
    address = (
        f"http://127.0.0.1:{port}/query?{urlencode({'db': 'site', 'q': text, 'u': 'ann', 'p': 'swordfish'})}"
    )
    with urllib.request.urlopen(address, b"" if post else None, timeout=PATIENCE) as response:
        return json.load(response)["results"][0]


def test_a_real_influx_holds_what_was_published(influx: int, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("swordfish\n")
    (tmp_path / "password").chmod(0o600)
    place = Place(directory=tmp_path)
    answer = {
        "time": "2026-01-02T03:04:05.678+00:00",
        "name": "pump 1, west",
        "fleet": "plant=a",
        "estimate": [21.5, None],
        "standard_error": 0.25,
        "settled": True,
        "state": 'a "bad" one \\ ü',
    }
    publisher = Publisher(f"influxdb://ann@127.0.0.1:{influx}/site?password_file=password", place)
    publisher.open()
    publisher.offer(answer, 0.0)
    publisher.close(PATIENCE)
    assert not publisher.failing
    [series] = query(influx, "SELECT * FROM gossamer")["series"]
    assert dict(zip(series["columns"], series["values"][0], strict=True)) == {
        "time": "2026-01-02T03:04:05.678Z",
        "agent": "pump 1, west",
        "fleet": "plant=a",
        "estimate_0": 21.5,
        "standard_error": 0.25,
        "settled": True,
        "state": 'a "bad" one \\ ü',
    }
    for user, rest in (("ann@", "elsewhere?password_file=password"), ("", "site")):
        nowhere = Publisher(f"influxdb://{user}127.0.0.1:{influx}/{rest}", place)
        nowhere.open()
        nowhere.offer(answer, 0.0)
        nowhere.close(PATIENCE)
        assert ("database not found" if user else "401: Unauthorized") in nowhere.failing
