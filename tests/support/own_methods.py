"""Dual methods of a user's own, for the tests; also a file that fleet.toml can name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

import gossamer as gs


@dataclass(frozen=True)
class HeavyBall(gs.Method):
    """Polyak's heavy ball on the dual, fed with the running mean of the agent's observations."""

    step_size: float | None = None
    momentum: float = 0.4

    name: ClassVar[str] = "heavy-ball"
    anytime: ClassVar[bool] = True  # type: ignore[misc, assignment]

    class State(NamedTuple):
        average: Any
        x: Any
        before: Any

    class Coefficients(NamedTuple):
        gain: Any
        step_size: float
        momentum: float

    def coefficients(self, network: Any, rounds: int) -> Coefficients:
        eta = 1 / network.lambda_max if self.step_size is None else self.step_size
        return self.Coefficients(1 / np.arange(1.0, rounds + 1), eta, self.momentum)

    @staticmethod
    def message(c: Any, s: Any, observation: Any) -> Any:
        return s.x + s.average + c.gain * (observation - s.average)

    @staticmethod
    def step(c: Any, s: Any, observation: Any, mixed: Any) -> Any:
        average = s.average + c.gain * (observation - s.average)
        return HeavyBall.State(average, s.x - c.step_size * mixed + c.momentum * (s.x - s.before), s.x)

    @staticmethod
    def estimate(c: Any, s: Any) -> Any:
        return s.x + s.average


@dataclass(frozen=True)
class NewestOnly(gs.Method):
    """Dual gossip of the newest observation, without a running mean: it never settles, and keeps no mean."""

    name: ClassVar[str] = "newest-only"

    class State(NamedTuple):
        x: Any
        theta: Any

    class Coefficients(NamedTuple):
        step_size: float

    @property
    def anytime(self) -> bool:
        return True

    def coefficients(self, network: Any, rounds: int) -> Coefficients:
        return self.Coefficients(1 / network.lambda_max)

    @staticmethod
    def message(c: Any, s: Any, observation: Any) -> Any:
        return s.x + observation

    @staticmethod
    def step(c: Any, s: Any, observation: Any, mixed: Any) -> Any:
        return NewestOnly.State(s.x - c.step_size * mixed, s.x + observation)

    @staticmethod
    def estimate(c: Any, s: Any) -> Any:
        return s.theta
