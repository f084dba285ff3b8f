"""Sources of an agent's observations: standard input, files, commands, simulated sensors, brokers, iterators.

Some sources are read once per round (`PacedSource`: a replayed file, a simulated sensor). The others deliver at their
own times (`LiveSource`, an asynchronous iterator), and a round uses everything that has arrived since the last one. A
line that is not an observation is counted, logged and skipped: a sensor that sometimes writes garbage must not stop its
agent.

`SOURCES` lists the kinds of the package, and how each is written; `gossamer sources` shows them, and those of other
packages (docs/plugins.md). In sim:, components of a vector mean are separated by colons (sim:1:2:3,0.5,7).

A line holds one observation: numbers separated by spaces or commas, or JSON (a number, a list, or an object
with "value"); `formats.py` reads it, with the options of the address. Empty lines and lines that start with # are
skipped.
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
)

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.agents.config.tables import ENDS
from gossamer.agents.config.urls import Kind, Place, Url, opener
from gossamer.agents.sources.backoff import Backoff
from gossamer.agents.sources.formats import ReadingFormat
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

_HERE = "gossamer.agents.sources"

SOURCES = {
    "-": Kind("-[?OPTIONS]", "Lines of standard input.", f"{_HERE}.opening:open_standard_input"),
    "csv": Kind(
        "csv:FILE[,follow][,columns=a+b][,target=y]",
        "The rows of a file, one per round; with follow, also those added later, as they arrive.",
        f"{_HERE}.csv_files:open_csv",
    ),
    "cmd": Kind(
        "cmd[?OPTIONS]:COMMAND", "The lines that a shell command writes.", f"{_HERE}.opening:open_command"
    ),
    "sim": Kind(
        "sim:MEAN,STD,SEED",
        "A simulated sensor: the stream that gs.simulate draws for this agent.",
        f"{_HERE}.opening:open_simulated",
    ),
    "mqtt": Kind(
        "mqtt[s]://[USER@]HOST[:PORT]/TOPIC[,TOPIC][?OPTIONS]",
        "Readings from an MQTT broker, each counted exactly once.",
        f"{_HERE}.mqtt:MqttSource",
    ),
    "modbus": Kind(
        "modbus://HOST[:PORT]/REGISTER[,REGISTER][?OPTIONS]",
        "Registers of a Modbus TCP device, read at equal intervals.",
        f"{_HERE}.modbus:ModbusSource",
    ),
}
SOURCES["mqtts"] = SOURCES["mqtt"]
"""The kinds of sources of this package."""

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
        # None, closed, or replaced by an object without a descriptor.
        except (AttributeError, ValueError, OSError):
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
        """Yield the lines of one run; `_code` and `_ending` then say how it ended."""
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
    """Yield the lines of a stream that is read by `read`."""
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


def open_source(text: str, owner: Place) -> AnySource:
    """Return the source at an address (see `SOURCES`); options that it does not know are refused."""
    url = Url(owner.fill(text))
    made: AnySource = opener("source", SOURCES, url)(url, owner)
    url.finish()
    if not isinstance(made, PacedSource | LiveSource):
        raise InvalidInput(f"{url.kind}: must open a PacedSource or a LiveSource, got {type(made).__name__}")
    return made


def open_standard_input(url: Url, owner: Place) -> AnySource:
    """Return the source -, with the options of a format."""
    return _formatted(StandardInput(owner.dimension), url, owner)


def open_command(url: Url, owner: Place) -> AnySource:
    """Return the source cmd:COMMAND, with the options of a format before the colon."""
    return _formatted(Command(owner.dimension, _rest(url), owner.end), url, owner)


def _formatted(source: AnySource, url: Url, owner: Place) -> AnySource:
    source.format = ReadingFormat.of(url, owner.dimension)
    return source


def _rest(url: Url) -> str:
    if not url.rest.strip():
        raise InvalidInput(parameter="source", required=SOURCES[url.kind].form, got=repr(url.text))
    return url.rest


def open_simulated(url: Url, owner: Place) -> AnySource:
    """Return the source sim:MEAN,STD,SEED."""
    if owner.covariates:
        raise InvalidInput(
            f"a fleet that learns a model needs rows with labels, got {url.text!r}; use csv:, cmd: or -"
        )
    dimension, rest = owner.dimension, _rest(url)
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
    return Simulated(dimension, mean, std, seed, owner.agent)


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
