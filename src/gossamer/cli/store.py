"""gossamer store check|backup|restore: check, back up and restore the store of an agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli.commands import CommandGroup, FlagCommand, epilog_of
from gossamer.cli.options import AsJson

if TYPE_CHECKING:
    from gossamer.agents.store.file import Record

store_app = typer.Typer(
    name="store",
    cls=CommandGroup,
    help="Check, back up and restore the store of an agent.",
    no_args_is_help=True,
    add_completion=False,
)

StoreFile = Annotated[Path, typer.Argument(help="An agent's store: NAME.sqlite in its --store directory.")]
Copy = Annotated[Path, typer.Argument(help="The copy.")]


@store_app.command(
    cls=FlagCommand, epilog=epilog_of("store check", ("store/pump.sqlite", "store/pump.sqlite --json"))
)
def check(file: StoreFile, as_json: AsJson = False) -> None:
    """Check whether a store is intact, and show its contents. Its agent may be running."""
    from gossamer.agents.store import maintenance

    record = maintenance.check(file)
    if as_json:
        names = ("agent", "method", "dimension", "round", "age", "samples")
        facts = {name: getattr(record, name) for name in names}
        print(json.dumps({"store": str(file), **facts, "neighbors": sorted(record.flows)}))
    else:
        print(f"{file} is sound: {_describe(record)}")


@store_app.command(
    cls=FlagCommand,
    epilog=epilog_of(
        "store backup", ("store/pump.sqlite pump-copy.sqlite", "store/pump.sqlite /backup/pump.sqlite")
    ),
)
def backup(file: StoreFile, copy: Copy) -> None:
    """Copy a store to a new file. Its agent may be running."""
    from gossamer.agents.store import maintenance

    record = maintenance.backup(file, copy)
    print(f"{copy} is a copy of {file}: {_describe(record)}")


@store_app.command(
    cls=FlagCommand,
    epilog=epilog_of(
        "store restore", ("store/pump.sqlite pump-copy.sqlite", "store/pump.sqlite /backup/pump.sqlite")
    ),
)
def restore(file: StoreFile, copy: Copy) -> None:
    """Replace a store by a copy; the old store is kept under another name. Stop its agent first."""
    from gossamer.agents.store import maintenance

    record, aside = maintenance.restore(file, copy)
    kept = f"; the replaced store is now {aside.name}" if aside else ""
    print(f"{file} is restored: {_describe(record)}{kept}")


def _describe(record: Record) -> str:
    if record.empty:
        return f"agent {record.agent}, method {record.method}, nothing saved yet"
    return f"agent {record.agent}, method {record.method}, round {record.round}, {record.samples:.0f} observations"
