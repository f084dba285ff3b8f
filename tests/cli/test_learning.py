"""`gossamer learn`: simulated streams, a user's rows, tables, pictures, mistakes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.commands import invoke, run

import gossamer as gs


@pytest.mark.slow
def test_streams_show_ours_rivals_and_what_they_sent(tmp_path):
    words = ["learn", "cycle:5", "-f", "poisson", "--dimension", 2, "--rounds", "20,60", "--trials", 4]
    records = json.loads(run(*words, "--json"))
    methods = dict.fromkeys(record["method"] for record in records)
    assert list(methods) == [
        "anytime-sda",
        "anytime-sda, local-heavy-ball",
        "DSGD, step=1",
        "DSGT, step=1",
        "alone",
    ]
    problem = gs.LikelihoodEstimation.random(gs.Network.cycle(5), "poisson", 2)
    expected = problem.simulate("anytime-sda", [20, 60], 4)
    assert [r["total_error"] for r in records[:2]] == pytest.approx(expected.total_error.tolist())
    assert [r["bytes"] for r in records[:2]] == expected.bytes.tolist()
    picture, table = tmp_path / "errors.png", tmp_path / "errors.csv"
    output = run(*words, "--plot", picture, "--csv", table, "--tune")
    assert "DSGD, best step" in output
    assert "mse of a center" in output
    assert "sent by all agents up to T=60" in output
    assert picture.stat().st_size > 10_000
    assert table.read_text().startswith("network,method,rounds")


@pytest.mark.slow
def test_lost_messages():
    output = run(
        "learn", "cycle:4", "--dimension", 2, "--rounds", 40, "--trials", 2, "--loss", 0.3, "--no-rivals"
    )
    assert "ours losing 0.3 of all messages" in output
    assert "DSGD" not in output


def write_rows(path):
    rng = np.random.default_rng(0)
    lines = ["age,clinic,outcome"]
    for k in range(120):
        age = rng.normal()
        lines.append(f"{age:.4f},c{k % 4},{int(rng.random() < 1 / (1 + np.exp(-age)))}")
    path.write_text("\n".join(lines))


@pytest.mark.slow
def test_rows_of_a_file_are_fitted_and_shown(tmp_path):
    file = tmp_path / "rows.csv"
    write_rows(file)
    words = ["learn", "cycle:4", "--data", file, "--target", "outcome", "--split", "by:clinic"]
    output = run(*words, "--rounds", 50, "--plot", tmp_path / "fit.png")
    assert "largest difference from the fit in one place" in output
    assert "EXTRA, best step" in output
    assert "age" in output
    assert "intercept" in output
    (newton,) = json.loads(run(*words, "--no-rivals", "--json"))
    assert newton["error"] < 1e-8
    assert {"agent_0_age", "agent_0_intercept", "bytes_to_target"} <= set(newton)
    assert newton["aic"] > newton["deviance"] > 0
    assert newton["standard_error_age"] > 0
    shrunk = run(*words, "--no-rivals", "--ridge", "gcv", "--robust")
    assert "the penalty biases estimates" in shrunk
    assert "null deviance" in shrunk


def test_the_intercept_is_there_unless_it_is_left_out(tmp_path):
    """As in `from_data`, fleets and scikit-learn: without one, the coefficient of age takes the wrong sign here."""
    rng = np.random.default_rng(1)
    age = rng.normal(50, 10, 300)
    ill = rng.random(300) < 1 / (1 + np.exp(4 - 0.05 * age))
    file = tmp_path / "patients.csv"
    file.write_text("\n".join(["age,outcome", *(f"{a:.3f},{int(i)}" for a, i in zip(age, ill, strict=True))]))
    words = ["learn", "cycle:5", "--data", file, "--target", "outcome", "--no-rivals", "--json"]
    (default,), (without,) = (json.loads(run(*words, *more)) for more in ([], ["--no-intercept"]))
    fit = gs.LikelihoodEstimation.from_data(np.round(age, 3), ill, gs.Network.cycle(5)).fit()
    assert [default["agent_0_age"], default["agent_0_intercept"]] == pytest.approx(fit.estimates[0], abs=1e-9)
    assert default["agent_0_age"] > 0.02
    assert without["agent_0_age"] < 0
    assert "agent_0_intercept" not in without


def test_two_columns_of_one_name(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("a,a ,outcome\n1,2,0\n3,1,1\n")
    with pytest.raises(gs.GossamerError, match="'a' is the name of 2 columns"):
        run("learn", "cycle:3", "--data", file, "--target", "outcome")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--target", "y"], "--target has no effect without --data"),
        (["--ridge", "cv"], "--ridge must be a number of at least 0, or cv or gcv with --data, got 'cv'"),
        (["--lasso", "0.1"], "--lasso has no effect without --data"),
        (["--family", "poison"], "did you mean 'poisson'"),
        (["-m", "sda"], "running means"),
    ],
)
def test_mistakes(words, complaint):
    with pytest.raises(gs.GossamerError, match=complaint):
        invoke("learn", "cycle:4", *words, catch=False)


def test_flags_of_simulations_are_refused_with_rows(tmp_path):
    file = tmp_path / "rows.csv"
    write_rows(file)
    with pytest.raises(gs.InvalidInput, match="--trials has no effect with --data"):
        invoke("learn", "cycle:4", "--data", file, "--trials", 3, catch=False)
