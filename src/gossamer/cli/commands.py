"""How commands are made: loaded when they run, with errors that name flags, and with no flag that is ignored.

The rooms below the command line speak of parameters (`metrics_port must be ...`). A command knows which flag sets
which parameter, so this is the one place where a parameter's name becomes a flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from gossamer.errors import GossamerError, InvalidInput

_running: ContextVar[Any] = ContextVar("running", default=None)
"""The context of the command that runs: it knows which flags were typed."""


class FlagCommand(TyperCommand):
    """A command whose errors begin with the flag instead of the parameter that was wrong."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error about one of its parameters is shown as one about the flag."""
        before = _running.set(ctx)
        try:
            return super().invoke(ctx)
        except GossamerError as error:
            flags = {(param.name or "").rstrip("_"): _flag(param) for param in self.params}
            # In fleet.toml the parameter may be in a table: method.step_size, agents[3].source.
            error.parameter = flags.get(error.parameter.rpartition(".")[2]) or error.parameter
            raise
        finally:
            _running.reset(before)


def refuse(names: str, why: str) -> None:
    """Complain if one of these parameters was typed: `why` completes "--std has no effect ..."."""
    context = _running.get()
    for param in context.command.params if context else ():
        source = context.get_parameter_source(param.name)
        if param.name in names.split() and source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(f"{_flag(param)} has no effect {why}; leave it out")


def _flag(param: Any) -> str | None:
    """The long flag that sets a parameter; None for an argument, which has no flag."""
    return next((option for option in param.opts if option.startswith("--")), None)


class Entry(NamedTuple):
    """A command as the list of commands shows it, and where it lives: `module:name` inside `gossamer.cli`."""

    place: str
    summary: str

    def load(self, name: str) -> Any:
        """Import the command and return it ready to run."""
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(f"gossamer.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False)
            found.command(name, cls=FlagCommand)(function)
        command = typer.main.get_command(found)
        command.name = name
        return command


class Deferred(TyperCommand):
    """A command that is known by name and summary, and imported when it is called."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.summary)
        self.entry = entry

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **options: Any) -> Any:
        """Let the command itself take over, with its own parameters and help."""
        return self.entry.load(self.name or "").make_context(info_name, args, *rest, **options)


def group_of(entries: Mapping[str, Entry]) -> type[TyperGroup]:
    """Return a class for a Typer group that holds these commands, none of them imported."""

    class DeferredGroup(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.commands.update({name: Deferred(name, entry) for name, entry in entries.items()})

    return DeferredGroup
