"""`gossamer estimate` and `gossamer evaluate-policy`: built-in problems, a user's files, tables, pictures, mistakes."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from gossamer.applications import LinearEstimation, PolicyEvaluation
from gossamer.applications.policy import problems
from gossamer.cli import applications
from gossamer.errors import InvalidInput, OutputError
from gossamer.networks import Network

app = typer.Typer()
app.command()(applications.estimate)
app.command()(applications.evaluate_policy)


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def rows(*words: object) -> dict[str, dict[int, dict[str, float]]]:
    """Records by method and number of rounds."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for record in json.loads(run(*words, "--json")):
        found.setdefault(record["method"], {})[record["rounds"]] = record
    return found


def test_estimate_shows_ours_rivals_limit_and_the_corollary():
    found = rows("estimate", "path:8", "--rounds", "5,200", "--trials", 20, "--weighting", "plain")
    problem = LinearEstimation.random(Network.path(8), 5, 2)
    exact = problem.exact("sda", 200)
    known = found["sda, Abar known (exact)"][200]
    for name in ("total_error", "mse", "over_limit"):
        assert known[name] == pytest.approx(getattr(exact, name)), name
    assert found["anytime-sda"][200]["total_error"] == pytest.approx(
        problem.simulate("anytime-sda", 200, 20).total_error
    )
    assert known["centralized_limit"] == pytest.approx(problem.centralized_error(200))
    assert known["corollary_1_vector_t2"] == pytest.approx(problem.bound(200).terms["vector (T2)"])
    assert found["each sensor alone"][5]["corollary_1_vector_t2"] is None
    assert {"Kar-Moura, LU", "Kar-Moura, mixed", "each sensor alone", "Xiao-Boyd-Lall, one sample"} <= set(
        found
    )


def test_horizons_before_inversion_are_left_out_with_a_note():
    text = run("estimate", "path:12", "--rounds", "2,300", "--trials", 5, "-m", "sda", "--no-rivals")
    assert "rounds before A_i'A_i may be inverted" in text
    assert "Kar-Moura" not in text


def test_one_method_with_two_settings_makes_two_rows():
    both = "anytime-sda anytime-sda:acceleration=chebyshev"
    words = ("--rounds", 60, "--trials", 3, "-m", both, "--no-rivals")
    for command in ("estimate", "evaluate-policy"):
        names = [name for name in rows(command, "path:4", *words) if "anytime" in name and "Abar" not in name]
        assert len(names) == 2


def test_estimate_from_a_csv_split_by_a_column(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y = x @ [2.0, -1.0] + 3
    file = tmp_path / "towns.csv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["a", "b", "town", "price"])
        writer.writerows([*row, town, price] for row, town, price in zip(x, "wxyz" * 10, y, strict=True))
    words = ("estimate", "path:4", "--data", file, "--target", "price", "--split", "by:town", "--intercept")
    text = run(*words, "--rounds", 60)
    assert "pooled fit" in text
    for name, value in (("a", "2"), ("b", "-1"), ("intercept", "3")):
        assert any(line.split()[:2] == [name, value] for line in text.splitlines()), text
    assert rows(*words, "--rounds", 60)["anytime-sda"][60]["total_error"] < 1e-9


def test_estimate_from_npz_files(tmp_path):
    sensors = LinearEstimation.random(Network.path(3), 2, 2, seed=1)
    np.savez(
        tmp_path / "sensors.npz",
        A=np.stack(sensors.matrices),
        parameter=[1.0, 2.0],
        covariance=[1.0, 2.0, 3.0],
    )
    words = ("--rounds", 80, "-m", "sda", "--no-rivals", "--trials", 5)
    found = rows("estimate", "path:3", "--data", tmp_path / "sensors.npz", *words)
    same = LinearEstimation(Network.path(3), sensors.matrices, [1, 2], [1.0, 2.0, 3.0], weighting="precision")
    assert found["sda, Abar known (exact)"][80]["total_error"] == pytest.approx(
        same.exact("sda", 80).total_error
    )
    x = np.random.default_rng(0).normal(size=(12, 2))
    np.savez(tmp_path / "rows.npz", X=x, y=x @ [1, 1], agent=np.arange(12) % 3)
    assert (
        rows("estimate", "path:3", "--data", tmp_path / "rows.npz", *words)["sda"][80]["total_error"] < 1e-9
    )


def test_evaluate_policy_shows_ours_rivals_limit_and_the_corollary():
    found = rows(
        "evaluate-policy", "cycle:6", "-p", "garnet:8x2", "--rounds", "100", "--trials", 4, "-g", 0.8
    )
    problem = PolicyEvaluation.from_problem(Network.cycle(6), problems.garnet(8, 2), 0.8)
    ours = found["plug-in, anytime-sda"][100]
    assert ours["error"] == pytest.approx(problem.simulate("anytime-sda", 100, 4).error)
    assert ours["corollary_2_transitions"] == pytest.approx(problem.bound(100).terms["transitions"])
    assert {"TD, last iterate", "TD, averaged", "each agent alone", "centralized limit"} <= set(found)


@pytest.mark.parametrize("problem", ["chain:5", "grid-world:3x3", "gym:FrozenLake"])
def test_built_in_problems(problem):
    found = rows("evaluate-policy", "path:4", "-p", problem, "--rounds", 50, "--trials", 2, "--rule", "split")
    assert 0 < found["plug-in, sda"][50]["error"] < 20


def test_a_policy_from_a_file(tmp_path):
    np.savetxt(tmp_path / "policy.csv", np.full((16, 4), 0.25), delimiter=",")
    words = ("evaluate-policy", "path:4", "-p", "gym:FrozenLake", "--rounds", 50, "--trials", 2)
    assert rows(*words, "--policy", tmp_path / "policy.csv") == rows(*words, "--policy", "uniform")


def test_evaluate_policy_from_files(tmp_path):
    process = problems.garnet(5, 2)
    rewards = problems.share_rewards(process.reward, 4)
    matrix = process.transitions.toarray()
    np.savez(tmp_path / "p.npz", P=matrix, rewards=rewards)
    np.savetxt(tmp_path / "p.csv", matrix, delimiter=",")
    np.savetxt(tmp_path / "r.csv", rewards, delimiter=",")
    words = ("--rounds", 60, "--trials", 2)
    one = rows("evaluate-policy", "path:4", "-p", tmp_path / "p.npz", *words)
    other = rows(
        "evaluate-policy", "path:4", "-p", tmp_path / "p.csv", "--rewards", tmp_path / "r.csv", *words
    )
    assert one["plug-in, sda"][60]["error"] == pytest.approx(other["plug-in, sda"][60]["error"])


def test_pictures_and_csv_files(tmp_path):
    ours = ("-m", "anytime-sda", "--no-rivals", "--trials", 2)
    run(
        "estimate",
        "path:4",
        "--rounds",
        "20:40",
        *ours,
        "--plot",
        tmp_path / "e.png",
        "--csv",
        tmp_path / "e.csv",
    )
    run("evaluate-policy", "path:4", "--rounds", "30,60", *ours, "--plot", tmp_path / "p.svg")
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "p.svg").read_text()
    with (tmp_path / "e.csv").open() as file:
        table = list(csv.DictReader(file))
    assert {int(row["rounds"]) for row in table} == set(range(20, 41))
    assert float(table[0]["mse"]) == pytest.approx(float(table[0]["total_error"]) / 4)
    assert table[0]["method"].startswith("anytime-sda")


SHORT = ("--rounds", 5, "--trials", 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("evaluate-policy", "path:4", "-p", "garnett:3x2"),
            r"no problem 'garnett:3x2' \(did you mean 'garnet'\?\)",
        ),
        (("evaluate-policy", "path:4", "-p", "garnet:3xa"), "whole numbers after the colon"),
        (("evaluate-policy", "path:4", "-p", "chain:3x4"), "at most 1 numbers, got 2"),
        (("evaluate-policy", "path:4", "-p", "none.npz"), "none.npz cannot be read as NPZ"),
        (("evaluate-policy", "path:4", "-p", "p.csv"), "needs --rewards"),
        (("evaluate-policy", "path:4", "-g", 1), "below 1, got 1.0"),
        (("estimate", "path:4", "--data", "none.csv"), "none.csv cannot be read"),
        (("estimate", "path:4", "-m", "pairwise"), "pairwise gossips at random"),
        (("estimate", "path:4", "--weighting", "best"), "'plain' or 'precision'"),
        (("estimate", "path:4", "--measurements", 0), "measurements must be a whole number of at least 1"),
    ],
)
def test_mistakes_are_explained(words, text):
    with pytest.raises(InvalidInput, match=text):
        run(*words, *SHORT)


def test_broken_files_are_explained(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a,y\n1,2\n3\n")
    with pytest.raises(InvalidInput, match="line 3: 2 cells are needed, got 1"):
        run("estimate", "path:4", "--data", file)
    file.write_text("a,y\n")
    with pytest.raises(InvalidInput, match="a header row and rows of data, got 1 lines"):
        run("estimate", "path:4", "--data", file)
    np.savez(tmp_path / "t.npz", X=[1.0])
    with pytest.raises(InvalidInput, match="needs the arrays X, y, got X"):
        run("estimate", "path:4", "--data", tmp_path / "t.npz")
    with pytest.raises(OutputError, match="cannot be written"):
        run("estimate", "path:4", *SHORT, "--no-rivals", "--csv", tmp_path / "none" / "x.csv")
