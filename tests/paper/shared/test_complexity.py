"""SSTM_sc for every number of rounds against the exact engine; the protocol against itself."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.paper.shared import complexity, problem


@pytest.mark.parametrize("graph", ["path", "erdos-renyi"])
def test_every_sstm_is_the_exact_engine(graph):
    net, mean = problem.network(graph, 16), problem.means(16, 1.0, 0)
    every = complexity.EverySSTM(net, mean[None], 0.01)
    method = every.method(0, 0.01)
    truth = gs.exact(method, net, gs.Gaussian(mean), [1, 2, 9, 40])
    assert np.allclose(every.total_error(0, method)[[0, 1, 8, 39]], truth.total_error, rtol=1e-9)


def test_first_rounds_are_those_that_planning_finds():
    net, obs = problem.network("star", 16), problem.observations(16, 1.0, 0)
    rows = complexity.exact_samples("star", 16, 1.0, [0.05, 0.03], [0.01], 0, 1, 0)
    for eps in (0.05, 0.01):
        found = [
            r["value"]
            for r in rows
            if r.get("method") == "sda" and r["quantity"] == "samples" and r["epsilon"] == eps
        ]
        assert found == [gs.plan(net, obs, eps, gs.SDA()).rounds]


def test_tuned_batches_reach_the_accuracy_with_fewer_samples():
    net, obs = problem.network("grid", 16), problem.observations(16, 1.0, 0)
    every = complexity.EverySSTM(net, obs.mean.T, 0.02)
    paper, _, tuned = every.samples(0, 0.02)
    assert tuned["value"] < paper["value"] / 10
    best = tuned["rounds"] - 1
    # The cheapest split spends the samples so that a slightly different split is no better: try a few by hand.
    for last in (0.5, 0.8, 1.25, 2.0):
        r_last = last * 16 / (0.02 - every.bias[best, 0])
        left = 0.02 - every.bias[best, 0] - 16 / r_last
        if left > 0:
            assert best * every.dual[best] / left + r_last >= 0.99 * (tuned["value"] - best - 1)


def test_one_trajectory_serves_every_number_of_rounds():
    net, obs = problem.network("cycle", 9), problem.observations(9, 1.0, 5)
    horizons = np.array([1, 2, 3, 10, 31])
    errors = complexity.trajectories(net, obs, horizons, trials=7, seed=5)
    for row, rounds in zip(errors, horizons.tolist(), strict=True):
        alone = gs.simulate(gs.SDA(), net, obs, rounds, trials=7, seed=5, progress=False)
        assert np.allclose(row, alone.errors, rtol=1e-9)


def test_trajectories_do_not_depend_on_the_block(monkeypatch):
    net, obs = problem.network("cycle", 9), problem.observations(9, 1.0, 5)
    horizons = np.arange(1, 30)
    whole = complexity.trajectories(net, obs, horizons, trials=20, seed=5)
    monkeypatch.setattr(complexity, "BLOCK", 1)
    assert np.allclose(complexity.trajectories(net, obs, horizons, trials=20, seed=5), whole, rtol=1e-9)


def test_examined_rounds_are_all_small_ones_and_a_fine_grid_beyond():
    assert complexity.examined(5).tolist() == [1, 2, 3, 4, 5]
    horizons = complexity.examined(5000)
    assert horizons[:2048].tolist() == list(range(1, 2049))
    assert horizons[-1] >= 5000
    assert np.diff(horizons).max() / 2048 < 0.005


def test_first_passage_of_known_errors():
    horizons = np.array([1, 2, 3, 10])
    errors = np.array([[4.0, 4.0], [2.0, 2.0], [1.0, 1.0], [0.5, 0.5]])
    rows = complexity.first_passages(horizons, errors, [2.0, 0.7, 0.1], seed=0)
    assert [row["rounds"] for row in rows] == [2, 10, 10]
    assert rows[0]["low"] == rows[0]["high"] == 2


def test_new_runs_for_every_T_stop_early():
    """The first of many independent averages below eps comes before the exact answer; its law is the exact one."""
    common = {"graph": "grid", "agents": 16, "spread": 1.0, "epsilons": [0.003], "trials": 50, "seed": 2}
    fresh = complexity.sda_fresh(**common)[0]["rounds"]
    exactly = complexity.exact_samples("grid", 16, 1.0, [0.01], [0.003], 0, 1, 2)
    truth = next(r["value"] for r in exactly if r["quantity"] == "samples" and r["epsilon"] == 0.003)
    assert 0.4 * truth < fresh < truth


@pytest.mark.slow
def test_batches_that_never_suffice_are_said_so():
    """On a long path the paper's batches of SSTM_sc leave more noise than eps, whatever the number of rounds."""
    common = {"graph": "path", "agents": 400, "spread": 1.0, "seed": 0}
    runs = complexity.sstm_runs(epsilons=[0.015], trials=2, **common)
    assert [row["value"] for row in runs] == [np.inf]
    net, mean = problem.network("path", 400), problem.means(400, 1.0, 0)
    every = complexity.EverySSTM(net, mean[None], 0.015)
    assert every.total_error(0, every.method(0, 0.015)).min() > 0.015
    paper, _, tuned = every.samples(0, 0.015)
    assert paper["value"] == np.inf
    assert np.isfinite(tuned["value"])
