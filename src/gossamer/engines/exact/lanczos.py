"""Stochastic Lanczos quadrature: integrals over the spectrum of a matrix too large to decompose.

Lanczos started from v finds nodes and weights with v' f(L) v = sum_k w_k f(node_k), exact for polynomials of
degree 2 steps - 1. The bias is such a form in the means; the variance is a trace, the mean of such forms over
random probes. The constant mode is handled exactly and kept out of both.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from gossamer.networks import Network

Array = NDArray[np.float64]

PROBES = 12
LEAST_STEPS, MOST_STEPS = 60, 500


def measure(network: Network, mean: Array, variance: Array) -> tuple[Array, ...]:
    """Return nodes, signal (G,1,1), power (G,), coarse signal, coarse power and power per probe (P, G)."""
    steps = int(
        np.clip(4 * np.sqrt(network.condition_number), LEAST_STEPS, min(MOST_STEPS, network.agents - 1))
    )
    nodes = [np.zeros(1)]
    signal = [np.array([network.agents * float((mean.mean(axis=0) ** 2).sum())])]
    kinds: list[tuple[str, Array, Array, Array]] = []
    for component in (mean - mean.mean(axis=0)).T:
        if np.any(component):
            kinds.append(("signal", *_both_rules(network.gossip, component, steps)))
    rng = np.random.default_rng(0)
    for _ in range(PROBES):
        probe = np.sqrt(variance) * rng.choice([-1.0, 1.0], network.agents)
        if np.any(probe):
            kinds.append(("power", *_both_rules(network.gossip, probe - probe.mean(), steps)))
    size = 1 + sum(len(kind[1]) for kind in kinds)
    table = np.zeros((4 + PROBES, size))  # signal, power, coarse signal, coarse power, one row per probe
    table[0, 0] = table[2, 0] = signal[0][0]
    table[1, 0] = table[3, 0] = table[4:, 0] = variance.sum() / network.agents
    start, probe_number = 1, 0
    for kind, points, fine, coarse in kinds:
        here = slice(start, start + len(points))
        nodes.append(points)
        if kind == "signal":
            table[0, here], table[2, here] = fine, coarse
        else:
            table[1, here], table[3, here] = fine / PROBES, coarse / PROBES
            table[4 + probe_number, here] = fine
            probe_number += 1
        start = here.stop
    return np.concatenate(nodes), table[0][:, None, None], table[1], table[2], table[3], table[4:]


def _both_rules(gossip: sp.csr_matrix, start: Array, steps: int) -> tuple[Array, Array, Array]:
    """Nodes with the weights of the full rule and of the rule with half the steps (zero where it has no node)."""
    diagonal, beside = _lanczos(gossip, start, steps)
    half = max(2, len(diagonal) // 2)
    fine, fine_weights = _gauss(diagonal, beside)
    coarse, coarse_weights = _gauss(diagonal[:half], beside[: half - 1])
    energy = float(start @ start)
    return (
        np.concatenate([fine, coarse]),
        np.concatenate([energy * fine_weights, np.zeros(len(coarse))]),
        np.concatenate([np.zeros(len(fine)), energy * coarse_weights]),
    )


def _lanczos(gossip: sp.csr_matrix, start: Array, steps: int) -> tuple[Array, Array]:
    """The tridiagonal matrix of `steps` Lanczos steps; no re-orthogonalisation, which quadrature can do without."""
    diagonal, beside = [], []
    previous = np.zeros_like(start)
    current = start / np.linalg.norm(start)
    size = 0.0
    for _ in range(steps):
        following = gossip @ current - size * previous
        diagonal.append(float(following @ current))
        following -= diagonal[-1] * current
        following -= following.mean()  # rounding must not bring the constant mode back
        size = float(np.linalg.norm(following))
        if size < 1e-12:
            break
        beside.append(size)
        previous, current = current, following / size
    return np.array(diagonal), np.array(beside[: len(diagonal) - 1])


def _gauss(diagonal: Array, beside: Array) -> tuple[Array, Array]:
    nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside)
    return np.maximum(nodes, 0.0), vectors[0] ** 2
