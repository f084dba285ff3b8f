"""How many agents and links a file describes, counted before a graph is built: a few bytes can describe billions.

A reader takes about a kilobyte per agent and per link. So the words of a text, the header of a matrix and the bits of a
graph6 file are counted first, in pieces, and without decompressing a file as a whole.
"""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.io

from gossamer.errors import InvalidNetwork

MOST_AGENTS: ContextVar[int] = ContextVar("MOST_AGENTS", default=250_000)
"""Largest number of agents in a file, unless `Network.read` is told otherwise."""

_WORDS = 12
"""Words of a text, and links, that a file may have per allowed agent."""

_PLAUSIBLE = 10_000
"""Up to this many agents may be declared without a single link, since they cost nothing."""

_FEW = 100_000
"""Words and links that any file may have."""

_LETTERS = 25
"""Letters that count as a word, however few words a text has."""

_PIECE = 1 << 20
_NODE = re.compile(rb"[<:]node[\s/>]")
_SEPARATORS = bytes.maketrans(b",;:<>[]{}", b" " * 9)
_OPENED = {".gz": gzip.open, ".bz2": bz2.open}


def check_size(path: Path, format: str, most: int) -> None:
    """Raise InvalidNetwork if a file describes more than `most` agents, or links beyond all proportion to them."""
    room = max(_WORDS * most, _FEW)
    if format in ("graph6", "sparse6"):
        _check_bits(path, format, most, room)
        return
    if format == "npy":
        shape = np.load(path, mmap_mode="r", allow_pickle=False).shape  # which fails if the file is too short
        require_agents(max(shape, default=0), most)
        return
    words, nodes = _words(path, room)
    if format in ("graphml", "gexf"):
        require_agents(nodes, most)
    if words > room:
        raise InvalidNetwork(f"it has more than {room:,} words, too many for {most:,} agents{_HINT}")
    if format == "mtx":
        rows, columns, entries, *_ = scipy.io.mminfo(path)
        require_agents(max(rows, columns), most)
        if entries > 2 * words:  # a symmetric matrix may leave out a half
            raise InvalidNetwork(f"its header declares {entries:,} entries, but it has {words:,} words")
        _require_links(max(rows, columns), words)


_HINT = "; allow more with most_agents"


def require_agents(agents: int, most: int) -> None:
    if agents > most:
        raise InvalidNetwork(f"it describes at least {agents:,} agents, and {most:,} are allowed{_HINT}")


def _require_links(agents: int, links: int) -> None:
    if agents > max(_PLAUSIBLE, links + 1):
        raise InvalidNetwork(
            f"it declares {agents:,} agents, but has room for at most {links:,} links: it is not connected"
        )


def _check_bits(path: Path, format: str, most: int, room: int) -> None:
    """Check a file of graph6 or sparse6, which begins with the number of agents."""
    content = b""
    for piece in _pieces(path):
        content += piece
        if len(content) > room:
            raise InvalidNetwork(f"it has more than {room:,} bytes, too many for {most:,} agents{_HINT}")
    lines = [line for line in content.split(b"\n") if line.strip()]
    if len(lines) != 1:
        raise InvalidNetwork(f"one graph is needed, but the file holds {len(lines)}; keep one line")
    data = lines[0].strip().removeprefix(f">>{format}<<".encode()).removeprefix(b":")
    agents = _declared(data)
    require_agents(agents, most)
    values = np.frombuffer(data, dtype=np.uint8) - 63
    if format == "graph6":
        links = int(np.unpackbits(values).sum())
    else:
        links = 6 * len(data) // (1 + max(agents - 1, 1).bit_length())
        _require_links(agents, links)
    if links > room:
        raise InvalidNetwork(f"it has about {links:,} links, too many for {most:,} agents{_HINT}")


def _declared(data: bytes) -> int:
    """Return the number at the beginning of graph6 data: 1 character, ~ and 3, or ~~ and 6, of six bits each."""
    skip, count = (2, 6) if data.startswith(b"~~") else (1, 3) if data.startswith(b"~") else (0, 1)
    number = 0
    for value in data[skip : skip + count]:
        number = number * 64 + value - 63
    return number


def _words(path: Path, most: int) -> tuple[int, int]:
    """Return the numbers of words and of XML nodes in a text, to within one per piece; stop counting at `most`."""
    words = nodes = 0
    for piece in _pieces(path):
        words += max(len(piece.translate(_SEPARATORS).split()), len(piece) // _LETTERS)
        nodes += sum(1 for _ in _NODE.finditer(piece))
        if words > most:
            break
    return words, nodes


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces; the readers decompress by the suffix, and so does this."""
    opened: BinaryIO = _OPENED.get(path.suffix, open)(path, "rb")  # type: ignore[operator]
    with opened as file:
        while piece := file.read(_PIECE):
            yield piece
