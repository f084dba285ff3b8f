"""A bound on the error of a method from its exact responses on an interval of eigenvalues, without the spectrum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer import checks
from gossamer.engines.exact.expected_error import analyzable
from gossamer.engines.exact.propagation import propagate
from gossamer.errors import InvalidInput
from gossamer.facts import AVERAGING_BOUND, UnknownFacts
from gossamer.methods import AnytimeSDA, Method, tabulate
from gossamer.networks import Network, NetworkLike
from gossamer.observations import Observations
from gossamer.theory.bound import Bound, moves, unmoved_condition

NODES = 8
"""Eigenvalues per round at which responses are computed. A squared response has degree 2T, so the bound exceeds the
largest value found by at most 1/cos(pi/8) = 1.08."""


@dataclass(frozen=True)
class Certificate:
    """What a method does to any network whose nonzero eigenvalues are in an interval.

    Attributes
    ----------
    rounds : int
        Number of rounds T, at least 1.
    low, high : float
        The ends of the interval that contains all nonzero eigenvalues.
    response, gain : float
        Bounds on a mode's squared response to its mean, and on the variance of its estimate for noise of variance 1.
    average : float
        The variance of the constant mode for noise of variance 1; a center has 1/T.

    See Also
    --------
    certificate : Computes it.
    exact : The expected error on one network.

    Examples
    --------
    >>> certificate = gs.certificate(gs.Network.cycle(20), rounds=300)
    >>> certificate.average * 300, certificate.gain < 1e-3
    (1.0606, True)
    """

    rounds: int
    low: float
    high: float
    response: float
    gain: float
    average: float

    def bound(self, observations: Observations) -> Bound:
        """Return the bound on the expected error, summed over agents, for these streams."""
        total = float(observations.variance.sum())
        center = total / observations.agents
        deviation = observations.mean - observations.mean.mean(axis=0)
        return Bound(
            terms={
                "bias": self.response * float((deviation**2).sum()),
                "mixing noise": self.gain * (total - center),
                "averaging noise": self.average * center,
            },
            applies=not moves(observations),
            condition=f"all nonzero eigenvalues are in [{self.low:.4g}, {self.high:.4g}]"
            + unmoved_condition(observations),
        )


def certificate(network: NetworkLike | float, rounds: int, method: Method | str | None = None) -> Certificate:
    r"""Compute a bound on the error of a method that holds for all networks with the same :math:`\lambda_2`.

    The local heavy ball has no closed form, because its momentum and window change from round to round. But
    after T rounds its response to a mode's mean is a polynomial of degree T in the mode's eigenvalue, and its noise
    gain one of degree 2T. The exact engine evaluates both at Chebyshev nodes of
    :math:`[\lambda_2, \lambda_{\text{bound}}]`, and the largest value found, divided by :math:`\cos(\pi/8)`, bounds
    them on the whole interval.

    Parameters
    ----------
    network : Network or float
        A network, or its smallest nonzero eigenvalue :math:`\lambda_2` if its weights average, as Metropolis weights do
        (all eigenvalues are then at most 2).
    rounds : int
        Number of rounds T, at least 1.
    method : Method or str, optional
        A method that asks a network for nothing but `lambda_bound`; the local heavy ball by default. Given a network,
        any method that one gossip matrix mixes.

    Returns
    -------
    Certificate
        Bounds on responses and noise gains, and on the error of given streams (`bound`).

    See Also
    --------
    Certificate : The result.
    exact : The expected error on one network.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(20), gs.Gaussian(np.arange(20.0))
    >>> bound = gs.certificate(net, 300).bound(obs)
    >>> bound.applies, bound.total >= gs.exact(gs.AnytimeSDA("local-heavy-ball"), net, obs, 300).total_error
    (True, True)
    """
    rounds = checks.rounds(rounds)
    method = analyzable(AnytimeSDA("local-heavy-ball") if method is None else method)
    facts: Any
    if isinstance(network, int | float | np.number):
        low, facts = checks.number("lambda_2", network, above=0, most=AVERAGING_BOUND), UnknownFacts()
    else:
        facts = Network.of(network)
        low = facts.lambda_2
    high = facts.lambda_bound
    count = NODES * rounds
    nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
    nodes = np.append((low + high) / 2 + (high - low) / 2 * nodes, 0.0)
    responses, gains = propagate(tabulate(method, facts, rounds), nodes, np.array([rounds]))
    response, gain = responses[0, :, 0], gains[0]
    if abs(response[-1] - 1) > 1e-9:
        raise InvalidInput(
            f"a certificate needs a method that preserves the average, but after {rounds} rounds {method.label} "
            f"multiplies it by {response[-1]:.6g}"
        )
    return Certificate(
        rounds=rounds,
        low=low,
        high=high,
        response=float((np.abs(response[:-1]).max() / math.cos(math.pi / (2 * NODES))) ** 2),
        gain=float(gain[:-1].max() / math.cos(math.pi / NODES)),
        average=float(gain[-1]),
    )
