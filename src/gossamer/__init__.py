"""Gossamer: every agent of a network learns the average of all noisy streams, talking only to its neighbors.

    import gossamer as gs

    net = gs.Network.grid(10, 10)
    obs = gs.Gaussian(mean, std=1.0)
    gs.exact(gs.AnytimeSDA(), net, obs, rounds=1500).total_error

Names are imported when first used, so that a deployed agent does not load compilers and plotting.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Network": "networks",
    "Bernoulli": "observations",
    "Drifting": "observations",
    "Empirical": "observations",
    "Gaussian": "observations",
    "Observations": "observations",
    "StudentT": "observations",
    "Uniform": "observations",
    "AnytimeSDA": "methods",
    "BroadcastGossip": "methods",
    "ChebyshevAveraging": "methods",
    "DASG": "methods",
    "DMASG": "methods",
    "DSG": "methods",
    "LinearIteration": "methods",
    "METHODS": "methods",
    "MSDA": "methods",
    "Method": "methods",
    "PairwiseGossip": "methods",
    "RRMA": "methods",
    "SDA": "methods",
    "SSDA": "methods",
    "SSTM": "methods",
    "Exact": "engines.exact",
    "exact": "engines.exact",
    "Simulation": "engines.simulate",
    "simulate": "engines.simulate",
    "LinearEstimation": "applications",
    "PolicyEvaluation": "applications",
    "Plan": "planning",
    "plan": "planning",
    "tune": "planning",
    "Agent": "agents.agent",
    "AgentSettings": "agents.settings",
    "Neighbor": "agents.settings",
    "GossamerError": "errors",
    "InvalidInput": "errors",
    "InvalidNetwork": "errors",
    "MissingExtra": "errors",
    "OutputError": "errors",
    "Unsupported": "errors",
}
_MODULES = ("faults", "theory")

if TYPE_CHECKING:
    from gossamer import faults as faults
    from gossamer import theory as theory
    from gossamer.agents.agent import Agent as Agent
    from gossamer.agents.settings import AgentSettings as AgentSettings
    from gossamer.agents.settings import Neighbor as Neighbor
    from gossamer.applications import LinearEstimation as LinearEstimation
    from gossamer.applications import PolicyEvaluation as PolicyEvaluation
    from gossamer.engines.exact import Exact as Exact
    from gossamer.engines.exact import exact as exact
    from gossamer.engines.simulate import Simulation as Simulation
    from gossamer.engines.simulate import simulate as simulate
    from gossamer.errors import GossamerError as GossamerError
    from gossamer.errors import InvalidInput as InvalidInput
    from gossamer.errors import InvalidNetwork as InvalidNetwork
    from gossamer.errors import MissingExtra as MissingExtra
    from gossamer.errors import OutputError as OutputError
    from gossamer.errors import Unsupported as Unsupported
    from gossamer.methods import DASG as DASG
    from gossamer.methods import DMASG as DMASG
    from gossamer.methods import DSG as DSG
    from gossamer.methods import METHODS as METHODS
    from gossamer.methods import MSDA as MSDA
    from gossamer.methods import RRMA as RRMA
    from gossamer.methods import SDA as SDA
    from gossamer.methods import SSDA as SSDA
    from gossamer.methods import SSTM as SSTM
    from gossamer.methods import AnytimeSDA as AnytimeSDA
    from gossamer.methods import BroadcastGossip as BroadcastGossip
    from gossamer.methods import ChebyshevAveraging as ChebyshevAveraging
    from gossamer.methods import LinearIteration as LinearIteration
    from gossamer.methods import Method as Method
    from gossamer.methods import PairwiseGossip as PairwiseGossip
    from gossamer.networks import Network as Network
    from gossamer.observations import Bernoulli as Bernoulli
    from gossamer.observations import Drifting as Drifting
    from gossamer.observations import Empirical as Empirical
    from gossamer.observations import Gaussian as Gaussian
    from gossamer.observations import Observations as Observations
    from gossamer.observations import StudentT as StudentT
    from gossamer.observations import Uniform as Uniform
    from gossamer.planning import Plan as Plan
    from gossamer.planning import plan as plan
    from gossamer.planning import tune as tune


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"gossamer.{name}")
    if name in _HOME:
        value = getattr(import_module(f"gossamer.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gossamer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_MODULES])
