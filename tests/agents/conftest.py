"""Lets the tests of agents import what they share (`small_fleets`, `agent_process`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
