"""The wait for the compiler is announced: once, on a terminal, and only where something is really compiled."""

from __future__ import annotations

import importlib.util
import sys

import pytest

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


@pytest.fixture
def terminal(capsys, monkeypatch):
    monkeypatch.setattr(compiling._announcer, "done", False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


def test_the_first_wait_is_announced_once(module, terminal, capsys):
    fresh = module()
    assert (fresh.double(2), fresh.triple(2)) == (4, 6)
    assert capsys.readouterr().err == compiling.NOTICE + "\n"


def test_what_comes_from_disk_is_not_announced(module, terminal, capsys, monkeypatch):
    assert module().double(2) == 4
    capsys.readouterr()
    monkeypatch.setattr(compiling._announcer, "done", False)
    again = module()
    assert again.double(3) == 6
    assert sum(again.double.stats.cache_hits.values()) == 1
    assert capsys.readouterr().err == ""


def test_nothing_is_said_where_nobody_reads_it(module, terminal, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert module().double(2) == 4
    assert capsys.readouterr().err == ""


def test_who_expects_it_hears_nothing(module, terminal, capsys):
    compiling.expect_compiling()
    assert module().double(2) == 4
    assert capsys.readouterr().err == ""


def test_functions_of_others_are_not_ours_to_announce(terminal, capsys):
    def own(x):
        return x + 1

    own.__module__ = "somebody.else"
    assert compiling.njit(own)(1) == 2
    assert capsys.readouterr().err == ""
