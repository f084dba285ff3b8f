"""fleet.toml as typed structs, in the order in which it is written, with the declaration of every setting.

A table's docstring is its comment in the file. Help pages of the command line load this module: it must not load NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from gossamer.agents.config.declaration import (
    REQUIRED,
    SECONDS,
    Declaration,
    Declared,
    FileTable,
    like,
    settings_of,
)
from gossamer.agents.config.members import ENDS as ENDS
from gossamer.agents.config.members import LEVELS, Edge, Left
from gossamer.agents.config.members import Member as Member
from gossamer.agents.config.privacy import PrivacyTable as PrivacyTable
from gossamer.agents.config.values import check_increasing, check_word
from gossamer.agents.config.values import duration as duration
from gossamer.agents.config.values_table import ValuesTable
from gossamer.errors import require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

FORMAT = 1
"""Of fleet.toml."""

AUTO = "auto"
"""A timeout that follows the round trips to the neighbors (`round_trip.py`)."""


class MethodTable(FileTable, frozen=True, kw_only=True):
    """The method and its parameters, in one table. All agents must use the same ones. The local forms of Anytime
    SDA need no parameters for any edges; with other methods, parameters that are left out come from the spectrum of
    all edges.
    """

    name: Annotated[
        str,
        Declaration(
            'A dual method: "anytime-sda", "ssda", or one of your own as "my_file.py:MyMethod", with the file next to '
            "this one.",
            live=False,
        ),
    ] = "anytime-sda"
    parameters: dict[str, object] = msgspec.field(default_factory=dict)

    @classmethod
    def from_file(cls, table: dict[str, object]) -> dict[str, object]:
        """Return the method from one table of fleet.toml."""
        rest = dict(table)
        name = rest.pop("name", cls().name)
        return {"name": name, "parameters": rest}

    def in_file(self) -> dict[str, object]:
        """Return the method as one table of fleet.toml."""
        return {"name": self.name, **self.parameters}


class ObservationsTable(FileTable, frozen=True, kw_only=True):
    """What the agents observe."""

    dimension: Annotated[int, Declaration("Number of components of an observation.", least=1, agreed=0)] = 1
    weighting: Annotated[
        str,
        Declaration(
            '"agents" gives the same weight to the mean of every agent, "samples" to every observation.',
            choices=("agents", "samples"),
            agreed=1,
        ),
    ] = "agents"
    range: Annotated[
        tuple[float | tuple[float, float], ...],
        Declaration(
            "Smallest and largest value of an observation, such as [-40, 60], or one such pair per component; empty "
            "if unknown. It also bounds what neighbors may claim (docs/security.md), unless weighting is "
            '"samples".',
            agreed=7,
        ),
    ] = ()
    outside: Annotated[
        str,
        Declaration(
            'What happens to an observation outside the range: "refuse" skips and counts it, "clip" moves it to the '
            "nearest end.",
            choices=("refuse", "clip"),
        ),
    ] = "refuse"


class StatisticsTable(FileTable, frozen=True, kw_only=True):
    """What the agents learn in addition to the mean; each statistic makes messages longer."""

    replicates: Annotated[
        int,
        Declaration(
            "Number of noise replicates from which the standard error is computed; 0 disables it.",
            least=0,
            agreed=6,
        ),
    ] = 8
    variance: Annotated[
        bool, Declaration("Whether to learn the variance of an observation across the fleet.", agreed=2)
    ] = False
    covariance: Annotated[
        bool, Declaration("Whether to learn the covariances of components as well; needs variance.", agreed=3)
    ] = False
    bins: Annotated[
        tuple[float, ...],
        Declaration(
            "Edges of a histogram, to learn quantiles across the fleet; empty for none.",
            check=check_increasing,
            agreed=5,
        ),
    ] = ()
    extremes: Annotated[
        bool,
        Declaration(
            "Whether to learn the smallest and the largest observation of the members since the last change of the "
            "roster.",
            agreed=4,
        ),
    ] = False
    window: Annotated[
        str,
        Declaration(
            'Average over about this much time, such as "10m", to follow means that drift; empty to average over '
            "everything so far.",
            unit=SECONDS,
            live=False,
        ),
    ] = ""


class ModelTable(FileTable, frozen=True, kw_only=True):
    """A model to learn from rows of covariates and a label, instead of the mean of observations (docs/deploy.md);
    without a family no model is learned. The dimension then follows from the covariates, and `weighting = "samples"`
    gives the fit of all rows in one table.
    """

    family: Annotated[
        str,
        Declaration('Family of the model: "logistic", "softmax", "poisson", "gamma" or "huber".', live=False),
    ] = ""
    covariates: Annotated[
        tuple[str, ...],
        Declaration(
            "Names of the covariates, in the order of a row; csv:FILE,target=LABEL finds them by these names.",
            live=False,
        ),
    ] = ()
    intercept: Annotated[bool, Declaration("Whether the model has a constant term.", live=False)] = True
    ridge: Annotated[
        float,
        Declaration(
            "Penalty per row: half of this times the sum of squared coefficients, without the intercept.",
            least=0,
            live=False,
        ),
    ] = 0.0
    classes: Annotated[
        int, Declaration("Number of classes of softmax; their labels are 0, 1, ...", least=2, live=False)
    ] = 3
    threshold: Annotated[
        float, Declaration("Size of a residual beyond which the Huber loss is linear.", above=0, live=False)
    ] = 1.345
    memory: Annotated[
        int,
        Declaration(
            "Number of rows of a stream that an agent keeps in memory to linearize them again; no row is stored or "
            "sent. Tables are kept as a whole.",
            least=0,
            live=False,
        ),
    ] = 10_000
    least: Annotated[
        int,
        Declaration(
            "An agent sends sums of at least this many rows; until then, new rows wait.", least=1, live=False
        ),
    ] = 20
    forgetting: Annotated[
        float,
        Declaration(
            "Number of rounds after which the weight of a row is halved, to follow models that change; 0 disables "
            "it.",
            least=0,
            live=False,
        ),
    ] = 0.0
    keep: Annotated[
        bool,
        Declaration(
            "Whether the rows of members that vanish stay in the model until they come back or the roster removes "
            "them; for members that are switched off at night, for example.",
            live=False,
        ),
    ] = False


class RoundsTable(FileTable, frozen=True, kw_only=True):
    """Pace and timeouts; times are "100ms", "2s", "1m". docs/timeouts.md says how to choose them."""

    every: Annotated[
        str,
        Declaration(
            'Time from the start of one round to the next, such as "100ms"; "0" is as fast as the neighbors answer.',
            unit=SECONDS,
            least=0,
        ),
    ] = "100ms"
    timeout: Annotated[
        str,
        Declaration(
            'How long a round waits for a neighbor before it continues without that edge; "auto" follows from the '
            "measured round trips.",
            unit=SECONDS,
            above=0,
            words=(AUTO,),
        ),
    ] = AUTO
    silence: Annotated[
        int,
        Declaration(
            "An edge is used only while each end has heard the other within this many rounds.",
            least=1,
            live=False,
        ),
    ] = 5
    quiet: Annotated[
        bool,
        Declaration(
            "Whether an agent is silent while its average is within a tenth of its standard error of what it sent and "
            "received last, except in one round of every `silence`.",
            live=False,
        ),
    ] = False
    return_rate: Annotated[
        float,
        Declaration(
            "The share of a dead neighbor's flow that is left after each round: the effect of its death is spread over "
            "about 1/(1-return_rate) rounds, so that estimates do not swing; with 0 it returns at once.",
            least=0,
            below=1,
            agreed=10,
            omitted=0.98,
        ),
    ] = 0.98
    death: Annotated[
        str,
        Declaration(
            "A neighbor that is silent for this long, and for `silence` rounds, counts as dead: the others average "
            "without it.",
            unit=SECONDS,
            above=0,
        ),
    ] = "5s"
    stop_timeout: Annotated[
        str,
        Declaration(
            "An agent that is asked to stop exits within this time, with everything it knows in its store.",
            unit=SECONDS,
            least=3,  # a command has two seconds to end
        ),
    ] = "5s"
    commit: Annotated[
        str,
        Declaration(
            "Time between two commits of the store, which is the most that a crash can lose.",
            unit=SECONDS,
            above=0,
        ),
    ] = "200ms"


class WireTable(FileTable, frozen=True, kw_only=True):
    """Messages: their numbers, and limits on what an agent accepts; anything beyond is dropped and counted."""

    precision: Annotated[
        str,
        Declaration(
            'Numbers in messages: "double" is 64 bits; "single" is 32 bits as long as rounding changes none of them by '
            "more than a hundredth of the standard error.",
            choices=("double", "single"),
            live=False,
        ),
    ] = "double"
    message_bytes: Annotated[
        int,
        Declaration(
            "Longest message that is decoded, in bytes; 0 is just enough for the dimension.", least=0
        ),
    ] = 0
    rounds_ahead: Annotated[
        int,
        Declaration(
            "A message from a round further ahead than this is dropped; it is also the largest jump of an agent.",
            least=1,
        ),
    ] = 1_000_000


class TransportTable(FileTable, frozen=True, kw_only=True):
    """How messages travel between agents: by direct connections, except where a broker is needed."""

    broker: Annotated[
        str,
        Declaration(
            'An MQTT broker, such as "mqtt://broker.lan/gossamer", or a Zenoh router, such as "zenoh://router.lan", '
            "that carries the connections between two agents if neither is reachable, end to end encrypted; its files "
            "are relative to the certificates.",
            live=False,
        ),
    ] = ""


class LoggingTable(FileTable, frozen=True, kw_only=True):
    """What the agents write. After a change here, or of pace and timeouts, send SIGHUP to make an agent reload."""

    level: Annotated[
        str,
        Declaration(
            'The lowest level of messages that are logged: "debug", "info", "warning" or "error".',
            choices=LEVELS,
        ),
    ] = "info"
    report: Annotated[
        str,
        Declaration(
            "Time between two estimates on an agent's standard output, or in its .jsonl file.",
            unit=SECONDS,
            least=0.01,
        ),
    ] = "1s"


class FleetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The whole of fleet.toml."""

    format: Annotated[int, Declaration("Format of this file.")] = FORMAT
    fleet: Annotated[
        str,
        Declaration(
            "Name of the fleet, part of every message's address; agents do not hear other fleets.",
            check=check_word,
            live=False,
        ),
    ] = "gossamer"
    epoch: Annotated[
        int,
        Declaration(
            "Number of this list of agents and edges, incremented by every `gossamer fleet` command that changes "
            "them. A roster next to this file with a newer epoch replaces the agents and edges here."
        ),
    ] = 0
    reset: Annotated[
        int,
        Declaration(
            "The epoch in which all flows were last set to zero (`gossamer fleet reset-flows`); 0 if never."
        ),
    ] = 0
    network: Annotated[str, Declaration("Where the edges came from; informational.")] = ""
    certificates: Annotated[
        str,
        Declaration(
            "Directory of the certificates, relative to this file. A host needs ca.pem, and NAME.pem and NAME.key of "
            "its own agents; ca.key signs new members, so keep it offline."
        ),
    ] = "certificates"
    agents: Annotated[list[Member], Declaration("One line per agent; empty fields are left out.")]
    edges: Annotated[
        list[Edge],
        Declaration(
            "One line per edge: two agents. Its weight follows from their numbers of neighbors, 1/(1 + the larger "
            "one), unless a third number gives it."
        ),
    ]
    left: Annotated[
        list[Left], Declaration("One line per agent that was removed; its number is not used again.")
    ] = msgspec.field(default_factory=list)
    method: MethodTable = MethodTable()
    observations: ObservationsTable = ObservationsTable()
    statistics: StatisticsTable = StatisticsTable()
    model: ModelTable = ModelTable()
    values: ValuesTable = ValuesTable()
    privacy: PrivacyTable = PrivacyTable()
    rounds: RoundsTable = RoundsTable()
    wire: WireTable = WireTable()
    transport: TransportTable = TransportTable()
    logging: LoggingTable = LoggingTable()

    def check_values(self) -> None:
        """Raise for the first setting whose value is not allowed."""
        for key, declared in SETTINGS.items():
            table, _, name = key.rpartition(".")
            disabled = (table == "model" and not self.model.family) or (
                table == "values" and not self.values.features
            )
            if table not in ROWS and not disabled:
                declared.check_text(key, getattr(getattr(self, table) if table else self, name))
        for k, member in enumerate(self.agents):
            for name, declared in settings_of(Member).items():
                declared.check(f"agents[{k}].{name}", getattr(member, name))

    def values_of(self, kind: type, member: Member | None = None) -> dict[str, Any]:
        """Return the file's values for the fields of a dataclass of settings, with times in seconds.

        With `member`, these are the values in its row; otherwise the values that all agents share.
        """
        values = {}
        for name, declared in settings_of(kind).items():
            table, _, field = declared.key.rpartition(".")
            if declared.key and (table in ROWS) == (member is not None):
                part = member or (getattr(self, table) if table else self)
                values[name] = SETTINGS[declared.key].value(declared.key, getattr(part, field))
        return values


ROWS = {"agents": Member, "left": Left}
"""The lists of fleet.toml whose rows have named fields."""

TABLES: dict[str, type[FileTable]] = {
    field.name: field.type
    for field in msgspec.structs.fields(FleetFile)
    if isinstance(field.type, type) and issubclass(field.type, FileTable)
}
"""The tables of fleet.toml, in its order."""


SETTINGS: dict[str, Declared] = {
    key: replace(declared, key=key)
    for table, kind in {"": FleetFile, **ROWS, **TABLES}.items()
    for name, declared in settings_of(kind).items()
    for key in [f"{table}.{name}" if table else name]
}
"""Every setting of fleet.toml by its key, such as "rounds.every"."""


def in_file(key: str, default: object = REQUIRED, **changes: object) -> Any:
    """A dataclass field whose declaration and default are those of fleet.toml, unless given (see `like`)."""
    return like(SETTINGS[key], default, **changes)


@dataclass(frozen=True, kw_only=True)
class StatisticSettings:
    """The settings that enable statistics, for `AgentSettings` and for `Layout`."""

    variance: bool = in_file("statistics.variance")
    covariance: bool = in_file("statistics.covariance")
    extremes: bool = in_file("statistics.extremes")
    bins: tuple[float, ...] = in_file("statistics.bins")
    replicates: int = in_file("statistics.replicates")
