"""`gs.compare`: the numbers of the engines, in one table, from any number of points."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import gossamer as gs

NETS = [gs.Network.path(6), gs.Network.cycle(8)]


def streams(network):
    return gs.Gaussian(np.random.default_rng(3).uniform(0, 10, network.agents), 1.0)


def test_rows_are_what_the_engines_say():
    found = gs.compare(["sda", "dsg"], NETS, streams, [20, 50], trials=6, seed=4).to_frame()
    assert list(zip(found.network, found.method, found.rounds, strict=True)) == [
        (net.name, method, t) for net in NETS for method in ("sda", "dsg") for t in (20, 50)
    ]
    for net in NETS:
        for method in ("sda", "dsg"):
            mine = found[(found.network == net.name) & (found.method == method)]
            exact = gs.exact(method, net, streams(net), [20, 50])
            trials = gs.simulate(method, net, streams(net), [20, 50], 6, 4)
            for name in ("total_error", "bias", "variance", "mse", "over_limit", "samples", "messages"):
                np.testing.assert_array_equal(mine[name], getattr(exact, name))
            np.testing.assert_array_equal(mine.simulated_error, trials.total_error)
            np.testing.assert_array_equal(mine.stderr, trials.stderr)
            np.testing.assert_array_equal(mine.network_limit, exact.network_limit)
            assert mine.trials.tolist() == [6, 6]


def test_theorems_stand_in_the_rows_of_their_methods_where_they_hold():
    net = NETS[0]
    rows = gs.compare(["sda", "dsg", gs.SDA(burn_in=1), "anytime-sda"], net, streams, [2, 200]).records()
    one, two = (gs.theory.theorem_1(net, streams(net), 200), gs.theory.theorem_2(net, streams(net), 200))
    assert [row["theorem_1"] for row in rows] == [None, one.total, *[None] * 6]
    assert [row["theorem_2"] for row in rows][3:] == [two.total, *[None] * 4]
    three = gs.theory.theorem_3(net, streams(net), 200, gs.AnytimeSDA().window(net))
    assert [row["theorem_3"] for row in rows] == [*[None] * 7, three.total]


def test_noise_and_parameters_are_axes():
    """A column for each dictionary, of numbers if its labels are numbers."""
    net = NETS[0]
    noise = {std: gs.Gaussian(np.arange(6.0), std) for std in (0.5, 1.0, 2.0)}
    found = gs.compare({b: gs.SDA(burn_in=b) for b in (1, 5)}, net, noise, [20]).to_frame()
    table = found.pivot(index="streams", columns="method", values="variance")
    assert table.index.tolist() == [0.5, 1.0, 2.0]
    assert table.columns.tolist() == [1, 5]
    assert table.loc[2.0, 5] == pytest.approx(16 * table.loc[0.5, 5])
    assert table.loc[1.0, 5] == gs.exact(gs.SDA(burn_in=5), net, noise[1.0], 20).variance
    mixed = gs.compare("sda", NETS, {"still": streams, "moving": lambda n: gs.Drifting(streams(n), 0.1)}, 20)
    assert mixed.column("streams") == ["still", "moving"] * 2
    assert gs.compare("sda", net, streams, 20).column("streams") == ["Gaussian"]
    assert len(mixed.plot()) == 2


def test_confidence_intervals_are_those_of_student():
    row = gs.compare("sda", NETS[0], streams, 20, trials=5).records()[0]
    assert row["ci_high"] - row["simulated_error"] == pytest.approx(2.776445 * row["stderr"])
    assert row["simulated_error"] - row["ci_low"] == pytest.approx(2.776445 * row["stderr"])
    alone = gs.compare("sda", NETS[0], streams, 20, trials=1).records()[0]
    assert alone["ci_low"] is alone["ci_high"] is None


def test_directed_networks_are_for_push_sum(tmp_path):
    ring = gs.DirectedNetwork.from_links(6, [(k, (k + 1) % 6) for k in range(6)], name="ring")
    assert gs.compare("push-sum", nx.DiGraph([(0, 1), (1, 2), (2, 0)]), streams, 9, trials=2).column(
        "edges"
    ) == [3]
    for store in (None, tmp_path, tmp_path):
        found = gs.compare(["push-sum", "sda"], [ring, NETS[0]], streams, [50, 80], trials=4, store=store)
        rows = {(r["network"], r["method"], r["rounds"]): r for r in found.records()}
        alone = gs.simulate("push-sum", ring, streams(ring), [50, 80], 4)
        pushed = rows["ring", "push-sum", 80]
        assert pushed["total_error"] == alone.total_error[1]
        assert (pushed["edges"], pushed["note"]) == (6, "")
        assert pushed["network_limit"] == alone.network_limit[1]
        assert rows["ring", "sda", 50]["total_error"] is None
        assert rows["ring", "sda", 50]["note"].endswith("on one-way links use gs.PushSum, in trials")
        assert rows["path:6", "push-sum", 50]["total_error"] is not None


def test_notes_do_not_advise_what_was_just_done():
    moving = gs.ChangingNetwork.mobile(8, radius=0.5, seed=1)
    row = gs.compare("sda", moving, gs.Gaussian(np.arange(8.0)), 20, trials=3).records()[0]
    assert row["total_error"] is None
    assert "simulate" not in row["note"]
    assert "asks for the network's" in row["note"]


def test_names_are_unique_and_may_be_given():
    twice = gs.compare(["sda", gs.SDA(burn_in=3), "sda"], NETS[0], streams, 20)
    assert twice.column("method") == ["sda", "sda, burn_in=3", "sda (2)"]
    own = gs.compare({"paper": "sda"}, {"line": NETS[0]}, streams, 20)
    assert (own.column("method"), own.column("network")) == (["paper"], ["line"])
    alike = gs.compare({1: "sda", "1": "dsg"}, NETS[0], streams, 20)
    assert alike.column("method") == ["1", "1 (2)"]


@pytest.mark.slow
def test_a_method_that_cannot_run_has_a_note_and_no_error():
    rows = gs.compare(["push-sum", gs.SDA(burn_in=30), "sda"], NETS[0], streams, [20, 50]).records()
    assert [row["total_error"] is None for row in rows] == [True, True, True, False, False, False]
    assert "simulate it" in rows[0]["note"]
    assert "burn_in must be below" in rows[2]["note"]
    tried = gs.compare("push-sum", NETS[0], streams, [20], trials=4).records()[0]
    assert tried["total_error"] == tried["simulated_error"]
    assert tried["note"] == ""
    frame = gs.compare(["push-sum", "sda"], NETS[0], streams, range(1, 151)).to_frame("polars")
    assert str(frame["total_error"].dtype) == str(frame["stderr"].dtype) == "Float64"


def test_faults_need_trials_and_have_no_exact_error():
    with pytest.raises(gs.InvalidInput, match="trials must be at least 1"):
        gs.compare("sda", NETS[0], streams, 20, faults=gs.faults.Loss(0.1))
    rows = gs.compare(
        ["anytime-sda", "dsg"], NETS[0], streams, [40, 80], trials=4, faults=gs.faults.Crash(5, 20)
    ).records()
    assert {row["agents"] for row in rows} == {5}
    assert all(row["bias"] is None and row["total_error"] == row["simulated_error"] for row in rows)
    assert all("5 of 6 agents alive" in row["note"] for row in rows)


def test_one_of_everything_and_mistakes():
    assert len(gs.compare("sda", NETS[0], streams(NETS[0]), 20).rows) == 1
    with pytest.raises(gs.InvalidInput, match="one stream per agent"):
        gs.compare("sda", NETS, streams(NETS[0]), 20)
    for nothing in ([], {}):
        with pytest.raises(gs.InvalidInput, match="at least one"):
            gs.compare(nothing, NETS, streams, 20)
        with pytest.raises(gs.InvalidInput, match="at least one"):
            gs.compare("sda", nothing, streams, 20)
    with pytest.raises(gs.InvalidInput, match="progress must be True, False or None"):
        gs.compare("sda", NETS, streams, 20, progress="x")
    with pytest.raises(gs.InvalidInput, match="one axes for each of the 2 networks"):
        gs.compare("sda", NETS, streams, 20).plot(object())
    with pytest.raises(gs.InvalidInput, match="'threads', 'processes' or 'dask'"):
        gs.compare("sda", NETS, streams, 20, backend="gpu")
    with pytest.raises(gs.InvalidInput, match="Dask"):
        gs.compare("sda", NETS, streams, 20, address="tcp://127.0.0.1:1")


def test_networkx_graphs_are_networks():
    graphs = [nx.path_graph(6), nx.star_graph(5)]
    streams = gs.Gaussian(np.arange(6.0))
    found = gs.compare("sda", graphs, streams, 20)
    known = gs.exact("sda", NETS[0], streams, 20).total_error
    assert found.column("total_error")[0] == pytest.approx(known, rel=1e-12)


def test_interrupted_it_returns_what_is_finished(interrupt):
    interrupt(3)
    many = {f"n{k}": NETS[k % 2] for k in range(40)}
    found = gs.compare("sda", many, streams, 20, workers=1)
    assert found.partial
    assert 0 < len(found.rows) < 40


def test_changing_networks_stand_beside_fixed_ones(tmp_path):
    methods = {"local": gs.AnytimeSDA(acceleration="local"), "dsg": gs.DSG(), "nesterov": gs.AnytimeSDA()}
    networks = {"moving": gs.ChangingNetwork.mobile(8, radius=0.5, seed=1), "path": gs.Network.path(8)}
    obs = gs.Gaussian(np.arange(8.0))
    found = gs.compare(methods, networks, obs, [20, 50], trials=6, seed=2, store=tmp_path)
    rows = {(r["network"], r["method"], r["rounds"]): r for r in found.records()}
    alone = gs.simulate(methods["local"], networks["moving"], obs, [20, 50], 6, seed=2)
    moving = rows["moving", "local", 50]
    assert moving["total_error"] == moving["simulated_error"] == alone.total_error[1]
    assert moving["edges"] is moving["network_limit"] is moving["theorem_1"] is moving["bias"] is None
    assert moving["note"] == ""
    assert "spectrum" in rows["moving", "nesterov", 20]["note"]
    assert rows["moving", "nesterov", 20]["total_error"] is None
    assert rows["path", "local", 50]["bias"] is not None
    assert gs.compare(methods, networks, obs, [20, 50], trials=6, seed=2, store=tmp_path) == found
    alone = gs.compare(methods["local"], networks["moving"], obs, 20).records()[0]
    assert alone["total_error"] == gs.exact(methods["local"], networks["moving"], obs, 20).total_error
