"""`gs.compare`: the numbers of the engines, in one table, from any number of points."""

from __future__ import annotations

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


def test_theorems_stand_beside_every_method_where_they_hold():
    net = NETS[0]
    rows = gs.compare("sda", net, streams, [2, 200]).records()
    assert rows[0]["theorem_1"] is None
    assert rows[1]["theorem_1"] == gs.theory.theorem_1(net, streams(net), 200).total


def test_names_are_unique_and_may_be_given():
    twice = gs.compare(["sda", gs.SDA(burn_in=3), "sda"], NETS[0], streams, 20)
    assert twice.column("method") == ["sda", "sda, burn_in=3", "sda (2)"]
    own = gs.compare({"paper": "sda"}, {"line": NETS[0]}, streams, 20)
    assert (own.column("method"), own.column("network")) == (["paper"], ["line"])
    alike = gs.compare({1: "sda", "1": "dsg"}, NETS[0], streams, 20)
    assert alike.column("method") == ["1", "1 (2)"]


def test_a_method_that_cannot_run_has_a_note_and_no_error():
    rows = gs.compare(["pairwise", gs.SDA(burn_in=30), "sda"], NETS[0], streams, [20, 50]).records()
    assert [row["total_error"] is None for row in rows] == [True, True, True, False, False, False]
    assert "simulate it" in rows[0]["note"]
    assert "burn_in must be below" in rows[2]["note"]
    tried = gs.compare("pairwise", NETS[0], streams, [20], trials=4).records()[0]
    assert tried["total_error"] == tried["simulated_error"]
    assert tried["note"] == ""
    frame = gs.compare(["pairwise", "sda"], NETS[0], streams, range(1, 151)).to_frame("polars")
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
    import networkx as nx

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
    assert "simulate it" in gs.compare(methods, networks["moving"], obs, 20).records()[0]["note"]
