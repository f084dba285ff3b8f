"""Facts every method shares, closed forms and the paper's numbers per method, and a method of the user's own."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from scipy.special import eval_jacobi
from tests.support.networks import LINEAR, connected_networks
from tests.support.reference import full_covariance, round_by_round

import gossamer as gs
from gossamer.engines.exact import weights
from gossamer.methods import tabulate

# -- shared facts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LINEAR)
def test_every_method_is_unbiased_in_the_end(name, small):
    net, obs = small
    quiet = gs.Gaussian(obs.mean, 0.0)
    errors = gs.exact(name, net, quiet, [40, 4000]).total_error
    if name == "d-asg":  # a constant step size stops at a distance
        assert errors[1] == pytest.approx(errors[0], rel=0.2)
    else:
        assert errors[1] < 1e-2 * errors[0] or errors[1] < 1e-12


@pytest.mark.parametrize("name", LINEAR)
def test_adding_a_constant_to_all_streams_moves_all_estimates_by_it(name, small):
    net, obs = small
    rounds = 60
    shifted = gs.Gaussian(obs.mean + 3.0, obs.std)
    a = gs.simulate(name, net, obs, rounds, trials=2, seed=0).estimates
    b = gs.simulate(name, net, shifted, rounds, trials=2, seed=0).estimates
    total = weights(name, net, rounds).sum(axis=(0, 2))  # what an estimate makes of a constant
    np.testing.assert_allclose((b - a)[0, :, 0], 3.0 * total, rtol=1e-8)


@pytest.mark.parametrize("name", LINEAR)
def test_messages_travel_one_edge_a_round(name):
    net = gs.Network.path(9)
    w = np.abs(weights(name, net, 4)).sum(axis=0)
    distance = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
    assert np.all(w[distance > 4] < 1e-12 * w.max())


def test_the_registry_is_complete():
    assert set(gs.METHODS) == {
        "sda", "anytime-sda", "dsg", "d-asg", "d-masg", "sstm_sc", "r-rrma-ac-sa2",
        "ssda", "msda", "chebyshev", "jacobi", "linear", "pairwise", "broadcast", "push-sum", "accelerated-gossip",
        "extra", "exact-diffusion", "gradient-tracking",
    }  # fmt: skip
    for name, cls in gs.METHODS.items():
        assert cls.name == name
        assert cls.__doc__


# -- the paper's numbers and closed forms ---------------------------------------------------------------------


def test_dsg_is_a_power_of_the_weight_matrix(small):
    net, obs = small
    seen = obs.sample(0, range(7), range(1))[:, :, 0, 0]
    w = np.eye(net.agents) - net.gossip.toarray()
    expected = sum(np.linalg.matrix_power(w, 7 - t) @ seen[t] for t in range(7)) / 7
    np.testing.assert_allclose(gs.simulate("dsg", net, obs, 7, trials=1, seed=0).estimates[0, :, 0], expected)


def test_sda_output_is_the_mean_of_the_thetas(small):
    net, obs = small
    rounds, burn_in = 15, 6
    seen = obs.sample(0, range(rounds), range(1))[:, :, 0, 0]
    eta = 1 / net.lambda_max
    root = np.sqrt(net.condition_number)
    zeta = (root - 1) / (root + 1)
    x = y = np.zeros(net.agents)
    thetas = []
    for r in seen:  # Algorithm 1, line by line
        theta = x + r
        following = x - eta * (net.gossip @ theta)
        x, y = following + zeta * (following - y), following
        thetas.append(theta)
    run = gs.simulate(gs.SDA(burn_in=burn_in), net, obs, rounds, trials=1, seed=0)
    np.testing.assert_allclose(run.estimates[0, :, 0], np.mean(thetas[burn_in:], axis=0))
    last = gs.simulate(gs.SDA(output="last"), net, obs, rounds, trials=1, seed=0)
    np.testing.assert_allclose(last.estimates[0, :, 0], thetas[-1])


ANYTIME = {  # design table: multiples of the centralized limit, N = 100, mu ~ U[0, 10], sigma = 1
    (1500, "sda"): [4.31, 3.82, 7.82, 2.89, 2.61],
    (1500, "plain"): [1.23, 1.17, 1.67, 1.05, 1.01],
    (1500, "nesterov"): [1.07, 1.05, 1.12, 1.013, 1.004],
    (1500, "chebyshev"): [1.04, 1.03, 1.06, 1.009, 1.003],
    (2976, "sda"): [3.16, 2.92, 4.93, 2.45, 2.31],
    (2976, "nesterov"): [1.035, 1.025, 1.059, 1.006, 1.002],
    (2976, "chebyshev"): [1.019, 1.014, 1.030, 1.005, 1.001],
    (300, "chebyshev"): [1.54, 1.17, 1.42, 1.05, 1.01],
}
KINDS = {
    "sda": gs.SDA(),
    "plain": gs.AnytimeSDA(smoothing=0),
    "nesterov": gs.AnytimeSDA(),
    "chebyshev": gs.AnytimeSDA("chebyshev"),
}


@pytest.mark.parametrize(("rounds", "kind"), list(ANYTIME), ids=str)
def test_the_anytime_table_comes_out(rounds, kind, five_networks):
    obs = gs.Gaussian(np.random.default_rng(1).uniform(0, 10, 100))
    found = [gs.exact(KINDS[kind], net, obs, rounds).total_error * rounds for net in five_networks.values()]
    # The bias depends on the draw of the means and the random graph on its seed: a few percent of slack.
    np.testing.assert_allclose(found, ANYTIME[rounds, kind], rtol=0.02)


LN_MSE = {  # SDA, D-MASG, DSG, for K = 3 and K = 8 stages
    ("path", 3): [-2.4, 2.8, 2.9],
    ("path", 8): [-8.6, -7.0, -2.1],
    ("cycle", 3): [-3.2, 2.1, 2.0],
    ("cycle", 8): [-8.6, -7.6, -3.9],
    ("star", 3): [-1.8, 5.1, 4.8],
    ("star", 8): [-8.2, -6.9, -2.5],
    ("grid", 3): [-4.2, -0.6, -0.9],
    ("grid", 8): [-8.9, -8.0, -8.2],
    ("erdos-renyi", 3): [-4.0, -2.4, -4.4],
    ("erdos-renyi", 8): [-8.7, -7.8, -9.4],
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stages"), list(LN_MSE))
def test_convergence_numbers_of_the_paper(name, stages, five_networks):
    net = five_networks[name]
    rounds = gs.DMASG.rounds_for(net, stages)
    # Average over draws of the means: the reference numbers are one draw's.
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(8):
        obs = gs.Gaussian(rng.uniform(0, 10, 100))
        errors.append([gs.exact(m, net, obs, rounds).total_error for m in (gs.SDA(), gs.DMASG(), gs.DSG())])
    spread = np.ptp(np.log(errors), axis=0)
    assert np.all(np.abs(np.log(errors).mean(axis=0) - LN_MSE[name, stages]) < spread + 0.15)


def test_star_regime_slopes():
    sizes = [148, 190, 244, 314, 403, 518, 665]
    errors = {"sda": [], "d-masg": []}
    for n in sizes:
        net, obs, rounds = gs.Network.star(n), gs.Gaussian(np.zeros(n)), int(np.sqrt(n))
        errors["sda"].append(gs.exact(gs.SDA(), net, obs, rounds).total_error)
        errors["d-masg"].append(gs.exact(gs.DMASG(stages=1), net, obs, rounds).total_error)
    slopes = {k: np.polyfit(np.log(sizes), np.log(v), 1)[0] for k, v in errors.items()}
    assert slopes["sda"] == pytest.approx(0.516, abs=0.002)
    assert slopes["d-masg"] == pytest.approx(1.009, abs=0.002)


def plain_extra(w, samples, steps):
    before, x, gradient_before = None, np.zeros(len(w)), None
    for r, a in zip(samples, steps, strict=True):
        gradient = a * (x - r)
        if before is None:
            following = w @ x - gradient
        else:
            following = x + w @ x - (before + w @ before) / 2 - gradient + gradient_before
        before, x, gradient_before = x, following, gradient
    return x


def plain_exact_diffusion(w, samples, steps):
    x = psi_before = np.zeros(len(w))
    for r, a in zip(samples, steps, strict=True):
        psi = x - a * (x - r)
        x, psi_before = (np.eye(len(w)) + w) / 2 @ (psi + x - psi_before), psi
    return x


def plain_gradient_tracking(w, samples, steps):
    """`samples` are the means of an iteration, two rounds."""
    w = (np.eye(len(w)) + w) / 2
    x = np.zeros(len(w))
    tracked = gradient = x - samples[0]
    for k, a in enumerate(steps):
        x = w @ x - a * tracked
        if k + 1 < len(samples):
            fresh = x - samples[k + 1]
            tracked, gradient = w @ tracked + fresh - gradient, fresh
    return x


@pytest.mark.parametrize("step", [None, 0.2])
def test_corrected_gradients_are_the_recursions_of_their_papers(step):
    small, rng, rounds = gs.Network.grid(3, 3), np.random.default_rng(2), 24
    w = np.eye(small.agents) - small.gossip.toarray()
    samples = rng.normal(size=(rounds, small.agents, 1))
    steps = [1 / (t + 1) if step is None else step for t in range(rounds)]
    for method, plain in (
        (gs.StochasticEXTRA(step), plain_extra),
        (gs.StochasticExactDiffusion(step), plain_exact_diffusion),
    ):
        found = round_by_round(method, small, samples)[:, 0]
        np.testing.assert_allclose(found, plain(w, samples[:, :, 0], steps), rtol=1e-10)
    steps = [min(1, 2 / (2 * k + 1)) if step is None else step for k in range(rounds // 2)]
    found = round_by_round(gs.StochasticGradientTracking(step), small, samples)[:, 0]
    np.testing.assert_allclose(found, plain_gradient_tracking(w, samples[::2, :, 0], steps), rtol=1e-10)


@pytest.mark.parametrize(
    "method", [gs.StochasticEXTRA, gs.StochasticExactDiffusion, gs.StochasticGradientTracking]
)
def test_corrected_gradients_have_no_bias_with_a_constant_step_and_dsg_does(method):
    """Nor is anything lost of the samples with falling steps: the average of the estimates is that of the samples."""
    net, obs = gs.Network.cycle(8), gs.Gaussian(np.arange(8.0))
    assert gs.exact(method(0.2), net, obs, 2400).bias < 1e-12
    assert gs.exact(method(), net, obs, 1601).over_limit < 1.1
    assert gs.exact(method(), net, obs, 1600).samples in (1599, 1600)
    assert gs.exact("dsg", net, obs, 2400).bias > 1e-6


def test_dmasg_has_the_papers_stage_lengths():
    net = gs.Network.path(100)
    assert gs.DMASG.rounds_for(net, 6) == 2976
    c = gs.DMASG().coefficients(net, 2976)
    changes = np.flatnonzero(np.diff(c.step_size)) + 1
    lengths = np.diff([0, *changes, 2976])
    assert lengths.tolist() == [1488, 48, 96, 192, 384, 768]
    np.testing.assert_allclose(c.step_size[changes[1:]] / c.step_size[changes[:-1]], 0.25)
    assert np.all(c.momentum[[0, *changes]] == 0)


def test_sstm_batches_are_the_papers():
    net = gs.Network.path(100)
    obs_spread, eps = 3.0, 0.01
    sizes = gs.SSTM(accuracy=eps, spread=obs_spread).batches(net, 50)
    q, s, g = net.condition_number**-1.5, net.lambda_max * 100, (1 + np.sqrt(3 * np.log(100))) ** 2
    assert sizes[0] == np.ceil(max(1, q * 100**2 * s * g / eps))
    assert sizes[-1] == np.ceil(s * g * obs_spread**2 / eps**2)
    assert sizes[-1] / sizes.sum() > 0.9
    iterations = gs.SSTM(accuracy=eps, spread=obs_spread, counting="iterations").batches(net, 50)
    assert iterations[0] != sizes[0]


@pytest.mark.parametrize("name", ["ssda", "msda", "chebyshev", "sstm_sc", "sda"])
def test_accelerated_methods_reach_the_average_in_the_order_of_sqrt_kappa_rounds(name):
    net = gs.Network.path(60)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 60), 0.0)
    rounds = int(12 * np.sqrt(net.condition_number))
    method = gs.SDA(output="last") if name == "sda" else gs.METHODS[name]()
    assert gs.exact(method, net, obs, rounds).total_error < 1e-3
    slow = gs.exact("linear", net, obs, rounds).total_error
    assert slow > 1.0


def test_chebyshev_averaging_is_the_optimal_polynomial(small):
    net, obs = small
    quiet = gs.Gaussian(obs.mean, 0.0)
    best = gs.exact("chebyshev", net, quiet, 10).total_error
    rho = (net.lambda_max - net.lambda_2) / (net.lambda_max + net.lambda_2)
    bound = 1 / np.cosh(10 * np.arccosh(1 / rho))  # 1/T_10(1/rho), the min-max value
    spread = ((obs.mean - obs.mean.mean()) ** 2).sum()
    assert best <= bound**2 * spread * (1 + 1e-9)


@pytest.mark.slow
@given(connected_networks(weights=("laplacian", "best-constant", "max-degree", "metropolis")))
def test_the_linear_iteration_converges_for_all_weights(net):
    obs = gs.Gaussian(np.arange(net.agents, dtype=float), 0.0)
    assert gs.exact("linear", net, obs, 3000).total_error < 1e-6


# -- a user's own method ---------------------------------------------------------------------------------------


class Registers(NamedTuple):
    total: Any


class Coefficients(NamedTuple):
    scale: Any


@dataclass(frozen=True)
class Alone(gs.Method):
    """No communication at all: the running mean of one's own observations."""

    name: ClassVar[str] = "alone"
    State: ClassVar[type[Any]] = Registers

    def coefficients(self, network, rounds):
        return Coefficients(1.0 / np.arange(1, rounds + 1))

    @staticmethod
    def message(c, s, y):
        return 0.0 * y

    @staticmethod
    def step(c, s, y, mixed):
        return Registers(s.total + c.scale * (y - s.total))

    @staticmethod
    def estimate(c, s):
        return s.total


@pytest.mark.slow
def test_a_method_of_ones_own_works_in_every_engine(small):
    net, obs = small
    result = gs.exact(Alone(), net, obs, 20)
    assert result.variance == pytest.approx((obs.variance / 20).sum())
    assert result.messages == 0
    run = gs.simulate(Alone(), net, obs, 20, trials=500, seed=0)
    assert abs(run.total_error - result.total_error) < 4 * run.stderr
    assert gs.plan(net, gs.Gaussian(np.zeros(12)), 0.0999, Alone()).rounds == 121
    seen = obs.sample(0, range(20), range(1))[:, :, :, 0]
    np.testing.assert_allclose(run.estimates[0], round_by_round(Alone(), net, seen))
    full_covariance(Alone(), net, obs.mean[:, 0], obs.variance[:, 0], 3)


def test_in_the_star_experiment_an_agent_alone_does_better_than_sda():
    net, obs = gs.Network.star(400), gs.Gaussian(np.zeros(400))
    assert gs.exact(Alone(), net, obs, 20).total_error < gs.exact("sda", net, obs, 20).total_error


@dataclass(frozen=True)
class Squares(Alone):
    @staticmethod
    def step(c, s, y, mixed):
        return Registers(s.total + y * y)


@dataclass(frozen=True)
class Offset(Alone):
    @staticmethod
    def estimate(c, s):
        return s.total + 1.0


@dataclass(frozen=True)
class Clipped(Alone):
    @staticmethod
    def estimate(c, s):
        return np.minimum(s.total, 5.0)


@dataclass(frozen=True)
class Positive(Alone):
    @staticmethod
    def message(c, s, y):
        return np.maximum(s.total, 0.0)


@dataclass(frozen=True)
class Saturates(Alone):
    @staticmethod
    def step(c, s, y, mixed):
        return Registers(np.where(np.abs(s.total) > 1e3, np.exp(s.total), s.total) + c.scale * y)


@dataclass(frozen=True)
class Eager(Alone):
    def batches(self, network, rounds):
        return np.zeros(rounds)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (Squares(), r"step \(total\) of Squares is not linear"),
        (Offset(), "estimate of Offset is not linear"),
        (Clipped(), "estimate of Clipped is not linear"),
        (Positive(), "message of Positive is not linear"),
        (Saturates(), r"step \(total\) of Saturates is not linear"),
        (Eager(), "uses an observation in round 0, in which it takes no samples"),
    ],
)
def test_a_method_that_breaks_the_contract_is_caught(method, text):
    with pytest.raises(gs.InvalidInput, match=text):
        tabulate(method, gs.Network.path(3), 5)


@pytest.mark.slow
def test_contributing_shows_a_method_that_works(tmp_path):
    """The example of CONTRIBUTING.md is run as a user would run it."""
    from pathlib import Path

    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    code = text.split("```python")[1].split("```")[0]
    file = tmp_path / "my_method.py"
    file.write_text(code)
    name = code.split("(gs.Method)")[0].split("class ")[-1]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "gossamer",
            "simulate",
            "grid:4x4",
            "-m",
            f"{file}:{name}",
            "-T",
            "50",
            "--json",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert '"exact_total_error"' in done.stdout


@pytest.mark.parametrize("dimension", [1.0, 2.0, 3.5])
def test_jacobi_gossip_applies_normalized_jacobi_polynomials(dimension):
    net = gs.Network.cycle(9)
    values = np.random.default_rng(0).standard_normal(9)
    size, basis = np.linalg.eigh(net.gossip.toarray())
    place = 1 - 2 / net.lambda_bound * size
    for rounds in (1, 2, 7):
        factors = eval_jacobi(rounds, dimension / 2, 0, place) / eval_jacobi(rounds, dimension / 2, 0, 1.0)
        weights = gs.weights(gs.JacobiGossip(dimension), net, rounds)
        assert np.allclose(weights[0] @ values, basis @ (factors * (basis.T @ values)), atol=1e-12)


# -- accelerated gossip ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("net", "connectivity", "resistance"),
    [
        (gs.Network.path(12), 2 - 2 * np.cos(np.pi / 12), 1.0),
        (gs.Network.cycle(12), 2 - 2 * np.cos(2 * np.pi / 12), 11 / 12),
        (gs.Network.complete(7), 7.0, 2 / 7),
        (gs.Network.star(9), 1.0, 1.0),
    ],
)
def test_facts_of_random_exchanges(net, connectivity, resistance):
    assert net.exchanges == pytest.approx((len(net.edges), connectivity, resistance), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["path:20", "cycle:20", "star:20", "grid:5x5", "complete:12", "erdos-renyi:25"]
)
def test_accelerated_gossip_is_as_fast_as_its_theorem(name):
    """The theorem has exponentially distributed times between exchanges, the method the mean of these."""
    net = gs.Network.named(name)
    edges, connectivity, resistance = net.exchanges
    rate = np.sqrt(connectivity / (2 * resistance)) / edges
    obs = gs.Gaussian(np.random.default_rng(2).normal(size=net.agents), std=0.0)
    rounds = [int(k / rate) for k in (1, 2, 4, 8)]
    start = np.sum((obs.mean - obs.mean.mean()) ** 2)
    assert np.all(
        gs.exact("accelerated-gossip", net, obs, rounds).bias <= 2 * start * np.exp(-rate * np.array(rounds))
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", ["path", "cycle"])
def test_accelerated_gossip_slows_down_with_the_square_of_the_length(family):
    slopes = []
    for agents in (10, 20):
        net = gs.Network.named(f"{family}:{agents}")
        obs = gs.Gaussian(np.random.default_rng(2).normal(size=agents), std=0.0)
        edges, connectivity, resistance = net.exchanges
        rate = np.sqrt(connectivity / (2 * resistance)) / edges
        rounds = [int(k / rate) for k in (4, 5, 6, 7, 8)]
        slopes.append(
            -np.polyfit(rounds, np.log(gs.exact("accelerated-gossip", net, obs, rounds).bias), 1)[0]
        )
        assert rate <= slopes[-1] <= 1.6 * rate
    assert np.log2(slopes[0] / slopes[1]) == pytest.approx(2, abs=0.1)


def test_accelerated_gossip_on_a_complete_graph_is_pairwise_gossip():
    net, obs = gs.Network.complete(8), gs.Gaussian(np.arange(8.0))
    both = [gs.exact(name, net, obs, [5, 50]).total_error for name in ("accelerated-gossip", "pairwise")]
    np.testing.assert_allclose(*both, rtol=1e-12)
