"""A method run on very many streams of few agents and in few trials: lanes are agents.

The simulation engine puts trials side by side, which starves when there are thousands of components (states of
a Markov process) and a handful of trials. Here every (trial, component) is a task of its own. The samples are
those of the engine, number for number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gossamer import _random
from gossamer._random import OBSERVATION, fill_normals_agents
from gossamer.methods.base import Method
from gossamer.methods.table import tabulate
from gossamer.network import Network
from gossamer.observations import Gaussian

Array = NDArray[Any]


def average_streams(
    method: Method,
    network: Network,
    observations: Gaussian,
    horizons: NDArray[np.int64],
    trials: int,
    seed: int,
    first_trial: int,
) -> NDArray[np.float64]:
    """(H, trials, N, n): what `simulate(...).estimates` is."""
    tables = [tabulate(method, network, int(t)) for t in horizons]
    longest = int(np.argmax(horizons))
    shared = all(table.starts_like(tables[longest]) for table in tables)
    out = np.empty((len(horizons), trials, observations.components, network.agents))
    gossip = network.gossip
    passes = (
        [(longest, np.argsort(horizons, kind="stable"))]
        if shared
        else [(h, [h]) for h in range(len(horizons))]
    )
    for leader, which in passes:
        table = tables[leader]
        scale = np.where(table.batches > 0, 1 / np.sqrt(np.maximum(table.batches, 1)), 0.0)
        part = np.empty((len(which), *out.shape[1:]))
        _run(
            part, horizons[which], table.message_state, table.message_input, table.step_state, table.step_input,
            table.step_mixed, table.estimate_state, scale, np.ascontiguousarray(observations.mean.T),
            np.ascontiguousarray(observations.std.T), _random.key(seed), first_trial, gossip.indptr, gossip.indices,
            gossip.data,
        )  # fmt: skip
        out[which] = part
    return np.swapaxes(out, 2, 3)


@njit(cache=True, parallel=True, fastmath={"contract"}, error_model="numpy")
def _run(
    out: Array,  # (H, trials, n, N)
    horizons: NDArray[np.int64],  # ascending
    message_state: Array,
    message_input: Array,
    step_state: Array,
    step_input: Array,
    step_mixed: Array,
    estimate_state: Array,
    scale: Array,
    mean: Array,  # (n, N)
    std: Array,
    key: np.uint64,
    first_trial: int,
    indptr: Array,
    indices: Array,
    gossip: Array,
) -> None:
    trials, components, agents = out.shape[1:]
    rounds, size = message_state.shape
    for task in prange(trials * components):
        trial, c = task // components, task % components
        state = np.zeros((size, agents))
        fresh = np.zeros((size, agents))
        noise = np.empty((4, agents))
        seen = np.empty(agents)
        told = np.empty(agents)
        mixed = np.empty(agents)
        h = 0
        for t in range(rounds):
            if t % 4 == 0:
                fill_normals_agents(noise, key, OBSERVATION, t // 4, 0, c, first_trial + trial)
            for i in range(agents):
                seen[i] = mean[c, i] + std[c, i] * scale[t] * noise[t % 4, i]
                told[i] = message_input[t] * seen[i]
            for r in range(size):
                weight = message_state[t, r]
                if weight != 0.0:
                    for i in range(agents):
                        told[i] += weight * state[r, i]
            for i in range(agents):
                total = 0.0
                for e in range(indptr[i], indptr[i + 1]):
                    total += gossip[e] * told[indices[e]]
                mixed[i] = total
            for r in range(size):
                own, heard = step_input[t, r], step_mixed[t, r]
                for i in range(agents):
                    fresh[r, i] = own * seen[i] + heard * mixed[i]
                for k in range(size):
                    weight = step_state[t, r, k]
                    if weight != 0.0:
                        for i in range(agents):
                            fresh[r, i] += weight * state[k, i]
            state, fresh = fresh, state
            while h < horizons.size and horizons[h] == t + 1:
                for i in range(agents):
                    total = 0.0
                    for r in range(size):
                        total += estimate_state[t, r] * state[r, i]
                    out[h, trial, c, i] = total
                h += 1
