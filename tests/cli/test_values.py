"""`gossamer evaluate-policy` where states cannot be listed: environments, recorded steps, mistakes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.commands import run

import gossamer as gs
from gossamer.applications import Experience

POLICY = "def upright(x):\n    return int(x[2] + 0.5 * x[3] > 0)\n"


def upright(x):
    return int(x[2] + 0.5 * x[3] > 0)


def test_an_environment_without_a_table(tmp_path):
    (tmp_path / "mine.py").write_text(POLICY)
    words = [
        "evaluate-policy",
        "cartpole",
        "--features",
        "fourier:20",
        "--network",
        "cycle:4",
        "-T",
        "300,600",
    ]
    words += ["--policy", f"{tmp_path}/mine.py:upright", "-g", 0.9]
    early, late = json.loads(run(*words, "--json", "--plot", tmp_path / "values.png"))
    steps = Experience.from_gymnasium("CartPole-v1", upright, 600, agents=4)
    fit = gs.ValueEstimation("cycle:4", "fourier:20", 0.9).from_trajectories(steps)
    assert late["mean_value"] == pytest.approx(fit.values(fit.seen).mean())
    assert late["stderr"] is None
    assert late["note"] == fit.withheld
    assert "so slowly" in fit.withheld
    assert (late["rounds"], late["features"], late["source"]) == (600, 20, "cartpole")
    assert early["distance"] > 0
    assert (tmp_path / "values.png").stat().st_size > 1000
    text = run(*words)
    assert "Values of cartpole, 20 features, at 4 agents on cycle:4, gamma = 0.9" in text
    assert "from a center" in text


def test_recorded_steps_and_a_table_walked_through(tmp_path):
    rng = np.random.default_rng(0)
    steps = Experience.of(rng.normal(size=(301, 2)), rng.normal(size=(300, 3)))
    steps.save(tmp_path / "steps.npz")
    words = ["evaluate-policy", "path:3", "--trajectories", tmp_path / "steps.npz", "-T", 300, "--json"]
    (row,) = json.loads(run(*words, "--features", "fourier:8", "--trace", 0.5))
    fit = gs.ValueEstimation("path:3", "fourier:8", 0.9, 0.5).from_trajectories(steps)
    assert row["mean_value"] == pytest.approx(fit.values(fit.seen).mean())
    lake = [
        "evaluate-policy",
        "path:3",
        "-p",
        "gym:FrozenLake",
        "--features",
        "fourier:5",
        "--policy",
        "uniform",
    ]
    (row,) = json.loads(run(*lake, "-T", 300, "--json"))
    assert row["source"] == "FrozenLake"
    assert row["stderr"] > 0


def test_an_environment_of_pettingzoo():
    pytest.importorskip("mpe2")
    text = run("evaluate-policy", "mpe2.simple_spread_v3", "--features", "fourier:10", "-T", 200)
    assert "at 3 agents on cycle:3" in text


BAD = [
    (("cartpole", "--policy", "best"), "--policy must be uniform or FILE.py:FUNCTION, got 'best'"),
    (("cartpole", "--policy", "optimal"), "--policy has no effect without a table of states; use uniform or"),
    (("cartpole", "--policy", "no.py:f"), "given as FILE.py:FUNCTION, but there is no file 'no.py'"),
    (
        ("cartpole", "--features", "fourier:x"),
        "--features must be fourier:NUMBER, for example fourier:50, tiles:TILINGSxTILES",
    ),
    (("cartpole", "--trials", 3), "--trials has no effect where values are learned from experience"),
    (("cartpole", "-p", "chain:5"), "--problem has no effect with the environment cartpole"),
    (("cartpole", "-g", 1), "--discount of 1 has no finite values in general"),
    (
        ("path:3", "--features", "fourier:5"),
        "--features has no effect with a table of states; use an environment",
    ),
    (("path:3", "--trajectories", "none.npz"), "none.npz cannot be read as arrays of NumPy"),
    (("path:3", "--trajectories", "none.csv"), "none.csv must end in .parquet, .npz, .jsonl"),
    (
        ("path:3", "--trajectories", "none.npz", "--network", "path:4"),
        "--network has no effect with the network path:3",
    ),
    (("mpe5.simple_spread_v3",), "pip install 'gossamer[rl]' mpe5"),
    (("mpe2.simple_spread_v3", "--rule", "one"), "--rule has no effect with an environment of PettingZoo"),
]


@pytest.mark.parametrize(("words", "text"), BAD)
def test_mistakes_in_words(words, text):
    with pytest.raises(gs.GossamerError) as error:
        run("evaluate-policy", *words, "-T", 50)
    assert text in str(error.value)


def test_steps_that_do_not_suffice(tmp_path):
    Experience.of(np.arange(20.0)[:, None], np.ones((19, 4))).save(tmp_path / "a.npz")
    words = ("evaluate-policy", "path:3", "--trajectories", tmp_path / "a.npz")
    with pytest.raises(
        gs.InvalidInput, match="--rounds must be at most 19, the number of recorded steps, got 20"
    ):
        run(*words, "-T", 20)
    with pytest.raises(
        gs.InvalidInput, match="rewards must be one for each of 3 agents of the network, got 4"
    ):
        run(*words, "-T", 19)
