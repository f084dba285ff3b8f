"""The worst answer on the way: how far any estimate was outside the range of the observations."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.faulty import simulate_faulty
from gossamer.faults import Crash, Faults, Loss, Restart

LOCAL = gs.AnytimeSDA("local")


def outages(agents, count, *, away=50, every=170, seed=0):
    """One agent after another is away; the number of rounds until the last one is over."""
    who = np.random.default_rng(seed).integers(agents, size=count).tolist()
    first = [300 + every * k for k in range(count)]
    events = [item for a, t in zip(who, first, strict=True) for item in (Crash(a, t), Restart(a, t + away))]
    return events, first[-1] + every


def sensors(agents, std=0.0):
    return gs.Gaussian(np.where(np.arange(agents) % 3 == 0, 30.0, 10.0), std)


@pytest.mark.parametrize("loss", [0.0, 0.4])
def test_it_is_what_the_iterates_show(loss):
    network, observations = gs.Network.grid(3, 3), sensors(9, std=1.0)
    faults = Faults(Loss(loss), Crash(4, 50), Restart(4, 90), Crash(8, 100))
    run = simulate_faulty(
        LOCAL, network, observations, [60, 140], 3, 1, faults, return_rate=0.0, keep="iterates"
    )
    samples = observations.sample(1, range(140), range(3))[:, :, 0]
    for horizon, worst in zip((60, 140), run.worst.tolist(), strict=True):
        there = [[faults.alive(i, t) for i in range(9)] for t in range(horizon)]
        expected = 0.0
        for trial in range(3):
            seen = samples[:horizon, :, trial][there]
            told = run.iterates["estimate"][trial, :horizon, :, 0][there]
            low, high = seen.min(), seen.max()
            expected = max(expected, (low - told.min()) / (high - low), (told.max() - high) / (high - low))
        assert worst == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert run.records()[1]["worst"] == run.worst[1]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["local", "local-heavy-ball"])
@pytest.mark.parametrize("network", [gs.Network.grid(3, 4), gs.Network.cycle(12)], ids=lambda n: n.name)
def test_outages_do_not_drive_answers_out_of_the_data(network, form):
    """20% loss and 12 outages; at once, the same outages amplify currents in circles."""
    events, rounds = outages(12, 12)
    arguments = gs.AnytimeSDA(form), network, sensors(12), rounds, 4, 3, Faults(Loss(0.2), *events)
    slow = simulate_faulty(*arguments)
    assert slow.worst < 0.05
    assert simulate_faulty(*arguments, return_rate=0.0).worst > 10 * slow.worst + 0.2
    assert np.abs(slow.estimates - slow.target).max() < 1.0  # flows of the last outage still return


@pytest.mark.slow
def test_one_death_stays_within_the_range_of_the_data():
    """Half of all messages lost for long, then an agent dies: all others go straight to their own average."""
    network, observations = gs.Network.grid(4, 4), sensors(16)
    faults = Faults(Loss(0.5), Crash(5, 1000))
    run = simulate_faulty(LOCAL, network, observations, [990, 1900], 8, 5, faults, keep="iterates")
    after = run.iterates["estimate"][:, 1000:, np.arange(16) != 5, 0]
    before, target = observations.mean.mean(), float(run.target[1, 0])
    way = abs(before - target)
    assert np.abs(after[:, -1] - target).max() < 1e-3
    assert after.min() > min(before, target) - 2 * way
    assert after.max() < max(before, target) + 2 * way


def test_equal_observations_have_no_range_to_leave():
    run = simulate_faulty(LOCAL, gs.Network.path(3), gs.Gaussian(np.full(3, 7.0), 0.0), 50, 2)
    assert run.worst < 1e-3
