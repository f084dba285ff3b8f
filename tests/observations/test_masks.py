"""Masks cancel over the network, and are the same for any split of a run."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.observations import Masked, incidence


@pytest.fixture
def streams(small):
    net, obs = small
    return net, obs, Masked(obs, net, gs.Masks(50.0, refresh=True))


@pytest.mark.parametrize("refresh", [False, True])
def test_masks_cancel_in_every_round(small, refresh):
    net, obs = small
    masked = Masked(obs, net, gs.Masks(50.0, refresh=refresh))
    shift = masked.sample(3, range(20), range(4)) - obs.sample(3, range(20), range(4))
    assert np.abs(shift).max() > 50
    np.testing.assert_allclose(shift.sum(axis=1), 0.0, atol=1e-10)


def test_the_running_mean_is_shifted_by_the_level_of_the_masks(streams):
    net, obs, masked = streams
    rounds, trials = range(12), range(200)
    ages = np.arange(1, 13)[:, None, None, None]
    shift = masked.sample(3, rounds, trials) - obs.sample(3, rounds, trials)
    increments = np.diff(shift.cumsum(axis=0) / ages, axis=0, prepend=0.0) * ages / 50
    # One standard normal number per edge and round, with opposite signs at its two ends.
    covariance = np.einsum("tink,tjnk->ij", increments, increments) / (12 * 200)
    laplacian = (incidence(net) @ incidence(net).T).toarray()
    assert np.abs(covariance - laplacian).max() < 5 * laplacian.max() * np.sqrt(2 / (12 * 200))


def test_masks_do_not_depend_on_how_a_run_is_split(streams):
    _, _, masked = streams
    whole = masked.sample(7, range(10), range(6))
    part = masked.sample(7, range(4, 10), range(2, 6), range(3, 9))
    np.testing.assert_allclose(part, whole[4:, 3:9, :, 2:], rtol=1e-12)


def test_a_scale_per_component():
    net = gs.Network.cycle(5)
    masked = Masked(gs.Gaussian(np.zeros((5, 2)), 0.0), net, gs.Masks((1.0, 100.0)))
    sizes = masked.sample(0, range(1), range(200)).std(axis=(0, 1, 3))
    np.testing.assert_allclose(sizes, np.sqrt(2) * np.array([1.0, 100.0]), rtol=0.1)
    with pytest.raises(gs.InvalidInput, match="one for each of the 3 components, got 2 numbers"):
        Masked(gs.Gaussian(np.zeros((5, 3))), net, gs.Masks((1.0, 100.0)))


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf, "one", [[1.0]], []])
def test_what_is_not_a_standard_deviation_is_refused(scale):
    with pytest.raises(gs.InvalidInput, match="scale"):
        gs.Masks(scale)


def test_noise_is_one_number_per_agent_and_trial_for_all_rounds():
    net, obs = gs.Network.cycle(6), gs.Gaussian(np.zeros((6, 2)), 0.0)
    noise = Masked(obs, net, gs.Masks(0.0, noise=3.0)).sample(1, range(5), range(400))
    np.testing.assert_array_equal(noise, np.broadcast_to(noise[:1], noise.shape))
    count = noise[0].size
    assert abs(noise[0].var() / 9 - 1) < 5 * np.sqrt(2 / count)
    assert abs(np.corrcoef(noise[0, 0, 0], noise[0, 1, 0])[0, 1]) < 5 / np.sqrt(400)
    with pytest.raises(gs.InvalidInput, match="0 with noise alone, got 0"):
        gs.Masks(0.0)
