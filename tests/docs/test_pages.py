"""The hand-written reference says what the program does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import gossamer as gs
from gossamer.agents.host.source_kinds import Source
from gossamer.agents.host.status import StatusFile

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_status_files_lists_every_key(tmp_path):
    settings = gs.AgentSettings(0, (gs.Neighbor(1),), method=gs.AnytimeSDA("local"), members=2)
    agent = gs.Agent(settings, transport=gs.agents.Memory().transport(0, (1,)))
    StatusFile(tmp_path / "agent0.json", "agent0", Source(1)).write(agent.snapshot)
    written = json.loads((tmp_path / "agent0.json").read_text())
    page = (DOCS / "reference" / "status.md").read_text()
    listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))))
    assert set(written) <= listed, set(written) - listed
    assert set(written["neighbors"]["agent1"]) <= set(re.findall(r"`(\w+)`", page))
