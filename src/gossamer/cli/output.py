"""Results as a table on the screen, as JSON on standard output, or as CSV in a file.

All consoles of the command line are created here, and all text is shown verbatim: file, column and method names come
from the user, and `[kg]` or `10:100:10` in them are neither markup nor emoji.
"""

from __future__ import annotations

import csv as csv_module
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from gossamer.cli.formatting import plain, shown
from gossamer.cli.tables import FittedTable
from gossamer.errors import InvalidInput, OutputError

if TYPE_CHECKING:
    from rich.progress import TextColumn

Record = Mapping[str, Any]

FORWARDED = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
"""Environment variables that Open MPI's or MPICH's mpiexec sets."""


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console that does not interpret text as markup or emoji and does not highlight it.

    Output forwarded by mpiexec does not go to a terminal, although it may look like one to a rank, so it is plain.
    """
    terminal = False if any(name in os.environ for name in FORWARDED) else None
    return Console(
        stderr=stderr, width=width, markup=False, emoji=False, highlight=False, force_terminal=terminal
    )


def screen() -> Console:
    """Return the console of standard output; if that is not a terminal, it is wide enough for any table."""
    terminal = console()
    return terminal if terminal.is_terminal else console(width=160)


def task_text() -> TextColumn:
    """Return the column of a progress bar with the current task, shown verbatim."""
    from rich.progress import TextColumn

    return TextColumn("{task.description}", markup=False)


def emit(
    records: Sequence[Record],
    *,
    title: str,
    as_json: bool = False,
    csv: Path | None = None,
    notes: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    headings: Mapping[str, str] | None = None,
    table: Sequence[Record] | None = None,
) -> None:
    """Show records (all with the same keys) as a table, or as JSON; write them to `csv` as well if given.

    `columns` chooses and `headings` renames columns on the screen only; JSON and CSV keep all keys. `table` holds the
    same numbers in another shape for the screen, where one row per method is easier to read than tidy records.
    """
    if as_json:
        print(json.dumps([{k: plain(v) for k, v in record.items()} for record in records], indent=2))
    else:
        _show(records if table is None else table, title, notes, columns, headings)
    if csv is not None:
        write_csv(records, csv)
        written(csv, as_json)


def save_plot(draw: Callable[[], object], path: Path, as_json: bool) -> None:
    """Write the figure that `draw` creates, and confirm it."""
    from matplotlib import pyplot as plt

    with writing(path):
        draw()
        plt.gcf().savefig(path)
        plt.close()
    written(path, as_json)


def written(path: Path, as_json: bool) -> None:
    """Confirm that a file was written, without disturbing a program that reads JSON."""
    out = console(stderr=True) if as_json else screen()
    out.print(Text(f"written to {path}", style="dim"), soft_wrap=True)


def few(values: Sequence[int], most: int) -> list[int]:
    """Return at most this many of the values, evenly spread and including the first and the last; files have all
    values."""
    count = min(most, len(values))
    return [values[round(k * (len(values) - 1) / max(count - 1, 1))] for k in range(count)]


def wide(rows: Mapping[str, Mapping[int, float | str]], horizons: Sequence[int]) -> list[Record]:
    """Return one row per method and one column per horizon, for the screen."""
    return [{"method": name, **{f"T={t}": values.get(t) for t in horizons}} for name, values in rows.items()]


def column(name: str) -> str:
    """Return a name as it is spelled in files: `Theorem 1 (SDA)` becomes `theorem_1_sda`."""
    return re.sub(r"\W+", "_", name.lower()).strip("_")


def _show(
    records: Sequence[Record],
    title: str,
    notes: Sequence[str],
    columns: Sequence[str] | None,
    headings: Mapping[str, str] | None,
) -> None:
    out = screen()
    if title:
        out.print(Text(title, style="bold"))
    keys = list(columns or (records[0] if records else []))
    if keys:
        numeric = [
            all(isinstance(plain(record[key]), int | float | None) for record in records) for key in keys
        ]
        names = [(headings or {}).get(key, key.replace("_", " ")) for key in keys]
        rows = [[Text(_shown(record, key)) for key in keys] for record in records]
        out.print(FittedTable(names, rows, numeric, header=headings != {}))
    for note in notes:
        out.print(Text(note, style="dim"))


def _shown(record: Record, key: str) -> str:
    """Return a cell as text; a simulated multiple of a limit with its 95% interval."""
    value, error, limit = record[key], plain(record.get("stderr")), plain(record.get("centralized_limit"))
    if key == "over_limit" and isinstance(error, float) and isinstance(limit, float) and limit:
        from gossamer.plotting import half_width  # help pages load no NumPy

        return f"{shown(value)} ± {shown(float(half_width(error, record['trials'])) / limit)}"
    return shown(value)


def write_csv(records: Sequence[Record], path: Path) -> None:
    """Write records as CSV, or say why that failed."""
    with writing(path), path.open("w", newline="") as file:
        names = list(records[0]) if records else []
        writer = csv_module.DictWriter(file, fieldnames=names)
        writer.writerow({name: _cell(name) for name in names})
        writer.writerows({k: _cell(plain(v)) for k, v in record.items()} for record in records)


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet interprets as a formula, wherever its text came from."""
    formula = isinstance(value, str) and len(value) > 1 and value[0] in "=+-@\t\r\n"
    return f"'{value}" if formula else value


def writable(path: Path | None) -> Path | None:
    """Refuse a file that cannot be written, before any work is done for it."""
    if path is not None and not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise OutputError(
            f"{path} cannot be written; choose a file in an existing folder that you can write to"
        )
    return path


def drawable(path: Path | None) -> Path | None:
    """Refuse a plot in an unsupported format, before any work is done for it."""
    if path is not None and path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidInput(f"a plot's file name must end in .png, .pdf or .svg, got {path}")
    return writable(path)


def playable(path: Path | None) -> Path | None:
    """Refuse an animation that cannot be written, before any work is done for it."""
    if path is not None:
        from gossamer.dashboard.animation import check_format

        check_format(path)
    return writable(path)


class writing:
    """Turn a failure to write `path` inside the block into an error that says what to do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, OutputError):
            raise OutputError(
                f"{self.path} cannot be written ({error.strerror or error}); choose a file in a folder you can write to"
            ) from error
