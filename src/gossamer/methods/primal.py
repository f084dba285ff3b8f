"""What the primal methods share: they average with W = I - L, whose eigenvalues must stay above -1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Method, Register


def check_averaging(network: SpectralFacts) -> None:
    """Raise an error if repeated averaging with W = I - L would diverge."""
    if network.lambda_max >= 2:
        raise InvalidInput(
            "DSG and other gradient methods need W = I - L with eigenvalues above -1, so lambda_max < 2, "
            f"but this network has lambda_max = {network.lambda_max:.4g}; use weights='metropolis'"
        )


def smallest_shifted_eigenvalue(network: SpectralFacts) -> float:
    """Return the smallest eigenvalue of W_1 = (I + W)/2 = I - L/2, which is positive where W can be iterated."""
    check_averaging(network)
    return 1.0 - network.lambda_max / 2


def momentum_of(step_size: Register) -> Register:
    """Return beta = (1 - sqrt alpha)/(1 + sqrt alpha)."""
    return (1 - np.sqrt(step_size)) / (1 + np.sqrt(step_size))


class AcceleratedGradient(Method):
    """One iteration, shared: y = (1+beta) x_k - beta x_{k-1};  x_{k+1} = W_1 y - alpha (y - R_k)."""

    class State(NamedTuple):
        x: Register
        previous: Register

    class Coefficients(NamedTuple):
        step_size: float | Floats
        momentum: float | Floats

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return s.x + c.momentum * (s.x - s.previous)

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        ahead = s.x + c.momentum * (s.x - s.previous)
        x = ahead - mixed / 2 - c.step_size * (ahead - observation)
        return AcceleratedGradient.State(x, previous=s.x)

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.x
