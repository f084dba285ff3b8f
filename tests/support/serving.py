"""A dashboard that serves for tests, and a browser that looks at it."""

from __future__ import annotations

import base64
import json
import shutil
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from gossamer.cli.dashboard import command_of
from gossamer.dashboard.playground import playground
from gossamer.dashboard.server import Page, Server

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

in_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="needs Chromium, which is not installed; on Debian: apt-get install chromium"
    ),
    pytest.mark.xdist_group("browser"),
]
"""Marks of tests in a browser: all on one worker, or each worker would start browsers and servers of its own."""

SMALL = {"network": "grid:4x4", "methods": [["anytime-sda", {}]], "rounds": 60, "seed": 1}
"""A scenario that runs in an instant."""

QUIET = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
]


@contextmanager
def serving(pages: Sequence[Page] | None = None, host: str = "127.0.0.1", port: int = 0) -> Iterator[Server]:
    """A server in a thread of its own."""
    server = Server([playground(command_of)] if pages is None else pages, host, port)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(timeout=120)
        assert not thread.is_alive()


def in_address(scenario: dict[str, Any]) -> str:
    """A scenario as the page writes it into its address."""
    squeeze = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    content = squeeze.compress(json.dumps({"scenario": scenario}).encode()) + squeeze.flush()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


class View:
    """The playground in a browser, with all of its requests and errors."""

    def __init__(self, context: Any, address: str) -> None:
        self.address = address
        self.page = context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.set_default_timeout(120_000)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, **scenario: Any) -> None:
        """Show the playground, with a scenario if there is one."""
        self.page.goto(self.address + (f"#{in_address(scenario)}" if scenario else ""))
        self.done()

    def done(self) -> None:
        """Wait until everything is computed."""
        self.page.wait_for_selector("body[data-run=done]")

    def set(self, **scenario: Any) -> None:
        self.page.evaluate("scenario => playground.set(scenario)", scenario)
        self.done()

    def js(self, code: str, value: Any = None) -> Any:
        return self.page.evaluate(code, value)

    @property
    def scenario(self) -> dict[str, Any]:
        return self.js("playground.scenario")

    @property
    def notice(self) -> str:
        return self.page.inner_text("#notice") if self.page.is_visible("#notice") else ""

    def choose(self, selector: str, value: str) -> None:
        """Choose in a list, as a reader does, and wait for what follows."""
        self.page.select_option(selector, value)
        self.done()

    def type(self, selector: str, value: str) -> None:
        """Type into a field and leave it."""
        self.page.fill(selector, value)
        self.page.press(selector, "Tab")
        self.done()

    def place(self, agent: int, number: int = 0) -> tuple[float, float]:
        """Return the position of an agent on the page."""
        return tuple(
            self.js(
                "([agent, number]) => { const view = playground.stage.views[number].canvas;"
                " const box = view.canvas.getBoundingClientRect(); const [x, y] = view.place(agent);"
                " return [box.left + x, box.top + y]; }",
                [agent, number],
            )
        )

    def estimates(self, number: int = 0) -> list[list[float | None]]:
        """Return (T, N) the estimates that the page holds of a run; null for NaN."""
        return self.js(
            "number => { const { estimates } = playground.results.runs[number].arrays; const [, n] = estimates.shape;"
            " const rows = []; for (let k = 0; k < estimates.length; k += n)"
            " rows.push([...estimates.subarray(k, k + n)].map((x) => (Number.isFinite(x) ? x : null))); return rows; }",
            number,
        )

    def check(self) -> None:
        """Check that all requests went to this server, and that there were no errors."""
        host = self.address.split("//")[1].split("/")[0]
        foreign = [url for url in self.requests if url.split("//")[-1].split("/")[0] != host]
        assert [url for url in foreign if not url.startswith(("blob:", "data:"))] == []
        assert self.complaints == []


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            yield browser
        finally:
            browser.close()
