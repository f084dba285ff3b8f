r"""The expected cost of masks that cancel.

In mode m, masks of scale s add the energy :math:`s^2 e_m` to the means, with :math:`e_m = \sum_{(i,j)} |q_{im} -
q_{jm}|^2` over the edges. Constant masks therefore cost :math:`s^2 \sum_m h_m^2 e_m`, with the method's response
:math:`h_m` to the means. Masks that change each round cost the sum over the rounds r of the same with the response to
the increment of round r and its scale s/(r + 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gossamer.arrays import Floats
from gossamer.engines.exact.per_agent import decomposed
from gossamer.engines.exact.propagation import Pass, impulse_response
from gossamer.methods import Method, tabulate
from gossamer.networks import Network
from gossamer.networks.spectrum import Spectrum
from gossamer.observations import Masked, incidence


def mask_cost(method: Method, network: Network, streams: Masked, passes: Sequence[Pass]) -> Floats:
    """Return (H,) the total error due to masks and noise at every horizon of the passes."""
    spectrum = decomposed(network, "exact errors with masks")
    energy = (streams.scales**2).sum() * _edge_energy(network, spectrum)
    noise = np.full(len(energy), streams.components * streams.masks.noise**2)
    cost = np.empty(sum(len(part.which) for part in passes))
    for part in passes:
        response, _ = part.propagate(spectrum.eigenvalues)
        squares = response[..., 0] ** 2
        if streams.masks.refresh:
            cost[part.which] = squares @ noise + [
                _refreshed(impulse_response(tabulate(method, network, end), spectrum.eigenvalues)) @ energy
                for end in part.ends.tolist()
            ]
        else:
            cost[part.which] = squares @ (energy + noise)
    return cost


def _refreshed(weights: Floats) -> Floats:
    """Return (modes,) the cost of masks of scale 1 from the weights (T, modes) of the observations.

    The increment of round r shifts the observation of that round by r + 1 times itself, and all later ones by itself.
    """
    ages = np.arange(1.0, len(weights) + 1)[:, None]
    later = weights[::-1].cumsum(axis=0)[::-1] - weights
    return np.asarray(((weights + later / ages) ** 2).sum(axis=0))


def _edge_energy(network: Network, spectrum: Spectrum) -> Floats:
    """Return (modes,) the sum over the edges of the squared differences of an eigenvector."""
    links = network.links
    if len(links.weights) == 1:  # the gossip matrix is the Laplacian of the edges, times their weight
        return np.asarray(spectrum.eigenvalues / (links.weights[0] * links.scale))
    modes = spectrum.synthesize(np.eye(network.agents))
    return np.asarray((np.abs(incidence(network).T @ modes) ** 2).sum(axis=0))
