"""Draw docs/img/dashboard.png: `make pictures`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.serving import View, browsing, serving

IMAGES = Path(__file__).parents[1] / "docs" / "img"
SCENE, ROUND = 4, 5
"""Half of all messages lost, and a round in which the agents still differ."""


def draw_playground(browser: Any, address: str, path: Path) -> None:
    """Save a picture of a scene as it looks in a browser."""
    context = browser.new_context(viewport={"width": 1600, "height": 1100})
    view = View(context, address)
    view.open()
    view.page.click(f"#presets button:nth-child({SCENE + 1})")
    view.done()
    view.page.check("#whole")
    view.js("round => playground.goTo(round)", ROUND)
    view.page.mouse.move(0, 0)
    view.page.screenshot(path=path, animations="disabled")
    context.close()
    view.check()


if __name__ == "__main__":
    with serving() as server, browsing() as browser:
        draw_playground(browser, server.address, IMAGES / "dashboard.png")
