"""Facts about a network that a method may use: its size and a few numbers from its spectrum, known or not."""

from __future__ import annotations

from typing import NamedTuple, Never, Protocol

import numpy as np

from gossamer.arrays import Floats
from gossamer.errors import Unsupported

AVERAGING_BOUND = 2.0
"""Bound on the eigenvalues of L = I - W if W averages, that is, has nonnegative weights that add up to 1."""


class ExchangeFacts(NamedTuple):
    """What the speed of random exchanges over single edges depends on; weights of edges do not matter.

    edges          number of edges
    connectivity   smallest nonzero eigenvalue of the Laplacian D - A
    resistance     largest effective resistance between the ends of an edge, if every edge has resistance 1
    """

    edges: int
    connectivity: float
    resistance: float


class SpectralFacts(Protocol):
    r"""The facts about a network that a method may use: its size and a few numbers from its spectrum.

    Every `Network` provides them.

    Attributes
    ----------
    agents : int
        Number of agents N in the network.
    lambda_bound : float
        A bound on all eigenvalues from the weights alone, without the spectrum.
    lambda_max : float
        The largest eigenvalue :math:`\lambda_\max` of the gossip matrix.
    lambda_2 : float
        The smallest nonzero eigenvalue :math:`\lambda_2` of the gossip matrix.
    condition_number : float
        The ratio :math:`\kappa = \lambda_\max/\lambda_2`; the larger it is, the slower the network mixes.
    inverse_square_trace : float
        The sum of :math:`1/\lambda^2` over the nonzero eigenvalues.
    exchanges : ExchangeFacts
        What the speed of random exchanges depends on.

    See Also
    --------
    KnownFacts : Facts as plain numbers.
    gossamer.Network : Computes them.

    Examples
    --------
    >>> facts: gs.methods.SpectralFacts = gs.Network.complete(4)
    >>> facts.lambda_max, facts.condition_number
    (1.0, 1.0)
    """

    @property
    def agents(self) -> int: ...

    @property
    def lambda_bound(self) -> float: ...

    @property
    def lambda_max(self) -> float: ...

    @property
    def lambda_2(self) -> float: ...

    @property
    def condition_number(self) -> float: ...

    @property
    def inverse_square_trace(self) -> float: ...

    @property
    def exchanges(self) -> ExchangeFacts: ...


class KnownFacts(NamedTuple):
    r"""`SpectralFacts` as plain numbers, for code without a `Network`, such as a deployed agent or a rank of a cluster.

    Parameters
    ----------
    agents : int
        Number of agents N in the network.
    lambda_max, lambda_2 : float
        Largest and smallest nonzero eigenvalue of the gossip matrix.
    inverse_square_trace : float
        The sum of :math:`1/\lambda^2` over the nonzero eigenvalues.
    lambda_bound : float
        Upper bound on :math:`\lambda_\max`, computed from the weights.

    See Also
    --------
    SpectralFacts : The facts that methods may use.
    UnknownFacts : Facts of a network whose spectrum is unknown.

    Examples
    --------
    >>> facts = gs.methods.KnownFacts.of(np.array([0.0, 0.5, 1.0]))
    >>> facts.lambda_2, facts.condition_number
    (0.5, 2.0)
    """

    agents: int
    lambda_max: float
    lambda_2: float
    inverse_square_trace: float
    lambda_bound: float

    @property
    def condition_number(self) -> float:
        return self.lambda_max / self.lambda_2

    @property
    def exchanges(self) -> ExchangeFacts:
        raise Unsupported("random exchanges run only in simulations, which have a Network")

    @classmethod
    def copy(cls, facts: SpectralFacts) -> KnownFacts:
        """Return the facts of a network as plain numbers."""
        return cls(*(getattr(facts, name) for name in cls._fields))

    @classmethod
    def of(cls, eigenvalues: Floats) -> KnownFacts:
        """Return the facts of a connected network with these eigenvalues, in any order."""
        ascending = np.sort(eigenvalues)
        return cls(
            len(ascending),
            float(ascending[-1]),
            float(ascending[1]),
            float(np.sum(1.0 / ascending[1:] ** 2)),
            max(AVERAGING_BOUND, float(ascending[-1])),
        )


class DeclaredFacts:
    """The types of all `SpectralFacts`, for classes whose `__getattr__` gives the values."""

    agents: int
    lambda_bound: float
    lambda_max: float
    lambda_2: float
    condition_number: float
    inverse_square_trace: float
    exchanges: ExchangeFacts


class UnknownFacts(DeclaredFacts):
    """`SpectralFacts` of a network whose spectrum is unknown; accessing it raises an error that says what to do.

    Facts that need no spectrum are available: the weights are assumed to average, as Metropolis weights do.

    Parameters
    ----------
    lambda_bound : float
        A bound on all eigenvalues of the gossip matrix; 2 by default, which holds for weights that average.
    agents : int, optional
        Number of agents N in the network, if that is known.
    advice : str
        The end of the error text: why a fact is unknown, and what to do.

    See Also
    --------
    KnownFacts : Facts as plain numbers.
    gossamer.ChangingNetwork : A network without a fixed spectrum.

    Examples
    --------
    >>> gs.methods.UnknownFacts().lambda_bound
    2.0
    """

    def __init__(
        self,
        lambda_bound: float = AVERAGING_BOUND,
        *,
        agents: int | None = None,
        advice: str = "which is not known here; give the method all its parameters by hand",
    ) -> None:
        self.lambda_bound, self.advice = lambda_bound, advice
        if agents is not None:
            self.agents = agents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownFacts) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.lambda_bound)

    def __repr__(self) -> str:
        return f"UnknownFacts({self.lambda_bound:g})"

    def __getattr__(self, name: str) -> Never:
        if name not in dir(SpectralFacts):
            raise AttributeError(name)
        raise Unsupported(f"the method asks for the network's {name}, {self.advice}")
