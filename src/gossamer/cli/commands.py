"""Commands that are loaded when they run, whose errors name flags, and that refuse flags without effect.

The packages below the command line speak of parameters (`metrics_port must be ...`). A command knows which flag sets
which parameter, so this is the one place where the name of a parameter becomes a flag.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from gossamer.errors import GossamerError, InvalidInput

Click: TypeAlias = Any
"""An object of Click. Newer versions of Typer contain a copy of it, so its types have more than one name."""

_running: ContextVar[Click] = ContextVar("running", default=None)
"""The context of the running command, which knows the flags that were given."""


_KINDS = {"str": "TEXT", "int": "INTEGER", "float": "NUMBER"}
"""The names of Python types on help pages."""


def _in_words(params: list[Click]) -> list[Click]:
    """Make help pages show in words what a parameter takes; flags take nothing."""

    def shown(param: Click) -> str | None:
        text: str | None = (
            None if getattr(param, "is_flag", False) else type(param).display_type_rich(param, None)
        )
        if text is None or not text.startswith("<"):  # a flag, or a name that we set
            return text
        name = text.strip("<>.").removeprefix("list[").removesuffix("]").removesuffix(" range")
        return _KINDS.get(name, name.upper()) + (" ..." if param.nargs == -1 else "")

    for param in params:
        param.display_type_rich = lambda ctx, param=param: shown(param)
    return params


class _HelpPage:
    """The help page of a command or a group: types in words, whole paragraphs, and no word cut on a narrow screen."""

    help: str | None

    def get_params(self, ctx: Click) -> list[Click]:
        return _in_words(super().get_params(ctx))  # type: ignore[misc]

    def format_help(self, ctx: Click, formatter: Click) -> None:
        from rich import columns
        from typer import rich_utils

        from gossamer.cli.tables import WholeWords  # loads Rich

        # Both tables of a page cut long words by default, such as the name of a method.
        rich_utils.Table = columns.Table = WholeWords  # type: ignore[attr-defined]
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(self.help or ""))
        super().format_help(ctx, formatter)  # type: ignore[misc]


class FlagCommand(_HelpPage, TyperCommand):
    """A command whose errors begin with the flag instead of the name of the parameter."""

    def invoke(self, ctx: Click) -> object:
        """Run the command; an error about one of its parameters is reported for the flag."""
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


class CommandGroup(_HelpPage, TyperGroup):
    """A group of commands."""


def refuse(names: str, why: str) -> None:
    """Raise an error if one of these parameters was given; `why` completes "--std has no effect ..."."""
    context = _running.get()
    for param in context.command.params if context else ():
        source = context.get_parameter_source(param.name)
        if param.name in names.split() and source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(f"{_flag(param)} has no effect {why}; leave it out")


def _flag(param: Click) -> str | None:
    """Return the long flag that sets a parameter; None for an argument, which has no flag."""
    return next((option for option in param.opts if option.startswith("--")), None)


def epilog_of(command: str, examples: Iterable[str]) -> str | None:
    """Return the end of a help page: the command with the words of each example."""
    shown = "\n\n".join(" ".join(["gossamer", *filter(None, (command, example))]) for example in examples)
    return f"Examples:\n\n{shown}" if shown else None


class Entry(NamedTuple):
    """A command as shown in the list of commands, its location `module:name` inside `gossamer.cli`, and examples."""

    location: str
    summary: str
    examples: tuple[str, ...] = ()

    def load(self, name: str) -> Click:
        """Import the command and return it ready to run."""
        module, _, attribute = self.location.partition(":")
        loaded = getattr(import_module(f"gossamer.cli.{module}"), attribute)
        if not isinstance(loaded, typer.Typer):
            function, loaded = loaded, typer.Typer(add_completion=False)
            loaded.command(name, cls=FlagCommand)(function)
        command: Click = typer.main.get_command(loaded)
        command.name, command.epilog = name, epilog_of(name, self.examples)
        return command


class Deferred(TyperCommand):
    """A command with a name and a summary, imported when it is called."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.summary)
        self.entry = entry

    def make_context(self, info_name: str | None, args: list[str], *rest: Click, **options: object) -> Click:
        """Hand over to the command itself, with its own parameters and help."""
        return self.entry.load(self.name or "").make_context(info_name, args, *rest, **options)


def group_of(entries: Mapping[str, Entry]) -> type[TyperGroup]:
    """Return a class for a Typer group that holds these commands, none of them imported."""

    class DeferredGroup(CommandGroup):
        def __init__(self, **options: Click) -> None:
            super().__init__(**options)
            self.commands.update({name: Deferred(name, entry) for name, entry in entries.items()})

    return DeferredGroup
