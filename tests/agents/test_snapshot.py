"""What an agent says of itself and its neighbors."""

from __future__ import annotations

import numpy as np
import pytest

from gossamer.agents.config.settings import AgentSettings, Neighbor
from gossamer.agents.round.conversation import Peer
from gossamer.agents.snapshot import CountCheck
from gossamer.agents.statistics.layout import Layout
from gossamer.methods import AnytimeSDA


@pytest.mark.parametrize(
    ("inherited", "presence", "away", "said"),
    [
        (0, 1.0, False, ""),
        (0, 1.1, False, "so the average is wrong"),
        (0, 1.1, True, "so the average is wrong"),  # whoever is away, at most all of the others have observed
        (0, -0.1, False, "so the average is wrong"),
        (1, 4 / 3, False, ""),
        (1, 1.5, False, "members are away, or the average is wrong"),
        (1, 1.5, True, ""),  # two agents up, with the data of one that left: 3 x 1.5 of 3 + 1
    ],
)
def test_a_count_of_agents_that_cannot_be_is_a_problem(
    inherited: int, presence: float, away: bool, said: str
) -> None:
    layout = Layout(1)
    near = tuple(map(Neighbor, (1, 2)))
    settings = AgentSettings(0, near, method=AnytimeSDA("local"), members=3, inherited=inherited, death=5.0)
    peers = {n.id: Peer(n.id, 0.2) for n in near}
    peers[2].stopped = away
    check, answers = CountCheck(), layout.read(np.array([presence, presence * 4.0]))
    assert check.problem(answers, settings, peers, 0.0) == ""  # it may oscillate for a while
    found = check.problem(answers, settings, peers, 11.0)
    assert said in found
    assert bool(found) == bool(said)
    assert ("gossamer fleet reset-flows" in found) == bool(said)
