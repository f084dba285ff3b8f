"""Who sent SIGHUP: the terminal that was closed, or an operator."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.waiting import PATIENCE

PRELUDE = """
import os, pty, random, signal, sys, time
from gossamer.agents.host.hangup import Terminal

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # pytest may run under nohup, which a process inherits
caught = []

def serve(terminal, ready, slow=0.0):
    # As an agent starts: it holds SIGHUP back until it can handle it, and then decides who sent it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    os.write(ready, b"x")
    time.sleep(slow)
    signal.signal(signal.SIGHUP, lambda *_: caught.append("stop" if terminal.gone else "reload"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and "stop" not in caught:
        yield
        time.sleep(0.0002)
"""

MOMENTS = """
chance = random.Random(0)
read, write = os.pipe()
for moment in range(200):
    slow, waits = chance.choice([0, 0.001]), [chance.uniform(0, 0.002) for _ in range(3)]
    pid, master = pty.fork()
    if not pid:
        terminal = Terminal()
        for _ in serve(terminal, write, slow):
            pass
        os._exit(0 if "stop" in caught else 1)  # a reload that was under way may end after it
    os.read(read, 1)
    for order, wait in zip(chance.choice(["koc", "kco", "okc", "c"]), waits):
        time.sleep(wait)
        if order == "k":
            os.kill(pid, signal.SIGHUP)
        elif order == "c":
            os.close(master)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        print("the agent went on at moment", moment)
"""

BACKGROUND = """
read, write = os.pipe()
leader, master = pty.fork()
if not leader:
    if os.fork():
        os.read(read, 1)
        os._exit(0)  # the shell ends, and with it the terminal
    os.setpgid(0, 0)
    terminal = Terminal()
    for _ in serve(terminal, write):
        terminal.look()
        if terminal.descriptor is None:  # closed, and nobody sent SIGHUP
            os.kill(os.getpid(), signal.SIGHUP)
            os.write(write, " ".join(caught).encode())
            os._exit(0)
os.waitpid(leader, 0)
os.close(master)
print(os.read(read, 100).decode())
"""


def helper(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_closed_terminal_is_never_taken_for_a_reload() -> None:
    """200 terminals are closed while their agents start or run, and while an operator sends SIGHUP as well."""
    assert helper(MOMENTS) == ""


def test_a_job_that_outlived_its_terminal_reloads() -> None:
    """The terminal was closed long ago, and told others: SIGHUP is an operator's again."""
    assert helper(BACKGROUND) == "reload"
