"""Sources of an agent's observations: standard input, files, commands, simulated sensors, iterators.

Some sources are read once per round (`PacedSource`: a replayed file, a simulated sensor). The others deliver at their
own times (`LiveSource`, an asynchronous iterator), and a round uses everything that has arrived since the last one. A
line that is not an observation is counted, logged and skipped: a sensor that sometimes writes garbage must not stop its
agent.

    -                      lines of standard input
    csv:FILE               the rows of a file, one per round
    csv:FILE,follow        the rows of a file, and those added to it later, as they arrive
    csv:FILE,columns=a+b   only these columns, by the names in the file's first row
    csv:FILE,target=y      for a fleet that learns a model: its covariates, by their names, and this label
    cmd:COMMAND            the lines that a shell command writes
    sim:MEAN,STD,SEED      a simulated sensor, with the same stream that `gs.simulate` draws for this agent;
                           components of a vector mean are separated by colons (sim:1:2:3,0.5,7)

A line holds one observation: numbers separated by spaces or commas, or JSON (a number, a list, or an object
with "value"). Empty lines and lines that start with # are skipped. `readings.py` reads them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.agents.config.tables import ENDS
from gossamer.agents.sources.backoff import Backoff
from gossamer.agents.sources.csv_files import parse_csv
from gossamer.agents.sources.kinds import AnySource, LiveSource, PacedSource
from gossamer.agents.statistics.readings import (
    LINE_LIMIT,
    Splitter,
    Vector,
    vector,
)
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.numerics import counters

log = logging.getLogger("gossamer.agents.sources.opening")

FORMS = "-, csv:FILE[,follow][,columns=a+b][,target=y], cmd:COMMAND or sim:MEAN,STD,SEED"

_PIECE = 1 << 16
"""Bytes read at once."""

_PIPEFAIL = "(set -o pipefail) 2>/dev/null && set -o pipefail"
"""Makes a pipeline fail if any part of it does, in shells that support it."""

_GRACE = 2.0
"""Seconds in which a command must end after SIGTERM."""


class StandardInput(LiveSource):
    """Lines of standard input: a pipe, a terminal or a file."""

    def begin(self, stored: int, largest: float) -> None:
        super().begin(stored, largest)
        self._descriptor()

    async def raw(self) -> AsyncGenerator[str]:
        descriptor = self._descriptor()
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)):
            # An event loop cannot wait for a file, and need not: it can be read at once.
            async for line in _lines(lambda: asyncio.to_thread(os.read, descriptor, _PIECE)):
                yield line
            return
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        try:
            async for line in _lines(lambda: reader.read(_PIECE)):
                yield line
        finally:
            transport.close()

    @staticmethod
    def _descriptor() -> int:
        try:
            return sys.stdin.fileno()
        except (
            AttributeError,
            ValueError,
            OSError,
        ):  # None, closed, or replaced by an object without a descriptor
            raise InvalidInput(
                "the source - needs a standard input that can be read, but it is closed; "
                "give the agent a pipe or a file (< FILE), or another source"
            ) from None


class Command(LiveSource):
    """The lines that a shell command writes. The command and its children are stopped with the agent.

    A command of which any part fails (`pipefail`) is restarted after a growing delay.

    Parameters
    ----------
    end : str
        What to do when the command ends without an error. "fail": the agent is degraded from then on; "restart":
        restart it as after an error; "stop": continue without it.
    """

    def __init__(self, dimension: int, command: str, end: str = "fail") -> None:
        super().__init__(dimension)
        self.command = command
        self.end = checks.choice("end", end, ENDS)
        self._code: int | None = None
        self._ending = ""

    async def raw(self) -> AsyncGenerator[str]:
        backoff = Backoff()
        while True:
            since: float | None = None  # time of its first observation
            async with contextlib.aclosing(self._run()) as lines:
                async for line in lines:
                    good = self.good
                    yield line
                    if self.good > good:  # the line held an observation
                        since = since or time.monotonic()
                        self.failing = ""
            if self._code == 0 and self.end == "stop":
                return
            self.failing = f"the source failed: the command {self.command!r} {self._ending}"
            if self._code == 0 and self.end == "fail":
                log.warning("%s", f"{self.failing}; if it is meant to end, or to be restarted, set `end`")
                return
            delay = backoff.after(time.monotonic() - since if since else 0.0)
            log.warning("%s", f"{self.failing}; it is restarted in {delay:.0f} s")
            await asyncio.sleep(delay)

    async def _run(self) -> AsyncGenerator[str]:
        """The lines of one run; `_code` and `_ending` then say how it ended."""
        self._code, self._ending = None, "was stopped"
        try:
            process = await asyncio.create_subprocess_exec(
                shutil.which("bash") or "/bin/sh",
                "-c",
                f"{_PIPEFAIL}\n{self.command}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_LIMIT,
                start_new_session=True,
            )
        except OSError as error:  # no processes or memory left
            self._ending = f"cannot be started: {error.strerror}"
            return
        output = process.stdout
        assert output is not None
        code: int | None = None
        try:
            async for line in _lines(lambda: output.read(_PIECE)):
                yield line
            code = await process.wait()
        finally:
            if code is None:
                await _end(process)
        self._code, self._ending = code, f"ended with code {code}"


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a command and everything it started: by SIGTERM, then by SIGKILL."""
    deadline = time.monotonic() + _GRACE
    with contextlib.suppress(ProcessLookupError):  # all processes have ended
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            os.killpg(process.pid, 0)
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _lines(read: Callable[[], Awaitable[bytes]]) -> AsyncGenerator[str]:
    """The lines of a stream that is read by `read`."""
    splitter = Splitter()
    while piece := await read():
        for line in splitter.lines(piece):
            yield line
    for line in splitter.rest():
        yield line


class Simulated(PacedSource):
    """A sensor with Gaussian noise: this agent's stream of `gs.simulate(..., seed=seed)`, trial 0."""

    _BLOCK = 256

    def __init__(self, dimension: int, mean: ArrayLike, std: float, seed: int, agent: int) -> None:
        super().__init__(dimension)
        self.mean = np.broadcast_to(np.asarray(mean, dtype=float), (dimension,))
        self.std = std
        self.seed = seed
        self.agent = agent
        if not (np.all(np.isfinite(self.mean)) and np.isfinite(std) and std >= 0 and seed >= 0):
            raise InvalidInput(
                "sim:MEAN,STD,SEED needs a finite MEAN, STD >= 0 and a whole SEED >= 0, "
                f"got {mean!r}, {std!r}, {seed!r}"
            )
        self._check_size()

    def begin(self, stored: int, largest: float) -> None:
        super().begin(stored, largest)
        self._check_size()

    def _check_size(self) -> None:
        # All numbers are within 6.8 standard deviations, so one check at the start is enough.
        vector(np.abs(self.mean) + 7 * self.std, self.dimension, self.largest)

    def raw(self) -> Iterator[Vector]:
        for start in itertools.count(0, self._BLOCK):
            for row in _normals(self.seed, self.agent, self.dimension, start, self._BLOCK):
                yield self.mean + self.std * row

    def understand(self, item: object) -> Vector:
        return np.asarray(item)


class FromIterator(LiveSource):
    """Numbers or arrays from an asynchronous iterator."""

    def __init__(self, dimension: int, iterator: AsyncIterable[ArrayLike]) -> None:
        super().__init__(dimension)
        self.iterator = iterator

    async def raw(self) -> AsyncGenerator[ArrayLike]:
        async for value in self.iterator:
            yield value

    def understand(self, item: object) -> Vector:
        return vector(item, self.dimension, self.largest)


class FromIterable(PacedSource):
    """Numbers or arrays from an iterable, one per round."""

    replays = False

    def __init__(self, dimension: int, values: Iterable[ArrayLike]) -> None:
        super().__init__(dimension)
        self.values = values

    def raw(self) -> Iterator[ArrayLike]:
        return iter(self.values)

    def understand(self, item: object) -> Vector:
        return vector(item, self.dimension, self.largest)


ObservationStream = Iterable[ArrayLike] | AsyncIterable[ArrayLike]
"""Observations: an iterable gives one per round, an async iterable gives them as they arrive."""


def as_source(values: ObservationStream, dimension: int) -> AnySource:
    """Return an iterable as a source: one value per round, or as they arrive if it is asynchronous."""
    if isinstance(values, PacedSource | LiveSource):
        return values
    if isinstance(values, AsyncIterable):
        return FromIterator(dimension, values)
    return FromIterable(dimension, values)


def parse_source(
    text: str, dimension: int, agent: int, covariates: Sequence[str] = (), end: str = "fail"
) -> AnySource:
    """Return the source that `text` describes (see the top of this file) for agent number `agent`.

    `covariates` are those of the fleet's model; a row has their values and then its label. `end` is what to do when a
    command ends without an error.
    """
    kind, _, rest = text.partition(":")
    if text == "-":
        return StandardInput(dimension)
    if kind == "cmd" and rest.strip():
        return Command(dimension, rest, end)
    if kind == "csv" and rest.strip():
        return parse_csv(rest, dimension, covariates)
    if kind == "sim" and covariates:
        raise InvalidInput(
            f"a fleet that learns a model needs rows with labels, got {text!r}; use csv:, cmd: or -"
        )
    if kind == "sim" and rest.strip():
        return _simulated(rest, dimension, agent)
    raise InvalidInput(parameter="source", required=FORMS, got=repr(text))


def _simulated(rest: str, dimension: int, agent: int) -> AnySource:
    try:
        mean_text, std_text, seed_text = rest.split(",")
        mean = [float(part) for part in mean_text.split(":")]
        std, seed = float(std_text), int(seed_text)
    except ValueError:
        raise InvalidInput(f"a simulated sensor must be sim:MEAN,STD,SEED, got 'sim:{rest}'") from None
    if len(mean) not in (1, dimension):
        raise InvalidInput(
            f"the mean of a simulated sensor must have 1 or {dimension} numbers, got {len(mean)}"
        )
    return Simulated(dimension, mean, std, seed, agent)


def _normals(seed: int, agent: int, components: int, start: int, count: int) -> Floats:
    """The numbers of `numerics.random.normals` (trial 0), to the last digit or two, of shape (count, components).

    That module explains them. It is compiled by Numba, which would double an agent's memory and start-up time for a few
    numbers per second, so this function uses NumPy. A test compares the two.
    """
    quads = np.arange(start // 4, (start + count + 3) // 4, dtype=np.uint64)[:, None]
    c3 = np.arange(components, dtype=np.uint64)[None, :]
    c0, c1, c2, c3 = np.broadcast_arrays(quads, np.uint64(agent), np.uint64(0), c3)
    words = np.stack(counters.philox(c0, c1, c2, c3, counters.key(seed)), axis=1) * 2.0**-32
    radius = np.sqrt(-2 * np.log(words[:, 0::2] + 2.0**-33))
    angle = 2 * np.pi * words[:, 1::2]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return pairs.reshape(-1, components)[start % 4 :][:count]
