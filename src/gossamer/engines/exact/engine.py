"""The expected error itself, with no sampling.

Every linear method turns observations into estimates by polynomials of the gossip matrix, so each eigenmode
evolves on its own. With mode m's mean response h_m and noise gain v_m,

    bias     = sum_m |h_m muhat_m - target_m|^2        muhat = Q* mu, target only in the constant mode
    variance = sum_m v_m sum_i |q_im|^2 sigma_i^2

summed over components. `forward` in `recursions.py` finds h and v for all eigenvalues in one pass over the
rounds. Graphs too large to decompose are integrated by Lanczos quadrature: the few nodes that Lanczos finds
stand for the whole spectrum, and the uncertainty is returned next to the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gossamer.engines.exact import lanczos, recursions
from gossamer.engines.horizons import check_horizons, passes, serves_all_horizons
from gossamer.errors import Unsupported
from gossamer.methods import Method, resolve
from gossamer.methods.table import Table, tabulate
from gossamer.networks import DENSE_LIMIT, Network
from gossamer.networks.spectrum import Spectrum
from gossamer.observations import Observations, check_match

Array = NDArray[np.float64]
_forward: Any = recursions.forward
_backward: Any = recursions.backward

Value = Any
"""A float for one horizon, an array with one entry per horizon for several."""


@dataclass(frozen=True)
class Exact:
    """Expected squared error E sum_i ||estimate_i - mubar||^2 after `rounds` rounds: mse = bias + variance.

    uncertainty is 0 for an exact spectrum, and one standard error of mse where Lanczos quadrature was used.
    samples and messages are per agent and in the whole network; a message is one vector over one directed link.
    """

    method: Method
    network: Network
    observations: Observations
    rounds: Value
    mse: Value
    bias: Value
    variance: Value
    uncertainty: Value
    samples: Value
    messages: Value
    tables: list[Table] = field(repr=False)

    @cached_property
    def per_agent(self) -> Array:
        """(N,) expected squared error of each agent, or (H, N) for several horizons; computed when asked for."""
        errors = [_per_agent(table, self.network, self.observations) for table in self.tables]
        return errors[0] if np.isscalar(self.rounds) else np.stack(errors)


def exact(
    method: Method | str, network: Network, observations: Observations, rounds: int | Sequence[int]
) -> Exact:
    """Return the expected error of `method` after `rounds` rounds (or after each of several)."""
    method = analysable(method)
    check_match(network, observations)
    horizons = check_horizons(rounds)
    measure = _measure(network, observations)
    bias, variance, uncertainty = np.empty((3, len(horizons)))
    tables: dict[int, Table] = {}
    for leader, followers in passes(method, network, horizons):
        followers = sorted(followers, key=lambda which: int(horizons[which]))
        response, noise = propagate(leader, measure.nodes, horizons[followers])
        for position, which in enumerate(followers):
            tables[which] = leader.first(int(horizons[which]))
            bias[which], variance[which], uncertainty[which] = measure.integrate(
                response[position], noise[position], int(horizons[which])
            )
    in_order = [tables[which] for which in range(len(horizons))]
    one = np.isscalar(rounds) or np.ndim(rounds) == 0
    links = 2 * len(network.edges)
    pick = (lambda v: v[0].item()) if one else np.asarray
    return Exact(
        method=method,
        network=network,
        observations=observations,
        rounds=int(horizons[0]) if one else horizons,
        mse=pick(bias + variance),
        bias=pick(bias),
        variance=pick(variance),
        uncertainty=pick(uncertainty),
        samples=pick(np.array([table.samples for table in in_order])),
        messages=pick(np.array([table.exchanges * links for table in in_order])),
        tables=in_order,
    )


def every_round(
    method: Method | str, network: Network, observations: Observations, rounds: int
) -> tuple[Array, Array] | None:
    """Return bias and variance after 1, 2, ..., `rounds` rounds in one pass, or None if they need one pass each
    (a method whose coefficients depend on the horizon)."""
    method = analysable(method)
    check_match(network, observations)
    table = tabulate(method, network, rounds)
    if not serves_all_horizons(table, method, network):
        return None
    measure = _measure(network, observations)
    bias, variance = np.empty((2, rounds))
    per_pass = max(1, 2**22 // len(measure.nodes))
    for start in range(0, rounds, per_pass):
        ends = np.arange(start + 1, min(start + per_pass, rounds) + 1)
        response, noise = propagate(table, measure.nodes, ends)
        for k, end in enumerate(ends):
            bias[end - 1], variance[end - 1], _ = measure.integrate(response[k], noise[k], int(end))
    return bias, variance


def weights(method: Method | str, network: Network, rounds: int) -> Array:
    """Return (T, N, N): how much of agent j's observation in round t is in agent i's estimate, [t, i, j]."""
    method = analysable(method)
    if rounds * network.agents**2 > 2**27:
        raise Unsupported(
            f"all weights of {rounds} rounds and {network.agents} agents would take "
            f"{rounds * network.agents**2 * 8 / 2**30:.1f} GiB; ask for fewer rounds or agents"
        )
    spectrum = _decomposed(network, "the weights of single observations")
    response = impulse_response(tabulate(method, network, rounds), spectrum)
    basis = spectrum.analyse(np.eye(network.agents)).conj().T
    return np.real(np.einsum("im,tm,jm->tij", basis, response, basis.conj(), optimize=True))


def analysable(method: Method | str) -> Method:
    """Return the method, or say why it has no exact error."""
    method = resolve(method)
    if method.mixing != "matrix":
        raise Unsupported(
            f"exact errors need one gossip matrix, but {method.name} draws a random exchange each round; "
            "simulate it"
        )
    return method


def propagate(table: Table, nodes: Array, ends: NDArray[np.int64]) -> tuple[Array, Array]:
    """Responses (H, G, 2) to the mean and to its drift, and noise gains (H, G), at eigenvalues `nodes`.

    A single horizon at the end of the table is cheaper backwards (a vector per eigenvalue instead of a
    covariance); forwards, one pass serves every horizon.
    """
    if len(ends) == 1 and ends[0] == table.rounds:
        result = _backward(nodes, *table.arrays, np.empty((0, 0)))[:, None]
    else:
        result = _forward(nodes, *table.arrays, ends)
    return np.moveaxis(result[:2], 0, 2), result[2]


def impulse_response(table: Table, spectrum: Spectrum) -> Array:
    """(T, modes): the weight of round t's observation in the final estimate."""
    weights = np.empty((table.rounds, len(spectrum.eigenvalues)))
    _backward(spectrum.eigenvalues, *table.arrays, weights)
    return weights


@dataclass(frozen=True)
class _Measure:
    """What the observations put on each eigenvalue: node 0 is the constant mode."""

    nodes: Array  #: (G,)
    signal: Array  #: (G, 2, 2) Gram matrix of mean and drift on the node
    power: Array  #: (G,) variance on the node

    def integrate(self, response: Array, noise: Array, rounds: int) -> tuple[float, float, float]:
        error = self.off_target(response, rounds)
        bias = float(np.einsum("gi,gij,gj->", error, self.signal, error))
        return max(bias, 0.0), float(noise @ self.power), 0.0

    @staticmethod
    def off_target(response: Array, rounds: int) -> Array:
        """Response minus what it should be: in the constant mode the mean of the last round, elsewhere nothing."""
        error = response.copy()
        error[0] -= (1.0, rounds - 1)
        return error


@dataclass(frozen=True)
class _Quadrature(_Measure):
    """A measure known through Lanczos nodes; three rules tell how far to trust it."""

    coarse_signal: Array  #: (G,) the same signal by half the steps
    coarse_power: Array  #: (G,)
    probes: Array  #: (P, G) one estimate of the power per random probe

    def integrate(self, response: Array, noise: Array, rounds: int) -> tuple[float, float, float]:
        error = self.off_target(response, rounds)[:, 0] ** 2
        bias, coarse_bias = float(error @ self.signal[:, 0, 0]), float(error @ self.coarse_signal)
        each = self.probes @ noise
        variance, coarse_variance = float(noise @ self.power), float(noise @ self.coarse_power)
        sampling = each.std(ddof=1) / np.sqrt(len(each))
        uncertainty = np.sqrt(sampling**2 + (bias - coarse_bias) ** 2 + (variance - coarse_variance) ** 2)
        return bias, variance, float(uncertainty)


def _measure(network: Network, observations: Observations) -> _Measure:
    drifting = bool(np.any(observations.drift))
    spectrum = network.spectrum
    if spectrum is None:
        if drifting:
            raise Unsupported(
                f"exact errors of drifting means need a full spectrum: at most {DENSE_LIMIT} agents, or path, "
                "cycle, star, complete, torus, hypercube of any size; simulate it here"
            )
        return _Quadrature(*lanczos.measure(network, observations.mean, observations.variance.sum(axis=1)))
    level = spectrum.analyse(observations.mean)
    slope = spectrum.analyse(observations.drift) if drifting else np.zeros_like(level)
    modes = np.stack([level, slope], axis=1)  # (modes, 2, n)
    gram = np.real(np.einsum("min,mjn->mij", modes.conj(), modes))
    total = observations.variance.sum(axis=1)
    flat = np.ptp(total) == 0
    power = np.full(len(modes), total[0]) if flat else np.real(spectrum.energy(total))
    # Equal eigenvalues behave alike, so symmetric graphs need far fewer recursions than agents.
    order = np.argsort(spectrum.eigenvalues, kind="stable")
    sorted_values = spectrum.eigenvalues[order]
    new = np.diff(sorted_values, prepend=-1.0) > 4e-15 * sorted_values[-1]
    starts = np.flatnonzero(new)
    return _Measure(
        nodes=sorted_values[starts],
        signal=np.add.reduceat(gram[order], starts),
        power=np.add.reduceat(power[order], starts),
    )


def _decomposed(network: Network, what: str) -> Spectrum:
    if network.spectrum is None:
        raise Unsupported(
            f"{what} need a full spectrum: at most {DENSE_LIMIT} agents (this network has {network.agents}), or path, "
            "cycle, star, complete, torus, hypercube of any size; gs.simulate gives them by sampling"
        )
    return network.spectrum


def _per_agent(table: Table, network: Network, observations: Observations) -> Array:
    spectrum = _decomposed(network, "errors per agent")
    response, noise = propagate(table, spectrum.eigenvalues, np.array([table.rounds]))
    seen = spectrum.synthesise(response[0, :, :1] * spectrum.analyse(observations.mean))
    if np.any(observations.drift):
        seen = seen + spectrum.synthesise(response[0, :, 1:] * spectrum.analyse(observations.drift))
    bias = ((seen - observations.target(table.rounds)) ** 2).sum(axis=1)
    total = observations.variance.sum(axis=1)
    if np.ptp(total) == 0:
        variance = np.real(spectrum.spread(noise[0])) * total[0]
    else:
        variance = _unequal_variances(table, network, spectrum, total)
    return np.asarray(bias + variance)


def _unequal_variances(table: Table, network: Network, spectrum: Spectrum, total: Array) -> Array:
    """Different noise at different agents couples the modes: sum_t g_t(m) g_t(m') is all that is needed."""
    if network.agents > DENSE_LIMIT:
        raise Unsupported(
            f"errors per agent with unequal variances are computed for at most {DENSE_LIMIT} agents, "
            f"but this network has {network.agents}; gs.simulate gives them by sampling"
        )
    share = np.where(table.batches > 0, 1 / np.sqrt(np.maximum(table.batches, 1)), 0.0)
    scaled = impulse_response(table, spectrum) * share[:, None]
    basis = spectrum.analyse(np.eye(network.agents)).conj().T
    coupling = basis.conj().T @ (total[:, None] * basis)
    return np.real(
        np.einsum("im,mk,ik->i", basis, (scaled.T @ scaled) * coupling, basis.conj(), optimize=True)
    )
