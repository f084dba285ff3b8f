"""Settings that cannot be."""

from __future__ import annotations

import pytest

import gossamer as gs
from gossamer.paper.pipeline.settings import Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": 99}, "square number.*got 99; the nearest is 100"),
        ({"trials": 1}, "trials must be at least 2"),
        ({"spread": 0.0}, "spread must be a number above 0"),
        ({"stages": (1, 2)}, "stages needs two or more"),
        ({"large": (0.1,)}, "large needs two or more accuracies"),
        ({"star_agents": (3, 9)}, "star_agents needs two or more sizes"),
    ],
)
def test_bad_settings(changes, message):
    with pytest.raises(gs.InvalidInput, match=message):
        Settings(**changes)
