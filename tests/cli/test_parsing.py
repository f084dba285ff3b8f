"""What a user types, turned into methods, horizons and observations."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support import SUPPORT
from tests.support.commands import invoke

import gossamer as gs
from gossamer.agents.membership.fleet import Fleet
from gossamer.cli.options import ProblemOptions
from gossamer.cli.output import few
from gossamer.cli.parsing import parse_horizons, parse_method, parse_methods, parse_observations, split_method
from gossamer.errors import InvalidInput

HEAVY_BALL = f"{SUPPORT / 'own_methods.py'}:HeavyBall"

OWN = """
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

import gossamer as gs


@dataclass(frozen=True)
class Mine(gs.Method):
    step_size: float = 0.5
    power: float = 1
    lazy: bool = False
    shares: Any = None

    name: ClassVar[str] = "mine"

    class State(NamedTuple):
        x: Any

    class Coefficients(NamedTuple):
        gain: Any
        step_size: Any

    anytime = True

    def coefficients(self, network, rounds):
        return self.Coefficients(1.0 / np.arange(1, rounds + 1) ** self.power, self.step_size)

    @staticmethod
    def message(c, s, observation):
        return s.x + c.gain * (observation - s.x)

    @staticmethod
    def step(c, s, observation, mixed):
        return Mine.State(s.x + c.gain * (observation - s.x) - c.step_size * mixed)

    @staticmethod
    def estimate(c, s):
        return s.x
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "my_file.py").write_text(OWN)
    return f"{tmp_path / 'my_file.py'}:Mine"


def test_own_methods_take_parameters(own):
    method = parse_method(f"{own}:step_size=0.3,power=2,lazy=True,shares=[1,2, 3]")
    assert (method.step_size, method.power, method.lazy, method.shares) == (0.3, 2, True, [1, 2, 3])
    assert parse_method(own).step_size == 0.5
    assert parse_method(f"{own}:step-size=1e-3").step_size == 0.001


def test_own_methods_with_parameters_run(own):
    words = ("-T", 40, "--json")
    found = invoke("compare", "path:5", "-m", f"dsg {own}:step_size=0.3,power=1 {own},sda", *words)
    rows = {row["method"]: row["total_error"] for row in json.loads(found.stdout)}
    assert set(rows) == {"dsg", "mine, step_size=0.3", "mine", "sda"}
    obs = parse_observations(gs.Network.path(5), ProblemOptions())
    expected = gs.exact(parse_method(f"{own}:step_size=0.3"), gs.Network.path(5), obs, 40).total_error
    assert rows["mine, step_size=0.3"] == pytest.approx(expected)
    assert rows["mine"] != rows["mine, step_size=0.3"]


def test_own_methods_with_parameters_go_into_fleet_files(tmp_path):
    method = f"{HEAVY_BALL}:momentum=0.25"
    found = invoke("fleet", "init", "--topology", "path:2", "--out", tmp_path / "fleet", "--method", method)
    assert found.exit_code == 0, found.output
    made = Fleet.read(tmp_path / "fleet" / "fleet.toml")
    assert made.method.in_file() == {"name": "own_methods.py:HeavyBall", "momentum": 0.25}
    method = f"{HEAVY_BALL}:step_size=None"
    found = invoke("fleet", "init", "--topology", "path:2", "--out", tmp_path / "other", "--method", method)
    assert str(found.exception) == "--method: fleet.toml cannot hold None; leave step_size out"


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        (
            "stepsize=1",
            r"mine takes step_size, power, lazy, shares, got 'stepsize' \(did you mean 'step_size'\?\)",
        ),
        ("0.3", "parameters of .*my_file.py:Mine must be given as name=value, got '0.3'"),
    ],
)
def test_parameters_that_do_not_exist(own, rest, text):
    with pytest.raises(InvalidInput, match=text):
        parse_method(f"{own}:{rest}")


def test_values_of_parameters():
    text = "a.py:M:a=1,b=2.5,c=word,d=True,e=false,f=none,g=[1, 2],h=(3,4),i=-1e-3"
    expected = {"a": 1, "b": 2.5, "c": "word", "d": True, "e": False, "f": None}
    assert split_method(text) == ("a.py:M", {**expected, "g": [1, 2], "h": (3, 4), "i": -0.001})
    assert split_method("sda") == ("sda", {})


def test_methods_are_separated_by_spaces_semicolons_and_commas():
    expected = [gs.SDA(), gs.DSG()]
    for text in ("sda,dsg", "sda, dsg", "sda dsg", " sda;dsg ", "sda ,dsg,"):
        assert parse_methods(text) == expected, text
    assert parse_methods("sda:burn_in=3,momentum=0.5,dsg") == [gs.SDA(burn_in=3, momentum=0.5), gs.DSG()]


@pytest.mark.parametrize(("low", "high"), [(10, 1000), (1, 7), (3, 3), (97, 100_003), (100, 12_345)])
def test_a_range_holds_its_end_points(low, high):
    found = parse_horizons(f"{low}:{high}")
    assert (found[0], found[-1]) == (low, high)
    assert found == sorted(set(found))
    for most in (2, 4, 5):
        shown = few(found, most)
        assert (shown[0], shown[-1]) == (low, high)
        assert len(set(shown)) == len(shown) <= most


@pytest.mark.slow
@pytest.mark.parametrize("command", ["exact", "compare", "estimate", "evaluate-policy"])
def test_tables_of_a_range_show_its_end_points(command):
    trials = ("--trials", 1, "--no-rivals") if command[0] == "e" and command != "exact" else ()
    out = invoke(command, "path:4", "-T", "23:170", "-m", "sda", *trials).stdout
    for t in (23, 170):
        assert (f"T={t}" if command != "exact" else f"\n{t:>6} ") in out or f" {t} " in out, out


@pytest.mark.parametrize("option", ["--std", "--spread"])
@pytest.mark.parametrize("command", ["exact", "simulate", "compare", "plan"])
def test_data_have_their_own_means_and_deviations(command, option, tmp_path):
    (tmp_path / "d.csv").write_text("\n".join("1,2,3,4" for _ in range(3)))
    found = invoke(command, "path:4", "--data", tmp_path / "d.csv", option, 2)
    assert isinstance(found.exception, InvalidInput)
    assert str(found.exception).startswith(f"{option} has no effect with --data")


def test_the_standard_deviation_is_1_unless_given():
    net = gs.Network.path(3)
    assert np.all(parse_observations(net, ProblemOptions()).variance == 1)
    assert np.all(parse_observations(net, ProblemOptions(std=3.0)).variance == 9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--backend", "dsk"), 2, "--backend must be 'threads', 'processes' or 'dask', got 'dsk'"),
        (("--address", "tcp://h:1"), 2, "--address is that of a Dask scheduler, so backend must be 'dask'"),
        (
            ("--backend", "dask", "--address", "nowhere"),
            2,
            "no Dask scheduler answers at 'nowhere'",
        ),
        (("--backend", "dask", "--address", "tcp://h:1", "--workers", 2), 2, "--workers must be left out"),
        (("--workers", 0), 2, "--workers must be a whole number of at least 1"),
        (("--out", "FILE"), 3, "cannot be used to keep results"),
        (("--out", "FILE/below"), 3, "cannot be used to keep results"),
        (("--trials", -1), 2, "--trials must be a whole number of at least 0"),
        (("--loss", "0.1", "--trials", 0), 2, "trials must be at least 1, got 0"),
    ],
)
def test_mistakes_about_where_to_compute(words, code, text, tmp_path):
    pytest.importorskip("distributed")
    (tmp_path / "file").write_text("")
    words = [str(word).replace("FILE", str(tmp_path / "file")) for word in words]
    found = invoke("compare", "path:5", "-T", 10, "-m", "sda", *words)
    assert text in str(found.exception)
    assert isinstance(found.exception, gs.errors.OutputError if code == 3 else InvalidInput)


def test_a_target_that_no_method_reaches_is_exit_code_1():
    words = ("plan", "path:5", "-m", "sda", "--most-rounds", 50, "--json")
    found = invoke(*words, "-e", "1e-9")
    assert found.exit_code == 1, found.output
    (row,) = json.loads(found.stdout)
    assert row["rounds"] is None
    assert row["note"]
    assert invoke(*words, "-e", "1").exit_code == 0
    assert "bytes" in invoke(*words[:-1], "-e", "1").stdout
