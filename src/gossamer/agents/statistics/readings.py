"""Reading observations: from values of a program, lines of text, and rows of a CSV file."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.agents.config.settings import LARGEST
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput

log = logging.getLogger("gossamer.agents")

LARGEST_OBSERVATION = LARGEST / 1e6
"""Larger ones are refused by the agent itself: what it sends are sums of observations, and neighbors refuse messages
with numbers beyond LARGEST. The margin is for long paths of agents, many components and noise replicates."""

LINE_LIMIT = 1 << 20
"""A longer line is bad: no sensor writes that."""

_TOO_LONG = b"<a line of more than a million characters>"

Vector = Floats


class BadObservation(InvalidInput):
    """A line or a value that is not an observation; the text says why."""


class Range:
    """The values that an observation may have, and how others are treated.

    pairs    the least and the largest value of each component; empty if all values are allowed
    clips    whether other values are clipped and counted in `clipped`; otherwise they are refused
    """

    def __init__(self, pairs: Sequence[tuple[float, float]] = (), *, clips: bool = False) -> None:
        self.low, self.high = np.array(pairs, dtype=float).reshape(-1, 2).T
        self.clips = clips
        self.clipped = 0

    def admit(self, observation: Vector) -> Vector:
        """Return the observation, clipped if it must be, or raise `BadObservation`."""
        if not len(self.low) or ((observation >= self.low) & (observation <= self.high)).all():
            return observation
        if not self.clips:
            raise BadObservation(
                f"an observation must be in the range {self}, got {short(observation.tolist())}; leave it out, or "
                "widen the range of the fleet"
            )
        self.clipped += 1
        if often(self.clipped):
            log.warning("observation outside %s clipped: %s", self, short(observation.tolist()))
        return np.clip(observation, self.low, self.high)

    def doubt(self, estimate: Vector, *, observed: bool) -> str:
        """Why an average of observations is evidently wrong, or an empty text; `observed`: whether there are any."""
        if np.isnan(estimate).any():
            return "the agent has observed, but has no estimate" if observed else ""
        rounding = 1e-6 * (self.high - self.low)
        if (
            not len(self.low)
            or ((estimate >= self.low - rounding) & (estimate <= self.high + rounding)).all()
        ):
            return ""
        held = ", ".join(f"{e:g}" for e in estimate)
        return f"the estimate {held} is outside the range {self}, so the nearest end is reported"

    def __str__(self) -> str:
        return ", ".join(f"[{low:g}, {high:g}]" for low, high in zip(self.low, self.high, strict=True))


def often(count: int) -> bool:
    """Whether to log it again: the first few, then the 4th, 8th, ... A broken sensor must not fill the disk."""
    return count <= 3 or count & (count - 1) == 0


def vector(value: object, dimension: int, largest: float = LARGEST_OBSERVATION) -> Vector:
    """Return `value` as a new vector of `dimension` numbers up to `largest`, or raise `BadObservation`."""
    if type(value) is float and dimension == 1 and -largest <= value <= largest:
        return np.array([value])  # by far the most common case, so it is worth a shortcut
    try:
        array = np.asarray(value)
        parts = value if isinstance(value, (list, tuple)) else [value]
        if array.dtype.kind not in "iufUO" or any(_misleads(part) for part in parts):
            raise TypeError
        numbers = np.atleast_1d(array.astype(float))
    except (TypeError, ValueError, OverflowError):
        raise BadObservation(f"an observation must be made of numbers, got {short(value)}") from None
    if numbers.shape != (dimension,):
        got = len(numbers) if numbers.ndim == 1 else f"an array of shape {numbers.shape}"
        raise BadObservation(f"an observation must have {dimension} number(s), got {got}: {short(value)}")
    if not np.isfinite(numbers).all():
        raise BadObservation(f"an observation must be finite, got {short(value)}; leave it out")
    if np.abs(numbers).max() > largest:
        raise BadObservation(
            f"an observation must be at most {largest:g} in size, or the neighbors would refuse the agent's messages, "
            f"got {short(value)}; leave it out, or use another unit"
        )
    return numbers


def _misleads(part: object) -> bool:
    """Whether NumPy would silently turn this into a number: True, or "1_000"."""
    return isinstance(part, (bool, np.bool_)) or (isinstance(part, str) and "_" in part)


def parse_line(line: str, dimension: int, largest: float = LARGEST_OBSERVATION) -> Vector | None:
    """Return the observation on a line, None for an empty line or a comment, or raise `BadObservation`."""
    line = line.strip()
    if not line or line.startswith("#"):
        return None
    if line[0] in "[{":
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise BadObservation(f"a line must be numbers or JSON, got {short(line)}") from None
        if isinstance(value, dict):
            if "state" in value:
                value = _transition(value)
            elif "value" in value:
                value = value["value"]
            else:
                raise BadObservation(f'a JSON object needs "value", got {short(line)}')
    else:
        value = line.replace(",", " ").split()
    return vector(value, dimension, largest)


def _transition(step: dict[str, Any]) -> list[object]:
    """Return a transition between states as the numbers of an observation (`FleetValues`)."""
    ends = [step.get(name, False) for name in ("terminated", "truncated")]
    following = step.get("next_state", step["state"] if ends[0] is True else None)
    if following is None or "reward" not in step or not all(isinstance(end, bool) for end in ends):
        raise BadObservation(
            'a transition needs "state", "reward" and "next_state", with "terminated" and "truncated" true or false '
            f"where an episode ends, got {short(step)}"
        )
    parts = [part if isinstance(part, list) else [part] for part in (step["state"], following)]
    return [*parts[0], *parts[1], step["reward"], 1 if ends[0] else 2 if ends[1] else 0]


def parse_row(
    row: str, dimension: int, places: list[int] | None = None, largest: float = LARGEST_OBSERVATION
) -> Vector | None:
    """Return the observation in a row of a CSV file: in the cells at `places`, or in all of them."""
    row = row.strip()
    if not row or row.startswith("#"):
        return None
    if places is None and ('"' not in row or row[0] in "[{"):
        return parse_line(row, dimension, largest)
    texts = cells(row)
    if places is None:
        return vector(texts, dimension, largest)
    if len(texts) <= max(places):
        raise BadObservation(f"a row needs at least {max(places) + 1} cells, got {short(row)}")
    return vector([texts[column] for column in places], dimension, largest)


def cells(row: str) -> list[str]:
    """The cells of one row, without their quotes."""
    try:
        return [cell.strip() for cell in next(csv.reader([row], skipinitialspace=True), [])]
    except csv.Error as error:
        raise BadObservation(f"a row must be CSV, got {short(row)} ({error})") from None


class Splitter:
    """Cuts pieces of bytes into lines. A line beyond the limit is replaced by a short one that is not a number."""

    def __init__(self) -> None:
        self._rest = b""
        self._dropped = 0  # bytes of a line that is too long

    def lines(self, piece: bytes) -> list[str]:
        """The lines that end in this piece."""
        return [line for line, _ in self.sized(piece)]

    def sized(self, piece: bytes) -> list[tuple[str, int]]:
        """The lines that end in this piece, and the bytes that each took, with its line break."""
        *ended, self._rest = (self._rest + piece).split(b"\n")
        lines = []
        for line in ended:
            too_long = self._dropped or len(line) > LINE_LIMIT
            text = (_TOO_LONG if too_long else line).decode("utf-8", "replace")
            lines.append((text, self._dropped + len(line) + 1))
            self._dropped = 0
        if len(self._rest) > LINE_LIMIT or self._dropped:  # drop it, and the rest up to the end of the line
            self._dropped += len(self._rest)
            self._rest = b""
        return lines

    def rest(self) -> list[str]:
        """The last line, if it had no line break; nothing is kept."""
        return self.lines(b"\n") if self._rest or self._dropped else []


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
