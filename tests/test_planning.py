"""Plans are the smallest number of rounds, and tuning never makes it worse."""

from __future__ import annotations

import json
import re

import networkx as nx
import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.exact import Sweep
from gossamer.errors import Unsupported
from gossamer.methods import SDA
from tests.support.brute_force import CASES, FOUND, brute_force, random_case


@pytest.mark.parametrize("method", [gs.AnytimeSDA(), gs.AnytimeSDA("chebyshev"), gs.SDA(), gs.DSG()])
def test_plans_are_the_smallest_number_of_rounds(method):
    net, obs = gs.Network.grid(4, 4), gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 16))
    plan = gs.plan(net, obs, target=0.02, method=method)
    errors = gs.exact(method, net, obs, list(range(1, plan.rounds + 1))).total_error
    assert errors[-1] <= 0.02
    assert np.all(errors[:-1] > 0.02)
    assert plan.total_error == pytest.approx(errors[-1])
    assert plan.samples == plan.rounds
    assert plan.messages == plan.rounds * 2 * 24
    assert plan.bytes == plan.messages * 8


@pytest.mark.slow
def test_a_plan_is_patient_with_slow_networks():
    n = 600
    net = gs.Network.path(n)
    obs = gs.Gaussian(np.cos(np.pi * (np.arange(n) + 0.5) / n), 0.01)  # the slowest mode alone
    late = gs.exact("dsg", net, obs, [4096, 30000]).total_error
    assert late[1] < 0.98 * late[0]
    plan = gs.plan(net, obs, float(late[1]), "dsg", most_rounds=40_000)
    assert 29000 < plan.rounds <= 30000


def test_plan_and_exact_agree_at_the_boundary():
    net, obs = gs.Network.grid(3, 3), gs.Gaussian(np.arange(9.0))
    assert gs.plan(net, obs, gs.exact("anytime-sda", net, obs, 100).total_error).rounds == 100


@pytest.mark.slow
def test_plans_compare_methods_targets_and_networks():
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 36))
    networks = [gs.Network.path(36), gs.Network.grid(6, 6)]
    plans = gs.plan(networks, obs, [0.1, 0.01], ["sda", "anytime-sda", "ssda"])
    assert len(plans) == 12
    best = plans.cheapest(by="messages")
    assert best.method.name == "anytime-sda"
    hopeless = [p for p in plans if p.method.name == "ssda"]
    assert all(not p.reached and "does not reach" in p.note for p in hopeless)
    with pytest.raises(gs.InvalidInput, match=r"ssda does not reach an error of 0.01"):
        gs.plan(networks[0], obs, 0.01, "ssda")
    with pytest.raises(gs.InvalidInput, match="target must be a finite number above 0"):
        gs.plan(networks[0], obs, 0.0)


@pytest.mark.slow
def test_sample_complexity_slopes():
    """Exact SDA on the path: 549 -> 995 samples for eps .015 -> .0055, slope -.59; -.88 for small eps."""
    net = gs.Network.path(100)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 1, 100))
    large = [0.015, 0.0122, 0.01, 0.0082, 0.0067, 0.0055]
    rounds = [gs.plan(net, obs, e, SDA()).rounds for e in large]
    assert rounds[0] == pytest.approx(549, rel=0.02)
    assert rounds[-1] == pytest.approx(995, rel=0.02)
    assert np.polyfit(np.log(large), np.log(rounds), 1)[0] == pytest.approx(-0.59, abs=0.01)


@pytest.mark.parametrize("method", [gs.SDA(), gs.AnytimeSDA()])
def test_targets_that_are_met_for_a_while_are_found(method):
    """With drift the error falls and rises again: doubling would step over the numbers of rounds that do."""
    net = gs.Network.grid(4, 4)
    obs = gs.Drifting(gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 16)), 0.002)
    errors = gs.exact(method, net, obs, range(1, 1001)).total_error
    least = int(np.argmin(errors))
    assert errors[-1] > 2 * errors[least]
    target = float(errors[least]) * 1.0001
    assert gs.plan(net, obs, target, method).rounds == int(np.flatnonzero(errors <= target)[0]) + 1
    (missed,) = gs.plan(net, obs, [0.99 * errors[least]], method, most_rounds=20_000)
    assert not missed.reached
    assert "in the network's average alone" in missed.note or "the least is" in missed.note


@pytest.mark.slow
def test_what_is_out_of_reach_is_proven():
    net, obs = gs.Network.grid(4, 4), gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 16))
    plans = gs.plan(net, obs, [1e-9], ["sda", "anytime-sda", "dsg", "ssda"])
    assert all("no estimate that is linear in them does" in plan.note for plan in plans)
    (steady,) = gs.plan(net, obs, [0.5], "d-asg")
    assert "so its variance never falls" in steady.note
    (examined,) = gs.plan(net, obs, [0.05], "d-masg", most_rounds=100)
    assert "the least is" in examined.note
    (left,) = gs.plan(net, obs, [1e-9], "d-masg", most_rounds=600)
    assert "up to 512, nor after 600 (the least is" in left.note
    assert left.note.endswith("; others up to 600 were not examined")
    (lost,) = gs.plan(net, obs, [0.05], gs.SDA(step_size=5.0))
    assert "diverges" in lost.note


@pytest.mark.parametrize("method", ["sda", "anytime-sda"])
def test_a_missed_target_is_told_the_least_error_and_what_holds_beyond(method, monkeypatch):
    monkeypatch.setattr("gossamer.planning.SWEPT", 0)
    monkeypatch.setattr("gossamer.planning.BLOCK", 256 if method == "sda" else 5000)
    net, obs = gs.Network.star(6), gs.Drifting(gs.Gaussian(np.arange(6.0)), 0.002)
    errors = gs.exact(method, net, obs, range(2, 4097)).total_error
    least = int(np.argmin(errors))
    (missed,) = gs.plan(net, obs, [0.999 * errors[least]], method, most_rounds=20_000)
    assert missed.total_error == pytest.approx(errors[least], rel=1e-9)
    about = (
        f"the least is {errors[least]:.3g}, after {least + 2} rounds, and after more rounds its error in the"
    )
    found = re.search(
        rf"up to (\d+) {about} network's average alone, .*, is at least ([\d.e+]+);", missed.note
    )
    examined, floor = int(found[1]), float(found[2])
    later = np.linspace(examined + 1, 20_000, 9).astype(int)
    assert np.all(
        gs.exact(method, net, obs, later).total_error >= 0.99 * floor
    )  # it is shown with three digits


@pytest.mark.parametrize("method", ["sda", "anytime-sda", "d-masg"])
@pytest.mark.slow
def test_moving_means_are_followed_for_a_while_only(method, monkeypatch):
    monkeypatch.setattr("gossamer.planning.MOVING", 100)
    monkeypatch.setattr("gossamer.planning.ONE_BY_ONE", 14)
    asked = []

    def swinging(t):
        asked.append(t)
        return np.arange(6.0) + np.sin(t / 50)

    net, obs = gs.Network.star(6), gs.Moving(gs.Gaussian(np.zeros(6)), swinging)
    every, beyond = (14, [28, 56, 100]) if method == "d-masg" else (100, [])
    errors = {t: gs.exact(method, net, obs, t).total_error for t in [*range(2, every + 1), *beyond]}
    best = min(errors, key=errors.get)
    (missed,) = gs.plan(net, obs, [1e-9], method)
    assert max(asked) < 100
    tried = ", nor after 28, 56, 100" if beyond else ""
    about = f"up to {every}{tried} (the least is {errors[best]:.3g}, after {best})"
    assert missed.note.endswith(f"{about}; others up to 1000000 were not examined")
    assert missed.total_error == pytest.approx(errors[best], rel=1e-9)
    assert gs.plan(net, obs, errors[best], method).rounds <= 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [gs.AnytimeSDA(), gs.AnytimeSDA("heavy-ball"), gs.AnytimeSDA("local"), gs.DSG()],
    ids=lambda m: m.label,
)
def test_rounds_that_the_average_rules_out_are_skipped(method, monkeypatch):
    swept = []
    block = Sweep.block

    def counted(sweep, rounds):
        swept.append(rounds if len(sweep.over.nodes) > 1 else 0)
        return block(sweep, rounds)

    monkeypatch.setattr(Sweep, "block", counted)
    net, obs = gs.Network.grid(3, 4), gs.Gaussian(np.arange(12.0))
    targets = [0.02, 5e-5, 3e-5, 1e-5]
    arguments = net, obs, targets, method
    whole = gs.plan(*arguments, most_rounds=40_000)
    assert sum(swept) >= 40_000  # the last target is missed, and its least error needs all rounds
    swept.clear()
    leaping = gs.plan(net, obs, targets[:-1], method, most_rounds=40_000)
    assert sum(swept) < 15_000 < leaping[1].rounds
    monkeypatch.setattr("gossamer.planning.LEAP", 10**9)
    for plans in (whole, leaping):
        for plan, expected in zip(plans, gs.plan(*arguments, most_rounds=40_000), strict=False):
            assert (plan.rounds, plan.total_error, plan.note) == (
                expected.rounds,
                expected.total_error,
                expected.note,
            )


def test_plans_beyond_what_is_examined_say_so(monkeypatch):
    net, obs = gs.Network.grid(4, 4), gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 16))
    expected = gs.plan(net, obs, 0.001)
    assert expected.note == ""
    monkeypatch.setattr("gossamer.planning.SWEPT", 0)
    found = gs.plan(net, obs, 0.001)
    assert found.rounds == expected.rounds
    assert found.note == (
        f"every number of rounds up to 256 and the 64 before {found.rounds} were examined, not all between them"
    )


def test_a_plan_begins_where_the_method_does():
    net, obs = gs.Network.grid(3, 3), gs.Gaussian(np.arange(9.0))
    found = gs.plan(net, obs, 0.5, gs.SDA(burn_in=30))
    assert found.rounds > 30
    assert gs.exact(found.method, net, obs, found.rounds).total_error <= 0.5


def test_networks_of_different_sizes_have_observations_of_their_own():
    networks = [gs.Network.path(5), gs.Network.cycle(9)]
    plans = gs.plan(networks, lambda net: gs.Gaussian(np.arange(float(net.agents))), 0.1)
    alone = [gs.plan(net, gs.Gaussian(np.arange(float(net.agents))), 0.1) for net in networks]
    assert [plan.rounds for plan in plans] == [plan.rounds for plan in alone]
    with pytest.raises(gs.InvalidInput, match="observations must be streams"):
        gs.plan(networks, lambda net: 3, 0.1)


def test_bad_targets_and_networks_are_refused_clearly():
    net, obs = gs.Network.grid(3, 3), gs.Gaussian(np.arange(9.0))
    with pytest.raises(gs.InvalidInput, match="target must be a finite number above 0, got 'a'"):
        gs.plan(net, obs, [1, "a"])
    for bad in ("a", None, []):
        with pytest.raises(gs.InvalidInput, match="target must be a number or several"):
            gs.plan(net, obs, bad)
    with pytest.raises(gs.InvalidInput, match="network must be a network or several, got 3"):
        gs.plan(3, obs, 0.1)
    with pytest.raises(gs.InvalidInput, match="one stream per agent"):
        gs.plan(gs.Network.path(4), obs, 0.1)


@pytest.mark.slow
def test_tuning_does_not_stop_in_a_local_minimum():
    net = gs.Network.from_networkx(nx.barbell_graph(8, 5))
    for mean in (np.random.default_rng(0).uniform(0, 10, 21), np.arange(21.0)):
        obs = gs.Gaussian(mean)
        best = gs.exact(gs.SDA(burn_in=0, momentum=0.975), net, obs, 60).total_error
        assert gs.tune("sda", net, obs, 60).total_error < best


@pytest.mark.slow
@pytest.mark.parametrize("seed", CASES)
def test_tuning_is_not_beaten_by_brute_force(seed):
    """Where means average to almost nothing, `tune` moves them, and the search at zero is no rival."""
    tuned = gs.tune(*random_case(seed))
    if tuned.moved:
        assert tuned.total_error < tuned.before
    else:
        assert tuned.total_error <= 1.01 * json.loads(FOUND.read_text())[str(seed)]


@pytest.mark.slow
def test_brute_force_finds_what_is_noted():
    found = json.loads(FOUND.read_text())
    assert brute_force(*random_case(2)) == pytest.approx(found["2"], rel=1e-4)


@pytest.mark.slow
def test_tuning_never_makes_it_worse_and_helps_the_paper():
    net, obs = gs.Network.path(30), gs.Gaussian(np.random.default_rng(0).uniform(0, 1, 30))
    tuned = gs.tune(gs.SDA(), net, obs, 300)
    assert tuned.total_error < 0.75 * tuned.before
    assert gs.exact(tuned.method, net, obs, 300).total_error == pytest.approx(tuned.total_error)
    only = gs.tune("sda", net, obs, 300, ["burn_in"])
    assert only.method.step_size is None
    assert only.total_error <= only.before
    everything = gs.exact("sda", net, obs, 300).total_error
    for burn_in in range(0, 300, 7):
        assert only.total_error <= gs.exact(gs.SDA(burn_in=burn_in), net, obs, 300).total_error * (1 + 1e-3)
    assert only.before == pytest.approx(everything)
    by_name = gs.tune("sda", net, obs, 300, "burn_in")
    assert by_name.method == only.method
    with pytest.raises(gs.Unsupported, match="dsg has no parameters to tune"):
        gs.tune("dsg", net, obs, 300)
    with pytest.raises(gs.Unsupported, match="no parameter 'smoothing'"):
        gs.tune("sda", net, obs, 300, ["smoothing"])


@pytest.mark.slow
def test_tuning_is_not_fooled_by_means_where_methods_start():
    """At zero means a step of nothing is best on paper; what is chosen instead serves any means."""
    net, method = gs.Network.cycle(10), gs.DASG(momentum=0.8)
    tuned = gs.tune(method, net, gs.Gaussian(np.zeros(10)), 40, "step_size")
    assert tuned.method.step_size > 1e-4
    assert "farther away" in tuned.notes[0]
    elsewhere = gs.exact(tuned.method, net, gs.Gaussian(np.full(10, 20.0)), 40)
    assert elsewhere.total_error < 1.5 * tuned.total_error
    assert gs.tune(method, net, gs.Gaussian(np.arange(10.0)), 40, "step_size").notes == []
    assert (
        gs.tune("sda", net, gs.Gaussian(np.zeros(10)), 40, "burn_in").notes == []
    )  # SDA forgets where it starts


def test_plans_with_masks_and_noise_are_the_smallest_number_of_rounds():
    net, obs = gs.Network.grid(3, 4), gs.Gaussian(np.linspace(0, 5, 12))
    for privacy in ({"masks": 100.0}, {"masks": 100.0, "epsilon": 1.0, "change": 0.02}, {"noise": 0.1}):
        plan = gs.plan(net, obs, 0.05, **privacy)
        errors = gs.exact(
            plan.method, net, obs, list(range(1, plan.rounds + 1)), masks=plan.masks
        ).total_error
        assert errors[-1] <= 0.05
        assert np.all(errors[:-1] > 0.05)
        assert plan.rounds > gs.plan(net, obs, 0.05).rounds
        assert plan.records()[0]["noise"] == plan.masks.noise
    with pytest.raises(gs.InvalidInput, match="no estimate that is linear in them does"):
        gs.plan(net, obs, 0.05, noise=0.3)  # 0.3^2 of the error stays for ever


def test_a_plan_for_quiet_agents_keeps_its_target_with_fewer_messages() -> None:
    plan = gs.plan("path:12", gs.Gaussian(np.arange(12.0)), 0.01, gs.AnytimeSDA("local-heavy-ball"))
    quiet = plan.quiet(0.3, trials=16)
    assert quiet.rounds is not None
    assert plan.rounds is not None
    assert quiet.total_error <= 0.01
    assert quiet.rounds > plan.rounds  # silence adds to the error
    every = 22 * quiet.rounds
    assert quiet.messages < 0.98 * every
    assert quiet.bytes == 8 * quiet.messages
    assert (
        f"{quiet.messages / every:.0%} of the messages after {quiet.rounds} rounds (16 trials)" in quiet.note
    )
    run = gs.simulate(
        plan.method, "path:12", plan.observations, quiet.rounds, 400, seed=1, faults=gs.faults.Quiet(0.3)
    )
    assert run.total_error - 3 * run.stderr < 0.01
    assert plan.quiet(1e-9, trials=2).rounds == plan.rounds


def test_where_a_plan_cannot_be_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = gs.plan("path:4", gs.Gaussian(np.arange(4.0)), 0.1, masks=10.0)
    with pytest.raises(Unsupported, match="agents with masks always speak"):
        masked.quiet()
    with pytest.raises(Unsupported, match="cannot be quiet: without a ledger"):
        gs.plan("complete:4", gs.Gaussian(np.arange(4.0)), 1.0, gs.DSG()).quiet()
    slow = gs.plan("path:12", gs.Gaussian(np.arange(12.0)), 0.01, gs.AnytimeSDA("local-heavy-ball"))
    monkeypatch.setattr("gossamer.plans._LENGTHENED", 1)
    missed = slow.quiet(100.0, trials=4)
    assert not missed.reached
    assert missed.messages == np.inf
    assert "misses the target" in missed.note
