"""Write a fleet as a TOML file in which every field is explained."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from gossamer.agents.config.declaration import settings_of, wrapped
from gossamer.agents.config.members import Edge
from gossamer.agents.config.tables import SETTINGS, TABLES, FleetFile, MethodTable
from gossamer.errors import require

if TYPE_CHECKING:
    import msgspec
else:
    msgspec = require("msgspec", "agents")

_COLUMNS = 118

_PARAMETERS = {
    "acceleration": '"local-heavy-ball" needs no spectrum and tolerates heavy message loss; "local" always takes its '
    'step after a loss; "nesterov" is for fixed networks.',
    "step_size": "eta, at most 1/lambda_max (lambda_max is the largest eigenvalue of the gossip matrix); local: "
    "1.3/lambda_max; local-heavy-ball: 1.98/lambda_max.",
    "momentum": "zeta = (sqrt k - 1)/(sqrt k + 1), k the condition number; 0 disables acceleration. Local: the limit "
    "of the momentum; long chains need more than the default.",
    "ramp": "Local: rounds until the momentum is one half.",
    "smoothing": "w: observations are smoothed over this many rounds before they are sent to neighbors. Local: over "
    "w sqrt(t) rounds after t rounds.",
    "gain": "Smallest weight of the newest round. Above 0 (such as 0.01) the fleet follows means that drift, and "
    "forgets the past; 0 gives plain averages of everything.",
}
"""The parameters of methods that the file explains."""


def fleet_text(fleet: FleetFile) -> str:
    """The fleet as TOML, with a comment for every field."""
    tomlkit = require("tomlkit", "agents")
    document = tomlkit.document()
    document.add(tomlkit.comment("A fleet of gossamer agents. Give every agent the same copy of this file."))
    document.add(tomlkit.nl())
    lists = []
    for name, declared in settings_of(FleetFile).items():
        row = next(iter(get_args(declared.type)), None)
        if row is not None:
            lists.append(name)
            document.add(tomlkit.nl())
        _explain(document, declared.setting.text, row)
        document.add(name, getattr(fleet, name) if row is None else [])
    for name, kind in TABLES.items():
        document.add(tomlkit.nl())
        table = tomlkit.table()
        _explain(table, kind.__doc__ or "")
        part = getattr(fleet, name)
        texts = {field: declared.setting.text for field, declared in settings_of(kind).items()}
        values = (
            part.in_file()
            if isinstance(part, MethodTable)
            else {field: getattr(part, field) for field in texts}
        )
        for field, value in values.items():
            _explain(table, (_PARAMETERS | texts).get(field, f"A parameter of {fleet.method.name}."))
            table.add(field, _listed(value))
        document.add(name, table)
    written: str = tomlkit.dumps(document)
    for name in lists:  # as text, because adding rows to a document takes the square of their number
        written = written.replace(f"\n{name} = []\n", f"\n{name} = {_array(getattr(fleet, name))}\n", 1)
    return written


def edited_text(text: str, fleet: FleetFile) -> str:
    """Return the text of a fleet.toml with the epoch, agents, edges and former agents of `fleet`.

    Comments, order and manual edits are kept: only rows that differ are changed.
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
    """Add the fields for epochs to a file that was written before there were epochs."""
    content = tomllib.loads(text)
    missing = ""
    for name, empty in {"epoch": "0", "reset": "0", "left": "[]"}.items():
        if name not in content:
            why = wrapped(SETTINGS[name].setting.text, _COLUMNS)
            missing += "".join(f"# {line}\n" for line in why) + f"{name} = {empty}\n"
    return re.sub(r"(?m)^[ \t]*format[ \t]*=.*\n", lambda line: line[0] + missing, text, count=1)


def _row(entry: Any) -> Any:
    """Return an agent, an edge or a former agent as in the file, without fields that are not set."""
    if isinstance(entry, Edge):
        return [entry.a, entry.b, entry.weight] if entry.weight else [entry.a, entry.b]
    fields = settings_of(entry.__class__)
    return {
        name: _listed(value)
        for name, value in msgspec.structs.asdict(entry).items()
        if value not in ("", ()) and not (value is True and fields[name].default is True)
    }


def _array(entries: Sequence[object]) -> str:
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
    """Change the rows of an array to the given ones, identified by their keys; rows that stay are not touched."""
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


def _explain(container: Any, text: str, row: type | None = None) -> None:
    """Add a comment; for a list, with the fields of its rows."""
    import tomlkit

    lines = wrapped(text, _COLUMNS)
    fields = {} if row is None else settings_of(row)
    indent = 4 + max(map(len, fields), default=0)
    for name, declared in fields.items():
        first, *others = wrapped(declared.setting.text, _COLUMNS - indent)
        lines += [f"  {name}".ljust(indent) + first, *(" " * indent + line for line in others)]
    for line in lines:
        container.add(tomlkit.comment(line))


def _listed(value: object) -> Any:
    return [_listed(part) for part in value] if isinstance(value, tuple) else value
