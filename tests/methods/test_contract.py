"""What a method says of itself is true: of the horizon, of its parameters, and of what it needs to know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.networks import LINEAR

import gossamer as gs
from gossamer.facts import KnownFacts, UnknownFacts
from gossamer.methods import tabulate
from gossamer.methods.acceleration import chebyshev

VARIANTS = [
    *(gs.METHODS[name]() for name in LINEAR),
    gs.SDA(burn_in=0),
    gs.SDA(burn_in=5),
    gs.SDA(output="last"),
    gs.SDA(output="last", burn_in=300),
    gs.AnytimeSDA("chebyshev"),
    gs.AnytimeSDA("local"),
    gs.AnytimeSDA("heavy-ball"),
    gs.AnytimeSDA("local-heavy-ball"),
    gs.AnytimeSDA(smoothing=0),
    gs.AnytimeSDA(gain=0.1),
    gs.DMASG(stages=1),
    gs.DMASG(stages=2),
]


@pytest.mark.parametrize("method", VARIANTS, ids=lambda m: m.label)
def test_an_anytime_method_does_the_same_whatever_the_horizon(method):
    """In both directions: who claims it keeps it, and who does not claim it really depends on the horizon."""
    net = gs.Network.complete(4)
    long = tabulate(method, net, 400)
    same = []
    for rounds in (1, 2, 7, 60, 199, 399):
        try:
            same.append(tabulate(method, net, rounds).starts_like(long))
        except gs.InvalidInput:  # too few rounds for its own parameters
            same.append(False)
    assert all(same) == method.anytime


@pytest.mark.parametrize("method", VARIANTS, ids=lambda m: m.label)
def test_a_method_needs_no_more_than_the_facts(method, small):
    net, _ = small
    facts = KnownFacts.of(np.linalg.eigvalsh(net.gossip.toarray()))
    assert facts.condition_number == pytest.approx(net.condition_number)
    assert facts.inverse_square_trace == pytest.approx(net.inverse_square_trace)
    for mine, known in zip(tabulate(method, net, 60), tabulate(method, facts, 60), strict=True):
        np.testing.assert_allclose(mine, known, rtol=1e-9, atol=1e-12)


def test_a_method_with_all_its_parameters_asks_for_nothing():
    method = gs.AnytimeSDA(step_size=0.5, momentum=0.8, smoothing=7)
    known = tabulate(method, gs.Network.path(5), 30)
    for one, other in zip(known, tabulate(method, UnknownFacts(), 30), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(gs.Unsupported, match="asks for the network's lambda_max, which is not known here"):
        tabulate(gs.AnytimeSDA(), UnknownFacts(), 30)
    with pytest.raises(AttributeError):
        UnknownFacts().neighbors  # noqa: B018


@pytest.mark.parametrize("method", VARIANTS, ids=lambda m: m.label)
def test_every_tunable_value_within_its_bounds_is_a_method(method, small):
    net, _ = small
    for name, bounds in method.tunable(net, 40).items():
        assert bounds.least <= bounds.start <= bounds.most
        inside = [bounds.start, bounds.most if bounds.whole else min(bounds.start * 1.5, bounds.most)]
        for value in inside:
            changed = replace(method, **{name: int(value) if bounds.whole else float(value)})
            assert tabulate(changed, net, 40).rounds == 40


@pytest.mark.slow
def test_own_methods_are_tuned_by_what_they_declare(small):
    """Planning knows no method by name: a user's own is tuned as soon as it says what may be tuned."""
    from gossamer.methods import Tunable

    class Slow(gs.LinearIteration):
        name = "slow"

        def tunable(self, network, rounds):
            return {"step_size": Tunable(0.1, least=0.0, most=1.0)}

    net, obs = small
    tuned = gs.tune(Slow(step_size=0.1), net, gs.Gaussian(obs.mean, 0.0), 12)
    assert tuned.method.step_size > 0.3
    assert tuned.total_error < 0.2 * tuned.before
    assert tuned.mse == pytest.approx(tuned.total_error / 12)


def test_chebyshev_weights_follow_the_textbook():
    """om_t of the recurrence equals 2 T_t(1/rho) / (rho T_{t+1}(1/rho)), by Chebyshev polynomials themselves."""
    net = gs.Network.path(6)
    low, high = net.lambda_2, net.lambda_max
    rho = (high - low) / (high + low)
    found = 1 + np.asarray(chebyshev(net, 12).momentum)
    polynomial = [np.polynomial.Chebyshev.basis(k)(1 / rho) for k in range(14)]
    expected = [1.0, *(2 * polynomial[t] / (rho * polynomial[t + 1]) for t in range(1, 12))]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
