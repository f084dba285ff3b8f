"""The two meanings of SIGHUP: the terminal was closed, or an operator wants the settings to be read again."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress


class Terminal:
    """The terminal that this process was started from, held open to see whether it has been closed.

    The kernel marks a terminal as hung up before it sends SIGHUP, so a process that handles the signal can tell from
    the descriptor whether the terminal sent it. Create this object before SIGHUP is blocked or handled: until then a
    hangup ends the process, and later ones are noticed. There is no terminal for a service, or under `nohup`, which
    asks to outlive it.

    Parameters
    ----------
    descriptor : int, optional
        An open descriptor of the terminal, inherited from the program that executed this one.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = descriptor
        self._quiet = 0  # looks in a row at which no process was left to send SIGHUP
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
        elif signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            with suppress(OSError):
                flags = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
                self.descriptor = os.open(os.ctermid(), flags)

    @property
    def gone(self) -> bool:
        """Whether the terminal has been closed: then a SIGHUP that arrives now is its own."""
        if self.descriptor is None:
            return False
        poll = select.poll()
        poll.register(self.descriptor, 0)  # a hangup is always reported
        return bool(poll.poll(0))

    def look(self) -> None:
        """Forget a terminal that was closed without a SIGHUP, so that a later one is an operator's.

        That happens to a background job whose shell had ended before: no process is left to send the signal. Call this
        regularly from the thread that handles SIGHUP, so that a pending signal is handled between two calls.
        """
        self._quiet = self._quiet + 1 if self.gone and not process_exists(os.getsid(0)) else 0
        if self._quiet > 1:
            self.close()

    def close(self) -> None:
        """Close the descriptor of the terminal."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def process_exists(process: int) -> bool:
    """Return whether there is a process with this number, of whatever user."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
