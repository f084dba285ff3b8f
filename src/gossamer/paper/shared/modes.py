"""Responses per eigenmode. They do not depend on the means, so one computation serves all draws of the means.

A linear method turns the means into estimates mode by mode, so with mode m's response h_m and noise gain v_m

    bias     = sum_m |h_m muhat_m|^2 over the modes that are not constant      (the constant one has h = 1)
    variance = sigma^2 sum_m v_m

`modes` takes h and v after given rounds from the exact engine. `EverySDA` computes them for SDA after *every* number of
rounds at once, although the burn-in depends on the horizon: with H_j the response of theta_j to a constant input (the
cumulative sum of theta's impulse response), a window T0 <= t < T of length d = T - T0 has

    h(T) = (1/d) sum_{T0 <= j < T} H_j
    v(T) = (1/d^2) [ sum_{j<T} H_j^2 + sum_{j<T0} H_j^2 - 2 sum_{j<T0} H_j H_{j+d} ]

H_j decays like e^(-j/sqrt(kappa)), so for large T only the first two sums remain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gossamer.arrays import Floats, Integers
from gossamer.engines.exact import impulse_response, propagate
from gossamer.methods import SDA, Method, tabulate
from gossamer.networks import Network

MEMORY = 30
"""Responses older than this many times sqrt(kappa) rounds are below the rounding error."""


def energies(network: Network, means: Floats) -> Floats:
    """Return the (modes - 1, D) energies of D vectors of means (D, N) in each mode except the constant one."""
    spectrum = network.spectrum
    assert spectrum is not None  # the networks here are small enough for a decomposition
    energy: Floats = np.abs(spectrum.analyze(np.ascontiguousarray(means.T))[1:]) ** 2
    return energy


def modes(method: Method, network: Network, horizons: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the responses and noise gains, (H, modes) each, of `method` after several numbers of rounds."""
    assert network.spectrum is not None
    nodes = network.spectrum.eigenvalues
    responses, gains = [], []
    for rounds in horizons:
        response, noise = propagate(tabulate(method, network, rounds), nodes, np.array([rounds]))
        responses.append(response[0, :, 0])
        gains.append(noise[0])
    return np.stack(responses), np.stack(gains)


class EverySDA:
    """The paper's SDA after 1, 2, ..., `rounds` rounds. Row T - 1 of an array belongs to T.

    mixing    (rounds,) noise left in the modes that gossip damps, for sigma = 1
    window    (rounds,) d = T - floor(T/2), the iterates averaged; the constant mode has noise 1/d
    """

    def __init__(self, network: Network, rounds: int) -> None:
        self.network, self.rounds = network, rounds
        assert network.spectrum is not None
        alive = min(rounds, math.ceil(MEMORY * math.sqrt(network.condition_number)) + 50)
        impulse = impulse_response(tabulate(SDA(output="last"), network, alive), network.spectrum.eigenvalues)
        held = np.cumsum(impulse[::-1, 1:], axis=0)  # (lags, modes - 1), the newest lag first
        sums = np.concatenate([np.zeros((1, held.shape[1])), np.cumsum(held, axis=0)])
        squares = np.concatenate([np.zeros((1, held.shape[1])), np.cumsum(held**2, axis=0)])
        self._rows = min(rounds, 2 * alive + 2)
        total = np.arange(1, self._rows + 1)
        burn_in = total // 2
        window = (total - burn_in)[:, None]
        end, start = np.minimum(total, alive), np.minimum(burn_in, alive)
        self._response = (sums[end] - sums[start]) / window
        overlap = np.stack(
            [_overlap(held, int(d), int(t0)) for d, t0 in zip(window[:, 0], burn_in, strict=True)]
        )
        self._gain = (squares[end] + squares[start] - 2 * overlap) / window**2
        self._left = 2 * squares[-1]
        every = np.arange(1, rounds + 1)
        self.window: Integers = every - every // 2
        self.mixing: Floats = self._left.sum() / self.window**2.0
        self.mixing[: self._rows] = self._gain.sum(axis=1)

    def gain(self, rounds: int) -> Floats:
        """Return the (modes - 1,) noise gains of all modes except the constant one after `rounds` rounds."""
        if rounds <= self._rows:
            return np.asarray(self._gain[rounds - 1])
        return np.asarray(self._left / self.window[rounds - 1] ** 2)

    def response(self, rounds: int) -> Floats:
        """Return the (modes - 1,) responses of all modes except the constant one after `rounds` rounds."""
        return np.asarray(self._response[rounds - 1]) if rounds <= self._rows else np.zeros(len(self._left))

    def bias(self, means: Floats) -> Floats:
        """Return the (rounds, D) squared biases for D vectors of means (D, N)."""
        bias = np.zeros((self.rounds, len(means)))
        bias[: self._rows] = self._response**2 @ energies(self.network, means)
        return bias

    def total_error(self, means: Floats) -> Floats:
        """Return the (rounds, D) expected errors for noise of variance 1."""
        return self.bias(means) + (self.mixing + 1.0 / self.window)[:, None]


def _overlap(held: Floats, window: int, burn_in: int) -> Floats:
    """Return the sum over j < burn_in of H_j H_{j + window}, per mode."""
    last = min(burn_in, len(held) - window)
    if last <= 0:
        return np.zeros(held.shape[1])
    overlap: Floats = np.einsum("jm,jm->m", held[:last], held[window : window + last])
    return overlap
