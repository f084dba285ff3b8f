"""Columns of any kind become covariates that all agents agree on; labels, missing values, weights and sites."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.linear_model import LogisticRegression

import gossamer as gs
from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.errors import InvalidInput, Unsupported

NETWORK = gs.Network.cycle(6)


def frame(seed: int = 0, rows: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "age": rng.normal(50, 10, rows),
            "town": rng.choice(["ely", "bath", "york"], rows, p=[0.7, 0.2, 0.1]),
            "dose": rng.integers(1, 4, rows),
            "visits": rng.uniform(0.5, 3, rows),
        }
    )
    eta = 0.03 * (found.age - 50) + 0.5 * (found.town == "york") + 0.2 * found.dose
    found["sick"] = rng.poisson(np.exp(eta) * found.visits)
    return found


def fitted(data, y="sick", split="sorted", **options):
    return LikelihoodEstimation.from_data(data, y, NETWORK, split, **{"family": "poisson", **options}).fit()


def by_statsmodels(formula: str, data: pd.DataFrame, **options) -> pd.Series:
    return smf.glm(formula, data, family=sm.families.Poisson(), **options).fit(tol=1e-13).params


@pytest.mark.parametrize("library", ["pandas", "polars", "dictionary"])
def test_text_is_a_category_whose_levels_all_agents_know(library):
    """Sorted by label, so that some agents have not seen every town."""
    data = frame()[["age", "town", "sick"]]
    given = {
        "pandas": data,
        "polars": pl.DataFrame(data.to_dict("list")),
        "dictionary": data.to_dict("list"),
    }[library]
    fit = fitted(given)
    known = by_statsmodels("sick ~ town + age", data)
    assert list(fit.names) == ["age", "town=ely", "town=york", "intercept"]
    order = ["age", "town[T.ely]", "town[T.york]", "Intercept"]
    np.testing.assert_allclose(fit.estimates, np.tile(known[order], (6, 1)), atol=1e-7)
    plain = fitted(data[["age", "sick"]])
    assert fit.rounds[0] > plain.rounds[0]  # passing on levels takes rounds, too


def test_categories_of_numbers_and_without_an_intercept():
    data = frame()[["dose", "town", "sick"]]
    fit = fitted(data.astype({"dose": "category"}), intercept=False)
    assert list(fit.names) == ["dose=1", "dose=2", "dose=3", "town=ely", "town=york"]
    known = by_statsmodels("sick ~ 0 + C(dose) + town", data)
    np.testing.assert_allclose(fit.estimates[2], known, atol=1e-7)
    assert fit.predict(data.head().astype({"dose": "category"})).shape == (5,)


@pytest.mark.parametrize(
    "formula",
    ["sick ~ age + C(dose) * town", "sick ~ 0 + town + np.log(age)", "sick ~ I(age ** 2 / 1000) + town:age"],
)
def test_formulas(formula):
    data = frame(1)
    known = by_statsmodels(formula, data)
    fit = fitted(data, formula)
    ours = dict(zip(fit.names, fit.estimates[3], strict=True))
    assert len(ours) == len(known)
    np.testing.assert_allclose(sorted(ours.values()), sorted(known), atol=1e-6)
    known_mean = smf.glm(formula, data, family=sm.families.Poisson()).fit(tol=1e-13).predict(data)
    np.testing.assert_allclose(fit.predict(data), known_mean, rtol=1e-6)


def test_formulas_of_one_column():
    fit, data = fitted(frame(), "sick ~ age", exposure="visits"), frame()
    known = by_statsmodels("sick ~ age", data, exposure=data.visits)
    np.testing.assert_allclose(fit.estimates[0], known[::-1], atol=1e-8)


def test_what_formulas_cannot_do():
    with pytest.raises(InvalidInput, match="the formula '1' has no covariates; at least one is needed"):
        fitted(frame(), "sick ~ 1")
    with pytest.raises(Unsupported, match=r"center\(age\) in a formula depends on all rows"):
        fitted(frame(), "sick ~ center(age)")
    with pytest.raises(InvalidInput, match="the data have no column 'agee'"):
        fitted(frame(), "sick ~ agee")
    with pytest.raises(InvalidInput, match="cannot be read as a formula"):
        fitted(frame(), "sick ~ age +* dose")


def test_missing_values():
    data = frame(2)[["age", "town", "sick"]]
    data.loc[3:20, "age"] = np.nan
    data.loc[100:110, "town"] = None
    with pytest.raises(InvalidInput, match=r"column 'age' must be finite, but .* missing; drop these rows"):
        fitted(data)
    fit = fitted(data, missing="drop")
    assert fit.note == "29 rows with missing values dropped"
    known = by_statsmodels("sick ~ town + age", data.dropna())
    np.testing.assert_allclose(sorted(fit.estimates[0]), sorted(known), atol=1e-7)
    np.testing.assert_allclose(
        sorted(fitted(data, "sick ~ town + age", missing="drop").estimates[1]), sorted(known), atol=1e-7
    )
    filled = pd.DataFrame({"age": data.age, "ely": data.town == "ely", "york": data.town == "york"}).astype(
        float
    )
    filled.loc[data.town.isna(), ["ely", "york"]] = np.nan
    filled = filled.fillna(filled.mean())
    known = sm.GLM(data.sick, sm.add_constant(filled, prepend=False), sm.families.Poisson()).fit(tol=1e-13)
    fit = fitted(data, missing="mean")
    np.testing.assert_allclose(fit.estimates[0], known.params, atol=1e-7)
    assert np.isfinite(fit.predict(data)).all()
    with pytest.raises(InvalidInput, match="missing must be 'refuse', 'drop' or 'mean', got 'omit'"):
        fitted(data, missing="omit")


def test_no_values_or_no_rows_are_left():
    data = frame(2)[["age", "sick"]].assign(empty=np.nan)
    with pytest.raises(InvalidInput, match="column 'empty' has no values at all; drop the column"):
        fitted(data, missing="mean")
    with pytest.raises(InvalidInput, match="no rows are left: 150 have missing values or weight 0"):
        fitted(data, missing="drop")
    with pytest.raises(InvalidInput, match="no rows are left: all have missing values or weight 0"):
        fitted(data[["age", "sick"]], sample_weight=np.zeros(150))


@pytest.mark.parametrize("missing", ["refuse", "drop", "mean"])
def test_values_that_cannot_be_squared(missing):
    x, y = frame()[["age", "dose"]].to_numpy(), frame().sick
    x[3, 1] = 1e160
    with pytest.raises(InvalidInput, match=r"column 'x1' must be below 1e\+100 in size, got 1e\+160"):
        fitted(x, y, missing=missing)
    x[3, 1] = np.inf
    with pytest.raises(InvalidInput, match="column 'x1' must be finite, but 1 of 25 values are infinite"):
        fitted(x, y, split="contiguous", missing=missing)
    with pytest.raises(InvalidInput, match="column 'x0' must hold real numbers, got complex ones"):
        fitted(x + 1j, y, missing=missing)


@pytest.mark.parametrize("family", ["poisson", "least-squares", "huber"])
def test_one_row(family):
    """Its label is fitted exactly, and what rounding leaves is no step."""
    fit = fitted(np.ones((1, 1)), [5], ridge=0.1, family=family)
    known = np.log(5) if family == "poisson" else 5
    np.testing.assert_allclose(fit.estimates, np.tile([0, known], (6, 1)), atol=1e-9)
    with pytest.raises(InvalidInput, match=r"y needs one value per row of X \(1\), got shape \(\)"):
        fitted(np.ones((1, 1)), 3)


def test_new_rows_need_the_same_levels():
    fit = fitted(frame()[["age", "town", "sick"]])
    new = pd.DataFrame({"age": [40.0], "town": ["rome"]})
    with pytest.raises(InvalidInput, match="column 'town' has the levels bath, ely, york, got 'rome'"):
        fit.predict(new)
    with pytest.raises(InvalidInput, match="the data have no column 'town'"):
        fit.predict(new[["age"]])
    with pytest.raises(InvalidInput, match=r"the category 'town' needs at least 2 levels, got ely"):
        fitted(pd.DataFrame({"age": [1.0, 2, 3], "town": ["ely"] * 3, "sick": [0, 1, 2]}))


def test_a_pipeline_of_scikit_learn_takes_the_same_columns():
    data = frame()[["age", "town", "sick"]]
    fit = fitted(data)
    np.testing.assert_allclose(fit.to_sklearn().predict(data), fit.predict(data))


# -- labels and weights --------------------------------------------------------------------------------------------


def labeled(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(160, 3))
    return x, (x[:, 0] + rng.logistic(size=160) > 0.8).astype(float)


def test_labels_of_two_classes():
    x, y = labeled()
    plain = LikelihoodEstimation.from_data(x, y, NETWORK).fit()
    signs = LikelihoodEstimation.from_data(x, 2 * y - 1, NETWORK, "sorted").fit()
    words = LikelihoodEstimation.from_data(x, np.where(y == 1, "yes", "no"), NETWORK, "sorted").fit()
    for fit in (signs, words):
        np.testing.assert_allclose(fit.estimates, plain.estimates, atol=1e-8)
    assert (plain.classes, signs.classes, words.classes) == ((0, 1), (-1, 1), ("no", "yes"))
    assert set(signs.predict(x)) == {-1, 1}
    assert words.score(x, np.where(y == 1, "yes", "no")) == plain.score(x, y)
    with pytest.raises(InvalidInput, match="labels of 2 classes, got 3"):
        LikelihoodEstimation.from_data(x, np.array(["a", "b", "c", "c"] * 40), NETWORK)
    with pytest.raises(InvalidInput, match="y must hold numbers"):
        LikelihoodEstimation.from_data(x, np.where(y == 1, "yes", "no"), NETWORK, family="poisson")


def test_words_for_several_classes():
    x, y = labeled()
    words = np.array(["low", "mid", "top"])[(y + (x[:, 1] > 0.5)).astype(int)]
    fit = LikelihoodEstimation.from_data(
        x, words, NETWORK, "sorted", family="softmax", ridge=1 / len(x)
    ).fit()
    known = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(x, words)
    assert fit.predict(x).tolist() == known.predict(x).tolist()
    np.testing.assert_allclose(fit.predict_proba(x), known.predict_proba(x), atol=1e-7)
    assert list(fit.names[-2:]) == ["x2[top]", "intercept[top]"]
    assert "x0[low]" in str(fit.summary())
    assert fit.summary().records()[0]["parameter"] == "x0[low]"


def test_classes_in_an_order_of_ones_own():
    x, y = labeled()
    plain = LikelihoodEstimation.from_data(x, y, NETWORK).fit()
    other = LikelihoodEstimation.from_data(x, np.where(y == 1, 3, 7), NETWORK, classes=[7, 3]).fit()
    np.testing.assert_allclose(other.estimates, plain.estimates, atol=1e-8)
    assert other.classes == (7, 3)
    assert set(other.predict(x)) == {3, 7}
    for classes, words in [
        (["a"], "classes must be at least 2 different labels, got"),
        (["a", "a"], "classes must be at least 2 different labels, got"),
        (["a", "b", "c"], "classes must be 2 labels for the family logistic"),
        ([3, 8], "the labels must be among the classes 3, 8, got 7"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            LikelihoodEstimation.from_data(x, np.where(y == 1, 3, 7), NETWORK, classes=classes)
    with pytest.raises(InvalidInput, match="classes must be left out for the family poisson"):
        LikelihoodEstimation.from_data(x, y, NETWORK, family="poisson", classes=[0, 1])
    with pytest.raises(InvalidInput, match=r"rows for each of the classes 3, 7, 9, got none of class 9"):
        LikelihoodEstimation.from_data(
            x, np.where(y == 1, 3, 7), NETWORK, family="softmax", classes=[3, 7, 9], ridge=0.1
        )


@pytest.mark.parametrize("weight", ["balanced", {0: 1.0, 1: 3.0}], ids=str)
def test_weights_of_classes(weight):
    x, y = labeled()
    known = LogisticRegression(C=0.5, class_weight=weight, solver="newton-cholesky", tol=1e-12).fit(x, y)
    total = np.sum(1 + 2 * y) if weight != "balanced" else len(y)
    fit = LikelihoodEstimation.from_data(x, y, NETWORK, "sorted", class_weight=weight, ridge=2 / total).fit()
    np.testing.assert_allclose(fit.estimates[4], np.append(known.coef_, known.intercept_), atol=1e-8)


def test_a_weight_is_a_number_of_rows():
    x, y = labeled()
    weights = np.random.default_rng(4).integers(0, 4, len(y))
    weighted = LikelihoodEstimation.from_data(
        x, y, NETWORK, "sorted", sample_weight=weights, ridge=0.01
    ).fit()
    again = np.repeat(np.arange(len(y)), weights)
    repeated = LikelihoodEstimation.from_data(x[again], y[again], NETWORK, ridge=0.01).fit()
    np.testing.assert_allclose(weighted.estimates, repeated.estimates, atol=1e-8)
    ours, theirs = weighted.summary(), repeated.summary()
    assert (ours.rows, ours.bic) == pytest.approx((theirs.rows, theirs.bic))
    np.testing.assert_allclose(ours.robust_errors, theirs.robust_errors, rtol=1e-7)
    for rival in (gs.applications.Extra(0.3), gs.applications.Alone(), gs.applications.Centralized()):
        assert LikelihoodEstimation.from_data(
            x, y, gs.Network.path(2), sample_weight=weights, offset=0.1 * x[:, 0], ridge=0.1
        ).fit(rival, 400).error[-1] < (1e-6 if rival != gs.applications.Alone() else 10)


def test_an_exposure_is_the_logarithm_of_an_offset():
    data = frame(5)
    fit = fitted(data[["age", "visits", "sick"]], exposure="visits")
    known = by_statsmodels("sick ~ age", data, exposure=data.visits)
    np.testing.assert_allclose(sorted(fit.estimates[0]), sorted(known), atol=1e-7)
    with pytest.raises(InvalidInput, match=r"exposure must be above 0 and at most 1e\+100, got -1"):
        fitted(data[["age", "sick"]], exposure=np.full(150, -1.0))
    with pytest.raises(InvalidInput, match=r"sample_weight must be at least 0 and at most 1e\+100, got -2"):
        fitted(data[["age", "sick"]], sample_weight=np.full(150, -2.0))
    with pytest.raises(InvalidInput, match=r"offset needs one value per row of X \(150\), got shape \(3,\)"):
        fitted(data[["age", "sick"]], offset=[1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="class_weight must name labels"):
        LikelihoodEstimation.from_data(*labeled(), NETWORK, class_weight={7: 1.0})


@pytest.mark.parametrize("shift", [-1000.0, 12.0, 1000.0])
def test_a_constant_offset_moves_the_intercept(shift):
    data = frame()[["age", "sick"]]
    plain, moved = (fitted(data, offset=np.full(len(data), at)) for at in (0.0, shift))
    np.testing.assert_allclose(moved.estimates[:, 0], plain.estimates[:, 0], atol=1e-9)
    np.testing.assert_allclose(moved.estimates[:, 1] + shift, plain.estimates[:, 1], atol=1e-9)
    assert moved.rounds[-1] == plain.rounds[-1]


def test_standardized_penalties_do_not_depend_on_units():
    x, y = labeled()
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    known = LikelihoodEstimation.from_data(scaled, y, NETWORK, ridge=0.1).fit().estimates[0]
    units = np.array([1e4, 1.0, 1e-3])
    fit = LikelihoodEstimation.from_data(
        x * units + 3, y, NETWORK, "sorted", ridge=0.1, standardize=True
    ).fit()
    np.testing.assert_allclose(fit.estimates[0, :3] * units * x.std(axis=0), known[:3], atol=1e-7)


# -- sites -----------------------------------------------------------------------------------------------------------


def test_sites_are_known_by_name():
    data = frame(6)
    graph = nx.relabel_nodes(nx.path_graph(4), {0: "york", 1: "hull", 2: "bath", 3: "ely"})
    problem = LikelihoodEstimation.from_data(
        data, "sick", gs.Network.from_networkx(graph), "by:town", family="poisson"
    )
    fit = problem.fit()
    assert fit.sites == ["york", "hull", "bath", "ely"]
    assert problem.samples.tolist() == [np.sum(data.town == town) for town in fit.sites]
    assert fit.summary(agent=3).site == "ely"
    alone = LikelihoodEstimation.from_data(data, "sick", split="by:town", family="poisson").fit()
    assert alone.sites == ["bath", "ely", "york"]
    np.testing.assert_allclose(alone.estimates[0], fit.estimates[0], atol=1e-7)


def test_more_agents_than_rows():
    x, y = labeled()
    fit = LikelihoodEstimation.from_data(x[:20], y[:20], gs.Network.grid(5, 6), ridge=0.1).fit()
    known = LikelihoodEstimation.from_data(x[:20], y[:20], gs.Network.path(2), ridge=0.1).fit()
    np.testing.assert_allclose(fit.estimates, np.tile(known.estimates[0], (30, 1)), atol=1e-8)
