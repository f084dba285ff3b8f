"""The figures of the report."""

from __future__ import annotations

import importlib
import pkgutil

from gossamer.paper import figures, registry


def test_every_claim_has_its_own_name():
    names = [claim.name for figure in registry.FIGURES for claim in figure.claims]
    assert len(names) == len(set(names))


def test_every_file_of_a_figure_is_in_the_report_in_its_order():
    names = [module.name for module in pkgutil.iter_modules(figures.__path__)]
    found = {
        name.split("_")[1]: importlib.import_module(f"{figures.__name__}.{name}").FIGURE for name in names
    }
    assert [figure.name for figure in registry.FIGURES] == sorted(found, key=int)
    assert all(found[figure.name] is figure for figure in registry.FIGURES)
