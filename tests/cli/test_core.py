"""The command line as a user and as a script meet it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.support.commands import invoke, run

import gossamer as gs
from gossamer.cli import main
from gossamer.cli.formatting import shown
from gossamer.cli.parsing import parse_horizons, parse_method, parse_methods
from gossamer.fingerprint import full_version


def test_exact_in_json_is_what_the_library_says():
    out = json.loads(
        run("exact", "grid:5x5", "-m", "sda", "-T", "50,100", "--json", "--seed", 3, "--spread", 4)
    )
    obs = gs.Gaussian(np.random.default_rng(3).uniform(0, 4, 25))
    expected = gs.exact("sda", gs.Network.grid(5, 5), obs, [50, 100]).total_error
    assert [r["rounds"] for r in out] == [50, 100]
    np.testing.assert_allclose([r["total_error"] for r in out], expected)


@pytest.mark.slow
def test_every_command_on_a_problem_takes_the_streams_of_simulate():
    obs = gs.Bernoulli(np.linspace(0, 1, 4))
    expected = gs.exact("sda", gs.Network.path(4), obs, 50).total_error
    streams = ("--means", "ramp", "--noise", "bernoulli", "--spread", 1)
    for words in (("exact", "-m", "sda"), ("compare", "-m", "sda"), ("tune", "-m", "sda")):
        rows = json.loads(run(words[0], "path:4", *words[1:], "-T", 50, *streams, "--json"))
        assert rows[0].get("before", rows[0]["total_error"]) == pytest.approx(expected)


def test_simulate_in_json_is_what_the_library_says():
    out = json.loads(run("simulate", "path:6", "-m", "dsg", "-T", 30, "--trials", 8, "--seed", 2, "--json"))
    obs = gs.Gaussian(np.random.default_rng(2).uniform(0, 10, 6))
    assert out[0]["total_error"] == pytest.approx(
        gs.simulate("dsg", gs.Network.path(6), obs, 30, 8, 2).total_error
    )
    assert out[0]["exact_total_error"] == pytest.approx(gs.exact("dsg", "path:6", obs, 30).total_error)


def test_simulate_with_faults():
    out = run("simulate", "grid:3x3", "-T", 60, "--trials", 4, "--loss", "0.3", "--crash", "4@20")
    assert "8 of 9 agents alive since round 20" in out
    assert "parts" not in out
    out = run("simulate", "path:5", "-T", 60, "--trials", 4, "--crash", "2@20")
    assert "the crashes cut them into 2 parts" in out
    out = run("simulate", "path:5", "-m", "dsg", "-T", "30,60", "--trials", 4, "--loss", 0.3)
    assert "runs without a ledger: neighbors that are not heard are left out" in out
    rows = json.loads(run("simulate", "path:5", "-T", "30,60", "--trials", 4, "--crash", "0@40", "--json"))
    assert [row["rounds"] for row in rows] == [30, 60]
    assert [row["total_error"] / row["mse"] for row in rows] == pytest.approx([5, 4])


def test_the_error_has_the_same_names_everywhere(tmp_path):
    names = {"total_error", "mse", "over_limit", "centralized_limit"}
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 9))
    for words in (
        ("exact", "grid:3x3", "-T", "40,80"),
        ("simulate", "grid:3x3", "-T", "40,80", "--trials", 4),
        ("simulate", "grid:3x3", "-T", 40, "--trials", 4, "--loss", 0.1),
        ("plan", "grid:3x3", "-e", "0.5"),
    ):
        rows = json.loads(run(*words, "--json", "--csv", tmp_path / "rows.csv"))
        table = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
        for row, written in zip(rows, table, strict=True):
            assert names <= set(row)
            assert row["mse"] == pytest.approx(row["total_error"] / 9)
            assert row["centralized_limit"] == pytest.approx(gs.theory.centralized_limit(obs, row["rounds"]))
            assert row["over_limit"] == pytest.approx(row["total_error"] / row["centralized_limit"])
            assert {name: float(written[name]) for name in names} == {name: row[name] for name in names}
        assert "over limit" in run(*words)


def test_after_a_crash_the_error_counts_the_living():
    words = ("simulate", "path:5", "-T", 60, "--trials", 4, "--crash", "2@20", "--json")
    (row,) = json.loads(run(*words))
    assert row["mse"] == pytest.approx(row["total_error"] / 4)
    assert row["centralized_limit"] == pytest.approx(1 / 60)


def test_over_limit_is_shown_with_an_interval_that_counts_the_trials():
    words = ("simulate", "path:5", "-T", 60, "--trials", 3)
    (row,) = json.loads(run(*words, "--json"))
    half = 4.303 * row["stderr"] / row["centralized_limit"]  # Student's t with two degrees of freedom
    shown = run(*words)
    assert f" {row['over_limit']:.3g} ± {half:.3g}" in shown
    assert "over limit: ± half of its 95% interval" in shown
    alone = run("simulate", "path:5", "-T", 60, "--trials", 1)
    assert "±" not in alone
    assert "--trials 100 shows one" in alone


def test_errors_of_a_comparison_say_what_their_interval_is():
    words = ("compare", "path:5", "-T", 60, "-m", "sda")
    assert "±" not in run(*words)
    assert "simulated errors: ± standard error" in run(*words, "--trials", 3)


def test_names_in_brackets_are_not_markup(tmp_path):
    (tmp_path / "[red]x.txt").write_text("a b\nb c\n")
    assert "[red]x" in run("network", tmp_path / "[red]x.txt")
    assert "[red]x" in run("plan", tmp_path / "[red]x.txt", "-e", "0.5")


@pytest.mark.slow
def test_compare_shows_methods_theory_and_limits(tmp_path):
    picture, table = tmp_path / "c.png", tmp_path / "c.csv"
    out = run("compare", "path:20", "-T", "10:400", "--plot", picture, "--csv", table)
    for word in ("sda", "anytime-sda, chebyshev", "Theorem 1 (SDA)", "network limit", "centralized limit"):
        assert word in out
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len({row["rounds"] for row in rows}) > 30  # all horizons, though the screen shows five
    assert float(rows[0]["over_limit"]) == pytest.approx(
        float(rows[0]["total_error"]) / float(rows[0]["centralized_limit"])
    )
    assert {"network", "method", "mse", "centralized_limit", "network_limit", "theorem_1", "note"} <= set(
        rows[0]
    )
    assert max(len(line) for line in out.splitlines()) <= 100
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_compare_tells_variants_of_a_method_apart():
    variants = "sda sda:burn_in=3 anytime-sda:smoothing=0 sda:burn_in=3 sda:momentum=5"
    rows = json.loads(run("compare", "path:6", "-m", variants, "-T", 600, "--json"))
    names = ["sda", "sda, burn_in=3", "anytime-sda, smoothing=0", "sda, burn_in=3 (2)", "sda, momentum=5"]
    assert [r["method"] for r in rows] == names
    assert rows[0]["total_error"] != rows[1]["total_error"] == rows[3]["total_error"]
    assert "diverges" in rows[4]["note"]
    assert "sda, momentum=5: diverges" in run("compare", "path:6", "-m", variants, "-T", 600)


def test_compare_shows_the_methods_that_work():
    out = run("compare", "path:6", "-m", "sda dsg sstm_sc", "-T", 20, "--weights", "laplacian")
    assert "dsg: DSG and other gradient methods need" in out
    assert "samples per agent; the limits are for one per round" in " ".join(out.split())
    assert invoke("compare", "path:6", "-m", "dsg", "--weights", "laplacian").exit_code != 0


def test_a_file_called_like_a_topology_is_drawn_as_what_it_holds(tmp_path):
    (tmp_path / "grid.txt").write_text("a b\nb c\nc a\n")
    run("network", tmp_path / "grid.txt", "--plot", tmp_path / "q.png")
    assert (tmp_path / "q.png").exists()


def test_an_interrupted_simulation_shows_what_it_has_and_exits_with_130(monkeypatch):
    whole = gs.simulate

    def interrupted(*args, **options):
        return replace(whole(*args, **options), trials=3, partial=True)

    monkeypatch.setattr(gs, "simulate", interrupted)
    result = invoke("simulate", "path:6", "-T", 20, "--trials", 8, "--json")
    assert result.exit_code == 130
    assert json.loads(result.stdout)[0]["trials"] == 3


@pytest.mark.slow
def test_plan_names_the_cheapest(tmp_path):
    methods = "sda anytime-sda"
    out = run("plan", "path:20", "cycle:20", "-e", "0.05,0.01", "-m", methods, "--plot", tmp_path / "p.svg")
    assert "path:20, 0.01: fewest rounds with anytime-sda" in out
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_plan_for_quiet_agents():
    [plan] = json.loads(
        run("plan", "complete:6", "-e", "0.001", "-m", "anytime-sda", "--quiet", "0.1", "--json")
    )
    assert plan["messages"] < 30 * plan["rounds"]
    assert "quiet: " in plan["note"]


@pytest.mark.slow
def test_network(tmp_path):
    out = run("network", "star:100", "--plot", tmp_path / "n.pdf")
    assert "condition number" in out
    assert json.loads(run("network", "path:100", "--json"))[0]["k_star"] == 153
    assert (tmp_path / "n.pdf").read_bytes().startswith(b"%PDF")


def test_recorded_data(tmp_path):
    data = tmp_path / "d.csv"
    samples = np.random.default_rng(0).normal(size=(30, 4))
    data.write_text("a,b,c,d\n" + "\n".join(",".join(map(str, row)) for row in samples))
    out = json.loads(run("exact", "cycle:4", "--data", data, "-T", 20, "--json"))
    expected = gs.exact("anytime-sda", gs.Network.cycle(4), gs.Empirical(samples.T), 20).total_error
    assert out[0]["total_error"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["exact", "pth:5"], 2, "did you mean 'path'"),
        (["exact", "path:5", "-m", "sad"], 2, "did you mean 'sda'"),
        (["exact", "path:5", "-m", "sda:burnin=3"], 2, "did you mean 'burn_in'"),
        (["exact", "path:5", "-T", "0"], 2, "at least 1"),
        (["exact", "path:5", "-T", "many"], 2, "10:1000"),
        (["exact", "path:5", "-m", "push-sum"], 2, "simulate it"),
        (["exact", "path:5", "--std", "-1"], 2, "--std must not be negative"),
        (["exact", "path:5", "--csv", "no/such/folder/x.csv"], 3, "cannot be written"),
        (["compare", "path:5", "--plot", "no/such/folder/x.png"], 3, "cannot be written"),
        (["compare", "path:5", "--plot", "x.what"], 2, "must end in .png, .pdf or .svg"),
        (["simulate", "path:5", "--seed", "-1"], 2, "whole number of at least 0"),
        (["network", "path:5.5"], 2, "got 5.5"),
        (["exact", "path:5", "-m", "sda:step_size=abc"], 2, "step_size must be a finite number"),
        (["exact", "path:5", "-m", "sda:burn_in=2.5"], 2, "burn_in must be a whole number"),
        (["simulate", "path:5", "--crash", "x"], 2, "AGENT@ROUND"),
        (["simulate", "path:5", "-m", "pairwise", "--loss", "0.1"], 2, "cannot run with faults"),
        (["exact", "path:5", "-m", "nothing.py:X"], 2, "no file 'nothing.py'"),
        (["plan", "path:5", "-e", "small"], 2, "--target must be a number, or several separated by commas"),
        (["network", "hypercube:64"], 2, "at most 268,435,456 edges"),
        (["exact", "path:5", "-m", "sda:batch=abc"], 2, "batch must be a number"),
    ],
)
def test_mistakes_give_a_message_and_an_exit_code_and_no_traceback(
    args, code, text, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gossamer", *args])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    assert text in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_a_mistake_in_a_process_of_its_own():
    words = [sys.executable, "-m", "gossamer", "exact", "pth:5"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "did you mean 'path'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_columns_of_a_file_belong_to_agents_by_name(tmp_path):
    (tmp_path / "edges.txt").write_text(
        "n3 n1\nn1 n2\nn1 n3\n"
    )  # agents appear as n3, n1, n2; one edge twice
    (tmp_path / "data.csv").write_text("n1,n2,n3\n10,20,30\n12,22,32\n")
    out = json.loads(
        run(
            "exact",
            tmp_path / "edges.txt",
            "--data",
            tmp_path / "data.csv",
            "-T",
            5,
            "--json",
            "-m",
            "dsg",
        )
    )
    net = gs.Network.from_edges(3, [(0, 1), (1, 2)])
    expected = gs.exact("dsg", net, gs.Empirical([[30, 32], [10, 12], [20, 22]]), 5).total_error
    assert out[0]["total_error"] == pytest.approx(expected)


def test_the_version():
    assert run("--version").strip() == full_version()


def test_several_methods_on_one_line():
    found = parse_methods("sda,dsg; anytime-sda:acceleration=chebyshev,smoothing=3 ssda")
    assert found == [gs.SDA(), gs.DSG(), gs.AnytimeSDA("chebyshev", smoothing=3), gs.SSDA()]


def test_methods_with_parameters():
    assert parse_method("anytime-sda:acceleration=chebyshev,smoothing=20") == gs.AnytimeSDA(
        "chebyshev", smoothing=20
    )
    assert parse_method("sda:burn-in=7") == gs.SDA(burn_in=7)


def test_horizons_and_numbers_as_people_write_them():
    assert parse_horizons("5,10") == [5, 10]
    assert parse_horizons("10:11,150") == [10, 11, 150]
    spread = parse_horizons("10:1000")
    assert spread[0] == 10
    assert spread[-1] == 1000
    assert (shown(12345), shown(0.000123456), shown(None), shown(float("inf")), shown(True)) == (
        "12,345", "0.000123", "-", "inf", "yes",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"])
def test_nothing_is_bold_in_what_mpiexec_forwards(monkeypatch, name):
    from gossamer.cli.output import FORWARDED, console

    for each in FORWARDED:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert console().is_terminal
    monkeypatch.setenv(name, "0")
    assert not console().is_terminal
