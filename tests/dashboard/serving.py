"""A dashboard that serves for tests, and a browser that looks at it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from gossamer.cli.dashboard import command_of
from gossamer.dashboard.playground import playground
from gossamer.dashboard.server import Page, Server

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium, which is not installed; on Debian: apt-get install chromium"
)

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
        thread.join(timeout=30)
        assert not thread.is_alive()
