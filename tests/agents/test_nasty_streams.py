"""What a fleet publishes of nasty streams: the fit of all rows, or nothing, with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.model_fleets import ModelFleet
from tests.support.nasty_streams import AGENTS, CASES, labels, pooled, stream

from gossamer.agents.round.row_batching import spread_of
from gossamer.families import FAMILIES, family_of
from gossamer.networks import Network


def learn(family: str, name: str, seed: int = 5, memory: int = 10_000, restart: int = 0) -> tuple:
    """Answers after the rows have come and spread. At any moment before, what is published is right as well."""
    agents, arrivals = ModelFleet(Network.cycle(AGENTS), family, memory=memory), stream(name, family, seed)
    turn, seen = spread_of(AGENTS), None
    for age, rows in enumerate(arrivals):
        agents.play([list(part) for part in rows])
        if agents.answers()[0] is not seen:
            seen = agents.answers()[0]
            so_far = np.vstack([part for rows in arrivals[: age // turn * turn + 1] for part in rows])
            if not all(answer.withheld for answer in agents.answers()):
                check(agents.answers(), *pooled(family_of(family), so_far))
        if age + 1 == restart:
            agents.restart([ledger.remember() for ledger in agents.ledgers])
    agents.play(rounds=200)
    return agents.answers(), pooled(
        family_of(family), np.vstack([part for rows in arrivals for part in rows])
    )


def check(answers: list, theta: np.ndarray, errors: np.ndarray) -> list[str]:
    """What is published is right; return why the rest is not."""
    for answer in answers:
        if not answer.withheld:
            assert np.abs((answer.mean - theta) / errors).max() < 0.1
            np.testing.assert_allclose(answer.standard_error, errors, rtol=0.05)
        else:
            assert np.isnan(answer.mean).all()
    return [answer.withheld for answer in answers if answer.withheld]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), CASES)
def test_all_rows_are_remembered_so_the_estimate_is_theirs(family, name):
    answers, known = learn(family, name)
    assert not check(answers, *known)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["plain", "ordered", "outbreak", "flip", "growth"])
def test_what_was_let_go_fits_or_the_estimate_is_withheld(family, name):
    answers, known = learn(family, name, memory=8)
    reasons = check(answers, *known)
    assert all("no longer at hand" in reason for reason in reasons)
    if name in ("ordered", "outbreak", "growth"):
        assert len(reasons) == AGENTS


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_agents_that_were_killed_early_and_lost_their_rows_know_it(family):
    answers, known = learn(family, "ordered", restart=spread_of(AGENTS) + 1)
    assert all("no longer at hand" in reason for reason in check(answers, *known))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "poisson", "gamma"])
def test_tables_are_linearized_again_whatever_their_size(family):
    """Once they were frozen beyond the memory: 10 standard errors off, for ever."""
    rng, agents = np.random.default_rng(1), ModelFleet(Network.complete(3), family, memory=1000)
    tables = []
    for i in range(3):
        x = rng.normal(size=(40_000, 2)) + i / 2
        tables.append(np.column_stack([x, labels(family, rng, x @ [0.8, -0.5] + 0.2)]))
    agents.play([[table] for table in tables])
    agents.play(rounds=60)
    assert not check(agents.answers(), *pooled(family_of(family), np.vstack(tables)))
