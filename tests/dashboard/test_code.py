"""The view as code: what is copied from the page gives the page's numbers."""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import shlex

import numpy as np
import pytest
from tests.support.commands import run as run_command
from tests.support.scenarios import EDGES, EVENTS, frames

import gossamer as gs
from gossamer.cli.dashboard import command_of
from gossamer.dashboard.code import to_python
from gossamer.dashboard.presets import PRESETS
from gossamer.dashboard.scenario import Scenario

BASE = {"rounds": 60, "seed": 4}

VIEWS = {
    "plain": {"network": "grid:4x4"},
    "three methods": {
        "network": "erdos-renyi:12",
        "methods": [
            ["sda", {"burn_in": 7}],
            ["anytime-sda", {"acceleration": "chebyshev"}],
            ["sstm_sc", {"counting": "iterations", "accuracy": 0.1}],
        ],
        "weights": "best-constant",
    },
    "all events": {"network": "grid:4x4", "events": EVENTS},
    "one loss": {
        "network": "cycle:9",
        "events": [{"kind": "loss", "probability": 0.3, "start": 0, "stop": None}],
    },
    "late": {"network": "star:9", "events": [{"kind": "join", "agent": 2, "round": 9}]},
    "masks": {"network": "grid:3x3", "mask": 10.0},
    "ramp, heavy tails": {"network": "path:9", "means": "ramp", "noise": "student-t", "std": 0.5},
    "one, uniform": {"network": "hypercube:3", "means": "one", "spread": 8.0, "noise": "uniform"},
    "coins": {"network": "torus:3x3", "spread": 1.0, "noise": "bernoulli"},
    "robots": {"network": "mobile:12,radius=0.4,speed=0.02", "methods": [["dsg", {}]]},
    "matchings": {"network": "matchings:12", "methods": [["dsg", {}]]},
    "dropout": {"network": "dropout:grid:3x3,alive=0.4", "methods": [["dsg", {}]]},
    "switching": {"network": "switching:path:8+star:8,every=3", "methods": [["dsg", {}]]},
    "file": {"network": "file", "file": ["towns.edges", EDGES]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_copied_python_and_commands_give_the_numbers_of_the_page(name, tmp_path, monkeypatch, capsys):
    state = BASE | VIEWS[name]
    found, scenario = frames(**state)["run"], Scenario.of(state)

    names: dict = {}
    exec(to_python(scenario), names)
    printed = capsys.readouterr().out
    assert len(names["runs"]) == len(found)
    for run, (header, arrays) in zip(names["runs"], found, strict=True):
        assert header["error"] == run.total_error.tolist()
        estimates = run.iterates["estimate"][0, :, :, 0].astype(np.float32)
        shown = ~np.isnan(arrays["estimates"])
        np.testing.assert_array_equal(estimates[shown], arrays["estimates"][shown])
        assert header["label"] in printed

    monkeypatch.chdir(tmp_path)
    (tmp_path / "towns.edges").write_bytes(base64.b64decode(EDGES))
    lines = command_of(scenario).splitlines()
    assert len(lines) == len(found)
    for line, (header, _) in zip(lines, found, strict=True):
        program, *words = shlex.split(line)
        assert program == "gossamer"
        records = json.loads(run_command(*words, "--json"))
        assert [record["total_error"] for record in records] == header["error"]
        assert [record["rounds"] for record in records] == scenario.horizons


POISON = [
    "__import__('os').system('id')",
    "1) or print(1",
    "1\nimport os",
    "'\"\\",
    "nan",
    "1;2",
    "--csv=x",
    "$(id)",
    "é=1",
]


def shape(python: str) -> str:
    """The syntax tree without constants (also negative numbers and lists of them) and names of arguments."""
    tree = ast.parse(python)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword):
            node.arg = "" if node.arg and node.arg.isidentifier() else node.arg
        for field, value in ast.iter_fields(node):
            values = (
                [ast.Constant(0) if _constant(v) else v for v in value] if isinstance(value, list) else value
            )
            setattr(node, field, ast.Constant(0) if _constant(value) else values)
    return ast.dump(tree)


def _constant(node: object) -> bool:
    try:
        ast.literal_eval(node)  # type: ignore[arg-type]
    except (ValueError, TypeError, SyntaxError):
        return False
    return isinstance(node, ast.AST)


@pytest.mark.parametrize("poison", POISON)
def test_links_and_files_put_nothing_but_constants_into_code(poison):
    """A poisoned link is refused, or is a text in code that has the shape of that of a clean one."""
    states = [
        ({"network": "mobile:12,radius={}"}, "0.4"),
        ({"network": "mobile:{},radius=0.4"}, "12"),
        ({"network": "mobile:12,{}=0.4"}, "radius"),
        ({"network": "matchings:{}"}, "12"),
        ({"network": "dropout:{},alive=0.4"}, "grid:3x3"),
        ({"network": "dropout:grid:3x3,alive={}"}, "0.4"),
        ({"network": "switching:{}+star:8,every=3"}, "path:8"),
        ({"network": "switching:path:8+star:8,every={}"}, "3"),
        ({"network": "{}"}, "grid:3x3"),
        ({"network": "file", "weights": "file", "file": ["{}", EDGES]}, "towns.edges"),
        ({"network": "grid:3x3", "methods": [["sda", {"{}": 3}]]}, "burn_in"),
        ({"network": "grid:3x3", "means": "{}"}, "uniform"),
        ({"network": "grid:3x3", "noise": "{}"}, "gaussian"),
        ({"network": "grid:3x3", "weights": "{}"}, "metropolis"),
    ]
    for state, clean in states:
        text = json.dumps(state)
        poisoned = json.loads(text.replace("{}", json.dumps(poison)[1:-1]))
        expected = shape(to_python(Scenario.of(json.loads(text.replace("{}", clean)))))
        with contextlib.suppress(gs.GossamerError):
            scenario = Scenario.of(poisoned)
            assert shape(to_python(scenario)) == expected
            graph = shlex.split(command_of(scenario))[2]
            assert not graph.startswith("-")
            assert graph.removeprefix("./") == (poison if "file" in state else poisoned["network"])


def test_code_is_what_a_person_would_write():
    python = to_python(Scenario.of({"network": "grid:4x4", "methods": [["sda", {}], ["dsg", {}]]}))
    assert 'network = gs.Network.named("grid:4x4", "metropolis", 0)' in python.replace("'", '"')
    assert "methods = [gs.SDA(), gs.DSG()]" in python
    assert "faults" not in python
    for preset in PRESETS:
        compile(to_python(Scenario.of(preset["scenario"])), preset["name"], "exec")


def exact(preset: int, **also) -> list:
    """The exact errors of a preset's methods at the end, as multiples of the centralized limit."""
    scenario = Scenario.of(PRESETS[preset]["scenario"])
    network = scenario.build_network()
    streams = scenario.build_streams(network.agents)
    rounds = also.get("rounds", scenario.rounds)
    return [gs.exact(method, network, streams, rounds).over_limit for method in scenario.build_methods()]


def ends(preset: int) -> list:
    """The errors of a preset's runs at the end, as multiples of the centralized limit."""
    found = frames(**PRESETS[preset]["scenario"])
    limit = found["limits"][0][0]["centralized"][-1]
    return [header["error"][-1] / limit for header, _ in found["run"]]


def test_preset_all_thermometers_agree_on_the_average():
    found = frames(**PRESETS[0]["scenario"])
    network, arrays = found["network"][0]
    estimates = found["run"][0][1]["estimates"]
    np.testing.assert_allclose(arrays["means"].mean(), network["target"], rtol=1e-5)
    np.testing.assert_allclose(estimates[-1], network["target"], atol=0.5)
    assert np.ptp(estimates[0]) > 5


def test_preset_sda_ends_at_twice_the_error_of_a_center_and_anytime_sda_beside_it():
    sda, anytime = exact(1)
    assert 2 < sda < 2.5
    assert 1 < anytime < 1.1


def test_preset_momentum_runs_through_a_path():
    without, with_momentum = exact(2)
    assert without > 1000 * with_momentum
    assert with_momentum < 3


def test_preset_dsg_overtakes_sda_on_a_random_graph():
    sda, dsg = exact(3)
    assert dsg < 0.7 * sda
    early_sda, early_dsg = exact(3, rounds=40)
    assert early_sda < early_dsg


@pytest.mark.slow
def test_preset_half_of_all_messages_may_be_lost():
    ours, dsg = ends(4)
    assert ours < 2
    assert dsg > 10


@pytest.mark.slow
def test_preset_robots_are_never_all_connected_and_agree():
    scenario = Scenario.of(PRESETS[5]["scenario"])
    assert scenario.build_network().summary(scenario.rounds)["connected_rounds"] == 0
    found = frames(**PRESETS[5]["scenario"])
    last = found["run"][0][1]["estimates"][-1]
    assert np.abs(last - found["network"][0][0]["target"]).max() < 0.02


def test_preset_survivors_settle_on_their_own_average():
    found = frames(**PRESETS[6]["scenario"])
    estimates = found["run"][0][1]["estimates"]
    np.testing.assert_allclose(estimates[149, 1:], 1.0, atol=0.1)  # of everybody: one reading of 36
    np.testing.assert_allclose(estimates[-1, 1:], 0.0, atol=0.05)  # of the survivors
    assert np.isnan(estimates[150:, 0]).all()
