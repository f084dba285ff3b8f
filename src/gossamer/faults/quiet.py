"""Agents that are silent while they have no news: not a fault, but the ledger treats it as loss."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from gossamer import checks
from gossamer.faults.fault import Fault


@dataclass(frozen=True, repr=False)
class Quiet(Fault):
    """Agents without news stay silent; to the ledger, a message that is not sent is one that is lost.

    An agent is silent in a round if its message differs from the last one that it sent, and from the last one that it
    heard of each neighbor, by less than `fraction` of the standard error of a center that holds all observations. All
    agents speak in one round of every `silence` (A of the ledger's rules, 5), so that edges keep moving.

    Parameters
    ----------
    fraction : float
        Fraction of that standard error, for example 0.1.

    See Also
    --------
    Loss : Messages that are lost on their way.
    gossamer.AgentSettings : Its `quiet` lets deployed agents be silent.

    Examples
    --------
    >>> net, obs = gs.Network.complete(6), gs.Gaussian(np.arange(6.0))
    >>> local = gs.AnytimeSDA("local-heavy-ball")
    >>> run = gs.simulate(local, net, obs, 1000, 20, faults=gs.faults.Quiet())
    >>> run.over_limit < 1.1, run.messages < 0.5 * 1000 * 30
    (True, True)
    """

    fraction: float = 0.1

    kind: ClassVar[str] = "quiet"
    form: ClassVar[str] = "FRACTION, for example 0.1"

    def __post_init__(self) -> None:
        checks.number("fraction", self.fraction, above=0)

    @classmethod
    def parse(cls, text: str, names: Sequence[Hashable] = ()) -> Self:
        return cls(*cls._numbers(text, 1))

    @property
    def text(self) -> str:
        return f"{self.fraction!r}"
