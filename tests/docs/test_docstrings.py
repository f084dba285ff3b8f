"""Every public name is explained in numpydoc form, with an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re

import numpy as np
import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc, NumpyDocString
from scipy_doctest import DTChecker, DTConfig

import gossamer as gs

ROOMS = (gs.agents, gs.applications, gs.dashboard, gs.faults, gs.methods, gs.networks, gs.theory)

CREATED = {
    gs.agents.Fleet,  # declared and explained in agents/config/tables.py, as are the settings of an agent
    gs.agents.LiveSource,
    gs.agents.PacedSource,
    gs.agents.Transport,
    gs.ChangingNetwork,
    gs.dashboard.Animation,
    gs.DirectedNetwork,
    gs.Exact,
    gs.FaultySimulation,
    gs.methods.SpectralFacts,
    gs.Network,
    gs.Plans,
    gs.Privacy,
    gs.Simulation,
    gs.Tuned,
}
"""Classes that users subclass, or get from a function or a constructor with another name."""


def _described() -> dict[str, object]:
    """Every class and function among the public names, under the first name that it has."""
    names = {f"gs.{name}": getattr(gs, name) for name in gs.__all__}
    for room in ROOMS:
        names |= {f"gs.{room.__name__.rpartition('.')[2]}.{n}": getattr(room, n) for n in room.__all__}
    found: dict[int, tuple[str, object]] = {}
    for name, thing in names.items():
        if inspect.isclass(thing) or inspect.isroutine(thing):
            found.setdefault(id(thing), (name, thing))
    return dict(found.values())


PUBLIC = _described()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_explained_in_numpydoc_form(name):
    thing = PUBLIC[name]
    text = inspect.getdoc(thing)
    assert text, f"{name} has no docstring"
    parsed = (ClassDoc if inspect.isclass(thing) else FunctionDoc)(
        thing
    )  # warns of unknown or doubled sections
    assert parsed["Summary"], name
    assert parsed["Examples"], f"{name} has no example"
    described = {word.strip() for entry in parsed["Parameters"] for word in entry.name.split(",")}
    if described and not inspect.isclass(thing):
        assert {word.lstrip("*") for word in described} <= _taken(thing), (
            f"{name} describes what it does not take"
        )


def _taken(thing: object) -> set[str]:
    """The names of the parameters of a class or function, including those of a TypedDict that it unpacks."""
    names = set()
    for name, parameter in inspect.signature(thing).parameters.items():
        unpacked = str(parameter.annotation)
        if unpacked.startswith("Unpack["):
            names |= set(thing.__globals__[unpacked[7:-1]].__annotations__)
        else:
            names.add(name)
    return names


def _entries(thing: object) -> dict[str, str]:
    """The explained parameters and attributes, and what is said about each."""
    parsed = NumpyDocString(inspect.getdoc(thing) or "")
    return {
        name.strip().lstrip("*"): " ".join(entry.desc).strip()
        for entry in parsed["Parameters"] + parsed["Attributes"]
        for name in entry.name.split(",")
    }


@pytest.mark.slow
def test_every_public_name_points_to_its_siblings():
    lacking = [
        name for name, thing in PUBLIC.items() if not NumpyDocString(inspect.getdoc(thing))["See Also"]
    ]
    assert not lacking, f"these have no section See Also: {lacking}"


@pytest.mark.slow
def test_every_parameter_is_explained_in_a_sentence():
    for name, thing in PUBLIC.items():
        entries = _entries(thing)
        if thing not in CREATED and not (inspect.isclass(thing) and issubclass(thing, gs.GossamerError)):
            assert not _taken(thing) - set(entries), f"{name} does not explain all of its parameters"
        if thing is gs.AgentSettings:  # its texts are those of fleet.toml
            continue
        for parameter, text in entries.items():
            assert re.fullmatch(r"[A-Z][^ ]*( [^ ]+){4,}\.", text), f"{name} explains {parameter} by {text!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC)
def test_examples_of_public_names_run(name):
    text = inspect.getdoc(PUBLIC[name]) or ""
    if ">>>" not in text:
        assert re.search(r"::\n\n {4}", text.partition("Examples")[2]), (
            f"{name} has an example that is not code"
        )
        return
    config = DTConfig(rtol=1e-3)
    runner = doctest.DocTestRunner(DTChecker(config), verbose=False, optionflags=FLAGS)
    example = doctest.DocTestParser().get_doctest(text, {"gs": gs, "np": np}, name, None, None)
    said: list[str] = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)
