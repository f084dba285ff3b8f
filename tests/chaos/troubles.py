"""What is done to a fleet: each trouble begins at once and says what ends it, and when."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos.members import ChaosMember
from tests.support import SUPPORT

from gossamer.agents.host.status import read_status
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.store import maintenance
from gossamer.errors import GossamerError

HOSTILE = SUPPORT / "hostile.py"

WEIGHTS = {
    "kill": 58,
    "stop": 25,
    "flip": 10,
    "restore": 5,
    "rollback": 5,
    "disk": 3,
    "strangers": 7,
    "reconnect": 4,
    "status": 5,
}
"""How often each trouble is chosen, relative to the others."""

STARTED = 0.8
"""The share of troubles that go to members which are up, if there are any; the others go to any."""


STATUSES = (
    b"",
    b"\xff\xfe{",
    b"[" * 100_000,
    b'{"state": "\\u001b[2J\\u0007", "at": NaN, "rounds": Infinity}',
    b'{"at": 1e400, "state": "running", "rounds": -1, "samples": 1e300, "neighbors": {"x": 1}}',
    b'{"estimate": [' + b"1e308," * 50_000 + b"0]}",
)
"""What a hostile status file may contain."""


class Troubles:
    """Makes trouble at random times; `counts` and `entries` say what was done, and when.

    haste  divides the time that each trouble lasts
    """

    def __init__(
        self, members: list[ChaosMember], fleet: Fleet, seed: int, disk: Path | None, haste: float
    ) -> None:
        self.members = members
        self.fleet = fleet
        self.disk = disk
        self.haste = haste
        self.counts: Counter[str] = Counter()
        self.entries: list[str] = []
        self.flipped: Counter[str] = Counter()
        self.full = False
        self._freed = 0.0
        self.began = time.monotonic()
        self._random = random.Random(seed)
        self._first = list(WEIGHTS)
        self._random.shuffle(self._first)
        self._busy: set[int] = set()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._crowds: list[subprocess.Popen[bytes]] = []
        self._copies: dict[int, tuple[Path, int]] = {}  # an old store of a member, and its observations

    def note(self, text: str) -> None:
        self.entries.append(f"{time.monotonic() - self.began:7.1f} s  {text}")

    def make(self) -> None:
        """One trouble, to members that have none at the moment; at first one of each kind.

        Most go to members that are up: on a busy machine a process takes long to start, and one that is killed before
        its first round tells nothing.
        """
        idle = [member for member in self.members if member.id not in self._busy and member.running]
        if idle:
            kind = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if self._first:
                kind = self._first.pop()
            up = [member for member in idle if member.up]
            chosen = self._random.choice(up if up and self._random.random() < STARTED else idle)
            if kind in ("restore", "rollback") and (self.full or not chosen.up):
                # No copy fits on a full disk, and what a bit flip has damaged is there until its agent has looked.
                self._first.insert(0, kind)
                kind = "kill"
            getattr(self, f"_{kind}")(chosen)

    def proceed(self, *, all: bool = False) -> None:
        """End the troubles whose time is over; with `all`, every one."""
        while self._later and (all or self._later[0][0] <= time.monotonic()):
            heapq.heappop(self._later)[2]()

    def abandon(self) -> None:
        """Send the crowds away, and forget what else was to be done."""
        self._later.clear()
        for crowd in self._crowds:
            crowd.kill()
            crowd.communicate()

    def busy(self, member: ChaosMember) -> bool:
        return member.id in self._busy

    def _for(self, seconds: float, end: Callable[[], None], member: ChaosMember | None = None) -> None:
        """Call `end` after so many seconds; until then the member has no other trouble."""

        def finish() -> None:
            end()
            if member is not None:
                self._busy.discard(member.id)

        if member is not None:
            self._busy.add(member.id)
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._order), finish))

    def excused(self, member: ChaosMember) -> bool:
        """Whether the disk was full at some time since the member was started."""
        return self.full or member.began < self._freed

    def _time(self, least: float, most: float) -> float:
        return self._random.uniform(least, most) / self.haste

    def pause(self, member: ChaosMember) -> None:
        """Start a member that has ended on its own, as a supervisor would, after a second."""
        self._for(1.0, member.start, member)

    def _count(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.note(text)

    # -- the troubles ------------------------------------------------------------------------------------------

    def _kill(self, member: ChaosMember) -> None:
        seconds = self._time(0, 8)
        self._count("kill -9", f"{member.name} killed for {seconds:.1f} s")
        member.kill()
        self._for(seconds, member.start, member)

    def _stop(self, member: ChaosMember) -> None:
        seconds = self._time(1, 15)
        self._count("SIGSTOP", f"{member.name} stopped for {seconds:.1f} s")
        member.give(signal.SIGSTOP)
        self._for(seconds, lambda: member.give(signal.SIGCONT), member)

    def _flip(self, member: ChaosMember) -> None:
        """Bits of its store flip while it is down: they change nothing, or the store is set aside."""
        member.kill()
        bits = self._random.choice((1, 1, 3, 20))
        self._count("flipped bits", f"{bits} bits flipped in the store of {member.name}")
        self._damage(member, bits)
        try:
            self.flipped[
                "harmless" if maintenance.check(member.store).samples >= member.owed else "older"
            ] += 1
        except GossamerError:
            self.flipped["recognized"] += 1
        self._for(self._time(0, 4), member.start, member)

    def _restore(self, member: ChaosMember) -> None:
        """A copy is made, then the store is ruined while the agent is down, and restored from the copy."""
        copy = member.store.with_suffix(f".copy{next(self._order)}")
        try:
            kept = maintenance.backup(member.store, copy)
        except GossamerError as error:
            member.complaints.append(f"no backup: {error}")
            return
        member.kill()
        self._damage(member, 2000)
        self._count(
            "store restored",
            f"the store of {member.name} ruined and restored: {kept.samples:.0f} observations",
        )
        try:
            maintenance.restore(member.store, copy)
            member.owed = int(kept.samples)
        except GossamerError as error:
            member.complaints.append(f"no restore: {error}")
        copy.unlink(missing_ok=True)
        self._for(self._time(0, 4), member.start, member)

    def _rollback(self, member: ChaosMember) -> None:
        """All that a member has written is replaced by what it was some time ago; at first, that is copied.

        Its certificate and its roster did not change meanwhile.
        """
        if member.id in self._copies:
            self._kill(member)  # it will be rolled back soon
            return
        copy = Path(tempfile.mkdtemp(dir=member.folder))
        member.kill()
        for file in _written(member):
            shutil.copy2(file, copy)
        self._copies[member.id] = copy, member.owed
        self._for(self._time(0, 4), member.start, member)
        self._for(self._time(10, 30), lambda: self._roll_back(member))

    def _roll_back(self, member: ChaosMember) -> None:
        if member.id in self._busy or not member.up or self.full:
            self._for(self._time(1, 2), lambda: self._roll_back(member))
            return
        copy, samples = self._copies.pop(member.id)
        member.kill()
        for file in _written(member):
            file.unlink()
        for file in copy.iterdir():
            file.rename(
                (member.folder / "status" if file.suffix == ".json" else member.store.parent) / file.name
            )
        copy.rmdir()
        before, member.owed = member.owed, samples
        self._count(
            "folders of an agent rolled back",
            f"{member.name} rolled back from {before} to {samples} observations",
        )
        self._for(self._time(0, 4), member.start, member)

    def _damage(self, member: ChaosMember, bits: int) -> None:
        files = [file for file in member.store.parent.glob(f"{member.store.name}*") if _is_store(file)]
        if not files:  # it was killed before it had made its store
            return
        file = self._random.choice(files)
        content = bytearray(file.read_bytes())
        for _ in range(bits):
            content[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)
        with file.open("r+b") as target:
            target.write(content)

    def _disk(self, member: ChaosMember) -> None:
        """The disk of the whole fleet is full; where none could be mounted, one agent cannot write its files."""
        seconds = self._time(3, 10)
        if self.disk is None:
            self._count("file size limit", f"{member.name} cannot write files for {seconds:.1f} s")
            assert member.process is not None
            pid, limits = member.process.pid, resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, limits[1]))

            def lift() -> None:
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)

            self._for(seconds, lift, member)
            return
        if self.full:
            return
        self._count("full disk", f"the disk is full for {seconds:.1f} s")
        filler, self.full = self.disk / "filler", True
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

        def free() -> None:
            filler.unlink()
            self.full, self._freed = False, time.monotonic()

        self._for(seconds, free)

    def _strangers(self, member: ChaosMember) -> None:
        kind = self._random.choice(("garbage", "idle", "stalled", "none"))
        count = self._random.choice((10, 100, 300))
        seconds = self._time(5, 20)
        self._count("crowds of strangers", f"{count} strangers ({kind}) at {member.name} for {seconds:.1f} s")
        self.counts["strangers"] += count
        self._crowd(member, seconds, kind, count)

    def _reconnect(self, member: ChaosMember) -> None:
        """Whoever has a copy of another member's key connects in a loop: it displaces that member, or is refused."""
        other = self._random.choice([one for one in self.fleet.agents if one.id != member.id])
        seconds, count = self._time(5, 20), self._random.choice((1, 3, 10))
        self._count(
            "members that reconnect in a loop",
            f"{count} times {other.name} connects to {member.name} in a loop for {seconds:.1f} s",
        )
        keys = member.folder / self.fleet.certificates / other.name
        greeting = f"gossamer 1 {self.fleet.fleet} {self._random.choice((other.id, member.id, 'x'))}"
        self._crowd(member, seconds, "member", count, f"{keys}.pem", f"{keys}.key", greeting)

    def _status(self, member: ChaosMember) -> None:
        """A hostile status file takes the place of a member's own, and the fleet is looked at."""
        file, content = member.folder / "status" / f"{member.name}.json", self._random.choice(STATUSES)
        with contextlib.suppress(OSError):  # the disk is full, or there is no status yet
            before = file.read_bytes()
            file.write_bytes(content)
            try:
                seen = read_status(self.fleet, member.folder)
                assert len(seen) == len(self.fleet.agents)
            except Exception as error:
                member.complaints.append(f"a hostile status file: {error!r}")
            if file.read_bytes() == content:  # it has not written another one meanwhile
                file.write_bytes(before)
            self._count("hostile status files", f"a status of {len(content)} bytes for {member.name}")

    def _crowd(self, member: ChaosMember, seconds: float, kind: str, count: int, *words: str) -> None:
        host, _, port = member.endpoint.rpartition(":")
        words = (sys.executable, str(HOSTILE), kind, str(count), host, port, *words)
        crowd = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._crowds.append(crowd)

        def leave() -> None:
            crowd.kill()  # to wait for it would hold up all other troubles
            crowd.communicate()

        self._for(seconds, leave)


def _written(member: ChaosMember) -> list[Path]:
    """Its store with all that belongs to it, and its status."""
    status = member.folder / "status" / f"{member.name}.json"
    return [*member.store.parent.glob(f"{member.store.name}*"), *([status] if status.exists() else [])]


def _is_store(file: Path) -> bool:
    return file.suffix in (".sqlite", ".sqlite-wal") and file.stat().st_size > 0


def mounted(folder: Path, megabytes: int) -> bool:
    """Mount a small disk of its own on a folder, where that is allowed."""
    words: list[Any] = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", folder]
    return os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0
