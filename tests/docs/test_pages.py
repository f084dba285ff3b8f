"""The hand-written reference says what the program does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gossamer as gs
from gossamer.agents.host.status import StatusFile, StatusReport
from gossamer.agents.sources.conformance import check_source
from gossamer.agents.sources.kinds import Source
from gossamer.cli import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_status_files_lists_every_key(tmp_path):
    settings = gs.AgentSettings(0, (gs.Neighbor(1),), method=gs.AnytimeSDA("local"), members=2)
    agent = gs.Agent(settings, transport=gs.agents.Memory().transport(0, (1,)))
    StatusFile(tmp_path / "agent0.json", StatusReport("agent0", Source(1))).write(agent.snapshot)
    written = json.loads((tmp_path / "agent0.json").read_text())
    page = (DOCS / "reference" / "status.md").read_text()
    listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))))
    assert set(written) <= listed, set(written) - listed
    assert set(written["neighbors"]["agent1"]) <= set(re.findall(r"`(\w+)`", page))


MADE = {"_build", "_generated", "auto_gallery"}
PAGES = [
    page
    for page in (*DOCS.glob("**/*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md")
    if not MADE & set(page.parts)
]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_flags_in_the_documentation_exist(page):
    """Every `gossamer COMMAND ... --flag` of a page is one that the program takes."""
    text = page.read_text().replace("\\\n", " ")
    for line in re.findall(rf"gossamer ((?:{'|'.join(COMMANDS)})\b[^`\n|#]*)", text):
        words = line.split(" && ")[0].split()
        command = COMMANDS[words[0]].load(words[0])
        if hasattr(command, "commands") and len(words) > 1 and words[1] in command.commands:
            command = command.commands[words[1]]
        known = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
        used = {word.partition("=")[0].rstrip(".,;:)") for word in words if re.match(r"--[a-z]", word)}
        assert used <= known | {"--help"}, f"{page.name}: gossamer {line}"


def test_every_public_name_has_its_place_in_the_reference():
    page = (DOCS / "reference" / "api.md").read_text()
    listed = set(re.findall(r"^ {3}(\w+)$", page, re.MULTILINE)) | set(re.findall(r"`gossamer\.(\w+)`", page))
    rooms = {"agents", "applications", "dashboard", "faults", "methods", "networks", "theory"}
    named = {*gs.__all__, *(name for room in rooms for name in getattr(gs, room).__all__)} - rooms
    assert named - {"problems"} <= listed, named - listed


def test_the_source_and_the_sink_of_the_how_to_work(monkeypatch, capsys):
    page = (DOCS / "plugins.md").read_text()
    source, sink = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(source.splitlines()) <= 30
    names: dict = {}
    exec(source + sink, names)
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.0, 0.0))
    url, place = gs.agents.Url("load://?every=1ms"), gs.agents.Place()
    check_source(lambda: names["LoadAverage"](gs.agents.Url("load://?every=1ms"), place), [[0.5]] * 3)
    names["Screen"](url, place).write({"name": "pump", "estimate": 1.5, "standard_error": 0.5})
    assert capsys.readouterr().out == "pump 1.5 0.5\n"
