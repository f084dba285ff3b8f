"""The playground in a real browser: every control, acting on a run, sharing it, and the keyboard alone."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.support.commands import run as run_command
from tests.support.scenarios import EDGES
from tests.support.serving import SMALL, View, in_address, in_browser

from gossamer.dashboard.presets import PRESETS
from gossamer.dashboard.scenario import Scenario, catalog

pytestmark = in_browser


def test_every_preset_shows_its_sentence_and_its_run(view):
    view.open()
    assert view.js("playground.chart.grow")  # the first scene is a lesson
    for k, preset in enumerate(PRESETS):
        view.page.click(f"#presets button:nth-child({k + 1})")
        view.done()
        assert view.page.inner_text("#sentence") == preset["sentence"]
        assert view.page.get_attribute(f"#presets button:nth-child({k + 1})", "aria-pressed") == "true"
        assert view.notice == ""
        methods = len(preset["scenario"]["methods"])
        assert view.page.locator("#networks canvas").count() == methods
        assert view.js("playground.results.runs.length") == methods
        legend = view.page.inner_text("#legend")
        assert ("centralized limit" in legend) == (
            preset["scenario"].get("std") != 0
        )  # without noise it is 0
        assert "this run" in legend
        assert Scenario.of(view.scenario) == Scenario.of(Scenario.of(preset["scenario"]).__dict__)
    assert "agent 0 stops" in view.page.inner_text("#events")


def test_every_network_and_its_sizes(view):
    view.open(**SMALL)
    offered = catalog()
    for kind, sizes in offered["networks"].items():
        if kind in offered["changing"]:
            view.js("() => { playground.scenario.methods = [['dsg', {}]]; }")
        view.choose("#kind", kind)
        assert view.notice == "", kind
        header = view.js(
            "({ name: playground.results.network.name, agents: playground.results.network.agents })"
        )
        assert f"{header['agents']} agents" in view.page.inner_text("#facts")
        assert view.page.locator("#sizes input").count() == len(sizes)
    view.choose("#kind", "grid")
    view.type("input[name=size-rows]", "3")
    view.type("input[name=size-cols]", "5")
    assert view.scenario["network"] == "grid:3x5"
    view.choose("#kind", "erdos-renyi")
    view.type("input[name=size-n]", "20")
    view.type("input[name=size-p]", "0.4")
    assert view.scenario["network"] == "erdos-renyi:20x0.4"
    view.choose("#kind", "mobile")
    view.type("input[name=size-radius]", "0.3")
    assert view.scenario["network"] == "mobile:60,radius=0.3,speed=0.01"
    assert view.page.is_disabled("#weights")


def test_masks_and_what_a_curious_neighbor_knows(view):
    view.open(**(SMALL | {"network": "star:5"}))
    x, y = view.place(0)
    view.page.mouse.move(x, y)
    assert "curious" not in view.page.inner_text("#tip")
    view.page.fill("#mask", "5")
    view.done()
    assert view.scenario["mask"] == 100
    assert view.page.inner_text("#mask-size") == "100"
    for agent, known in (
        (0, "up to ± 173.2"),
        (3, "exactly"),
    ):  # three other masks hide the center, none a leaf
        x, y = view.place(agent)
        view.page.mouse.move(x, y)
        assert view.page.inner_text("#tip").endswith(f"a curious neighbor knows it {known}")
    first, last = (view.estimates()[t] for t in (1, -1))
    assert max(first) - min(first) > 50  # masked values are far apart, and then agree
    assert max(last) - min(last) < 5
    assert "Ring: what an agent tells" in view.page.inner_text("#ramp")
    # A ring and its disc have different colors in the first rounds, and the same at last.
    apart = []
    for at in (1, view.scenario["rounds"]):
        view.js(f"playground.goTo({at})")
        frame = view.js(
            "(({ values, told }) => [[...values], [...told]])(playground.stage.views[0].canvas.frame)"
        )
        apart.append(np.abs(np.subtract(*frame)).max())
    assert apart[0] > 50
    assert apart[1] < 1e-3 * apart[0]
    svg = view.js("import('/static/export.js').then(({ drawing }) => drawing(playground))")
    assert svg.count('fill="none" stroke="rgb(') == 5  # rings
    assert "Ring: what an agent tells" in svg
    view.page.fill("#mask", "0")
    view.done()
    assert view.js("playground.stage.views[0].canvas.frame.told") is None
    assert "Ring" not in view.page.inner_text("#ramp")


def test_weights_files_means_noise_rounds_and_seed(view, tmp_path):
    view.open(**SMALL)
    for weights in catalog()["weights"]:
        view.choose("#weights", weights)
        assert view.notice == ""
    view.choose("#weights", "metropolis")
    (tmp_path / "towns.edges").write_bytes(base64.b64decode(EDGES))
    view.page.select_option("#kind", "uploaded file")
    view.page.set_input_files("#file", tmp_path / "towns.edges")
    view.page.wait_for_selector("text=4 agents, 4 links")
    view.done()
    x, y = view.place(2)
    view.page.mouse.move(x, y)
    assert view.page.inner_text("#tip").startswith("agent bonn: estimate ")
    (tmp_path / "towns.edges").write_bytes(b"0 1\n1 2\n")  # the same file again, corrected
    with view.page.expect_file_chooser() as chooser:
        view.page.click("#file")
    assert view.page.input_value("#file") == ""  # or else a browser sees no change
    chooser.value.set_files(tmp_path / "towns.edges")
    view.page.wait_for_selector("text=3 agents, 2 links")
    (tmp_path / "large.edges").write_bytes(b"0 1\n" * 100_000)
    view.page.set_input_files("#file", tmp_path / "large.edges")
    view.page.wait_for_selector("text=an uploaded file may have 256 kB")
    (tmp_path / "broken.graphml").write_bytes(b"<no")
    view.page.set_input_files("#file", tmp_path / "broken.graphml")
    view.page.wait_for_selector("text=broken.graphml could not be read as graphml")
    view.set(**SMALL)
    assert view.notice == ""
    for means in catalog()["means"]:
        view.choose("#means", means)
    view.type("#spread", "1")
    for noise in catalog()["noise"]:
        view.choose("#noise", noise)
        assert view.notice == ""
    view.type("#std", "0.25")
    view.type("#rounds", "35")
    view.type("#seed", "9")
    names = ("means", "spread", "noise", "std", "rounds", "seed")
    assert [view.scenario[name] for name in names] == ["one", 1, "bernoulli", 0.25, 35, 9]
    assert view.page.get_attribute("#scrub", "max") == "35"


def test_every_method_and_its_parameters(view):
    view.open(**SMALL)
    for name, parameters in catalog()["methods"].items():
        view.choose("select[name=method-0]", name)
        assert view.notice == "", name
        assert view.js("playground.results.labels[0]") == name
        fields = view.page.locator("#methods details .pair > label").all_text_contents()
        assert len(fields) == len(parameters)
    view.choose("select[name=method-0]", "anytime-sda")
    view.page.click("#methods summary")
    view.choose("[name=parameter-0-acceleration]", "local")
    view.type("[name=parameter-0-momentum]", "0.9")
    assert view.scenario["methods"] == [["anytime-sda", {"acceleration": "local", "momentum": 0.9}]]
    view.type("[name=parameter-0-momentum]", "")
    assert view.scenario["methods"] == [["anytime-sda", {"acceleration": "local"}]]
    view.type("[name=parameter-0-momentum]", "fast")
    assert view.notice.startswith("momentum must be a finite number")
    view.type("[name=parameter-0-momentum]", "")
    for count in (2, 3):
        view.page.click("#add")
        view.done()
        assert view.page.locator("#networks canvas").count() == count
    assert view.page.is_disabled("#add")
    # All see the same observations, and show the same round.
    view.js("playground.goTo(17)")
    shown = view.js("playground.stage.views.map((_, k) => playground.stage.estimates(k)[3])")
    for k in (0, 2):  # SDA, the second, has no answer yet
        assert shown[k] == view.estimates(k)[16][3]
    view.page.click("[aria-label='Remove method 2']")
    view.done()
    assert view.page.locator("#networks canvas").count() == 2


def test_the_player(view):
    view.open(**SMALL)
    assert view.page.inner_text("#round") == "round 1"
    view.page.click("#forth")
    view.page.click("#forth")
    view.page.click("#back")
    assert view.page.inner_text("#round") == "round 2"
    view.page.select_option("#speed", "400")
    view.page.click("#play")
    view.page.wait_for_selector("text=round 60")
    assert view.page.inner_text("#play") == "Play"
    view.page.select_option("#speed", "4")
    view.page.click("#play")  # from the start again
    view.page.wait_for_function("() => playground.playing && playground.round >= 3")
    view.page.click("#play")
    stopped = view.page.inner_text("#round")
    view.page.wait_for_timeout(400)
    assert view.page.inner_text("#round") == stopped
    view.page.fill("#scrub", "41")
    assert view.page.inner_text("#round") == "round 41"
    ends = view.page.locator("#ramp span").all_text_contents()
    view.page.select_option("#span", "round")
    now = view.page.locator("#ramp span").all_text_contents()
    assert float(now[2]) < float(ends[2].split()[0])
    box = view.page.locator("#chart .u-over").bounding_box()
    view.page.mouse.click(box["x"] + box["width"] - 2, box["y"] + 20)
    assert int(view.page.inner_text("#round").split()[1]) >= 59


def test_acting_on_a_run(view):
    """Kill, restart, cut, mend, partition, lose: the past stays, the future changes, the log tells, a fork compares."""
    view.open(**(SMALL | {"methods": [["anytime-sda", {"acceleration": "local"}]]}))
    calm = np.array(view.estimates(), dtype=float)
    errors = view.js("playground.results.runs[0].error")
    view.js("playground.goTo(20)")
    view.page.mouse.click(*view.place(5))
    view.done()
    assert view.scenario["events"] == [{"kind": "crash", "agent": 5, "round": 20}]
    assert "agent 5 stops" in view.page.inner_text("#events")
    hit = np.array(view.estimates(), dtype=float)
    np.testing.assert_allclose(hit[:20], calm[:20], rtol=1e-6)
    assert np.isnan(hit[20:, 5]).all()
    assert view.page.inner_text("#round") == "round 20"
    assert view.js("playground.stage.views[0].canvas.frame.dead[5]") == 1
    view.page.mouse.move(*view.place(5))
    view.js("playground.goTo(30)")

    view.page.mouse.click(*view.place(5))
    view.done()
    assert view.scenario["events"][-1] == {"kind": "restart", "agent": 5, "round": 30}
    np.testing.assert_array_equal(np.array(view.estimates(), dtype=float)[:30], hit[:30])

    a, b = view.place(0), view.place(1)
    middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    view.page.mouse.move(*middle)
    assert view.page.inner_text("#tip") == "link 0–1"
    view.page.mouse.click(*middle)
    view.done()
    assert view.scenario["events"][-1] == {"kind": "partition", "edges": [[0, 1]], "start": 30, "stop": None}
    assert view.js("playground.stage.views[0].canvas.frame.cut.reduce((a, b) => a + b)") == 1
    view.js("playground.goTo(35)")
    view.page.mouse.click(*middle)
    view.done()
    assert view.scenario["events"][-1] == {"kind": "partition", "edges": [[0, 1]], "start": 30, "stop": 35}

    # A loop around the first row, of agents 0 to 3.
    (x0, y0), (x1, y1) = view.place(0), view.place(3)
    corners = [
        (x0 - 18, y0 - 18),
        (x1 + 18, y1 - 18),
        (x1 + 18, y1 + 18),
        (x0 - 18, y0 + 18),
        (x0 - 18, y0 - 10),
    ]
    view.page.mouse.move(*corners[0])
    view.page.mouse.down()
    for corner in corners[1:]:
        view.page.mouse.move(*corner, steps=4)
    view.page.mouse.up()
    view.done()
    assert view.scenario["events"][-1] == {
        "kind": "partition",
        "groups": [[0, 1, 2, 3]],
        "start": 35,
        "stop": None,
    }
    assert view.js("playground.stage.views[0].canvas.frame.cut.reduce((a, b) => a + b)") == 4
    view.js("playground.goTo(45)")
    view.page.click("[aria-label^=Restore]")
    view.done()
    assert view.scenario["events"][-1]["stop"] == 45

    view.page.fill("#loss", "0.5")
    view.done()
    assert {"kind": "loss", "probability": 0.5, "start": 45, "stop": None} in view.scenario["events"]
    assert view.page.inner_text("#lost") == "50%"
    log = view.page.locator("#events li").all_inner_texts()
    assert [int(re.match(r"\d+", line)[0]) for line in log] == [20, 30, 30, 35, 35, 45, 45]

    before = view.js("playground.results.runs[0].error")
    view.page.click("#fork")
    view.done()
    view.page.click("[aria-label='Undo: agent 5 stops']")
    view.done()
    assert "cannot restart" in view.notice  # its history makes no sense any more, and the page says so
    view.page.click("[aria-label='Undo: agent 5 is back']")
    view.done()
    assert view.notice == ""
    assert view.js("playground.results.forks.map((fork) => fork.error)") == [before]
    assert "fork 1" in view.page.inner_text("#legend")
    assert view.js("playground.results.runs[0].error") != before
    view.page.click("#forget")
    view.done()
    assert "fork" not in view.page.inner_text("#legend")
    for _ in range(view.page.locator("#events li button:last-child").count()):
        if view.scenario["events"]:
            view.page.locator("#events li button:last-child").first.click()
            view.done()
    assert view.scenario["events"] == []
    np.testing.assert_allclose(view.js("playground.results.runs[0].error"), errors)

    view.type("#burst-length", "5")
    view.type("#delay-rounds", "2")
    kinds = {event["kind"]: event for event in view.scenario["events"]}
    assert kinds["burst"] == {"kind": "burst", "mean_length": 5, "fraction": 0.17}
    assert kinds["delay"] == {"kind": "delay", "rounds": 2, "probability": 0.1}
    steady = view.estimates()
    view.js("playground.goTo(25)")
    view.page.fill("#loss", "0.3")
    view.done()
    assert view.estimates()[:25] == steady[:25]
    assert view.estimates() != steady
    view.type("#burst-length", "")
    view.type("#delay-rounds", "")
    assert [event["kind"] for event in view.scenario["events"]] == ["loss"]


def test_a_method_without_faults_says_so_in_words(view):
    view.open(**(SMALL | {"methods": [["pairwise", {}], ["dsg", {}]]}))
    view.js("playground.goTo(10)")
    view.page.fill("#loss", "0.5")
    view.done()
    assert view.notice.startswith("pairwise cannot run with faults")
    assert "runs without a ledger" in view.page.inner_text("#notes")
    view.js("playground.goTo(60)")
    view.page.mouse.click(*view.place(5))
    assert view.notice.startswith("The run ends here")


def test_at_the_end_of_a_run_nothing_can_follow_but_what_was_can_be_another(view):
    view.open(**(SMALL | {"events": [{"kind": "crash", "agent": 3, "round": 12}]}))
    view.js("playground.goTo(60)")
    view.page.focus("#loss")
    view.page.keyboard.press("ArrowRight")
    assert view.notice.startswith("The run ends here")
    assert view.page.input_value("#loss") == "0"
    assert view.page.inner_text("#lost") == "0%"
    view.type("#delay-rounds", "2")
    assert [event["kind"] for event in view.scenario["events"]] == ["loss", "crash", "delay"]
    view.type("#delay-rounds", "two")
    assert "got 'two'" in view.notice
    view.type("#delay-rounds", "")
    view.page.click("[aria-label='Undo: agent 3 stops']")
    view.done()
    assert view.scenario["events"] == []
    assert view.notice == ""


def test_of_many_wishes_the_newest_is_computed_and_the_worker_stays_warm(view):
    view.open(**SMALL)
    sent = []
    view.page.on("websocket", lambda socket: socket.on("framesent", lambda text: sent.append(text)))
    view.page.reload()
    view.done()
    sent.clear()
    for rounds in range(61, 71):
        view.js("rounds => playground.change({ rounds })", rounds)
    view.done()
    assert view.js("playground.results.network.rounds") == 70
    runs = [text for text in sent if json.loads(text)["type"] == "run"]
    assert 1 <= len(runs) < 10
    assert json.loads(runs[-1])["scenario"]["rounds"] == 70


def test_no_answer_looks_like_none(view):
    """Not like the average, which is as pale as the page."""
    view.open(**(SMALL | {"methods": [["sda", {}], ["anytime-sda", {}]]}))
    view.js("playground.goTo(20)")
    captions = view.page.locator("#networks figcaption")
    assert [text.strip() for text in captions.all_inner_texts()] == ["sda\nno answer yet", "anytime-sda"]
    svg = view.js("import('/static/export.js').then(({ drawing }) => drawing(playground))")
    radii = [float(found) for found in re.findall(r'<circle [^>]* r="([\d.]+)"', svg)]
    assert radii[:16] == [radii[0]] * 16
    assert radii[16:] == [pytest.approx(2 * radii[0], rel=0.05)] * 16
    notes = view.page.inner_text("#notes").split(" · ")
    assert notes[0] == "sda: each point of the curves is a run of that many rounds"
    view.js("playground.goTo(60)")
    assert [text.strip() for text in captions.all_inner_texts()] == ["sda", "anytime-sda"]
    view.set(**(SMALL | {"methods": [["anytime-sda", {"momentum": 1.5}]], "rounds": 2000}))
    view.js("playground.goTo(2000)")
    assert captions.inner_text().endswith("diverged")
    view.page.mouse.move(*view.place(3))
    assert view.page.inner_text("#tip").startswith("agent 3: diverged")
    assert "diverges: with these parameters" in view.page.inner_text("#notes")
    assert [x for x in view.js("playground.chart.plot.axes[1]._values") if x][-1].startswith("10²")


def test_agents_on_a_circle_do_not_lie_on_each_other(view):
    view.open(**(SMALL | {"network": "cycle:100"}))
    one, other = view.place(0), view.place(1)
    radius = view.js("playground.stage.views[0].canvas.radius()")
    assert 2 * radius < np.hypot(one[0] - other[0], one[1] - other[1])


def test_copied_code_gives_the_numbers_of_the_page(view, tmp_path):
    view.open(**SMALL)
    view.js("playground.goTo(15)")
    view.page.mouse.click(*view.place(6))
    view.done()
    view.page.fill("#loss", "0.25")
    view.done()
    errors = view.js("playground.results.runs[0].error")
    view.page.click("#copy-python")
    view.page.wait_for_selector("text=Python is in the clipboard")
    names: dict = {}
    exec(view.js("navigator.clipboard.readText()"), names)
    (run,) = names["runs"]
    assert run.total_error.tolist() == errors
    shown = np.array(view.estimates(), dtype=float)
    np.testing.assert_array_equal(
        run.iterates["estimate"][0, :, :, 0].astype(np.float32), shown.astype(np.float32)
    )
    view.page.click("#copy-command")
    view.page.wait_for_selector("text=The command is in the clipboard")
    _, *words = shlex.split(view.js("navigator.clipboard.readText()"))
    assert [record["total_error"] for record in json.loads(run_command(*words, "--json"))] == errors


def test_the_address_holds_the_view(view, server, browser):
    view.open(**(SMALL | {"events": [{"kind": "crash", "agent": 3, "round": 12}], "forks": [[]]}))
    view.page.fill("#scrub", "33")
    view.page.select_option("#span", "round")
    view.page.uncheck("#whole")
    view.page.fill("#teacher", "Look at the corners.\nWhy?")
    view.page.click("#copy-link")
    view.page.wait_for_selector("text=The address is in the clipboard")
    address = view.js("navigator.clipboard.readText()")
    assert address.startswith(server.address)
    context = browser.new_context()
    other = View(context, address)
    other.open()
    assert other.scenario == view.scenario
    assert other.page.inner_text("#round") == "round 33"
    assert other.page.input_value("#span") == "round"
    assert other.js("playground.chart.grow")
    assert other.page.inner_text("#said") == "Look at the corners.\nWhy?"
    assert not other.page.is_visible("#notice")
    assert other.estimates() == view.estimates()
    other.check()
    context.close()


def test_an_address_that_is_broken_says_so_and_shows_a_scene(view):
    view.page.goto(f"{view.address}#{in_address({'network': 'nowhere:5'})}")
    view.done()
    assert view.notice.startswith("network must be one of path")
    for button in ("#save-svg", "#save-png", "#save-csv", "#save-estimates"):
        view.page.click(button)
        assert view.notice.startswith("There is no run to save yet.")
    whole = in_address(SMALL)
    broken = [
        {"network": 5},
        {"events": "x"},
        {"methods": [["nobody", {}]]},
        {"network": "file", "file": None},
    ]
    for fragment in ("nonsense", "%%%", whole[: len(whole) // 2], *(in_address(each) for each in broken)):
        view.js("scenario => playground.set(scenario)", SMALL)
        assert view.notice == ""
        view.js("fragment => { location.hash = fragment; }", fragment)
        view.page.wait_for_selector("#notice >> text=The link is incomplete")
        assert view.scenario["network"] == PRESETS[0]["scenario"]["network"]
    view.done()
    assert view.notice.startswith("The link is incomplete")


def test_images_and_numbers(view, tmp_path):
    view.open(**(SMALL | {"methods": [["sda", {}], ["dsg", {}]]}))
    view.js("playground.goTo(40)")

    def saved(button: str) -> Path:
        with view.page.expect_download() as download:
            view.page.click(button)
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    svg = saved("#save-svg").read_text()
    assert svg.count("<circle") == 32
    assert svg.count("<polyline") == 8
    assert "sda, round 40" in svg
    for text in view.page.locator("#ramp span").all_text_contents():
        assert f">{text}</text>" in svg  # what the colors stand for
    png = saved("#save-png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert len(png) > 20_000
    rows = list(csv.DictReader(io.StringIO(saved("#save-csv").read_text())))
    errors = view.js("playground.results.runs.map((run) => run.error)")
    assert [float(row["this run: sda"]) for row in rows] == errors[0]
    assert [float(row["this run: dsg"]) for row in rows] == errors[1]
    assert set(rows[0]) >= {"rounds", "expected: sda", "Theorem 2: dsg", "centralized limit", "network limit"}
    rows = list(csv.DictReader(io.StringIO(saved("#save-estimates").read_text())))
    assert len(rows) == 16
    np.testing.assert_allclose([float(row["dsg"]) for row in rows], view.estimates(1)[39], rtol=1e-6)
