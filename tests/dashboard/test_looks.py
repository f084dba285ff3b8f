"""What readers need beside numbers: the keyboard, two themes, small windows, safe colors, a server that comes back."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from tests.support.serving import SMALL, in_browser

pytestmark = in_browser


def reach(view, selector, most=120):
    """Press Tab until an element has the focus."""
    for _ in range(most):
        view.page.keyboard.press("Tab")
        if view.js("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached by Tab")


def test_the_keyboard_alone(view):
    view.open(**SMALL)
    reach(view, "#networks canvas")
    press = view.page.keyboard.press
    press("ArrowRight")
    assert view.page.inner_text("#tip").startswith("agent 0: estimate")
    press("ArrowRight")
    assert view.page.inner_text("#tip").startswith("agent 1")
    press("ArrowDown")
    assert view.page.inner_text("#tip").startswith("agent 5")
    press("Enter")
    view.done()
    assert view.scenario["events"] == [{"kind": "crash", "agent": 5, "round": 1}]
    press("ArrowUp")
    press("]")
    assert view.page.inner_text("#tip") == "link 0–1"
    press("]")
    press("Enter")
    view.done()
    assert view.scenario["events"][-1]["edges"] is not None
    press("ArrowLeft")
    for key in ("m", "ArrowRight", "m"):
        press(key)
    reach(view, "#partition")
    press("Enter")
    view.done()
    assert view.scenario["events"][-1] == {"kind": "partition", "groups": [[0, 1]], "start": 1, "stop": None}
    view.js("document.activeElement.blur()")
    press(".")
    press(".")
    press(",")
    assert view.page.inner_text("#round") == "round 2"
    press("Space")
    view.page.wait_for_selector("text=Pause")
    press("Space")
    view.page.wait_for_selector("#play:has-text('Play')")
    view.page.reload()
    view.done()
    reach(view, "#play")
    assert view.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert float(view.js("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")) >= 2
    view.page.keyboard.press("Shift+Tab")
    reach(view, "#kind")
    press("ArrowDown")
    view.done()
    assert view.js("document.activeElement.id") == "kind"


def test_everything_has_a_name_for_those_who_cannot_see(view):
    view.open(**SMALL)
    unnamed = view.js(
        "() => [...document.querySelectorAll('button, input, select, canvas, a, output')].filter((element) => {"
        " if (!element.offsetParent) return false;"
        " const label = element.closest('label')?.textContent ?? '';"
        " return !(element.textContent + (element.ariaLabel ?? '') + label).trim()"
        " && !element.closest('[aria-label]:not(section, form, aside, body)'); })"
        ".map((element) => element.outerHTML)"
    )
    assert unnamed == []
    assert view.page.get_attribute("#notice", "role") == "alert"
    assert view.page.get_attribute("#state", "role") == "status"
    assert view.page.get_attribute("html", "lang") == "en"


def luminance(color):
    parts = np.array([float(part) for part in re.findall(r"[\d.]+", color)[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_light_and_dark_follow_the_system_and_the_switch(view):
    view.page.emulate_media(color_scheme="dark")
    view.open(**SMALL)
    view.page.wait_for_selector("html[data-shown=dark]")
    view.page.emulate_media(color_scheme="light")
    view.page.wait_for_selector("html[data-shown=light]")
    pictures = {}
    for wanted in ("light", "dark"):
        while view.page.inner_text("#theme") != f"Theme: {wanted}":
            view.page.click("#theme")
        view.page.wait_for_selector(f"html[data-shown={wanted}]")
        colors = view.js(
            "() => ['body', '.card', '.facts', '#play', '.legend'].map((selector) => {"
            " const style = getComputedStyle(document.querySelector(selector));"
            " return [style.color, style.backgroundColor]; })"
        )
        (ink, page), (_, card), (soft, _), (on_button, button), (legend, _) = colors
        for one, other in ((ink, page), (ink, card), (soft, card), (on_button, button), (legend, card)):
            assert contrast(one, other) >= 4.5
        pictures[wanted] = view.page.screenshot()
    assert pictures["light"] != pictures["dark"]
    view.page.reload()
    view.done()
    view.page.wait_for_selector("html[data-shown=dark]")  # the switch is remembered


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (900, 1000), (390, 800)])
def test_sizes_of_windows(view, width, height):
    view.page.set_viewport_size({"width": width, "height": height})
    view.open(**(SMALL | {"methods": [["anytime-sda", {}], ["dsg", {}]]}))
    assert view.js("document.documentElement.scrollWidth") <= width
    for selector in ("#networks canvas", "#chart .uplot", "#play", "#controls", "#events"):
        box = view.page.locator(selector).first.bounding_box()
        assert box["width"] > 30
        assert box["height"] > 20
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width + 1
    assert view.page.locator("#networks canvas").first.bounding_box()["height"] > 150
    assert view.page.locator("#scrub").bounding_box()["width"] > 250
    # Nothing lies on top of anything else.
    below = [
        view.page.locator(name).last.bounding_box()
        for name in ("#networks figure", ".under", ".player", "#legend")
    ]
    for upper, lower in pairwise(below):
        assert upper["y"] + upper["height"] <= lower["y"] + 1


MACHADO = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
"""How colors look to people who lack one kind of cones (Machado, Oliveira, Fernandes 2009)."""


def lab(colors, sight):
    """(n, 3) OKLab coordinates of CSS colors as somebody sees them."""
    rgb = np.array([[float(part) for part in re.findall(r"[\d.]+", color)] for color in colors]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(MACHADO[sight]).T, 0, 1)
    cones = (
        linear
        @ np.array(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ]
        ).T
    )
    return (
        np.cbrt(cones)
        @ np.array(
            [
                [0.2104542553, 0.793617785, -0.0040720468],
                [1.9779984951, -2.428592205, 0.4505937099],
                [0.0259040371, 0.7827717662, -0.808675766],
            ]
        ).T
    )


def test_colors_are_even_and_safe_for_the_color_blind(view):
    view.open(**SMALL)
    ramps = view.js("import('/static/colors.js').then(({ RAMPS }) => RAMPS)")
    for ramp in ramps.values():
        steps = np.linalg.norm(np.diff(lab(ramp, "normal"), axis=0), axis=1)
        half = len(steps) // 2
        for arm in (steps[:half], steps[half + 1 :]):
            assert arm.max() < 2.2 * arm.mean()  # equal steps look equal, up to rounding to bytes
        for sight in MACHADO:
            seen = lab(ramp, sight)
            lightness = seen[:, 0]
            # Away from the middle it gets steadily lighter, or darker: order is seen without any hue ...
            turn = 1 if lightness[0] > lightness[half] else -1
            assert (np.diff(turn * lightness[:half]) < 0.01).all()
            assert (np.diff(turn * lightness[half + 1 :]) > -0.01).all()
            # ... and the same distance below and above the middle are two colors.
            for k in (0, 16, 32):
                assert np.linalg.norm(seen[k] - seen[-1 - k]) > 0.08, (sight, k)


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
        "() => said.includes('no connection, trying again') && playground.results?.runs[0]"
    )
    view.done()
    assert view.page.inner_text("#state") == "connected"
    assert view.estimates() == before
    view.type("#rounds", "61")
    assert len(view.estimates()) == len(before) + 1


def test_a_long_computation_can_be_canceled(view):
    view.open()
    view.js(
        "playground.set({network: 'grid:30x30', rounds: 3000, methods: [['sda', {}]],"
        " events: [{kind: 'loss', probability: 0.5, start: 0, stop: null}]})"
    )
    view.page.wait_for_selector("#state[data-state=busy]")
    view.page.click("#cancel")
    view.page.wait_for_selector("body[data-run=canceled]")
    view.set(**SMALL)
    assert view.notice == ""
