"""What the observations put on each eigenvalue of the network, and how a response is integrated over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gossamer.arrays import Floats
from gossamer.engines.exact import lanczos
from gossamer.errors import Unsupported
from gossamer.networks import DENSE_LIMIT, Network
from gossamer.observations import Observations


class Integral(NamedTuple):
    """The two parts of a total error, and the standard error of their sum."""

    bias: float
    variance: float
    uncertainty: float


@dataclass(frozen=True)
class Measure:
    """A full spectrum: node 0 is the constant mode."""

    nodes: Floats  #: (G,)
    signal: Floats  #: (G, 2, 2) Gram matrix of mean and drift on the node
    power: Floats  #: (G,) variance on the node

    def integrate(self, response: Floats, noise: Floats, rounds: int) -> Integral:
        error = self.off_target(response, rounds)
        bias = float(np.einsum("gi,gij,gj->", error, self.signal, error))
        return Integral(max(bias, 0.0), float(noise @ self.power), 0.0)

    @staticmethod
    def off_target(response: Floats, rounds: int) -> Floats:
        """Response minus what it should be: in the constant mode the mean of the last round, elsewhere nothing."""
        error = response.copy()
        error[0] -= (1.0, rounds - 1)
        return error


@dataclass(frozen=True)
class Quadrature(Measure):
    """A measure known through Lanczos nodes; three rules tell how far to trust it."""

    coarse_signal: Floats  #: (G,) the same signal from half the steps
    coarse_power: Floats  #: (G,)
    probes: Floats  #: (P, G) one estimate of the power per random probe

    def integrate(self, response: Floats, noise: Floats, rounds: int) -> Integral:
        error = self.off_target(response, rounds)[:, 0] ** 2
        bias, coarse_bias = float(error @ self.signal[:, 0, 0]), float(error @ self.coarse_signal)
        each = self.probes @ noise
        variance, coarse_variance = float(noise @ self.power), float(noise @ self.coarse_power)
        sampling = each.std(ddof=1) / np.sqrt(len(each))
        uncertainty = np.sqrt(sampling**2 + (bias - coarse_bias) ** 2 + (variance - coarse_variance) ** 2)
        return Integral(bias, variance, float(uncertainty))


def measure(network: Network, observations: Observations) -> Measure:
    """The measure of these observations on this network: from its spectrum, or by Lanczos quadrature."""
    drifting = bool(np.any(observations.drift))
    total = observations.variance.sum(axis=1)
    spectrum = network.spectrum
    if spectrum is None:
        if drifting:
            raise Unsupported(
                f"exact errors of drifting means need a full spectrum: at most {DENSE_LIMIT} agents, or path, "
                "cycle, star, complete, torus, hypercube of any size; use gs.simulate instead"
            )
        found = lanczos.quadrature(network, observations.mean, total)
        return Quadrature(
            found.nodes,
            found.signal[:, None, None],
            found.power,
            found.coarse_signal,
            found.coarse_power,
            found.probes,
        )
    level = spectrum.analyze(observations.mean)
    slope = spectrum.analyze(observations.drift) if drifting else np.zeros_like(level)
    modes = np.stack([level, slope], axis=1)  # (modes, 2, n)
    gram = np.real(np.einsum("min,mjn->mij", modes.conj(), modes))
    flat = np.ptp(total) == 0
    power = np.full(len(modes), total[0]) if flat else np.real(spectrum.energy(total))
    # Equal eigenvalues behave alike, so symmetric graphs need far fewer recursions than agents.
    order = np.argsort(spectrum.eigenvalues, kind="stable")
    sorted_values = spectrum.eigenvalues[order]
    new = np.diff(sorted_values, prepend=-1.0) > 4e-15 * sorted_values[-1]
    starts = np.flatnonzero(new)
    return Measure(
        nodes=sorted_values[starts],
        signal=np.add.reduceat(gram[order], starts),
        power=np.add.reduceat(power[order], starts),
    )
