"""What `online` publishes of nasty streams: the fit of all rows, or nothing, with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.nasty_streams import AGENTS, CASES, pooled, stream

import gossamer as gs
from gossamer.families import FAMILIES


def learn(family: str, name: str, seed: int = 3, memory: int = 10_000, silence: int = 250):
    """Estimates after the rows have come and spread. At any moment before, what is published is right as well."""
    online = gs.LikelihoodEstimation(gs.Network.cycle(AGENTS), family, 2, intercept=True).online(
        memory=memory
    )
    arrivals, included = stream(name, family, seed), 0
    for rows in arrivals:
        online.observe([(part[:, :-1], part[:, -1]) if len(part) else None for part in rows])
        if online.included > included and online.ready.any():
            included = online.included
            so_far = np.vstack([part for rows in arrivals[:included] for part in rows])
            theta, errors = pooled(online._problem.family, so_far)
            assert np.nanmax(np.abs((online.estimates() - theta) / errors)) < 0.1
    for _ in range(silence):
        online.observe()
    return online, pooled(online._problem.family, np.vstack([part for rows in arrivals for part in rows]))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), CASES)
def test_all_rows_are_remembered_so_the_estimate_is_theirs(family, name):
    online, (theta, errors) = learn(family, name)
    if (family, name) == ("gamma", "outbreak"):  # half of the labels are far from what one model says
        assert "x0 is determined by the equivalent of 9 of them" in online.withheld[0]
        return
    assert online.ready.all(), online.withheld
    assert np.abs((online.estimates() - theta) / errors).max() < 0.1
    np.testing.assert_allclose(online.standard_errors(), np.tile(errors, (AGENTS, 1)), rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["plain", "ordered", "outbreak", "flip", "growth"])
def test_what_was_let_go_fits_or_the_estimate_is_withheld(family, name):
    online, (theta, errors) = learn(family, name, memory=8)
    assert online._linearizer._count < 70
    published = online.ready
    assert np.abs((online.estimates()[published] - theta) / errors).max(initial=0.0) < 0.1
    assert all("no longer in memory" in online.withheld[i] for i in np.flatnonzero(~published))
    if name in ("ordered", "outbreak", "growth"):
        assert not published.any()
