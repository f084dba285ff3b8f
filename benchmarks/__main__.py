"""`make bench`: every benchmark in one run, as a table on the screen and in docs/benchmarks.md."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

ROOMS = ("core", "applications", "models", "scale", "agents", "dashboard")


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    import os

    wanted = sys.argv[1:] or ROOMS
    lines = ["| what | gossamer | compared with | ratio | required |", "|---|---|---|---|---|"]
    missed = []
    for room in wanted:
        for row in import_module(f"benchmarks.{room}").rows():
            ratio = "-" if row.ratio is None else f"{row.ratio:.3g}"
            needed = "-" if row.required is None else f">= {row.required:g}"
            lines.append(f"| {row.what} | {row.ours} | {row.rival} | {ratio} | {needed} |")
            print(lines[-1], flush=True)
            if row.ratio is not None and row.required is not None and row.ratio < row.required:
                missed.append(row.what)
    machine = (
        f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    if tuple(wanted) == ROOMS:
        text = "\n".join(
            [
                "# Benchmarks",
                "",
                "Written by `make bench`. Every ratio compares two things timed in the same run on the same machine;",
                "each time is the fastest of several.",
                "",
                f"Machine: {machine}.",
                "",
                *lines,
                "",
            ]
        )
        (Path(__file__).parents[1] / "docs" / "benchmarks.md").write_text(text)
    print(machine)
    if missed:
        print("below what is required: " + "; ".join(missed))


if __name__ == "__main__":
    main()
