"""The memory promise: an agent's process loads no compiler, no SciPy, no graphs and no plotting."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_an_agents_process_does_without_the_heavy_packages() -> None:
    program = """
import sys
import gossamer.agents.host.process, gossamer.agents.transports.tls, gossamer.agents.host.metrics
import gossamer.agents.transports.memory, gossamer.agents.fleet.local
import gossamer.agents.fleet.survey, gossamer.agents.host.web
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert {"gossamer", "numpy", "msgspec"} <= loaded
    assert not loaded & {"numba", "llvmlite", "scipy", "networkx", "matplotlib", "typer", "rich"}
