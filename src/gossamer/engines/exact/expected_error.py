"""Exact expected errors, without sampling.

Every linear method turns observations into estimates by polynomials of the gossip matrix, so each eigenmode
evolves on its own. With mode m's mean response h_m and noise gain v_m,

    bias     = sum_m |h_m muhat_m - target_m|^2        muhat = Q* mu, target only in the constant mode
    variance = sum_m v_m sum_i |q_im|^2 sigma_i^2

summed over components. `propagation.py` finds h and v for all eigenvalues in one pass over the rounds; `measure.py`
integrates them. On graphs too large to decompose the bias is computed from products with the gossip matrix, and the
variance is sampled (`sampling.py`); its standard error is returned next to the value.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from gossamer import checks, theory
from gossamer.arrays import Floats, Integers
from gossamer.engines.exact.masking import mask_cost
from gossamer.engines.exact.measure import Measure, integrate
from gossamer.engines.exact.per_agent import decomposed
from gossamer.engines.exact.propagation import impulse_response, trajectory
from gossamer.engines.exact.result import Exact
from gossamer.engines.exact.sampling import Sampler, measures
from gossamer.engines.horizons import Horizons, horizons_of
from gossamer.engines.results import OneOrMore
from gossamer.errors import Unsupported
from gossamer.faults import Faults, FaultsLike
from gossamer.methods import Method, resolve, tabulate
from gossamer.networks import ChangingNetwork, Network, NetworkLike, changing_of
from gossamer.observations import Masked, Masks, Observations, check_match, check_streams

RANDOM = ("pairwise", "broadcast")
"""The kinds of `Method.mixing` that draw an exchange in each round."""


@overload
def exact(
    method: Method | str,
    network: NetworkLike | ChangingNetwork,
    observations: Observations,
    rounds: int,
    *,
    masks: Masks | float | None = ...,
    faults: FaultsLike = ...,
    drawn: bool = ...,
) -> Exact[int, float]: ...
@overload
def exact(
    method: Method | str,
    network: NetworkLike | ChangingNetwork,
    observations: Observations,
    rounds: Horizons,
    *,
    masks: Masks | float | None = ...,
    faults: FaultsLike = ...,
    drawn: bool = ...,
) -> Exact[Integers, Floats]: ...
def exact(
    method: Method | str,
    network: NetworkLike | ChangingNetwork,
    observations: Observations,
    rounds: int | Horizons,
    *,
    masks: Masks | float | None = None,
    faults: FaultsLike = None,
    drawn: bool = False,
) -> Exact[OneOrMore, OneOrMore]:
    r"""Return the expected error of `method` after `rounds` rounds, or after each of several.

    The error is :math:`E \sum_i \|\hat\theta_i - \bar\mu\|^2`, the sum over agents of the squared differences between
    their estimates and the average of all means. It is the sum of a bias and a variance over the eigenmodes m of the
    gossip matrix,

    .. math::

        \sum_m \|h_m \hat\mu_m - \tau_m\|^2 + \sum_m v_m \sum_i q_{im}^2 \|\sigma_i\|^2 ,

    with the method's response :math:`h_m` to the means and its noise gain :math:`v_m`, the means :math:`\hat\mu_m` and
    the target :math:`\tau_m` of a mode, and its eigenvector :math:`q_m`.

    Networks with a spectrum in closed form (see `Network`) may have a hundred million agents: a torus of that size
    takes minutes and 15 GB. Others are decomposed up to 3000 agents. For larger ones the bias is still exact, and the
    variance is sampled until its standard error, `uncertainty`, is below 1% of the total error; if it is not, a `note`
    says so.

    On a changing network the contacts are taken as given, and each observation's share is followed through all rounds.
    This is feasible for small networks and hundreds of rounds, such as 30 agents with 60 contacts per round for 1000
    rounds.

    Where every round draws its own exchanges, the expectation is over these as well. It follows from second moments, of
    :math:`N^2` numbers, up to 500 agents: random gossip, messages lost independently of each other (for methods without
    an edge ledger, which leave out the neighbors that they do not hear) and, with `drawn`, random matchings and
    dropout.

    Parameters
    ----------
    method : Method or str
        The method that all agents run, or its name in `gossamer.METHODS`.
    network : Network, ChangingNetwork, NetworkX graph or str
        The network of the agents, for example "grid:10x10".
    observations : Observations
        The streams of the agents, one per agent.
    rounds : int or sequence of int
        Number of rounds T after which to report the error, or several such numbers.
    masks : Masks or float, optional
        Masks that hide the readings, or their scale; their cost is part of the variance.
    faults : Loss, optional
        Lost messages, `gs.faults.Loss(p)`: each message is lost with this probability. Other faults are simulated
        only.
    drawn : bool
        On a changing network, whether the expectation is also over its random contacts; otherwise they are those of its
        seed.

    Returns
    -------
    Exact
        The error, its bias and variance, and its cost in samples and messages.

    See Also
    --------
    simulate : Trials instead of expectations, with faults and on changing networks.
    compare : Several methods and networks side by side.
    weights : The weight of every observation in every estimate.

    Examples
    --------
    >>> net, obs = gs.Network.grid(5, 5), gs.Gaussian(np.arange(25.0))
    >>> result = gs.exact("anytime-sda", net, obs, rounds=500)
    >>> result.over_limit, result.mse
    (1.0135, 8.1081e-05)
    >>> gs.exact("dsg", net, obs, rounds=[100, 1000]).over_limit
    array([1541.5,  155.1])
    >>> gs.exact("pairwise", net, obs, rounds=[100, 1000]).bias
    array([5.6125e+02, 1.1183e-01])
    """
    method, masks = resolve(method), Masks.of(masks)
    if drawn or faults is not None or method.mixing in RANDOM:
        return _over_draws(method, network, observations, rounds, masks, faults)
    method = analyzable(method)
    if (changing := changing_of(network)) is not None:
        from gossamer.engines.exact.contacts import exact_on_contacts  # loads the engine of changing networks

        if masks is not None:
            raise Unsupported("masks are not analyzed on changing networks; use a fixed network")
        return exact_on_contacts(method, changing, observations, rounds)
    assert not isinstance(network, ChangingNetwork)
    network = check_match(network, observations)
    streams = observations if masks is None else Masked(observations, network, masks)
    return evaluate(method, network, streams, rounds)


def _over_draws(
    method: Method,
    network: NetworkLike | ChangingNetwork,
    observations: Observations,
    rounds: int | Horizons,
    masks: Masks | None,
    faults: FaultsLike,
) -> Exact[OneOrMore, OneOrMore]:
    # Needs SciPy's distributions, which load slowly.
    from gossamer.engines.exact.drawn import exact_over_draws

    if masks is not None:
        raise Unsupported(
            "masks are not analyzed together with random exchanges; leave one of them out, or simulate it"
        )
    changing = changing_of(network)
    if (changing is not None or faults is not None) and method.mixing != "matrix":
        raise Unsupported(
            f"{method.name} cannot run with faults or on changing networks: {method.mixes}; "
            "use a method that mixes with all neighbors, such as dsg"
        )
    assert not isinstance(network, ChangingNetwork) or changing is not None
    known = changing if changing is not None else check_match(network, observations)  # type: ignore[arg-type]
    check_streams(known.agents, observations)
    return exact_over_draws(
        method, known, observations, rounds, None if faults is None else Faults.of(faults)
    )


def evaluate(
    method: Method,
    network: Network,
    observations: Observations,
    rounds: int | Horizons,
    over: Measure | Sampler | None = None,
) -> Exact[OneOrMore, OneOrMore]:
    """Like `exact`, for many calls that share the result of `measures` for these observations and this network."""
    horizons, one = horizons_of(rounds)
    passes = trajectory(method, network, horizons)
    over = measures(network, observations) if over is None else over
    fitted = over.fit(passes if len(horizons) <= FITTED else trajectory(method, network, _some(horizons)))
    integral = integrate(passes, network, observations, fitted)
    if isinstance(observations, Masked):
        integral = integral._replace(
            variance=integral.variance + mask_cost(method, network, observations, passes)
        )
    samples, exchanges = np.empty((2, len(horizons)))
    for run in passes:
        samples[run.which], exchanges[run.which] = run.samples, run.exchanges
    pick = (lambda v: v[0].item()) if one else np.asarray
    return Exact(
        method=method,
        network=network,
        observations=observations,
        agents=network.agents,
        rounds=int(horizons[0]) if one else horizons,
        total_error=pick(integral.bias + integral.variance),
        bias=pick(integral.bias),
        variance=pick(integral.variance),
        uncertainty=pick(integral.uncertainty),
        centralized_limit=pick(theory.centralized_limit(observations, horizons)),
        samples=pick(samples),
        messages=pick(exchanges.astype(np.int64) * 2 * len(network.edges)),
    )


FITTED = 64
"""Largest number of horizons that decide how far variances are sampled."""


def _some(horizons: Integers) -> Integers:
    """Return at most FITTED of the horizons, evenly spread and including the first and the last."""
    places = np.linspace(0, len(horizons) - 1, FITTED).astype(int)
    return np.asarray(np.sort(horizons)[places])


def weights(method: Method | str, network: NetworkLike, rounds: int) -> Floats:
    """Return the weight of every observation in every estimate after the last round.

    Parameters
    ----------
    method : Method or str
        The method that all agents run, or its name in `gossamer.METHODS`.
    network : Network, NetworkX graph or str
        The network of the N agents, for example "grid:10x10".
    rounds : int
        Number of rounds T, at least 1.

    Returns
    -------
    ndarray, shape (T, N, N)
        Entry [t, i, j] is the weight of agent j's observation of round t in agent i's estimate.

    See Also
    --------
    exact : The expected error that follows from these weights.
    gossamer.methods.tabulate : The coefficients of every round.

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
    response = impulse_response(tabulate(method, network, rounds), spectrum.eigenvalues)
    basis = spectrum.analyze(np.eye(network.agents)).conj().T
    return np.real(np.einsum("im,tm,jm->tij", basis, response, basis.conj(), optimize=True))


def analyzable(method: Method | str) -> Method:
    """Return the method, or raise an error that says why it has no exact error."""
    method = resolve(method)
    if method.mixing != "matrix":
        pushes = method.mixing == "push"
        what = "divides what one-way links push" if pushes else "draws a random exchange each round"
        raise Unsupported(f"exact errors need one gossip matrix, but {method.name} {what}; simulate it")
    return method
