"""What the observations put on each eigenvalue of the network, and how a response is integrated over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.engines.exact import lanczos
from gossamer.errors import Unsupported
from gossamer.networks import DENSE_LIMIT, Network
from gossamer.observations import Observations


class Integral(NamedTuple):
    """The two parts of a total error, and the standard error of their sum; (H,) each."""

    bias: Floats
    variance: Floats
    uncertainty: Floats


@dataclass(frozen=True)
class Measure:
    """A full spectrum: node 0 is the constant mode. The nodes are the first axis of every array."""

    nodes: Floats  #: (G,)
    constant: Floats  #: (G,) 1 for the constant mode, otherwise 0
    signal: Floats  #: (G, K, K) Gram matrix of mean (K = 1), or of mean and drift (K = 2), on the node
    power: Floats  #: (G,) variance on the node

    def parts(self, size: int) -> Iterator[Measure]:
        """The same in pieces of at most `size` nodes; sums over all pieces are those over the whole."""
        for start in range(0, len(self.nodes), size):
            here = slice(start, start + size)
            yield replace(self, **{field.name: getattr(self, field.name)[here] for field in fields(self)})

    def sums(self, response: Floats, noise: Floats, rounds: Integers) -> Floats:
        """(S, H) sums over the nodes from responses (H, G, 2) and noise gains (H, G); `integral` reads them."""
        error = self.off_target(response, rounds)
        bias = np.einsum("hgi,gij,hgj->h", error, self.signal, error)
        return np.stack([bias, noise @ self.power])

    def thinned(self, size: int) -> Measure:
        """About the same with at most `size` nodes: the smallest stay, larger ones stand for more of their kind."""
        if len(self.nodes) <= size:
            return self
        order = np.argsort(self.nodes, kind="stable")
        edges = np.unique(np.geomspace(1, len(order), size).astype(int)) - 1
        power, signal = self.power[order], self.signal[order]
        weight = power + np.trace(signal, axis1=1, axis2=2) + np.finfo(float).tiny
        return Measure(
            nodes=np.add.reduceat(weight * self.nodes[order], edges) / np.add.reduceat(weight, edges),
            constant=self.constant[order][edges],
            signal=np.add.reduceat(signal, edges),
            power=np.add.reduceat(power, edges),
        )

    def integral(self, sums: Floats) -> Integral:
        """What the sums over all nodes say."""
        return Integral(np.where(sums[0] < 0, 0.0, sums[0]), sums[1], np.zeros_like(sums[0]))

    def off_target(self, response: Floats, rounds: Integers) -> Floats:
        """Response minus what it should be: in the constant mode the mean of the last round, elsewhere nothing."""
        wanted = np.column_stack([np.ones(len(rounds)), rounds - 1])[:, None] * self.constant[:, None]
        return np.asarray((response - wanted)[..., : self.signal.shape[1]])


@dataclass(frozen=True)
class Quadrature(Measure):
    """A measure known through Lanczos nodes; three rules tell how far to trust it."""

    coarse_signal: Floats  #: (G,) the same signal from half the steps
    coarse_power: Floats  #: (G,)
    probes: Floats  #: (G, P) one estimate of the power per random probe

    def sums(self, response: Floats, noise: Floats, rounds: Integers) -> Floats:
        error = self.off_target(response, rounds)[..., 0] ** 2
        on_nodes = noise @ np.column_stack([self.power, self.coarse_power, self.probes])
        return np.vstack([error @ self.signal[:, 0, 0], error @ self.coarse_signal, on_nodes.T])

    def integral(self, sums: Floats) -> Integral:
        bias, coarse_bias, variance, coarse_variance, *each = sums
        sampling = np.std(each, axis=0, ddof=1) / np.sqrt(len(each))
        uncertainty = np.sqrt(sampling**2 + (bias - coarse_bias) ** 2 + (variance - coarse_variance) ** 2)
        return Integral(bias, variance, uncertainty)


def measure(network: Network, observations: Observations) -> Measure:
    """The measure of these observations on this network: from its spectrum, or by Lanczos quadrature.

    Means that move in their own way have no signal here: their bias is found by following them (`moving_bias`).
    """
    drifting = bool(np.any(observations.drift))
    total = observations.variance.sum(axis=1)
    spectrum = network.spectrum
    if spectrum is None:
        if drifting or observations.moving:
            raise Unsupported(
                f"exact errors of {'moving' if observations.moving else 'drifting'} means need a full spectrum: at "
                f"most {DENSE_LIMIT} agents, or path, cycle, star, complete, torus, hypercube of any size; use "
                "gs.simulate instead"
            )
        found = lanczos.quadrature(network, observations.mean, total)
        return Quadrature(
            found.nodes,
            _constant(found.nodes),
            found.signal[:, None, None],
            found.power,
            found.coarse_signal,
            found.coarse_power,
            found.probes.T,
        )
    signals = [observations.mean, observations.drift] if drifting else [observations.mean]
    modes = np.stack([spectrum.analyze(each) for each in signals], axis=1)  # (modes, K, n)
    gram = np.real(np.einsum("min,mjn->mij", modes.conj(), modes))
    if observations.moving:
        gram = np.zeros_like(gram)
    flat = np.ptp(total) == 0
    power = np.full(len(modes), total[0]) if flat else np.real(spectrum.energy(total))
    # Equal eigenvalues behave alike, so symmetric graphs need far fewer recursions than agents.
    order = np.argsort(spectrum.eigenvalues, kind="stable")
    sorted_values = spectrum.eigenvalues[order]
    new = np.diff(sorted_values, prepend=-1.0) > 4e-15 * sorted_values[-1]
    starts = np.flatnonzero(new)
    return Measure(
        nodes=sorted_values[starts],
        constant=_constant(starts),
        signal=np.add.reduceat(gram[order], starts),
        power=np.add.reduceat(power[order], starts),
    )


def _constant(nodes: AnyArray) -> Floats:
    found = np.zeros(len(nodes))
    found[0] = 1.0
    return found
