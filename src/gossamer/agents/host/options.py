"""How to run one agent: what `gossamer agent` and `gossamer fleet up` hand to its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gossamer.errors import require
from gossamer.faults import Faults, parse

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run one agent; `None` leaves it to fleet.toml.

    fleet     path of fleet.toml
    agent     the agent's number or name
    source    where its observations come from
    end       what it means that its command ends without an error
    every     seconds between rounds; 0: as fast as the neighbors answer
    store     directory of the store; None: nothing survives a crash
    metrics_port, metrics_host   where Prometheus finds the metrics; port 0: nowhere
    status    whether to keep a status file beside fleet.toml, and the agent's lock
    insecure  plaintext, without certificates
    report    seconds between two lines of output
    level     the least serious messages that are logged
    rounds    stop after this many rounds of this run; 0: run until stopped
    guarded   stop when standard input is closed, that is, when the parent process is gone
    faults    texts of the faults to inject into what this agent sends, for trials
    claim     descriptor of the agent's lock, if the parent process holds it already (see `claim`)
    logs      directory of the files NAME.log and NAME.jsonl, which take the place of standard error and output
    restarts  how often the agent was started again after a failure
    terminal  an open descriptor of the terminal that the agent was started from (see `hangup.py`)
    """

    fleet: str
    agent: str
    source: str | None = None
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
        """The options as the one argument of `python -m gossamer.agents.host.process`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str, **changes: Any) -> Options:
        """The options in such an argument, with some of them changed."""
        return msgspec.structs.replace(msgspec.json.decode(text, type=cls), **changes)

    @property
    def injected(self) -> Faults:
        """The faults to inject."""
        return Faults(*map(parse, self.faults))
