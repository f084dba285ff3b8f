"""Scenarios: what a page may ask for, what it gives, and that acting on a run changes nothing before."""

from __future__ import annotations

import base64
import dataclasses

import numpy as np
import pytest
from tests.support.frames import unpacked
from tests.support.scenarios import EDGES, EVENTS, frames

import gossamer as gs
from gossamer.dashboard import scenario as scenarios
from gossamer.dashboard.frames import packed
from gossamer.dashboard.layout import places
from gossamer.dashboard.scenario import Scenario, catalog
from gossamer.errors import InvalidInput


def test_frames_hold_headers_and_arrays():
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array([1, 2, 3], dtype=np.uint16),
        "c": np.zeros((0, 2), dtype=np.uint8),
        "d": np.array([np.nan, 1.5]),
    }
    header, found = unpacked(packed({"type": "x", "text": "é"}, **arrays))
    assert header == {"type": "x", "text": "é"}
    for name, values in arrays.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)
    with pytest.raises(ValueError, match="Out of range"):
        packed({"number": float("nan")})


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ([], "a scenario must be a JSON object"),
        ({"rond": 3}, "a scenario has .*rounds.*, got 'rond'"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1 and at most 20000, got 0"),
        ({"rounds": "many"}, "rounds must be a whole number"),
        ({"rounds": 10**9}, "rounds must be a whole number of at least 1 and at most 20000"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
        ({"std": float("inf")}, "std must be a finite number"),
        ({"means": "odd"}, "means must be 'uniform', 'ramp' or 'one', got 'odd'"),
        ({"noise": 3}, "noise must be 'gaussian'"),
        ({"network": 3}, "a name is needed, got 3"),
        ({"methods": []}, "a playground needs a method, got none"),
        ({"methods": [["sda", {}]] * 4}, "a playground has at most 3 methods, got 4"),
        ({"methods": [["my_file.py:Evil", {}]]}, "method must be 'sda'"),
        ({"methods": [["sda", {"burnin": 3}]]}, "sda takes burn_in.*, got 'burnin' .did you mean 'burn_in'"),
        ({"methods": [5]}, "a method is a name and its parameters, got 5"),
        ({"events": [{"kind": "flood"}]}, "an event must be one of loss, burst"),
        ({"events": [{"kind": "crash", "agent": 3}]}, "crash needs agent, round, but round is missing"),
        (
            {"events": [{"kind": "crash", "agent": 3, "round": 2, "who": 1}]},
            "crash takes agent, round, notice, got 'who'",
        ),
        ({"events": [{"kind": "loss", "probability": 2}]}, "probability must be a probability from 0 to 1"),
        ({"events": [{"kind": "partition", "edges": [[1]]}]}, "edges must be pairs of agents"),
        ({"events": [{"kind": "loss", "probability": 0.1}] * 201}, "at most 200 events, got 201"),
        ({"forks": [[]] * 4}, "at most 3 forks"),
        ({"file": ["a", "A" * 400_000]}, "an uploaded file may have 256 kB, got 292 kB"),
        ({"file": "a"}, "a file is a name and its content"),
    ],
)
def test_what_is_no_scenario_is_refused_in_words(state, text):
    with pytest.raises(InvalidInput, match=text):
        Scenario.of(state)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"network": "complete:100000"}, "agents of a playground must be at most 2000, got 100000"),
        ({"network": "grid:100000x100000"}, "at most 2000, got 1e.10"),
        ({"network": "hypercube:60"}, "at most 2000"),
        (
            {"network": "complete:300"},
            "links of a playground must be at most 40,000, got about 44,850",
        ),
        ({"network": "expander:2000x1999"}, "at most 40,000, got about 1,999,000 in 'expander:2000x1999'"),
        ({"network": "expander:2000,1999"}, "got about 1,999,000"),
        ({"network": "erdos-renyi:2000,0.9"}, "got about 1,799,100"),
        ({"network": "geometric:2000x2"}, "got about 1,999,000"),
        ({"network": "dropout:expander:2000x1999,alive=0.1"}, "got about 1,999,000"),
        ({"network": "mobile:2000,radius=10"}, "got about 1,999,000"),
        ({"network": "mobile:2000,radius=1e999"}, "got about 1,999,000"),
        ({"network": "mobile:2000,speed=0.1, radius = .9"}, "got about 1,999,000"),
        ({"network": "mobile:20,radius=1e+"}, "needs a number where '1e.' is"),
        (
            {"network": "mobile:5,speed=1e308"},
            "speed must be a finite number of at least 0 and at most 1, got 1e.308",
        ),
        ({"network": "mobile:2000"}, "got about 251,"),
        (
            {"network": "mobile:280,radius=10", "rounds": 20_000},
            "has about 781,200,000 in 20000 rounds, at least 15.6 GB; take fewer",
        ),
        ({"network": "dropout:complete:9000,alive=0.5"}, "at most 2000, got 9000"),
        ({"network": "mobile:9000"}, "at most 2000, got 9000"),
        ({"network": "/etc/passwd"}, "network must be one of path, cycle"),
        ({"network": "matrix:/etc/passwd"}, "network must be one of path, cycle"),
        ({"network": "contacts:/etc/passwd"}, "network must be one of path, cycle"),
        ({"network": "dropout:/etc/passwd,alive=1"}, "network must be one of path, cycle"),
        ({"network": "grid:3"}, "grid takes rows x cols"),
        ({"network": "grid:axb"}, "needs whole numbers"),
        ({"network": "file"}, "network must be uploaded as a file"),
        ({"network": "file", "file": ["a", "!"]}, "a did not arrive whole"),
        ({"network": "file", "file": ["../x.edges", base64.b64encode(b"a b\nc d\n").decode()]}, "connected"),
        (
            {"network": "grid:40x50", "rounds": 20_000},
            "a page holds 12,000,000 estimates, but 20000 rounds of 2000",
        ),
        (
            {
                "network": "complete:250",
                "methods": [["sda", {}]] * 3,
                "rounds": 10_000,
                "events": [{"kind": "loss", "probability": 0.5}],
            },
            r"the runs of a page may take 120 s, but these would take about \d{4} s; take fewer rounds",
        ),
    ],
)
def test_networks_that_do_not_fit_are_refused_before_they_are_built(state, text):
    with pytest.raises(InvalidInput, match=text):
        Scenario.of(state).build_network()
    found = frames(**state)
    assert list(found) == ["error"]


def test_a_file_keeps_its_names_and_no_folder_shows():
    found = frames(network="file", file=["../towns.edges", EDGES], rounds=5)
    header, arrays = found["network"][0]
    assert header["names"] == ["rome", "oslo", "bonn", "wien"]
    assert arrays["links"].tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    broken = frames(network="file", file=["x.npy", base64.b64encode(b"no").decode()], rounds=5)
    assert broken["error"][0][0]["message"].startswith("x.npy could not be read")


@pytest.mark.slow
def test_a_catalog_offers_only_what_can_be_built():
    offered = catalog()
    for kind, sizes in offered["networks"].items():
        given = [(name, value) for name, value in sizes.items() if value is not None]
        rest = (
            ",".join(f"{name}={value}" if k else f"{value}" for k, (name, value) in enumerate(given))
            if kind in offered["changing"]
            else "x".join(str(value) for _, value in given)
        )
        network = Scenario.of({"network": f"{kind}:{rest}"}).build_network()
        assert isinstance(network, gs.ChangingNetwork) == (kind in offered["changing"])
        found = places(network, 3)
        assert found.shape[-2:] == (network.agents, 2)
        assert 0 <= found.min() <= found.max() <= 1
        assert len(np.unique(found.reshape(-1, network.agents, 2)[0].round(4), axis=0)) == network.agents
    for name, parameters in offered["methods"].items():
        for parameter in parameters:
            assert (parameter["choices"] is not None) == isinstance(parameter["value"], str), name
            for choice in parameter["choices"] or ():
                Scenario.of({"methods": [[name, {parameter["name"]: choice}]]}).build_methods()
    assert {field.name for field in dataclasses.fields(Scenario)} >= {"network", "weights", "means", "noise"}
    for weights in offered["weights"]:
        Scenario.of({"network": "path:5", "weights": weights}).build_network()
    for means in offered["means"]:
        for noise in offered["noise"]:
            spread = 1.0 if noise == "bernoulli" else 10.0
            streams = Scenario.of({"means": means, "noise": noise, "spread": spread}).build_streams(9)
            assert streams.mean.max() <= spread


def test_the_links_around_a_torus_do_not_lie_on_the_others():
    found = places(gs.Network.torus(5, 6), 1).reshape(5, 6, 2)
    for line in (*found, *found.transpose(1, 0, 2)):
        (x, y), inner = (line[-1] - line[0]) / np.linalg.norm(line[-1] - line[0]), line[1:-1] - line[0]
        assert (np.abs(inner[:, 0] * y - inner[:, 1] * x) > 0.02).all()


def test_a_run_is_what_the_engines_give():
    state = {
        "network": "grid:4x4",
        "methods": [["sda", {}], ["dsg", {}], ["anytime-sda", {}]],
        "rounds": 50,
        "seed": 3,
    }
    found, scenario = frames(**state), Scenario.of(state)
    network, streams = scenario.build_network(), scenario.build_streams(16)
    horizons = scenario.horizons
    assert (horizons[0], horizons[-1]) == (1, 50)
    for number, name in enumerate(["sda", "dsg", "anytime-sda"]):
        header, arrays = found["run"][number]
        run = gs.simulate(name, network, streams, horizons, trials=1, seed=3, keep="iterates")
        assert header["error"] == run.total_error.tolist()
        estimates = run.iterates["estimate"][0, :, :, 0].astype(np.float32)
        shown = arrays["estimates"]
        assert shown.shape == (50, 16)
        before = 25 if name == "sda" else 0  # SDA has no answer before its burn-in
        assert np.isnan(shown[:before]).all()
        np.testing.assert_array_equal(shown[before:], estimates[before:])
        assert (
            found["exact"][number][0]["error"]
            == gs.exact(name, network, streams, horizons).total_error.tolist()
        )
    limits = found["limits"][0][0]
    assert limits["centralized"] == gs.theory.centralized_limit(streams, np.array(horizons)).tolist()
    assert limits["network"][-1] == gs.theory.network_limit(network, streams, 50)
    bounds = {header["label"]: header["error"][-1] for header, _ in found["bound"]}
    assert bounds == {
        "Theorem 1": gs.theory.theorem_1(network, streams, 50).total,
        "Theorem 2": gs.theory.theorem_2(network, streams, 50).total,
        "Theorem 3": gs.theory.theorem_3(network, streams, 50, gs.AnytimeSDA().window(network)).total,
    }
    assert found["bound"][0][0]["error"][0] is None  # Theorem 1 promises nothing before 2 k* rounds
    header = found["network"][0][0]
    assert header["target"] == streams.mean.mean()
    assert header["k_star"] == gs.theory.k_star(network)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["grid:4x4", "mobile:16,radius=0.3", "dropout:grid:4x4,alive=0.5"])
def test_an_event_changes_nothing_before_it(network):
    """The first rounds come out bit for bit the same, whatever is added later: so a run goes on from there."""
    base = {"network": network, "methods": [["anytime-sda", {"acceleration": "local"}]], "rounds": 60}
    later = EVENTS if network == "grid:4x4" else [event for event in EVENTS if "edges" not in event]
    before = frames(**base, events=later[:3])["run"][0][1]["estimates"]
    for count in range(4, len(later) + 1):
        added = later[count - 1]
        when = added.get("round", added.get("start"))
        after = frames(**base, events=[*later[: count - 1], added])["run"][0][1]["estimates"]
        np.testing.assert_array_equal(after[:when], before[:when])
        assert not np.array_equal(after, before, equal_nan=True)
        before = after


def test_the_first_event_of_a_run_changes_what_came_before_by_rounding_alone():
    base = {"network": "grid:4x4", "rounds": 60, "methods": [["anytime-sda", {}], ["dsg", {}]]}
    runs, acted = frames(**base)["run"], frames(**base, events=EVENTS[4:5])["run"]
    for (_, before), (_, after) in zip(runs, acted, strict=True):
        np.testing.assert_allclose(before["estimates"][:25], after["estimates"][:25], rtol=1e-6)


def test_events_have_one_order_and_every_kind_is_a_fault():
    shuffled = [EVENTS[k] for k in (7, 3, 0, 6, 2, 5, 1, 4)]
    events = [EVENTS[0], EVENTS[3], *(event for event in shuffled if event["kind"] != "loss")]
    faults = Scenario.of({"network": "grid:4x4", "events": events}).build_faults()
    kinds = ["loss", "burst", "delay", "loss", "crash", "restart", "partition", "partition"]
    assert [fault.kind for fault in faults.items] == kinds
    assert gs.faults.Partition(edges=[(0, 1)], start=30, stop=45) in faults.items
    assert gs.faults.Partition([0, 4, 8, 12], 35) in faults.items


def test_a_method_that_cannot_run_says_so_and_the_others_run():
    found = frames(
        network="grid:3x3", rounds=20, methods=[["pairwise", {}], ["dsg", {}]], events=[EVENTS[0], EVENTS[3]]
    )
    assert found["missing"][0][0]["message"].startswith("pairwise cannot run with faults")
    assert found["run"][0][0]["notes"] == ["runs without a ledger: neighbors that are not heard are left out"]
    assert "error" not in found
    calm = frames(network="grid:3x3", rounds=20, methods=[["push-sum", {}]])
    assert calm["unknown"][0][0]["message"].startswith("exact errors need one gossip matrix")


def test_a_mistake_of_ours_does_not_leave_a_page_waiting(monkeypatch, capsys):
    monkeypatch.setattr("gossamer.dashboard.runs.places", lambda *_: 1 / 0)
    found = frames(network="grid:3x3", rounds=5)
    assert list(found) == ["error"]
    assert found["error"][0][0]["message"].startswith(
        "this could not be computed (ZeroDivisionError: division"
    )
    assert "Traceback" in capsys.readouterr().err


def test_forks_keep_the_curves_of_earlier_versions():
    base = {"network": "grid:3x3", "rounds": 30, "methods": [["anytime-sda", {}], ["dsg", {}]]}
    crash = {"kind": "crash", "agent": 0, "round": 10}
    calm, hit = frames(**base), frames(**base, events=[crash])
    both = frames(**base, events=[crash], forks=[[]])
    assert [header["error"] for header, _ in both["run"]] == [header["error"] for header, _ in hit["run"]]
    assert [header["error"] for header, _ in both["fork"]] == [header["error"] for header, _ in calm["run"]]


def test_limits_are_those_that_a_page_is_told():
    assert catalog()["limits"] == {
        "agents": scenarios.MOST_AGENTS,
        "rounds": scenarios.MOST_ROUNDS,
        "methods": scenarios.MOST_METHODS,
        "forks": scenarios.MOST_FORKS,
        "file": scenarios.MOST_FILE,
    }
