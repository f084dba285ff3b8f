"""Problems for policy evaluation: closed forms, Gymnasium environments, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.applications import PolicyEvaluation
from gossamer.applications.policy import problems

NETWORK = gs.Network.cycle(4)


def values(process: problems.MarkovRewardProcess, discount: float) -> np.ndarray:
    return PolicyEvaluation.from_problem(NETWORK, process, discount, rule="same").values


@given(st.integers(2, 30), st.integers(1, 5), st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_garnets_have_their_branching(states, branching, seed):
    branching = min(branching, states)
    process = problems.garnet(states, branching, seed)
    problems.check_transitions(process.transitions)
    assert np.all(np.diff(process.transitions.indptr) == branching)


def test_a_walk_that_only_goes_forward():
    assert values(problems.chain(4, 1.0), 0.5) == pytest.approx([0.25, 0.5, 1.0, 2.0])


def test_steps_to_the_corner_of_a_grid():
    steps = -(1 - 0.9 ** np.array([5, 4, 3, 4, 3, 2, 3, 2, 1, 2, 1, 0])) / 0.1
    assert values(problems.grid_world(4, 3, slip=0.0), 0.9) == pytest.approx(steps)
    slipping = values(problems.grid_world(4, 3, slip=0.5), 0.9)
    assert np.all(slipping[:-1] < steps[:-1])
    assert slipping[-1] == pytest.approx(0)


@pytest.mark.parametrize("rule", problems.RULES)
def test_shared_rewards_keep_their_average(rule):
    reward = np.array([1.0, -2.0, 0.0])
    shared = problems.share_rewards(reward, 5, rule, spread=3.0, seed=1)
    assert shared.mean(axis=0) == pytest.approx(reward, abs=1e-12)
    assert (np.ptp(shared, axis=0).max() == 0) == (rule == "same")


def test_the_long_run_of_chains_with_periods_and_several_classes():
    problem = PolicyEvaluation(NETWORK, [[0, 1, 0], [1, 0, 0], [0, 0, 1]], np.ones((4, 3)), 0.5)
    assert problem.stationary_distribution() == pytest.approx([1 / 3] * 3)
    chain = PolicyEvaluation.from_problem(NETWORK, problems.chain(5, 0.75))
    expected = 3.0 ** np.arange(5)
    assert chain.stationary_distribution() == pytest.approx(expected / expected.sum(), rel=1e-6)


# -- Gymnasium --------------------------------------------------------------------------------------------------


def test_the_cliff_is_walked_around():
    """13 steps of -1 from the start, and the goal absorbs."""
    process = problems.from_gymnasium("CliffWalking", "optimal")
    found = values(process, 0.99)
    assert found[36] == pytest.approx(-(1 - 0.99**13) / 0.01)
    assert found[47] == 0
    assert process.transitions[47, 47] == 1


def test_the_frozen_lake():
    """The well-known value 0.542 of the slippery 4x4 lake at discount 0.99."""
    process = problems.from_gymnasium("FrozenLake-v1", "optimal", discount=0.99)
    assert values(process, 0.99)[0] == pytest.approx(0.5420259, abs=1e-6)
    holes = [5, 7, 11, 12, 15]
    assert np.all(process.reward[holes] == 0)
    assert values(problems.from_gymnasium("FrozenLake", is_slippery=False), 0.9)[0] == pytest.approx(0.9**5)


def test_the_taxi_delivers():
    process = problems.from_gymnasium("Taxi", "optimal", discount=0.99)
    assert process.states == 500
    found = values(process, 0.99)
    assert found.max() == pytest.approx(20.0)
    uniform = values(problems.from_gymnasium("Taxi", "uniform"), 0.99)
    assert np.all(uniform <= found + 1e-9)


def test_a_policy_may_be_a_table_or_one_action_per_state():
    gymnasium = pytest.importorskip("gymnasium")
    lake = gymnasium.make("FrozenLake-v1")
    always = np.full(16, 2)
    table = np.eye(4)[always]
    one, other = (problems.from_gymnasium(lake, policy) for policy in (always, table))
    assert (one.transitions != other.transitions).nnz == 0
    assert np.array_equal(one.reward, other.reward)


EMPTY = np.full((16, 4), 0.25)
EMPTY[3] = 0
SHORT = np.full((16, 4), 0.25)
SHORT[5] = 0.2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: problems.from_gymnasium("FrozenLake", EMPTY), r"row of state 3 is empty \(1 such rows\)"),
        (
            lambda: problems.from_gymnasium("FrozenLake", SHORT),
            r"the row of state 5 is \[0.2, 0.2, 0.2, 0.2\]",
        ),
        (
            lambda: problems.from_gymnasium("FrozenLake", np.eye(4)),
            r"shape \(16, 4\), .* got shape \(4, 4\)",
        ),
        (lambda: problems.from_gymnasium("FrozenLake", np.full(16, 4)), "numbers from 0 to 3, got 4 to 4"),
        (lambda: problems.from_gymnasium("FrozenLake", "optimum"), r"did you mean 'optimal'\?"),
        (lambda: problems.from_gymnasium("FrozenLake", discount=1.0), "below 1, got 1.0"),
        (lambda: problems.from_gymnasium("CartPole-v1"), "CartPole-v1 has no table of transitions"),
        (lambda: problems.from_gymnasium("FrozenPond-v1"), "Gymnasium cannot make 'FrozenPond-v1'"),
        (lambda: problems.garnet(3, 4), "branching must be .* at most 3, got 4"),
        (lambda: problems.chain(1), "states must be a whole number of at least 2, got 1"),
        (lambda: problems.grid_world(1, 1), "states must be a whole number of at least 2, got 1"),
        (lambda: problems.share_rewards([1.0], 3, "pertub"), r"did you mean 'perturb'\?"),
    ],
)
def test_bad_input_is_explained(call, text):
    with pytest.raises(gs.InvalidInput, match=text):
        call()


def test_gymnasium_is_only_needed_for_its_environments(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    with pytest.raises(gs.MissingExtra, match=r"gossamer\[rl\]"):
        problems.from_gymnasium("FrozenLake")
