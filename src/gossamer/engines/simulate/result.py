"""The result of `gs.simulate`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gossamer import plotting
from gossamer.engines.results import OneOrMore, Rounds, TrialResult, Value
from gossamer.errors import Unsupported
from gossamer.networks import Network
from gossamer.observations import fourth_moment_note

if TYPE_CHECKING:
    from gossamer.engines.exact import Exact

QUICK, QUICK_IN_CLOSED_FORM = 2**14, 2**22
"""Largest numbers of agents for which an exact error takes seconds: in general, and with a closed-form spectrum."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Simulation(TrialResult[Rounds, Value]):
    """Trials in which every message arrives, so that they can be compared with the exact error.

    Attributes
    ----------
    total_error, mse, over_limit, stderr : float or ndarray
        The mean error over trials in three forms, and the standard error of total_error.
    errors : ndarray
        Total error of each trial, summed over agents, shape (trials,).
    per_agent : ndarray
        Mean over trials of each agent's squared error, shape (N,).
    estimates : ndarray
        The final estimates of all agents, shape (trials, N, n).
    iterates : mapping
        The estimates ("estimate") and the method's registers after every round, each of shape (trials, T, N, n), if
        they were kept.

    See Also
    --------
    simulate : Computes it.
    FaultySimulation : The result with faults.
    Exact : Expected errors with the same interface.

    Examples
    --------
    >>> run = gs.simulate("dsg", gs.Network.cycle(6), gs.Gaussian(np.zeros(6)), rounds=50, trials=10)
    >>> run.estimates.shape, run.per_agent.shape
    ((10, 6, 1), (6,))
    """

    network: Any  #: a Network, for push gossip a DirectedNetwork, or on a cluster NetworkParts

    @cached_property
    def expected(self) -> Exact[OneOrMore, OneOrMore] | None:
        """The exact error of the same method, or None if there is none; computed on first access.

        Warns if the standard errors of the trials are unreliable.
        """
        from gossamer.engines.exact import exact  # heavy, and not needed to simulate

        if heavy := fourth_moment_note(self.observations):
            warnings.warn(heavy, stacklevel=2)
        try:
            return exact(self.method, self.network, self.observations, self.rounds)
        except Unsupported:
            return None

    @property
    def quick_expected(self) -> Exact[OneOrMore, OneOrMore] | None:
        """`expected` if it can be computed in seconds, as in tables and figures, else None."""
        network = self.network
        if not isinstance(network, Network) or network.agents <= QUICK:
            return self.expected
        known = network.agents <= QUICK_IN_CLOSED_FORM and network.spectrum is not None
        return self.expected if known else None

    def curves(self) -> list[plotting.Curve]:
        simulated, *limits = super().curves()
        known = self.quick_expected
        if known is None:
            return [simulated, *limits]
        line = plotting.Curve(simulated.label, self.rounds, known.total_error)
        return [line, simulated, *limits]
