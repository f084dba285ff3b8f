"""Simulation with messages lost and agents dying: the edge ledger."""

from gossamer.engines.faulty.engine import simulate_faulty as simulate_faulty
from gossamer.engines.results import FaultySimulation as FaultySimulation
