"""Messages to a page: a small JSON header, then arrays as they are in memory.

4 bytes   the length of the header, little endian
header    JSON; its entry "arrays" lists name, type and shape of what follows
padding   up to a multiple of 8
arrays    one after the other, each padded to a multiple of 8
"""

from __future__ import annotations

import json

import numpy as np

from gossamer.arrays import AnyArray

KINDS = {"f4": "<f4", "f8": "<f8", "u1": "u1", "u2": "<u2", "u4": "<u4"}
"""Types that a page can read, by their names in the header."""


def packed(header: dict[str, object], **arrays: AnyArray) -> bytes:
    """Return a message with the header and the arrays by name; NaN and infinities in the header become null."""
    listed, parts = [], []
    for name, values in arrays.items():
        kind = f"{values.dtype.kind}{values.dtype.itemsize}"
        listed.append([name, kind, list(values.shape)])
        parts.append(_padded(np.ascontiguousarray(values, dtype=KINDS[kind]).tobytes()))
    text = json.dumps({**header, "arrays": listed}, allow_nan=False, separators=(",", ":")).encode()
    return _padded(len(text).to_bytes(4, "little") + text) + b"".join(parts)


def _padded(content: bytes) -> bytes:
    return content.ljust(_rounded(len(content)), b"\0")


def _rounded(size: int) -> int:
    return -(-size // 8) * 8
