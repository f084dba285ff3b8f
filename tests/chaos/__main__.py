"""A fleet in chaos: `make chaos`, or `python -m tests.chaos --minutes 2 --agents 10`.

A fleet of real processes on a random geometric network, with TLS, stores and 20% of all messages lost. For the time
given, agents are killed and stopped, bits flip in their stores, stores are rolled back, the disk is full, strangers
crowd their ports, members reconnect in a loop, status files are hostile, and one member lies. Then it is quiet for a
while, and every member must be at the members' average, with nothing lost that it had acknowledged. The report goes to
standard output, and with --write into docs/reliability.md.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import networkx as nx
import numpy as np
from tests.chaos.liar import LARGEST as LIE
from tests.chaos.members import ChaosMember
from tests.chaos.troubles import Troubles, mounted
from tests.chaos.verdict import TOLERANCE, Suspects, Verdict, farthest, judge, report, uneven, write
from tests.support.small_fleets import free_ports
from tests.support.waiting import until

from gossamer.agents.config.tables import ObservationsTable, PrivacyTable, RoundsTable
from gossamer.agents.membership.fleet import Fleet
from gossamer.networks import Network

RANGE = (0.0, 10.0)
LOSS = 0.2
DISK = 64
"""Megabytes of the fleet's own disk: enough for stores and logs, quick to fill."""

HEARING = 120.0
"""Seconds at most that the liar goes on after the last trouble, until all its neighbors have heard it out."""

STAY = 15.0
"""Seconds for which all members must stay at the average."""

LOOK = 0.25
"""Seconds between two looks at all estimates, which agents report twice a second."""

SLOWEST = 20.0
"""How much slower than its pace a fleet may be on a busy machine before its quiet is cut short."""

FEED = 0.5
"""Seconds between two rows for each agent that follows a file."""


def network_of(agents: int, seed: int) -> tuple[Network, int]:
    """A geometric network, and the liar: the busiest member without which the others are still connected."""
    network = Network.named(f"geometric:{agents}", "metropolis", seed)
    graph = network.to_networkx()
    bridges = set(nx.articulation_points(graph))
    liar = max((node for node in graph if node not in bridges), key=graph.degree)
    return network, int(liar)


def make_fleet(folder: Path, network: Network, haste: float, bounded: bool, mask: float = 0.0) -> Fleet:
    fleet = Fleet.create(
        network,
        endpoints=[f"127.0.0.1:{port}" for port in free_ports(network.agents)],
        observations=ObservationsTable(range=RANGE if bounded else ()),
        privacy=PrivacyTable(mask=mask),
        rounds=RoundsTable(
            every=f"{100 / haste:.0f}ms", timeout=f"{200 / haste:.0f}ms", death=f"{max(2.0, 5 / haste)}s"
        ),
    )
    fleet.write(folder)
    return fleet


def run(
    agents: int,
    minutes: float,
    seed: int,
    folder: Path,
    haste: float = 1.0,
    honest: bool = False,
    mask: float = 0.0,
    bounded: bool = True,
) -> Verdict:
    """All of it: the fleet, the chaos, the quiet, the verdict. Every process is ended by its own id.

    With `haste` rounds, troubles and lies follow each other that much faster. An `honest` fleet has no liar. It has no
    range either, nor has one that is not `bounded`, so that nothing but the ledger keeps its estimates near the data.
    With a `mask` its values are masked.
    """
    disk = folder / "disk"
    disk.mkdir()
    own_disk = mounted(disk, DISK)
    try:
        own, bounded = disk if own_disk else None, bounded and not honest
        return _run(agents, minutes, seed, haste, folder, own, honest, mask, bounded)
    finally:
        for kept in ("logs", "status"):
            if (disk / kept).exists():
                shutil.copytree(disk / kept, folder / kept, ignore_dangling_symlinks=True)
        if own_disk:
            subprocess.run(["umount", "-l", disk], check=True)


def _run(
    agents: int,
    minutes: float,
    seed: int,
    haste: float,
    folder: Path,
    disk: Path | None,
    honest: bool,
    mask: float,
    bounded: bool,
) -> Verdict:
    network, busiest = network_of(agents, seed)
    liar = None if honest else busiest
    home = folder / "disk"
    fleet = make_fleet(home, network, haste, bounded, mask)
    data = folder / "data"
    data.mkdir()
    means = np.random.default_rng(seed).integers(8, 72, agents) / 8  # 1 to 9, in eighths
    members = [
        ChaosMember(place, home, data, float(means[place.id]), LOSS)
        for place in fleet.agents
        if place.id != liar
    ]
    troubles = Troubles(members, fleet, seed, disk, haste)
    lying: subprocess.Popen[bytes] | None = None
    suspects: Suspects = {}
    chance = random.Random(seed + 1)
    try:
        for member in members:
            member.feed()
            member.start()
        until(lambda: all(member.status().get("rounds") for member in members), "all run", 120)
        began = time.monotonic()
        end = began + 60 * minutes
        next_trouble = began + min(10.0, 10 * minutes) / haste
        next_feed = next_weight = next_look = began
        while (now := time.monotonic()) < end:
            troubles.proceed()
            supervise(members, troubles)
            if now >= next_trouble:
                if lying is None and liar is not None:
                    lying = start_liar(home, fleet.agents[liar].name, 10 / haste)
                    troubles.note(f"{fleet.agents[liar].name} lies")
                troubles.make()
                next_trouble += chance.expovariate(haste * agents / 20)
            if now >= next_feed:
                for member in members:
                    member.feed()
                next_feed += FEED
            if now >= next_look:
                for member in members:
                    member.look()
                next_look += LOOK
            if now >= next_weight:
                for member in members:
                    member.weigh()
                accuse(members, liar, suspects)
                next_weight += 5.0
            time.sleep(0.02)
        troubles.proceed(all=True)
        heard = time.monotonic() + HEARING  # by those too who were stopped or down while it lied the most
        while (
            bounded
            and time.monotonic() < heard
            and any(s["state"] != "quarantined" for s in suspects.values())
        ):
            supervise(members, troubles)
            troubles.proceed()
            accuse(members, liar, suspects)
            time.sleep(0.2)
        if lying is not None:
            lying.kill()
            lying.wait()
        troubles.note("quiet")
        began, reached, noted = time.monotonic(), None, 0.0
        needed = rounds_of_quiet(network, members, LIE if liar is not None and not bounded else 0.0)
        start = {member.id: member.rounds_seen for member in members}
        while (passed := time.monotonic() - began) < SLOWEST * needed * 0.1 / haste:
            supervise(members, troubles)
            for member in members:
                member.look()
            worst, off = farthest(members)
            if off >= TOLERANCE or uneven(members):
                reached = None
            elif reached is None:
                reached = passed
            if reached is not None and passed >= reached + STAY / haste:
                break
            played = min(member.rounds_seen - start[member.id] for member in members)
            if passed >= noted:
                troubles.note(
                    f"round {played} of {needed}: {worst} is farthest from the average, by {off:.2g}"
                )
                noted += 5.0
            if reached is None and played >= needed:
                break
            time.sleep(0.2)
        for member in members:
            member.weigh()
        return judge(members, troubles, fleet, liar, suspects, minutes, reached)
    finally:
        troubles.abandon()
        if lying is not None:
            lying.kill()
            lying.wait()
        for member in members:
            member.dismiss()
        for member in members:
            member.stop()


def rounds_of_quiet(network: Network, members: list[ChaosMember], lie: float) -> int:
    """Rounds within which all that the troubles have left must be gone, at the rates of docs/protocol.md.

    Three things shrink by a factor per round, and at worst one after the other: the flows of edges that were dropped
    (0.98), the sums S that follow the means M (1 - 1/128 for an old agent), and the differences between agents. Those
    follow Nesterov's step, since under loss every edge is careful; the share of messages that arrive makes its step
    smaller. They begin at the width of all estimates on the way, or at the flow that a liar without bounds claims.
    """
    step = 0.65 * (1.0 - LOSS) ** 2 * network.lambda_2
    mixing = np.abs(np.roots([1.0, -1.97 * (1.0 - step), 0.97 * (1.0 - step)])).max()
    told = [extreme for member in members for extreme in member.told]
    folds = np.log(max(max(told) - min(told), lie) / TOLERANCE)
    return int(np.ceil(folds * sum(-1.0 / np.log(rate) for rate in (0.98, 1.0 - 1.0 / 128.0, mixing))))


def supervise(members: list[ChaosMember], troubles: Troubles) -> None:
    """Start again what has ended on its own: an agent that starts on a full disk cannot open its store."""
    for member in members:
        if not member.running and not troubles.busy(member):
            assert member.process is not None
            said = member.log.read_text(errors="replace").splitlines()[-1:]
            troubles.counts["ended on its own (started on a full disk)"] += 1
            troubles.note(f"{member.name} ended on its own, code {member.process.returncode}: {said}")
            if not troubles.excused(member):
                member.complaints.append(f"ended on its own, code {member.process.returncode}: {said}")
            troubles.pause(member)


def start_liar(home: Path, name: str, every: float) -> subprocess.Popen[bytes]:
    words = ["-m", "tests.chaos.liar", str(home / "fleet.toml"), name, *map(str, (*RANGE, every))]
    with (home / f"{name}.liar.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *words], stderr=log, stdout=log, cwd=Path(__file__).parents[2]
        )


def accuse(members: list[ChaosMember], liar: int | None, suspects: Suspects) -> None:
    """Note what the liar's neighbors think of it, and what they refused; one that restarts forgets it for a while."""
    for member in members:
        status = member.status()
        seen = status.get("neighbors", {})
        if (about := seen.get(f"agent{liar}")) and suspects.get(member.name, {}).get(
            "state"
        ) != "quarantined":
            suspects[member.name] = {"state": about["state"], "rejected": status["rejected"]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--agents", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--folder", type=Path, help="an empty folder to keep logs and stores; a temporary one"
    )
    parser.add_argument("--honest", action="store_true", help="no liar, and no range that bounds flows")
    parser.add_argument("--unbounded", action="store_true", help="a liar, and no range that bounds its lies")
    parser.add_argument(
        "--mask", type=float, default=0.0, help="standard deviation of masks, in an honest fleet"
    )
    parser.add_argument("--write", action="store_true", help="put the report into docs/reliability.md")
    given = parser.parse_args()
    if given.mask and not given.honest:
        parser.error("--mask needs --honest: the liar does not agree on masks")
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        wanted = given.agents, given.minutes, given.seed
        given_range = not given.unbounded
        verdict = run(*wanted, folder.resolve(), honest=given.honest, mask=given.mask, bounded=given_range)
    print(*verdict.entries, sep="\n")
    text = report(verdict)
    print(text)
    print(*verdict.failures, sep="\n")
    if given.write:
        write(text)
    return 1 if verdict.failures else 0


if __name__ == "__main__":
    sys.exit(main())
