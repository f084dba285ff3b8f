"""Every public name is explained in numpydoc form, with an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re

import numpy as np
import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc
from scipy_doctest import DTChecker, DTConfig

import gossamer as gs

ROOMS = (gs.agents, gs.applications, gs.faults, gs.methods, gs.networks, gs.theory)


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
        parameters = inspect.signature(thing).parameters
        taken = {*parameters, *(f"**{name}" for name in parameters)}
        for annotation in (str(parameter.annotation) for parameter in parameters.values()):
            if annotation.startswith("Unpack["):  # the names of a TypedDict
                taken |= set(thing.__globals__[annotation[7:-1]].__annotations__)
        assert described <= taken, f"{name} describes what it does not take"


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
