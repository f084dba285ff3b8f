"""Simulation: many trials of a method, compiled, reproducible, in bounded memory."""

from gossamer.engines.results import Simulation as Simulation
from gossamer.engines.simulate.engine import simulate as simulate
