"""Expected errors agent by agent."""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Floats
from gossamer.engines.exact.propagation import impulse_response, propagate
from gossamer.errors import Unsupported
from gossamer.methods import Table
from gossamer.networks import DENSE_LIMIT, Network
from gossamer.networks.spectrum import Spectrum
from gossamer.observations import Observations


def decomposed(network: Network, what: str) -> Spectrum:
    """Return the full spectrum, or say why `what` needs it."""
    if network.spectrum is None:
        raise Unsupported(
            f"{what} need a full spectrum: at most {DENSE_LIMIT} agents (this network has {network.agents}), or path, "
            "cycle, star, complete, torus, hypercube of any size; gs.simulate gives them by sampling"
        )
    return network.spectrum


def per_agent_errors(table: Table, network: Network, observations: Observations) -> Floats:
    """(N,) the expected squared error of each agent at the end of the table."""
    spectrum = decomposed(network, "errors per agent")
    response, noise = propagate(table, spectrum.eigenvalues, np.array([table.rounds]))
    expected = spectrum.synthesize(response[0, :, :1] * spectrum.analyze(observations.mean))
    if np.any(observations.drift):
        expected = expected + spectrum.synthesize(response[0, :, 1:] * spectrum.analyze(observations.drift))
    bias = ((expected - observations.target(table.rounds)) ** 2).sum(axis=1)
    total = observations.variance.sum(axis=1)
    if np.ptp(total) == 0:
        variance = np.real(spectrum.spread(noise[0])) * total[0]
    else:
        variance = _unequal_variances(table, network, spectrum, total)
    return np.asarray(bias + variance)


def _unequal_variances(table: Table, network: Network, spectrum: Spectrum, total: Floats) -> Floats:
    """Different noise at different agents couples the modes: sum_t g_t(m) g_t(m') is all that is needed."""
    if network.agents > DENSE_LIMIT:
        raise Unsupported(
            f"errors per agent with unequal variances are computed for at most {DENSE_LIMIT} agents, "
            f"but this network has {network.agents}; gs.simulate gives them by sampling"
        )
    scaled = impulse_response(table, spectrum) * table.noise_scale[:, None]
    basis = spectrum.analyze(np.eye(network.agents)).conj().T
    coupling = basis.conj().T @ (total[:, None] * basis)
    return np.real(
        np.einsum("im,mk,ik->i", basis, (scaled.T @ scaled) * coupling, basis.conj(), optimize=True)
    )
