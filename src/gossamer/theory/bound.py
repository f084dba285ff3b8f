"""A bound: its terms and its conditions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gossamer import checks
from gossamer.networks import Network, NetworkLike
from gossamer.observations import Observations, check_match


@dataclass(frozen=True)
class Bound:
    """An upper bound on an error: its terms by name, and whether its conditions hold.

    Attributes
    ----------
    terms : dict
        The terms of the bound, by name; their sum is `total`.
    applies : bool
        Whether all conditions in `condition` hold. If so, the error is at most `total`.
    condition : str
        The conditions under which the bound holds, as text.
    order : dict
        The terms as the paper states them, up to a universal constant, so they are not a bound. Empty for the theorems,
        whose constants are explicit.

    See Also
    --------
    theorem_1 : A bound.
    gossamer.exact : The error that is bounded.

    Examples
    --------
    >>> bound = gs.theory.theorem_1("cycle:20", gs.Gaussian(np.zeros(20)), rounds=1000)
    >>> bound.applies, sum(bound.terms.values()) == bound.total
    (True, True)
    """

    terms: dict[str, float]
    applies: bool
    condition: str
    order: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return float(sum(self.terms.values()))


def check_problem(network: NetworkLike, observations: Observations, rounds: int) -> tuple[Network, int]:
    """Return the network and the number of rounds, or raise an error if they or the observations do not fit."""
    return check_match(network, observations), checks.rounds(rounds)


def moves(observations: Observations) -> bool:
    """Return whether the means change over time; bounds are about means that do not."""
    return observations.moving or bool(np.any(observations.drift))


def unmoved_condition(observations: Observations) -> str:
    """Return the part of a bound's condition about streams that drift or move."""
    if observations.moving:
        return " and means that do not move, but these do"
    return " and means that do not move, but these drift" if np.any(observations.drift) else ""
