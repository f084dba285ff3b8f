"""What a page of a fleet gets, and that it can only see."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import websockets
from tests.support.commands import invoke
from tests.support.frames import unpacked
from tests.support.serving import serving
from tests.support.waiting import PATIENCE
from tests.support.written_fleet import WrittenFleet, playing

from gossamer.agents.membership import changes as membership
from gossamer.dashboard import fleet_page as pages
from gossamer.dashboard.fleet import FACTS, LINKS, FleetReader
from gossamer.dashboard.fleet_page import LINES, FleetFrames, FleetWatch, fleet_page
from gossamer.dashboard.server import Server
from gossamer.errors import InvalidInput
from gossamer.networks import Network

ENDED = {"pid": 2**22 - 3}


@pytest.fixture
def nine(tmp_path: Path) -> WrittenFleet:
    return WrittenFleet(tmp_path / "fleet", Network.grid(3, 3))


def shown(written: WrittenFleet, reader: FleetReader | None = None) -> FleetFrames:
    return FleetFrames((reader or FleetReader(written.path)).look(), written.directory)


# -- frames ------------------------------------------------------------------------------------------------


def test_a_frame_has_everything_a_page_shows(nine: WrittenFleet) -> None:
    reader, now = FleetReader(nine.path), time.time()
    nine.changes = {"agent4": ENDED, "agent8": {"state": "degraded", "problem": "no space left"}}
    for k in range(3):
        nine.play(10, at=now - 1 + k / 2)
        frames = shown(nine, reader)
    header, arrays = unpacked(frames.frame)
    assert header["names"] == [f"agent{k}" for k in range(9)]
    assert header["states"] == [{4: "gone", 8: "degraded"}.get(k, "running") for k in range(9)]
    assert header["problems"][8] == "no space left"
    assert header["worst"][:2] == [4, 8]
    assert [(agent, text) for _, agent, text, _ in header["events"]] == [
        ("agent4", "gone"),
        ("agent8", "degraded: no space left"),
    ]
    assert arrays["links"].shape == (12, 2)
    assert arrays["positions"].shape == (9, 2)
    assert arrays["speaking"].tolist() == [int(k != 4) for k in range(9)]
    assert arrays["rate"][0] == pytest.approx(20.0)
    assert math.isnan(arrays["rate"][4])
    assert arrays["history"].shape == (len(FACTS) + len(header["reasons"]), 3)
    spread = arrays["history"][header["facts"].index("spread")]
    assert spread[-1] == pytest.approx(header["summary"]["spread"], rel=1e-6)
    assert np.isnan(arrays["lines"][:, 4]).all()
    estimates = arrays["lines"][0, :, -1] + header["center"]
    assert estimates[0] == pytest.approx(arrays["estimate"][0])


def test_the_worst_come_first_and_those_that_agree_keep_their_places(nine: WrittenFleet) -> None:
    for distances in ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1)):
        near = {f"agent{k}": {"distance": distances[k % 3], "standard_error": 0.5} for k in range(9)}
        nine.changes = near | {"agent5": {"distance": 5.0, "standard_error": 0.5}, "agent7": ENDED}
        nine.play(10)
        assert unpacked(shown(nine).frame)[0]["worst"] == [7, 5, 0, 1, 2, 3, 4, 6, 8]


def test_the_page_knows_who_is_mixing(nine: WrittenFleet) -> None:
    nine.changes = {"agent3": {"settled": False}}
    nine.play(10)
    assert unpacked(shown(nine).frame)[1]["settled"].tolist() == [float(k != 3) for k in range(9)]


def test_many_agents_are_bands_and_few_are_lines(tmp_path: Path) -> None:
    for agents, lines in ((LINES, LINES), (LINES + 1, 0)):
        written = WrittenFleet(tmp_path / f"fleet{agents}", Network.cycle(agents))
        written.play(5)
        header, arrays = unpacked(shown(written).frame)
        assert arrays["lines"].shape == (2, lines, 1)
        low, middle, high = (
            arrays["history"][header["facts"].index(f"estimate{q}"), 0] for q in ("0", "0.5", "1")
        )
        assert low < middle < high


def test_a_link_is_as_its_worse_end_says(nine: WrittenFleet) -> None:
    nine.play(10)
    line = json.loads(nine.file("agent1").read_text())
    line["neighbors"]["agent0"] |= {"state": "silent", "last_heard": 3.0}
    line["neighbors"]["agent2"] |= {"last_heard": None}
    nine.changes["agent1"] = {"neighbors": line["neighbors"]}
    nine.play(10)
    _, arrays = unpacked(shown(nine).frame)
    found = {tuple(sorted(link)): k for k, link in enumerate(arrays["links"].tolist())}
    assert LINKS[arrays["linkState"][found[0, 1]]] == "silent"
    assert 3.0 <= arrays["linkHeard"][found[0, 1]] < 30.0
    assert LINKS[arrays["linkState"][found[1, 2]]] == "alive"
    assert arrays["linkHeard"][found[1, 2]] < 3.0  # agent2 has heard agent1
    nine.changes = {"agent0": ENDED, "agent1": ENDED}
    nine.play(10)
    _, arrays = unpacked(shown(nine).frame)
    assert LINKS[arrays["linkState"][found[0, 1]]] == "unknown"
    assert math.isnan(arrays["linkLoss"][found[0, 1]])


def test_agents_stay_where_they_were_when_others_come_and_go(nine: WrittenFleet) -> None:
    nine.play(10)
    reader = FleetReader(nine.path)
    before = shown(nine, reader)
    same = FleetFrames(reader.look(), nine.directory, before)
    assert np.array_equal(unpacked(same.frame)[1]["positions"], unpacked(before.frame)[1]["positions"])
    added = membership.add(membership.draft(nine.path), "press", "127.0.0.1:9999", ["agent0", "agent1"])
    membership.publish(nine.path, added)
    after = unpacked(FleetFrames(reader.look(), nine.directory, same).frame)[1]["positions"]
    assert after.shape == (10, 2)
    old = unpacked(same.frame)[1]["positions"]
    assert np.corrcoef(old.ravel(), after[:9].ravel())[0, 1] > 0.8
    assert np.linalg.norm(after[9] - after[:2].mean(axis=0)) < 0.6


# -- one agent, and its log --------------------------------------------------------------------------------


def log_of(written: WrittenFleet, name: str, lines: list[str]) -> None:
    (written.directory / "logs").mkdir(exist_ok=True)
    (written.directory / "logs" / f"{name}.log").write_text("\n".join(lines) + "\n")


def test_one_agent_with_the_end_of_its_log(nine: WrittenFleet) -> None:
    nine.play(10)
    entry = {"time": "2026-01-01T10:00:00.000+00:00", "level": "warning", "agent": "agent3", "logger": "x"}
    many = [json.dumps({**entry, "message": f"<b>{k}</b>", "times": 2}) for k in range(5000)]
    log_of(nine, "agent3", [*many, "Segmentation fault", json.dumps([1])])
    header, arrays = unpacked(shown(nine).agent("agent3"))
    assert header["state"] == "running"
    assert header["neighbors"].keys() == {"agent0", "agent4", "agent6"}
    assert header["details"]["rounds"] == 10
    assert arrays["estimate"].shape == arrays["times"].shape == (1,)
    assert len(header["log"]) == pages.LOG_LINES
    assert header["log"][-3] == {
        "time": entry["time"],
        "level": "warning",
        "message": "<b>4999</b>",
        "more": "times: 2",
    }
    assert header["log"][-2]["message"] == "Segmentation fault"
    assert header["log"][-1]["message"] == "[1]"


def test_why_there_is_no_log(nine: WrittenFleet) -> None:
    nine.missing = {"agent1"}
    nine.play(10)
    frames = shown(nine)
    assert unpacked(frames.agent("agent0"))[0]["logProblem"] == (
        "There is no logs/agent0.log here: an agent that runs by itself logs to its standard error."
    )
    assert unpacked(frames.agent("agent1"))[0]["logProblem"] == "Its log is on its own host, 127.0.0.1."
    log_of(nine, "agent0", [])
    (nine.directory / "logs" / "agent2.log").symlink_to(nine.path)
    assert "symbolic link" in unpacked(frames.agent("agent2"))[0]["logProblem"]


@pytest.mark.parametrize(
    "name", ["../fleet.toml", "../certificates/ca", "nobody", "agent1/../../fleet", "\0"]
)
def test_only_logs_of_members_are_read(nine: WrittenFleet, name: str) -> None:
    nine.play(10)
    header, _ = unpacked(shown(nine).agent(name))
    assert header["missing"] is True
    assert "log" not in header


# -- sessions ----------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "EVERY", 0.05)


class FakePage:
    """A page's end of a web socket."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    async def ask(self, type: str = "next", **content: Any) -> dict[str, Any]:
        await self.socket.send(json.dumps({"type": type, **content}))
        return await self.read()

    async def read(self) -> dict[str, Any]:
        header, _ = unpacked(await asyncio.wait_for(self.socket.recv(), PATIENCE))
        return header


@contextlib.asynccontextmanager
async def page_of(server: Server) -> AsyncIterator[FakePage]:
    origin = f"http://127.0.0.1:{server.port}"
    address = f"ws://127.0.0.1:{server.port}/live/fleet"
    async with websockets.connect(address, origin=websockets.Origin(origin)) as socket:
        yield FakePage(socket)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_page_that_paused_jumps_to_the_newest_state(nine: WrittenFleet) -> None:
    """While another goes on; nothing is queued for it, and it gets all of the history."""

    async def pause(server: Server) -> None:
        async with page_of(server) as paused, page_of(server) as other:
            first = (await paused.ask())["number"]
            newest = first
            while newest < first + 15:
                newest = (await other.ask())["number"]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(paused.socket.recv(), 0.3)  # nobody asked
            await paused.socket.send('{"type": "next"}')
            header, arrays = unpacked(await asyncio.wait_for(paused.socket.recv(), PATIENCE))
            assert header["number"] >= newest
            assert len(arrays["times"]) == header["number"]

    with playing(nine), serving([fleet_page(nine.path)]) as server:
        asyncio.run(pause(server))


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_one_reader_however_many_pages_are_open(nine: WrittenFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    look = FleetReader.look
    monkeypatch.setattr(FleetReader, "look", lambda self: (looks.append(time.monotonic()), look(self))[1])
    packs: list[int] = []
    frame = FleetFrames.frame.func
    counted = FleetFrames.frame
    monkeypatch.setattr(counted, "func", lambda self: (packs.append(self.view.number), frame(self))[1])

    async def watch(server: Server) -> None:
        async with contextlib.AsyncExitStack() as stack:
            all_pages = [await stack.enter_async_context(page_of(server)) for _ in range(5)]
            for _ in range(5):
                numbers = [(await page.ask())["number"] for page in all_pages]
                assert max(numbers) <= len(looks)

    with playing(nine), serving([fleet_page(nine.path)]) as server:
        asyncio.run(watch(server))
    assert len(packs) == len(set(packs))  # each view is packed once


def test_looking_takes_a_bounded_share_of_a_core(nine: WrittenFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that takes long is followed by a long pause."""
    nine.play(1)
    watch = FleetWatch(FleetReader(nine.path))
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise asyncio.CancelledError

    clock = iter([0.0, 2.0, 10.0, 10.001])
    monkeypatch.setattr(pages.time, "thread_time", lambda: next(clock))
    monkeypatch.setattr(pages.asyncio, "sleep", pause)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(watch._look())
    assert pauses == [2.0 / pages.SHARE, pages.EVERY]


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_look_that_fails_is_followed_by_others(
    nine: WrittenFleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    look, times = FleetReader.look, iter(range(1000))

    def some_fail(self: FleetReader) -> Any:
        if next(times) in (1, 2, 3):
            raise RuntimeError("can't start new thread")
        return look(self)

    monkeypatch.setattr(FleetReader, "look", some_fail)

    async def watch(server: Server) -> None:
        async with page_of(server) as page:
            numbers = [(await page.ask())["number"] for _ in range(3)]
            assert numbers == sorted(set(numbers))
            assert next(times) > 4

    nine.play(1)
    with serving([fleet_page(nine.path)]) as server:
        asyncio.run(watch(server))
    assert [record.message for record in caplog.records if record.name.startswith("gossamer")] == [
        "cannot look at the fleet; trying again"
    ]


def everything_in(directory: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_nothing_that_a_page_sends_reaches_the_fleet(
    nine: WrittenFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message changes a file, signals a process or opens a connection; all but two are refused."""
    nine.play(10)
    before = everything_in(nine.directory)
    signals: list[tuple[int, int]] = []
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: (signals.append((pid, number)), kill(pid, number))[1])
    words = (
        "stop",
        "kill",
        "reload",
        "push",
        "remove",
        "add",
        "run",
        "command",
        "signal",
        "write",
        "sign",
        "look2",
    )

    async def try_all(server: Server) -> None:
        async with page_of(server) as page:
            assert (await page.ask())["type"] == "fleet"
            for word in words:
                answer = await page.ask(word, agent="agent1", pid=os.getpid(), path="x", value=1)
                assert answer == {
                    "type": "error",
                    "message": 'a page must ask for "next" or "look"; it can only see',
                }
            for agent in ("agent1", "../x", 3, None, {"a": 1}, ["agent1"]):
                assert (await page.ask("look", agent=agent))["type"] == "agent"
            await page.socket.send("kill agent1")
            assert (await page.read())["type"] == "error"

    with serving([fleet_page(nine.path)]) as server:
        asyncio.run(try_all(server))
    assert everything_in(nine.directory) == before
    assert {number for _, number in signals} <= {0}  # which asks whether a process is there


@pytest.mark.slow
def test_only_get_is_answered(nine: WrittenFleet) -> None:
    import httpx

    nine.play(1)
    with serving([fleet_page(nine.path)]) as server:
        address = f"http://127.0.0.1:{server.port}"
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            for path in ("/fleet", "/pages", "/static/fleet.js"):
                assert httpx.request(method, address + path).status_code == 405
            for path in ("/", "/fleet/agent0", "/fleet/stop"):
                assert httpx.request(method, address + path).status_code == 404
        assert httpx.get(f"{address}/pages").json() == ["/fleet"]


# -- the command line --------------------------------------------------------------------------------------


def test_metrics_are_of_a_fleet() -> None:
    result = invoke("dashboard", "--metrics", "127.0.0.1:9464")
    assert isinstance(result.exception, InvalidInput)
    assert str(result.exception) == "--metrics has no effect without a fleet; leave it out"


def test_places_are_checked_before_anything_is_served(nine: WrittenFleet) -> None:
    with pytest.raises(InvalidInput, match="metrics must be"):
        fleet_page(nine.path, ["nowhere"])
