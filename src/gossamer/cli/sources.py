"""gossamer sources: the kinds of sources and sinks."""

from __future__ import annotations

import json

from rich.table import Table

from gossamer.cli.options import AsJson
from gossamer.cli.output import console


def sources(as_json: AsJson = False) -> None:
    """List the kinds of sources and sinks, with those of installed packages."""
    from gossamer.agents.config.urls import installed
    from gossamer.agents.sinks.kinds import SINKS
    from gossamer.agents.sources.opening import SOURCES

    for group, kinds in (("source", SOURCES), ("sink", SINKS)):
        available = installed(group, kinds)
        if as_json:
            for name, kind in available:
                line = {"group": group, "kind": name, "form": kind.form, "text": kind.text}
                print(json.dumps({**line, "package": kind.package}))
            continue
        table = Table(title=f"{group}s".capitalize(), title_justify="left")
        for name in ("address", "what it is", "package"):
            table.add_column(name, overflow="fold")
        for kind in dict.fromkeys(kind for _, kind in available):
            table.add_row(kind.form, kind.text, kind.package)
        console().print(table)
