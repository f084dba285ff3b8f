"""The privacy accountant against attacks on all messages, closed forms and its own bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gossamer as gs
from gossamer.accounting import masks_for, neighbor_uncertainty
from gossamer.numerics.gaussian_privacy import delta_of, epsilon_of, mu_of
from gossamer.observations import incidence


def attack(net, scale, noise, coalition, direction, rounds=6):
    """mu of an optimal attack on everything that is said: all messages of all rounds, and the coalition's masks.

    Levels are constant, so that an agent's message of round t is a linear function of y + B m + z.
    """
    honest = [i for i in range(net.agents) if i not in coalition]
    edges = incidence(net).toarray()
    known = np.abs(edges[list(coalition)]).sum(axis=0) > 0
    seen = np.concatenate(
        [gs.weights(gs.SDA(output="last"), net, t).sum(axis=0) for t in range(1, rounds + 1)]
    )
    signal = seen @ direction
    hidden = np.hstack([scale * seen @ edges[:, ~known], noise * seen[:, honest]])
    # The signal in units of the noise, where there is any; where there is none, any signal is visible without doubt.
    u, s, _ = np.linalg.svd(hidden)
    rank = int(np.sum(s > 1e-9 * max(s.max(), 1e-300)))
    coordinates = u.T @ signal
    if np.abs(coordinates[rank:]).max() > 1e-7:
        return math.inf
    return float(np.linalg.norm(coordinates[:rank] / s[:rank]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_attack_on_all_messages_beats_or_misses_the_accountant(seed):
    rng = np.random.default_rng(seed)
    net = gs.Network.erdos_renyi(int(rng.integers(5, 13)), p=0.5, seed=seed)
    coalition = tuple(sorted(rng.choice(net.agents, int(rng.integers(0, 3)), replace=False).tolist()))
    noise = float(rng.choice([0.0, 0.7]))
    found = gs.privacy(net, 3.0, noise=noise, coalition=coalition)
    agent = next(i for i in range(net.agents) if i not in coalition)
    unit = np.eye(net.agents)
    assert attack(net, 3.0, noise, coalition, unit[agent]) == pytest.approx(found.mu_change[agent], rel=1e-6)
    part = next(members for members in found.public if agent in members)
    moves = [attack(net, 3.0, noise, coalition, unit[agent] - unit[j]) for j in part if j != agent]
    if moves:
        assert max(moves) == pytest.approx(found.mu_move[agent], rel=1e-6)


def test_an_attack_on_simulated_messages_has_the_predicted_variance():
    net, scale, noise, trials = gs.Network.grid(2, 3), 4.0, 1.0, 4000
    levels = gs.Gaussian(np.zeros(6), 0.0)
    run = gs.simulate(gs.SDA(output="last"), net, levels, 6, trials=trials, keep="iterates", masks=scale)
    rng = np.random.default_rng(0)
    weights = np.concatenate([gs.weights(gs.SDA(output="last"), net, t).sum(axis=0) for t in range(1, 7)])
    said = (
        run.iterates["estimate"].reshape(trials, -1) + (noise * rng.standard_normal((trials, 6))) @ weights.T
    )
    # The best linear unbiased estimate of agent 0's level from all that was said.
    edges = incidence(net).toarray()
    covariance = weights @ (scale**2 * edges @ edges.T + noise**2 * np.eye(6)) @ weights.T
    signal = weights[:, 0]
    filter_ = np.linalg.pinv(covariance, rcond=1e-10) @ signal
    estimates = said @ filter_ / (signal @ filter_)
    predicted = 1 / gs.privacy(net, scale, noise=noise).mu_change[0] ** 2
    assert abs(estimates.var() / predicted - 1) < 4 * math.sqrt(2 / trials)


def test_closed_forms():
    cycle = gs.privacy("cycle:10", 10.0)
    np.testing.assert_allclose(
        cycle.mu_move, math.sqrt(5 * 5 / 10) / 10
    )  # resistance of two halves in parallel
    assert np.isinf(cycle.mu_change).all()  # the sum of all levels is public
    complete = gs.privacy("complete:8", 1e6, noise=2.0)
    np.testing.assert_allclose(
        complete.mu_change, 1 / (2 * math.sqrt(8)), rtol=1e-6
    )  # that of a trusted center
    leaf = gs.privacy("star:5", 10.0, coalition=[0])
    assert leaf.public == [(1,), (2,), (3,), (4,)]
    assert np.isinf(leaf.mu_change[1:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grid:8x9", "expander:900x4"])
def test_the_large_case_bounds_the_exact_one(name, monkeypatch):
    for noise in (0.0, 1.0):
        exact = gs.privacy(name, 20.0, noise=noise, coalition=[7])
        monkeypatch.setattr("gossamer.accounting.DENSE", 1)
        bound = gs.privacy(name, 20.0, noise=noise, coalition=[7])
        monkeypatch.undo()
        np.testing.assert_allclose(bound.mu_change, exact.mu_change, rtol=1e-8)
        honest = ~np.isnan(exact.mu_move)
        assert np.all(bound.mu_move[honest] >= exact.mu_move[honest] * (1 - 1e-8))
        assert np.all(bound.mu_move[honest] <= 2 * exact.mu_move[honest].max())
        assert bound.notes
        assert not exact.notes


def test_the_worst_coalition_is_found_by_looking_at_all():
    net = gs.Network.from_edges(5, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
    found = gs.privacy(net, 10.0, noise=1.0, coalition=2)
    pairs = itertools.combinations(range(net.agents), 2)
    most = max(np.nanmax(gs.privacy(net, 10.0, noise=1.0, coalition=pair).mu_change) for pair in pairs)
    assert np.nanmax(found.mu_change) == pytest.approx(most)
    single = gs.privacy("path:4", 10.0, coalition="any neighbor")
    assert single.worst_neighbor.coalition in ((1,), (2,))
    assert single.coalition == single.worst_neighbor.coalition
    assert math.isinf(single.worst_neighbor.move)
    assert (
        gs.privacy("star:5", 10.0, noise=1.0).worst_pair.change == 1.0
    )  # the center is a leaf's only neighbor


def test_a_coalition_of_many_is_sampled_and_says_so():
    found = gs.privacy("grid:6x6", 10.0, noise=1.0, coalition=3)
    assert len(found.coalition) == 3
    assert found.caveats == (
        "only 84 coalitions of 3 agents, around the agents with the fewest neighbors, were examined",
    )
    assert np.nanmax(found.mu_change) == pytest.approx(1.0)  # it contains both neighbors of a corner


def test_the_result_is_a_table_like_the_others():
    found = gs.privacy("cycle:6", 10.0, coalition={2}, readings=5)
    assert repr(found).startswith("<Privacy masks of 10.0 on cycle:6 against agent 2: 5 rows: agent=0..5")
    frame = found.to_frame()
    assert list(frame) == [
        "network",
        "agent",
        "part",
        "mu_change",
        "mu_move",
        "mu_reading",
        "epsilon",
        "note",
    ]
    assert frame.agent.tolist() == [0, 1, 3, 4, 5]
    np.testing.assert_allclose(frame.mu_move, found.mu_move[frame.agent])
    np.testing.assert_allclose(frame.epsilon, [epsilon_of(mu, 1e-5) for mu in frame.mu_move])
    assert "against agents 0, 3" in gs.privacy("cycle:6", 10.0, coalition=[3, 0]).title


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
def test_epsilon_delta_and_mu_are_inverse_to_each_other(mu):
    for delta in (1e-3, 1e-9):
        epsilon = epsilon_of(mu, delta)
        if epsilon > 0:
            assert delta_of(mu, epsilon) == pytest.approx(delta, rel=1e-6)
            assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-6)
    assert delta_of(0.0, 1.0) == 0.0
    assert delta_of(math.inf, 1.0) == 1.0


def test_several_averages_of_the_same_data_add_up():
    """Nine independent views of a level are as good as one with a third of the standard deviation."""
    view = gs.privacy("cycle:6", 9.0, noise=3.0)
    sharper = gs.privacy("cycle:6", 3.0, noise=1.0)
    assert view.epsilon(1e-6, times=9) == pytest.approx(sharper.epsilon(1e-6))
    assert view.delta(1.0, times=9) == pytest.approx(sharper.delta(1.0))
    with pytest.raises(gs.InvalidInput, match="times"):
        view.epsilon(times=0)


def test_readings_and_scale_of_the_change():
    one, many = (gs.privacy("cycle:6", 10.0, noise=1.0, change=3.0, readings=k) for k in (1, 100))
    np.testing.assert_allclose(one.mu_reading, one.mu_change)
    np.testing.assert_allclose(many.mu_reading, one.mu_change / 100)
    np.testing.assert_allclose(one.mu_change, 3 * gs.privacy("cycle:6", 10.0, noise=1.0).mu_change)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"coalition": "everyone"}, "any neighbor"),
        ({"coalition": [9]}, "coalition"),
        ({"coalition": 6}, "coalition"),
        ({"noise": -1}, "noise"),
        ({"change": 0}, "change"),
        ({"readings": 0}, "readings"),
    ],
)
def test_bad_input_is_refused_by_its_name(options, text):
    with pytest.raises(gs.InvalidInput, match=text):
        gs.privacy("cycle:6", 1.0, **options)


def test_the_plot_shows_finite_views_only():
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = gs.privacy("cycle:6", 10.0, noise=1.0).plot()
    assert len(ax.lines) == 3  # this coalition, one neighbor, two neighbors
    plt.close(ax.figure)


def test_the_least_noise_for_a_target():
    """Without masks it is local noise, with large ones that of a center, and between them just enough."""
    net = gs.Network.grid(3, 4)
    target = {"epsilon": 1.0, "delta": 1e-5, "change": 2.0}
    local = 2.0 / mu_of(1.0, 1e-5)
    assert masks_for(net, **target).noise == pytest.approx(local)
    assert masks_for(net, masks=1e7, **target).noise == pytest.approx(local / math.sqrt(12), rel=1e-6)
    some = masks_for(net, masks=5.0, coalition=[5], **target)
    assert gs.privacy(net, some, coalition=[5], change=2.0).epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    assert masks_for(net) is None
    with pytest.raises(gs.InvalidInput, match="leave out epsilon or noise"):
        masks_for(net, noise=1.0, epsilon=1.0)
    with pytest.raises(gs.Unsupported, match="plans are for masks that do not change"):
        masks_for(net, masks=gs.Masks(1.0, refresh=True))


def test_without_masks_every_level_is_seen_through_its_own_noise():
    alone = gs.privacy("cycle:5", gs.Masks(0.0, noise=4.0))
    np.testing.assert_allclose(alone.mu_change, 1 / 4.0)
    assert alone.public == [(0,), (1,), (2,), (3,), (4,)]


def test_what_a_single_neighbor_knows_of_a_level():
    """The best unbiased estimate of the difference to the mean of the others, from what a coalition of one sees."""
    net = gs.Network.from_edges(6, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 5), (5, 3)])
    found = neighbor_uncertainty(net, gs.Masks(7.0))
    edges = incidence(net).toarray()
    honest = [0, 2, 3, 4, 5]  # agent 1 is curious, and agent 0 its neighbor
    inside = edges[np.ix_(honest, np.abs(edges[1]) == 0)]
    contrast = np.eye(5)[0] - 1 / 5
    assert found[0] ** 2 == pytest.approx(49 * contrast @ inside @ inside.T @ contrast)
