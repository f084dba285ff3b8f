"""Newton's method over a network where numbers are extreme, labels nearly separable, or parameters many."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import gossamer as gs
from gossamer.applications.likelihood.directions import LARGEST_CHOLESKY
from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.applications.likelihood.stored_rows import StoredRows
from gossamer.errors import InvalidInput
from gossamer.families import FAMILIES, Family

NETWORK = gs.Network.grid(2, 4)
COEFFICIENTS = np.array([0.5, -0.3, 0.2])


def sample(family: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 3))
    eta = x @ COEFFICIENTS
    labels = {
        "logistic": lambda: rng.random(300) < 1 / (1 + np.exp(-eta)),
        "softmax": lambda: 1.0 * (eta + rng.logistic(size=300) > 0) + (rng.random(300) < 0.3),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "gamma": lambda: rng.gamma(2, np.exp(eta) / 2),
        "huber": lambda: eta + rng.standard_t(3, 300),
    }[family]()
    return x, np.asarray(labels, dtype=float)


@pytest.mark.parametrize(
    ("size", "intercept"), [(1e-9, True), (1e9, True), (1e30, True), (1e-9, False), (1e9, False)]
)
def test_gamma_labels_of_any_size(size, intercept):
    """A factor of the labels is a summand of the intercept; a column of ones is an intercept that starts at 0."""
    x, y = sample("gamma")
    usual = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", family="gamma").fit()
    x = x if intercept else np.column_stack([x, np.ones(300)])
    fit = LikelihoodEstimation.from_data(
        x, y * size, NETWORK, "sorted", family="gamma", intercept=intercept
    ).fit()
    shift = np.array([0, 0, 0, np.log(size)])
    np.testing.assert_allclose(fit.estimates, usual.estimates + shift, atol=1e-11)
    assert not fit.note


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("far", [1e5, 1e8])
def test_covariates_far_from_zero(family, far):
    """They are known to 1e-16 of their size; what is left of that after the shift is fitted."""
    x, y = sample(family)
    shift = far * np.array([1.0, -2.0, 0.0])
    moved = x + shift
    near = LikelihoodEstimation.from_data(moved - shift, y, NETWORK, "sorted", family=family).fit()
    away = LikelihoodEstimation.from_data(moved, y, NETWORK, "sorted", family=family).fit()
    slopes = [fit.estimates.reshape(8, -1, 4)[:, :, :3] for fit in (near, away)]
    np.testing.assert_allclose(slopes[1], slopes[0], atol=1e-10)
    constant = np.column_stack([moved, np.full(300, far)])
    with pytest.raises(InvalidInput, match=r"no agent's rows vary along the direction .*x3"):
        LikelihoodEstimation.from_data(constant, y, NETWORK, family=family).fit()


LOSSES = {
    "squares": lambda unit: (lambda e, y: (e - y) / unit**2, lambda e, y: np.ones_like(e) / unit**2),
    "log cosh": lambda unit: (
        lambda e, y: np.tanh((e - y) / unit),
        lambda e, y: 1 / np.cosh(np.clip((e - y) / unit, -300, 300)) ** 2 / unit,
    ),
    "sharp": lambda unit: (  # bends within 2% of the unit
        lambda e, y: (e - y) / np.hypot(0.02 * unit, e - y),
        lambda e, y: (0.02 * unit) ** 2 / np.hypot(0.02 * unit, e - y) ** 3,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_a_family_of_ones_own_does_not_depend_on_units(loss):
    x, y = sample("huber")
    found = []
    for unit in (1.0, 1e-9, 1e9):
        family = Family.own(*LOSSES[loss](unit), labels=(0.0, unit, -unit))
        fit = LikelihoodEstimation.from_data(x, (y + 5) * unit, NETWORK, "sorted", family=family).fit()
        found.append(fit.estimates / unit)
        assert len(fit.rounds) < 20
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-10)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_wrong_curvatures_are_noticed_in_any_unit(unit):
    derivative, curvature = LOSSES["log cosh"](unit)
    assert Family.own(derivative, curvature, labels=(0.0, unit)).outputs == 1
    with pytest.raises(InvalidInput, match="must be the derivative of its derivative"):
        Family.own(derivative, lambda e, y: 1.1 * curvature(e, y), labels=(0.0, unit))


def quasi_separable(family: str, seed: int, contradicted: bool) -> LikelihoodEstimation:
    """Two dummies; the rows of the first, which most agents lack, have one kind of label, all but one of them."""
    rng = np.random.default_rng(seed)
    network = (gs.Network.cycle(5), gs.Network.path(6), gs.Network.star(7))[seed % 3]
    rows = int(rng.integers(80, 250))
    x = rng.normal(size=(rows, 2)) * [0.1, 10.0] + [0.0, 5.0]
    owner = np.sort(rng.integers(0, network.agents, rows))
    owner[: network.agents] = np.arange(network.agents)
    first = (owner == rng.integers(network.agents)) & (rng.random(rows) < 0.5)
    first[np.argmax(owner == owner[first].max(initial=0)) :][:3] = True
    second = rng.random(rows) < 0.3
    y = (
        rng.poisson(1.0, rows)
        if family == "poisson"
        else rng.integers(0, 3 if family == "softmax" else 2, rows)
    )
    y[first] = {"poisson": 0, "logistic": seed % 2, "softmax": 1}[family]
    if contradicted:
        others = np.flatnonzero(first)[: 2 if family == "softmax" else 1]
        y[others] = {"poisson": [1], "logistic": [1 - seed % 2], "softmax": [0, 2]}[family]
    columns = {"x": x[:, 0], "z": x[:, 1], "first": first, "second": second}
    return LikelihoodEstimation.from_data(columns, y, network, owner, family=family)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "poisson", "softmax"])
def test_dummies_that_separate_are_refused_by_their_direction(family):
    for seed in range(3):
        with pytest.raises(InvalidInput, match=r"separable.*along the direction -? ?1 first"):
            quasi_separable(family, seed, contradicted=False).fit()
        assert quasi_separable(family, seed, contradicted=True).fit().error[-1] < 1e-8


def test_the_fit_in_one_place_is_computed_when_asked_for(monkeypatch):
    x, y = sample("logistic")
    problem = LikelihoodEstimation.from_data(x, y, NETWORK)
    asked = Counter()
    solution = StoredRows.solution

    def counted(self):
        asked["solution"] += 1
        return solution.__get__(self)

    monkeypatch.setattr(StoredRows, "solution", property(counted))
    fit = problem.fit()
    assert not asked
    assert fit.error[-1] < 1e-10
    assert asked
    again = pickle.loads(pickle.dumps(fit))
    assert again == fit
    np.testing.assert_array_equal(again.error, fit.error)


def test_rows_of_an_array_are_not_copied():
    x, y = sample("logistic")
    data = LikelihoodEstimation.from_data(x, y, NETWORK).stored.data
    assert all(np.shares_memory(rows.x, x) for rows in data)


def test_names_of_classes_have_one_form():
    x, y = sample("softmax")
    problem = LikelihoodEstimation.from_data({"a": x[:, 0]}, y, NETWORK, family="softmax")
    assert problem.parameter_names == list(problem.stored.model.names)
    assert problem.parameter_names == ["a[0]", "intercept[0]", "a[1]", "intercept[1]", "a[2]", "intercept[2]"]


def test_names_that_cannot_be_told_apart():
    x, y = sample("logistic")
    columns = {"intercept": x[:, 0], "b": x[:, 1]}
    with pytest.raises(InvalidInput, match="a column is called 'intercept'"):
        LikelihoodEstimation.from_data(columns, y, NETWORK)
    fit = LikelihoodEstimation.from_data(columns, y, NETWORK, intercept=False).fit()
    assert list(fit.names) == ["intercept", "b"]
    with pytest.raises(InvalidInput, match="'a' is the name of 2 columns"):
        LikelihoodEstimation(NETWORK, "logistic", 2, names=["a", "a"])


@pytest.mark.slow
@pytest.mark.parametrize("split", ["contiguous", "sorted"])
@pytest.mark.parametrize("family", ["logistic", "huber", "squares"])
def test_both_solvers_find_the_same(family, split):
    x, y = sample("huber" if family == "squares" else family)
    x = np.column_stack([x, x[:, :2] ** 2, x[:, 0] * 1e4])
    x[:, 5] += np.random.default_rng(1).normal(size=300) * 1e3
    if family == "squares":
        family = Family.own(*LOSSES["squares"](1.0))
    problem = LikelihoodEstimation.from_data(x, y, NETWORK, split, family=family)
    by_cholesky, by_cg = (problem.fit(method) for method in ("newton-cholesky", "newton-cg"))
    np.testing.assert_allclose(by_cg.estimates, by_cholesky.estimates, atol=1e-7)
    assert by_cg.disagreement == 0
    assert "collinear covariates" in by_cg.note
    assert not by_cholesky.note
    assert problem.fit().bytes[-1] == by_cholesky.bytes[-1]


def test_conjugate_gradients_refuse_what_no_row_varies():
    x, y = sample("logistic")
    problem = LikelihoodEstimation.from_data({"a": x[:, 0], "b": np.zeros(300)}, y, NETWORK)
    with pytest.raises(InvalidInput, match="no agent's rows vary along the direction 1 b"):
        problem.fit("newton-cg")


@pytest.mark.slow
def test_large_models_are_fitted_by_conjugate_gradients():
    """All ten digits have 650 parameters; messages have 651 numbers instead of 212,228."""
    x, y = load_digits(return_X_y=True)
    x, y = x[:900] / 16, y[:900].astype(float)
    known = LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=1000).fit(x, y)
    problem = LikelihoodEstimation.from_data(
        x, y, gs.Network.cycle(4), "sorted", family="softmax", ridge=1 / len(y)
    )
    assert problem.size == 650 > LARGEST_CHOLESKY
    fit = problem.fit()
    flat = np.column_stack([known.coef_, known.intercept_]).ravel()
    np.testing.assert_allclose(fit.estimates, np.tile(flat, (4, 1)), atol=1e-6)
    assert fit.bytes[-1] < 0.5 * problem.fit("newton-cholesky").bytes[-1]
