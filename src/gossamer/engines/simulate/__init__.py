"""Simulation: many trials of a method, compiled, reproducible, in bounded memory."""

from gossamer.engines.simulate.dispatch import simulate as simulate
from gossamer.engines.simulate.result import Simulation as Simulation
