"""What a running agent takes from its files: rosters and certificates that someone has put there."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.host import logs
from gossamer.agents.host.options import Options
from gossamer.agents.host.reloading import Reloader
from gossamer.agents.membership.changes import draft, link, publish, remove, replace
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.roster import roster_path
from gossamer.agents.transports.memory import Memory
from gossamer.errors import InvalidInput
from gossamer.networks import Network

Applied = list[AgentSettings]


class StandIn(SimpleNamespace):
    """As much of an agent as is followed with: it remembers which settings were applied."""

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(settings=settings, applied=[])
        self.snapshot, self.changes = SimpleNamespace(neighbors=()), SimpleNamespace(doubts=[])

    def apply(self, settings: AgentSettings) -> tuple[list[str], list[str]]:
        self.applied.append(settings)
        self.settings = settings
        return [], []


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    level = logging.getLogger().level  # which is followed as well
    yield Fleet.create(Network.cycle(4)).write(tmp_path / "fleet")
    logging.getLogger().setLevel(level)


def followed(path: Path, *steps: Callable[[], object]) -> tuple[Applied, bool]:
    """The settings that agent0 applied after these steps, with two looks after each, and whether it left."""

    async def live() -> tuple[Applied, bool]:
        left: list[bool] = []
        reloader = Reloader(Options(fleet=str(path), agent="agent0"), Fleet.read(path))
        agent: Any = StandIn(reloader.settings())
        reloader.agent, reloader.left = agent, lambda: left.append(True)
        for step in steps:
            step()
            for _ in range(3):
                reloader.look()
                await asyncio.sleep(0)
        return agent.applied, bool(left)

    return asyncio.run(live())


def touch(*files: Path) -> None:
    for file in files:
        file.write_bytes(file.read_bytes())
        os.utime(file, (1e9, 1e9))


def certificate(path: Path) -> Path:
    return path.parent / "certificates" / "agent0.pem"


def test_nothing_changes_by_itself(path: Path) -> None:
    assert followed(path, lambda: None) == ([], False)


def test_a_roster_that_is_put_beside_the_file_is_followed(path: Path) -> None:
    applied, _ = followed(path, lambda: publish(path, link(draft(path), "0", "2")))
    assert [(s.epoch, [n.id for n in s.neighbors]) for s in applied] == [(2, [1, 2, 3])]
    assert applied[0].roster == roster_path(path).read_bytes()


def test_new_certificates_are_followed_also_with_a_copy_of_the_old_roster(path: Path) -> None:
    """As when the whole folder is copied again."""
    applied, _ = followed(
        path,
        lambda: touch(certificate(path)),
        lambda: (Fleet.read(path).certify(path.parent), touch(roster_path(path))),
    )
    assert len(applied) == 2


def test_an_agent_that_was_replaced_follows_its_roster_before_its_certificate(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both come at once, and the certificate is right only with the roster."""
    applied, _ = followed(path, lambda: publish(path, replace(draft(path), "agent0")))
    assert {s.name for s in applied} == {"agent0@2"}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_an_agent_that_was_removed_leaves(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """That its key was deleted with it is no mistake."""
    assert followed(path, lambda: publish(path, remove(draft(path), "agent0"))) == ([], True)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_neighbors_have_their_names_in_the_fleet_not_in_its_certificates(path: Path) -> None:
    publish(path, replace(draft(path), "agent1"))
    settings = Fleet.read(path).settings("agent0", path.parent)
    assert [n.name for n in settings.neighbors] == ["agent1@2", "agent3"]
    agent = Agent(settings, transport=Memory().transport(0, (1, 3)))
    assert [n.name for n in agent.snapshot.neighbors] == ["agent1", "agent3"]


def test_the_log_level_changes_before_the_agent_goes_on(path: Path) -> None:
    """Or its thread might still log that it does."""
    levels: list[int] = []

    class Listening(StandIn):
        def apply(self, settings: AgentSettings) -> tuple[list[str], list[str]]:
            levels.append(logging.getLogger().level)
            return [], []

        def pardon(self) -> None:
            pass

    async def live() -> None:
        reloader = Reloader(Options(fleet=str(path), agent="agent0"), Fleet.read(path))
        agent: Any = Listening(reloader.settings())
        reloader.agent = agent
        reloader.set_level = logs.set_level
        path.write_text(path.read_text().replace('level = "info"', 'level = "error"'))
        reloader.reload()

    asyncio.run(live())
    assert levels == [logging.ERROR]


def test_a_roster_that_is_a_pipe_changes_nothing(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = roster_path(path)

    def spoil() -> None:
        file.unlink()
        os.mkfifo(file)

    assert followed(path, spoil) == ([], False)
    assert "must be a regular file" in caplog.text


def test_an_agent_begins_with_the_newest_roster_of_its_files_and_its_store(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files of a backup, or of an image that never changes, do not bring a removed member back."""
    old = path.read_bytes(), roster_path(path).read_bytes()
    publish(path, remove(draft(path), "agent1"))
    newest = roster_path(path).read_bytes()

    def begun(stored: bytes) -> tuple[int, list[int], bytes]:
        path.write_bytes(old[0])
        roster_path(path).write_bytes(old[1])

        async def begin() -> tuple[int, list[int], bytes]:
            reloader = Reloader(Options(fleet=str(path), agent="agent0"), Fleet.read(path))
            reloader.begin_with(stored)
            settings = reloader.settings()
            return settings.epoch, [n.id for n in settings.neighbors], settings.roster

        return asyncio.run(begin())

    assert begun(b"") == (1, [1, 3], old[1])
    assert begun(newest) == (2, [3], newest)
    assert roster_path(path).read_bytes() == newest
    assert "begins with the roster of epoch 2 from its store" in caplog.text
    assert begun(newest[:-1] + b"x")[0] == 1
    assert "the roster in the store is not used" in caplog.text
    publish(path, remove(draft(path), "agent0"))
    last = roster_path(path).read_bytes()
    with pytest.raises(InvalidInput, match="agent0 was removed from the fleet in epoch"):
        begun(last)


def test_an_agent_that_misses_one_neighbor_asks_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbor that refuses it may know better than a removed member that is still there."""
    asked: list[bool] = []
    distant: list[str] = []
    monkeypatch.setattr(Reloader, "_ask_around", lambda self: asked.append(True))
    monkeypatch.setattr(Reloader, "_ask_in_thread", lambda self, _, contact: distant.append(contact.label))

    async def live(*states: str) -> int:
        asked.clear()
        reloader = Reloader(Options(fleet=str(path), agent="agent0"), Fleet.read(path))
        agent: Any = StandIn(reloader.settings())
        agent.snapshot = SimpleNamespace(neighbors=[SimpleNamespace(state=state) for state in states])
        reloader.agent = agent
        for _ in range(20):
            reloader.look()
        return len(asked)

    assert [asyncio.run(live("alive", state)) for state in ("alive", "stopped", "joining", "dead")] == [
        0,
        0,
        4,
        4,
    ]
    assert asyncio.run(live("dead", "joining")) == 16
    assert distant == 5 * ["agent2"]  # once after each start, because its neighbors may have been removed
