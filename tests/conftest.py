from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import numpy as np
import pytest

import gossamer as gs
from tests.support.processes import guard
from tests.support.processes import processes_end as processes_end

hypothesis.settings.register_profile("gossamer", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("gossamer")
os.environ.setdefault("MPLBACKEND", "agg")


def pytest_configure() -> None:
    """Python prefers a compiled module to its source, so one that is older than its source would be tested unseen."""
    guard()
    for compiled in Path(gs.__file__).parent.rglob("*.so"):
        name = compiled.name.split(".")[0]
        for source in compiled.parent.glob(f"{name}.p*"):
            if source.stat().st_mtime > compiled.stat().st_mtime:
                pytest.exit(
                    f"{source.name} is newer than {compiled.name}; compile it: make setup", returncode=4
                )


LONG = (
    *("test_warmup.py", "test_packaging.py", "test_cluster.py", "test_fleet_tutorial.py", "test_figures.py"),
    *(
        "test_second_agent.py",
        "test_changes_live.py",
        "test_behind_nat.py",
        "test_deploy.py",
        "test_live_fleet.py",
    ),
)
"""Test modules that take longest: they start first, so that no worker is left with one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture(scope="session")
def five_networks():
    return {
        "path": gs.Network.path(100),
        "cycle": gs.Network.cycle(100),
        "star": gs.Network.star(100),
        "grid": gs.Network.grid(10, 10),
        "erdos-renyi": gs.Network.erdos_renyi(100, seed=1),
    }


@pytest.fixture(scope="session")
def small():
    """A small irregular network with unequal noise."""
    rng = np.random.default_rng(5)
    net = gs.Network.erdos_renyi(12, p=0.3, seed=3)
    return net, gs.Gaussian(rng.uniform(0, 10, 12), rng.uniform(0.5, 2, 12))
