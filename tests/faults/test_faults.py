"""Faults: what they are, which messages they stop, and who is alive when."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gossamer as gs
from gossamer.errors import InvalidInput
from gossamer.faults import (
    Bursts,
    Crash,
    Delay,
    Faults,
    Join,
    Loss,
    Partition,
    Quiet,
    Restart,
    from_json,
    parse,
)
from gossamer.faults.kinds import KINDS

LINKS = np.array([(a, b) for a in range(6) for b in range(6) if a != b])


def test_one_answer_per_message_and_for_a_whole_simulation_agree():
    faults = Faults(
        Loss(0.2),
        Loss(0.6, 13, 33),
        Loss(0.5, 50),
        Bursts(10, 0.17),
        Bursts(1.2, 0.4),
        Bursts(4, 0.3, both=True),
        Delay(2, 0.1),
        Crash(3, 20),
        Restart(3, 40),
        Join(1, 7),
        Partition([0, 1], 10, 30),
        Partition(edges=[(4, 5)], start=2, stop=50),
    )
    trials = range(3, 6)
    together = faults.heard(5, 6, LINKS, 61, trials)
    links = [faults.bind(5, trial) for trial in trials]
    single = [[[link.heard(t, a, b) for link in links] for a, b in LINKS.tolist()] for t in range(61)]
    np.testing.assert_array_equal(together, single)
    assert 0.05 < together.mean() < 0.5


def test_rates_are_those_asked_for():
    trials, rounds = range(50), 2000
    draws = len(LINKS) * len(trials) * rounds
    for probability in (0.0, 0.3, 1.0):
        lost = 1 - Faults(Loss(probability)).heard(1, 6, LINKS, rounds, trials).mean()
        assert abs(lost - probability) <= 4 * np.sqrt(probability * (1 - probability) / draws)
    late = 1 - Faults(Delay(3, 0.25)).heard(1, 6, LINKS, rounds, trials).mean()
    assert abs(late - 0.25) < 4 * np.sqrt(0.25 * 0.75 / draws)
    assert Faults(Delay(0, 1.0)).heard(1, 6, LINKS, 10, trials).all()


@pytest.mark.parametrize(("length", "fraction"), [(10, 0.17), (10, 0.5), (1.2, 0.4), (1, 0.4)])
def test_bursts_have_the_length_and_the_share_asked_for(length, fraction):
    bad = ~Faults(Bursts(length, fraction)).heard(2, 6, LINKS, 4000, range(20))
    # A chain of memory m has an effective number of independent rounds of T (1 - m)/(1 + m).
    memory = 1 - 1 / length - fraction / (length * (1 - fraction))
    error = np.sqrt(fraction * (1 - fraction) * (1 + memory) / (1 - memory) / bad.size)
    assert abs(bad.mean() - fraction) < 4 * error
    assert abs(bad[0].mean() - fraction) < 4 * np.sqrt(fraction * (1 - fraction) / bad[0].size)
    ends = bad[:-1] & ~bad[1:]
    stays = 1 - ends.sum() / bad[:-1].sum()
    assert abs(stays - (1 - 1 / length)) < 4 * np.sqrt(max(stays * (1 - stays), 1e-12) / bad[:-1].sum())


def test_both_directions_share_a_burst_only_where_asked():
    there, back = np.array([[0, 1]]), np.array([[1, 0]])
    for both in (False, True):
        faults = Faults(Bursts(10, 0.3, both=both))
        same = faults.heard(0, 6, there, 1000, range(9)) == faults.heard(0, 6, back, 1000, range(9))
        assert same.all() == both


def test_decisions_depend_on_seed_trial_and_link_alone():
    faults = Faults(Loss(0.5), Bursts(5, 0.3))
    whole = faults.heard(7, 6, LINKS, 100, range(40))
    np.testing.assert_array_equal(whole[:, 3:5, 10:17], faults.heard(7, 6, LINKS[3:5], 100, range(10, 17)))
    np.testing.assert_array_equal(whole[:30], faults.heard(7, 6, LINKS, 30, range(40)))
    assert np.any(whole != faults.heard(8, 6, LINKS, 100, range(40)))
    # Each fault of a set has dice of its own: two of 1/2 leave a quarter.
    two = Faults(Loss(0.5), Loss(0.5)).heard(7, 6, LINKS, 100, range(40))
    assert abs(two.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / two.size)


def test_loss_within_a_window_leaves_other_rounds_alone():
    heard = Faults(Loss(1.0, 5, 11)).heard(1, 6, LINKS, 20, range(3))
    assert [t for t in range(20) if not heard[t].any()] == list(range(5, 11))
    assert heard[:5].all()
    assert heard[11:].all()
    # A loss that begins later changes nothing before, and the first one keeps its dice.
    before, after = Faults(Loss(0.4)), Faults(Loss(0.4, 0, 30), Loss(0.7, 30))
    np.testing.assert_array_equal(*(each.heard(3, 6, LINKS, 60, range(4))[:30] for each in (before, after)))
    late = Faults(Loss(0.7, 30), Delay(1, 0.5)).bind(3)
    assert not any(late.lost(t, 0, 1) for t in range(30))
    assert any(late.lost(t, 0, 1) for t in range(30, 60))
    assert any(late.delay(t, 0, 1) for t in range(30))


def test_late_and_lost_are_told_apart():
    links = Faults(Loss(0.3), Delay(2, 0.5)).bind(0)
    only_late = only_lost = 0
    for t in range(200):
        late, lost = links.delay(t, 0, 1), links.lost(t, 0, 1)
        assert late in (0, 2)
        assert links.heard(t, 0, 1) == (not lost and late == 0)
        only_late += late > 0 and not lost
        only_lost += lost and late == 0
    assert only_late > 20
    assert only_lost > 10


def test_who_is_alive_when():
    faults = Faults(Restart(2, 9), Crash(2, 5, notice=2), Join(1, 4), Crash(1, 8, notice=3), Crash(0, 3))
    assert [t for t in range(12) if faults.alive(2, t)] == [0, 1, 2, 3, 4, 9, 10, 11]
    assert [t for t in range(12) if faults.alive(1, t)] == [4, 5, 6, 7]
    assert faults.alive(5, 3)
    assert [(event.round, event.what, event.agent) for event in faults.events] == [
        (3, "end", 0),
        (4, "begin", 1),
        (5, "end", 2),
        (7, "drop", 2),
        (8, "end", 1),
        (8, "drop", 0),
        (9, "begin", 2),
        (11, "drop", 1),
    ]
    # Back before anybody noticed: nobody drops the edge.
    unnoticed = Faults(Crash(0, 3, notice=5), Restart(0, 6))
    assert [event.what for event in unnoticed.events] == ["end", "begin"]


def test_partitions_separate_groups_and_edges():
    groups = Partition([[0, 1], [2]], 5, 8)
    assert groups.separates(0, 2)
    assert groups.separates(2, 3)
    assert not groups.separates(0, 1)
    assert not groups.separates(3, 4)
    assert [t for t in range(10) if groups.active(t)] == [5, 6, 7]
    cut = Partition(edges=[(4, 3)])
    assert cut.separates(3, 4)
    assert cut.separates(4, 3)
    assert not cut.separates(3, 5)
    assert cut.active(10**9)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Loss(1.5), "^probability must be a probability from 0 to 1, got 1.5"),
        (lambda: Loss(float("nan")), "^probability must be a probability from 0 to 1, got nan"),
        (lambda: Loss(0.5, -1), "^start must be a whole number of at least 0, got -1"),
        (lambda: Loss(0.5, 4, 4), "^stop must be a whole number of at least 5, got 4"),
        (lambda: Bursts(0.5, 0.1), "^mean_length must be a finite number of at least 1, got 0.5"),
        (lambda: Bursts(2, 0.9), "bursts of mean length 2 cannot fill 0.9 .* mean_length must be at least 9"),
        (lambda: Bursts(9, 1.0), "mean_length must be at least inf"),
        (lambda: Delay(-1), "^rounds must be a whole number of at least 0, got -1"),
        (lambda: Crash(-1, 5), "^agent must be a whole number of at least 0, got -1"),
        (lambda: Crash(1, 2.5), "^round must be a whole number of at least 0, got 2.5"),
        (lambda: Join(1, 0), "^round must be a whole number of at least 1, got 0"),
        (lambda: Partition([1], 5, 5), "^stop must be a whole number of at least 6, got 5"),
        (lambda: Partition([1, 2.5], 0), "^agent must be a whole number of at least 0, got 2.5"),
        (lambda: Partition([], 0, 5), "Partition needs a group of agents or edges to cut, got neither"),
        (lambda: Partition([[1, 2], [2]], 0, 5), "groups of a Partition must not share agents"),
        (lambda: Faults(Restart(3, 5)), "agent 3 cannot restart there: its history is Restart at 5"),
        (lambda: Faults(Crash(3, 5), Crash(3, 9)), "agent 3 cannot crash there"),
        (lambda: Faults(Crash(3, 5), Restart(3, 5)), "agent 3 cannot restart there"),
        (lambda: Faults(Crash(3, 5), Join(3, 9)), "agent 3 cannot join there"),
        (lambda: Faults(0.3), "Faults takes Loss, Bursts, .* got 0.3"),
        (lambda: Faults(*[Loss(0.1)] * 16), "at most 15 random link faults can be combined, got 16"),
        (lambda: Faults(Crash(9, 5)).check(9), "Crash names agent 9, but the agents are 0..8"),
        (lambda: Faults(Partition(range(50))).check(9), "Partition names agent 49, but the agents are 0..8"),
        (
            lambda: Faults(Partition(edges=[(0, 2)])).check(3, np.array([(0, 1), (1, 2)])),
            "Partition cuts the edge 0-2, which the network does not have; the neighbors of agent 0 are 1$",
        ),
        (lambda: Faults(Partition([0, 1])).check(2, np.array([(0, 1)])), "cuts no edge of the network"),
        (lambda: Faults().heard(0, 3, np.array([(0, 3)]), 5, range(1)), r"links must join agents 0\.\.2"),
        (lambda: Faults().heard(0, 3, np.array([(-1, 2)]), 5, range(1)), "got numbers from -1 to 2"),
    ],
)
def test_impossible_faults_are_refused(make, text):
    with pytest.raises(InvalidInput, match=text):
        make()


def test_whole_numbers_of_any_kind_are_kept_as_integers():
    fault = Crash(np.int64(3), 5.0)
    assert (fault.agent, fault.round, type(fault.agent), type(fault.round)) == (3, 5, int, int)
    assert Partition([1.0, 2], 0).groups == (frozenset({1, 2}),)


ALL_KINDS = [
    Loss(0.3),
    Loss(0.1234567890123, 5, 90),
    Loss(1.0, 7),
    Bursts(10, 0.17),
    Bursts(2.5, 0.2, both=True),
    Delay(2, 0.1),
    Delay(3),
    Crash(17, 500),
    Crash(17, 500, notice=9),
    Restart(17, 800),
    Join(5, 100),
    Partition([3, 1, 2], 200, 1200),
    Partition([[0, 1], [4]], 5),
    Partition(edges=[(12, 3), (0, 1)], stop=9),
    Partition([[0, 1], [2]], 1, 9, edges=[(3, 4)]),
    Quiet(),
    Quiet(0.25),
]


def test_every_kind_is_the_same_after_its_text_its_json_and_its_python():
    assert {type(fault) for fault in ALL_KINDS} == set(KINDS.values())
    for fault in ALL_KINDS:
        assert parse(str(fault)) == fault
        assert from_json(json.loads(json.dumps(fault.to_json()))) == fault
        assert eval(repr(fault)) == fault
    assert [str(fault) for fault in ALL_KINDS[:4]] == [
        "loss=0.3",
        "loss=0.1234567890123@5-90",
        "loss=1@7-",
        "burst=10,0.17",
    ]
    assert repr(ALL_KINDS[8]) == "Crash(17, 500, notice=9)"
    assert repr(ALL_KINDS[11]) == "Partition(groups=[1, 2, 3], start=200, stop=1200)"


def test_unknown_kinds_and_fields_are_refused_in_words():
    with pytest.raises(InvalidInput, match=r"the kind of a fault must be .*loss.*, got 'flood'"):
        parse("flood=3")
    with pytest.raises(InvalidInput, match="crash takes agent, round, notice, got 'who'"):
        from_json({"kind": "crash", "agent": 1, "round": 2, "who": 3})
    with pytest.raises(InvalidInput, match="crash needs agent, round, but round is missing"):
        from_json({"kind": "crash", "agent": 1})


def test_a_list_of_faults_is_accepted_wherever_a_fault_is():
    net, obs = gs.Network.cycle(6), gs.Gaussian(np.arange(6.0))
    several = [Loss(0.3), Crash(3, 50)]
    runs = [
        gs.simulate("anytime-sda", net, obs, 60, 3, faults=given) for given in (several, Faults(*several))
    ]
    assert runs[0].total_error == runs[1].total_error
    assert runs[0].total_error != gs.simulate("anytime-sda", net, obs, 60, 3, faults=Loss(0.3)).total_error
    with pytest.raises(InvalidInput, match=r"Faults takes Loss, .*Quiet, got 0\.3"):
        gs.simulate("anytime-sda", net, obs, 60, 3, faults=[0.3])
