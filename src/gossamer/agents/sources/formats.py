"""How readings are written as text: where their numbers are in JSON, in which unit, and when they were taken."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from gossamer.agents.config.urls import Url
from gossamer.agents.statistics.readings import (
    LARGEST_OBSERVATION,
    BadObservation,
    Vector,
    parse_line,
    short,
    vector,
)
from gossamer.errors import InvalidInput


class TimedReading(NamedTuple):
    """An observation, and what its sender says of it: when it was made (seconds since 1970; nan if unknown), and its
    sequence number as text."""

    value: Vector
    time: float = math.nan
    sequence: str = ""


@dataclass(frozen=True)
class ReadingFormat:
    """How readings are written.

    fields    paths of the numbers in JSON, such as a.b.value or samples.0; empty for lines as `parse_line` reads them
    scale, offset   an observation is scale * number + offset; one each, or one per component
    time      path of the time: seconds since 1970 (also milli-, micro- or nanoseconds), or ISO 8601 text (UTC, unless
              it says otherwise)
    sequence  path of a sequence number
    max_age   seconds after which a reading is too old
    """

    fields: tuple[str, ...] = ()
    scale: tuple[float, ...] = (1.0,)
    offset: tuple[float, ...] = (0.0,)
    time: str = ""
    sequence: str = ""
    max_age: float = math.inf

    @classmethod
    def of(cls, url: Url, dimension: int, *, sequence: bool = False) -> ReadingFormat:
        """The format that the options field, scale, offset, time and max_age (and sequence) of an address describe."""
        made = cls(
            url.texts("field"),
            url.numbers("scale", 1.0),
            url.numbers("offset", 0.0),
            url.text_of("time", ""),
            url.text_of("sequence", "") if sequence else "",
            url.seconds("max_age", "0") or math.inf,
        )
        made.check(dimension)
        if not made.time and made.max_age < math.inf:
            raise InvalidInput("needs the time of a reading; give time=PATH", parameter="max_age")
        return made

    def check(self, dimension: int) -> None:
        """Raise InvalidInput unless everything has one entry, or one per component."""
        for name, given in (
            ("field", self.fields or ("value",)),
            ("scale", self.scale),
            ("offset", self.offset),
        ):
            if len(given) not in (1, dimension):
                raise InvalidInput(
                    f"must have 1 or {dimension} entries, one per component, got {len(given)}", parameter=name
                )

    def component(self, k: int) -> ReadingFormat:
        """Return the format of one component that arrives by itself."""
        return replace(
            self, fields=_kth(self.fields, k), scale=_kth(self.scale, k), offset=_kth(self.offset, k)
        )

    def read(
        self, text: str, dimension: int, largest: float = LARGEST_OBSERVATION, now: float | None = None
    ) -> TimedReading | None:
        """Return the reading in a text, None for an empty text or a comment, or raise `BadObservation`."""
        if not (self.fields or self.time or self.sequence):
            value = parse_line(text, dimension, largest)
            return None if value is None else TimedReading(self.in_units(value, largest))
        if not text.strip():
            return None
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise BadObservation(
                f"a reading must be JSON, because it has fields, got {short(text)}"
            ) from None
        parts = [_at(document, path) for path in self.fields or ("value",)]
        value = vector(parts[0] if len(parts) == 1 else parts, dimension, largest)
        taken = _seconds(_at(document, self.time)) if self.time else math.nan
        age = (time.time() if now is None else now) - taken
        if age > self.max_age:
            raise BadObservation(f"a reading must be at most {self.max_age:g} s old, got one of {age:.0f} s")
        sequence = _at(document, self.sequence) if self.sequence else ""
        if not isinstance(sequence, (str, int, float)):
            raise BadObservation(f"a sequence number must be a number or a text, got {short(sequence)}")
        return TimedReading(self.in_units(value, largest), taken, str(sequence))

    def in_units(self, value: Vector, largest: float) -> Vector:
        """Numbers as observations: scaled and shifted."""
        if self.scale == (1.0,) and self.offset == (0.0,):
            return value
        return vector(np.array(self.scale) * value + np.array(self.offset), len(value), largest)


def _kth(values: Sequence[Any], k: int) -> tuple[Any, ...]:
    return tuple(values[k : k + 1] if len(values) > 1 else values)


def _at(document: Any, path: str) -> Any:
    """Return the value at a path such as a.b.0; a key may itself contain dots."""
    if isinstance(document, dict) and path in document:
        return document[path]
    head, dot, rest = path.partition(".")
    inner = None
    if isinstance(document, dict):
        while head not in document and "." in rest:
            more, _, rest = rest.partition(".")
            head = f"{head}.{more}"
        inner = document.get(head)
    elif isinstance(document, list) and head.isdecimal() and int(head) < len(document):
        inner = document[int(head)]
    if inner is None:
        raise BadObservation(f"a reading needs the field {path!r}, got {short(document)}")
    return _at(inner, rest) if dot else inner


_NEWEST = 1e11
"""Larger times are not in seconds but in milliseconds, and so on; in seconds this is the year 5138."""


def _seconds(value: Any) -> float:
    """Return a time in seconds since 1970."""
    try:
        if isinstance(value, str) and not value.replace(".", "", 1).isdecimal():
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        seconds = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise BadObservation(f"a time must be seconds since 1970 or ISO 8601, got {short(value)}")
    while abs(seconds) > _NEWEST:
        seconds /= 1000
    return seconds
