"""The expected error itself, with no sampling.

Every linear method turns observations into estimates by polynomials of the gossip matrix, so each eigenmode
evolves on its own. With mode m's mean response h_m and noise gain v_m,

    bias     = sum_m |h_m muhat_m - target_m|^2        muhat = Q* mu, target only in the constant mode
    variance = sum_m v_m sum_i |q_im|^2 sigma_i^2

summed over components. `propagation.py` finds h and v for all eigenvalues in one pass over the rounds; `measure.py`
integrates them. On graphs too large to decompose the bias is computed from products with the gossip matrix, and the
variance is sampled (`sampling.py`); its standard error is returned next to the value.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from gossamer import checks, theory
from gossamer.arrays import Floats, Integers
from gossamer.engines.exact.measure import Measure, integrate
from gossamer.engines.exact.per_agent import decomposed
from gossamer.engines.exact.propagation import impulse_response, trajectory
from gossamer.engines.exact.result import Exact
from gossamer.engines.exact.sampling import Sampler, measures
from gossamer.engines.horizons import Horizons, horizons_of
from gossamer.errors import Unsupported
from gossamer.methods import Method, resolve, tabulate
from gossamer.networks import ChangingNetwork, Network, NetworkLike, changing_of
from gossamer.observations import Observations, check_match


@overload
def exact(
    method: Method | str, network: NetworkLike | ChangingNetwork, observations: Observations, rounds: int
) -> Exact[int, float]: ...
@overload
def exact(
    method: Method | str, network: NetworkLike | ChangingNetwork, observations: Observations, rounds: Horizons
) -> Exact[Integers, Floats]: ...
def exact(
    method: Method | str,
    network: NetworkLike | ChangingNetwork,
    observations: Observations,
    rounds: int | Horizons,
) -> Exact[Any, Any]:
    """Return the expected error of `method` after `rounds` rounds (or after each of several).

    Networks with a spectrum in closed form (see `Network`) may have a hundred million agents: a torus of 10^8 takes
    minutes and 15 GB. Others are decomposed up to 3000 agents. Beyond that the bias is still exact, and the variance is
    sampled until the standard error, `uncertainty`, is below 1% of the total error; a `note` says where it is not.

    On a changing network the contacts are those that it gives, and each observation's share is followed through all
    rounds: small networks and hundreds of rounds, such as 30 agents with 60 contacts a round for 1000 rounds.

    Parameters
    ----------
    method : Method or str
        A method or its name.
    network : Network, ChangingNetwork, NetworkX graph or str
        Who talks to whom.
    observations : Observations
        What the agents see.
    rounds : int or sequence of int
        One horizon, or several.

    Returns
    -------
    Exact
        The error, its bias and variance, and what it cost.

    Examples
    --------
    >>> net, obs = gs.Network.grid(5, 5), gs.Gaussian(np.arange(25.0))
    >>> found = gs.exact("anytime-sda", net, obs, rounds=500)
    >>> found.over_limit, found.mse
    (1.0135, 8.1081e-05)
    >>> gs.exact("dsg", net, obs, rounds=[100, 1000]).over_limit
    array([1541.5,  155.1])
    """
    method = analyzable(method)
    if (changing := changing_of(network)) is not None:
        from gossamer.engines.exact.contacts import exact_on_contacts  # loads the engine of changing networks

        return exact_on_contacts(method, changing, observations, rounds)
    assert not isinstance(network, ChangingNetwork)
    return evaluate(method, check_match(network, observations), observations, rounds)


def evaluate(
    method: Method,
    network: Network,
    observations: Observations,
    rounds: int | Horizons,
    over: Measure | Sampler | None = None,
) -> Exact[Any, Any]:
    """`exact` where many calls share what `measures` gave for these observations on this network."""
    horizons, one = horizons_of(rounds)
    passes = trajectory(method, network, horizons)
    over = measures(network, observations) if over is None else over
    fitted = over.fit(passes if len(horizons) <= FITTED else trajectory(method, network, _some(horizons)))
    found = integrate(passes, network, observations, fitted)
    samples, exchanges = np.empty((2, len(horizons)))
    for each in passes:
        samples[each.which], exchanges[each.which] = each.samples, each.exchanges
    pick = (lambda v: v[0].item()) if one else np.asarray
    return Exact(
        method=method,
        network=network,
        observations=observations,
        agents=network.agents,
        rounds=int(horizons[0]) if one else horizons,
        total_error=pick(found.bias + found.variance),
        bias=pick(found.bias),
        variance=pick(found.variance),
        uncertainty=pick(found.uncertainty),
        centralized_limit=pick(theory.centralized_limit(observations, horizons)),
        samples=pick(samples),
        messages=pick(exchanges.astype(np.int64) * 2 * len(network.edges)),
    )


FITTED = 64
"""Of more horizons than this, some decide how far variances are sampled."""


def _some(horizons: Integers) -> Integers:
    """At most FITTED of the horizons, evenly spread, the first and the last among them."""
    places = np.linspace(0, len(horizons) - 1, FITTED).astype(int)
    return np.asarray(np.sort(horizons)[places])


def weights(method: Method | str, network: NetworkLike, rounds: int) -> Floats:
    """Return how much of every observation is in every estimate after the last round.

    Parameters
    ----------
    method : Method or str
        The method, or its name.
    network : Network
        N agents.
    rounds : int
        T, the number of rounds.

    Returns
    -------
    ndarray, shape (T, N, N)
        Entry [t, i, j] is the weight of agent j's observation of round t in agent i's estimate.

    Examples
    --------
    >>> w = gs.weights(gs.AnytimeSDA(), gs.Network.cycle(4), rounds=50)
    >>> w.shape, w.sum(axis=(0, 2)).round(6)
    ((50, 4, 4), array([1., 1., 1., 1.]))
    """
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
        has = (
            "divides what one-way links push"
            if method.mixing == "push"
            else "draws a random exchange each round"
        )
        raise Unsupported(f"exact errors need one gossip matrix, but {method.name} {has}; simulate it")
    return method
