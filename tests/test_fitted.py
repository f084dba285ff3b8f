"""The model that an agent of a fleet has learned: its summary is that of statsmodels, or says what it cannot know."""

from __future__ import annotations

import numpy as np
import pytest

from gossamer.agents.round.row_batching import spread_of
from gossamer.errors import InvalidInput, Unsupported
from gossamer.networks import Network
from tests.support.glm import assert_same, pooled
from tests.support.model_fleets import ModelFleet
from tests.support.nasty_streams import labels

COVARIATES = ("age", "dose")


def table(family: str, seed: int) -> np.ndarray:
    """The rows of one agent, with covariates around a point of its own."""
    rng = np.random.default_rng([seed, 1])
    x = rng.normal(size=(100 + 10 * seed, 2)) + rng.normal(size=2)
    return np.column_stack([x, labels(family, rng, x @ [0.8, -0.5] + 0.2)])


@pytest.mark.parametrize("family", ["logistic", "poisson", "gamma"])
def test_a_summary_is_that_of_statsmodels(family):
    data = [table(family, seed) for seed in range(4)]
    agents, whole = ModelFleet(Network.cycle(4), family, COVARIATES), np.vstack(data)
    agents.play([[part] for part in data])
    agents.play(rounds=140)
    x, y = whole[:, :-1], whole[:, -1]
    known, _ = pooled(family, x, y)
    for answers in agents.answers():
        model = answers.fitted()
        found = model.summary(robust=False)
        assert_same(found, known)  # robust errors are HC3 here
        np.testing.assert_allclose(model.to_sklearn().predict(x), model.predict(x))
        means = model.predict_proba(x)[:, 1] if family == "logistic" else model.predict(x)
        np.testing.assert_allclose(means, known.predict(), rtol=1e-6)
        robust = model.summary()
        np.testing.assert_allclose(robust.robust_errors, answers.standard_error)
        np.testing.assert_allclose(
            robust.intervals[:, 1] - robust.estimates, answers.quantile_95 * robust.errors, 1e-2
        )
        by_name = model.predict({"dose": x[:, 1], "age": x[:, 0]})
        np.testing.assert_array_equal(by_name, model.predict(x))
    assert model.score(x, y) == (
        np.mean(by_name == y) if family == "logistic" else pytest.approx(found.explained)
    )
    with pytest.raises(InvalidInput, match=r"X must be the columns \['age', 'dose'\]"):
        model.predict({"age": x[:, 0]})


def test_what_a_summary_cannot_say_without_its_rows():
    """The deviance of rows that were let go is that of an older estimate, and robust errors remain."""
    whole = np.vstack([table("poisson", seed) for seed in range(5)])
    agents = ModelFleet(Network.path(2), "poisson", COVARIATES, memory=50)
    with pytest.raises(Unsupported, match="there is no estimate yet: no rows have spread yet"):
        agents.answers()[0].fitted()
    for part in np.array_split(whole, 10):
        agents.play([list(part[::2]), list(part[1::2])])
        agents.play(rounds=2 * spread_of(2) - 1)
    found = agents.answers()[0].fitted().summary()
    assert "another pass over rows that are no longer at hand" in found.note
    assert np.isnan([found.deviance, found.aic, found.null_deviance, *found.standard_errors]).all()
    assert np.isfinite([found.robust_errors, found.z, found.p]).all()
    agents = ModelFleet(Network.path(2), "poisson", COVARIATES, forgetting=1000.0)
    agents.play([[whole], [whole]])
    agents.play(rounds=100)
    assert "rows count by their age" in agents.answers()[0].fitted().summary().note
