"""The commands of a tutorial in a folder of its own, where `gossamer` is the program of this checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


class Terminal:
    """A folder in which blocks of shell commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "bin" / "gossamer"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gossamer "$@"\n')
        program.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
        }

    def ended(self, block: str) -> subprocess.CompletedProcess[str]:
        """Run a block to its end."""
        return subprocess.run(
            ["bash", "-ec", block],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def run(self, block: str, code: int = 0) -> str:
        """What a block prints; it must exit with `code`."""
        done = self.ended(block)
        assert done.returncode == code, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, block: str, log: str = "terminal.log") -> subprocess.Popen[bytes]:
        """Start a block in a session of its own; what it prints goes to a file."""
        with open(self.folder / log, "ab") as output:
            return subprocess.Popen(
                ["bash", "-c", block],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def end(self, running: subprocess.Popen[bytes], by: signal.Signals = signal.SIGINT) -> None:
        """Interrupt what was started, as Ctrl-C does, and wait for its end."""
        os.killpg(running.pid, by)
        running.wait(PATIENCE)
