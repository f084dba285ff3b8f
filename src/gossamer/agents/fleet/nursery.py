"""The process that a fleet's agents are forked from.

Starting Python with NumPy for each agent costs 0.3 seconds of processor time and 20 MB of memory. So one
process imports everything once and forks each agent on request, which takes milliseconds and shares that memory. It
has no threads, which would not survive a fork, and does nothing else.

Each process ends with the one that started it: the nursery reads a socket of the launcher, and the agents read a pipe
of the nursery. Only the nursery may wait for agents and send them signals: a number that it has not waited for yet
cannot be another process's.

`Nursery` is the launcher's end. They talk in lines of JSON: {"start": options} (with the agent's lock) is answered
by {"started": pid}, {"signal": number, "pid": pid} by nothing, and {"ended": pid, "code": code} comes by itself.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from gossamer.agents.host import process
from gossamer.agents.host.options import Options
from gossamer.agents.membership.fleet import Fleet
from gossamer.errors import GossamerError, InvalidInput, require
from gossamer.fingerprint import full_version

_PIECE = 1 << 16
_SLOWEST = 60.0
"""Seconds that the nursery may take to import everything, on a very busy machine."""


class Nursery:
    """A nursery and its agents, as the launcher sees them."""

    def __init__(self, fleet: Path) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gossamer.agents.fleet.nursery", str(theirs.fileno()), str(fleet)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # In its own session, so that Ctrl-C reaches the launcher alone, which then stops the agents.
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # its threads would not survive a fork
            )
        self._lines = _JsonLines()
        self._running: set[int] = set()
        self._ended: dict[int, int] = {}
        self.alive = True

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, options: Options, held: int) -> int:
        """Start an agent that gets the lock `held`; return its process number."""
        line = json.dumps({"start": options.text()}) + "\n"
        try:
            socket.send_fds(self._socket, [line.encode()], [held])
        except OSError:
            self._lose()
        deadline = time.monotonic() + _SLOWEST
        while self.alive and time.monotonic() < deadline:
            pid = self._listen(deadline - time.monotonic())
            if pid == 0:
                raise GossamerError("this machine lets no more processes be started; raise its limits")
            if pid is not None:
                return pid
        raise GossamerError("the process that starts agents has ended; see the messages above")

    def send(self, pid: int, number: int) -> None:
        """Send a signal to an agent, unless it has ended."""
        if self.alive and pid in self._running:
            try:
                self._socket.sendall(json.dumps({"signal": int(number), "pid": pid}).encode() + b"\n")
            except OSError:
                self._lose()

    def ended(self, wait: float = 0.0) -> dict[int, int]:
        """The agents that have ended since the last call, with their exit codes; waits for one at most so long.

        If the nursery itself has ended, so have all of them.
        """
        if self.alive:
            self._listen(0.0 if self._ended else wait)
        found, self._ended = self._ended, {}
        return found

    def _listen(self, wait: float) -> int | None:
        """Take in what the nursery says; return the number of an agent that it has started, 0 if it could not."""
        started = None
        while self.alive and select.select([self._socket], [], [], max(wait, 0.0))[0]:
            piece = self._socket.recv(_PIECE)
            if not piece:
                self._lose()
            for said in self._lines.add(piece):
                if "started" in said:
                    started = int(said["started"])
                    self._running.add(started)
                else:
                    self._running.discard(said["ended"])
                    self._ended[said["ended"]] = said["code"]
            wait = 0.0
        return started

    def _lose(self) -> None:
        self.alive = False
        self._ended |= dict.fromkeys(self._running, 1)
        self._running.clear()

    def close(self) -> None:
        """End the nursery, and with it any agent that still runs."""
        self.alive = False
        self._socket.close()
        self._process.wait()


class _JsonLines:
    """Lines of JSON, from pieces of them."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, piece: bytes) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [json.loads(line) for line in lines]


# -- the process itself ------------------------------------------------------------------------------------


class _Forker:
    """The nursery's own end: starts agents, passes signals on, and reports who has ended."""

    def __init__(self, control: socket.socket, path: Path) -> None:
        self._control = control
        self._path = path
        self._read: tuple[object, Fleet | None] = (None, None)
        guard, self._guard = os.pipe()
        os.dup2(guard, 0)  # the agents' standard input, which ends when this process does
        os.close(guard)
        self._wake, wake = socket.socketpair()
        self._woken = wake
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._lines = _JsonLines()
        self._locks: list[int] = []
        self._children: set[int] = set()

    def serve(self) -> None:
        """Obey until the launcher is gone."""
        while True:
            ready = select.select([self._control, self._wake], [], [])[0]
            if self._wake in ready:
                self._wake.recv(_PIECE)
                self._reap()
            if self._control in ready:
                piece, locks, _, _ = socket.recv_fds(self._control, _PIECE, 16)
                if not piece:
                    return
                self._locks += locks
                for asked in self._lines.add(piece):
                    if "start" in asked:
                        self._say({"started": self._fork(asked["start"])})
                    elif asked["pid"] in self._children:
                        os.kill(asked["pid"], asked["signal"])

    def _say(self, facts: dict[str, int]) -> None:
        self._control.sendall(json.dumps(facts).encode() + b"\n")

    def _reap(self) -> None:
        for pid in list(self._children):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self._children.remove(pid)
                self._say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})

    def _fork(self, text: str) -> int:
        """Start an agent; return its process number, or 0 if there can be no more processes."""
        held = self._locks.pop(0)
        fleet = self._fleet()
        pid = 0
        before = signal.pthread_sigmask(signal.SIG_BLOCK, process.SIGNALS)  # until the agent handles them
        try:
            pid = os.fork()
            if not pid:
                self._become(Options.parse(text, claim=held), fleet)
            self._children.add(pid)
        except OSError:
            traceback.print_exc()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(held)
        return pid

    def _fleet(self) -> Fleet | None:
        """The fleet, read again only if a file beside it has changed; None: the agent finds out what is wrong."""
        try:
            found = [(entry.name, entry.stat()) for entry in os.scandir(self._path.parent) if entry.is_file()]
            stamp = sorted((name, facts.st_mtime_ns, facts.st_size, facts.st_ino) for name, facts in found)
            if self._read[0] != stamp:
                self._read = (stamp, Fleet.read(self._path))
        except (OSError, InvalidInput):
            return None
        return self._read[1]

    def _become(self, options: Options, fleet: Fleet | None) -> NoReturn:
        """Be an agent from now on, with nothing of the nursery but what it has imported."""
        code = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (self._control, self._wake, self._woken):
                end.close()
            os.close(self._guard)
            code = process.main(options, fleet)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


def _import_everything() -> None:
    """Whatever an agent may import later, so that all of them share it."""
    for name in ("host.metrics", "host.web", "transports.tls"):
        import_module(f"gossamer.agents.{name}")
    full_version()
    for name in ("prometheus_client", "prometheus_client.exposition"):
        require(name, "agents")


if __name__ == "__main__":
    _import_everything()
    gc.collect()
    gc.freeze()  # the collector would write into every object, and so unshare the memory
    with suppress(ConnectionError):  # the launcher is gone
        _Forker(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])).serve()
