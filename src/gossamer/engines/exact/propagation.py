"""A table run through the rounds, one scalar system per eigenvalue: responses and noise gains."""

from __future__ import annotations

from typing import Any

import numpy as np

from gossamer.arrays import Floats, Integers
from gossamer.engines.exact import recursions
from gossamer.methods import Table
from gossamer.networks.spectrum import Spectrum

_forward: Any = recursions.forward
_backward: Any = recursions.backward


def propagate(table: Table, nodes: Floats, ends: Integers) -> tuple[Floats, Floats]:
    """Responses (H, G, 2) to the mean and to its drift, and noise gains (H, G), at eigenvalues `nodes`.

    A single horizon at the end of the table is cheaper backward (a vector per eigenvalue instead of a
    covariance); forward, one pass serves every horizon.
    """
    if len(ends) == 1 and ends[0] == table.rounds:
        result = _backward(nodes, table, np.empty((0, 0)))[:, None]
    else:
        result = _forward(nodes, table, ends)
    return np.moveaxis(result[:2], 0, 2), result[2]


def impulse_response(table: Table, spectrum: Spectrum) -> Floats:
    """(T, modes): the weight of round t's observation in the final estimate."""
    weights = np.empty((table.rounds, len(spectrum.eigenvalues)))
    _backward(spectrum.eigenvalues, table, weights)
    return weights
