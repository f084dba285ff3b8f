"""Computations in a process of their own: canceled, they are gone, and so they are with the page and the server."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
from tests.support.frames import unpacked
from tests.support.processes import runs
from tests.support.serving import serving
from tests.support.waiting import until
from websockets.sync.client import connect

pytestmark = pytest.mark.slow

SMALL = {"network": "grid:3x3", "rounds": 20}
LONG = {
    "network": "grid:15x15",
    "methods": [["sda", {}]] * 3,
    "rounds": 5_000,
    "events": [{"kind": "loss", "probability": 0.5}],
}


def workers() -> list[psutil.Process]:
    """The processes of this one's workers."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if "gossamer.dashboard.worker" in child.cmdline():
                found.append(child)
        except psutil.NoSuchProcess:
            pass
    return found


def opened(server):
    return connect(
        f"ws://127.0.0.1:{server.port}/live/",
        origin=f"http://127.0.0.1:{server.port}",
        proxy=None,
        max_size=None,
    )


def until_frame(socket, *types):
    """The types of frames up to one of these, and its header."""
    seen = []
    while True:
        header, _ = unpacked(socket.recv(timeout=120))
        seen.append(header["type"])
        if header["type"] in types:
            return seen, header


def run(socket, which, scenario):
    socket.send(json.dumps({"type": "run", "id": which, "scenario": scenario}))


def test_work_is_canceled_replaced_and_ended_with_its_page(monkeypatch):
    with serving() as server:
        with opened(server) as socket:
            _, hello = until_frame(socket, "hello")
            assert len(hello["presets"]) == 7
            run(socket, 1, SMALL)
            seen, _ = until_frame(socket, "done")
            assert seen == ["network", "run", "exact", "bound", "limits", "done"]
            (first,) = workers()  # one is kept warm
            assert os.getsid(first.pid) != os.getsid(0)  # Ctrl-C in a terminal does not reach it

            # A mistake is answered in words and leaves the worker as it is.
            run(socket, 2, {"network": "grid:1x1"})
            seen, header = until_frame(socket, "error")
            assert (header["id"], until_frame(socket, "done")[0]) == (2, ["done"])
            run(socket, 3, {"rounds": "x"})
            assert until_frame(socket, "error")[1]["message"].startswith("rounds must be a whole number")
            assert workers() == [first]

            # Canceled: its process is gone, another one is warm.
            run(socket, 4, LONG)
            until_frame(socket, "network")
            socket.send(json.dumps({"type": "cancel", "id": 4}))
            assert until_frame(socket, "canceled")[1]["id"] == 4
            until(lambda: not first.is_running() and len(workers()) == 1, "a new worker")

            # A new run takes the place of the one before.
            run(socket, 5, LONG)
            until_frame(socket, "network")
            run(socket, 6, SMALL)
            assert until_frame(socket, "done")[1]["id"] == 6

            # Killed by somebody else, for its memory perhaps: the page hears of it, and the next run works.
            run(socket, 7, LONG)
            until_frame(socket, "network")
            (busy,) = workers()
            busy.kill()
            assert until_frame(socket, "error")[1]["message"].startswith("the computation exited early")
            until_frame(socket, "done")
            run(socket, 8, SMALL)
            assert until_frame(socket, "done")[1]["id"] == 8

            # A run that takes too long is stopped, and the page hears why.
            with monkeypatch.context() as limits:
                limits.setattr("gossamer.dashboard.worker.MOST_SECONDS", 0.5)
                run(socket, 9, LONG)
                why = until_frame(socket, "error")[1]["message"]
                assert why.startswith("the computation was stopped after 0.5 s; take fewer rounds")
                until_frame(socket, "done")

            run(socket, 10, LONG)
            until_frame(socket, "network")
            (busy,) = workers()
        # The page is closed: so is its work.
        until(lambda: not busy.is_running(), "the end of the worker")
        until(lambda: len(workers()) == 1, "a new worker")
    assert workers() == []


BOMBS = {
    "huge.mtx": b"%%MatrixMarket matrix array real general\n2000000 2000000\n1\n",
    "huge.g6": b"~~" + b"?B" + b"~" * 4 + b"\n",
    "laughs.graphml": b'<!DOCTYPE a [<!ENTITY a "'
    + b"ha" * 500
    + b'">'
    + b"".join(b'<!ENTITY a%d "%s">' % (k, b"&a%d;" % (k - 1) * 10 if k else b"&a;" * 10) for k in range(9))
    + b"]><graphml>&a8;</graphml>",
}


def test_a_small_file_that_describes_something_huge_is_refused():
    with serving() as server, opened(server) as socket:
        until_frame(socket, "hello")
        for name, content in BOMBS.items():
            scenario = {"network": "file", "file": [name, base64.b64encode(content).decode()]}
            for kind in ("run", "python"):
                socket.send(json.dumps({"type": kind, "id": 1, "scenario": scenario}))
                assert until_frame(socket, "error")[1]["message"].startswith(f"{name} could not be read")
                until_frame(socket, "done")
        run(socket, 2, SMALL)
        assert "run" in until_frame(socket, "done")[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_the_command_prints_its_address_and_leaves_nothing_behind(number):
    process = subprocess.Popen(
        [sys.executable, "-m", "gossamer", "dashboard"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        until(lambda: len(psutil.Process(process.pid).children()) == 1, "its worker")
        (worker,) = psutil.Process(process.pid).children()
        os.kill(process.pid, number)  # however it ends, its worker does not outlive it
        assert process.wait(timeout=120) == (0 if number == signal.SIGINT else -number)
        until(lambda: not runs(worker.pid), "the end of its worker")
    finally:
        process.kill()
        process.communicate()


def test_without_the_extra_the_command_says_what_to_install():
    code = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv = ['gossamer', 'dashboard']\n"
        "from gossamer.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "pip install 'gossamer[dashboard]'" in " ".join(done.stderr.split())
