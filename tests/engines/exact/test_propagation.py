"""The rounds walked forward and backward."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.support.networks import LINEAR

import gossamer as gs
from gossamer.engines.exact import Runs, Sweep, propagate, summing
from gossamer.engines.exact.measure import measure
from gossamer.methods import tabulate, tabulate_all


@pytest.mark.parametrize("name", LINEAR)
def test_forward_equals_backward(name, small):
    net, _ = small
    table = tabulate(gs.METHODS[name](), net, 30)
    lam = np.linspace(0, net.lambda_max, 300)
    back_response, back_noise = propagate(table, lam, np.array([30]))
    response, noise = propagate(table, lam, np.array([29, 30]))
    np.testing.assert_allclose(response[1], back_response[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(noise[1], back_noise[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 3])
def test_several_runs_averaged_at_once_are_what_each_is_by_itself(batch: int) -> None:
    """Means since several rounds, with drift: as from the tables of single runs, walked backward."""
    net, rounds, starts = gs.Network.path(9), 150, np.array([0, 1, 70, 149])
    variants = [gs.SDA(step_size=0.4, momentum=m, batch=batch, burn_in=0) for m in (0.0, 0.7)]
    table = tabulate_all(variants, net, rounds, piece=slice(0, 1))
    summed = summing(tabulate(variants[1], net, rounds), rounds, 0)
    assert summed is not None
    table.step_state[:, summed[1], summed[1]] = 1.0
    nodes = net.spectrum.eigenvalues
    response, noise = Runs.of(table, rounds, starts, summed[1]).propagate(nodes)
    for k, (variant, start) in enumerate(itertools.product(variants, starts.tolist())):
        alone = tabulate(replace(variant, burn_in=start), net, rounds)
        expected = propagate(alone, nodes, np.array([rounds]))
        assert response[k] == pytest.approx(expected[0][0], rel=1e-10, abs=1e-12)
        assert noise[k] == pytest.approx(expected[1][0], rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("form", ["nesterov", "local"])
def test_a_sweep_that_skips_rounds_continues_as_if_it_had_not(form):
    method, network = gs.AnytimeSDA(form), gs.Network.path(20)
    over = measure(network, gs.Drifting(gs.Gaussian(np.arange(20.0), np.linspace(0.5, 2.0, 20)), 0.01))
    whole, average, later = (
        Sweep(method, network, over),
        Sweep(method, network, over.average),
        Sweep(method, network, over),
    )
    expected = [values[-100:] for values in whole.block(3100)]
    average.block(3000 - later.memory(3000, np.array([False, False, True, True])))
    later.resume(average, average.influenced)
    later.block(3000 - later.rounds)
    for values, truth in zip(later.block(100), expected, strict=True):
        np.testing.assert_allclose(values, truth, rtol=1e-11)
