"""Simulations that play: what a page or a video holds, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image
from tests.support.commands import invoke
from tests.support.commands import run as run_command
from tests.support.serving import in_browser

import gossamer as gs
from gossamer.dashboard import animation
from gossamer.errors import InvalidInput, OutputError

OBS = gs.Gaussian(np.arange(12.0))


def simulated(method="anytime-sda", rounds=40, network=None, **how):
    network = gs.Network.grid(3, 4) if network is None else network
    return gs.simulate(
        method, network, OBS, rounds, trials=3, seed=2, **{"keep": "iterates", "progress": False, **how}
    )


def frames(film):
    return {kind: (header, arrays) for kind, header, arrays in film._frames()}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"method": "sda"},
        {"rounds": [10, 40]},
        {"faults": [gs.faults.Crash(11, 20), gs.faults.Loss(0.2)]},
        {"network": gs.ChangingNetwork.mobile(12, 0.5), "method": gs.AnytimeSDA("local")},
    ],
    ids=["plain", "burn-in", "horizons", "faults", "changing"],
)
def test_errors_and_answers_are_those_of_the_trial(how):
    run = simulated(**how)
    film = run.animate(trial=1)
    assert film.rounds[-1] == 40
    assert film.errors[-1] == pytest.approx(np.atleast_2d(run.errors)[-1, 1])
    shown = frames(film)
    header, arrays = shown["run"]
    assert header["error"] == film.errors.tolist()
    answers = run.iterates["estimate"][1, :, :, 0].astype(np.float32)
    since = 20 if how.get("method") == "sda" else 0
    assert np.isnan(arrays["estimates"][:since]).all()
    np.testing.assert_array_equal(arrays["estimates"][since:], answers[since:])
    assert ("exact" in shown) == (since == 0 and "network" not in how)  # other lengths of SDA are other runs
    assert film.page.summary.endswith("12 agents, 40 rounds")
    assert film._repr_html_().startswith("<iframe")


def test_colors_show_one_component_and_errors_all():
    obs = gs.Gaussian(np.arange(12.0).reshape(6, 2))
    run = gs.simulate("dsg", gs.Network.cycle(6), obs, 20, trials=1, keep="iterates", progress=False)
    film = run.animate(component=1)
    assert film.errors[-1] == pytest.approx(run.total_error)
    shown = frames(film)
    np.testing.assert_array_equal(shown["network"][1]["means"], obs.mean[:, 1])
    assert shown["network"][0]["target"] == pytest.approx(6.0)


def test_masks_hide_readings_and_no_theorem_is_shown_for_them():
    shown = frames(simulated(masks=100.0).animate())
    plain = frames(simulated().animate())
    assert "bound" in plain
    assert "bound" not in shown
    assert "hidden" in shown["network"][1]
    assert shown["exact"][0]["error"][0] > 100 * plain["exact"][0]["error"][0]


def test_what_cannot_be_animated_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="kept no iterates; call simulate"):
        simulated(keep="errors").animate()
    film = simulated().animate
    with pytest.raises(InvalidInput, match=r"trial must be .*at most 2, got 3"):
        film(trial=3)
    with pytest.raises(InvalidInput, match=r"component must be .*at most 0, got 1"):
        film(component=1)
    with pytest.raises(
        InvalidInput, match=r"an animation's file name must end in \.html, \.gif or \.mp4, got .*run\.avi"
    ):
        film().save(tmp_path / "run.avi")
    big = gs.simulate("dsg", "path:2001", gs.Gaussian(np.zeros(2001)), 1, 1, keep="iterates", progress=False)
    refusal = "an animation shows at most 2000 agents, but this run has 2001"
    with pytest.raises(InvalidInput, match=refusal):
        big.animate()
    refused = invoke("simulate", "path:2001", "-T", "1", "--animate", tmp_path / "run.html")
    assert str(refused.exception) == refusal
    assert "total error" not in refused.output  # refused before the run


def test_one_way_links_are_lines_and_one_round_is_a_run():
    ring = gs.DirectedNetwork.from_links(12, [(k, (k + 1) % 12) for k in range(12)])
    film = simulated("push-sum", network=ring, rounds=1).animate()
    assert len(frames(film)["network"][1]["links"]) == 12
    assert film.page.summary.endswith("12 agents, 1 round")


@pytest.mark.slow
def test_a_video_has_a_frame_for_each_round_that_it_shows(tmp_path, monkeypatch):
    monkeypatch.setattr(animation, "FRAMES", 4)
    for network in (None, gs.ChangingNetwork.mobile(12, 0.5)):
        run = simulated(gs.AnytimeSDA("local"), network=network)
        path = run.animate(title="$a_1").save(tmp_path / "run.gif")
        with Image.open(path) as film:
            assert film.n_frames == 4  # rounds 1, 3, 12 and 40


@pytest.mark.slow
def test_an_mp4_is_written_by_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.setattr(animation, "FRAMES", 3)
    path = simulated(faults=[gs.faults.Crash(11, 20)]).animate().save(tmp_path / "run.mp4")
    assert path.read_bytes()[4:8] == b"ftyp"
    program = animation.check_format(path)
    told = subprocess.run([program, "-i", path], capture_output=True, text=True, timeout=60).stderr
    assert "h264" in told
    assert "640x760" in told
    assert "yuv420p" in told  # which every player shows


def test_an_mp4_without_ffmpeg_is_refused_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(animation.shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    refusal = (
        r"run\.mp4 cannot be written without .* ffmpeg; install it, or run: pip install .gossamer\[video\]"
    )
    with pytest.raises(OutputError, match=refusal):
        simulated().animate().save(tmp_path / "run.mp4")
    refused = invoke("simulate", "grid:3x3", "--animate", tmp_path / "run.mp4")
    assert "cannot be written without the program ffmpeg" in str(refused.exception)


def test_curves_have_a_point_before_and_after_a_crash():
    film = simulated(rounds=400, faults=[gs.faults.Crash(11, 201)]).animate()
    assert {201, 202} <= set(film.rounds.tolist())
    means = OBS.mean[:, 0]
    assert film._target(201)[1] == pytest.approx(means.mean())
    assert film._target(202)[1] == pytest.approx(
        means[:11].mean()
    )  # colors are centered on the survivors' average


def test_the_command_writes_the_first_trial(tmp_path):
    path = tmp_path / "run.html"
    words = ("simulate", "grid:3x3", "-T", "20", "--trials", 2, "--crash", "4@10", "--animate")
    assert f"written to {path}" in run_command(*words, path)
    assert "anytime-sda on grid 3x3" in path.read_text() or "anytime-sda on grid:3x3" in path.read_text()
    refused = invoke(*words, tmp_path / "run.png")
    assert str(refused.exception).startswith("an animation's file name must end in .html, .gif or .mp4, got")


def test_links_that_fail_join_agents_in_the_places_of_their_network():
    changing = gs.ChangingNetwork.dropout("grid:3x4", 0.3)
    shown = frames(simulated(gs.AnytimeSDA("local"), network=changing).animate())
    fixed = frames(simulated().animate())
    np.testing.assert_array_equal(shown["network"][1]["positions"], fixed["network"][1]["positions"])


def test_a_video_of_thousands_of_agents_shows_their_colors():
    obs = gs.Gaussian(np.arange(2000.0))
    run = gs.simulate("dsg", "geometric:2000", obs, 1, 1, keep="iterates", progress=False)
    figure, drawn = run.animate()._film()
    list(drawn)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    left, bottom, width, height = map(int, figure.axes[0].get_window_extent().bounds)
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(int)
    inside = pixels[bottom : bottom + height, left : left + width]
    colored = np.ptp(inside, axis=2) > 40  # lines and outlines are gray
    assert colored.mean() > 0.03


class TestInABrowser:
    pytestmark = in_browser

    def test_the_error_grows_as_the_run_plays(self, browser, tmp_path):
        page = browser.new_page()
        page.goto(simulated().animate().save(tmp_path / "run.html").as_uri())
        page.locator("body[data-run=done]").wait_for()

        def points():
            curve = "playground.chart.plot.series.findIndex((one) => one.label === 'this run')"
            return page.evaluate(f"playground.chart.plot.data[{curve}].filter((y) => y !== null).length")

        first = points()
        page.evaluate("playground.goTo(20)")
        assert first < points() < 40
        agent = page.evaluate(
            "(() => { const { canvas } = playground.stage.views[0], box = canvas.canvas.getBoundingClientRect();"
            " const [x, y] = canvas.place(5); return [box.left + x, box.top + y]; })()"
        )
        page.mouse.move(*agent)
        told = page.locator("#tip").inner_text()
        assert told.startswith("agent 5: estimate")
        page.evaluate("playground.goTo(40)")
        assert page.locator("#tip").inner_text() != told
        page.close()
