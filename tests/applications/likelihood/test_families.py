"""Families: the two derivatives agree, labels are checked, and a family of one's own is compared numerically."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import gossamer as gs
from gossamer.applications import (
    Family,
    Gamma,
    Huber,
    LeastSquares,
    Logistic,
    NegativeBinomial,
    Poisson,
    Softmax,
)
from gossamer.families import FAMILIES, family_of
from gossamer.families.special import digamma, log_gamma, trigamma

LABELS = {
    Logistic(): (0.0, 1.0),
    Softmax(3): (0.0, 1.0, 2.0),
    Softmax(3, symmetric=True): (0.0, 1.0, 2.0),
    Poisson(): (0.0, 1.0, 7.0),
    Gamma(): (0.2, 1.0, 5.0),
    Huber(): (-2.0, 0.3, 4.0),
}


@pytest.mark.parametrize("family", LABELS, ids=str)
def test_curvatures_are_the_derivatives_of_the_slopes(family):
    rng, step = np.random.default_rng(0), 1e-6
    y = np.repeat(LABELS[family], 50)
    eta = rng.normal(size=(family.outputs, len(y)))
    bends = family.curvatures(eta, y)
    assert bends.shape == (family.outputs, family.outputs, len(y))
    for k in range(family.outputs):
        moved = np.zeros_like(eta)
        moved[k] = step
        measured = (family.slopes(eta + moved, y) - family.slopes(eta - moved, y)) / (2 * step)
        np.testing.assert_allclose(measured, bends[:, k], rtol=1e-5, atol=1e-6)
    assert not family.outside(y).any()


@pytest.mark.parametrize("family", LABELS, ids=str)
def test_drawn_labels_are_the_familys_and_have_slope_zero_on_average(family):
    rng = np.random.default_rng(1)
    eta = np.broadcast_to(rng.normal(size=(family.outputs, 1)) * 0.7, (family.outputs, 40_000))
    y = family.draw(rng, eta)
    assert y.shape == (40_000,)
    assert not family.outside(y).any()
    slopes = family.slopes(eta, y)
    error = slopes.std(axis=1) / np.sqrt(slopes.shape[1])
    assert np.all(np.abs(slopes.mean(axis=1)) < 4.5 * error)


def test_the_start_of_hubers_loss_bears_outliers():
    y = np.array([[0.0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [1e6, np.nan]])
    start = Huber().start(y[[0, 7]], y)[0]
    assert start[:, 0].tolist() == [0, 3 + 10 * 2]  # median and typical distance from it
    assert start[0, 1] == 1  # seven labels say little


@pytest.mark.parametrize("family", LABELS, ids=str)
def test_labels_lie_where_their_own_start_is_plausible(family):
    y = np.array(LABELS[family])
    low, high = family.plausible(y, 10)
    start = family.start(y, y)
    assert start.shape == (family.outputs, len(y))
    assert np.all((start >= low) & (start <= high))


@pytest.mark.parametrize(
    ("family", "wrong", "words"),
    [
        (
            Logistic(),
            [0, 2],
            "must be 0 or 1 for the family logistic, but 1 of 2 are not, the first of them 2",
        ),
        (Softmax(3), [3], "whole numbers from 0 to 2"),
        (Poisson(), [1.5], "whole numbers of at least 0"),
        (Gamma(), [0.0], "must be positive"),
        (Huber(), [np.nan], "finite"),
    ],
)
def test_labels_outside_the_family_are_named(family, wrong, words):
    with pytest.raises(gs.InvalidInput, match=words):
        family.check_labels(wrong)


def test_names_of_families():
    assert [family_of(name).name for name in FAMILIES] == list(FAMILIES)
    assert family_of(Poisson()) == Poisson()
    with pytest.raises(gs.InvalidInput, match="did you mean 'poisson'"):
        family_of("poison")


def test_a_family_of_ones_own_is_checked_numerically():
    own = Family.own(lambda eta, y: np.exp(eta) - y, lambda eta, y: np.exp(eta), labels=(0, 1, 5))
    eta, y = np.array([[0.3, -0.2]]), np.array([1.0, 2.0])
    np.testing.assert_allclose(own.slopes(eta, y), Poisson().slopes(eta, y))
    with pytest.raises(
        gs.InvalidInput, match="must be the derivative of its derivative, but at the predictor"
    ):
        Family.own(lambda eta, y: np.exp(eta) - y, lambda eta, y: np.exp(eta) + 0.01)
    with pytest.raises(gs.InvalidInput, match="must be convex, but its curvature is -1"):
        Family.own(lambda eta, y: -eta, lambda eta, y: np.full_like(eta, -1.0))
    with pytest.raises(gs.InvalidInput, match="one finite number for each predictor"):
        Family.own(lambda eta, y: eta, lambda eta, y: 1.0)
    with pytest.raises(gs.InvalidInput, match="two functions"):
        Family.own("logistic", lambda eta, y: eta)
    with pytest.raises(gs.Unsupported, match="cannot draw labels"):
        own.draw(np.random.default_rng(0), eta)


LIKELIHOODS = [
    Logistic(),
    Softmax(3),
    Softmax(3, symmetric=True),
    Poisson(),
    Gamma(),
    Huber(),
    LeastSquares(),
    NegativeBinomial(0.7),
]


def log_densities(family, eta, y, dispersion=1.0):
    return family.log_likelihood(1.0, family.losses(eta, y), family.bases(y), dispersion)


@pytest.mark.parametrize("family", LIKELIHOODS, ids=str)
def test_losses_have_the_slopes_and_densities_that_they_claim(family):
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(family.outputs, 50))
    y = family.draw(rng, eta)
    for k in range(family.outputs):
        step = 1e-6 * np.eye(family.outputs)[k][:, None]
        measured = (family.losses(eta + step, y) - family.losses(eta - step, y)) / 2e-6
        np.testing.assert_allclose(measured, family.slopes(eta, y)[k], atol=1e-7)
    assert np.all(family.losses(eta, y) >= family.least_losses(y) - 1e-12)
    if family.density:  # up to a constant of the label the loss is the negative logarithm of the density
        rest = [log_densities(family, at, y) + family.losses(at, y) for at in (eta, eta / 2)]
        np.testing.assert_allclose(*rest, atol=1e-10)


def test_densities_are_scipys():
    rng = np.random.default_rng(1)
    eta = rng.normal(size=(1, 40))
    mean = np.exp(eta[0])
    counts = np.arange(40.0)
    for family, y, known in (
        (Poisson(), counts, stats.poisson.logpmf(counts, mean)),
        (NegativeBinomial(0.7), counts, stats.nbinom.logpmf(counts, 1 / 0.7, 1 / (1 + 0.7 * mean))),
        (Gamma(), counts + 0.1, stats.gamma.logpdf(counts + 0.1, 1 / 0.3, scale=0.3 * mean)),
        (LeastSquares(), counts, stats.norm.logpdf(counts, eta[0], np.sqrt(0.3))),
    ):
        np.testing.assert_allclose(log_densities(family, eta, y, 0.3), known, rtol=1e-11)
    x = np.geomspace(1e-3, 1e6, 60)
    np.testing.assert_allclose(log_gamma(x), special.gammaln(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(digamma(x), special.psi(x), rtol=1e-12)
    np.testing.assert_allclose(trigamma(x), special.polygamma(1, x), rtol=1e-12)


def test_derivatives_in_the_dispersion():
    rng = np.random.default_rng(2)
    eta, a, h = rng.normal(size=(1, 40)), 0.7, 1e-5
    y = NegativeBinomial(a).draw(rng, eta)
    more, less, here = (NegativeBinomial(b) for b in (a + h, a - h, a))
    terms = here.dispersion_terms(eta, y)
    slope = (log_densities(less, eta, y) - log_densities(more, eta, y)) / (2 * h)
    np.testing.assert_allclose(terms.slope, slope, atol=1e-7)
    bend = (more.dispersion_terms(eta, y).slope - less.dispersion_terms(eta, y).slope) / (2 * h)
    np.testing.assert_allclose(terms.curvature, bend, atol=1e-6)
    np.testing.assert_allclose(
        terms.cross, (more.slopes(eta, y) - less.slopes(eta, y))[0] / (2 * h), atol=1e-7
    )
    with pytest.raises(gs.Unsupported, match="need the dispersion of a negative binomial"):
        NegativeBinomial().slopes(eta, y)
