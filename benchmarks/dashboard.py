"""The playground with 1000 agents in a real browser: frames per second, and what a frame costs page and server."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

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
    """One row, where there is a Chromium to look with."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        yield Row("dashboard", "not measured: needs Chromium", "-", None, None)
        return
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
    """Seconds that the server itself took, without its worker."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
