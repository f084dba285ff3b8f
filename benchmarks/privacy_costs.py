"""What (epsilon, delta)-differential privacy costs in accuracy: a center, masks and local noise on five networks.

    python -m benchmarks.privacy_costs

prints the table of docs/privacy.md: the standard deviation of the noise in the average of 100 agents for epsilon = 1,
delta = 10^-6 and a change of a level by 1. All numbers are computed, none is sampled.
"""

from __future__ import annotations

import math

import gossamer as gs
from gossamer.accounting import masks_for
from gossamer.numerics.gaussian_privacy import mu_of

EPSILON, DELTA, AGENTS = 1.0, 1e-6, 100
NETWORKS = ("path:100", "cycle:100", "star:100", "grid:10x10", "erdos-renyi:100")


def noise(network: gs.Network, mask: float, coalition: str | tuple[int, ...] = ()) -> float:
    """Return the standard deviation of the noise in the average."""
    masks = masks_for(network, masks=mask, epsilon=EPSILON, delta=DELTA, coalition=coalition)
    assert masks is not None
    return masks.noise / math.sqrt(AGENTS)


def main() -> None:
    """Print the table."""
    local = 1 / mu_of(EPSILON, DELTA) / math.sqrt(AGENTS)
    center = local / math.sqrt(AGENTS)
    print(f"a center {center:.4f}, local noise {local:.4f}")
    print(
        "| network | masks 10 | masks 100 | masks 1000 | masks 1000, against any one neighbor |\n|---|---|---|---|---|"
    )
    for name in NETWORKS:
        net = gs.Network.of(name)
        cells = [noise(net, mask) for mask in (10.0, 100.0, 1000.0)] + [noise(net, 1000.0, "any neighbor")]
        print(f"| {name} | " + " | ".join(f"{cell:.4f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
