"""Features by name: those of agents are NumPy alone, and equal to scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler

from gossamer.errors import InvalidInput
from gossamer.features import RandomFourier, Standardizer, features_of, memory_of

STATES = np.random.default_rng(0).normal(3.0, 5.0, size=(50, 4))


def test_random_fourier_features_are_those_of_scikit_learn():
    features = RandomFourier(20, width=1.3, seed=3).fit(STATES)
    sampler = RBFSampler(gamma=0.5 / (1.3**2 * 4), n_components=19, random_state=3).fit(np.zeros((1, 4)))
    scaled = (STATES - STATES.mean(axis=0)) / STATES.std(axis=0)
    assert features(STATES)[:, :-1] == pytest.approx(sampler.transform(scaled) * np.sqrt(19), abs=1e-12)
    assert np.all(features(STATES)[:, -1] == 1)


def test_the_memory_of_a_process_is_that_of_its_slowest_part():
    rng = np.random.default_rng(0)
    noise, slow = rng.normal(size=(2, 2000))
    for t in range(1, len(slow)):
        slow[t] += 0.9 * slow[t - 1]
    phi = np.column_stack([np.ones(len(slow)), noise + slow, noise])  # only their difference is slow
    assert memory_of(phi, rng.normal(size=len(slow))) == pytest.approx(1.9 / 0.1, rel=0.3)
    assert memory_of(phi[:, [0, 2]], phi[:, 2]) < 1.2
    swings = np.cos(np.arange(400.0)[:, None] + [0.0, 1.0])  # forgets nothing, but its mean is exact
    assert memory_of(swings, np.zeros(400)) < 1.2
    assert memory_of(np.arange(400.0)[:, None], np.zeros(400)) > 400  # never comes back


def test_linear_features_and_those_of_a_table():
    linear = features_of("linear").scaled(Standardizer.between(np.zeros(2), np.array([1.0, 10.0])))
    np.testing.assert_allclose(linear(np.array([[0.0, 10.0], [0.5, 5.0]])), [[-2.5, 2.5, 1], [0, 0, 1]])
    np.testing.assert_array_equal(features_of("table:3")(np.array([2, 0])), [[0, 0, 1], [1, 0, 0]])
    for text in ("table", "table:0", "linear:4", "tables:3"):
        with pytest.raises(InvalidInput, match="features must be"):
            features_of(text)
