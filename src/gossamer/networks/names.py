"""Networks by name, such as `grid:10x10`."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from gossamer import checks
from gossamer.errors import InvalidInput, nearest
from gossamer.networks import topologies
from gossamer.networks.topologies import Topology

NAMES: dict[str, Callable[..., Topology]] = {
    "path": topologies.path,
    "cycle": topologies.cycle,
    "star": topologies.star,
    "complete": topologies.complete,
    "grid": topologies.grid,
    "torus": topologies.torus,
    "hypercube": topologies.hypercube,
    "erdos-renyi": topologies.erdos_renyi,
    "geometric": topologies.random_geometric,
    "expander": topologies.expander,
}

EXAMPLES = (
    "path:100, cycle:100, star:100, complete:20, grid:10x10, torus:8x8, hypercube:7, "
    "erdos-renyi:100, geometric:100, expander:100x4"
)


def named_topology(text: str, seed: int = 0) -> Topology:
    """Return the topology that a name and its sizes describe; `seed` is for the random ones."""
    checks.seed(seed)
    kind, numbers = split_name(text)
    if kind not in NAMES:
        raise InvalidInput(f"{text!r} is not a network by name{nearest(kind, NAMES)}; examples: {EXAMPLES}")
    if numbers is None:
        raise InvalidInput(f"{text!r} needs a size; examples: {EXAMPLES}")
    try:
        sizes = [
            float(part) if "." in part else int(part) for part in numbers.lower().replace(",", "x").split("x")
        ]
    except ValueError:
        raise InvalidInput(f"{text!r} needs whole numbers after the colon; examples: {EXAMPLES}") from None
    parameters = inspect.signature(NAMES[kind]).parameters
    places = [name for name in parameters if name != "seed"]
    required = [name for name in places if parameters[name].default is inspect.Parameter.empty]
    if not len(required) <= len(sizes) <= len(places):
        wanted, count = " x ".join(places), len(sizes)
        raise InvalidInput(
            f"{kind} takes {wanted}, got {count} number{'' if count == 1 else 's'} in {text!r}"
        )
    return NAMES[kind](*sizes, **({"seed": seed} if "seed" in parameters else {}))


def split_name(text: str) -> tuple[str, str | None]:
    """Split a name: `Grid:10x10` is ("grid", "10x10"), `grid` is ("grid", None)."""
    kind, colon, rest = text.partition(":")
    return kind.strip().lower().replace("_", "-"), rest if colon else None
