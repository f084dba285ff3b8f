"""`gossamer estimate` and `gossamer evaluate-policy`: built-in problems, a user's files, tables, pictures, mistakes."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from tests.support.commands import run

from gossamer.applications import Centralized, LinearEstimation, PolicyEvaluation
from gossamer.applications.policy import problems
from gossamer.errors import InvalidInput, OutputError
from gossamer.networks import Network


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
    assert found["sda, Abar known (exact)"][5]["corollary_1_vector_t2"] is None
    assert found["anytime-sda"][200]["corollary_1_vector_t2"] is None
    assert {"Kar-Moura, LU", "Kar-Moura, mixed", "each sensor alone", "Xiao-Boyd-Lall, one sample"} <= set(
        found
    )
    assert not any("limit" in name or "Corollary" in name for name in found)
    ours = problem.simulate("anytime-sda", 200, 20)
    assert found["anytime-sda"][200]["stderr"] == pytest.approx(ours.stderr)
    assert found["anytime-sda"][200]["trials"] == 20
    assert known["stderr"] is known["trials"] is None


@pytest.mark.slow
def test_what_the_screen_says_is_in_the_rows(tmp_path):
    words = ("estimate", "path:12", "--rounds", "2,300", "--trials", 5, "-m", "sda", "--no-rivals")
    text = run(*words, "--csv", tmp_path / "rows.csv")
    needed = LinearEstimation.random(Network.path(12), 5, 2, weighting="precision").gram_rounds_needed("sda")
    note = f"needs {needed} rounds before A_i'A_i may be inverted"
    condition = "Corollary 1 needs T/2 >= k* = 12"
    assert f"sda: {note}" in text
    assert condition in text
    assert "5 trials" in text
    assert "±" in text
    assert "Kar-Moura" not in text
    found = rows(*words)
    early, late = (found["sda"][t] for t in (2, 300))
    assert early["note"] == note
    assert found["sda, Abar known (exact)"][2]["note"].startswith(condition)
    assert early["total_error"] is early["mse"] is early["over_limit"] is early["stderr"] is None
    assert early["centralized_limit"] > 0
    assert late["note"] == ""
    assert late["over_limit"] == pytest.approx(late["total_error"] / late["centralized_limit"])
    with (tmp_path / "rows.csv").open() as file:
        written = {(row["method"], row["rounds"]): row for row in csv.DictReader(file)}
    assert written["sda", "2"]["note"] == early["note"]
    assert written["sda", "2"]["total_error"] == ""
    assert list(written["sda", "2"]) == list(early)


@pytest.mark.slow
def test_a_method_that_never_averages_the_matrices_has_a_note():
    found = rows("estimate", "path:4", "--rounds", 50, "--trials", 2, "-m", "sda d-asg sda", "--no-rivals")
    assert found["d-asg"][50]["total_error"] is None
    assert "does not reach the average" in found["d-asg"][50]["note"]
    assert found["sda"][50]["total_error"] > 0


@pytest.mark.parametrize("command", ["estimate", "evaluate-policy"])
def test_methods_are_separated_by_commas_too(command):
    found = rows(command, "path:4", "--rounds", 60, "--trials", 2, "-m", "sda,dsg", "--no-rivals")
    assert {name.removeprefix("plug-in, ") for name in found if "Abar" not in name} == {"sda", "dsg"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("estimate", "path:4", "--noise", -1), "--noise must be a finite number of at least 0"),
        (("estimate", "path:4", "--dimension", -1), "--dimension must be a whole number of at least 1"),
        (("estimate", "path:4", "--data", "DATA", "--dimension", 3), "--dimension has no effect with --data"),
        (("estimate", "path:4", "--data", "DATA", "--noise", 3), "--noise has no effect with --data"),
        (("estimate", "path:4", "--data", "DATA", "--trials", 3), "--trials has no effect with rows of data"),
        (("estimate", "path:4", "--data", "DATA", "--no-rivals"), "--rivals has no effect with rows of data"),
        (("estimate", "path:4", "--data", "DATA", "--weighting", "plain"), "--weighting has no effect"),
        (("estimate", "path:4", "--target", "price"), "--target has no effect without --data"),
        (("estimate", "path:4", "--intercept"), "--intercept has no effect without --data"),
        (
            ("evaluate-policy", "path:4", "--policy", "uniform"),
            "--policy has no effect without an environment",
        ),
        (("evaluate-policy", "path:4", "--rewards", "r.csv"), "--rewards has no effect unless"),
        (
            ("evaluate-policy", "path:4", "--rule", "same", "--spread", 2),
            "--spread has no effect with --rule same",
        ),
        (("evaluate-policy", "path:4", "--spread", -1), "--spread must be a finite number of at least 0"),
        (
            ("evaluate-policy", "path:4", "--reward-std", -1),
            "--reward-std must be a finite number of at least 0",
        ),
        (
            ("evaluate-policy", "path:4", "-p", "p.npz", "--rule", "same"),
            "--rule has no effect with rewards from",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(words, text, tmp_path):
    (tmp_path / "data.csv").write_text("x,y\n" + "".join(f"{k},{2 * k}\n" for k in range(1, 9)))
    words = [tmp_path / "data.csv" if word == "DATA" else word for word in words]
    with pytest.raises(InvalidInput) as error:
        run(*words, "--rounds", 5)
    assert text in str(error.value)


@pytest.mark.slow
def test_recorded_data_have_their_fit_in_the_rows(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("rate [/s],[kg],y\n" + "".join(f"{k},{k % 3},{2 * k - k % 3}\n" for k in range(1, 13)))
    words = ("estimate", "path:4", "--data", file, "-m", "sda", "--rounds", "2,400")
    found = rows(*words)["sda"]
    assert found[400]["pooled_fit_rate [/s]"] == pytest.approx(2)
    assert found[400]["agent_0_[kg]"] == pytest.approx(-1, abs=1e-6)
    assert found[400]["largest_difference_[kg]"] < 1e-6
    assert found[2]["agent_0_[kg]"] is None
    text = run(*words)
    assert "Estimates after 400 rounds of sda" in text
    early = run(*words[:-1], 2, "--plot", tmp_path / "early.png")  # nothing to draw, and the note says why
    assert "rounds before A_i'A_i may be inverted" in early
    assert any(line.split()[:3] == ["rate", "[/s]", "2"] for line in text.splitlines())
    assert any(line.split()[:2] == ["[kg]", "-1"] for line in text.splitlines())


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
    words = ("--rounds", 80, "-m", "sda")
    sensors_alone = ("--no-rivals", "--trials", 5)
    found = rows("estimate", "path:3", "--data", tmp_path / "sensors.npz", *words, *sensors_alone)
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
    paper = found["plug-in, sda"][100]
    assert paper["corollary_2_transitions"] == pytest.approx(problem.bound(100).terms["transitions"])
    assert ours["corollary_2_transitions"] is None
    limit = problem.simulate(Centralized(), 100, 4).error
    assert ours["centralized_limit"] == pytest.approx(limit)
    assert ours["over_limit"] == pytest.approx(ours["error"] / limit)
    assert (ours["trials"], ours["states"], ours["note"]) == (4, 8, "")
    others = {"TD, last iterate", "TD, averaged", "each agent alone"}
    assert set(found) == others | {f"plug-in, {name}" for name in ("sda", "anytime-sda", "dsg")}
    assert "centralized limit" in run("evaluate-policy", "cycle:6", "--rounds", 100, "--trials", 2)


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


@pytest.mark.slow
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
        (("estimate", "path:4", "-m", "push-sum"), "push-sum gossips over one-way links"),
        (("estimate", "path:4", "--weighting", "best"), "'plain' or 'precision'"),
        (("estimate", "path:4", "--measurements", 0), "--measurements must be a whole number"),
    ],
)
def test_mistakes_are_explained(words, text):
    with pytest.raises(InvalidInput, match=text):
        run(*words, *SHORT)


def test_a_target_that_is_no_column_is_named_with_its_flag(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("speed,price\n1,2\n3,4\n")
    with pytest.raises(InvalidInput, match=r"^--target must be a column of .*, speed, price, got '\[nope\]'"):
        run("estimate", "path:4", "--data", file, "--target", "[nope]")


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
    for content in (b"", b"PK\x03\x04damaged", (tmp_path / "t.npz").read_bytes()[:90]):
        (tmp_path / "t.npz").write_bytes(content)
        with pytest.raises(InvalidInput, match="cannot be read as NPZ"):
            run("estimate", "path:4", "--data", tmp_path / "t.npz")
    with pytest.raises(OutputError, match="cannot be written"):
        run("estimate", "path:4", *SHORT, "--no-rivals", "--csv", tmp_path / "none" / "x.csv")
