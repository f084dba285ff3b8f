"""Wrong input: the words for what people really try, and no bare exception whatever they try."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import networkx as nx
import numpy as np
import pytest
import scipy.sparse

import gossamer as gs
from gossamer.applications import problems
from gossamer.engines.exact import weights

NET = gs.Network.path(4)
OBS = gs.Gaussian(np.zeros(4))
P = np.eye(3)
REWARDS = np.zeros((4, 3))
POLICY = gs.PolicyEvaluation(NET, P, REWARDS, 0.9)


@dataclass(frozen=True)
class NoState(gs.Method):
    name: ClassVar[str] = "no-state"

    def coefficients(self, network, rounds):
        return ()

    message = step = estimate = staticmethod(lambda *all: 0.0)


@dataclass(frozen=True)
class NoCoefficients(NoState):
    class State(NamedTuple):
        x: Any


@dataclass(frozen=True)
class NumberNeeded(NoCoefficients):
    gain: float = 0.5

    class Coefficients(NamedTuple):
        gain: Any

    def coefficients(self, network, rounds):
        return self.Coefficients(self.gain)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gs.theory.k_star("a"), "'a' is not a network by name"),
        (lambda: gs.theory.k_star(0.5), "a condition number must be a finite number of at least 1, got 0.5"),
        (lambda: gs.theory.k_star(None), "network must be a network .* got None"),
        (lambda: gs.faults.Loss("a"), "probability must be a probability from 0 to 1, got 'a'"),
        (lambda: gs.faults.Bursts("a", 0.1), "mean_length must be a finite number of at least 1, got 'a'"),
        (lambda: gs.faults.Bursts(3, "a"), "fraction must be a probability"),
        (lambda: gs.faults.Delay("a"), "rounds must be a whole number of at least 0, got 'a'"),
        (lambda: gs.faults.Crash("a", 5), "agent must be a whole number of at least 0, got 'a'"),
        (lambda: gs.faults.Restart(1, "a"), "round must be a whole number of at least 1, got 'a'"),
        (lambda: gs.faults.Join(None, 5), "agent must be a whole number of at least 0, got None"),
        (lambda: gs.faults.Partition("ab"), "groups must be a list, got 'ab'"),
        (lambda: gs.faults.Partition(5), "groups must be a list, got 5"),
        (lambda: gs.faults.Partition(["ab", "cd"]), "every group must be a list, got 'ab'"),
        (lambda: gs.faults.Partition(edges=[(1, 2, 3)]), r"edges must be pairs of agents, got \[\[1, 2, 3\]\]"),
        (lambda: gs.faults.Partition(edges=5), "edges must be a list, got 5"),
        (lambda: gs.simulate("sda", NET, OBS, 5, faults=0.3), r"faults must be a fault such as .*Loss.*, got 0.3"),
        (lambda: gs.simulate("sda", NET, OBS, 5, faults="loss=0.3"), r"got 'loss=0.3'; gs.faults.parse reads"),
        (lambda: gs.Network(nx.path_graph(3)), r"a sparse gossip matrix, got Graph; gs.Network.of\("),
        (lambda: gs.Network(nx.to_scipy_sparse_array(nx.path_graph(3))), "rows must sum to zero, but row 1 sums to 2"),
        (lambda: gs.Network(scipy.sparse.csr_matrix((3, 3))), "this graph has 3 components"),
        (lambda: gs.faults.Faults("a"), "Faults takes Loss, .* got 'a'"),
        (lambda: gs.PolicyEvaluation(NET, P, REWARDS, "x"), "discount must be a finite number .* got 'x'"),
        (lambda: gs.PolicyEvaluation(NET, P[None], REWARDS, 0.9), r"P must be .* \(n, n\), got shape \(1, 3, 3\)"),
        (lambda: gs.PolicyEvaluation(NET, "x", REWARDS, 0.9), "P must be an array of numbers .* got 'x'"),
        (lambda: gs.PolicyEvaluation(NET, P, REWARDS * np.nan, 0.9), "rewards must be finite, got 12 NaN or infinite"),
        (lambda: gs.PolicyEvaluation(NET, P, REWARDS.T, 0.9), r"rewards must be .* \(4, 3\), got shape \(3, 4\)"),
        (lambda: gs.PolicyEvaluation.from_problem(NET, P), "a problem such as problems.garnet"),
        (lambda: problems.share_rewards("a", 3), "reward must be an array of numbers"),
        (lambda: problems.garnet("a"), "states must be a whole number of at least 1, got 'a'"),
        (lambda: problems.from_gymnasium(5), "environment must be the id of a Gymnasium environment"),
        (lambda: gs.LinearEstimation(NET, "a", [1.0]), "matrices must be a list, got 'a'"),
        (lambda: gs.LinearEstimation(NET, [np.eye(1)] * 4, ["a"]), "parameter must be an array of numbers"),
        (lambda: gs.LinearEstimation(NET, [np.eye(1)] * 4, [1.0], "a"), "covariance must be a finite number"),
        (lambda: gs.LinearEstimation.random(NET, "a"), "dimension must be a whole number of at least 1"),
        (lambda: gs.LinearEstimation.random(NET, noise=-1), "noise must be a finite number of at least 0"),
        (lambda: gs.LinearEstimation.random(NET).average_grams("sda", "a"), "rounds must be a whole number"),
        (lambda: gs.LinearEstimation.random(NET).online().observe(5), "measurements must be a list, got 5"),
        (lambda: gs.exact(NoState(), NET, OBS, 5), "NoState needs a NamedTuple class State, its registers, got None"),
        (lambda: gs.exact(NoCoefficients(), NET, OBS, 5), "needs a NamedTuple class Coefficients, what coefficients"),
        (lambda: gs.SSTM(accuracy=1e-200), "accuracy must be a finite number of at least 1e-100"),
        (lambda: gs.SSTM(spread=1e200), "spread must be a finite number of at least 0 and at most 1e.100"),
        (lambda: gs.DMASG(stages=10**6), "stages must be a whole number of at least 1 and at most 60"),
        (lambda: gs.exact("sda", NET, OBS, 1j), "rounds must be a whole number or a list of them"),
        (lambda: gs.exact("sda", NET, OBS, [[1, 2], [3]]), "rounds must be a whole number or a list of them"),
        (lambda: weights("sda", NET, "a"), "rounds must be a whole number of at least 1, got 'a'"),
        (lambda: gs.theory.theorem_1(NET, OBS, 10**30), "rounds must be a whole number at most 17179869184"),
        (lambda: gs.theory.centralized_limit("a", 5), "observations must be streams"),
        (lambda: gs.theory.network_limit(NET, OBS, 5, [1.0]), r"batches must be .* \(5,\), got shape \(1,\)"),
        (lambda: gs.Moving(OBS, 5), r"mean_at must be a function of the round, or an array .* \(T, N, n\), got 5"),
        (lambda: gs.Moving(OBS, []), r"mean_at must be a function of the round, or an array .* got \[\]"),
        (lambda: gs.Network.from_edges(3, [(0.5, 1), (1, 2)]), "pairs of agent numbers, which are whole, got 0.5"),
        (lambda: gs.Network.from_edges(3, [(np.inf, 1)]), "pairs of agent numbers, which are whole, got inf"),
        (lambda: gs.Network.from_gossip_matrix(None), "must be a square table of real numbers, .* got None"),
        (lambda: gs.tune("sda", NET, OBS, 50, []), "parameters must name at least one of burn_in, .* got none"),
        (lambda: gs.tune("dsg", NET, OBS, 50, []), "dsg has no parameters to tune"),
        (lambda: gs.exact("anytime-sda:gain=0.1", NET, OBS, 5), r"for others give gs.AnytimeSDA\(...\)"),
        (lambda: gs.Network.read(Path(__file__).parent), "it is a folder that gossamer partition did not write"),
        (lambda: gs.exact(NumberNeeded("abc"), NET, OBS, 5), "must give numbers, but gain is 'abc'; give the method n"),
        (lambda: POLICY.simulate("sda", 5, keep="iterates"), "keep must be True or False, got 'iterates'"),
        (lambda: gs.tune("sda", NET, OBS, 50, 0.5), "parameters must be a list, got 0.5"),
        (lambda: gs.Network.path(4).plot([[1, 2], [3]]), r"values must be one number for each of the 4 agents, got"),
        (lambda: gs.ChangingNetwork.from_contacts(None), "table must be a list, got None"),
        (lambda: gs.ChangingNetwork.from_contacts([1]), "every row of the table must be a list, got 1"),
        (lambda: gs.ChangingNetwork.matchings(10**30), "n must be a whole number of at least 2 and at most 268435456"),
        (lambda: gs.DirectedNetwork("a"), "a matrix of shares must be a square table of real numbers"),
        (lambda: gs.DirectedNetwork(np.ones((2, 2))), "columns of a matrix of shares must sum to 1"),
        (lambda: gs.privacy(NET, 10.0, coalition=None), "coalition must be a list, got None"),
        (lambda: gs.faults.parse(None), "text must be a text, got None"),
        (lambda: gs.applications.DSGD(step="a"), "step must be an array of numbers, got 'a'"),
        (lambda: gs.LinearEstimation.from_data({"x": 1}, [1.0], 1), "column .x. of X must hold one value per row"),
        (lambda: POLICY.centralized_error([[1, 2], [3]]), "rounds must be a whole number or a list of them"),
        (lambda: gs.compare("sda", NET, OBS, 5).column("err"), r"name must be .* got 'err'"),
        (lambda: gs.compare("sda", NET, OBS, 5, workers=10**30), "workers must be .* at most 10000, got 10+"),
        (lambda: gs.dashboard.Scenario.of_link(None), "link must be the whole address of a playground"),
        (lambda: gs.dashboard.Scenario("path:3", rounds=5).page(title=None), "title must be a text, got None"),
        (lambda: gs.dashboard.Scenario("path:3", rounds=5).page(losses=0.5), "losses must be a list, got 0.5"),
        (lambda: gs.dashboard.Scenario("path:3", rounds=5).save("/nowhere/x.html"), "x.html cannot be written"),
        (lambda: gs.agents.Fleet.read("/nowhere/fleet.toml"), "/nowhere/fleet.toml cannot be read"),
        (lambda: gs.theory.corollary_2(NET, rewards="a", variance=1, discount=0.5, rounds=9), "rewards must be"),
    ],
)  # fmt: skip
def test_the_message_says_what_was_required_and_what_came(call, text):
    with pytest.raises(gs.GossamerError, match=text):
        call()


def test_a_bound_says_that_it_is_not_for_means_that_drift():
    drifting = gs.Drifting(gs.Gaussian(np.zeros(4)), 0.1)
    for theorem in (gs.theory.theorem_1, gs.theory.theorem_2):
        bound = theorem(NET, drifting, 1000)
        assert not bound.applies
        assert bound.condition.endswith("and means that do not move, but these drift")
        assert "drift" not in theorem(NET, OBS, 1000).condition


def test_a_bound_says_that_it_is_not_for_means_that_move():
    moving = gs.Moving(OBS, lambda t: np.full(4, np.sin(t)))
    for theorem in (gs.theory.theorem_1, gs.theory.theorem_2):
        assert theorem(NET, moving, 1000).condition.endswith("and means that do not move, but these do")


@pytest.mark.parametrize(
    "rounds", [lambda: (t for t in (3, 5)), lambda: iter([3, 5]), lambda: {3: 0, 5: 0}.keys()]
)
def test_rounds_come_from_any_iterable(rounds):
    for call in (
        gs.exact,
        partial(gs.simulate, trials=2),
        partial(gs.simulate, trials=2, faults=gs.faults.Faults()),
    ):
        found = call("sda", NET, OBS, rounds())
        assert found.rounds.tolist() == [3, 5]
        np.testing.assert_array_equal(found.total_error, call("sda", NET, OBS, [3, 5]).total_error)
    assert gs.compare("sda", NET, OBS, rounds()).to_frame()["rounds"].tolist() == [3, 5]
    with pytest.raises(gs.InvalidInput, match=r"rounds must be a whole number or a list of them, got \[\]"):
        gs.exact("sda", NET, OBS, (t for t in ()))


def test_all_problems_have_one_default_discount():
    assert problems.DISCOUNT == 0.9
    given = problems.from_gymnasium("FrozenLake", discount=0.9)
    assert problems.from_gymnasium("FrozenLake") == given
    assert gs.PolicyEvaluation.from_problem(NET, given).discount == 0.9


def test_what_is_large_is_shown_in_a_line():
    process = problems.garnet(100)
    task = gs.PolicyEvaluation.from_problem(NET, process)
    sensors = gs.LinearEstimation.random(NET, 3, 2)
    lowest, highest = process.reward.min(), process.reward.max()
    rewards = f"rewards {lowest:.3g} to {highest:.3g}"
    assert repr(process) == f"MarkovRewardProcess(garnet:100x3, 100 states, {rewards})"
    assert repr(task) == "PolicyEvaluation(Network(path:4, 4 agents, 3 edges), 100 states, discount 0.9)"
    assert (
        repr(sensors)
        == "LinearEstimation(Network(path:4, 4 agents, 3 edges), 3 parameters, 2 measurements per agent)"
    )
    assert process == problems.garnet(100)
    assert process != problems.garnet(100, seed=1)


ANYTHING = [
    "a", None, float("nan"), -1, 10**30, 10**400, 2.5, [], [1, "a"], {}, object(), np.zeros((2, 2, 2)), 1e200, 1j, True,
    [[1, 2], [3]], b"x", [None], np.array("a"), float("inf"), -0.5, gs.SDA, 0, (), [np.nan] * 4, "x:y",
]  # fmt: skip

CALLS = {
    "path": (gs.Network.path, [4, "metropolis"]),
    "complete": (gs.Network.complete, [4]),
    "grid": (gs.Network.grid, [2, 2]),
    "torus": (gs.Network.torus, [3, 3]),
    "hypercube": (gs.Network.hypercube, [2]),
    "erdos_renyi": (gs.Network.erdos_renyi, [6, 0.9, 0]),
    "random_geometric": (gs.Network.random_geometric, [6, 0.9, 0]),
    "expander": (gs.Network.expander, [6, 3, 0]),
    "named": (gs.Network.named, ["path:3", "metropolis", 0]),
    "read": (gs.Network.read, ["nowhere", "metropolis"]),
    "of": (gs.Network.of, [NET]),
    "from_networkx": (gs.Network.from_networkx, [nx.path_graph(3), "metropolis"]),
    "from_edges": (gs.Network.from_edges, [3, [(0, 1), (1, 2)]]),
    "from_gossip_matrix": (gs.Network.from_gossip_matrix, [NET.gossip, nx.path_graph(4)]),
    "components": (gs.Network.components, [nx.path_graph(3)]),
    "Gaussian": (gs.Gaussian, [np.zeros((4, 2)), None, np.eye(2)]),
    "std": (gs.Gaussian, [np.zeros(4), 1.0]),
    "Bernoulli": (gs.Bernoulli, [[0.5] * 4]),
    "Uniform": (gs.Uniform, [[0.0] * 4, [1.0] * 4]),
    "StudentT": (gs.StudentT, [[0.0] * 4, 1.0, 5.0]),
    "Empirical": (gs.Empirical, [np.zeros((4, 3))]),
    "Drifting": (gs.Drifting, [OBS, 0.1]),
    "k_star": (gs.theory.k_star, [NET]),
    "theorem_1": (gs.theory.theorem_1, [NET, OBS, 10]),
    "theorem_2": (gs.theory.theorem_2, [NET, OBS, 10]),
    "theorem_3": (gs.theory.theorem_3, [NET, OBS, 10, 2.0]),
    "anytime_error": (gs.theory.anytime_error, [NET, OBS, 10, 2.0]),
    "tracking_error": (gs.theory.tracking_error, [NET, OBS, 0.1, 2.0]),
    "certificate": (gs.certificate, [NET, 10, "sda"]),
    "network_limit": (gs.theory.network_limit, [NET, OBS, 10, None]),
    "Loss": (gs.faults.Loss, [0.1]),
    "Bursts": (gs.faults.Bursts, [4, 0.1]),
    "Delay": (gs.faults.Delay, [1, 0.1]),
    "Crash": (gs.faults.Crash, [1, 2, 3]),
    "Partition": (gs.faults.Partition, [[0, 1], 0, 3, []]),
    "Faults": (gs.faults.Faults, [gs.faults.Loss(0.1)]),
    "PolicyEvaluation": (gs.PolicyEvaluation, [NET, P, REWARDS, 0.9, 1.0]),
    "ValueEstimation": (gs.ValueEstimation, [NET, P, 0.9, 0.5]),
    "Experience": (gs.applications.Experience.of, [[0, 1, 2], np.ones((2, 4))]),
    "garnet": (problems.garnet, [5, 2, 0]),
    "chain": (problems.chain, [5, 0.5]),
    "share_rewards": (problems.share_rewards, [np.zeros(3), 4, "perturb", 1.0, 0]),
    "LinearEstimation": (gs.LinearEstimation, [NET, [np.eye(2)] * 4, [0.0, 1.0], 1.0]),
    "LinearEstimation.random": (gs.LinearEstimation.random, [NET, 2, 2]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("function", "arguments"), CALLS.values(), ids=CALLS)
def test_only_our_own_errors_escape(function, arguments):
    if function != gs.Network.read:
        function(*arguments)
    for place in range(len(arguments)):
        for wrong in ANYTHING:
            given = [*arguments[:place], wrong, *arguments[place + 1 :]]
            with warnings.catch_warnings(), contextlib.suppress(gs.GossamerError):
                warnings.simplefilter("ignore")  # what overflows on the way to a refusal may say so
                function(*given)
