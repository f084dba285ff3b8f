"""Expected errors agent by agent."""

from __future__ import annotations

import numpy as np

from gossamer.arrays import Floats, Integers
from gossamer.engines.exact.propagation import impulse_response, trajectory
from gossamer.errors import Unsupported
from gossamer.methods import Method, Table, tabulate
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


def per_agent_errors(
    method: Method, network: Network, observations: Observations, horizons: Integers
) -> Floats:
    """Return (H, N) the expected squared error of each agent after each of several numbers of rounds."""
    spectrum = decomposed(network, "errors per agent")
    total = observations.variance.sum(axis=1)
    alike = np.ptp(total) == 0
    errors = np.empty((len(horizons), network.agents))
    for run in trajectory(method, network, horizons):
        response, noise = run.propagate(spectrum.eigenvalues)
        if observations.moving:
            modes = run.expected(spectrum, observations)
        else:
            modes = response[..., :1] * spectrum.analyze(observations.mean)
            if np.any(observations.drift):
                modes = modes + response[..., 1:] * spectrum.analyze(observations.drift)
        for k, (which, rounds) in enumerate(zip(run.which.tolist(), run.ends.tolist(), strict=True)):
            off = np.real(spectrum.synthesize(modes[k])) - observations.target(rounds)
            if alike:
                variance = np.real(spectrum.spread(noise[k])) * total[0]
            else:
                variance = _unequal_variances(tabulate(method, network, rounds), network, spectrum, total)
            errors[which] = (off**2).sum(axis=1) + variance
    return errors


def _unequal_variances(table: Table, network: Network, spectrum: Spectrum, total: Floats) -> Floats:
    """Return the variances if agents have different noise, which couples the modes by sum_t g_t(m) g_t(m')."""
    if network.agents > DENSE_LIMIT:
        raise Unsupported(
            f"errors per agent with unequal variances are computed for at most {DENSE_LIMIT} agents, "
            f"but this network has {network.agents}; gs.simulate gives them by sampling"
        )
    scaled = impulse_response(table, spectrum.eigenvalues) * table.noise_scale[:, None]
    basis = spectrum.analyze(np.eye(network.agents)).conj().T
    coupling = basis.conj().T @ (total[:, None] * basis)
    return np.real(
        np.einsum("im,mk,ik->i", basis, (scaled.T @ scaled) * coupling, basis.conj(), optimize=True)
    )
