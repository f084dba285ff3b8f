"""Simulation with lost messages and crashed agents: the edge ledger."""

from gossamer.engines.faulty.faulty_simulation import simulate_faulty as simulate_faulty
from gossamer.engines.faulty.result import FaultySimulation as FaultySimulation
