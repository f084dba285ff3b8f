"""What the tests in a browser share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.serving import View, browsing, serving

from gossamer.dashboard.server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The playground."""
    with serving() as found:
        yield found


@pytest.fixture(scope="module")  # no longer: while it is there, no other test could run an event loop
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture
def view(server: Server, browser: Any) -> Iterator[View]:
    """A page of its own; whatever a test does, no other host is asked and nothing is logged as an error."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    found = View(context, server.address)
    yield found
    context.close()
    found.check()
