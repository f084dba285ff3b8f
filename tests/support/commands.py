"""The command line in this process."""

from __future__ import annotations

from functools import cache

import typer
from typer.testing import CliRunner, Result

from gossamer.cli import build


@cache
def whole_app() -> typer.Typer:
    """`gossamer` with all its commands."""
    return build()


def invoke(*words: object, app: typer.Typer | None = None, catch: bool = True) -> Result:
    """Return the result of `gossamer WORDS`, success or failure; with `catch=False` an exception is raised."""
    return CliRunner().invoke(app or whole_app(), [str(word) for word in words], catch_exceptions=catch)


def run(*words: object, app: typer.Typer | None = None) -> str:
    """What `gossamer WORDS` prints to standard output; it must succeed."""
    result = invoke(*words, app=app, catch=False)
    assert result.exit_code == 0, result.output
    return result.stdout
