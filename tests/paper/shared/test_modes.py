"""Responses per eigenmode against the exact engine."""

from __future__ import annotations

import numpy as np
import pytest

import gossamer as gs
from gossamer.paper.shared import problem
from gossamer.paper.shared.modes import EverySDA, energies, modes


@pytest.mark.parametrize("graph", problem.GRAPHS)
def test_every_sda_is_the_exact_engine_for_every_number_of_rounds(graph):
    net = problem.network(graph, 16, seed=3)
    mean = np.stack([problem.means(16, 10.0, 3, draw) for draw in range(2)])
    every = EverySDA(net, 900)  # beyond the memory of the responses on all five graphs but the path
    rounds = [1, 2, 3, 4, 7, 50, 51, 400, 899, 900]
    for draw in range(2):
        truth = gs.exact(gs.SDA(), net, gs.Gaussian(mean[draw]), rounds)
        at = np.array(rounds) - 1
        assert np.allclose(every.total_error(mean)[at, draw], truth.total_error, rtol=1e-10)
        assert np.allclose(every.bias(mean)[at, draw], truth.bias, rtol=1e-7, atol=1e-18)
    for t in (3, 900):
        assert every.gain(t).sum() == pytest.approx(every.mixing[t - 1], rel=1e-12)


@pytest.mark.parametrize("method", [gs.DSG(), gs.DMASG()])
def test_modes_give_the_exact_error(method):
    net = problem.network("grid", 16)
    mean = problem.means(16, 10.0, 3)
    response, gain = modes(method, net, [40, 300])
    off_center = 16 * (response[:, 0] - 1) ** 2 * mean.mean() ** 2
    total = off_center + (response[:, 1:] ** 2 @ energies(net, mean[None]))[:, 0] + gain.sum(axis=1)
    assert np.allclose(total, gs.exact(method, net, gs.Gaussian(mean), [40, 300]).total_error, rtol=1e-10)
