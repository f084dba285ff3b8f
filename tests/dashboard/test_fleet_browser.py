"""The live view of a fleet in a real browser: nine agents, one of which is killed; and fleets on paper, of many."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import in_browser, serving
from tests.support.small_fleets import free_ports
from tests.support.written_fleet import WrittenFleet, playing

from gossamer.agents.config.tables import RoundsTable
from gossamer.agents.fleet.local import LocalFleet
from gossamer.agents.membership.fleet import Fleet
from gossamer.dashboard.fleet_page import LINES, fleet_page
from gossamer.networks import Network

pytestmark = in_browser

ENDED = {"pid": 2**22 - 3}


class Watcher:
    """A page that watches a fleet, and everything it asked for or complained about."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.address = address
        options = {"viewport": {"width": 1440, "height": 900}} | options
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("html[data-number]")

    @property
    def number(self) -> int:
        return int(self.page.get_attribute("html", "data-number"))

    def later(self, frames: int = 1) -> None:
        """Wait until so many more looks at the fleet are shown."""
        code = "n => Number(document.documentElement.dataset.number) >= n"
        self.page.wait_for_function(code, arg=self.number + frames)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def row(self, agent: str) -> list[str]:
        """The cells of an agent in the table."""
        return str(self.page.inner_text(f"#agents tr:has(button:text-is('{agent}'))")).split("\t")

    def ink(self, selector: str) -> int:
        """How many pixels of a canvas are not empty."""
        return int(
            self.page.evaluate(
                "selector => { const shown = document.querySelector(selector);"
                " const copy = new OffscreenCanvas(shown.width, shown.height);"
                " const pen = copy.getContext('2d', { willReadFrequently: true }); pen.drawImage(shown, 0, 0);"
                " const { data } = pen.getImageData(0, 0, copy.width, copy.height);"
                " let count = 0; for (let k = 3; k < data.length; k += 4) count += data[k] > 0; return count; }",
                selector,
            )
        )

    def close(self) -> None:
        """Nothing but this server was asked, and nobody complained."""
        self.context.close()
        host = self.address.split("//")[1].split("/")[0]
        assert [url for url in self.requests if url.split("//")[-1].split("/")[0] != host] == []
        assert self.complaints == []


@pytest.fixture
def written(tmp_path: Path) -> WrittenFleet:
    return WrittenFleet(tmp_path / "fleet", Network.grid(3, 3))


def test_nine_agents_of_which_one_is_killed(tmp_path: Path, browser: Any) -> None:
    endpoints = [f"127.0.0.1:{port}" for port in free_ports(9)]
    made = Fleet.create(
        Network.grid(3, 3), endpoints=endpoints, rounds=RoundsTable(every="50ms", timeout="200ms", death="2s")
    )
    path = made.write(tmp_path / "fleet")
    with LocalFleet(path, restart=False) as agents, serving([fleet_page(path)]) as server:
        watcher = Watcher(browser, server.address)
        watcher.page.wait_for_selector("#facts >> text=9 running")
        watcher.later(4)
        assert watcher.text("#fleet-name") == "grid:3x3"
        watcher.page.wait_for_function("() => fleet.view.frame.arrays.rate[4] > 0")
        assert "gone" not in watcher.text("section.events")

        watcher.page.click("#agents button:text-is('agent4')")
        watcher.page.wait_for_selector("#agent-log >> text=neighbor agent1 connected")
        assert watcher.page.url.endswith("#agent4")
        assert len(watcher.page.query_selector_all("#agent-neighbors tbody tr")) == 4

        os.kill(agents.pids[4], signal.SIGKILL)
        watcher.page.wait_for_selector("#facts >> text=1 gone")
        assert watcher.row("agent4")[1] == "gone"
        assert watcher.row("agent4")[0] == watcher.text(
            "#agents tbody tr:first-child button"
        )  # the worst first
        watcher.page.wait_for_selector("#events li:has(button:text-is('agent4')) >> text=gone")
        watcher.page.wait_for_selector("#agent-state >> text=gone")

        watcher.page.click("#agent-neighbors button:text-is('agent1')")
        dead = "#agent-neighbors tr:has(button:text-is('agent4')) >> text=dead"
        watcher.page.wait_for_selector(dead)  # its neighbor has noticed as well
        watcher.page.wait_for_selector("#facts >> text=8 running")
        watcher.close()


def test_a_page_that_is_paused_shows_the_newest_when_it_goes_on(written: WrittenFleet, browser: Any) -> None:
    with playing(written), serving([fleet_page(written.path)]) as server:
        watcher = Watcher(browser, server.address)
        watcher.page.click("#pause")
        # One that was asked for may still come.
        watcher.page.wait_for_function(
            "() => !fleet.view.waiting && `${fleet.view.frame.number}` === document.documentElement.dataset.number"
        )
        paused = watcher.number
        written.changes["agent4"] = ENDED
        other = Watcher(browser, server.address)
        other.page.wait_for_selector("#facts >> text=1 gone")
        other.later(3)
        assert watcher.number == paused
        assert "9 running" in watcher.text("#facts")
        assert "paused at" in watcher.text("#state")
        newest = other.number
        watcher.page.click("#pause")
        watcher.later()
        assert watcher.number >= newest  # the first that it shows
        assert "1 gone" in watcher.text("#facts")
        assert watcher.text("#state").startswith("live")
        watcher.close()
        other.close()


def test_a_server_that_comes_back_is_found_again(written: WrittenFleet, browser: Any) -> None:
    with playing(written):
        with serving([fleet_page(written.path)]) as server:
            watcher = Watcher(browser, server.address)
            watcher.page.click("#agents button:text-is('agent2')")
        watcher.page.wait_for_selector("#state >> text=disconnected")
        with serving([fleet_page(written.path)], port=server.port):
            watcher.page.wait_for_selector("#state >> text=live")
            watcher.page.wait_for_selector("#agent-facts >> text=127.0.0.1")
            assert all("WebSocket connection to" in text for text in watcher.complaints)
            watcher.complaints.clear()
            watcher.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (1366, 768), (390, 800)])
def test_windows_and_themes(written: WrittenFleet, browser: Any, width: int, height: int, theme: str) -> None:
    written.changes = {
        "agent1": {"state": "degraded", "problem": "no space left"},
        "agent4": ENDED,
        "agent7": {"rejected": {"settings": 12}},
    }
    written.play(10)
    with serving([fleet_page(written.path)]) as server:
        watcher = Watcher(
            browser, server.address, viewport={"width": width, "height": height}, color_scheme=theme
        )
        watcher.later(2)
        assert watcher.page.evaluate("document.documentElement.dataset.shown") == theme
        assert watcher.page.evaluate("document.documentElement.scrollWidth") <= width
        assert watcher.text("#notes") == "agent1 (degraded): no space left"
        for canvas in ("#network", "#estimate-chart canvas", "#rate-chart canvas", "#refused-chart canvas"):
            assert watcher.ink(canvas) > 100, canvas
        colors = "getComputedStyle(document.documentElement)"
        page, ink = (
            watcher.page.evaluate(f"{colors}.getPropertyValue('{name}')") for name in ("--page", "--ink")
        )
        assert (page < ink) == (theme == "dark")
        watcher.page.click("#agents button:text-is('agent0')")
        watcher.page.wait_for_selector("#agent-neighbors td")
        assert watcher.page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)"
            "(document.querySelector('#agent .scroll'))"
        )
        watcher.close()


def test_states_have_marks_and_words_beside_their_colors(written: WrittenFleet, browser: Any) -> None:
    written.changes = {
        "agent1": {"state": "degraded"},
        "agent4": ENDED,
        "agent5": {"neighbors_alive": 0},
        "agent6": {"state": "stopped"},
        "agent7": {"at": 1.0},
    }
    written.missing = {"agent8"}
    written.play(10)
    with serving([fleet_page(written.path)]) as server:
        watcher = Watcher(browser, server.address)
        shown = [watcher.row(f"agent{k}")[1] for k in (0, 1, 4, 5, 6, 7, 8)]
        assert shown == ["running", "degraded", "gone", "alone", "stopped", "silent", "unknown"]
        marks = watcher.page.evaluate(
            "[...document.querySelectorAll('#agents .badge')].map((e) => getComputedStyle(e, '::before').content)"
        )
        assert len(set(marks)) == 7
        plain = watcher.ink("#network")
        watcher.page.click("[data-color=state]")
        assert {"running", "degraded", "gone", "alone", "silent"} <= set(watcher.text("#legend").split())
        assert watcher.ink("#network") > 0.5 * plain
        watcher.close()


def test_colors_span_what_agents_know_and_links_fade_by_the_pace_of_rounds(
    written: WrittenFleet, browser: Any
) -> None:
    """Agents that agree to within their standard error do not flicker, and slow rounds are not silence."""
    now = time.time()
    for k in range(3):
        written.changes = {f"agent{j}": {"estimate": 5 + 1e-4 * j, "standard_error": 0.2} for j in range(9)}
        written.changes["agent3"]["rejected"] = {"late": 4, "settings": 2}
        written.play(1, at=now + 10 * k)  # a round in ten seconds
    page = fleet_page(written.path)
    reader = page.session.__self__._reader  # type: ignore[attr-defined]
    for k in range(2):
        written.play(1, at=now + 20 + 10 * k)
        reader.look()
    with serving([page]) as server:
        watcher = Watcher(browser, server.address + "#%E0%A4")  # an address that cannot be read
        low, high = watcher.page.evaluate("fleet.canvas.frame.range")
        assert high - low == pytest.approx(0.4)
        assert watcher.page.evaluate("fleet.canvas.fleet.quiet") == 50
        assert "not heard for 50 s" in watcher.text("#legend")
        assert watcher.row("agent3")[9] == "2"
        assert "Refused, late\n2, 4" in watcher.text("#facts")
        watcher.page.click("#agents button:text-is('agent3')")
        watcher.page.wait_for_function(
            "() => document.getElementById('agent-facts').innerText.replace(/\\s+/g, ' ')"
            ".includes('Refused settings 2 Late late 4')"
        )
        watcher.close()


def test_the_table_sorts_and_filters(written: WrittenFleet, browser: Any) -> None:
    written.changes["agent4"] = ENDED
    written.play(10)
    with serving([fleet_page(written.path)]) as server:
        watcher = Watcher(browser, server.address)

        def names() -> list[str]:
            return [str(each.inner_text()) for each in watcher.page.query_selector_all("#agents button.name")]

        assert names()[0] == "agent4"
        watcher.page.click("#agents th button:text-is('Agent')")
        assert names() == [f"agent{k}" for k in range(9)]
        watcher.page.click("#agents th button:text-is('Agent')")
        assert names()[0] == "agent8"
        watcher.page.click("#agents th button:text-is('Agent')")
        assert names()[0] == "agent4"
        watcher.page.click("#agents th button:text-is('Estimate')")
        estimates = [float(watcher.row(name)[2]) for name in names()]
        assert estimates == sorted(estimates, reverse=True)
        watcher.page.fill("#filter", "gone")
        assert names() == ["agent4"]
        watcher.close()


def test_one_agent_by_pointer_keyboard_and_address_and_its_log_is_text(
    written: WrittenFleet, browser: Any
) -> None:
    (written.directory / "logs").mkdir()
    entry = {"time": "2026-01-01T10:00:00.000+00:00", "level": "error", "agent": "agent0", "logger": "x"}
    nasty = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
    (written.directory / "logs" / "agent0.log").write_text(json.dumps({**entry, "message": nasty}) + "\n")
    written.changes["agent0"] = {"problem": nasty, "state": "degraded"}
    written.play(10)
    with serving([fleet_page(written.path)]) as server:
        watcher = Watcher(browser, server.address + "#agent0")
        watcher.page.wait_for_selector("#agent-log li")
        assert nasty in watcher.text("#agent-log")
        assert watcher.text("#agent-problem") == nasty
        assert watcher.page.title() == "gossamer fleet"
        watcher.page.keyboard.press("Escape")
        assert watcher.page.is_hidden("#agent")
        watcher.page.focus("#network")
        watcher.page.keyboard.press("ArrowRight")
        assert watcher.text(".tip").startswith("agent0, degraded")
        watcher.page.keyboard.press("ArrowRight")
        watcher.page.keyboard.press("Enter")
        watcher.page.wait_for_selector("#agent-no-log >> text=There is no logs/agent1.log here")
        assert watcher.text("#agent-name") == "agent1"
        box = watcher.page.locator("#network").bounding_box()
        watcher.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        watcher.page.wait_for_function("() => document.getElementById('agent-name').textContent === 'agent4'")
        assert watcher.page.url.endswith("#agent4")
        watcher.close()


def test_many_agents_are_bands_with_the_chosen_one_over_them(tmp_path: Path, browser: Any) -> None:
    many = WrittenFleet(tmp_path / "fleet", Network.cycle(60))
    assert len(many.fleet.agents) > LINES
    with playing(many), serving([fleet_page(many.path)]) as server:
        watcher = Watcher(browser, server.address)
        watcher.later(2)
        assert watcher.page.evaluate("fleet.overTime.charts.estimate.plot.series.length") < 10
        assert len(watcher.page.query_selector_all("#agents tbody tr")) == 60
        before = watcher.page.evaluate("fleet.overTime.charts.estimate.plot.series.length")
        watcher.page.click("#agents button:text-is('agent7')")
        watcher.page.wait_for_function(f"() => fleet.overTime.charts.estimate.plot.series.length > {before}")
        watcher.close()


def test_time_goes_as_far_back_as_is_chosen(written: WrittenFleet, browser: Any) -> None:
    page = fleet_page(written.path)
    reader = page.session.__self__._reader  # type: ignore[attr-defined]
    written.play(1)
    now = reader.look().time
    for k in range(200):  # as if it had looked for two hours
        row = reader._facts.rows()[0].copy()
        row[0] = now - 7200 + 36 * k
        reader._facts.add(row)
        reader._by_agent.add(reader._by_agent.rows()[0])
    with serving([page]) as server:
        watcher = Watcher(browser, server.address)
        spans = {}
        for label in ("1 min", "10 min", "1 h", "All"):
            watcher.page.click(f"[data-span]:text-is('{label}')")
            x = "fleet.overTime.charts.spread.plot.data[0]"
            spans[label] = watcher.page.evaluate(f"{x}.at(-1) - {x}[0]")
        assert spans["1 min"] <= 60 < spans["10 min"] <= 600 < spans["1 h"] <= 3600 < spans["All"]
        watcher.close()
