"""Networks given as text: a name (`grid:10x10`), a file, or a file with its format (`matrix:a.txt`)."""

from __future__ import annotations

from pathlib import Path

from gossamer import checks
from gossamer.errors import InvalidInput, nearest
from gossamer.networks.changing import ChangingNetwork, parse_changing
from gossamer.networks.files import FORMATS
from gossamer.networks.names import EXAMPLES, NAMES, split_name
from gossamer.networks.network import Network


def parse_network(text: str, weights: str = "metropolis", seed: int = 0) -> Network | ChangingNetwork:
    """Return the network with the name `text`, or from the file `text`."""
    checks.seed(seed)
    if (changing := parse_changing(text, seed)) is not None:
        if weights != "metropolis":
            raise InvalidInput(
                f"a changing network has the Metropolis weights of each round, so weights must be 'metropolis', got "
                f"{weights!r}"
            )
        return changing
    kind, rest = split_name(text)
    if kind in NAMES and (rest is not None or not Path(text).exists()):
        return Network.named(text, weights, seed)
    if kind in FORMATS and rest is not None:
        return Network.read(rest, weights, format=kind)
    if Path(text).exists():
        return Network.read(text, weights)
    raise InvalidInput(
        f"{text!r} is neither a network by name{'' if Path(text).suffix else nearest(kind, NAMES)} nor a file; "
        f"examples: {EXAMPLES}"
    )
