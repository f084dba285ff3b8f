"""Chunks that play several rounds while they are in the cache give the numbers of one round after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.simulate import agent_lanes, layouts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "several"),
    [
        (lambda: gs.Network.grid(300, 200), True),
        (lambda: gs.Network.path(40_000), True),
        (lambda: gs.Network.grid(30, 1400), True),  # neighbors up to three chunks apart, in 83 chunks
        (lambda: gs.Network.cycle(30_000), False),  # the last agent hears the first one
    ],
    ids=["grid", "path", "wide grid", "cycle"],
)
def test_waves_change_no_number(
    make: Callable[[], gs.Network], several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, method = make(), gs.SDA(step_size=0.6, momentum=0.9)  # which asks for no spectrum
    observations = gs.Gaussian(np.random.default_rng(1).uniform(0, 10, network.agents))
    wave_depth, depths = agent_lanes.wave_depth, []

    def simulate(deep: int, threads: int) -> Any:
        def depth(*arguments: Any) -> int:
            depths.append(min(deep, wave_depth(*arguments)))
            return depths[-1]

        monkeypatch.setattr(agent_lanes, "wave_depth", depth)
        monkeypatch.setattr(layouts, "get_num_threads", lambda: threads)
        return gs.simulate(method, network, observations, [1, 2, 9, 30], 2, seed=4, progress=False)

    monkeypatch.setattr(layouts, "CACHE", 0)  # the agents of a trial are dealt out to all threads
    plain = simulate(deep=1, threads=1)
    for deep, threads in [(16, 1), (16, 2), (5, 3)]:
        waves = simulate(deep, threads)
        assert np.array_equal(waves.estimates, plain.estimates)
        assert np.array_equal(waves.errors, plain.errors)
    assert (max(depths) > 1) == several
