"""An agent between two rounds costs next to nothing: it sleeps, and writes nothing that has not changed."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest
from tests.support.memory_fleet import enter, in_memory, leave
from tests.support.small_fleets import PLAINTEXT, fleet
from tests.support.virtual_time import in_virtual_time, rounds
from tests.support.waiting import until_true

from gossamer.agents.agent import Agent
from gossamer.agents.store.agent_store import AgentStore, Saved
from gossamer.networks import Network

SLOW = 60.0


def wake_ups(thread: threading.Thread) -> int:
    """How often a thread has waited for something so far."""
    lines = Path(f"/proc/self/task/{thread.native_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@pytest.mark.skipif(sys.platform != "linux", reason="counts context switches in /proc")
@pytest.mark.filterwarnings(PLAINTEXT)
def test_nothing_looks_at_a_waiting_agent() -> None:
    """Between two rounds over the network the agent's thread sleeps, and so do all others."""

    async def main() -> None:
        before = set(threading.enumerate())
        agents = [Agent(s) for s in fleet(Network.path(2), pace=SLOW)]
        await enter(agents)
        await until_true(lambda: all(a.snapshot.age == 1 for a in agents), "the first round")
        ours = set(threading.enumerate()) - before
        assert {"agent-0", "agent-1"} <= {thread.name for thread in ours}
        for _ in range(10):  # the last messages may be on their way
            counts = {thread: wake_ups(thread) for thread in ours}
            await asyncio.sleep(0.5)
            woken = {thread.name: wake_ups(thread) - count for thread, count in counts.items()}
            if max(woken.values()) <= 3:
                break
        assert max(woken.values()) <= 3, woken  # looking every 20 ms would be 25
        await leave(agents)

    asyncio.run(main())


def test_waiting_takes_few_exchanges_per_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there are messages and moments of interest, however long the wait."""
    time, agents = in_virtual_time(fleet(Network.cycle(3), pace=SLOW))
    exchange, calls = agents[0]._transport.exchange, 0

    def counted(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        exchange(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(agents[0]._transport, "exchange", counted)

    async def main() -> None:
        await rounds(agents, time, 3)
        await leave(agents)

    asyncio.run(main())
    # Two neighbors connect; a round is to look once, exchange, wait until early and until due, and be called twice.
    assert calls <= 4 + 8 * (agents[0].snapshot.age + 1)


def test_a_store_is_written_once_per_round_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[int] = []
    save = AgentStore.save

    def counted(self: AgentStore, state: Saved) -> bool:
        saved.append(state.round)
        return save(self, state)

    monkeypatch.setattr(AgentStore, "save", counted)

    async def main() -> None:
        time, agents = in_virtual_time(
            fleet(Network.path(2), pace=SLOW, commit=0.001)[:1], store=tmp_path / "0.sqlite"
        )
        await rounds(agents, time, 20)
        await leave(agents)

    asyncio.run(main())
    *during, last = saved
    assert during == sorted(set(during))
    assert last >= 20  # and once more on leaving


def test_at_a_slow_pace_one_lost_message_is_no_death() -> None:
    settings = fleet(Network.path(2), pace=10.0, death=5.0, silence=5)[0]
    assert settings.dead_after == 50.0
    assert settings.with_(pace=0.1).dead_after == settings.with_(pace=None).dead_after == 5.0


def test_a_dead_neighbor_was_silent_for_many_rounds() -> None:
    async def main() -> None:
        time, agents = in_virtual_time(fleet(Network.path(2), timeout=1.0, death=2.0, pace=2.0, silence=20))
        died = threading.Event()
        await rounds(agents, time, 5)
        assert agents[0].snapshot.neighbors[0].used > 0
        agents[1].changes.say_goodbye = lambda: None  # type: ignore[method-assign]
        agents[0].subscribe(lambda now: died.set() if now.neighbors[0].state == "dead" else None)
        await leave(agents[1:])
        assert await asyncio.to_thread(died.wait, 60.0)
        assert agents[0].snapshot.neighbors[0].lost >= 20
        await leave(agents[:1])

    asyncio.run(main())


def test_a_slow_fleet_meets_before_its_first_round() -> None:
    """A neighbor that starts a little later is heard in the first round, not one pace later; a stop ends the wait."""

    async def main() -> None:
        agents = in_memory(fleet(Network.path(2), pace=SLOW, timeout=0.01))
        gathers = threading.Event()
        exchange = agents[0]._transport.exchange

        def noted(*arguments: object) -> None:
            gathers.set()
            exchange(*arguments)  # type: ignore[arg-type]

        agents[0]._transport.exchange = noted  # type: ignore[method-assign]
        await enter(agents[:1])
        assert await asyncio.to_thread(gathers.wait, 60.0)
        await enter(agents[1:])
        await until_true(lambda: all(a.snapshot.neighbors[0].used for a in agents), "the first round")
        await leave(agents)
        (alone, _) = in_memory(fleet(Network.path(2), pace=SLOW))
        async with asyncio.timeout(SLOW / 2), alone:
            alone.observe(1.0)
        assert alone.estimate == 1.0

    asyncio.run(main())
