"""The method that all agents run, between fleet.toml and the class that implements it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.agents import files
from gossamer.agents.config.tables import MethodTable
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts
from gossamer.methods import METHODS, resolve
from gossamer.methods.anytime_sda import AnytimeSDA
from gossamer.methods.loading import build, load_class, parameters
from gossamer.methods.method import Method


def method_table(method: Method | str, facts: SpectralFacts) -> MethodTable:
    """Return the table of a method of this package.

    The parameters that Anytime SDA takes from the spectrum are written out for readers.
    """
    method = resolve(method)
    if METHODS.get(method.name) is not type(method):
        raise InvalidInput(
            parameter="method",
            required=f"one of {', '.join(METHODS)}",
            got=repr(method),
            hint="name a method of your own as MethodTable(name='my_file.py:MyMethod')",
        )
    own: Any = fields(method)  # type: ignore[arg-type]
    given = {f.name: (getattr(method, f.name), f.default) for f in own}
    chosen = {name: value for name, (value, default) in given.items() if not np.array_equal(value, default)}
    if isinstance(method, AnytimeSDA):
        tuned = {} if method.local else method.chosen(facts)
        chosen |= tuned | {"gain": method.gain or 0.0}
    return MethodTable(name=method.name, parameters=chosen)


def is_file(table: MethodTable) -> bool:
    """Return whether the method is in a file of its own."""
    return ".py:" in table.name


def build_method(table: MethodTable, directory: Path | None = None) -> Method:
    """Return the method itself; a file is looked up in `directory`, the folder of fleet.toml."""
    known: list[str] = []
    try:
        if is_file(table):
            files.check_code((directory or Path()) / table.name.rpartition(":")[0])
        kind = load_class(table.name, directory)
        known = parameters(kind)
        # TOML has no None, so a gain of 0 stands for it in methods whose gain is optional.
        optional = getattr(kind, "gain", 0) is None
        given = {k: v for k, v in table.parameters.items() if not (k == "gain" and v == 0 and optional)}
        return build(kind, given)
    except InvalidInput as error:
        raise error.inside("method", known) from None
