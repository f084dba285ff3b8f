"""How a fleet is written: a TOML file in which every field is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gossamer.errors import require

if TYPE_CHECKING:
    from gossamer.agents.fleet.file import Fleet

_TOP = {
    "format": "Format of this file.",
    "fleet": "Name of the fleet, part of every message's address; agents do not hear other fleets.",
    "network": "Where the edges came from; for people to read.",
    "certificates": """\
Directory of the certificates, relative to this file. A host needs ca.pem, and NAME.pem and
NAME.key of its own agents; ca.key signs new members, so keep it offline.""",
}

_TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "method": (
        """\
The method, and its parameters for the edges above. All agents must use the same ones; run
`gossamer fleet init` again when the edges change. What is left out comes from the spectrum of the edges.""",
        {
            "name": """\
A dual method: "anytime-sda", "ssda", or one of your own as "my_file.py:MyMethod", with the file
next to this one.""",
            "acceleration": '"nesterov"; or "local", which needs no spectrum and bears heavy loss.',
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
            "variance": "Learn the network-wide variance too (messages become larger).",
            "bins": "Edges of a histogram, to learn network-wide quantiles too; empty: none.",
            "replicates": "Noise replicates that carry the standard error; 0: no standard error.",
        },
    ),
    "rounds": (
        'Pace and timeouts; times are "100ms", "2s", "1m". docs/deploy.md says how to choose them.',
        {
            "every": 'Time from one round to the next. "0": as fast as the neighbors answer.',
            "timeout": "A round waits this long for a neighbor; then it goes on without that edge.",
            "silence": "An edge moves only while each end was heard by the other within this many rounds.",
            "death": """\
A neighbor silent for this long, and for `silence` rounds, counts as dead: the others average without it.""",
            "commit": "Time between two commits of the store: the most that a crash can lose.",
        },
    ),
    "wire": (
        "Limits on what an agent accepts from its neighbors; anything beyond is dropped and counted.",
        {
            "message_bytes": "Longest message that is read at all; 0: just enough for the dimension.",
            "rounds_ahead": "A message from a round further ahead than this is dropped.",
        },
    ),
}

_LISTS = {
    "agents": """\
One line per agent: its number, the common name of its certificate, the host:port it listens on
(a host name or an IPv4 address), and where its observations come from (the command line can override it):
"-" standard input, "csv:FILE[,follow]", "cmd:COMMAND", or "sim:MEAN,STD,SEED", a simulated sensor.""",
    "edges": "One line per edge: two agents, and the gossip weight w_ij that both ends use.",
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
    for name in ("agents", "edges"):
        document.add(tomlkit.nl())
        _explain(document, _LISTS[name])
        rows = getattr(fleet, name)
        array = tomlkit.array()
        for row in rows:
            array.add_line(_member(tomlkit, row) if name == "agents" else list(row), indent="  ")
        array.add_line(indent="")
        document.add(name, array)
    for name, (text, fields) in _TABLES.items():
        document.add(tomlkit.nl())
        table = tomlkit.table()
        _explain(table, text)
        part = getattr(fleet, name)
        values = part.in_file() if name == "method" else {field: getattr(part, field) for field in fields}
        for field, value in values.items():
            _explain(table, fields.get(field, f"A parameter of {fleet.method.name}."))
            table.add(field, list(value) if isinstance(value, tuple) else value)
        document.add(name, table)
    written: str = tomlkit.dumps(document)
    return written


def _explain(container: Any, text: str) -> None:
    import tomlkit

    for line in text.splitlines():
        container.add(tomlkit.comment(line))


def _member(tomlkit: Any, member: Any) -> Any:
    row = tomlkit.inline_table()
    for field in ("id", "name", "endpoint", "source"):
        row.append(field, getattr(member, field))
    return row
