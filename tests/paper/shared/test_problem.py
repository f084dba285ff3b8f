"""Running the paper's problem."""

from __future__ import annotations

import pytest

import gossamer as gs
from gossamer.paper.shared import problem


def test_interrupted_simulation_is_no_result(monkeypatch):
    class Half:
        partial = True

    monkeypatch.setattr(problem, "simulate", lambda *a, **k: Half())
    with pytest.raises(KeyboardInterrupt):
        problem.run(gs.SDA(), problem.network("path", 9), problem.observations(9, 1.0, 0), 5)
