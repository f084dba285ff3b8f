"""The chaos of docs/reliability.md, in small: `make chaos` runs the real one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos import __main__ as chaos
from tests.chaos import verdict as verdicts
from tests.chaos.members import ChaosMember
from tests.chaos.troubles import STATUSES

from gossamer.agents.config.tables import Member


@pytest.mark.slow
def test_a_small_fleet_survives_ten_seconds_of_chaos(tmp_path: Path) -> None:
    """Every kind of trouble once, and a few more; the quiet ends when all have been at the average for a while."""
    found = chaos.run(agents=6, minutes=0.15, seed=3, folder=tmp_path, haste=4.0)
    assert not found.failures, "\n".join([*found.entries, *found.failures])
    text = verdicts.report(found)
    assert "| kill -9 |" in text
    assert "| every member is at the members' average | average" in text


def test_the_report_replaces_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(f"before\n{verdicts.BEGIN}\nold\n{verdicts.END}\nafter\n")
    monkeypatch.setattr(verdicts, "GUIDE", guide)
    for _ in range(2):
        verdicts.write("| new |")
    assert guide.read_text() == f"before\n{verdicts.BEGIN}\n| new |\n{verdicts.END}\nafter\n"
    real = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    assert real.count(verdicts.BEGIN) == real.count(verdicts.END) == 1


@pytest.mark.parametrize("content", STATUSES, ids=range(len(STATUSES)))
def test_the_program_itself_survives_the_statuses_that_it_writes(tmp_path: Path, content: bytes) -> None:
    member = ChaosMember(Member(id=1, name="agent1"), tmp_path, tmp_path, 1.0, 0.0)
    (tmp_path / "status").mkdir()
    (tmp_path / "status" / "agent1.json").write_bytes(content)
    assert member.status() == {}
