"""Pages that need no server: what they hold, how large they are, and everything a reader does with one."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.support.commands import invoke
from tests.support.commands import run as run_command
from tests.support.serving import SMALL, View, in_address, in_browser

import gossamer as gs
from gossamer.dashboard.runs import parts
from gossamer.dashboard.saving import _compact
from gossamer.dashboard.scenario import Scenario
from gossamer.errors import InvalidInput

LOCAL = ["anytime-sda", {"acceleration": "local"}]
SCENARIO = Scenario.of(SMALL | {"methods": [LOCAL], "events": [{"kind": "crash", "agent": 5, "round": 20}]})


@pytest.mark.slow
def test_the_size_is_that_of_the_file_and_nothing_else_is_replaced(tmp_path):
    path = tmp_path / "lesson.html"
    summary = gs.dashboard.Scenario(network="grid:4x4", rounds=60).save(path, losses=[0, 0.5], title="<b>")
    assert summary == f"{len(path.read_bytes()) / 1e3:.0f} kB: 16 agents, 60 rounds, 2 variants"
    assert "<title>&lt;b&gt;</title>" in path.read_text()
    assert not re.search(r'(src|href)="', path.read_text())  # it asks for no other file
    SCENARIO.save(path)
    (tmp_path / "mine.html").write_text("<p>")
    with pytest.raises(
        InvalidInput, match=r"path must be a new file or a page that was saved before, got .*mine"
    ):
        SCENARIO.save(tmp_path / "mine.html")
    with pytest.raises(InvalidInput, match="start must be"):
        SCENARIO.page(start=61)
    with pytest.raises(
        InvalidInput, match=r"losses must be a finite number of at least 0 and at most 0\.99, got 1"
    ):
        SCENARIO.page(losses=[1])
    lossy = gs.dashboard.Scenario(events=[{"kind": "loss", "probability": 0.1, "start": 5, "stop": None}])
    with pytest.raises(
        InvalidInput, match="losses must be a scenario without losses of its own, got one that"
    ):
        lossy.page(losses=[0, 0.1])


def test_a_hundred_agents_and_a_thousand_rounds_are_a_few_hundred_kilobytes():
    page = Scenario(network="grid:10x10", methods=(tuple(LOCAL),), rounds=1000).page(losses=())
    assert len(page.text) < 400_000


def test_methods_that_cannot_run_with_faults_are_recorded_without():
    page = Scenario(network="grid:3x3", methods=(("pairwise", {}),), rounds=20).page()
    assert page.summary.endswith("kB: 9 agents, 20 rounds")


def test_estimates_are_stored_as_finely_as_colors_need():
    for values in (
        np.concatenate([np.random.default_rng(0).normal(size=(50, 7)), np.full((2, 7), np.nan)]),
        np.cumprod(np.full((60, 3), 10.0), axis=0) * [1, -2, 3],  # diverges
        np.full((4, 5), 3.0),
    ):
        _, arrays = _compact({}, {"estimates": values})
        header, _ = _compact({}, {"estimates": values})
        codes = arrays["estimates_codes"].astype(np.int64)
        code = codes[0] + 256 * codes[1]
        moves = np.where(code % 2 == 1, -(code + 1) / 2, code / 2) * arrays["estimates_steps"][:, None]
        moves[code == 65535] = 0
        shown = np.where(code == 65535, np.nan, header["estimates_start"] + np.cumsum(moves, axis=0))
        np.testing.assert_array_equal(np.isnan(shown), np.isnan(values))
        np.testing.assert_allclose(shown, values, atol=np.nanmax(np.abs(values)) * 2e-5, rtol=1e-3)


def test_a_link_is_a_scenario():
    link = f"http://127.0.0.1:1234/#{in_address(SCENARIO.to_json())}"
    assert Scenario.of_link(link) == SCENARIO
    for broken in (link[:-9], "http://127.0.0.1/", "#%%%", "#" + in_address({"rounds": -1})[:4]):
        with pytest.raises(InvalidInput, match="link must be the whole address of a playground"):
            Scenario.of_link(broken)


def test_the_command_says_the_size_and_then_writes(tmp_path):
    path = tmp_path / "scene.html"
    link = f"http://127.0.0.1:1/#{in_address(SMALL)}"
    assert re.fullmatch(
        rf"{path}: \d+ kB: 16 agents, 60 rounds, 4 variants\n",
        run_command("dashboard", "--save", path, "--scene", link),
    )
    assert path.stat().st_size > 100_000
    refused = invoke("dashboard", "--save", path, "--scene", "none")
    assert str(refused.exception) == (
        "--scene must be a number from 0 to 6 or a link from the playground, got 'none'"
    )
    refused = invoke("dashboard", "--save", tmp_path / "none" / "scene.html")
    assert str(refused.exception).endswith("choose a file in an existing folder that you can write to")
    refused = invoke("dashboard", "--save", tmp_path, "--scene", link)
    assert str(refused.exception).startswith(f"{tmp_path} cannot be written")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "lesson.html"
    SCENARIO.save(path, title="A lesson", words="Watch.\nThen lose messages.")
    return path


class TestInABrowser:
    pytestmark = in_browser

    @pytest.fixture
    def page(self, browser, saved):
        context = browser.new_context(viewport={"width": 1000, "height": 700})
        found = View(context, saved.as_uri())
        found.open()
        yield found
        context.close()
        assert found.requests == [saved.as_uri()]  # nothing else was asked for
        assert found.complaints == []

    def test_it_plays_steps_and_scrubs(self, page):
        assert page.page.inner_text("h1") == "A lesson"
        assert page.page.inner_text("#sentence") == "Watch.\nThen lose messages."
        page.page.click("#forth")
        assert page.page.inner_text("#round") == "round 2"
        page.page.keyboard.press(".")
        assert page.page.inner_text("#round") == "round 3"
        page.page.fill("#scrub", "41")
        assert page.page.inner_text("#round") == "round 41"
        page.page.select_option("#speed", "400")
        page.page.click("#play")
        page.page.wait_for_selector("text=round 60")

    def test_it_shows_what_the_engine_computed(self, page):
        (run,) = [arrays["estimates"] for kind, _, arrays in parts(SCENARIO, expected=False) if kind == "run"]
        shown = np.array(page.estimates(), dtype=float)
        np.testing.assert_array_equal(np.isnan(shown), np.isnan(run))
        np.testing.assert_allclose(shown, run, atol=2e-4)
        assert "this run" in page.page.inner_text("#legend")
        assert "expected without faults" in page.page.inner_text("#legend")

    def test_colors_tooltips_and_themes(self, page):
        ends = page.page.locator("#ramp span").all_text_contents()
        page.js("playground.goTo(50)")
        page.page.select_option("#span", "round")
        assert page.page.locator("#ramp span").all_text_contents() != ends
        page.page.mouse.move(*page.place(2))
        assert page.page.inner_text("#tip").startswith("agent 2: estimate ")
        page.page.mouse.move(*page.place(5))
        assert page.page.inner_text("#tip").startswith("agent 5: stopped")
        page.page.mouse.click(*page.place(2))  # nothing can be done to what was recorded
        assert page.js("playground.scenario.events.length") == 1
        while page.page.inner_text("#theme") != "Theme: dark":
            page.page.click("#theme")
        page.page.wait_for_selector("html[data-shown=dark]")

    def test_the_reader_chooses_among_recorded_losses(self, page):
        page.js("playground.goTo(33)")
        errors = page.js("playground.results.runs[0].error")
        assert page.page.inner_text("#chosen") == "0%"
        page.page.fill("#variant", "3")
        assert page.page.inner_text("#chosen") == "50%"
        assert page.page.inner_text("#round") == "round 33"
        assert page.js("playground.results.runs[0].error") != errors
        assert page.js("playground.stage.views[0].canvas.frame.dead[5]") == 1
        page.page.fill("#variant", "0")
        assert page.js("playground.results.runs[0].error") == errors

    def test_it_works_inside_another_page(self, page, saved, tmp_path):
        (tmp_path / "outer.html").write_text(
            f'<iframe src="{saved.as_uri()}" width="700" height="500"></iframe>'
            f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(saved.read_text())}"></iframe>'
        )
        outer = page.page.context.new_page()
        outer.goto((tmp_path / "outer.html").as_uri())
        for number in (0, 1):
            inner = outer.frame_locator("iframe").nth(number)
            inner.locator("body[data-run=done]").wait_for()
            inner.locator("#forth").click()
            assert inner.locator("#round").inner_text() == "round 2"

    def test_it_shows_masked_values_around_answers_without_masks(self, browser, tmp_path):
        scenario = Scenario(network="grid:4x4", methods=(tuple(LOCAL),), rounds=60, mask=30.0)
        context = browser.new_context(viewport={"width": 1000, "height": 700})
        scenario.save(tmp_path / "masks.html")
        found = View(context, (tmp_path / "masks.html").as_uri())
        found.open()
        (run,) = [arrays for kind, _, arrays in parts(scenario, expected=False) if kind == "run"]
        frame = found.js(
            "(({ values, told }) => [[...values], [...told]])(playground.stage.views[0].canvas.frame)"
        )
        np.testing.assert_allclose(frame, [run["unmasked"][0], run["estimates"][0]], atol=0.01)
        assert "Ring: what an agent tells" in found.page.inner_text("#ramp")
        # The reader switches masks off, at any loss: then everything is as without masks.
        plain = replace(scenario, mask=0.0)
        want = {kind: (header, arrays) for kind, header, arrays in parts(plain)}
        masked = found.js("playground.results.exact[0].error")
        found.page.uncheck("#masks")
        assert found.js("playground.results.runs[0].error") == want["run"][0]["error"]
        assert found.js("playground.results.exact[0].error") == want["exact"][0]["error"] != masked
        np.testing.assert_allclose(found.estimates(), want["run"][1]["estimates"], atol=0.01)
        assert "Ring" not in found.page.inner_text("#ramp")
        assert found.js("playground.stage.views[0].canvas.frame.told") is None
        found.page.mouse.move(*found.place(0))
        assert "curious" not in found.page.inner_text("#tip")
        found.page.fill("#variant", "2")
        lossy = found.js("playground.results.runs[0].error")
        assert lossy != want["run"][0]["error"]
        found.page.check("#masks")
        assert found.js("playground.results.runs[0].error") != lossy
        assert found.js("playground.results.exact[0].error") == masked
        assert "Ring: what an agent tells" in found.page.inner_text("#ramp")
        found.check()
        context.close()

    def test_curves_grow_can_be_predicted_and_shown_whole(self, page):
        assert page.page.is_checked("#whole")
        assert not page.page.is_visible("#masked")  # it was recorded without
        last = (
            "() => { const [x, ...curves] = playground.chart.plot.data; const y = curves.at(-1);"
            " return Math.max(...x.filter((_, k) => y[k] !== null)); }"
        )
        page.page.uncheck("#whole")
        page.js("playground.goTo(10)")
        assert page.js(last) <= 10
        box = page.page.locator("#chart .u-over").bounding_box()
        page.page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
        assert page.page.inner_text("#prediction").endswith("Play to see.")
        page.page.check("#whole")
        assert page.js(last) == 60
        page.page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
        assert 2 < page.js("playground.round") < 30
        page.page.click("button.term:text-is('network limit')")
        assert page.page.inner_text("#terms dt[aria-current]") == "network limit"

    def test_a_finger_on_the_network_scrolls_the_page(self, browser, saved):
        context = browser.new_context(viewport={"width": 390, "height": 600}, has_touch=True)
        found = View(context, saved.as_uri())
        found.open()
        x, y = found.place(10)
        touch = context.new_cdp_session(found.page)
        for kind, points in (
            ("touchStart", [y]),
            *(("touchMove", [y - way]) for way in (20, 60, 150, 250)),
            ("touchEnd", []),
        ):
            touch.send(
                "Input.dispatchTouchEvent",
                {"type": kind, "touchPoints": [{"x": x, "y": point} for point in points]},
            )
        found.page.wait_for_function("() => scrollY > 100")
        context.close()

    def test_the_playground_saves_what_it_shows(self, view, tmp_path):
        view.open(**SMALL)
        view.page.uncheck("#whole")
        view.page.fill("#teacher", "Look.")
        view.page.click("#save-page")
        view.page.wait_for_selector("#notice >> text=The page has")
        assert re.search(r"The page has \d+ kB: 16 agents, 60 rounds, 4 variants", view.notice)
        with view.page.expect_download() as download:
            view.page.click("text=Save it")
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        other = view.page.context.new_page()
        other.goto(path.as_uri())
        other.wait_for_selector("body[data-run=done]")
        assert other.evaluate("playground.results.runs[0].error") == view.js(
            "playground.results.runs[0].error"
        )
        assert other.inner_text("#sentence") == "anytime-sda on grid:4x4, 60 rounds.\nLook."
        assert other.inner_text("#prediction").startswith("Predict, then play")

    def test_an_animation_shows_its_trial(self, page, tmp_path):
        streams = gs.Gaussian(np.arange(16.0))
        run = gs.simulate("dsg", gs.Network.grid(4, 4), streams, 30, trials=2, keep="iterates")
        film = run.animate(trial=1)
        other = page.page.context.new_page()
        other.goto(film.save(tmp_path / "run.html").as_uri())
        other.wait_for_selector("body[data-run=done]")
        assert other.inner_text("h1") == "dsg on grid:4x4"
        assert other.evaluate("playground.results.runs[0].error") == film.errors.tolist()
        assert not other.is_visible("#variants")
