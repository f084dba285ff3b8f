"""The weight of the observations on each eigenvalue of the network, and the integration of a response over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import scipy.fft

from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.engines.exact.per_agent import decomposed
from gossamer.engines.exact.propagation import Pass
from gossamer.networks import Network
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
        """Yield the measure in pieces of at most `size` nodes; sums over all pieces equal those over the whole."""
        for start in range(0, len(self.nodes), size):
            part = slice(start, start + size)
            yield replace(self, **{field.name: getattr(self, field.name)[part] for field in fields(self)})

    def sums(self, response: Floats, noise: Floats, rounds: Integers) -> Floats:
        """Return (S, H) sums over the nodes from responses (H, G, 2) and noise gains (H, G); `integral` reads them."""
        error = self.off_target(response, rounds)
        bias = np.einsum("hgi,gij,hgj->h", error, self.signal, error)
        return np.stack([bias, noise @ self.power])

    def fit(self, passes: Sequence[Pass]) -> Measure:
        """Return a measure for these passes; a full spectrum is valid for all of them."""
        return self

    @property
    def average(self) -> Measure:
        """Return the measure of the constant mode."""
        return next(self.parts(1))

    def thinned(self, size: int) -> Measure:
        """Return an approximation with at most `size` nodes: the smallest are kept, larger ones represent several."""
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
        """Return the integral from the sums over all nodes."""
        return Integral(np.where(sums[0] < 0, 0.0, sums[0]), sums[1], np.zeros_like(sums[0]))

    def off_target(self, response: Floats, rounds: Integers) -> Floats:
        """Return the response minus its target: the mean of the last round in the constant mode, 0 elsewhere."""
        wanted = np.column_stack([np.ones(len(rounds)), rounds - 1])[:, None] * self.constant[:, None]
        return np.asarray((response - wanted)[..., : self.signal.shape[1]])


@dataclass(frozen=True)
class Sampled(Measure):
    """A measure on Chebyshev nodes, from moments: exact for the means, sampled by random probes for the noise.

    Its weights have either sign. They integrate every polynomial of a degree below the number of nodes exactly.
    """

    known: Floats  #: (G,) the part that is known exactly
    probes: Floats  #: (G, P) the rest, according to each probe
    pilot: Floats  #: (G, P) the same for the pilot, which only determines the spread of probes
    scales: Floats  #: (G, 2) the total signal, and the largest variance of an agent

    @np.errstate(over="ignore", invalid="ignore")  # a method may diverge
    def sums(self, response: Floats, noise: Floats, rounds: Integers) -> Floats:
        error = self.off_target(response, rounds)[..., 0] ** 2
        # The sum over all parts of their largest values is at least the largest.
        largest = np.stack([error.max(axis=1), noise.max(axis=1)]) * self.scales[0, :, None]
        return np.vstack(
            [
                largest,
                error @ self.signal[:, 0, 0],
                noise @ self.known,
                (noise @ self.probes).T,
                (noise @ self.pilot).T,
            ]
        )

    def thinned(self, size: int) -> Measure:
        """Return a thinned measure after smoothing (Jackson's kernel), which makes all weights positive."""
        return Measure(self.nodes, self.constant, _smooth(self.signal), _smooth(self.power)).thinned(size)

    @np.errstate(over="ignore", invalid="ignore")
    def integral(self, sums: Floats) -> Integral:
        rounding, largest, bias, variance = sums[:4]
        probes, pilot = np.split(sums[4:], [self.probes.shape[1]])
        uncertainty = ROUNDING * rounding
        if count := len(probes):
            trace = np.maximum(probes.mean(axis=0), 0.0)
            variance = variance + trace
            if count == 1:  # a form in random signs has at most the variance 2 |A|_F^2 <= 2 |A| trace A
                uncertainty = uncertainty + np.sqrt(2 * largest * trace)
            else:
                # A larger spread of all probes together is used, because the pilot may have missed rare large ones.
                spread = spread_of(np.concatenate([pilot, probes]))
                spread = np.maximum(spread, spread_of(pilot)) if len(pilot) else spread
                uncertainty = uncertainty + spread / np.sqrt(count)
        integral = np.stack([np.where(bias < 0, 0.0, bias), variance, uncertainty])
        return Integral(*np.where(np.isfinite(integral), integral, np.inf))


ROUNDING = 2.0**-36
"""Rounding error of a bias, relative to the bias if all modes had the largest response."""


def spread_of(probes: Floats) -> Floats:
    """Return the standard deviation of probes (P, H), slightly enlarged because it is estimated.

    For normal probes, (mean - truth) / spread with the mean of other probes has a scaled Student's t distribution with
    unit variance."""
    count = len(probes)
    return np.asarray(probes.std(axis=0, ddof=1) * np.sqrt((count - 1) / (count - 3)))


def measure(network: Network, observations: Observations) -> Measure:
    """Return the measure of these observations on a network with a full spectrum.

    Arbitrarily moving means have no signal here; their bias is computed by following them (`moving_bias`).
    """
    drifting = bool(np.any(observations.drift))
    total = observations.variance.sum(axis=1)
    spectrum = decomposed(network, "exact errors")
    signals = [observations.mean, observations.drift] if drifting else [observations.mean]
    modes = np.stack([spectrum.analyze(signal) for signal in signals], axis=1)  # (modes, K, n)
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


IN_FLIGHT = 2**22
"""Number of responses in memory at a time."""


def integrate(
    passes: Sequence[Pass], network: Network, observations: Observations, over: Measure
) -> Integral:
    """Return bias, variance and uncertainty for every horizon of the passes, in the requested order."""
    count = sum(len(run.which) for run in passes)
    bias, variance, uncertainty = np.empty((3, count))
    for run in passes:
        parts = over.parts(max(1, IN_FLIGHT // len(run.which)))
        sums = sum(part.sums(*run.propagate(part.nodes), run.ends) for part in parts)
        bias[run.which], variance[run.which], uncertainty[run.which] = over.integral(np.asarray(sums))
        if observations.moving:
            bias[run.which] = moving_bias(run, network, observations)
    return Integral(bias, variance, uncertainty)


def moving_bias(run: Pass, network: Network, observations: Observations) -> Floats:
    """Return (H,) the squared bias of every horizon of a pass for arbitrarily moving means."""
    spectrum = decomposed(network, "exact errors of moving means")
    shape = (network.agents, observations.components)
    targets = (
        spectrum.analyze(np.broadcast_to(observations.target(t), shape).copy()) for t in run.ends.tolist()
    )
    expected = run.expected(spectrum, observations)
    return np.array([(np.abs(e - t) ** 2).sum() for e, t in zip(expected, targets, strict=True)])


def jackson(size: int) -> Floats:
    """Return (size,) factors with which a truncated Chebyshev series of a positive function stays positive."""
    j, angle = np.arange(size), np.pi / (size + 1)
    return np.asarray(((size + 1 - j) * np.cos(j * angle) + np.sin(j * angle) / np.tan(angle)) / (size + 1))


def _smooth(weights: Floats) -> Floats:
    """Return weights on the constant mode and on Chebyshev nodes, the latter smoothed."""
    rest = weights[1:]
    factors = jackson(len(rest)).reshape(-1, *([1] * (rest.ndim - 1)))
    smooth = scipy.fft.idct(scipy.fft.dct(rest, axis=0) * factors, axis=0)
    return np.concatenate([weights[:1], np.maximum(smooth, 0.0)])


def _constant(nodes: AnyArray) -> Floats:
    constant = np.zeros(len(nodes))
    constant[0] = 1.0
    return constant
