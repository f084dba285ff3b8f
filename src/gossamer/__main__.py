"""The `gossamer` command, which says what to install where its own libraries are missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from gossamer.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(
            f"error: the gossamer command needs the package {error.name!r}, which is not installed; "
            "run: pip install 'gossamer[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
