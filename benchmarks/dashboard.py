"""What the dashboard costs.

The playground with 1000 agents in a real browser: frames per second, and what a frame costs page and server. And the
rounds that a fleet plays while pages show it, next to those that it plays unseen.
"""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import psutil

from benchmarks.timing import Row

AGENTS, ROUNDS, SECONDS = 1000, 600, 8.0

SCENE = {
    "network": f"geometric:{AGENTS}",
    "methods": [["anytime-sda", {"acceleration": "local"}]],
    "rounds": ROUNDS,
    "events": [
        {"kind": "crash", "agent": 3, "round": 100},
        {"kind": "partition", "agents": [7], "start": 200},
    ],
}


def rows() -> Iterator[Row]:
    """The playground and a fleet, where there is a Chromium to look with; and pages of a fleet without one."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        yield Row("dashboard", "not measured: needs Chromium", "-", None, None)
    else:
        yield from playground_rows(chromium)
    yield from fleet_rows(chromium)


def playground_rows(chromium: str) -> Iterator[Row]:
    """One row: 1000 agents."""
    from playwright.sync_api import sync_playwright

    server = subprocess.Popen(
        [sys.executable, "-m", "gossamer", "dashboard"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1440, "height": 900}, device_scale_factor=2)
            page.goto(address)
            page.wait_for_selector("body[data-run=done]", timeout=120_000)
            before = _processor_time(server.pid)
            page.evaluate("scene => playground.set(scene)", SCENE)
            page.wait_for_selector("body[data-run=done]", timeout=120_000)
            page.select_option("#speed", "40")
            page.evaluate("playground.goTo(1)")
            page.click("#play")
            canvas = "playground.stage.views[0].canvas"
            start = page.evaluate(f"[performance.now(), {canvas}.draws, {canvas}.drawTime, playground.round]")
            time.sleep(SECONDS)
            end = page.evaluate(f"[performance.now(), {canvas}.draws, {canvas}.drawTime, playground.round]")
            spent, draws, drawing, shown = (b - a for a, b in zip(start, end, strict=True))
            rate, cost = 1000 * draws / spent, drawing / draws
            served = 1000 * (_processor_time(server.pid) - before) / ROUNDS
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=30)
    yield Row(
        f"dashboard, {AGENTS} agents: frames per second, while 40 rounds per second play",
        f"{rate:.0f} ({shown:.0f} rounds shown, {cost:.1f} ms to draw, {served:.2f} ms of the server per round)",
        "10 asked for",
        rate / 10,
        1.0,
    )


def _processor_time(pid: int) -> float:
    """Seconds that a server itself took, without its worker."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


# -- a fleet with and without open pages -----------------------------------------------------------------------


NINE, PAGES, TURNS, TURN = 9, 5, 12, 2.0
LEAST = 0.97
"""Of the rounds that a fleet plays unseen, those that it plays before open pages."""


def fleet_rows(chromium: str | None) -> Iterator[Row]:
    """Rounds per second of nine agents with five pages open and with no dashboard, in turn: the median of the ratios.

    As fast as they can, agents take all of the machine, so whatever pages cost is missing: there, pages are connections
    that take every frame, since drawing is the work of the browser's machine. At the usual pace the browser is here.
    """
    yield _compared("as fast as they can", "0", _connected)
    if chromium is not None:
        yield _compared("every 100 ms, browser on the same machine", "100ms", partial(_in_browser, chromium))


def _compared(
    what: str, every: str, pages: Callable[[str], AbstractContextManager[Callable[[bool], None]]]
) -> Row:
    from gossamer.agents.fleet.launcher import LocalFleet

    from gossamer.agents.config.tables import RoundsTable
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.networks import Network

    with tempfile.TemporaryDirectory() as folder:
        path = Fleet.create(Network.cycle(NINE), rounds=RoundsTable(every=every)).write(
            Path(folder) / "fleet"
        )
        with LocalFleet(path), _served(path) as (server, address), pages(address) as show:
            rates: dict[bool, list[float]] = {True: [], False: []}
            spent = 0.0
            for turn in range(2 * TURNS):
                open_now = turn % 4 in (0, 3)  # open, closed, closed, open: a trend cancels
                if open_now:
                    server.send_signal(signal.SIGCONT)
                show(open_now)
                if not open_now:
                    server.send_signal(signal.SIGSTOP)
                time.sleep(1.0)
                before = _processor_time(server.pid)
                rates[open_now].append(_rate(path, TURN))
                spent += _processor_time(server.pid) - before
            server.send_signal(signal.SIGCONT)
    ratio = statistics.median(a / b for a, b in zip(rates[True], rates[False], strict=True))
    seen, unseen = (statistics.median(rates[each]) for each in (True, False))
    return Row(
        f"rounds per second of {NINE} agents, {what}, with {PAGES} pages open",
        f"{seen:.1f}; the dashboard takes {100 * spent / (TURNS * TURN):.1f}% of a core",
        f"{unseen:.1f} without a dashboard",
        ratio,
        LEAST,
    )


def _rate(path: Path, seconds: float) -> float:
    """Rounds per second of a fleet's agents, by their own clocks."""

    def counters() -> list[tuple[float, int]]:
        files = sorted((path.parent / "status").glob("*.json"))
        found = [json.loads(file.read_text()) for file in files]
        return [(each["at"], each["rounds"]) for each in found]

    while len(before := counters()) < NINE:
        time.sleep(0.1)
    time.sleep(seconds)
    after = counters()
    return statistics.mean((b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(before, after, strict=True))


@contextmanager
def _served(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A dashboard of a fleet in a process of its own; yields it and its address."""
    command = [sys.executable, "-m", "gossamer", "dashboard", str(path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server, server.stdout.readline().strip()
    finally:
        server.send_signal(signal.SIGCONT)
        server.terminate()
        server.communicate(timeout=30)


@contextmanager
def _connected(address: str) -> Iterator[Callable[[bool], None]]:
    """Pages that take every frame and draw none; yields what lets them go on and holds them."""
    takers = subprocess.Popen([sys.executable, "-c", _TAKER, address, str(PAGES)])
    time.sleep(4.0)  # to start, which is not part of watching

    def show(wanted: bool) -> None:
        takers.send_signal(signal.SIGCONT if wanted else signal.SIGSTOP)

    try:
        yield show
    finally:
        takers.kill()
        takers.wait(timeout=30)


_TAKER = """
import asyncio, sys, urllib.parse, websockets

async def page(place):
    async with websockets.connect(f"ws://{place}/live/fleet", origin=f"http://{place}") as socket:
        while True:
            await socket.send('{"type": "next"}')
            await socket.recv()

async def main():
    place = urllib.parse.urlsplit(sys.argv[1]).netloc
    await asyncio.gather(*[page(place) for _ in range(int(sys.argv[2]))])

asyncio.run(main())
"""


@contextmanager
def _in_browser(chromium: str, address: str) -> Iterator[Callable[[bool], None]]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pages = [browser.new_context().new_page() for _ in range(PAGES)]

        def show(wanted: bool) -> None:
            for page in pages:
                page.goto(address if wanted else "about:blank")

        yield show
        browser.close()
