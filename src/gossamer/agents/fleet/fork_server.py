"""The process that a fleet's agents are forked from.

Starting Python with NumPy for every agent costs 0.3 seconds of processor time and 20 MB of memory. So one process
imports everything once and forks an agent on request, which takes milliseconds and shares that memory. It has no
threads, which would not survive a fork, and does nothing else.

Every process ends with its parent: the fork server reads a socket of the launcher (`local.py`), and the agents read a
pipe of the fork server. Only the fork server waits for agents and sends them signals, because the process number of a
child that it has not waited for cannot have been reused.

`ForkServer` is the launcher's end. The two exchange lines of JSON: {"start": options} (with the agent's lock) is
answered by {"started": pid}, {"signal": number, "pid": pid} is not answered, and {"ended": pid, "code": code} is sent
when an agent ends.
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
"""Seconds in which the fork server must have imported everything, on a very busy machine."""


class ForkServer:
    """The launcher's end of the fork server."""

    def __init__(self, fleet: Path) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gossamer.agents.fleet.fork_server", str(theirs.fileno()), str(fleet)],
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
                raise GossamerError("the limit on processes of this machine is reached; raise it")
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
        """The exit codes of the agents that have ended since the last call; waits at most `wait` seconds for one.

        If the fork server itself has ended, so have all agents.
        """
        if self.alive:
            self._listen(0.0 if self._ended else wait)
        ended, self._ended = self._ended, {}
        return ended

    def _listen(self, wait: float) -> int | None:
        """Read the fork server's lines; return the process number of an agent that was started, 0 if that failed."""
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
        """End the fork server, and with it any agent that still runs."""
        self.alive = False
        self._socket.close()
        self._process.wait()


class _JsonLines:
    """Splits received bytes into lines of JSON."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, piece: bytes) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [json.loads(line) for line in lines]


# -- the process itself ------------------------------------------------------------------------------------


class _Forker:
    """The fork server's own end: starts agents, forwards signals, and reports exit codes."""

    def __init__(self, control: socket.socket, path: Path) -> None:
        self._control = control
        self._path = path
        self._read: tuple[object, Fleet | None] = (None, None)
        guard, self._guard = os.pipe()
        os.dup2(guard, 0)  # the agents' standard input, which ends when this process does
        os.close(guard)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._lines = _JsonLines()
        self._locks: list[int] = []
        self._children: set[int] = set()

    def serve(self) -> None:
        """Serve requests until the launcher has ended."""
        while True:
            ready = select.select([self._control, self._wake_reader], [], [])[0]
            if self._wake_reader in ready:
                self._wake_reader.recv(_PIECE)
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
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._children.remove(pid)
                self._say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})

    def _fork(self, text: str) -> int:
        """Start an agent; return its process number, or 0 if no process can be started."""
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
        """The fleet, read again only if a file in its folder has changed; None if it is invalid: the agent says why."""
        try:
            files = [(entry.name, entry.stat()) for entry in os.scandir(self._path.parent) if entry.is_file()]
            stamp = sorted((name, facts.st_mtime_ns, facts.st_size, facts.st_ino) for name, facts in files)
            if self._read[0] != stamp:
                self._read = (stamp, Fleet.read(self._path, load=True))
        except (OSError, InvalidInput):
            return None
        return self._read[1]

    def _become(self, options: Options, fleet: Fleet | None) -> NoReturn:
        """Become an agent: keep nothing of the fork server but its imports."""
        code = 1
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (self._control, self._wake_reader, self._wake_writer):
                end.close()
            os.close(self._guard)
            code = process.main(options, fleet)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


def _import_everything() -> None:
    """Import what an agent may import later, so that all agents share it."""
    for name in ("host.metrics", "host.web", "transports.tls"):
        import_module(f"gossamer.agents.{name}")
    full_version()
    for name in ("prometheus_client", "prometheus_client.exposition"):
        require(name, "agents")


if __name__ == "__main__":
    _import_everything()
    gc.collect()
    gc.freeze()  # a collection would write into every object, which ends the sharing of memory
    with suppress(ConnectionError):  # the launcher has ended
        _Forker(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])).serve()
