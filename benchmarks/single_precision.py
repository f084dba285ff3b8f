"""Bytes and errors of a fleet that sends its numbers with 32 bits (`wire.precision = "single"`), next to 64 bits.

    python -m benchmarks.single_precision [AGENTS ROUNDS OFFSET]

Conversations of a whole fleet in lockstep, with and without 30% loss: agent i has one reading per round, of mean
OFFSET + U[0, 10] and standard deviation 1. It prints the bytes with 32 bits as a share of those with 64; how far the
answers of the two fleets are apart at most, and how far those of a fleet that always sends 32 bits are from those with
64, in standard errors of the average; and the root mean square error of the first two fleets in the same unit.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable

import numpy as np
from tests.support.lockstep import Lockstep

import gossamer as gs
from gossamer.agents.round.quiet import largest_single
from gossamer.agents.statistics.layout import Layout

LAYOUT = Layout(1, replicates=8)
Rule = Callable[[np.ndarray], float]


class Readings(Lockstep):
    """A fleet with a new reading, and replicates of its noise, in every round."""

    def _told(self, agent: int) -> np.ndarray:
        noise = np.random.default_rng([self._round, agent]).standard_normal(LAYOUT.size - 1)
        return np.array([1.0, self.means[agent, 0] + noise[0], *noise[1:]])


def run(
    network: gs.Network, means: np.ndarray, count: int, loss: float, single: Rule | None
) -> tuple[np.ndarray, int]:
    """The answers after `count` rounds, and the bytes sent."""
    method = gs.AnytimeSDA("local-heavy-ball")
    fleet = Readings(network, means[:, None], method=method, loss=loss, layout=LAYOUT, single=single)
    fleet.run(count)
    return fleet.estimates(), fleet.bytes


def main(agents: int = 100, count: int = 1000, offset: float = 0.0) -> None:
    side = math.isqrt(agents)
    names = [*(f"{name}:{agents}" for name in ("path", "cycle", "star")), f"grid:{side}x{agents // side}"]
    networks = [*map(gs.Network.of, names), gs.Network.erdos_renyi(agents, seed=1)]
    means = offset + np.random.default_rng(0).uniform(0, 10, agents)
    error = 1 / math.sqrt(agents * count)
    for network in networks:
        for loss in (0.0, 0.3):
            double, many = run(network, means, count, loss, None)
            rounded, few = run(network, means, count, loss, lambda vector: largest_single(LAYOUT, vector))
            always, _ = run(network, means, count, loss, lambda vector: 1e38)
            figures = {
                "bytes": few / many,
                "apart": np.abs(rounded - double).max() / error,
                "always": np.abs(always - double).max() / error,
                "rms": [float(np.sqrt(np.mean((x - means.mean()) ** 2))) / error for x in (double, rounded)],
            }
            print(json.dumps({"network": network.name, "loss": loss, **figures}), flush=True)


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((int, int, float), sys.argv[1:], strict=False)))
