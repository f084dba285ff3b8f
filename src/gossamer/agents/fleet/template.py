"""How a fleet is written: a TOML file in which every field is explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gossamer.errors import require

if TYPE_CHECKING:
    from gossamer.agents.fleet.file import Fleet

_TOP = {
    "format": "Format of this file.",
    "fleet": "Name of the fleet, part of every message's address; agents of other fleets are not heard.",
    "network": "Where the edges came from; for readers only.",
    "certificates": """\
Directory of the certificates, relative to this file. A host needs ca.pem, and NAME.pem and
NAME.key of its own agents; ca.key signs new members and belongs in a safe.""",
}

_TABLES: dict[str, tuple[str, dict[str, str]]] = {
    "method": (
        """\
Anytime SDA's parameters, chosen from the spectrum of the edges above. All agents must use the
same ones, and they must fit the edges: run `gossamer fleet init` again when the edges change.""",
        {
            "step_size": "eta, at most 1/lambda_1 (the largest eigenvalue of the gossip matrix).",
            "momentum": "zeta = (sqrt k - 1)/(sqrt k + 1), k the condition number. 0: no acceleration.",
            "smoothing": "w: over so many rounds observations are smoothed before neighbors hear of them.",
            "gain": """\
Weight of the newest round, at least. Above 0 (say 0.01) the fleet tracks means that drift,
and forgets the past; 0: plain averages of everything.""",
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
        'Pace and patience; times are "100ms", "2s", "1m". docs/deploy.md says how to choose them.',
        {
            "every": 'Time from one round to the next. "0": as fast as the neighbors answer.',
            "timeout": "A round waits so long for a neighbor; then that edge rests and the agent goes on.",
            "silence": "An edge moves only while each end was heard by the other within so many rounds.",
            "death": "A neighbor silent for so long counts as dead: the survivors average without it.",
            "commit": "Time between two commits of the store: what a crash may forget at most.",
        },
    ),
    "wire": (
        "What a message may look like at most; anything beyond is dropped and counted.",
        {
            "message_bytes": "Longest message that is read at all; 0: just enough for the dimension.",
            "rounds_ahead": "A message from a round further ahead than this is not believed.",
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
        for field, meaning in fields.items():
            _explain(table, meaning)
            value = getattr(getattr(fleet, name), field)
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
