"""Methods by name and from a file, and parameters that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import SUPPORT

import gossamer as gs
from gossamer.errors import InvalidInput
from gossamer.methods.loading import build, load_class, parameters

OWN = SUPPORT / "own_methods.py"


def test_a_name_or_a_file() -> None:
    assert load_class("sda") is gs.SDA
    found = load_class("own_methods.py:HeavyBall", OWN.parent)
    assert (found.name, parameters(found)) == ("heavy-ball", ["step_size", "momentum"])
    assert load_class(f"{OWN}:NewestOnly").name == "newest-only"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere.py:Mine", "FILE.py:ClassName, but there is no file 'nowhere.py'"),
        ("own_methods.py:Mine", "own_methods.py has no class 'Mine' derived from gossamer.Method"),
        ("own_methods.py:dataclass", "has no class 'dataclass'"),
        ("sad", "did you mean 'sda'"),
    ],
)
def test_what_cannot_be_loaded(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_class(text, OWN.parent)


def test_a_file_that_raises(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("1 / 0")
    with pytest.raises(InvalidInput, match=r"bad\.py cannot be loaded: ZeroDivisionError"):
        load_class("bad.py:Mine", tmp_path)


def test_parameters_that_do_not_exist_or_make_no_sense() -> None:
    assert build(gs.SDA, {"burn_in": 3}) == gs.SDA(burn_in=3)
    with pytest.raises(
        InvalidInput, match=r"sda takes burn_in, .*, got 'burnin' \(did you mean 'burn_in'\?\)"
    ):
        build(gs.SDA, {"burnin": 3})
    with pytest.raises(InvalidInput, match="step_size must be a finite number above 0, got 'x'"):
        build(gs.SDA, {"step_size": "x"})
    with pytest.raises(InvalidInput, match="dsg takes no parameters, got 'x'"):
        build(gs.DSG, {"x": 1})
