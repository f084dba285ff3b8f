"""Streams fed by hand: every agent's own mean, whatever its rate, and the average of these in the end."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.applications.solvers import settled
from gossamer.applications.streams import Stream

NETWORK = gs.Network.path(4)


def test_an_agents_mean_divides_by_its_own_samples():
    rng = np.random.default_rng(0)
    stream = Stream(NETWORK, 2)
    seen: list[list[np.ndarray]] = [[] for _ in range(4)]
    for t in range(100):  # longer than the first schedule of coefficients
        values = np.full((4, 2), np.nan)
        for i in range(4):
            if t % (i + 1) == i:
                values[i] = rng.normal(size=2)
                seen[i].append(values[i])
        stream.advance(values)
    means = np.array([np.mean(samples, axis=0) for samples in seen])
    assert stream.own_means == pytest.approx(means)
    for _ in range(300):
        stream.advance()
    assert stream.values == pytest.approx(np.tile(means.mean(axis=0), (4, 1)))


def test_a_constant_gain_forgets():
    stream = Stream(NETWORK, 1, gs.AnytimeSDA(gain=0.5))
    for value in (0.0,) * 20 + (1.0,) * 20:
        stream.advance(np.full((4, 1), value))
    assert stream.values == pytest.approx(np.ones((4, 1)), abs=1e-3)


@pytest.mark.parametrize("method", ["sda", "chebyshev", "dsg"])
def test_what_settles_is_what_the_engine_simulates(method):
    values = np.random.default_rng(1).normal(size=(4, 3))
    simulated = gs.simulate(method, NETWORK, gs.Gaussian(values, 0.0), 17, trials=1).estimates[0]
    assert settled(method, NETWORK, values, 17) == pytest.approx(simulated, abs=1e-12)


def test_random_gossip_settles_too():
    values = np.arange(8.0).reshape(4, 2)
    assert settled("pairwise", NETWORK, values, 400) == pytest.approx(np.tile([3.0, 4.0], (4, 1)), abs=1e-6)
