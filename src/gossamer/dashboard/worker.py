"""Computations in a separate process, which is killed when the user cancels or closes the page.

The server writes a job per line to the worker's standard input and reads frames from its standard output, each after
its length; an empty frame ends a job. A worker exits as soon as its input ends, so it never outlives its server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import resource
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator

from gossamer.dashboard.scenario import MOST_SECONDS
from gossamer.errors import GossamerError

MOST_AT_ONCE = 2
"""Largest number of workers that compute at the same time; other sessions wait for their turn."""

MOST_MEMORY = 4 * 2**30
"""Memory limit of a worker in bytes, since a small file can describe a huge network."""

_SIZE = 8


class Worker:
    """A process that runs one job at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.idle = True

    @classmethod
    async def start(cls) -> Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gossamer.dashboard.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal of the server stops only the server
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def run(self, job: dict[str, object]) -> AsyncGenerator[bytes]:
        """Yield the frames of a job as they arrive."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.idle = False
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        await self._process.stdin.drain()
        try:
            while size := int.from_bytes(await self._process.stdout.readexactly(_SIZE), "little"):
                yield await self._process.stdout.readexactly(size)
        except asyncio.IncompleteReadError:
            raise GossamerError(
                "the computation exited early, possibly out of memory; make it smaller"
            ) from None
        self.idle = True

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class Workers:
    """One worker is kept warm; a second one starts when two pages compute at the same time."""

    def __init__(self) -> None:
        self._spare: list[Worker] = []
        self._turn = asyncio.Semaphore(MOST_AT_ONCE)

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[None]:
        """Start the first worker, and stop all remaining ones when the server stops."""
        self._spare = [await Worker.start()]
        try:
            yield
        finally:
            for worker in self._spare:
                await worker.kill()
            self._spare = []

    async def run(self, job: dict[str, object]) -> AsyncGenerator[bytes]:
        """Yield the frames of a job; closing this generator early kills the worker."""
        async with self._turn:
            worker = self._spare.pop() if self._spare else await Worker.start()
            try:
                async with contextlib.aclosing(worker.run(job)) as frames:
                    end = asyncio.get_running_loop().time() + MOST_SECONDS
                    while True:
                        async with asyncio.timeout_at(end):
                            frame = await anext(frames, None)
                        if frame is None:
                            break
                        yield frame
            except TimeoutError:
                raise GossamerError(
                    f"the computation was stopped after {MOST_SECONDS:g} s; take fewer rounds, agents, links or methods"
                ) from None
            finally:
                if worker.idle and not self._spare:
                    self._spare.append(worker)
                else:
                    await asyncio.shield(worker.kill())
                    if not self._spare:
                        self._spare.append(await Worker.start())


def main() -> None:
    """Run a worker."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # anything printed goes to the server's standard error
    jobs: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            jobs.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    from gossamer.dashboard.jobs import frames_of

    while True:
        for frame in frames_of(json.loads(jobs.get())):
            output.write(len(frame).to_bytes(_SIZE, "little"))
            output.write(frame)
            output.flush()
        output.write(bytes(_SIZE))
        output.flush()


if __name__ == "__main__":
    main()
