"""Stochastic Lanczos quadrature: integrals over the spectrum of a matrix too large to decompose.

Lanczos started from v finds nodes and weights with v' f(L) v = sum_k w_k f(node_k), exact for polynomials of
degree 2 steps - 1. The bias is such a form in the means; the variance is a trace, the mean of such forms over
random probes. The constant mode is handled exactly and kept out of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from gossamer.arrays import Floats
from gossamer.networks import Network

PROBES = 12
LEAST_STEPS, MOST_STEPS = 60, 500


class Rule(NamedTuple):
    """Nodes on the spectrum, node 0 the constant mode, and what stands on each."""

    nodes: Floats  #: (G,)
    signal: Floats  #: (G,) of the means
    power: Floats  #: (G,) of the variance
    coarse_signal: Floats  #: (G,) the same from half the steps
    coarse_power: Floats  #: (G,)
    probes: Floats  #: (P, G) the power from each random probe alone


def quadrature(network: Network, mean: Floats, variance: Floats) -> Rule:
    """The rule for means (N, n) and for a variance per agent (N,)."""
    steps = int(
        np.clip(4 * np.sqrt(network.condition_number), LEAST_STEPS, min(MOST_STEPS, network.agents - 1))
    )
    center = mean.mean(axis=0)
    signals = [
        _both_rules(network.gossip, component, steps) for component in (mean - center).T if np.any(component)
    ]
    rng = np.random.default_rng(0)
    powers = []
    for _ in range(PROBES):
        probe = np.sqrt(variance) * rng.choice([-1.0, 1.0], network.agents)
        if np.any(probe):
            powers.append(_both_rules(network.gossip, probe - probe.mean(), steps))
    nodes = np.concatenate([np.zeros(1), *(points for points, _, _ in [*signals, *powers])])
    size = len(nodes)
    signal, power, coarse_signal, coarse_power = np.zeros((4, size))
    rule = Rule(nodes, signal, power, coarse_signal, coarse_power, np.zeros((PROBES, size)))
    rule.signal[0] = rule.coarse_signal[0] = network.agents * float((center**2).sum())
    rule.power[0] = rule.coarse_power[0] = rule.probes[:, 0] = variance.sum() / network.agents
    start = 1
    for points, fine, coarse in signals:
        here = slice(start, start := start + len(points))
        rule.signal[here], rule.coarse_signal[here] = fine, coarse
    for k, (points, fine, coarse) in enumerate(powers):
        here = slice(start, start := start + len(points))
        rule.power[here], rule.coarse_power[here] = fine / PROBES, coarse / PROBES
        rule.probes[k, here] = fine
    return rule


def _both_rules(gossip: sp.csr_matrix, start: Floats, steps: int) -> tuple[Floats, Floats, Floats]:
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


def _lanczos(gossip: sp.csr_matrix, start: Floats, steps: int) -> tuple[Floats, Floats]:
    """The tridiagonal matrix of `steps` Lanczos steps; no re-orthogonalization, which quadrature can do without."""
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


def _gauss(diagonal: Floats, beside: Floats) -> tuple[Floats, Floats]:
    nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside)
    return np.maximum(nodes, 0.0), vectors[0] ** 2
