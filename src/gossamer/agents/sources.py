"""Where an agent's observations come from: standard input, files, commands, simulated sensors, iterators.

Some sources are taken at the agent's own pace, one observation a round (`PacedSource`: a replayed file, a
simulated sensor); the others deliver whenever the world does (`LiveSource`, an asynchronous iterator), and a
round uses whatever has come since the last one, be it nothing or a hundred.  A line that is no observation is
counted, logged and passed over: a sensor that stutters must not stop its agent.

    -                      lines of standard input
    csv:FILE               the rows of a file, one a round
    csv:FILE,follow        the rows of a file, and those that are added to it, as they come
    csv:FILE,columns=a+b   only these columns, by the names in the file's first row
    cmd:COMMAND            the lines that a shell command writes
    sim:MEAN,STD,SEED      a simulated sensor, with the very stream that `gs.simulate` draws for this agent;
                           components of a vector mean are separated by colons (sim:1:2:3,0.5,7)

A line holds one observation: numbers separated by spaces or commas, or JSON (a number, a list, or an object
with "value").  Empty lines and lines that start with # are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gossamer.errors import InvalidInput

log = logging.getLogger("gossamer.agents.sources")

FORMS = "-, csv:FILE[,follow][,columns=a+b], cmd:COMMAND or sim:MEAN,STD,SEED"
LINE_LIMIT = 1 << 20
"""A longer line is bad: whatever writes it is no sensor."""

_POLL = 0.2
"""Seconds between two looks at a file that is followed."""

Vector = NDArray[np.float64]


class BadObservation(ValueError):
    """A line, or a value, that is no observation; the text says why."""


class Source:
    """What all sources share: how many observations, how many lines that were none, and why."""

    replays: ClassVar[bool] = False
    """Whether the source begins anew when its agent is restarted: then the agent sets `skip` to the number of
    observations it has stored, lest it count them twice."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.skip = 0
        self.good = 0
        self.bad = 0
        self.last_problem = ""

    def understand(self, item: Any) -> Vector | None:
        """Return the observation in what came, or None if there is none in it (a comment)."""
        return parse_line(item, self.dimension)

    def accept(self, item: Any) -> Vector | None:
        """Return the observation in what came, if it is one and not to be skipped; count it either way."""
        try:
            value = self.understand(item)
        except BadObservation as problem:
            self._complain(str(problem))
            return None
        if value is None:
            return None
        self.good += 1
        return value if self.good > self.skip else None

    def _complain(self, problem: str) -> None:
        self.bad += 1
        self.last_problem = problem
        # The first few in full, then 4, 8, 16, ...: a broken sensor must not fill the disk with its log.
        if self.bad <= 3 or self.bad & (self.bad - 1) == 0:
            log.warning("observation skipped: %s", problem, extra={"skipped": self.bad})


class PacedSource(Source, ABC):
    """A source that its agent asks for one observation a round."""

    replays = True

    @abstractmethod
    def raw(self) -> Iterator[Any]:
        """Yield what there is: rows of text, or values."""

    def __iter__(self) -> Iterator[Vector]:
        for item in self.raw():
            value = self.accept(item)
            if value is not None:
                yield value


class LiveSource(Source, ABC):
    """A source that delivers when it likes, several observations a round or none."""

    @abstractmethod
    def raw(self) -> AsyncGenerator[Any]:
        """Yield what comes: lines of text, or values."""

    async def __aiter__(self) -> AsyncIterator[Vector]:
        async with contextlib.aclosing(self.raw()) as items:
            async for item in items:
                value = self.accept(item)
                if value is not None:
                    yield value


class StandardInput(LiveSource):
    """Lines of standard input."""

    async def raw(self) -> AsyncGenerator[str]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        try:
            async for line in _lines(reader):
                yield line
        finally:
            transport.close()


class Command(LiveSource):
    """The lines that a shell command writes; it is stopped, with all it started, when the agent stops."""

    def __init__(self, dimension: int, command: str) -> None:
        super().__init__(dimension)
        self.command = command

    async def raw(self) -> AsyncGenerator[str]:
        process = await asyncio.create_subprocess_shell(
            self.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            async for line in _lines(process.stdout):
                yield line
            code = await process.wait()
            log.log(
                logging.WARNING if code else logging.INFO,
                "the source's command ended with code %d; the agent goes on without new observations",
                code,
            )
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                await process.wait()


class _Rows(Source):
    """Rows of a CSV file, with or without a first row of names."""

    replays = True

    def __init__(self, dimension: int, path: Path, columns: list[str] | None = None) -> None:
        super().__init__(dimension)
        self.path = path
        self._first = True
        if not path.is_file():
            raise InvalidInput(f"the source csv:FILE needs a file that exists, but there is no file {path}")
        if columns is not None and len(columns) != dimension:
            raise InvalidInput(f"columns= must name {dimension} column(s), but it names {len(columns)}")
        self._places = None if columns is None else _places(path, columns)

    def understand(self, item: Any) -> Vector | None:
        line, first = str(item), self._first
        self._first = False
        if first:
            if self._places is not None:
                return None
            with contextlib.suppress(BadObservation):
                return parse_line(line, self.dimension)
            return None  # a first row that is no observation is a row of names
        if self._places is None:
            return parse_line(line, self.dimension)
        if not line.strip():
            return None
        cells = line.split(",")
        if len(cells) <= max(self._places):
            raise BadObservation(
                f"a row needs at least {max(self._places) + 1} cells, but {_short(line)} came"
            )
        return parse_line(",".join(cells[place] for place in self._places), self.dimension)


class CsvFile(_Rows, PacedSource):
    """The rows of a file, one a round."""

    def raw(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8", errors="replace") as file:
            yield from file


class GrowingCsvFile(_Rows, LiveSource):
    """The rows of a file, and those that are added to it, as they come; a file cut short is read anew."""

    async def raw(self) -> AsyncGenerator[str]:
        with self.path.open(encoding="utf-8", errors="replace") as file:
            pending = ""
            while True:
                pending += file.readline()
                if pending.endswith("\n"):
                    yield pending
                    pending = ""
                    continue
                await asyncio.sleep(_POLL)
                with contextlib.suppress(FileNotFoundError):  # away for a moment while it is rotated
                    if file.tell() > self.path.stat().st_size:
                        file.seek(0)
                        pending, self._first = "", True


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
                f"but {mean!r}, {std!r}, {seed!r} came"
            )

    def raw(self) -> Iterator[Vector]:
        for start in itertools.count(0, self._BLOCK):
            for row in _normals(self.seed, self.agent, self.dimension, start, self._BLOCK):
                yield self.mean + self.std * row

    def understand(self, item: Any) -> Vector:
        return np.asarray(item)


class FromIterator(LiveSource):
    """Whatever an asynchronous iterator of a Python program yields: numbers or arrays."""

    def __init__(self, dimension: int, iterator: AsyncIterator[ArrayLike]) -> None:
        super().__init__(dimension)
        self.iterator = iterator

    async def raw(self) -> AsyncGenerator[ArrayLike]:
        async for value in self.iterator:
            yield value

    def understand(self, item: Any) -> Vector:
        return vector(item, self.dimension)


AnySource = PacedSource | LiveSource


def parse_source(text: str, dimension: int, agent: int) -> AnySource:
    """Return the source that `text` describes (see the top of this file) for the agent number `agent`."""
    kind, _, rest = text.partition(":")
    if text == "-":
        return StandardInput(dimension)
    if kind == "cmd" and rest.strip():
        return Command(dimension, rest)
    if kind == "csv" and rest.strip():
        return _csv(rest, dimension)
    if kind == "sim" and rest.strip():
        return _simulated(rest, dimension, agent)
    raise InvalidInput(f"a source is {FORMS}, but {text!r} came")


def parse_line(line: str, dimension: int) -> Vector | None:
    """Return the observation on a line, None for an empty line or a comment, or raise `BadObservation`."""
    line = line.strip()
    if not line or line.startswith("#"):
        return None
    if line[0] in "[{":
        try:
            value = json.loads(line)
        except ValueError:
            raise BadObservation(f"a line must be numbers or JSON, but {_short(line)} came") from None
        if isinstance(value, dict):
            if "value" not in value:
                raise BadObservation(f'a JSON object needs "value", but {_short(line)} came')
            value = value["value"]
    else:
        value = line.replace(",", " ").split()
    return vector(value, dimension)


def vector(value: ArrayLike, dimension: int) -> Vector:
    """Return `value` as a vector of `dimension` finite numbers, or raise `BadObservation`."""
    try:
        numbers = np.asarray(value, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        raise BadObservation(f"an observation is made of numbers, but {_short(value)} came") from None
    if len(numbers) != dimension:
        raise BadObservation(
            f"an observation has {dimension} number(s), but {len(numbers)} came: {_short(value)}"
        )
    if not np.all(np.isfinite(numbers)):
        raise BadObservation(f"an observation is finite, but {_short(value)} came")
    return numbers


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a stream; a line beyond the limit comes as a short one that is no observation."""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            await reader.readexactly(error.consumed)
            line = b"<a line of more than a million characters>"
        except asyncio.IncompleteReadError as error:
            if error.partial:
                yield error.partial.decode("utf-8", "replace")
            return
        yield line.decode("utf-8", "replace")


def _csv(rest: str, dimension: int) -> AnySource:
    name, *options = rest.split(",")
    columns: list[str] | None = None
    kind: type[CsvFile] | type[GrowingCsvFile] = CsvFile
    for option in options:
        if option == "follow":
            kind = GrowingCsvFile
        elif option.startswith("columns="):
            columns = option.removeprefix("columns=").split("+")
        else:
            raise InvalidInput(f"csv:FILE takes the options follow and columns=a+b, but {option!r} came")
    return kind(dimension, Path(name), columns)


def _simulated(rest: str, dimension: int, agent: int) -> AnySource:
    try:
        mean_text, std_text, seed_text = rest.split(",")
        mean = [float(part) for part in mean_text.split(":")]
        std, seed = float(std_text), int(seed_text)
    except ValueError:
        raise InvalidInput(f"a simulated sensor is sim:MEAN,STD,SEED, but 'sim:{rest}' came") from None
    if len(mean) not in (1, dimension):
        raise InvalidInput(
            f"the mean of a simulated sensor has 1 or {dimension} numbers, but {len(mean)} came"
        )
    return Simulated(dimension, mean, std, seed, agent)


def _normals(seed: int, agent: int, components: int, start: int, count: int) -> NDArray[np.float64]:
    """The numbers of `_random.normals` (trial 0), to the last digit or two, of shape (count, components).

    `_random.py` explains them. It is compiled, and a compiler would double the memory of an agent and the time
    it takes to start, for a few numbers a second: so here they are in NumPy. A test holds the two together.
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    k0, k1 = key & low, key >> half
    quads = np.arange(start // 4, (start + count + 3) // 4, dtype=np.uint64)[:, None]
    c3 = np.arange(components, dtype=np.uint64)[None, :]
    c0, c1, c2, c3 = np.broadcast_arrays(quads, np.uint64(agent), np.uint64(0), c3)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & low, (p0 >> half) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    words = np.stack([c0, c1, c2, c3], axis=1) * 2.0**-32
    radius = np.sqrt(-2 * np.log(words[:, 0::2] + 2.0**-33))
    angle = 2 * np.pi * words[:, 1::2]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    return pairs.reshape(-1, components)[start % 4 :][:count]


def _places(path: Path, columns: list[str]) -> list[int]:
    """The places of the columns in a file whose first row holds their names."""
    with path.open(encoding="utf-8", errors="replace") as file:
        names = [name.strip().strip('"') for name in file.readline().split(",")]
    missing = [column for column in columns if column not in names]
    if missing:
        raise InvalidInput(f"{path} has the columns {', '.join(names)}, but columns= asks for {missing[0]!r}")
    return [names.index(column) for column in columns]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
