"""What SIGHUP means: a terminal that was closed sends it, and so does an operator who wants settings to be reread."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def terminal_gone() -> Callable[[], bool]:
    """A function that says whether the terminal this process was started from has been closed since.

    Always False without a terminal (a service), and under `nohup`, which asks to outlive it.
    """
    had = _has_terminal() and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    return lambda: had and not _has_terminal()


def _has_terminal() -> bool:
    try:
        os.close(os.open(os.ctermid(), os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
