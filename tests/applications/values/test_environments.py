"""Steps recorded from environments of Gymnasium and PettingZoo, against the environments themselves."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest

import gossamer as gs
from gossamer.applications import Experience, problems


def upright(observation):
    return int(observation[2] + 0.5 * observation[3] > 0)


def test_steps_of_an_environment_without_a_table_are_those_of_a_plain_loop():
    steps = Experience.from_gymnasium("cartpole", upright, 700, agents=3, rule="split", seed=5)
    environment = gymnasium.make("CartPole-v1")
    state, _ = environment.reset(seed=5)
    for t in range(700):
        assert steps.states[t] == pytest.approx(state)
        state, reward, over, cut, _ = environment.step(upright(state))
        assert steps.next_states[t] == pytest.approx(state)
        assert steps.rewards[t].mean() == pytest.approx(reward)
        assert (steps.terminated[t], steps.truncated[t]) == (over, cut and not over)
        if over or cut:
            state, _ = environment.reset()
    assert steps.truncated.any()  # the pole stands for all of 500 steps


def test_values_of_a_table_environment_learned_by_walking_through_it():
    lake = problems.from_gymnasium("FrozenLake", np.ones(16, dtype=int), is_slippery=True)
    truth = gs.PolicyEvaluation.from_problem("cycle:4", lake, 0.9, rule="same").values
    fit = gs.ValueEstimation.from_gymnasium(
        "cycle:4", "FrozenLake", lambda state: 1, np.eye(16), 0.9, steps=20_000, is_slippery=True, spread=0.1
    )
    seen = np.unique(fit.seen)
    assert len(seen) > 8
    low, high = np.moveaxis(fit.intervals(seen, 0.999), -1, 0)
    assert np.mean((low <= truth[seen]) & (truth[seen] <= high)) > 0.95


def test_every_agent_has_a_copy_of_a_vectorized_environment():
    steps = Experience.from_gymnasium("cartpole", "uniform", 300, agents=4, shared=False, seed=1)
    assert steps.states.shape == (300, 4, 4)
    assert steps.rewards.shape == (300, 4)
    assert steps.rewards == pytest.approx(np.ones((300, 4)))  # also in the last step of an episode
    for own in range(4):
        ends = np.flatnonzero(steps.last[:-1, own])
        assert len(ends) > 5
        assert np.all(np.abs(steps.next_states[ends, own][:, [0, 2]]).max(axis=0) > [0, 0.2])  # fallen
        assert np.all(np.abs(steps.states[ends + 1, own]) <= 0.05)  # the beginning of an episode
        going = np.setdiff1d(np.arange(299), ends)
        assert steps.next_states[going, own] == pytest.approx(steps.states[going + 1, own])
    fit = gs.ValueEstimation.from_gymnasium(
        "cycle:4",
        gymnasium.make_vec("CartPole-v1", 4),
        lambda x: (x[:, 2] > 0).astype(int),
        "fourier:10",
        steps=400,
    )
    assert fit.values(fit.seen[:5]).shape == (4, 5)


class Meeting:
    """Agents on a line that step left or right, are paid for standing close to agent 0, and leave at the ends."""

    possible_agents = ("a", "b", "c")
    render_mode = None

    def observation_space(self, agent):
        return gymnasium.spaces.Box(-9, 9, (2,))

    def action_space(self, agent):
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed) if seed is not None else self.rng
        self.at = dict(zip(self.possible_agents, self.rng.integers(-2, 3, 3), strict=True))
        self.agents, self.time = list(self.possible_agents), 0
        return self._seen(), {}

    def _seen(self):
        return {
            name: np.array([self.at[name], self.at[name] - self.at["a"]], dtype=float) for name in self.agents
        }

    def step(self, actions):
        self.time += 1
        for name, action in actions.items():
            self.at[name] += 2 * int(action) - 1
        rewards = {name: -float(abs(self.at[name] - self.at["a"])) for name in self.agents}
        ends = {name: bool(abs(self.at[name]) > 4) for name in self.agents}
        cuts = dict.fromkeys(self.agents, self.time == 12)
        seen = self._seen()
        self.agents = [name for name in self.agents if not ends[name] and not cuts[name]]
        return seen, rewards, ends, cuts, {}


def test_agents_of_a_parallel_environment_have_their_own_rewards_and_see_all():
    policies = {"a": lambda x: int(x[0] < 0), "b": "uniform", "c": lambda x: int(x[1] < 0)}
    steps = Experience.from_pettingzoo(Meeting(), policies, 600)
    assert steps.states.shape == (600, 6)
    assert steps.rewards.shape == (600, 3)
    # agent a's reward is always 0, those of the others are their distances after the step, unless they have left
    assert np.all(steps.rewards[:, 0] == 0)
    left = np.all(steps.states[:, 2:4] == 0, axis=1) & (steps.rewards[:, 1] == 0)
    assert steps.rewards[~left, 1] == pytest.approx(-np.abs(steps.next_states[~left, 3]))
    assert 600 / 12 <= steps.episodes <= 60
    assert steps.truncated.sum() > 40  # b alone leaves early, and the others go on
    again = Experience.from_pettingzoo(Meeting(), policies, 600)
    assert np.array_equal(steps.states, again.states)
    fit = gs.ValueEstimation.from_pettingzoo(Meeting(), policies, "fourier:20", 0.8, steps=600)
    assert fit.network.name == "cycle:3"
    assert fit.values(fit.seen).mean() < -1  # distances are not paid for


def test_an_episode_that_all_agents_leave_is_over():
    steps = Experience.from_pettingzoo(Meeting(), lambda x: 1, 100)
    assert steps.terminated.sum() > 5
    assert not steps.truncated.any()


def test_simple_spread_of_mpe():
    pytest.importorskip("mpe2")
    fit = gs.ValueEstimation.from_pettingzoo(
        "mpe2.simple_spread_v3", steps=300, discount=0.9, N=3, max_cycles=25
    )
    assert fit.theta.shape == (3, 50)
    assert fit.episodes == 12
    assert fit.values(fit.seen).mean() < 0  # what is far from its landmark pays


EMPTY = "policies must be one function for all agents, or one for each of a, b, c, got those of a"
BAD = [
    (lambda: Experience.from_gymnasium("cartpool"), "Gymnasium cannot make 'cartpool'"),
    (
        lambda: Experience.from_gymnasium("cartpole", "optimal"),
        "policy must be a function from an observation",
    ),
    (
        lambda: Experience.from_gymnasium("cartpole", lambda x: 2, 10),
        r"policy must be a function to actions of Discrete\(2\), got 2",
    ),
    (
        lambda: Experience.from_gymnasium("cartpole", steps=0),
        "steps must be a whole number of at least 1, got 0",
    ),
    (
        lambda: Experience.from_gymnasium(gymnasium.make("CartPole-v1"), shared=False),
        "environment shared=False needs a copy of the environment for each agent",
    ),
    (
        lambda: Experience.from_gymnasium(5),
        "environment must be the id of a Gymnasium environment or one itself",
    ),
    (lambda: Experience.from_pettingzoo(Meeting(), {"a": "uniform"}), EMPTY),
    (
        lambda: Experience.from_pettingzoo(Meeting(), "best"),
        "policies must be a function from an observation",
    ),
    (lambda: Experience.from_pettingzoo(3), "environment must be a parallel environment of PettingZoo"),
    (lambda: Experience.from_pettingzoo("json"), "json must be a module with parallel_env"),
    (
        lambda: gs.ValueEstimation.from_pettingzoo(Meeting(), steps=9, network="cycle:4"),
        "rewards must be one for each of 4 agents of the network, got 3",
    ),
]


@pytest.mark.parametrize(("call", "text"), BAD)
def test_errors_in_words(call, text):
    with pytest.raises(gs.InvalidInput, match=text):
        call()


def test_environments_in_turns_and_packages_that_are_missing(monkeypatch):
    class Turns:
        def agent_iter(self): ...

    with pytest.raises(gs.InvalidInput, match="aec_to_parallel"):
        Experience.from_pettingzoo(Turns())
    with pytest.raises(gs.MissingExtra, match=r"pip install 'gossamer\[rl\]' mpe5"):
        Experience.from_pettingzoo("mpe5.simple_spread_v3")
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(gs.MissingExtra, match=r"gossamer\[rl\]"):
        Experience.from_gymnasium("cartpole")
