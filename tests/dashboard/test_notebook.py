"""The widget: what it holds, and that a browser shows its stage and keeps its round."""

from __future__ import annotations

import sys

import pytest
from tests.support.serving import SMALL, in_browser

import gossamer as gs
from gossamer.dashboard.notebook import RENDER, _kind
from gossamer.dashboard.scenario import Scenario

MODEL = """
const values = { page: PAGE, round: 7, height: 0 };
const heard = {};
window.model = {
  get: (name) => values[name],
  set: (name, value) => (values[name] = value),
  save_changes: () => (window.saved = values.round),
  on: (name, act) => (heard[name] = act),
};
window.assign = (round) => { values.round = round; heard["change:round"](); };
"""
"""What a notebook gives to `render`."""


def test_a_widget_holds_the_page():
    pytest.importorskip("anywidget")
    scenario = Scenario.of(SMALL)
    widget = gs.dashboard.widget(scenario, losses=[0, 0.5], start=9)
    assert (widget.round, widget.height) == (9, 0)  # as high as the page
    assert widget.page == scenario.page(losses=[0, 0.5], start=9).text
    with pytest.raises(gs.InvalidInput, match="height must be a whole number of at least 100, got 5"):
        gs.dashboard.widget(scenario, losses=(), height=5)


def test_what_is_missing_or_wrong_is_said(monkeypatch):
    with pytest.raises(
        gs.InvalidInput, match=r"scenario must be a gs\.dashboard\.Scenario or what run\.animate"
    ):
        gs.dashboard.widget("grid:4x4")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    _kind.cache_clear()
    with pytest.raises(gs.MissingExtra, match=r"pip install 'gossamer\[notebook\]'"):
        gs.dashboard.widget(Scenario.of(SMALL), losses=())


class TestInABrowser:
    pytestmark = in_browser

    def test_it_shows_the_stage_and_shares_its_round(self, browser):
        page = browser.new_page()
        page.set_content("<div id='cell'></div>")
        text = Scenario.of(SMALL).page(losses=()).text
        page.evaluate(
            "([code, model, text]) => { new Function('PAGE', model)(text);"
            " const address = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));"
            " return import(address).then(({ default: widget }) => {"
            " widget.render({ model, el: document.getElementById('cell') }); }); }".replace(
                "render({ model,", "render({ model: window.model,"
            ),
            [RENDER, MODEL, text],
        )
        stage = page.frame_locator("iframe")
        stage.locator("#round:text-is('round 7')").wait_for()
        inside = "document.documentElement.scrollHeight <= innerHeight"
        assert page.frames[1].evaluate(inside)  # nothing to scroll inside the frame
        stage.locator("#forth").click()
        assert page.evaluate("window.saved") == 8
        page.evaluate("assign(30)")
        assert stage.locator("#round").inner_text() == "round 30"
        page.close()

    def test_a_page_has_the_theme_and_the_space_of_its_notebook(self, browser):
        page = browser.new_page(color_scheme="light", viewport={"width": 700, "height": 500})
        shown = Scenario.of(SMALL).page(losses=())._repr_html_()
        page.set_content(f"<body style='background: rgb(17, 17, 17)'><div>{shown}</div></body>")
        page.frame_locator("iframe").locator("body[data-run=done]").wait_for()
        inside = page.frames[1]
        page.wait_for_function("document.querySelector('iframe').clientHeight > 800")
        assert inside.evaluate("document.documentElement.scrollHeight <= innerHeight")  # nothing to scroll
        assert inside.evaluate("document.documentElement.dataset.shown") == "dark"
        page.evaluate("document.body.style.background = 'white'")  # the notebook changes its theme
        inside.wait_for_function("document.documentElement.dataset.shown === 'light'")
        inside.locator("#theme").click()
        inside.locator("#theme").click()
        assert inside.evaluate("document.documentElement.dataset.shown") == "dark"  # chosen
        page.close()
