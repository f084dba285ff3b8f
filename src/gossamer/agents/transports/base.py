"""The transport: one verb, and who is there.

A transport carries bytes between an agent and its neighbours. It knows nothing of rounds, ledgers or methods;
it must not raise for a neighbour that is absent, slow or gone. What it may lose, duplicate, delay and reorder
is anything: the agent copes. What it must never do is deliver a message under another sender's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

Deliver = Callable[[int, bytes], bool]
"""Called with (sender, payload) for each message; returns whether the round has now heard enough."""


@runtime_checkable
class Transport(Protocol):
    """What an agent needs of a network. All methods are called from the agent's own thread, but for `wake`."""

    def open(self) -> None:
        """Start to listen and to seek the neighbours; return at once, whether or not anyone is there."""

    def exchange(self, round: int, outgoing: Mapping[int, bytes], deadline: float, deliver: Deliver) -> None:
        """Send each neighbour its message, then deliver what arrives.

        Returns when `deliver` says that it heard enough, when `deadline` (on time.monotonic's clock) has passed,
        or when `wake` was called. Messages that wait already are delivered even after the deadline, so an empty
        `outgoing` and a deadline in the past drain the inbox. Never raises for an absent neighbour.
        """

    def present(self) -> frozenset[int]:
        """The neighbours known to be connected now. A transport that cannot know says all of them."""

    def wake(self) -> None:
        """Make a running `exchange` return at once; called from any thread."""

    def close(self) -> None:
        """Stop; may be called twice."""
