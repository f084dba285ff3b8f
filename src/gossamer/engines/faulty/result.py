"""The result of a simulation with faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gossamer.arrays import Booleans, Floats
from gossamer.engines.results import Rounds, TrialResult, Value
from gossamer.faults import Faults
from gossamer.networks import ChangingNetwork


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FaultySimulation(TrialResult[Rounds, Value]):
    """Trials in which messages get lost and agents crash; the errors are those of the agents alive at the end.

    The live agents differ between horizons, so with several horizons these arrays also have the horizons first.

    Attributes
    ----------
    agents : int
        Number of agents that are alive after the last round.
    alive : ndarray
        Whether each agent is alive, shape (N,); the estimates and errors of the others are NaN.
    since : int
        The round since which the live agents have been the same.
    target : ndarray
        Average of the means of the live agents, against which their errors are measured, shape (n,).
    parts : int
        Number of disconnected parts of the live agents. Agents of different parts cannot reach each other, because of
        crashes or, on a changing network, because no chain of contacts has connected them.
    rule : str
        How losses are handled: "ledger" if the method ran in its edge-ledger form, "skip" if it omitted neighbors
        that it did not hear.
    worst : float
        The largest distance of any agent's estimate, in any round and trial, from the range of all observations up to
        the horizon, as a multiple of the width of that range; 0 if none ever left it.
    messages : float
        Number of messages that all agents sent up to the horizon, whether they arrived or not; the mean over trials.

    See Also
    --------
    simulate : Computes it.
    Simulation : The result without faults.
    gossamer.faults.Faults : The faults.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(6), gs.Gaussian(np.arange(6.0))
    >>> run = gs.simulate("anytime-sda", net, obs, 200, trials=5, faults=gs.faults.Crash(5, 100))
    >>> run.agents, run.target, run.rule
    (5, array([2.]), 'ledger')
    """

    network: Any  #: a Network or a ChangingNetwork
    alive: Booleans
    target: Floats
    since: Rounds
    parts: Rounds
    rule: str
    worst: Value
    messages: Value
    faults: Faults  #: the simulated faults

    columns: ClassVar[tuple[str, ...]] = ("stderr", "trials", "worst", "messages", "bytes")
    shown: ClassVar[Sequence[str]] = (
        "rounds",
        "trials",
        "total_error",
        "stderr",
        "over_limit",
        "worst",
        "note",
    )
    lossless = False

    @property
    def bytes(self) -> Value:
        """Number of bytes of the values in these messages, 8 per component, without ledgers and headers."""
        return 8 * self.observations.components * self.messages

    def _notes(self, which: int) -> Iterator[str]:
        yield from super()._notes(which)
        alive, size = np.atleast_1d(self.agents)[which], self.alive.shape[-1]
        parts = np.atleast_1d(self.parts)[which]
        if alive < size:
            since = np.atleast_1d(self.since)[which]
            yield f"{alive} of {size} agents alive since round {since}; errors are against the average of their means"
        changing = isinstance(self.network, ChangingNetwork)
        if parts > 1 and changing:
            yield f"the contacts of all rounds leave the agents in {parts} parts, which cannot reach each other"
        elif parts > 1:
            yield f"the crashes cut them into {parts} parts, which cannot reach each other"
        if self.rule == "ledger" and len(self.faults.chains) and not self.method.bears_loss:
            yield "this form may diverge where messages are lost; use acceleration='nesterov' or 'local-heavy-ball'"
        if self.faults.quiet is not None:
            every = 2 * len(self.network.edges) * np.atleast_1d(self.rounds)[which]
            yield f"quiet: {np.atleast_1d(self.messages)[which] / every:.0%} of the messages were sent"
        if self.rule == "skip" and changing:
            yield "runs without a ledger, with the Metropolis weights of each round"
        elif self.rule == "skip":
            yield "runs without a ledger: neighbors that are not heard are left out"
