"""Faulty runs take several horizons and honor every option of `gs.simulate`."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.faulty import runs
from gossamer.engines.trials import KEEP
from gossamer.faults import Bursts, Crash, Faults, Join, Loss, Partition, Restart

FAULTS = Faults(
    Loss(0.2),
    Bursts(8, 0.2),
    Join(3, 6),
    Crash(5, 12),
    Restart(5, 25),
    Crash(1, 30),
    Partition(range(4), 8, 17),
)
NUMBERS = ("total_error", "stderr", "centralized_limit", "agents", "parts", "mse", "over_limit")
ARRAYS = ("errors", "per_agent", "estimates", "alive", "target")
NETWORK = gs.Network.grid(3, 4)
OBSERVATIONS = gs.Drifting(gs.Gaussian(np.random.default_rng(0).uniform(0, 10, (12, 2))), 0.1)
METHODS = ["anytime-sda", "ssda", "dsg", "d-asg", "linear", gs.SDA(batch=2)]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_several_horizons_equal_one_at_a_time_to_the_last_bit(method):
    horizons = [40, 7, 33, 12, 13, 33]
    faults = Faults(Loss(0.2), Crash(1, 30), Partition(range(4), 8, 17)) if method is METHODS[-1] else FAULTS
    together = gs.simulate(method, NETWORK, OBSERVATIONS, horizons, 21, 3, faults=faults)
    np.testing.assert_array_equal(together.rounds, horizons)
    assert together.estimates.shape == (6, 21, 12, 2)
    for k, horizon in enumerate(horizons):
        alone = gs.simulate(method, NETWORK, OBSERVATIONS, horizon, 21, 3, faults=faults)
        for name in (*NUMBERS, *ARRAYS):
            np.testing.assert_array_equal(getattr(together, name)[k], getattr(alone, name), err_msg=name)
        assert together.records()[k]["note"] == alone.records()[0]["note"]


def test_one_horizon_gives_numbers_and_several_give_arrays():
    one = gs.simulate("anytime-sda", NETWORK, OBSERVATIONS, 35, 4, faults=FAULTS)
    assert (type(one.agents), type(one.parts), type(one.rounds)) == (int, int, int)
    assert (one.agents, one.alive.shape, one.target.shape) == (11, (12,), (2,))
    several = gs.simulate("anytime-sda", NETWORK, OBSERVATIONS, [5, 20, 35], 4, faults=FAULTS)
    assert several.agents.tolist() == [11, 11, 11]
    assert [np.flatnonzero(~alive).tolist() for alive in several.alive] == [[3], [5], [1]]
    assert len({float(target[0]) for target in several.target}) == 3
    # An agent counts with the rounds in which it took part.
    present = np.full(12, 35)
    present[[3, 5]] = 29, 35 - 13
    np.testing.assert_allclose(several.centralized_limit[2], 2 * np.delete(1 / present, 1).mean())
    assert [row["rounds"] for row in several.records("agents", "parts", "note")] == [5, 20, 35]


def test_a_horizon_at_which_nobody_is_left_is_refused():
    faults = Faults(*(Crash(k, 10) for k in range(12)))
    gs.simulate("dsg", NETWORK, OBSERVATIONS, [5, 10], 1, faults=faults)
    with pytest.raises(gs.InvalidInput, match="no agent is alive at the end, after 11 rounds"):
        gs.simulate("dsg", NETWORK, OBSERVATIONS, [5, 11], 1, faults=faults)


def test_a_horizon_too_soon_after_a_late_start_is_refused_where_the_method_needs_all_its_rounds():
    with pytest.raises(gs.Unsupported, match="agent 2 takes part in 4 of 16 rounds, too few for SDA"):
        gs.simulate("sda", NETWORK, OBSERVATIONS, [10, 16], 1, faults=Join(2, 12))


@pytest.mark.parametrize("method", ["anytime-sda", "dsg", "sda"])
def test_iterates_are_what_happened_in_every_round(method):
    faults = Faults(Loss(0.2), Crash(1, 8))
    run = gs.simulate(method, NETWORK, OBSERVATIONS, [5, 14], 9, 3, faults=faults, keep="iterates")
    assert set(run.iterates) == {"estimate", *gs.METHODS[method].State._fields}
    assert {values.shape for values in run.iterates.values()} == {(9, 14, 12, 2)}
    np.testing.assert_array_equal(run.iterates["estimate"][:, -1], run.estimates[1])
    assert np.isnan(run.iterates["estimate"][:, 8:, 1]).all()
    assert np.isfinite(run.iterates["estimate"][:, :8]).all()
    plain = gs.simulate(method, NETWORK, OBSERVATIONS, [5, 14], 9, 3, faults=faults)
    np.testing.assert_array_equal(run.estimates, plain.estimates)
    quiet = gs.simulate(method, NETWORK, OBSERVATIONS, 14, 9, 3, faults=Faults(), keep="iterates")
    expected = gs.simulate(method, NETWORK, OBSERVATIONS, 14, 9, 3, keep="iterates")
    for name, values in expected.iterates.items():
        np.testing.assert_allclose(quiet.iterates[name], values, rtol=1e-11, atol=1e-11)
    assert pickle.loads(pickle.dumps(run)).rule == run.rule


def test_trials_can_be_split_and_estimates_left_out():
    whole = gs.simulate("anytime-sda", NETWORK, OBSERVATIONS, [9, 20], 40, 3, faults=FAULTS)
    part = gs.simulate(
        "anytime-sda", NETWORK, OBSERVATIONS, [9, 20], 7, 3, faults=FAULTS, first_trial=30, keep="errors"
    )
    np.testing.assert_array_equal(part.errors, whole.errors[:, 30:37])
    with pytest.raises(gs.InvalidInput, match="kept no estimates"):
        _ = part.estimates
    np.testing.assert_allclose(
        part.per_agent,
        ((whole.estimates - whole.target[:, None, None]) ** 2).sum(axis=3)[:, 30:37].mean(axis=1),
    )


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"dtype": np.float32}, "with faults, dtype must be numpy.float64"),
        ({"dtype": int}, "dtype must be numpy.float64 or numpy.float32"),
        ({"first_trial": -1}, "first_trial must be a whole number of at least 0"),
        ({"first_trial": 2**32}, r"trials must be numbered below 2\^32"),
        ({"keep": "all"}, "keep must be 'errors', 'estimates' or 'iterates', got 'all'"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_options_are_checked(option, text):
    with pytest.raises(gs.InvalidInput, match=text):
        gs.simulate("dsg", NETWORK, OBSERVATIONS, 5, 2, faults=Loss(0.1), **option)


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("method", ["anytime-sda", "sda"])
def test_interrupted_runs_return_what_is_finished(method, keep, monkeypatch):
    problem = method, NETWORK, OBSERVATIONS, [20, 10]
    whole = gs.simulate(*problem, 150, 1, faults=Loss(0.2), keep=keep)
    monkeypatch.setattr(runs, "get_num_threads", lambda: 1)
    original, calls, last = runs.play_rounds, 0, 0

    def interrupted(*args):
        nonlocal calls
        calls += 1
        if calls == last:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(runs, "play_rounds", interrupted)
    gs.simulate(*problem, 64, 1, faults=Loss(0.2), keep=keep)
    last, calls = 2 * calls, 0  # in the very last call of the second block of 64 trials
    run = gs.simulate(*problem, 150, 1, faults=Loss(0.2), keep=keep)
    assert (run.partial, run.trials) == (True, 64)
    np.testing.assert_array_equal(run.errors, whole.errors[:, :64])
    np.testing.assert_allclose(run.total_error, whole.errors[:, :64].mean(axis=1))
    np.testing.assert_allclose(run.per_agent.sum(axis=1), run.total_error)
    if keep != "errors":
        np.testing.assert_array_equal(run.estimates, whole.estimates[:, :64])
    if keep == "iterates":
        np.testing.assert_array_equal(run.iterates["x"], whole.iterates["x"][:64])
    last, calls = 1, 0
    with pytest.raises(KeyboardInterrupt):
        gs.simulate(*problem, 150, 1, faults=Loss(0.2), keep=keep)


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        (
            Partition(edges=[(0, 5)]),
            "Partition cuts the edge 0-5, which .* the neighbors of agent 0 are 1, 4$",
        ),
        (Partition(edges=[(1, 0), (3, 3)]), "cuts the edge 3-3, which the network does not have"),
        (Partition(edges=[(0, 99)]), "Partition names agent 99, but the agents are 0..11"),
        (Partition([[0, 40], [1]]), "Partition names agent 40, but the agents are 0..11"),
        (Partition(range(12)), "Partition cuts no edge of the network, since all agents are in one group"),
        (Crash(12, 3), "Crash names agent 12, but the agents are 0..11"),
        (Join(12, 3), "Join names agent 12, but the agents are 0..11"),
        (Faults(Crash(15, 3), Restart(15, 4)), "Crash names agent 15, but the agents are 0..11"),
    ],
)
def test_a_fault_that_names_what_the_network_does_not_have_is_refused(faults, text):
    with pytest.raises(gs.InvalidInput, match=text):
        gs.simulate("anytime-sda", NETWORK, OBSERVATIONS, 20, 1, faults=faults)


def test_an_edge_that_exists_can_be_cut_from_either_end():
    both = [
        gs.simulate("dsg", NETWORK, OBSERVATIONS, 9, 1, faults=Partition(edges=[edge])).estimates
        for edge in ((0, 1), (1, 0))
    ]
    np.testing.assert_array_equal(*both)
    assert np.any(both[0] != gs.simulate("dsg", NETWORK, OBSERVATIONS, 9, 1).estimates)


def test_a_bar_is_drawn_where_it_is_wanted(capfd):
    for wanted in (False, None, True):
        gs.simulate("dsg", NETWORK, OBSERVATIONS, 50, 4, faults=Loss(0.1), progress=wanted)
        assert bool(capfd.readouterr().err) == bool(wanted)
