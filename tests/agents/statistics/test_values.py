"""Fleets that learn values: every agent has those of all transitions, and withholds what it cannot know."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.memory_fleet import enter, in_memory, leave, member
from tests.support.waiting import until_true

from gossamer.agents.config.model import FleetValues
from gossamer.agents.config.settings import AgentSettings, Neighbor
from gossamer.agents.round.step_batching import StepBatcher
from gossamer.agents.statistics.layout import Layout
from gossamer.agents.statistics.readings import BadObservation, parse_line
from gossamer.agents.statistics.values import StepRange, ValueLayout
from gossamer.errors import InvalidInput, Unsupported
from gossamer.methods import AnytimeSDA

STATES = 3
P = np.array([[0.1, 0.6, 0.3], [0.5, 0.1, 0.4], [0.3, 0.3, 0.4]])
REWARDS = np.array([[1.0, 0.0, 4.0], [0.0, 2.0, 0.0], [3.0, 0.0, 0.0]])


def walks(steps: int, *, shared: bool = False) -> np.ndarray:
    """(3, steps, 4) transitions of three agents, the same for all but their rewards if `shared`."""
    rng = np.random.default_rng(1)
    out = np.zeros((3, steps, 4))
    now = np.zeros(3, dtype=int)
    for t in range(steps):
        following = np.array([rng.choice(STATES, p=P[s]) for s in now])
        following = np.full(3, following[0]) if shared else following
        out[:, t] = np.column_stack(
            [now, following, REWARDS[np.arange(3), now] + rng.normal(size=3), [t % 50 == 49] * 3]
        )
        now = following
    return out


def center(transitions: np.ndarray, values: FleetValues) -> np.ndarray:
    """The values of a center that holds all transitions."""
    eye = np.eye(STATES)
    matrix, right = np.zeros((STATES, STATES)), np.zeros(STATES)
    for own in transitions:
        trace = np.zeros(STATES)
        for state, following, reward, end in own:
            trace = trace + eye[int(state)]
            matrix += np.outer(trace, eye[int(state)] - values.discount * (end != 1) * eye[int(following)])
            right += reward * trace
            trace *= 0.0 if end else values.discount * values.trace
    count = transitions.shape[0] * transitions.shape[1]
    return np.linalg.solve(matrix / count + values.ridge * eye, right / count)


def settings_of(values: FleetValues, **changes: object) -> list[AgentSettings]:
    fleet = {"dimension": values.dimension, "values": values, "members": 3, **changes}
    return [member(i, tuple(j for j in range(3) if j != i), **fleet) for i in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "fleet"),
    [
        ({}, {}),
        ({"shared": True}, {}),
        ({"trace": 0.7, "rewards": (-10.0, 10.0)}, {}),
        ({}, {"mask": (1.0,)}),
    ],
)
def test_every_agent_has_the_values_of_all_transitions(
    changes: dict[str, object], fleet: dict[str, object]
) -> None:
    values = FleetValues("table:3", discount=0.8, **changes)  # type: ignore[arg-type]
    given = walks(200, shared=values.shared)
    expected = center(given, values)

    async def run() -> None:
        agents = in_memory(settings_of(values, replicates=4, **fleet))
        assert agents[0].snapshot.withheld == "no transitions have spread yet"
        with pytest.raises(Unsupported, match="no values yet: no transitions"):
            agents[0].snapshot.values([0])
        await enter(agents)
        try:
            for agent, own in zip(agents, given, strict=True):
                for step in own:
                    agent.observe(step)

            def agreed() -> bool:
                shots = [agent.snapshot for agent in agents]
                return all(
                    not s.withheld and np.abs(s.values([0, 1, 2]) - expected).max() < 1e-6 for s in shots
                )

            await until_true(agreed, "the values of a center")
            shot = agents[1].snapshot
            assert shot.estimate == pytest.approx(expected, abs=1e-6)
            assert np.isnan(shot.value_errors([0])).all() == values.shared
            shown = shot.answers.layout.statistics[0].entries(shot.answers, (3, 0))  # type: ignore[arg-type]
            assert shown["features"] == "table:3"
            assert shown["steps"] == pytest.approx(200 if values.shared else 600, rel=1e-3)
        finally:
            await leave(agents)

    asyncio.run(run())


def test_a_common_matrix_survives_a_restart(tmp_path: Path) -> None:
    values = FleetValues("table:3", shared=True)
    settings = AgentSettings(
        0,
        (),
        method=AnytimeSDA("local"),
        values=values,
        dimension=4,
        members=1,
        pace=0.002,
        store=tmp_path / "a",
    )

    async def run(steps: np.ndarray) -> np.ndarray:
        (agent,) = in_memory([settings])
        async with agent:
            for step in steps:
                agent.observe(step)
            await until_true(lambda: not agent.snapshot.withheld and not agent._loop.pending, "values")
            return agent.snapshot.values([0, 1, 2])

    given = walks(100)[0]
    before = asyncio.run(run(given))
    assert asyncio.run(run(given[:0])) == pytest.approx(before, abs=1e-9)


def test_values_are_withheld_until_there_are_enough_transitions_and_neighbors_agree() -> None:
    values = FleetValues("table:3", discount=0.5)
    layout = ValueLayout(4, values=values, replicates=0)
    vector = np.zeros(layout.size)
    vector[:2] = 1.0, 19.0
    vector[2:11] = (np.eye(3) / 3).ravel()
    vector[11:] = 1.0
    answers = layout.read(vector)
    assert answers.withheld == "19 transitions are fewer than 20 for each of 3 features"
    assert np.isnan(answers.mean).all()
    vector[1] = 60.0
    assert layout.read(vector).mean == pytest.approx([3.0] * 3, rel=1e-4)
    other = vector.copy()
    other[11:] = 1.2
    apart = type(answers)(layout, vector, others=(other,))
    assert apart.withheld == "neighbors differ by 0.2 of the values, more than 0.1: not mixed yet"
    assert apart.distance(other) == pytest.approx(0.6, rel=1e-4)


def test_standard_errors_wait_for_long_trajectories() -> None:
    layout = ValueLayout(4, values=FleetValues("table:3", discount=0.5), replicates=2)
    vector = np.ones(layout.size)
    vector[1] = 200.0
    vector[2:11] = (np.eye(3) / 3).ravel()
    vector[-1] = 1 / 20
    early = layout.read(vector)
    assert not early.withheld
    assert "worth 20 independent ones, fewer than 50" in early.errors_withheld
    assert np.isnan(early.standard_error).all()
    assert np.isnan(early.values([0])[1]).all()
    vector[-1] = 1 / 60
    assert np.isfinite(layout.read(vector).values([0])[1]).all()
    vector[2:11] = np.diag([0.5, 0.5, 0.0]).ravel()
    assert np.isnan(layout.read(vector).values([0, 1, 2])[1]).tolist() == [False, False, True]


def test_an_agent_tells_the_share_of_one_independent_transition() -> None:
    layout = ValueLayout(4, values=FleetValues("table:2", discount=0.0), replicates=2)
    own, rng, state = [np.zeros(layout.size)], np.random.default_rng(0), 0
    batcher = batcher_of(layout, own)
    for t in range(1500):
        following = state if rng.random() < 0.9 else 1 - state  # eigenvalue 0.8
        batch = batcher.batch([np.array([state, following, 0.0, 0.0])], own[0], float(t), t)
        own[0] = own[0] + (batch.observation - own[0]) * batch.weight
        state = following
    assert batcher.answers().share == pytest.approx(1.8 / 0.2 / 1500, rel=0.3)


def batcher_of(layout: ValueLayout, own: list[np.ndarray]) -> StepBatcher:
    return StepBatcher(layout, lambda: own[0], lambda: (1, ()), b"", 0, gain=None, holds=False)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_standard_errors_are_those_of_correlated_rewards(memory: float) -> None:
    """One agent, one state, no discount: the value is the mean of an autoregressive reward.

    Blocks of a tenth are about 20 independent ones: the standard error has a relative error of 16%, and is three times
    as large as that of independent rewards if each remembers 0.8 of the last.
    """
    rng, rounds = np.random.default_rng(2), 2000
    noise = rng.normal(size=rounds) * np.sqrt(1 - memory**2)
    layout = ValueLayout(4, replicates=200, values=FleetValues("table:1", discount=0.0))
    own = [np.zeros(layout.size)]
    batcher, reward = batcher_of(layout, own), 0.0
    for t in range(rounds):
        reward = memory * reward + noise[t]
        batch = batcher.batch([np.array([0.0, 0.0, 5.0 + reward, 0.0])], own[0], float(t), t)
        own[0] = own[0] + (batch.observation - own[0]) * batch.weight
    value, error = batcher.answers().values([0])
    truth = np.sqrt((1 + memory) / (1 - memory) / rounds)
    assert error[0] == pytest.approx(truth, rel=0.48)
    assert value[0] == pytest.approx(5.0, abs=4 * truth)


def test_lines_of_transitions() -> None:
    step = {"state": [0.1, 0.2], "reward": 1.5, "next_state": [0.3, 0.4]}

    def read(**changes: object) -> list[float]:
        numbers = parse_line(json.dumps(step | changes), 6)
        assert numbers is not None
        return numbers.tolist()

    assert read() == [0.1, 0.2, 0.3, 0.4, 1.5, 0.0]
    assert read(terminated=True)[-1] == 1
    assert read(truncated=True)[-1] == 2
    over = parse_line('{"state": 3, "reward": 1, "terminated": true}', 4)
    assert over is not None
    assert over.tolist() == [3, 3, 1, 1]
    for line, text in (
        ('{"state": 3, "reward": 1}', 'a transition needs "state", "reward" and "next_state"'),
        ('{"state": 3, "next_state": 1}', 'a transition needs "state"'),
        ('{"state": 3, "reward": 1, "next_state": 1, "terminated": 1}', "true or false"),
        ('{"state": [3, 1], "reward": 1, "next_state": 1}', "must have 4 number"),
        ('{"state": "x", "reward": 1, "next_state": 1}', "must be made of numbers"),
    ):
        with pytest.raises(BadObservation, match=text):
            parse_line(line, 4)


def test_transitions_that_cannot_be_are_refused() -> None:
    table = StepRange(FleetValues("table:3", rewards=(0.0, 1.0)), clips=False)
    assert table.admit(np.array([0.0, 2.0, 1.0, 0.0])).tolist() == [0, 2, 1, 0]
    for step, text in (
        ([0.5, 1, 0, 0], "a whole number from 0 to 2"),
        ([0, 3, 0, 0], "a whole number from 0 to 2"),
        ([0, 1, 0, 3], "must end in 0"),
        ([0, 1, 2, 0], r"in the range \[0, 1\]"),
    ):
        with pytest.raises(BadObservation, match=text):
            table.admit(np.array(step, dtype=float))
    clipping = StepRange(FleetValues("table:3", rewards=(0.0, 1.0)), clips=True)
    assert clipping.admit(np.array([0.0, 2.0, 7.0, 0.0])).tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"features": "furier:3"}, "features must be fourier:NUMBER"),
        ({"features": "fourier:10"}, "values.states must be a pair for each component of a state"),
        ({"features": "table:3", "states": ((0, 1),)}, "values.states must be empty for a table"),
        (
            {"features": "fourier:10", "states": ((1, 1),)},
            "values.states must be the smallest and a larger number",
        ),
        ({"features": "table:3", "discount": 1.0}, "values.discount must be .*below 1"),
        ({"features": "table:3", "rewards": (2.0, 1.0)}, "values.rewards must be the smallest and a larger"),
        ({"features": "table:600"}, "values.features must be at most 500 features, got table:600"),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        FleetValues(**changes)  # type: ignore[arg-type]


def test_values_exclude_other_statistics_and_agree_on_features() -> None:
    values = FleetValues("table:3")
    neighbors = (Neighbor(1),)
    for changes, text in (
        ({"dimension": 3}, "dimension must be that of two states, a reward and an end, 4"),
        ({"dimension": 4, "variance": True}, "leave out variance"),
        ({"dimension": 4, "noise": (1.0,)}, "leave out noise or values"),
    ):
        with pytest.raises(InvalidInput, match=text):
            AgentSettings(0, neighbors, values=values, **changes)  # type: ignore[arg-type]
    same, other = (
        AgentSettings(0, neighbors, values=FleetValues("fourier:9", ((0, 1),), seed=k), dimension=4)
        for k in (0, 1)
    )
    assert same.fingerprint != other.fingerprint


def test_what_neighbors_may_claim_is_bounded() -> None:
    layout = ValueLayout(4, replicates=0, values=FleetValues("table:2", discount=0.5, rewards=(-1.0, 3.0)))
    box = layout.box
    assert box is not None
    assert box[1][2:].tolist() == [1.5] * 4 + [3.0] * 2
    assert isinstance(layout.averaged, Layout)
    assert layout.masks((0.5,) * 4).tolist() == [0.0] + [0.5] * 7
