"""A transport with injected faults, for experiments and tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.round.round_trip import RoundTrip
from gossamer.agents.round.transport import Deliver, Transport


class MessageFaults(Protocol):
    """The faults of every message; `gossamer.faults.Faults.bind` makes one."""

    def lost(self, round: int, sender: int, receiver: int) -> bool:
        """Whether the message of this round is lost."""

    def delay(self, round: int, sender: int, receiver: int) -> int:
        """Number of rounds by which it is late."""


class Faulty:
    """A transport that loses and delays this agent's messages.

    A message that is k rounds late is sent in the first exchange whose round is k later.

    Parameters
    ----------
    transport : Transport
        The transport that sends the messages which are not lost.
    me : int
        The number of this agent in the fleet, from 0.
    faults : MessageFaults
        Decides the fate of every message; `gossamer.faults.Faults.bind` makes one.

    See Also
    --------
    Memory : A transport to wrap.
    gossamer.faults.Faults : What can be injected.

    Examples
    --------
    >>> inner = gs.agents.Memory().transport(0, (1,))
    >>> lossy = gs.agents.Faulty(inner, 0, gs.faults.Faults(gs.faults.Loss(0.3)).bind(seed=1))
    >>> isinstance(lossy, gs.agents.Transport)
    True
    """

    def __init__(self, transport: Transport, me: int, faults: MessageFaults) -> None:
        self._transport = transport
        self._me = me
        self._faults = faults
        self._held: list[tuple[int, int, bytes]] = []  # (due round, receiver, payload)

    def open(self) -> None:
        self._transport.open()

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        due = [item for item in self._held if item[0] <= round] if self._held and outgoing else []
        for item in due:
            self._held.remove(item)
            self._transport.exchange(round, {item[1]: item[2]}, 0.0, deliver)
        on_time = {}
        for receiver, payload in outgoing.items():
            if self._faults.lost(round, self._me, receiver):
                continue
            late = self._faults.delay(round, self._me, receiver)
            if late:
                self._held.append((round + late, receiver, payload))
            else:
                on_time[receiver] = payload
        self._transport.exchange(round, on_time, deadline, deliver)

    def rewire(self, settings: AgentSettings) -> None:
        self._transport.rewire(settings)

    def present(self) -> frozenset[int]:
        return self._transport.present()

    @property
    def trips(self) -> Mapping[int, RoundTrip]:
        return getattr(self._transport, "trips", {})

    @property
    def builds(self) -> Mapping[int, str]:
        return getattr(self._transport, "builds", {})

    def wake(self) -> None:
        self._transport.wake()

    def close(self) -> None:
        self._transport.close()
