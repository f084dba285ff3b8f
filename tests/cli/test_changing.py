"""Networks that change on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.commands import run

import gossamer as gs
from gossamer.cli import main

LOCAL = "anytime-sda:acceleration=local"


def test_simulate():
    out = json.loads(
        run("simulate", "mobile:12,radius=0.4,speed=0.02", "-m", LOCAL, "-T", 40, "--trials", 5, "--json")
    )
    network = gs.ChangingNetwork.mobile(12, radius=0.4, speed=0.02)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 12))
    expected = gs.simulate(gs.AnytimeSDA("local"), network, obs, 40, 5).total_error
    assert out[0]["total_error"] == expected
    run("simulate", "matchings:12", "-m", "dsg", "-T", 40, "--trials", 5, "--loss", 0.2)


def test_compare_simulates_what_has_no_exact_error(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("0,a,b\n1,b,c\n2,c,d\n3,a,d\n")
    out = json.loads(
        run("compare", f"contacts:{trace},repeat=1", "path:4", "-m", f"{LOCAL} dsg", "-T", 30, "--json")
    )
    assert [row["trials"] for row in out] == [100] * 4
    assert [row["bias"] is None for row in out] == [True, True, False, False]


def test_network_describes_its_first_rounds():
    found = json.loads(run("network", "matchings:10", "--json"))[0]
    assert (found["agents"], found["mean_edges"], found["mean_degree"]) == (10, 5, 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["simulate", "mobile:12"], "acceleration='local-heavy-ball'"),
        (["exact", "mobile:12"], "simulate it"),
        (["plan", "mobile:12"], "simulate it"),
        (["simulate", "mobile:12,fast=1"], "mobile takes radius, speed"),
        (
            ["simulate", "mobile:12", "-m", LOCAL, "--weights", "laplacian"],
            "Metropolis weights of each round",
        ),
        (["simulate", "contacts:nowhere.csv"], "nowhere.csv cannot be read"),
        (["fleet", "init", "--topology", "mobile:12"], "simulate it"),
    ],
)
def test_what_does_not_work_says_why(words, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["gossamer", *words])
    with pytest.raises(SystemExit) as error:
        main()
    assert error.value.code != 0
    assert text in " ".join(capsys.readouterr().err.split())
