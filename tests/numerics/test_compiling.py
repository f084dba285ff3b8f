"""The wait for the compiler is announced: once, on a terminal, and only where something is really compiled."""

from __future__ import annotations

import importlib.util
import io
import sys

import pytest
from numba import njit

from gossamer.numerics import compiling

SOURCE = """
from gossamer.numerics.compiling import compiled


@compiled
def double(x):
    return 2 * x


@compiled
def triple(x):
    return 3 * x
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Load a module of two fresh functions, as if it were one of the package's; again: what they cached is found."""
    path = tmp_path / "fresh.py"
    path.write_text(SOURCE, encoding="utf-8")

    def load():
        spec = importlib.util.spec_from_file_location("gossamer.fresh", path)
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "gossamer.fresh", loaded)
        spec.loader.exec_module(loaded)
        return loaded

    return load


class Terminal(io.StringIO):
    def __init__(self, shown=True):
        super().__init__()
        self.shown = shown

    def isatty(self):
        return self.shown


@pytest.fixture
def errors(monkeypatch):
    """What is written to standard error while `call` runs in a process that has announced nothing yet."""

    def listen(call, terminal=True):
        written = Terminal(terminal)
        monkeypatch.setattr(compiling._announcer, "done", False)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", written)
            call()
        return written.getvalue()

    return listen


def test_the_first_wait_is_announced_once(module, errors):
    fresh = module()
    assert errors(lambda: (fresh.double(2), fresh.triple(2))) == compiling.NOTICE + "\n"


def test_what_comes_from_disk_is_not_announced(module, errors):
    assert module().double(2) == 4
    again = module()
    assert errors(lambda: again.double(3)) == ""
    assert sum(again.double.stats.cache_hits.values()) == 1


def test_nothing_is_said_where_nobody_reads_it(module, errors):
    fresh = module()
    assert errors(lambda: fresh.double(2), terminal=False) == ""


def test_who_expects_it_hears_nothing(module, errors):
    fresh = module()

    def warm_up():
        compiling.expect_compiling()
        fresh.double(2)

    assert errors(warm_up) == ""


def test_functions_of_others_are_not_ours_to_announce(errors):
    def own(x):
        return x + 1

    own.__module__ = "somebody.else"
    assert errors(lambda: njit(own)(1)) == ""
