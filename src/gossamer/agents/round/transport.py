"""The interface of transports: one verb, `exchange`, and the set of connected neighbors.

A transport carries bytes between an agent and its neighbors. It knows nothing about ledgers or methods, and does not
raise an error for a neighbor that is absent, slow or gone. It may lose, delay, duplicate and reorder messages, which
the agent tolerates. It must never deliver a message under another sender's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from gossamer.agents.config.settings import AgentSettings

Deliver = Callable[[int, bytes], bool]
"""Called with (sender, payload) for each message; returns whether `exchange` should return."""


@runtime_checkable
class Transport(Protocol):
    """What an agent needs from a network. All but `wake` are called from the agent's own thread.

    A transport that measures round-trip times provides them in `trips`, a mapping from neighbors to `RoundTrip`; one
    that knows the versions of the neighbors provides them in `builds`.

    See Also
    --------
    Memory : Messages inside one process.
    TlsTransport : Messages over a network.
    MpiTransport : Messages between the ranks of a cluster.

    Examples
    --------
    >>> isinstance(gs.agents.Memory().transport(0, (1,)), gs.agents.Transport)
    True
    """

    def open(self) -> None:
        """Start listening and connecting to the neighbors; return at once, whether or not any of them is running."""

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        """Send each neighbor its message, then deliver what arrives.

        Returns when `deliver` returns True, when `deadline` (of time.monotonic) has passed, when a neighbor connects or
        disconnects, or after a call of `wake`. Messages that have already arrived are delivered even after the
        deadline, so an empty `outgoing` and a deadline in the past drain the inbox. An absent neighbor is not an error.
        """

    def rewire(self, settings: AgentSettings) -> None:
        """Continue with the neighbors, addresses and certificates of these settings; keep the other connections."""

    def present(self) -> frozenset[int]:
        """Return the neighbors that are connected now; all of them if the transport cannot tell."""

    def wake(self) -> None:
        """Make a running `exchange` return; any thread may call this."""

    def close(self) -> None:
        """Close all connections; may be called twice."""
