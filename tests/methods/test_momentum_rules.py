"""Momentum that rises on its own: the recursions, what they may know, and how near the limits they come."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from tests.support.networks import connected_networks

import gossamer as gs
from gossamer.facts import KnownFacts, UnknownFacts
from gossamer.methods import tabulate
from gossamer.methods.ledger import ledger_program
from gossamer.methods.momentum_rules import RULES, heavy_ball
from gossamer.theory import network_limit

LOCAL = gs.AnytimeSDA("local")


class Unmeasured(gs.Network):
    """A network whose spectrum nobody may ask for."""

    def _asked(self) -> None:
        raise AssertionError("the spectrum was asked for")

    spectrum = lambda_max = lambda_2 = condition_number = inverse_square_trace = property(_asked)


def by_hand(gossip, seen, *, eta=0.65, cap=0.97, ramp=8, width=2.0):
    """The recursion as it stands in docs/paper.md, line by line; `seen` is (rounds, N)."""
    mean, smooth, x, y = (np.zeros(seen.shape[1]) for _ in range(4))
    for t, newest in enumerate(seen):
        mean = mean + (newest - mean) / (t + 1)
        smooth = smooth + max(1 / (t + 1), min(1, 1 / (width * np.sqrt(t + 1)))) * (mean - smooth)
        following = x - eta * (gossip @ (x + smooth))
        x, y = following + min(t / (t + ramp), cap) * (following - y), following
    return x + smooth


@pytest.mark.parametrize(
    ("method", "numbers"),
    [
        (LOCAL, {}),
        (gs.AnytimeSDA("local", step_size=0.4), {"eta": 0.4}),
        (gs.AnytimeSDA("local", momentum=0.8), {"cap": 0.8}),
        (gs.AnytimeSDA("local", ramp=3), {"ramp": 3}),
        (gs.AnytimeSDA("local", smoothing=0.6), {"width": 0.6}),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_it_is_this_recursion(method, numbers, small):
    net, obs = small
    seen = obs.sample(3, range(400), range(1))[:, :, 0, 0]
    run = gs.simulate(method, net, obs, 400, trials=1, seed=3)
    np.testing.assert_allclose(
        run.estimates[0, :, 0], by_hand(net.gossip, seen, **numbers), rtol=0, atol=1e-12
    )


def heavy_ball_by_hand(gossip, seen, *, eta, cap, ramp, window, lead=0.0, first=0):
    """`window` gives w_t; the answer is read `lead` rounds ahead. The first rounds are those of the local form."""
    mean, smooth, x, before = (np.zeros(seen.shape[1]) for _ in range(4))
    for t, newest in enumerate(seen):
        mean = mean + (newest - mean) / (t + 1)
        smooth = smooth + max(1 / (t + 1), min(1, 1 / window(t))) * (mean - smooth)
        zeta = min(t / (t + ramp), cap if t >= first else 0.97)
        if t < first:
            y = x - 0.65 * (gossip @ (x + smooth))
            x, before = y + zeta * (y - before), y
        else:
            move = zeta * (x - before) - (1 + zeta) * eta * (gossip @ (x + smooth))
            x, before = x + move, x
    return x + lead * (x - before) + smooth


def test_the_local_heavy_ball_is_this_recursion(small):
    net, obs = small
    seen = obs.sample(3, range(400), range(1))[:, :, 0, 0]
    run = gs.simulate(gs.AnytimeSDA("local-heavy-ball"), net, obs, 400, trials=1, seed=3)
    expected = heavy_ball_by_hand(
        net.gossip, seen, eta=0.95, cap=0.96, ramp=8, window=lambda t: 2 * np.sqrt(t + 1), first=20
    )
    np.testing.assert_allclose(run.estimates[0, :, 0], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("net", [gs.Network.star(12), gs.Network.path(12)], ids=lambda net: net.name)
def test_the_heavy_ball_reads_its_answer_ahead_or_behind(net):
    obs = gs.Gaussian(np.arange(12.0))
    seen = obs.sample(3, range(200), range(1))[:, :, 0, 0]
    rule = heavy_ball(net)
    assert (rule.lead > 0) == (net.name.startswith("star"))
    run = gs.simulate(gs.AnytimeSDA("heavy-ball"), net, obs, 200, trials=1, seed=3)
    numbers = {"eta": rule.step_size, "cap": rule.momentum, "ramp": rule.ramp, "lead": rule.lead}
    expected = heavy_ball_by_hand(net.gossip, seen, **numbers, window=lambda t: rule.smoothing)
    np.testing.assert_allclose(run.estimates[0, :, 0], expected, rtol=0, atol=1e-11)


def test_without_smoothing_the_running_mean_itself_is_told(small):
    c = gs.AnytimeSDA("local", smoothing=0).coefficients(small[0], 50)
    np.testing.assert_array_equal(c.smoothing_gain, 1.0)


@pytest.mark.parametrize(
    ("name", "faults"), [("local", None), ("local", gs.faults.Loss(0.3)), ("local-heavy-ball", None)]
)
def test_local_forms_never_read_a_spectrum(name, faults):
    net = Unmeasured(gs.Network.grid(3, 4).gossip)
    obs = gs.Gaussian(np.arange(12.0))
    method = gs.AnytimeSDA(name)
    found = gs.simulate(method, net, obs, 600, trials=5, seed=1, faults=faults).total_error
    assert found < 0.2
    assert ledger_program(method, net, 50).own == ("mean", "smooth")
    for name in ("nesterov", "chebyshev", "heavy-ball"):
        with pytest.raises(AssertionError, match="the spectrum was asked for"):
            gs.simulate(gs.AnytimeSDA(name), net, obs, 10, trials=1)


def test_a_deployed_agent_needs_no_facts():
    for one, other in zip(
        ledger_program(LOCAL, UnknownFacts()), ledger_program(LOCAL, gs.Network.path(9)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("weights", ["metropolis", "max-degree"])
def test_weights_that_average_have_a_bound_of_two(weights):
    for net in (gs.Network.star(9, weights), gs.Network.hypercube(5, weights), gs.Network.path(2, weights)):
        assert net.lambda_bound == 2.0
        assert LOCAL.chosen(net) == {"step_size": 0.65, "momentum": 0.97, "ramp": 8.0, "smoothing": 2.0}


def test_other_weights_are_bounded_by_their_sums():
    net = gs.Network.star(9, "laplacian")
    assert net.lambda_bound == 16.0
    assert LOCAL.chosen(net)["step_size"] == 1.3 / 16
    assert KnownFacts.of(net.spectrum.eigenvalues).lambda_bound == pytest.approx(9.0)
    signs = np.array(
        [[1.5, -2.0, 0.5], [-2.0, 4.0, -2.0], [0.5, -2.0, 1.5]]
    )  # row sums of sizes, not diagonals
    assert gs.Network.from_gossip_matrix(signs).lambda_bound == 8.0


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
@given(connected_networks())
def test_the_bound_holds_and_every_mode_decays(name, net):
    """The spectral radius of a late round is below 1 in every mode."""
    assert net.lambda_max <= net.lambda_bound * (1 + 1e-12)
    c = gs.AnytimeSDA(name).coefficients(net, 500)
    zeta, carry, step = (np.ravel(given)[-1] for given in (c.momentum, c.carry, c.step_size))
    for value in net.spectrum.eigenvalues[net.spectrum.eigenvalues > 1e-12]:
        pull = step * value
        late = np.array([[(1 + zeta) * (1 - pull), -zeta], [1 - carry * pull, 0.0]])
        assert np.abs(np.linalg.eigvals(late)).max() < 1


LOCAL_TABLE = {  # multiples of the centralized limit, N = 100, mu ~ U[0, 10], sigma = 1
    1000: [1.13, 1.06, 1.09, 1.03, 1.03],
    2976: [1.04, 1.02, 1.03, 1.02, 1.02],
    10_000: [1.01, 1.01, 1.01, 1.01, 1.01],
}


def test_the_table_of_the_local_form_comes_out(five_networks):
    obs = gs.Gaussian(np.random.default_rng(1).uniform(0, 10, 100))
    for net, *expected in zip(five_networks.values(), *LOCAL_TABLE.values(), strict=True):
        found = gs.exact(LOCAL, net, obs, list(LOCAL_TABLE))
        np.testing.assert_allclose(found.total_error * found.rounds, expected, atol=0.008)


GOALS = {("heavy-ball", 300): 1.10, ("local-heavy-ball", 1000): 1.05}


@pytest.mark.parametrize(("name", "rounds"), GOALS)
def test_errors_come_near_the_network_limit(name, rounds, five_networks):
    """No unbiased estimate can be below the limit, whatever the agents know and remember."""
    obs = gs.Gaussian(np.random.default_rng(1).uniform(0, 10, 100))
    for net in five_networks.values():
        found = gs.exact(gs.AnytimeSDA(name), net, obs, rounds).total_error
        assert 1 <= found / network_limit(net, obs, rounds) <= GOALS[name, rounds]


@pytest.mark.parametrize("rounds", [300, 3000])
def test_the_heavy_ball_is_nowhere_behind_chebyshev(rounds):
    networks = [
        gs.Network.path(30), gs.Network.star(30), gs.Network.complete(10), gs.Network.hypercube(6),
        gs.Network.torus(8, 8), gs.Network.random_geometric(100, seed=1), gs.Network.grid(8, 8, "laplacian"),
        gs.Network.from_networkx(nx.barbell_graph(15, 10)), gs.Network.from_networkx(nx.balanced_tree(2, 5)),
    ]  # fmt: skip
    for net in networks:
        obs = gs.Gaussian(np.random.default_rng(2).uniform(0, 10, net.agents))
        ours, theirs = (
            gs.exact(gs.AnytimeSDA(name), net, obs, rounds).total_error
            for name in ("heavy-ball", "chebyshev")
        )
        assert ours < 1.005 * theirs


def test_a_longer_chain_wants_more_momentum():
    net, obs = gs.Network.path(300), gs.Gaussian(np.random.default_rng(1).uniform(0, 10, 300))
    usual, more = (
        gs.exact(gs.AnytimeSDA("local", momentum=m), net, obs, 3000).total_error for m in (0.97, 0.99)
    )
    assert more < 0.1 * usual


@pytest.mark.parametrize("name", RULES)
def test_planning_knows_it(name, small):
    net, obs = small
    method = gs.AnytimeSDA(name)
    planned = gs.plan(net, obs, 0.05, method)
    assert gs.exact(method, net, obs, planned.rounds).total_error <= 0.05
    assert gs.exact(method, net, obs, planned.rounds - 1).total_error > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_tuning_knows_it(name, small):
    net, obs = small
    method = gs.AnytimeSDA(name)
    names = {"step_size", "momentum", "ramp", "smoothing"}
    assert set(method.tunable(net, 24)) == set(method.chosen(net)) == names
    for parameter in ("step_size", "smoothing"):  # all at once are searched in tests/test_planning.py
        tuned = gs.tune(method, net, obs, 24, parameter)
        assert tuned.total_error < tuned.before


@pytest.mark.parametrize("acceleration", ["nesterov", "chebyshev"])
def test_a_ramp_is_for_the_local_form(acceleration):
    with pytest.raises(
        gs.InvalidInput, match=f"momentum of acceleration='{acceleration}' does not rise; leave ramp out"
    ):
        gs.AnytimeSDA(acceleration, ramp=8)
    with pytest.raises(gs.InvalidInput, match="ramp must be a finite number above 0, got 0"):
        gs.AnytimeSDA("local", ramp=0)


def test_its_rounds_repeat_from_where_the_momentum_is_full():
    table = tabulate(LOCAL, gs.Network.path(5), 300)
    reached = int(np.argmax(LOCAL.coefficients(gs.Network.path(5), 300).momentum == 0.97))
    assert reached == 259
    assert np.all(table.step_mixed[reached:] == table.step_mixed[reached])


def test_parameters_set_by_hand_also_count_after_a_loss():
    """With weights beyond those that average, the default step would diverge in the first rounds and after a loss."""
    by_hand = gs.AnytimeSDA("local-heavy-ball", step_size=0.15, momentum=0.99, ramp=4.0)
    assert by_hand.after_loss == gs.AnytimeSDA("local", step_size=0.15 * 1.3 / 1.98, momentum=0.97, ramp=4.0)
    assert gs.AnytimeSDA("local-heavy-ball", momentum=0.9).after_loss == gs.AnytimeSDA("local", momentum=0.9)
    assert gs.AnytimeSDA("local-heavy-ball").after_loss == LOCAL
    first = by_hand.coefficients(gs.methods.UnknownFacts(), 30)
    assert first.step_size[[0, 19]] == pytest.approx(0.15 * 1.3 / 1.98)
    assert first.step_size[[20, 29]] == pytest.approx(0.15)
