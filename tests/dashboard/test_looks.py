"""What readers need besides numbers: the keyboard, two themes, small windows, safe colors, explanations."""

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


def test_space_and_period_work_wherever_the_focus_is(view):
    view.open(**SMALL)
    press = view.page.keyboard.press
    places = ("#presets button", "#networks canvas", "#span", "#scrub", "#loss", "#whole", "#theme")
    view.page.click("#presets button:nth-child(7)")
    view.done()
    for place in places:
        if place.startswith("#networks"):
            view.page.mouse.click(*[x + 4 for x in view.place(7)])  # stops agent 7, once
            view.done()
        elif place == "#span":
            view.page.focus(place)  # a click opens the list
        elif not place.startswith("#presets"):
            view.page.click(place)
            view.done()
        view.js("() => { playground.pause(); playground.goTo(5); }")
        events = view.js("playground.scenario.events.length")
        press(".")
        assert view.page.inner_text("#round") == "round 6", place
        press("Space")
        view.page.wait_for_function("() => playground.playing")
        press("Space")
        assert view.js("playground.playing") is False
        assert view.js("playground.scenario.events.length") == events, place
    view.page.focus("#rounds")
    view.page.fill("#rounds", "")
    press("4")
    press(".")
    assert view.page.input_value("#rounds") == "4."
    view.page.click("button.term:text-is('k*')")  # in a dialog, Space presses its button
    press("Space")
    assert not view.page.is_visible("#terms")
    assert view.js("playground.playing") is False


def test_undo_back_and_forward_move_between_states(view):
    view.open(**SMALL)
    assert view.page.is_disabled("#undo")
    view.type("#seed", "2")
    view.js("playground.goTo(20)")
    view.page.fill("#loss", "0.5")
    view.done()
    assert [event["kind"] for event in view.scenario["events"]] == ["loss"]
    view.page.click("#undo")
    view.page.wait_for_function("() => !playground.scenario.events.length")
    view.done()
    assert view.scenario["seed"] == 2
    view.page.go_back()
    view.page.wait_for_function("() => playground.scenario.seed === 1")
    view.done()
    assert view.page.input_value("#seed") == "1"
    view.page.wait_for_function("() => document.getElementById('undo').disabled")
    for seed, events in ((2, 0), (2, 1)):
        view.page.go_forward()
        view.page.wait_for_function(
            "([seed, events]) => playground.scenario.seed === seed && playground.scenario.events.length === events",
            arg=[seed, events],
        )
        view.done()
    assert view.js("playground.results.faulty")


def test_a_typo_never_blanks_the_page(view):
    view.open(**SMALL)
    before = view.estimates()
    typos = {"#rounds": "6o", "#seed": "-1", "#spread": "ten", "#std": "-", "input[name=size-rows]": "x"}
    for field, text in typos.items():
        right = view.page.input_value(field)
        view.type(field, text)
        assert view.notice, field
        assert view.estimates() == before, field
        assert view.page.locator("#networks canvas").count() == 1
        assert view.page.locator("#chart .u-over").count() == 1
        assert view.page.inner_text("#legend").startswith("network limit")
        view.page.click("#forth")  # what was computed can still be played
        view.type(field, right)
        assert view.notice == "", field


def test_after_a_crash_colors_are_centered_on_the_survivors(view):
    events = [{"kind": "crash", "agent": 0, "round": 30}]
    view.open(**(SMALL | {"means": "one", "spread": 16.0, "events": events}))
    middle = "#ramp span:nth-child(2)"
    view.js("playground.goTo(29)")
    assert view.page.inner_text(middle) == "average 1.000"
    view.js("playground.goTo(40)")
    assert view.page.inner_text(middle) == "average 0"
    low, high = view.js("playground.stage.range()")
    assert low == -high
    rounds, error = view.js("[playground.results.runs[0].rounds, playground.results.runs[0].error]")
    before, after = (error[rounds.index(t)] for t in (30, 31))  # and the curve has points where it jumps
    assert after > 5 * before


def test_errors_as_small_as_rounding_can_be_drawn(view):
    """Ticks of uPlot never end below 1e-32; what is expected without noise gets there after 2000 rounds."""
    view.open(network="grid:10x10", methods=[["linear", {}]], rounds=5000, spread=20, std=0)
    assert min(y for y in view.js("playground.results.exact[0].error") if y) < 1e-80
    low, high = view.js("playground.chart.heights()")
    assert 1e-31 < low < min(view.js("playground.results.runs[0].error")) < 1e-24
    assert high > 1000
    svg = view.js("import('/static/export.js').then(({ drawing }) => drawing(playground))")
    assert len(re.findall(r'text-anchor="end"[^>]*>10[⁻⁰¹²³⁴-⁹]+<', svg)) < 20  # labels do not overlap


def test_curves_grow_and_predictions_are_judged(view):
    view.open(**SMALL)
    assert not view.page.is_visible("#prediction")
    last = (
        "() => { const [x, ...curves] = playground.chart.plot.data;"
        " return curves.map((y) => Math.max(...x.filter((_, k) => y[k] !== null))); }"
    )
    view.page.uncheck("#whole")
    view.js("playground.goTo(10)")
    *limits, expected, run = view.js(last)
    assert expected == run <= 10
    assert limits[:2] == [60, 60]
    assert view.page.inner_text("#prediction") == "Predict, then play: click where the error will be."
    box = view.page.locator("#chart .u-over").bounding_box()
    view.page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
    assert view.page.inner_text("#round") == "round 10"
    guess = view.js("playground.chart.guess")
    assert 10 < guess["x"] < 60
    said = f"Your prediction for round {guess['x']}: "
    assert re.fullmatch(rf"{said}\S+ Play to see\.", view.page.inner_text("#prediction"))
    view.js("playground.goTo(60)")
    judged = re.fullmatch(
        rf"{said}\S+ anytime-sda: ([\d.]+), (?:([\d.]+) times (more|less)|about as predicted)\.",
        view.page.inner_text("#prediction"),
    )
    rounds, error = view.js("[playground.results.runs[0].rounds, playground.results.runs[0].error]")
    true = error[max(k for k, t in enumerate(rounds) if t <= guess["x"])]
    assert float(judged[1]) == pytest.approx(true, rel=0.05)
    if judged[2]:
        assert float(judged[2]) == pytest.approx(max(true / guess["y"], guess["y"] / true), rel=0.06)
        assert (judged[3] == "more") == (true > guess["y"])
    view.page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    assert view.js("playground.round") < 10  # what has been played is shown again
    view.page.check("#whole")
    assert set(view.js(last)) == {60}
    assert not view.page.is_visible("#prediction")


def test_terms_have_a_tooltip_and_a_list(view):
    view.open(**(SMALL | {"methods": [["sda", {}]]}))
    for name in ("network limit", "centralized limit", "Theorem 1", "k*", "Spread", "expected"):
        assert len(view.page.get_attribute(f"button.term:text-is('{name}')", "title")) > 40
    view.page.click("button.term:text-is('k*')")
    assert view.page.inner_text("#terms dt[aria-current]") == "k*"
    view.page.keyboard.press("Escape")
    assert not view.page.is_visible("#terms")
    view.page.set_viewport_size({"width": 390, "height": 500})
    view.page.click("button.term:text-is('expected')")
    close, dialog = (view.page.locator(name).bounding_box() for name in ("#terms > button", "#terms"))
    assert (
        close["y"] + close["height"] <= dialog["y"] + dialog["height"]
    )  # in sight on a phone, which has no Escape
    view.page.click("#terms > button")
    assert not view.page.is_visible("#terms")


@pytest.mark.parametrize(
    ("rounds", "seed", "event", "lucky"),
    [
        (200, 1, None, True),
        (3, 3, None, False),
        (200, 1, {"kind": "loss", "probability": 0.1}, True),
        (200, 1, {"kind": "crash", "agent": 0, "round": 150}, True),
        (200, 1, {"kind": "crash", "agent": 0, "round": 3}, False),  # the limits are those of all agents
    ],
)
def test_a_run_below_its_limit_is_explained(view, rounds, seed, event, lucky):
    view.open(**(SMALL | {"rounds": rounds, "seed": seed, "events": [event] if event else []}))
    assert ("one run may be, the mean of many cannot" in view.page.inner_text("#notes")) == lucky
    if lucky:  # where curves grow, it is said when they get there
        view.page.uncheck("#whole")
        said = "() => document.getElementById('notes').textContent.includes('lucky')"
        first = next(
            t
            for t in range(1, rounds + 1)
            if view.js(f"() => {{ playground.goTo({t}); return ({said})(); }}")
        )
        limits, run = (view.js(f"playground.results.{name}") for name in ("limits", "runs[0]"))
        below = [
            a < (b or c)
            for a, b, c in zip(run["error"], limits["network"], limits["centralized"], strict=True)
        ]
        assert first == run["rounds"][below.index(True)] > 1


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


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (900, 1000), (390, 800)])
def test_sizes_of_windows(view, width, height):
    view.page.set_viewport_size({"width": width, "height": height})
    view.open(**(SMALL | {"methods": [["anytime-sda", {}], ["dsg", {}]]}))
    assert view.js("document.documentElement.scrollWidth") <= width
    header = view.page.locator("header.top").bounding_box()["height"]
    view.js("() => { playground.newest.ask = () => {}; playground.request(); }")  # as while it is computed
    assert view.page.is_visible("#cancel")
    assert view.js("document.documentElement.scrollWidth") <= width
    assert view.page.locator("header.top").bounding_box()["height"] == header  # the page does not jump
    for selector in ("#networks canvas", "#chart .uplot", "#play", "#controls", "#events"):
        box = view.page.locator(selector).first.bounding_box()
        assert box["width"] > 30
        assert box["height"] > 20
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width + 1
    assert view.page.locator("#networks canvas").first.bounding_box()["height"] > 150
    assert (
        view.page.locator("#chart .uplot").bounding_box()["height"] >= 150
    )  # under a legend of several lines
    assert view.page.locator("#scrub").bounding_box()["width"] > 250
    fork, undo = (view.page.locator(name).bounding_box() for name in ("#fork", "#undo"))
    assert fork["y"] == undo["y"]  # on one line
    if width > 1100:  # the curves are in sight while the run plays
        box = view.page.locator("#chart").bounding_box()
        assert box["y"] + box["height"] < height
    # Nothing lies on top of anything else.
    below = [
        view.page.locator(name).last.bounding_box()
        for name in ("#networks figure", ".under", ".player", "#legend", "#chart", "#notes")
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
