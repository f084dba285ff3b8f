"""The skip rule, by which methods without a ledger run under faults, against a plain loop over agents."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.networks import LINEAR
from tests.support.reference import coefficients_at

import gossamer as gs
from gossamer.engines.faulty import simulate_faulty
from gossamer.faults import Bursts, Crash, Delay, Faults, Join, Loss, Partition, Restart

ALL = Faults(
    Loss(0.2),
    Bursts(8, 0.3),
    Delay(1, 0.05),
    Crash(4, 30, notice=3),
    Restart(4, 40),
    Crash(9, 50),
    Join(2, 11),
    Partition(range(6), 80, 101),
)


def skipping(method, network, samples, faults, seed, trial):
    """(N, n) estimates after samples (T, N, n): every agent sums over the neighbors that it hears, by its own clock."""
    rounds, agents, _ = samples.shape
    links, c, gossip = (
        faults.bind(seed, trial),
        method.coefficients(network, rounds),
        network.gossip.toarray(),
    )
    states = [
        method.State(*(np.zeros(samples.shape[2]) for _ in method.State._fields)) for _ in range(agents)
    ]
    clock = [0] * agents
    for t, seen in enumerate(samples):
        awake = [i for i in range(agents) if links.alive(i, t)]
        told = {i: method.message(coefficients_at(c, clock[i]), states[i], seen[i]) for i in awake}
        for i in awake:
            heard = [j for j in network.neighbors(i).tolist() if links.heard(t, j, i)]
            mixed = sum((-gossip[i, j] * (told[i] - told[j]) for j in heard), np.zeros(samples.shape[2]))
            states[i] = method.step(coefficients_at(c, clock[i]), states[i], seen[i], mixed)
            clock[i] += 1
    last = [coefficients_at(c, max(clock[i] - 1, 0)) for i in range(agents)]
    return np.array([method.estimate(last[i], states[i]) for i in range(agents)])


@pytest.mark.slow
@pytest.mark.parametrize("faults", [Faults(Loss(0.3)), ALL], ids=["loss", "everything"])
@pytest.mark.parametrize("method", [gs.DSG(), gs.DMASG(), gs.DASG()], ids=lambda m: m.name)
def test_rivals_skip_the_neighbors_that_they_do_not_hear(method, faults):
    network, rounds = gs.Network.grid(3, 4), 140
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, (12, 2)))
    run = gs.simulate(method, network, obs, rounds, trials=3, seed=5, faults=faults)
    assert run.rule == "skip"
    samples = obs.sample(5, range(rounds), range(3))
    for trial in range(3):
        expected = skipping(method, network, samples[..., trial], faults, 5, trial)
        np.testing.assert_allclose(
            run.estimates[trial][run.alive], expected[run.alive], rtol=1e-12, atol=1e-12
        )
    assert np.isnan(run.estimates[:, ~run.alive]).all()


@pytest.mark.parametrize("name", sorted(LINEAR))
def test_every_method_runs_and_is_itself_where_nothing_is_lost(name):
    network = gs.Network.grid(3, 3)
    obs = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 9))
    plain = gs.simulate(name, network, obs, 30, trials=4, seed=3)
    quiet = simulate_faulty(name, network, obs, 30, 4, 3, rule="skip")
    np.testing.assert_allclose(quiet.estimates, plain.estimates, rtol=1e-12, atol=1e-11)
    lossy = gs.simulate(name, network, obs, 30, trials=4, seed=3, faults=Loss(0.3))
    assert np.any(lossy.estimates != quiet.estimates)
    assert lossy.rule == ("ledger" if name in ("sda", "anytime-sda", "ssda") else "skip")


def test_batches_go_by_the_clock_of_each_agent():
    network, method, faults = gs.Network.cycle(6), gs.SSTM(batch=tuple(range(1, 31))), Faults(Join(2, 10))
    obs = gs.Gaussian(np.zeros(6))
    run = gs.simulate(method, network, obs, 30, trials=2, seed=1, faults=faults)
    samples = obs.sample(1, range(30), range(2), batches=np.arange(1.0, 31))
    late = np.concatenate([np.zeros(10), np.arange(1.0, 21)])
    samples[:, 2] = obs.sample(1, range(30), range(2), range(2, 3), late)[:, 0]
    for trial in range(2):
        expected = skipping(method, network, samples[..., trial], faults, 1, trial)
        np.testing.assert_allclose(run.estimates[trial], expected, rtol=1e-12, atol=1e-12)


def test_what_the_ledger_gains():
    """One-way losses move the average that the rivals hold: their errors do not vanish with more rounds."""
    network, obs = gs.Network.path(10), gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 10))
    ledger, *rivals = (
        gs.simulate(name, network, obs, 1000, trials=20, faults=Loss(0.3))
        for name in ("anytime-sda", "dsg", "d-masg")
    )
    assert (ledger.rule, *(rival.rule for rival in rivals)) == ("ledger", "skip", "skip")
    for rival in rivals:
        assert rival.total_error > 100 * ledger.total_error


def test_the_note_says_what_a_reader_must_know():
    network, obs = gs.Network.path(5), gs.Gaussian(np.arange(5.0))
    assert gs.simulate("sda", network, obs, 30, 2, faults=Loss(0.1)).records()[0]["note"] == ""
    skip = "runs without a ledger: neighbors that are not heard are left out"
    assert gs.simulate("dsg", network, obs, 30, 2, faults=Loss(0.1)).records()[0]["note"] == skip
    found = gs.simulate("dsg", network, obs, [10, 30], 2, faults=Crash(2, 20)).records()
    alive = "4 of 5 agents alive since round 20; errors are against the average of their means"
    cut = "the crashes cut them into 2 parts, which cannot reach each other"
    assert [row["note"] for row in found] == [skip, f"{alive}; {cut}; {skip}"]


def test_notes_of_one_run_agree_on_who_is_alive():
    """After each number of rounds there are others, and every note says since when."""
    faults = gs.faults.Faults(Crash(3, 5), Crash(4, 15))
    run = gs.simulate(
        "anytime-sda", gs.Network.path(5), gs.Gaussian(np.arange(5.0)), [8, 10, 30, 40], 2, faults=faults
    )
    about = "errors are against the average of their means"
    assert (
        run.notes[0]
        == f"4 of 5 agents alive since round 5; {about}; the crashes cut them into 2 parts, which "
        "cannot reach each other"
    )
    assert run.notes[1:] == [f"3 of 5 agents alive since round 15; {about}"]
    assert run.since.tolist() == [5, 5, 15, 15]


@pytest.mark.parametrize("name", ["pairwise", "broadcast"])
def test_random_gossip_cannot_run_with_faults_and_says_why(name):
    with pytest.raises(gs.Unsupported, match=rf"{name} cannot run with faults: it wakes agents at random"):
        gs.simulate(name, gs.Network.path(4), gs.Gaussian(np.zeros(4)), 10, faults=Loss(0.1))
