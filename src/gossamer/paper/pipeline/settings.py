"""The settings of a run of the paper's experiments. The defaults are the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from gossamer.errors import InvalidInput


@dataclass(frozen=True)
class Settings:
    """Every number that the experiments depend on.

    agents        N of all figures except Figure 5; a square number, for the grid
    trials        runs per point of a simulation
    seed          of the means, the random graph and the noise
    draws         draws of means (and of the random graph) behind the intervals of the claims
    spread        b of Figure 2: means are uniform on [0, b]
    small_spread  b of Figures 3 and 4
    stages        K of D-MASG in Figure 2; they set the numbers of rounds
    large         accuracies eps of Figure 3
    small         accuracies eps of Figure 4
    star_agents   N of Figure 5
    """

    agents: int = 100
    trials: int = 100
    seed: int = 38
    """Of the first hundred seeds, the one whose random graph comes closest to the paper's kappa of 11."""
    draws: int = 200
    spread: float = 10.0
    small_spread: float = 1.0
    stages: tuple[int, ...] = (3, 4, 5, 6, 7, 8)
    large: tuple[float, ...] = (0.015, 0.0122, 0.01, 0.0082, 0.0067, 0.0055)
    small: tuple[float, ...] = (0.00033, 0.00027, 0.00022, 0.00018, 0.00015, 0.00012)
    star_agents: tuple[int, ...] = (148, 190, 244, 314, 403, 518, 665)

    def __post_init__(self) -> None:
        if self.agents < 9 or math.isqrt(self.agents) ** 2 != self.agents:
            raise InvalidInput(
                parameter="agents",
                required="a square number of at least 9, because one of the networks is a square grid",
                got=str(self.agents),
                hint=f"the nearest is {max(3, round(math.sqrt(max(self.agents, 0)))) ** 2}",
            )
        for name, least in (("trials", 2), ("draws", 2), ("seed", 0)):
            if getattr(self, name) < least:
                raise InvalidInput(parameter=name, required=f"at least {least}", got=str(getattr(self, name)))
        for name in ("spread", "small_spread"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInput(parameter=name, required="a number above 0", got=str(getattr(self, name)))
        if len(self.stages) < 2 or min(self.stages) < 2:
            raise InvalidInput(
                f"needs two or more numbers, each at least 2, got {self.stages}", parameter="stages"
            )
        for name in ("large", "small"):
            values = getattr(self, name)
            if len(values) < 2 or not all(0 < eps < math.inf for eps in values):
                raise InvalidInput(f"needs two or more accuracies above 0, got {values}", parameter=name)
        if len(self.star_agents) < 2 or min(self.star_agents) < 4:
            raise InvalidInput(
                f"needs two or more sizes of at least 4, got {self.star_agents}", parameter="star_agents"
            )

    @classmethod
    def quick(cls, **changes: Any) -> Settings:
        """Return settings for a short run: smaller networks, fewer trials and draws, less demanding accuracies."""
        small = {
            "agents": 25,
            "trials": 20,
            "draws": 10,
            "stages": (3, 4, 5),
            "large": (0.03, 0.02, 0.015),
            "small": (0.0033, 0.0022, 0.0015),
            "star_agents": (37, 61, 101),
        }
        return cls(**{**small, **changes})

    @property
    def is_paper(self) -> bool:
        """Whether these are the paper's own sizes (seed, trials and draws may differ)."""
        free = {"seed", "trials", "draws"}
        return all(getattr(self, f.name) == f.default for f in fields(self) if f.name not in free)
