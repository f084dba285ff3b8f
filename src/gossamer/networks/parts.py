"""Networks that are read in independent parts, for the ranks of a cluster.

A part is a range of agents. It begins with a block (see `numerics/blocks.py`), so that sums over all agents have the
same last digit for any distribution over the ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts, UnknownFacts
from gossamer.networks.directed import DirectedNetwork
from gossamer.networks.files import FORMATS
from gossamer.networks.links import Links, Rows, some_rows
from gossamer.networks.names import NAMES, named_topology, split_name
from gossamer.networks.network import LARGE, Changing, Network, NetworkLike
from gossamer.networks.shards import is_sharded, open_shards
from gossamer.networks.spectrum import product_facts
from gossamer.networks.topologies import Topology
from gossamer.numerics.blocks import BLOCK


class NetworkParts(ABC):
    """A network for a cluster.

    name, agents  as a network's
    weights       the rule for the weights of its links; None if the links already have weights
    chance        whether it is random, so that it may have to be redrawn until it is connected
    """

    name: str
    agents: int
    weights: str | None = None
    chance: bool = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.agents} agents)"

    def bounds(self, ranks: int) -> list[int]:
        """Return ranks + 1 numbers: rank r holds the agents bounds[r] .. bounds[r + 1] - 1."""
        blocks = -(-self.agents // BLOCK)
        return [min(rank * blocks // ranks * BLOCK, self.agents) for rank in range(ranks + 1)]

    @abstractmethod
    def read(self, first: int, last: int, draw: int) -> Rows | Links:
        """Return the rows of the agents first..last-1, with the numbers that their neighbors have in the whole
        network."""

    @abstractmethod
    def facts(self, weights: Sequence[float], bound: float) -> SpectralFacts:
        """Return the spectral facts of the network, given the weights of its links and a bound on its eigenvalues."""

    def disconnected(self) -> Exception:
        raise NotImplementedError  # only called for random networks


class NamedParts(NetworkParts):
    """A network by name, generated where it is needed."""

    def __init__(self, text: str, weights: str = "metropolis", seed: int = 0) -> None:
        if weights not in ("metropolis", "laplacian", "max-degree"):
            raise InvalidInput(
                parameter="weights",
                required="'metropolis', 'laplacian' or 'max-degree' on a cluster",
                got=repr(weights),
            )
        self.topology: Topology = named_topology(text, seed)
        self.text, self.weights, self.seed = text, weights, seed
        self.name, self.agents = self.topology.name, self.topology.agents
        self.chance = self.topology.draw is not None

    def read(self, first: int, last: int, draw: int) -> Rows:
        return self.topology.rows(first, last, draw)[0]

    def facts(self, weights: Sequence[float], bound: float) -> SpectralFacts:
        if self.agents <= LARGE:  # small enough for every process
            return Network.named(self.text, str(self.weights), self.seed)
        if self.topology.factors:
            return product_facts(self.topology.factors, weights, bound)
        return _not_known(self.name, self.agents, bound)

    def disconnected(self) -> Exception:
        return self.topology.disconnected()


class HeldParts(NetworkParts):
    """A network that every rank holds."""

    def __init__(self, network: Network) -> None:
        self.network, self.name, self.agents = network, network.name, network.agents

    def read(self, first: int, last: int, draw: int) -> Links:
        links = self.network.links
        rows = some_rows(Rows(links.starts, links.neighbors), first, last)
        begin, end = links.starts[[first, last]]
        return Links(*rows, links.codes[begin:end], links.weights, links.scale)

    def facts(self, weights: Sequence[float], bound: float) -> Network:
        return self.network


class ShardedParts(NetworkParts):
    """A folder that `partition` wrote: every rank reads one or more of its parts."""

    def __init__(self, folder: Path, weights: str = "file") -> None:
        self.shards = open_shards(folder, weights)
        self.name, self.agents = self.shards.name, self.shards.agents

    def bounds(self, ranks: int) -> list[int]:
        parts = len(self.shards.bounds) - 1
        if ranks > parts:
            raise InvalidInput(
                f"{self.shards.folder} has {parts} parts, too few for {ranks} ranks; start at most {parts} ranks, or "
                f"partition the network again into {ranks} parts or more"
            )
        return [self.shards.bounds[rank * parts // ranks] for rank in range(ranks + 1)]

    def read(self, first: int, last: int, draw: int) -> Links:
        return self.shards.links(first, last)

    def facts(self, weights: Sequence[float], bound: float) -> SpectralFacts:
        if self.shards.facts is not None:
            return self.shards.facts
        return _not_known(self.name, self.agents, bound)


def _not_known(name: str, agents: int, bound: float) -> UnknownFacts:
    advice = (
        f"which is not known for {name}: it has no closed form, and more than {LARGE:,} agents; use anytime-sda with "
        "acceleration='local-heavy-ball', which needs the weights alone, or give the method its parameters by hand"
    )
    return UnknownFacts(max(2.0, bound), agents=agents, advice=advice)


def parts_of(
    value: NetworkLike | Changing | DirectedNetwork | NetworkParts | Path,
    weights: str = "metropolis",
    seed: int = 0,
) -> NetworkParts:
    """Return the parts of a network, a network by name, a NetworkX graph, or a folder that `partition` wrote."""
    if isinstance(value, NetworkParts):
        return value
    if isinstance(value, str | PathLike):
        text = str(value)
        if is_sharded(Path(text)):
            return ShardedParts(Path(text), weights)
        kind, rest = split_name(text)
        if kind in NAMES and (rest is not None or not Path(text).exists()):
            return NamedParts(text, weights, seed)
        if Path(text).exists() or (kind in FORMATS and rest is not None):
            raise InvalidInput(
                f"a cluster reads a file in parts, and {text} is whole; write parts of it with gossamer partition, or "
                "read it with Network.read if all of it fits in the memory of every rank"
            )
        return NamedParts(text, weights, seed)  # whose error says what is wrong with the text
    return HeldParts(Network.of(value))
