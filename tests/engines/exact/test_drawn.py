"""Exact errors over random exchanges, against all outcomes on tiny networks and against simulation on larger ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.exact.drawn import DropoutDraw, LossDraw, MatchingDraw, PairwiseDraw
from gossamer.methods import tabulate
from gossamer.networks import ChangingNetwork, Network

KITE = Network.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
PATH = Network.path(3)


def laplacian(agents, weighted):
    found = np.zeros((agents, agents))
    for (i, j), weight in weighted:
        d = np.zeros(agents)
        d[i], d[j] = 1.0, -1.0
        found += weight * np.outer(d, d)
    return found


def pairwise(net):
    return [(1 / len(net.edges), laplacian(net.agents, [(e, 0.5)])) for e in net.edges.tolist()]


def broadcast(net):
    outcomes = []
    for i in range(net.agents):
        matrix = np.zeros((net.agents, net.agents))
        for a, b in net.edges.tolist():
            if i in (a, b):
                j = a + b - i
                matrix[j, j], matrix[j, i] = 0.5, -0.5
        outcomes.append((1 / net.agents, matrix))
    return outcomes


def lossy(net, probability):
    links = [(i, j) for a, b in net.edges.tolist() for i, j in ((a, b), (b, a))]
    for arrived in product((False, True), repeat=len(links)):
        matrix = np.zeros((net.agents, net.agents))
        for i, j in np.array(links)[list(arrived)].tolist():
            weight = -net.gossip[i, j]
            matrix[i, i] += weight
            matrix[i, j] -= weight
        heard = sum(arrived)
        yield probability ** (len(links) - heard) * (1 - probability) ** heard, matrix


def dropped(net, alive):
    for there in product((False, True), repeat=len(net.edges)):
        edges = net.edges[list(there)]
        degree = np.bincount(edges.ravel(), minlength=net.agents)
        weighted = [((i, j), 1 / (1 + max(degree[i], degree[j]))) for i, j in edges.tolist()]
        chance = alive ** sum(there) * (1 - alive) ** (len(there) - sum(there))
        yield chance, laplacian(net.agents, weighted)


def matched(agents):
    def pairings(free):
        if len(free) < 2:
            yield []
            return
        if len(free) % 2:
            for alone in free:
                yield from pairings([i for i in free if i != alone])
            return
        for other in free[1:]:
            for rest in pairings([i for i in free[1:] if i != other]):
                yield [(free[0], other), *rest]

    found = [laplacian(agents, [(pair, 0.5) for pair in pairs]) for pairs in pairings(list(range(agents)))]
    return [(1 / len(found), matrix) for matrix in found]


DRAWS = {
    "pairwise": (PairwiseDraw(KITE), pairwise(KITE)),
    "loss": (LossDraw(KITE, 0.3), list(lossy(KITE, 0.3))),
    "dropout": (DropoutDraw(4, KITE.edges, 0.6), list(dropped(KITE, 0.6))),
    "sparse dropout": (
        DropoutDraw(6, Network.grid(2, 3).edges, 0.4),
        list(dropped(Network.grid(2, 3), 0.4)),
    ),
    **{f"matching of {n}": (MatchingDraw(n), matched(n)) for n in (2, 3, 4, 5, 6, 7)},
}


@pytest.mark.parametrize("kind", DRAWS)
def test_moments_are_sums_over_all_outcomes(kind):
    draw, outcomes = DRAWS[kind]
    agents = draw.mean.shape[0]
    second = np.random.default_rng(0).standard_normal((agents, agents))
    assert np.allclose(draw.mean.toarray(), sum(p * matrix for p, matrix in outcomes), atol=1e-14)
    expected = sum(p * matrix @ second @ matrix.T for p, matrix in outcomes)
    assert np.allclose(draw.moments(second), expected, atol=1e-12)


def over_all_histories(method, net, obs, rounds, outcomes):
    """The expected error as the sum over all sequences of draws."""
    table = tabulate(method, net, rounds)
    total = 0.0
    for history in product(outcomes, repeat=rounds):
        chance = np.prod([p for p, _ in history])
        response = np.zeros(
            (rounds, net.agents, table.registers, net.agents)
        )  # of a unit in each observation
        for t, (_, matrix) in enumerate(history):
            row = table.round(t)
            given = np.zeros((rounds, net.agents, net.agents))
            given[t] = np.eye(net.agents)
            state = np.moveaxis(response, 2, 0)
            mixed = row.message(state, given) @ matrix.T
            response = np.moveaxis(row.step(state, given, mixed), 0, 2)
        weights = row.estimate(np.moveaxis(response, 2, 0))  # (T, N of the observation, N)
        means = np.einsum("tja,tjn->an", weights, obs.means(range(rounds)))
        noise = np.einsum("tja,t,j->", weights**2, table.noise_scale**2, obs.variance.sum(axis=1))
        total += chance * (((means - obs.target(rounds)) ** 2).sum() + noise)
    return total


STREAMS = gs.Gaussian([[1.0, 0.0], [2.0, -1.0], [4.0, 3.0]], std=[[1.0, 2.0], [0.5, 1.0], [2.0, 0.1]])


@pytest.mark.parametrize(
    ("method", "faults", "outcomes"),
    [
        ("pairwise", None, pairwise(PATH)),
        ("broadcast", None, broadcast(PATH)),
        ("accelerated-gossip", None, pairwise(PATH)),
        ("dsg", gs.faults.Loss(0.4), list(lossy(PATH, 0.4))),
        ("d-masg", gs.faults.Loss(0.4), list(lossy(PATH, 0.4))),
    ],
)
def test_errors_are_sums_over_all_histories(method, faults, outcomes):
    method = gs.methods.resolve(method)
    found = gs.exact(method, PATH, STREAMS, [1, 2], faults=faults)
    expected = [over_all_histories(method, PATH, STREAMS, t, outcomes) for t in (1, 2)]
    assert np.allclose(found.total_error, expected, rtol=1e-12)
    assert np.allclose(found.per_agent.sum(axis=1), found.total_error, rtol=1e-12)


def test_without_loss_nothing_changes():
    calm = gs.exact("dsg", KITE, gs.Gaussian(np.arange(4.0)), [5, 50])
    drawn = gs.exact("dsg", KITE, gs.Gaussian(np.arange(4.0)), [5, 50], faults=gs.faults.Loss(0.0))
    assert np.allclose(drawn.bias, calm.bias, rtol=1e-10)
    assert np.allclose(drawn.variance, calm.variance, rtol=1e-12)
    assert drawn.messages.tolist() == calm.messages.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "faults"), [("pairwise", None), ("accelerated-gossip", None), ("dsg", gs.faults.Loss(0.3))]
)
def test_an_average_far_from_zero_costs_no_digits(method, faults):
    near, far = (
        gs.exact(method, KITE, gs.Gaussian(shift + np.arange(4.0)), [20, 300], faults=faults)
        for shift in (0.0, 1e6)
    )
    assert np.allclose(far.bias, near.bias, rtol=1e-6, atol=1e-18)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pairwise", "broadcast", "accelerated-gossip"])
def test_random_gossip_is_as_simulated(method):
    net, obs = Network.grid(3, 4), gs.Gaussian(np.arange(12.0), std=2.0)
    run = gs.simulate(method, net, obs, [30, 200], trials=2000, seed=1)
    found = gs.exact(method, net, obs, [30, 200])
    assert np.all(np.abs(run.total_error - found.total_error) < 4 * run.stderr)


@pytest.mark.slow
def test_loss_is_as_simulated():
    net, obs = Network.grid(3, 4), gs.Gaussian(np.arange(12.0), std=2.0)
    run = gs.simulate("dsg", net, obs, [30, 200], trials=1000, seed=1, faults=gs.faults.Loss(0.2))
    found = gs.exact("dsg", net, obs, [30, 200], faults=gs.faults.Loss(0.2))
    assert np.all(np.abs(run.total_error - found.total_error) < 4 * run.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        lambda seed: ChangingNetwork.matchings(7, seed),
        lambda seed: ChangingNetwork.dropout("grid:3x3", 0.5, seed),
    ],
)
def test_drawn_contacts_are_as_simulated_over_many_seeds(network):
    """The contacts of one seed are the same in all trials, so each seed is one sample of them."""
    agents = network(0).agents
    obs = gs.Gaussian(np.arange(float(agents)))
    errors = [gs.exact("dsg", network(seed), obs, 12).total_error for seed in range(60)]
    found = gs.exact("dsg", network(0), obs, 12, drawn=True)
    assert abs(np.mean(errors) - found.total_error) < 4 * np.std(errors, ddof=1) / np.sqrt(60)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: gs.exact("pairwise", "cycle:501", gs.Gaussian(np.zeros(501)), 5),
            "at most 500 agents, got 501; simulate",
        ),
        (
            lambda: gs.exact(
                "anytime-sda", "cycle:5", gs.Gaussian(np.zeros(5)), 5, faults=gs.faults.Loss(0.1)
            ),
            "anytime-sda keeps a ledger on every edge",
        ),
        (
            lambda: gs.exact("dsg", "cycle:5", gs.Gaussian(np.zeros(5)), 5, faults=gs.faults.Crash(1, 3)),
            r"simulate it with gs.simulate\(..., faults=...\)",
        ),
        (
            lambda: gs.exact("dsg", "mobile:9", gs.Gaussian(np.zeros(9)), 5, drawn=True),
            "are for matchings and dropout without faults",
        ),
        (
            lambda: gs.exact("pairwise", "matchings:6", gs.Gaussian(np.zeros(6)), 5),
            "pairwise cannot run with faults or on changing networks",
        ),
    ],
)
def test_what_cannot_be_computed_is_said(call, says):
    with pytest.raises(gs.Unsupported, match=says):
        call()
