"""Streams: noise with covariance, noise of one's own, heavy tails, equality, pickling, and what is refused."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import gossamer as gs
from gossamer.observations import check_match, fourth_moment_note

MEAN = np.arange(12.0).reshape(6, 2)
COVARIANCE = np.array([[2.0, -1.2], [-1.2, 1.0]])

STREAMS = [
    gs.Gaussian(MEAN),
    gs.Gaussian(MEAN, covariance=COVARIANCE),
    gs.Bernoulli(np.full(6, 0.3)),
    gs.Uniform(0.0, np.ones(6)),
    gs.StudentT(np.zeros(6), df=3),
    gs.Empirical(MEAN[:, None, :] + np.arange(3)[:, None]),
    gs.Drifting(gs.Gaussian(MEAN), 0.1),
]
NAMES = [type(stream).__name__ for stream in STREAMS]


def each_agent(rng) -> np.ndarray:
    """(6, 2, 2) another covariance for every agent, one of them singular and one zero."""
    roots = rng.normal(size=(6, 2, 2))
    roots[1, :, 1] = 0.0
    roots[2] = 0.0
    return roots @ np.swapaxes(roots, 1, 2)


@pytest.mark.parametrize("given", [COVARIANCE, each_agent(np.random.default_rng(3))], ids=["shared", "each"])
def test_samples_have_the_covariance(given):
    obs = gs.Gaussian(MEAN, covariance=given)
    full = np.broadcast_to(given, (6, 2, 2))
    rounds, trials = range(50), range(400)
    drawn = obs.sample(1, rounds, trials)  # (rounds, agents, n, trials)
    flat = np.moveaxis(drawn, 1, 0).transpose(0, 2, 1, 3).reshape(6, 2, -1)
    count = flat.shape[2]
    assert np.all(np.abs(flat.mean(axis=2) - MEAN) <= 4.5 * obs.std / np.sqrt(count))
    for agent in range(6):
        found, exact = np.cov(flat[agent]), full[agent]
        # The variance of a sample covariance of normals: (C_ii C_jj + C_ij^2)/count.
        error = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / count)
        assert np.all(np.abs(found - exact) <= 4.5 * error + 1e-12)
    np.testing.assert_allclose(obs.variance, np.einsum("ijj->ij", full))
    np.testing.assert_allclose(obs.factor @ np.swapaxes(obs.factor, 1, 2), full, atol=1e-12)


def test_a_diagonal_covariance_is_a_standard_deviation():
    std = np.random.default_rng(0).uniform(0.5, 2, size=(6, 2))
    plain = gs.Gaussian(MEAN, std)
    np.testing.assert_allclose(plain.factor @ plain.factor, std[:, :, None] ** 2 * np.eye(2))
    full = gs.Gaussian(MEAN, covariance=plain.factor**2)
    np.testing.assert_allclose(full.variance, plain.variance)
    assert plain.normal_std is not None
    assert full.normal_std is None


def test_correlated_samples_depend_on_neither_blocks_nor_threads():
    obs = gs.Gaussian(MEAN, covariance=each_agent(np.random.default_rng(3)))
    whole = obs.sample(5, range(11), range(9))
    part = obs.sample(5, range(3, 10), range(2, 7), agents=range(1, 4))
    np.testing.assert_array_equal(part, whole[3:10, 1:4, :, 2:7])
    net = gs.Network.cycle(6)
    alone = gs.simulate("sda", net, obs, 20, trials=40, seed=2).estimates
    halves = [gs.simulate("sda", net, obs, 20, trials=20, seed=2, first_trial=k).estimates for k in (0, 20)]
    np.testing.assert_array_equal(np.concatenate(halves), alone)


@pytest.mark.parametrize("method", [gs.AnytimeSDA(), gs.SDA(batch=3)], ids=lambda method: method.label)
def test_exact_and_simulated_errors_agree_for_correlated_components(method):
    obs = gs.Gaussian(MEAN, covariance=each_agent(np.random.default_rng(3)))
    net = gs.Network.star(6)
    run = gs.simulate(method, net, obs, 30, trials=4000, seed=1)
    assert abs(run.total_error - gs.exact(method, net, obs, 30).total_error) < 4 * run.stderr


def test_drift_keeps_the_covariance():
    obs = gs.Drifting(gs.Gaussian(MEAN, covariance=COVARIANCE), 0.5)
    still = obs.base.sample(1, range(4), range(3))
    moved = obs.sample(1, range(4), range(3))
    np.testing.assert_allclose(
        moved - still, np.broadcast_to(0.5 * np.arange(4)[:, None, None, None], still.shape)
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gs.Gaussian(MEAN, 1.0, covariance=COVARIANCE), "by std or by covariance, got both"),
        (
            lambda: gs.Gaussian(MEAN, covariance=np.eye(3)),
            r"shape \(2, 2\), .* or \(6, 2, 2\) .*got \(3, 3\)",
        ),
        (lambda: gs.Gaussian(MEAN, covariance=[[1, 0.5], [0, 1]]), "symmetric, but entries .* differ by 0.5"),
        (
            lambda: gs.Gaussian(MEAN, covariance=[[1, 2], [2, 1]]),
            "semi-definite, but it has the eigenvalue -1",
        ),
        (lambda: gs.Gaussian(MEAN, covariance=np.full((2, 2), np.nan)), "covariance must be finite"),
        (lambda: gs.Gaussian(MEAN, covariance="a"), "covariance must be numbers"),
        (
            lambda: gs.Gaussian([1j, 2.0]),
            "the means must be real, got complex numbers; give real and imaginary",
        ),
        (lambda: gs.Gaussian([1e200, 0.0]), "must not exceed 1e.145, because errors are squared, got 1e.200"),
        (lambda: gs.Gaussian([0.0, 1.0], 1e200), "std must not exceed"),
        (lambda: gs.Empirical([[1e200, 0.0]]), "recorded samples must not exceed"),
        (lambda: gs.Empirical({}), "recorded samples must be numbers"),
        (lambda: gs.Gaussian([[1, 2], [3]]), "the means must be numbers, equally many for each agent"),
        (lambda: gs.Uniform([[1, 2], [3]], 4.0), "low must be numbers"),
    ],
)
def test_streams_that_cannot_be(call, text):
    with pytest.raises(gs.InvalidInput, match=text):
        call()


@pytest.mark.parametrize("stream", STREAMS, ids=NAMES)
def test_streams_are_equal_by_kind_and_parameters(stream):
    assert stream == copy.deepcopy(stream)
    stream.sample(0, range(3), range(2))  # what was drawn is no parameter
    again = pickle.loads(pickle.dumps(stream))
    assert again == stream
    np.testing.assert_array_equal(again.sample(1, range(5), range(3)), stream.sample(1, range(5), range(3)))
    assert [other == stream for other in STREAMS].count(True) == 1
    assert stream != "stream"


def test_streams_with_other_parameters_are_not_equal():
    assert gs.Gaussian(MEAN) != gs.Gaussian(MEAN, 2.0)
    assert gs.Gaussian(MEAN) != gs.Gaussian(MEAN + 1)
    assert gs.Gaussian(MEAN) != gs.Gaussian(MEAN[:3])
    assert gs.StudentT(np.zeros(3), df=3) != gs.StudentT(np.zeros(3), df=4)
    assert gs.Drifting(gs.Gaussian(MEAN), 0.1) != gs.Drifting(gs.Gaussian(MEAN), 0.2)
    assert gs.Drifting(gs.Gaussian(MEAN), 0.1) == gs.Drifting(gs.Gaussian(MEAN), 0.1)


@pytest.mark.parametrize("stream", STREAMS, ids=NAMES)
def test_streams_introduce_themselves_in_a_line(stream):
    assert repr(stream).startswith(f"{type(stream).__name__}(6 agents")
    assert len(repr(stream)) < 90
    assert repr(gs.Gaussian(MEAN, 2.0)) == "Gaussian(6 agents x 2 components, means 0 to 11, std 2)"


def test_heavy_tails_are_told():
    heavy = gs.StudentT(np.zeros(4), df=4)
    assert heavy.heavy_tailed
    assert gs.Drifting(heavy, 0.1).heavy_tailed
    assert "fourth moment" in fourth_moment_note(heavy)
    for fine in (
        gs.StudentT(np.zeros(4), df=4.1),
        gs.Gaussian(np.zeros(4)),
        gs.Drifting(gs.Gaussian([0.0]), 1.0),
    ):
        assert not fine.heavy_tailed
        assert fourth_moment_note(fine) == ""


def documented(text: str) -> type[gs.UniformDriven]:
    """The class Laplace in a text."""
    lines = text.split("class Laplace")[1].split("```")[0].splitlines()
    indent = len(lines[1]) - len(lines[1].lstrip()) - 4
    body = [line for line in lines[1:] if not line.strip() or line.startswith(" " * (indent + 4))]
    code = f"class Laplace{lines[0]}\n" + "\n".join(line[indent:] for line in body)
    names = {"gs": gs, "np": np}
    exec(code, names)
    return names["Laplace"]  # type: ignore[return-value]


@pytest.mark.parametrize(
    "text",
    [(Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(), gs.UniformDriven.__doc__],
    ids=["CONTRIBUTING.md", "UniformDriven"],
)
def test_the_documented_noise_works(text):
    obs = documented(text)(np.linspace(0, 3, 6), 0.7)
    drawn = obs.sample(1, range(100), range(200))
    count = 100 * 200
    assert np.all(np.abs(drawn.mean(axis=(0, 3)) - obs.mean) < 4.5 * np.sqrt(obs.variance / count))
    # The fourth central moment of a Laplace variable is 24 scale^4, its variance 2 scale^2.
    spread = np.sqrt((24 - 4) * 0.7**4 / count)
    assert np.all(np.abs(drawn.var(axis=(0, 3)) - obs.variance) < 4.5 * spread)
    net = gs.Network.cycle(6)
    run = gs.simulate("anytime-sda", net, obs, 40, trials=2000, seed=3)
    assert abs(run.total_error - gs.exact("anytime-sda", net, obs, 40).total_error) < 4 * run.stderr
    assert obs == copy.deepcopy(obs)
    assert repr(obs) == "Laplace(6 agents, means 0 to 3, std 0.99)"


def test_a_match_returns_the_network_to_use():
    net = gs.Network.cycle(6)
    assert check_match(net, STREAMS[0]) is net
    assert check_match("cycle:6", STREAMS[0]) == net
    with pytest.raises(gs.InvalidInput, match="the network has 5 agents, but the observations have 6"):
        check_match("cycle:5", STREAMS[0])
    with pytest.raises(gs.InvalidInput, match="observations must be streams"):
        check_match(net, MEAN)
