"""Exact and simulated errors agree, for every method and every kind of observations."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.variants import VARIANTS

import gossamer as gs

OBSERVATIONS = {
    "vector": lambda rng: gs.Gaussian(rng.normal(size=(12, 3)), rng.uniform(0, 2, size=(12, 3))),
    "bernoulli": lambda rng: gs.Bernoulli(rng.uniform(size=12)),
    "uniform": lambda rng: gs.Uniform(np.zeros(12), rng.uniform(1, 4, size=12)),
    "student": lambda rng: gs.StudentT(rng.normal(size=12), 2.0, df=8),
    "empirical": lambda rng: gs.Empirical(rng.normal(size=(12, 9, 2))),
    "drifting": lambda rng: gs.Drifting(gs.Gaussian(rng.normal(size=12)), rng.normal(size=12) * 0.05),
    "drifting uniform": lambda rng: gs.Drifting(gs.Uniform(0.0, np.ones(12)), 0.03),
    "noiseless": lambda rng: gs.Gaussian(rng.normal(size=12), 0.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", VARIANTS, ids=repr)
def test_simulation_agrees_with_exact_within_four_standard_errors(method, small):
    net, obs = small
    horizons = [24, 47]
    run = gs.simulate(method, net, obs, horizons, trials=2000, seed=2, keep="errors")
    expected = gs.exact(method, net, obs, horizons)
    assert np.all(
        np.abs(run.total_error - expected.total_error) < 4 * run.stderr + 1e-12 * expected.total_error
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", OBSERVATIONS)
@pytest.mark.parametrize("method", [gs.AnytimeSDA(gain=0.1), gs.SDA(batch=3), gs.DSG()], ids=lambda m: m.name)
def test_all_observations_agree_with_exact(kind, method, small):
    net, _ = small
    obs = OBSERVATIONS[kind](np.random.default_rng(1))
    run = gs.simulate(method, net, obs, 40, trials=2000, seed=4)
    expected = gs.exact(method, net, obs, 40)
    assert abs(run.total_error - expected.total_error) < 4 * run.stderr + 1e-9 * expected.total_error
    assert run.estimates.shape == (2000, 12, obs.components)
    assert expected.per_agent.sum() == pytest.approx(expected.total_error, rel=1e-9)


def test_drifts_add_up(small):
    net, obs = small
    twice = gs.Drifting(gs.Drifting(obs, 0.1), 0.2)
    once = gs.Drifting(obs, 0.3)
    method = gs.AnytimeSDA(gain=0.3)
    assert gs.exact(method, net, twice, 30).total_error == pytest.approx(
        gs.exact(method, net, once, 30).total_error
    )
    a, b = (gs.simulate(method, net, o, 30, trials=3).estimates for o in (twice, once))
    np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("name", ["sda", "anytime-sda", "dsg"])
def test_several_horizons_equal_one_at_a_time(name, small):
    net, obs = small
    horizons = [40, 7, 19, 19]
    together = gs.exact(name, net, obs, horizons)
    alone = [gs.exact(name, net, obs, t) for t in horizons]
    np.testing.assert_allclose(together.total_error, [r.total_error for r in alone], rtol=1e-10)
    np.testing.assert_allclose(together.per_agent, [r.per_agent for r in alone], rtol=1e-10)
    run = gs.simulate(name, net, obs, horizons, trials=3, seed=1)
    for k, t in enumerate(horizons):
        np.testing.assert_allclose(
            run.estimates[k], gs.simulate(name, net, obs, t, 3, 1).estimates, rtol=1e-12
        )
