"""Nesterov's and Chebyshev's acceleration: one update, shared by all dual methods and fast averages.

    y = x - eta u,   x' = y + momentum (y - memory)            u is the gossip product of the messages

Nesterov remembers y and keeps its momentum; Chebyshev remembers x (`carry` 1 or 0), and its momentum om_t - 1
follows om_0 = 1, om_1 = 1/(1 - rho^2/2), om_{t+1} = 1/(1 - rho^2 om_t/4).
In `momentum_rules.py` momentum rises on its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Fields, Register, Tunable


class Acceleration(NamedTuple):
    """The coefficients of the update."""

    step_size: float
    momentum: float | Floats
    carry: float


def accelerate(c: Fields, x: Register, memory: Register, mixed: Register) -> tuple[Register, Register]:
    """Return x and memory after one update with coefficients `c`, which has the fields of `Acceleration`."""
    moved = x - c.step_size * mixed
    return moved + c.momentum * (moved - memory), x - c.carry * c.step_size * mixed


def nesterov(network: SpectralFacts, step_size: float | None, momentum: float | None) -> Acceleration:
    """Choose eta = 1/lambda_max and zeta = (sqrt k - 1)/(sqrt k + 1), the paper's choice, unless set by hand."""
    eta = 1.0 / network.lambda_max if step_size is None else step_size
    if momentum is None:
        root = np.sqrt(network.condition_number)
        momentum = float((root - 1) / (root + 1))
    return Acceleration(float(eta), momentum, carry=1.0)


def chebyshev(network: SpectralFacts, rounds: int) -> Acceleration:
    """Choose eta = 2/(lambda_max + lambda_2), which damps the worst eigenmode as much as possible after any number of
    rounds."""
    low, high = network.lambda_2, network.lambda_max
    square = ((high - low) / (high + low)) ** 2
    omega = np.ones(rounds)
    for t in range(1, rounds):
        omega[t] = 1.0 / (1.0 - square * (omega[t - 1] / 4 if t > 1 else 0.5))
    return Acceleration(2.0 / (high + low), omega - 1.0, carry=0.0)


def check_acceleration(step_size: float | None, momentum: float | None) -> None:
    """Raise an error if a step size or a momentum is given but invalid."""
    if step_size is not None:
        checks.number("step_size", step_size, above=0)
    if momentum is not None:
        checks.number("momentum", momentum, least=0)


def tunable_acceleration(network: SpectralFacts) -> dict[str, Tunable]:
    """Return the tunable step size and momentum of Nesterov's acceleration, starting at the paper's choice."""
    start = nesterov(network, None, None)
    return {"step_size": Tunable(start.step_size), "momentum": Tunable(float(start.momentum), most=1.0)}
