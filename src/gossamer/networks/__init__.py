"""Networks of agents: topologies, gossip weights, spectra, and graphs from files and NetworkX."""

from gossamer.networks.changing import AnyNetwork as AnyNetwork
from gossamer.networks.changing import ChangingNetwork as ChangingNetwork
from gossamer.networks.changing import changing_of as changing_of
from gossamer.networks.changing import network_of as network_of
from gossamer.networks.directed import DirectedNetwork as DirectedNetwork
from gossamer.networks.gossip import DENSE_LIMIT as DENSE_LIMIT
from gossamer.networks.links import WEIGHTS as WEIGHTS
from gossamer.networks.network import Changing as Changing
from gossamer.networks.network import Graph as Graph
from gossamer.networks.network import Network as Network
from gossamer.networks.network import NetworkLike as NetworkLike

__all__ = ["ChangingNetwork", "DirectedNetwork", "Network"]
