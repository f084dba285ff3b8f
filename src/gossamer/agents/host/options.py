"""Options of one agent, which `gossamer agent` and `gossamer fleet up` pass to its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.errors import require
from gossamer.faults import Faults, parse

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of one agent; where they are None, fleet.toml decides.

    fleet     path of fleet.toml
    agent     the agent's number or name
    source    source of its observations
    sinks     addresses where it publishes its answers
    end       what to do when its command ends without an error
    every     seconds between rounds; 0 is as fast as the neighbors answer
    store     directory of the store; without one, nothing survives a crash
    metrics_port, metrics_host   address of metrics and status; port 0 disables them
    status    whether to write a status file next to fleet.toml, and hold the agent's lock
    insecure  use plaintext, without certificates
    report    seconds between two lines of output
    level     the lowest level of messages that are logged
    rounds    number of rounds after which to stop; 0 means run until stopped
    guarded   stop when standard input is closed, that is, when the parent process has ended
    faults    texts of the faults to inject into the messages of this agent, for experiments
    claim     descriptor of the agent's lock, if the parent process already holds it (see `claim`)
    logs      directory of NAME.log and NAME.jsonl, which replace standard error and output
    restarts  number of restarts after a failure
    terminal  an open descriptor of the terminal that started the agent (see `hangup.py`)
    """

    fleet: str
    agent: str
    source: str | None = None
    sinks: tuple[str, ...] | None = None
    end: str | None = None
    every: float | None = None
    store: str | None = None
    metrics_port: int | None = None
    metrics_host: str | None = None
    status: bool = True
    insecure: bool = False
    report: float | None = None
    level: str | None = None
    rounds: int = 0
    guarded: bool = False
    claim: int | None = None
    logs: str | None = None
    restarts: int = 0
    terminal: int | None = None
    faults: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the options as the one argument of `python -m gossamer.agents.host.process`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str, **changes: object) -> Options:
        """Return the options in such an argument, with `changes`."""
        return msgspec.structs.replace(msgspec.json.decode(text, type=cls), **changes)

    @property
    def injected(self) -> Faults:
        """The faults to inject."""
        return Faults(*map(parse, self.faults))
