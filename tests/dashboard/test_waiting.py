"""What a page shows while it waits: for a computation, or for a server that is gone."""

from __future__ import annotations

from tests.support.serving import SMALL, in_browser

pytestmark = in_browser

LONG = {
    "network": "grid:30x30",
    "rounds": 3000,
    "methods": [["sda", {}]],
    "events": [{"kind": "loss", "probability": 0.5, "start": 0, "stop": None}],
}


def test_what_is_computing_shows_a_skeleton(view):
    view.page.add_init_script("window.WebSocket = class extends EventTarget {};")  # no answer comes
    view.page.goto(view.address)
    view.page.wait_for_selector("#chart:empty")
    for place in ("#networks", "#chart"):
        look = view.js(
            "place => { const style = getComputedStyle(document.querySelector(place));"
            " return [style.animationName, style.backgroundImage.slice(0, 15)]; }",
            place,
        )
        assert look == ["pass", "linear-gradient"]
        assert view.page.locator(place).bounding_box()["height"] > 100


def test_a_scene_chosen_during_a_computation_shows_its_skeleton_at_once(view):
    view.open()
    view.js("scenario => playground.set(scenario)", LONG)
    view.page.wait_for_function("() => playground.results.network.agents === 900")
    view.page.click("#presets button:nth-child(2)")
    assert (
        view.js(
            "['networks', 'chart', 'legend', 'facts', 'notes']"
            ".map((id) => document.getElementById(id).childNodes.length)"
        )
        == [0] * 5
    )
    assert view.page.get_attribute("body", "data-run") == "busy"
    assert view.js("getComputedStyle(document.querySelector('#networks')).animationName") == "pass"
    assert view.page.inner_text("#sentence").startswith("SDA discards")
    view.page.keyboard.press("Space")  # there is nothing to play yet
    view.page.keyboard.press(".")
    view.done()
    assert view.js("playground.results.network.name") == "erdos-renyi:40"
    assert (view.page.inner_text("#round"), view.page.inner_text("#play")) == ("round 1", "Play")
    view.set(**(SMALL | {"network": "nowhere:5"}))
    view.page.go_back()  # the scene before, while nothing is computed
    view.page.wait_for_function("() => playground.results?.network.name === 'erdos-renyi:40'")


def test_no_skeleton_stays_after_an_error_or_without_one(view):
    view.open(**(SMALL | {"network": "nowhere:5"}))
    assert view.notice.startswith("network must be one of")
    assert view.js("getComputedStyle(document.querySelector('#networks')).animationName") == "none"
    view.set(**(SMALL | {"methods": [["linear", {}]], "spread": 0, "std": 0}))
    assert view.page.inner_text("#chart") == "The error is 0 in every round."
    view.type("#spread", "1")
    assert view.page.inner_text("#chart") == ""
    assert view.page.locator("#chart .u-over").count() == 1


def test_a_long_computation_can_be_canceled(view):
    view.open()
    view.js("scenario => playground.set(scenario)", LONG)
    view.page.wait_for_selector("#state[data-state=busy]")
    view.page.click("#cancel")
    view.page.wait_for_selector("body[data-run=canceled]")
    view.set(**SMALL)
    assert view.notice == ""


def test_without_a_connection_nothing_pretends_to_be_computed(view):
    view.open(**SMALL)
    view.js("() => { playground.live.connect = () => {}; playground.live.socket.close(); }")
    view.page.wait_for_selector("#state[data-state=lost]")
    view.page.fill("#rounds", "61")
    view.page.press("#rounds", "Tab")
    assert view.page.inner_text("#state") == "disconnected, reconnecting"
    for button in ("#copy-python", "#copy-command", "#save-page"):
        view.js("document.getElementById('notice').hidden = true")
        view.page.click(button)
        assert view.notice.startswith("This needs the server, which does not answer now.")
    view.page.click("#forth")  # what was computed can still be played
    assert view.page.inner_text("#round") == "round 2"


def test_a_page_whose_connection_ends_comes_back(view):
    """With its view; test_fleet_browser.py lets a whole server end."""
    view.open(**SMALL)
    before = view.estimates()
    view.js(
        "() => { const state = document.getElementById('state'); window.said = [];"
        " new MutationObserver(() => said.push(state.textContent)).observe(state, { childList: true });"
        " playground.results = null; playground.live.socket.close(); }"
    )
    view.page.wait_for_function(
        "() => said.includes('disconnected, reconnecting') && playground.results?.runs[0]"
    )
    view.done()
    assert view.page.inner_text("#state") == "connected"
    assert view.estimates() == before
    view.type("#rounds", "61")
    assert len(view.estimates()) == len(before) + 1
