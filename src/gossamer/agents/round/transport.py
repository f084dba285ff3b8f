"""The interface of transports: one verb, `exchange`, and the set of connected neighbors.

A transport carries bytes between an agent and its neighbors. It knows nothing of ledgers or methods, and
does not raise for a neighbor that is absent, slow or gone. It may lose, delay, duplicate and reorder
messages: the agent tolerates that. It must never deliver a message under another sender's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from gossamer.agents.config.settings import AgentSettings

Deliver = Callable[[int, bytes], bool]
"""Called with (sender, payload) for each message; returns whether the round has now heard enough."""


@runtime_checkable
class Transport(Protocol):
    """What an agent needs from a network. All but `wake` are called from the agent's own thread.

    A transport that measures round trips also has them in `trips`, a mapping from neighbors to `RoundTrip`; one that
    knows what the neighbors run has it in `builds`.

    Examples
    --------
    >>> isinstance(gs.agents.Memory().transport(0, (1,)), gs.agents.Transport)
    True
    """

    def open(self) -> None:
        """Start listening and connecting to the neighbors; return at once, whether or not any is up."""

    def exchange(
        self,
        round: int,
        outgoing: Mapping[int, bytes],
        deadline: float,
        deliver: Deliver,
    ) -> None:
        """Send each neighbor its message, then deliver what arrives.

        Returns when `deliver` says that it heard enough, when `deadline` (of time.monotonic) has passed,
        when a neighbor connects or disconnects, or when `wake` was called. Messages that have arrived already
        are delivered even after the deadline, so an empty `outgoing` and a deadline in the past drain the
        inbox. Never raises for an absent neighbor.
        """

    def rewire(self, settings: AgentSettings) -> None:
        """Continue with the neighbors, addresses and certificates of these settings; connections that stay are kept."""

    def present(self) -> frozenset[int]:
        """The neighbors known to be connected now; all of them, if the transport cannot know."""

    def wake(self) -> None:
        """Make a running `exchange` return soon; any thread may call this."""

    def close(self) -> None:
        """Stop; may be called twice."""
