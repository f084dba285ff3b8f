"""Messages to a page of the dashboard, read as the page reads them."""

from __future__ import annotations

import json

import numpy as np

from gossamer.arrays import AnyArray
from gossamer.dashboard.frames import KINDS


def unpacked(message: bytes) -> tuple[dict[str, object], dict[str, AnyArray]]:
    """Return the header and the arrays of a message, as a page reads them."""
    size = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + size])
    offset, arrays = -(-(4 + size) // 8) * 8, {}
    for name, kind, shape in header.pop("arrays"):
        count = int(np.prod(shape))
        arrays[name] = np.frombuffer(message, KINDS[kind], count, offset).reshape(shape)
        offset += -(-arrays[name].nbytes // 8) * 8
    return header, arrays
