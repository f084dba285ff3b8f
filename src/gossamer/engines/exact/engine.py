"""The expected error itself, with no sampling.

Every linear method turns observations into estimates by polynomials of the gossip matrix, so each eigenmode
evolves on its own. With mode m's mean response h_m and noise gain v_m,

    bias     = sum_m |h_m muhat_m - target_m|^2        muhat = Q* mu, target only in the constant mode
    variance = sum_m v_m sum_i |q_im|^2 sigma_i^2

summed over components. `propagation.py` finds h and v for all eigenvalues in one pass over the rounds; `measure.py`
integrates them. Graphs too large to decompose are integrated by Lanczos quadrature: the few nodes that Lanczos finds
stand for the whole spectrum, and the uncertainty is returned next to the value.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from gossamer import checks, theory
from gossamer.arrays import Floats, Integers
from gossamer.engines.exact.measure import measure
from gossamer.engines.exact.per_agent import decomposed
from gossamer.engines.exact.propagation import impulse_response, propagate
from gossamer.engines.exact.result import Exact
from gossamer.engines.horizons import Horizons, check_horizons, passes
from gossamer.errors import Unsupported
from gossamer.methods import Method, Table, resolve, tabulate
from gossamer.networks import Network, NetworkLike
from gossamer.observations import Observations, check_match


@overload
def exact(
    method: Method | str, network: NetworkLike, observations: Observations, rounds: int
) -> Exact[int, float]: ...
@overload
def exact(
    method: Method | str, network: NetworkLike, observations: Observations, rounds: Horizons
) -> Exact[Integers, Floats]: ...
def exact(
    method: Method | str, network: NetworkLike, observations: Observations, rounds: int | Horizons
) -> Exact[Any, Any]:
    """Return the expected error of `method` after `rounds` rounds (or after each of several)."""
    method = analyzable(method)
    network = check_match(network, observations)
    horizons = check_horizons(rounds)
    over = measure(network, observations)
    bias, variance, uncertainty = np.empty((3, len(horizons)))
    tables: dict[int, Table] = {}
    for leader, followers in passes(method, network, horizons):
        followers = sorted(followers, key=lambda which: int(horizons[which]))
        response, noise = propagate(leader, over.nodes, horizons[followers])
        for position, which in enumerate(followers):
            tables[which] = leader.first(int(horizons[which]))
            bias[which], variance[which], uncertainty[which] = over.integrate(
                response[position], noise[position], int(horizons[which])
            )
    in_order = [tables[which] for which in range(len(horizons))]
    one = np.ndim(rounds) == 0
    links = 2 * len(network.edges)
    pick = (lambda v: v[0].item()) if one else np.asarray
    return Exact(
        method=method,
        network=network,
        observations=observations,
        agents=network.agents,
        rounds=int(horizons[0]) if one else horizons,
        total_error=pick(bias + variance),
        bias=pick(bias),
        variance=pick(variance),
        uncertainty=pick(uncertainty),
        centralized_limit=pick(theory.centralized_limit(observations, horizons)),
        samples=pick(np.array([table.samples for table in in_order])),
        messages=pick(np.array([table.exchanges * links for table in in_order])),
        tables=in_order,
    )


def every_round(
    method: Method | str, network: NetworkLike, observations: Observations, rounds: int
) -> tuple[Floats, Floats]:
    """Return bias and variance of an `anytime` method after 1, 2, ..., `rounds` rounds, in one pass."""
    method = analyzable(method)
    if not method.anytime:
        raise Unsupported(
            f"the rounds of {method.label} depend on how many there are, so one pass cannot give all horizons; "
            "ask gs.exact for the ones you need"
        )
    network = check_match(network, observations)
    table = tabulate(method, network, rounds)
    over = measure(network, observations)
    bias, variance = np.empty((2, rounds))
    per_pass = max(1, 2**22 // len(over.nodes))
    for start in range(0, rounds, per_pass):
        ends = np.arange(start + 1, min(start + per_pass, rounds) + 1)
        response, noise = propagate(table, over.nodes, ends)
        for k, end in enumerate(ends):
            bias[end - 1], variance[end - 1], _ = over.integrate(response[k], noise[k], int(end))
    return bias, variance


def weights(method: Method | str, network: NetworkLike, rounds: int) -> Floats:
    """Return (T, N, N): how much of agent j's observation in round t is in agent i's estimate, [t, i, j]."""
    method, network, rounds = analyzable(method), Network.of(network), checks.rounds(rounds)
    if rounds * network.agents**2 > 2**27:
        raise Unsupported(
            f"all weights of {rounds} rounds and {network.agents} agents would take "
            f"{rounds * network.agents**2 * 8 / 2**30:.1f} GiB; ask for fewer rounds or agents"
        )
    spectrum = decomposed(network, "the weights of single observations")
    response = impulse_response(tabulate(method, network, rounds), spectrum)
    basis = spectrum.analyze(np.eye(network.agents)).conj().T
    return np.real(np.einsum("im,tm,jm->tij", basis, response, basis.conj(), optimize=True))


def analyzable(method: Method | str) -> Method:
    """Return the method, or say why it has no exact error."""
    method = resolve(method)
    if method.mixing != "matrix":
        raise Unsupported(
            f"exact errors need one gossip matrix, but {method.name} draws a random exchange each round; "
            "simulate it"
        )
    return method
