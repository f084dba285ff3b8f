"""Streams by name, as used on the command line and in the playground."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.observations.noise import Bernoulli, Gaussian, StudentT, Uniform
from gossamer.observations.stream import Observations

MEANS: dict[str, Callable[[int, float, int], Floats]] = {
    "uniform": lambda agents, spread, seed: np.random.default_rng(seed).uniform(0, spread, agents),
    "ramp": lambda agents, spread, seed: np.linspace(0, spread, agents),
    "one": lambda agents, spread, seed: spread * (np.arange(agents) == 0),
}
"""Means of agents 0, 1, ...: drawn from [0, spread], evenly spaced there, or 0 for all but agent 0."""

NOISE: dict[str, Callable[[Floats, float], Observations]] = {
    "gaussian": Gaussian,
    "student-t": StudentT,
    "uniform": lambda mean, std: Uniform(mean - math.sqrt(3) * std, mean + math.sqrt(3) * std),
    "bernoulli": lambda mean, std: Bernoulli(mean),
}
"""Noise with a given standard deviation; that of `bernoulli` follows from its means, which are in [0, 1]."""


def named_streams(
    agents: int,
    spread: float = 10.0,
    std: float = 1.0,
    seed: int = 0,
    *,
    means: str = "uniform",
    noise: str = "gaussian",
) -> Observations:
    """Return the streams of this many agents, with means by a name in `MEANS` and noise by a name in `NOISE`."""
    checks.choice("means", means, MEANS)
    checks.choice("noise", noise, NOISE)
    spread = checks.number("spread", spread, least=0)
    return NOISE[noise](MEANS[means](agents, spread, checks.seed(seed)), std)
