"""The two limits that no method can beat."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from scipy.sparse.csgraph import shortest_path

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, Unsupported
from gossamer.networks import DirectedNetwork, NetworkLike
from gossamer.numerics.blocks import BLOCK, block_sums, in_order
from gossamer.observations import Observations, check_match, check_streams

DISTANCE_LIMIT = 5000
"""Largest number of agents for which all distances between agents are computed."""


@overload
def centralized_limit(observations: Observations, rounds: int) -> float: ...
@overload
def centralized_limit(observations: Observations, rounds: Integers) -> Floats: ...
def centralized_limit(observations: Observations, rounds: int | Integers) -> float | Floats:
    r"""Return the error if every agent held the samples of all agents in T rounds, for one T or several.

    .. math:: \frac{1}{NT} \sum_{ij} \sigma_{ij}^2

    Parameters
    ----------
    observations : Observations
        The streams, with variance :math:`\sigma_{ij}^2` of component j at agent i.
    rounds : int or ndarray of int
        Number of rounds T, or an array of such numbers, whose shape the result has.

    See Also
    --------
    network_limit : The limit if information travels one link per round.

    Examples
    --------
    >>> gs.theory.centralized_limit(gs.Gaussian(np.zeros(10), std=2.0), rounds=100)
    0.04
    """
    if not isinstance(observations, Observations):
        raise InvalidInput(
            parameter="observations",
            required="streams such as gs.Gaussian(mean, std)",
            got=repr(observations),
        )
    total = in_order(block_sums(observations.variance.reshape(-1), BLOCK * observations.components))
    if isinstance(rounds, np.ndarray) and rounds.ndim:
        return np.asarray(total / (observations.agents * rounds))
    return float(total / (observations.agents * checks.rounds(rounds)))


@overload
def network_limit(
    network: NetworkLike | DirectedNetwork,
    observations: Observations,
    rounds: int,
    batches: Floats | None = ...,
    *,
    per_agent: Literal[False] = ...,
) -> float: ...
@overload
def network_limit(
    network: NetworkLike | DirectedNetwork,
    observations: Observations,
    rounds: int | Integers,
    batches: Floats | None = ...,
    *,
    per_agent: bool = ...,
) -> Any: ...
def network_limit(
    network: NetworkLike | DirectedNetwork,
    observations: Observations,
    rounds: int | Integers,
    batches: Floats | None = None,
    *,
    per_agent: bool = False,
) -> float | Floats:
    r"""Return the least variance of unbiased estimates if information travels one edge per round.

    A message can carry the observation of its round, so after T rounds agent i can know the observations of agent j in
    rounds :math:`t \le T - \max(d_{ij}, 1)`, where :math:`d_{ij}` is their distance: these are
    :math:`n_{ij} = T - \max(d_{ij}, 1) + 1` samples, or the samples in the batches of those rounds. The best weights
    are equal on these samples and sum to 1/N, which gives

    .. math:: \sum_j \frac{\sigma_j^2}{N^2 n_{ij}}

    at agent i. The limit is infinite while some agent is too far away to be heard.

    Parameters
    ----------
    network : Network or DirectedNetwork
        The network of the agents, at most 5000 of them.
    observations : Observations
        The streams, with variance :math:`\sigma_j^2` at agent j, summed over components.
    rounds : int or ndarray of int
        Number of rounds T, or an array of such numbers, whose shape the result has.
    batches : ndarray, optional
        Number of samples per agent in each round; one by default.
    per_agent : bool
        Whether to return the limit of each agent instead of their sum.

    See Also
    --------
    centralized_limit : The limit without a network.

    Examples
    --------
    >>> net, obs, rounds = gs.Network.path(20), gs.Gaussian(np.zeros(20)), np.array([10, 100])
    >>> gs.theory.network_limit(net, obs, rounds) / gs.theory.centralized_limit(obs, rounds)
    array([       inf, 1.06312133])
    """
    if not isinstance(network, DirectedNetwork):
        network = check_match(network, observations)
    check_streams(network.agents, observations)
    several = rounds.tolist() if isinstance(rounds, np.ndarray) and rounds.ndim == 1 else [rounds]
    horizons = np.array([checks.rounds(t) for t in several])
    if not several:
        raise InvalidInput(
            parameter="rounds", required="a whole number or an array of them", got="an empty one"
        )
    longest = int(horizons.max())
    if batches is not None:
        batches = checks.array("batches", batches, (longest,))
    agents = network.agents
    if agents > DISTANCE_LIMIT:
        raise Unsupported(
            f"the network limit needs all distances between agents: at most {DISTANCE_LIMIT} agents, "
            f"but this network has {agents}"
        )
    hears = network.weights if isinstance(network, DirectedNetwork) else network.gossip
    distance = shortest_path(hears != 0, unweighted=True).astype(int)
    delay = np.maximum(distance, 1)
    pair = (np.arange(agents)[:, None] * (delay.max() + 1) + delay).ravel()
    variance = np.broadcast_to(observations.variance.sum(axis=1), delay.shape).ravel()
    # (N, D): the number of agents at each distance from agent i, and the sum of their variances.
    count, total = (
        np.bincount(pair, w, agents * (delay.max() + 1)).reshape(agents, -1) for w in (None, variance)
    )
    if not per_agent:
        count, total = count.sum(axis=0, keepdims=True), total.sum(axis=0, keepdims=True)
    known = np.concatenate([[0.0], np.cumsum(np.ones(longest) if batches is None else batches)])
    heard = known[np.clip(horizons[:, None] + 1 - np.arange(delay.max() + 1), 0, horizons[:, None])]  # (H, D)
    limit = np.full((len(horizons), len(count)), np.inf)
    for h, samples in enumerate(heard):
        if not np.any(count[:, samples == 0]):
            limit[h] = (total[:, samples > 0] / samples[samples > 0]).sum(axis=1) / agents**2
        elif per_agent:
            reached = ~count[:, samples == 0].any(axis=1)
            limit[h, reached] = (total[reached] / np.maximum(samples, 1)).sum(axis=1) / agents**2
    limits = limit if per_agent else limit[:, 0]
    return limits if np.ndim(rounds) else limits[0]
