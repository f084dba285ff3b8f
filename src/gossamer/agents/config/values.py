"""Values of fleet.toml with a special format: times, endpoints, words, standard deviations and edges of bins.

Help pages of the command line load this module: it must not load NumPy.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

from gossamer.errors import InvalidInput

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


def duration(name: str, text: str) -> float:
    """Return seconds from "250ms", "2s", "1m" or "1h"; "0" is 0."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text)
    if not match or (match[2] not in _UNITS and float(match[1]) != 0):
        raise InvalidInput(parameter=name, required='a time such as "250ms", "2s" or "1m"', got=repr(text))
    return float(match[1]) * _UNITS.get(match[2], 0.0)


def check_endpoint(name: str, value: str) -> None:
    """Raise for an endpoint that is not host:port; an IPv6 address is in brackets."""
    host, _, port = value.rpartition(":")
    if not (_HOST.fullmatch(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InvalidInput(
            parameter=name,
            required="host:port, the host a name of ASCII letters, digits, dots and dashes or an address, and "
            "the port from 1 to 65535",
            got=repr(value),
        )


def check_word(name: str, value: str) -> None:
    """Raise for a name that cannot be part of an address."""
    if not 1 <= len(value) <= 64 or not all(ch.isalnum() or ch in "-_" for ch in value):
        raise InvalidInput(
            parameter=name, required="a word of 1 to 64 letters, digits, - and _", got=repr(value[:80])
        )


def check_scales(name: str, value: Any) -> None:
    """Raise unless `value` can be the standard deviations of masks or noise, or the sizes of changes."""
    several = isinstance(value, tuple | list)
    numbers = value if several else (value,)
    real = all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers)
    if not real or not all(0.0 <= number < math.inf for number in numbers) or (several and 0.0 in numbers):
        raise InvalidInput(
            parameter=name,
            required="a number of at least 0, or one above 0 per component",
            got=repr(value),
        )


def check_increasing(name: str, value: Any) -> None:
    """Raise for numbers that cannot be the edges of bins."""
    edges = tuple(value)
    if (
        len(edges) < 2
        or not all(math.isfinite(edge) for edge in edges)
        or any(a >= b for a, b in itertools.pairwise(edges))
    ):
        raise InvalidInput(parameter=name, required="at least two increasing finite numbers", got=str(edges))
