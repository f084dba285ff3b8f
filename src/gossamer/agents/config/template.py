"""How a fleet is written: a TOML file in which every field is explained."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gossamer.agents.config.members import Edge
from gossamer.errors import require

if TYPE_CHECKING:
    import msgspec

    from gossamer.agents.membership.fleet import Fleet
else:
    msgspec = require("msgspec", "agents")

_TOP = {
    "format": "Format of this file.",
    "fleet": "Name of the fleet, part of every message's address; agents do not hear other fleets.",
    "epoch": """\
Number of this list of agents and edges, raised by every `gossamer fleet` command that changes them. A roster
beside this file with a newer epoch counts instead of the agents and edges here.""",
    "reset": "The epoch in which all flows were set to zero last (`gossamer fleet reset-flows`); 0: never.",
    "network": "Where the edges came from; for people to read.",
    "certificates": """\
Directory of the certificates, relative to this file. A host needs ca.pem, and NAME.pem and
NAME.key of its own agents; ca.key signs new members, so keep it offline.""",
}

_TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "method": (
        """\
The method, and its parameters. All agents must use the same ones. The local form of Anytime SDA needs none, whatever
the edges; with other methods, what is left out comes from the spectrum of all edges.""",
        {
            "name": """\
A dual method: "anytime-sda", "ssda", or one of your own as "my_file.py:MyMethod", with the file
next to this one.""",
            "acceleration": '"local" needs no spectrum and bears heavy loss; "nesterov" is for fixed networks.',
            "step_size": """\
eta, at most 1/lambda_max (lambda_max is the largest eigenvalue of the gossip matrix); local: 1.3/lambda_max.""",
            "momentum": """\
zeta = (sqrt k - 1)/(sqrt k + 1), k the condition number. 0: no acceleration. Local: the limit to which
the momentum rises; long chains want more than 0.97, heavy loss wants less.""",
            "ramp": "Local: rounds until the momentum is one half.",
            "smoothing": """\
w: observations are smoothed over this many rounds before neighbors hear of them. Local: over w sqrt(t)
rounds after t rounds.""",
            "gain": """\
Smallest weight of the newest round. Above 0 (such as 0.01) the fleet follows means that drift, and
forgets the past; 0: plain averages of everything.""",
        },
    ),
    "observations": (
        "What the agents observe.",
        {
            "dimension": "How many numbers one observation has.",
            "weighting": '"agents": every agent\'s mean counts the same. "samples": every observation does.',
            "range": """\
The least and the largest value of an observation, such as [-40, 60], or one such pair per component; empty:
unknown. It also bounds what members may claim (docs/security.md), unless weighting is "samples".""",
            "outside": 'An observation outside the range: "refuse" (skipped and counted), or "clip" to its end.',
        },
    ),
    "statistics": (
        "What the agents learn besides the mean; each makes messages longer.",
        {
            "replicates": "Noise replicates that carry the standard error; 0: no standard error.",
            "variance": "The variance of an observation from the whole fleet.",
            "covariance": "The covariances of its components as well.",
            "bins": "Edges of a histogram, to learn fleet-wide quantiles; empty: none.",
            "extremes": "The least and the largest observation of the members, since the last change of the roster.",
            "window": """\
Follow means that drift, by averages over about this long, such as "10m"; empty: over everything so far.""",
        },
    ),
    "model": (
        """\
A model to learn from rows of covariates and a label, instead of the mean of observations (docs/deploy.md). Then the
dimension follows from the covariates, and `weighting = "samples"` gives the fit of all rows in one table.""",
        {
            "family": '"logistic", "softmax", "poisson", "gamma" or "huber"; empty: no model.',
            "covariates": """\
Names of the covariates, in the order of a row; csv:FILE,target=LABEL finds them by these names.""",
            "intercept": "Whether there is a constant beside them.",
            "ridge": "Factor of the penalty ridge/2 theta^2, per row; the intercept has none.",
            "classes": "How many classes softmax has; their labels are 0, 1, ...",
            "threshold": "From which residual on the Huber loss is linear.",
            "memory": """\
How many rows of a stream an agent keeps in memory to linearize them again; no row is stored or sent.""",
            "least": "An agent tells sums of so many rows or more; until then, new rows wait.",
            "forgetting": "After how many rounds a row counts half, to follow models that change; 0: never.",
        },
    ),
    "rounds": (
        'Pace and timeouts; times are "100ms", "2s", "1m". docs/timeouts.md says how to choose them.',
        {
            "every": 'Time from one round to the next. "0": as fast as the neighbors answer.',
            "timeout": """\
A round waits this long for a neighbor; then it goes on without that edge. "auto": as long as the measured round
trip asks for.""",
            "silence": "An edge moves only while each end was heard by the other within this many rounds.",
            "return_rate": """\
The share of a dead neighbor's flow that is left after each round: what the others see of its death is spread over
about 1 / (1 - return_rate) rounds, so that their estimates do not swing. The same for all agents.""",
            "death": """\
A neighbor silent for this long, and for `silence` rounds, counts as dead: the others average without it.""",
            "stop_timeout": "An agent that is told to stop has ended within this time, with all it knows in its store.",
            "commit": "Time between two commits of the store: the most that a crash can lose.",
        },
    ),
    "wire": (
        "Limits on what an agent accepts from its neighbors; anything beyond is dropped and counted.",
        {
            "message_bytes": "Longest message that is read at all; 0: just enough for the dimension.",
            "rounds_ahead": "A message from a round further ahead than this is dropped; the most that an agent jumps.",
        },
    ),
    "logging": (
        "What the agents write. After changes here and of pace and timeouts, SIGHUP makes an agent read this again.",
        {
            "level": 'The least serious messages that are logged: "debug", "info", "warning" or "error".',
            "report": "Time between two estimates on an agent's standard output, or in its .jsonl file.",
        },
    ),
}

_LISTS = {
    "agents": """\
One line per agent: its number, for good; its name; the host:port at which the others reach it (a host name or an
address, IPv6 in brackets); and where its observations come from (the command line can override it): "-" standard input,
"csv:FILE[,follow]", "cmd:COMMAND", or "sim:MEAN,STD,SEED", a simulated sensor. end = "fail", "restart" or "stop": what
it means that a command ends without an error; without it, "fail". listen = "0.0.0.0:7447" if it
listens elsewhere (containers, NAT); metrics = "host:port", where it serves its metrics; level = "debug", a log level
of its own; common_name is that of its certificate, if it is not its first one.""",
    "edges": """\
One line per edge: two agents. Their weight follows from their numbers of neighbors, 1/(1 + the larger one), unless a
third number gives it.""",
    "left": """\
Agents that were removed: their numbers are not used again. keep: what they observed still counts,
and heirs are the agents to which they handed it over.""",
}


def fleet_text(fleet: Fleet) -> str:
    """The fleet as TOML, with a comment for every field."""
    tomlkit = require("tomlkit", "agents")
    document = tomlkit.document()
    document.add(tomlkit.comment("A fleet of gossamer agents. Give every agent the same copy of this file."))
    document.add(tomlkit.nl())
    for name, text in _TOP.items():
        _explain(document, text)
        document.add(name, getattr(fleet, name))
    for name in _LISTS:
        document.add(tomlkit.nl())
        _explain(document, _LISTS[name])
        document.add(name, [])
    for name, (text, fields) in _TABLES.items():
        document.add(tomlkit.nl())
        table = tomlkit.table()
        _explain(table, text)
        part = getattr(fleet, name)
        values = part.in_file() if name == "method" else {field: getattr(part, field) for field in fields}
        for field, value in values.items():
            _explain(table, fields.get(field, f"A parameter of {fleet.method.name}."))
            table.add(field, _listed(value))
        document.add(name, table)
    written: str = tomlkit.dumps(document)
    for name in _LISTS:  # as text, because adding rows to a document takes the square of their number
        written = written.replace(f"\n{name} = []\n", f"\n{name} = {_array(getattr(fleet, name))}\n", 1)
    return written


def edited_text(text: str, fleet: Fleet) -> str:
    """The text of a fleet.toml with the epoch, agents, edges and left ones of `fleet`; all else stays as it is.

    Comments, order and what was edited by hand survive: only rows that differ are touched.
    """
    tomlkit = require("tomlkit", "agents")
    document = tomlkit.parse(_with_new_fields(text))
    document["epoch"] = fleet.epoch
    document["reset"] = fleet.reset
    _edit_rows(document["agents"], {agent.id: _row(agent) for agent in fleet.agents}, lambda row: row["id"])
    _edit_rows(
        document["edges"],
        {edge.pair: _row(edge) for edge in fleet.edges},
        lambda row: (min(row[0], row[1]), max(row[0], row[1])),
    )
    _edit_rows(document["left"], {gone.id: _row(gone) for gone in fleet.left}, lambda row: row["id"])
    written: str = tomlkit.dumps(document)
    return written


def _with_new_fields(text: str) -> str:
    """A file from before there were epochs, with the fields for them."""
    found = tomllib.loads(text)
    missing = ""
    new = ("epoch", "0", _TOP["epoch"]), ("reset", "0", _TOP["reset"]), ("left", "[]", _LISTS["left"])
    for name, empty, why in new:
        if name not in found:
            missing += "".join(f"# {line}\n" for line in why.splitlines()) + f"{name} = {empty}\n"
    return re.sub(r"(?m)^[ \t]*format[ \t]*=.*\n", lambda line: line[0] + missing, text, count=1)


def _row(entry: Any) -> Any:
    """An agent, an edge or one that has left, as in the file: without what is not set."""
    if isinstance(entry, Edge):
        return [entry.a, entry.b, entry.weight] if entry.weight else [entry.a, entry.b]
    return {
        name: _listed(value) for name, value in msgspec.structs.asdict(entry).items() if value not in ("", ())
    }


def _array(entries: Sequence[Any]) -> str:
    """Entries as the text of an array, one per line."""
    import tomlkit

    rows = [f"  {tomlkit.item(_item(_row(entry))).as_string()},\n" for entry in entries]
    return f"[\n{''.join(rows)}]"


def _item(row: Any) -> Any:
    """A row as TOML, on one line."""
    import tomlkit

    if isinstance(row, list):
        return row
    table = tomlkit.inline_table()
    table.update(row)
    return table


def _edit_rows(rows: Any, wanted: dict[Any, Any], key: Callable[[Any], Any]) -> None:
    """Make the rows of an array those that are wanted, each known by its key; those that stay are not touched."""
    for k in range(len(rows) - 1, -1, -1):
        new = wanted.get(key(rows[k]))
        if new is None:
            del rows[k]
        elif isinstance(new, dict):
            for name in [name for name in rows[k] if name not in new]:
                del rows[k][name]
            for name, value in new.items():
                if rows[k].get(name) != value:
                    rows[k][name] = value
    known = {key(row) for row in rows}
    for new in (row for at, row in wanted.items() if at not in known):
        if hasattr(rows, "add_line"):
            rows.add_line(_item(new), indent="  ")
        else:  # [[agents]], a table per agent
            rows.append(new)


def _explain(container: Any, text: str) -> None:
    import tomlkit

    for line in text.splitlines():
        container.add(tomlkit.comment(line))


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, tuple) else value
