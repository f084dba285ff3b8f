"""How to run one agent: what `gossamer agent` and `gossamer fleet up` hand to its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gossamer.errors import require
from gossamer.faults import Bursts, Delay, Faults, Loss, Partition

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run one agent; `None` leaves it to fleet.toml.

    fleet     path of fleet.toml
    agent     the agent's number or name
    source    where its observations come from
    every     seconds between rounds; 0: as fast as the neighbors answer
    store     directory of the store; None: nothing survives a crash
    metrics_port, metrics_host   where Prometheus finds the metrics; port 0: nowhere
    insecure  plaintext, without certificates
    report    seconds between two lines of output
    level     the least serious messages that are logged
    rounds    stop after this many rounds of this run; 0: run until stopped
    guarded   stop when standard input is closed, that is, when the parent process is gone
    loss, burst, delay, partition   faults to inject into what this agent sends, for trials; None: none
    claim     descriptor of the agent's lock, if the parent process holds it already (see `claim`)
    logs      directory of the files NAME.log and NAME.jsonl, which take the place of standard error and output
    restarts  how often the agent was started again after a failure
    """

    fleet: str
    agent: str
    source: str | None = None
    every: float | None = None
    store: str | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    insecure: bool = False
    report: float | None = None
    level: str | None = None
    rounds: int = 0
    guarded: bool = False
    claim: int | None = None
    logs: str | None = None
    restarts: int = 0
    loss: Loss | None = None
    burst: Bursts | None = None
    delay: Delay | None = None
    partition: tuple[Partition, ...] = ()

    def text(self) -> str:
        """The options as the one argument of `python -m gossamer.agents.host.process`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str, **changes: Any) -> Options:
        """The options in such an argument, with some of them changed."""
        return msgspec.structs.replace(msgspec.json.decode(text, type=cls), **changes)

    @property
    def faults(self) -> Faults:
        """The faults to inject."""
        given = (self.loss, self.burst, self.delay, *self.partition)
        return Faults(*(fault for fault in given if fault is not None))
