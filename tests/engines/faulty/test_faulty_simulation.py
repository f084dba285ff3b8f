"""The edge ledger under faults, against agents that really send messages and against the plain simulation."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

import gossamer as gs
from gossamer.engines.faulty import simulate_faulty
from gossamer.engines.simulate import simulate
from gossamer.errors import InvalidInput, Unsupported
from gossamer.faults import Bursts, Crash, Delay, Faults, Join, Loss, Partition, Quiet, Restart
from gossamer.methods import SDA, SSDA, AnytimeSDA, tabulate
from gossamer.methods.ledger import SILENCE
from gossamer.networks import Network
from gossamer.observations import Bernoulli, Drifting, Gaussian, Uniform


def gaussian(agents, components=1, std=1.0, seed=0):
    return Gaussian(np.random.default_rng(seed).uniform(0, 10, (agents, components)), std)


# -- slow, obvious reference versions ------


def node_form(method, network, samples):
    """The method as its file says, with L itself; samples (rounds, N, n, trials)."""
    rounds = len(samples)
    c = method.coefficients(network, rounds)
    at = lambda t: type(c)(*(v if np.ndim(v) == 0 else v[t] for v in c))  # noqa: E731
    state = method.State(*[np.zeros_like(samples[0]) for _ in method.State._fields])
    for t, y in enumerate(samples):
        mixed = np.tensordot(network.gossip.toarray(), method.message(at(t), state, y), axes=1)
        state = method.step(at(t), state, y, mixed)
    return np.moveaxis(method.estimate(at(rounds - 1), state), 2, 0)


def told_by_agents(network, samples, faults, seed, trial, method):
    """AnytimeSDA by agents that really send each other messages, each with its own dictionary of ledgers."""
    links = faults.bind(seed, trial)
    eta, zeta = method.coefficients(network, 1)[2:4]
    window = method.window(network)
    agents = range(network.agents)
    weights = -network.gossip.toarray()
    near = {i: network.neighbors(i).tolist() for i in agents}
    mean, smooth, clock = (np.zeros(network.agents) for _ in range(3))
    ledger = {(i, j): (0.0, 0.0) for i in agents for j in near[i]}  # kept by i about its edge to j: x, y
    last, standing, since = dict.fromkeys(ledger), dict.fromkeys(ledger, "new"), dict.fromkeys(ledger, 0)
    echoed, returning = dict.fromkeys(ledger, False), dict.fromkeys(agents, 0.0)
    order = ("new", "compared", "dropped")
    for t, y in enumerate(samples):
        for event in faults.events:
            for i, j in ledger:
                if event.round == t and (event.what, event.agent) == ("drop", j):
                    returning[i], ledger[i, j] = returning[i] + ledger[i, j][0], (0.0, 0.0)
                    standing[i, j], echoed[i, j], since[i, j] = "dropped", False, t
                if event.round == t and (event.what, event.agent) == ("begin", i):
                    ledger[i, j], last[i, j], returning[i] = (0.0, 0.0), None, 0.0
                    standing[i, j], echoed[i, j], since[i, j] = "new", False, t
        theta = {}
        for i in agents:
            if links.alive(i, t):
                clock[i] += 1
                mean[i] += (y[i] - mean[i]) / clock[i]
                smooth[i] += max(1 / clock[i], min(1.0, 1 / window)) * (mean[i] - smooth[i])
                theta[i] = smooth[i] + sum(ledger[i, j][0] for j in near[i]) + returning[i]
        sent = {}
        for pair in ledger:
            echo = None if standing[pair] == "dropped" else last[pair]
            sent[pair] = theta.get(pair[0]), ledger[pair], echo, standing[pair]
        for i, j in sent:
            if links.heard(t, j, i):
                their_theta, their_ledger, echo, theirs = sent[j, i]
                x, before = ledger[i, j]
                newest = since[i, j] if echo is None else echo
                near_enough = newest >= since[i, j] and t - newest <= SILENCE
                echoed[i, j] |= echo is not None and echo >= since[i, j]
                mine = standing[i, j]
                if mine == "dropped" and echoed[i, j]:
                    mine = "compared"
                alone = not echoed[i, j] and not near_enough and mine != "dropped"
                if theirs == "dropped":
                    returning[i] += x
                    x = before = 0.0
                elif alone or (order.index(theirs), i) > (order.index(mine), j):
                    x, before = -their_ledger[0], -their_ledger[1]
                if near_enough and "dropped" not in (mine, theirs):
                    moved = x - eta * weights[i, j] * (theta[i] - their_theta)
                    x, before = moved + zeta * (moved - before), moved
                ledger[i, j], last[i, j] = (x, before), t
                standing[i, j] = "dropped" if mine == "dropped" != theirs else "compared"
        returning = {i: 0.98 * left if links.alive(i, t) else left for i, left in returning.items()}
    return np.array([smooth[i] + sum(ledger[i, j][0] for j in near[i]) + returning[i] for i in agents])


# -- the simulation ------


@pytest.mark.parametrize(
    "method",
    [
        SDA(),
        SDA(batch=4, burn_in=10),
        SDA(output="last"),
        AnytimeSDA(),
        AnytimeSDA(acceleration="chebyshev"),
        AnytimeSDA(acceleration="local"),
        AnytimeSDA(smoothing=0, gain=0.01),
        SSDA(samples=3),
    ],
)
def test_without_faults_the_ledger_is_the_method(method):
    network = Network.erdos_renyi(12, seed=3)
    observations = gaussian(12, components=2)
    result = simulate_faulty(method, network, observations, 61, trials=3, seed=5)
    batches = method.batches(network, 61)
    samples = observations.sample(5, range(61), range(3), batches=batches)
    np.testing.assert_allclose(result.estimates, node_form(method, network, samples), atol=1e-12, rtol=1e-12)
    assert result.alive.all()
    np.testing.assert_allclose(result.target, observations.mean.mean(axis=0))
    gaps = ((result.estimates - result.target) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(
        [result.total_error, result.stderr], [gaps.mean(), gaps.std(ddof=1) / np.sqrt(3)]
    )
    np.testing.assert_allclose(result.per_agent.sum(), result.total_error)


def test_without_faults_it_is_the_plain_simulation():
    network, observations = Network.path(9), gaussian(9, components=2)
    plain = simulate(AnytimeSDA(), network, observations, rounds=70, trials=20, seed=4)
    ledger = simulate_faulty(AnytimeSDA(), network, observations, rounds=70, trials=20, seed=4)
    np.testing.assert_allclose(ledger.estimates, plain.estimates, atol=1e-12)
    np.testing.assert_allclose(
        [ledger.total_error, ledger.stderr, *ledger.per_agent],
        [plain.total_error, plain.stderr, *plain.per_agent],
    )


@pytest.mark.slow
def test_the_compiled_rules_are_those_of_agents_that_send_messages():
    network = Network.grid(3, 4)
    observations = gaussian(12)
    faults = Faults(
        Loss(0.2),
        Bursts(8, 0.3),
        Delay(1, 0.05),
        Crash(4, 30, notice=3),
        Restart(4, 70),
        Crash(9, 50),
        Join(2, 11),
        Partition(range(6), 80, 101),
        Crash(7, 110),
        Restart(7, 113),
    )
    method = AnytimeSDA()
    result = simulate_faulty(method, network, observations, 140, trials=3, seed=5, faults=faults)
    samples = observations.sample(5, range(140), range(3))[:, :, 0]
    expected = [told_by_agents(network, samples[..., k], faults, 5, k, method) for k in range(3)]
    alive = np.arange(12) != 9
    np.testing.assert_array_equal(result.alive, alive)
    np.testing.assert_allclose(result.estimates[:, alive, 0], np.array(expected)[:, alive], atol=1e-12)
    assert np.isnan(result.estimates[:, 9]).all()
    np.testing.assert_allclose(result.target, observations.mean[alive].mean(axis=0))


@pytest.mark.parametrize("method", [AnytimeSDA(), SDA(output="last")])
def test_a_fleet_in_lock_step_gives_the_same_numbers_under_the_same_losses(method):
    from gossamer.agents.round.ledger import Ledger
    from gossamer.methods.ledger import ledger_program

    network, observations, rounds = Network.grid(3, 3), gaussian(9, components=2), 80
    faults = Faults(
        Loss(0.2),
        Bursts(8, 0.3),
        Delay(1, 0.05),
        Partition(range(4), 30, 45),
        *(Crash(4, 20), Restart(4, 40), Crash(2, 50, notice=3), Restart(2, 58)),  # declared dead, and back
        *(Crash(7, 60), Restart(7, 63)),  # back before anybody noticed
    )
    program = ledger_program(method, network, rounds)
    near = {i: {j: -network.gossip[i, j] for j in network.neighbors(i).tolist()} for i in range(9)}
    agents = [Ledger(program, i, near[i], 2) for i in range(9)]
    links = faults.bind(seed=3)
    for t, y in enumerate(observations.sample(3, range(rounds), range(1))[..., 0]):
        for event in faults.events:
            if event.round == t and event.what == "begin":  # with its observations and new edges
                i, saved = event.agent, replace(agents[event.agent].remember(), flows={})
                agents[i] = Ledger(program, i, near[i], 2, serial=10_000 * t, restored=saved)
            elif event.round == t and event.what == "drop":
                for j in near[event.agent]:
                    if links.alive(j, t):
                        agents[j].drop(event.agent)
        alive = [i for i in range(9) if links.alive(i, t)]
        for i in alive:
            agents[i].begin(y[i])
        sent = {(i, j): deepcopy(agents[i].tell(j)) for i in alive for j in near[i]}
        for i in alive:
            agents[i].finish({j: told for (j, k), told in sent.items() if k == i and links.heard(t, j, i)})
    result = simulate_faulty(method, network, observations, rounds, trials=1, seed=3, faults=faults)
    np.testing.assert_allclose(result.estimates[0], [agent.estimate for agent in agents], atol=1e-12)


@pytest.mark.parametrize("acceleration", ["local", "local-heavy-ball"])
def test_quiet_agents_in_lock_step_give_the_same_numbers(acceleration):
    from gossamer.agents.round.ledger import Ledger
    from gossamer.agents.round.quiet import SilenceRule as Rule
    from gossamer.agents.statistics.layout import Layout
    from gossamer.methods.ledger import ledger_program

    network, observations, rounds = Network.grid(3, 3), gaussian(9, components=2), 300
    method, faults = AnytimeSDA(acceleration), Faults(Loss(0.1), Quiet(1.0))

    class Plain(Rule):
        """By the standard error of a center instead of the agent's own."""

        def answer(self, value):
            return value

        def limit(self, value):
            return np.sqrt(observations.variance.sum(axis=0)) / 9 / np.sqrt(t + 1)

    program = ledger_program(method, network, rounds)
    near = {i: {j: -network.gossip[i, j] for j in network.neighbors(i).tolist()} for i in range(9)}
    agents = [Ledger(program, i, near[i], 2) for i in range(9)]
    rules = [Plain(Layout(2), 5) for _ in agents]
    links, sent = faults.bind(seed=3), 0
    known = {(i, j): np.empty(0) for i in range(9) for j in near[i]}  # what i heard last from j
    for t, y in enumerate(observations.sample(3, range(rounds), range(1))[..., 0]):
        told = {}
        for i, agent in enumerate(agents):
            agent.begin(y[i])
            messages = {(i, j): deepcopy(agent.tell(j)) for j in near[i]}
            value = np.frombuffer(next(iter(messages.values())).rows)[:2]
            if rules[i].speaks(t, value, [known[i, j] for j in near[i]]):
                told.update(messages)
        sent += len(told)
        for i, agent in enumerate(agents):
            heard = {j: m for (j, k), m in told.items() if k == i and links.heard(t, j, i)}
            known.update({(i, j): np.frombuffer(message.rows)[:2] for j, message in heard.items()})
            agent.finish(heard)
    result = simulate_faulty(method, network, observations, rounds, trials=1, seed=3, faults=faults)
    np.testing.assert_allclose(result.estimates[0], [agent.estimate for agent in agents], atol=1e-12)
    assert result.messages == sent < 0.7 * 24 * rounds


def test_quiet_agents_save_messages_and_still_agree():
    network, observations = Network.grid(4, 4), gaussian(16)
    plain = simulate_faulty(AnytimeSDA("local"), network, observations, 1500, 20, faults=Faults())
    quiet = simulate_faulty(AnytimeSDA("local"), network, observations, 1500, 20, faults=Faults(Quiet()))
    assert plain.messages == 48 * 1500
    assert plain.bytes == 8 * plain.messages
    assert quiet.messages < 0.75 * plain.messages
    assert "quiet: " in quiet.records()[0]["note"]
    gaps = quiet.estimates - plain.estimates
    assert np.sqrt((gaps**2).mean()) < 0.1 * np.sqrt(plain.centralized_limit / 16)
    still = gaussian(16, std=0.0)  # nothing is negligible without noise
    assert simulate_faulty(AnytimeSDA("local"), network, still, 400, 1, faults=Faults(Quiet())).mse < 1e-12


@pytest.mark.parametrize(
    ("method", "faults", "text"),
    [
        (gs.DSG(), Faults(Quiet()), "dsg cannot be quiet: without a ledger"),
        (AnytimeSDA(), Faults(Quiet(), Crash(2, 5)), "neither join nor crash; leave quiet out"),
    ],
)
def test_where_agents_cannot_be_quiet(method, faults, text):
    with pytest.raises(Unsupported, match=text):
        simulate_faulty(method, Network.cycle(6), gaussian(6), 50, 2, faults=faults)


def test_results_do_not_depend_on_the_number_of_trials_run_together():
    network, observations = Network.cycle(6), gaussian(6)
    faults = Faults(Loss(0.3), Bursts(5, 0.2), Join(2, 5))
    many = simulate_faulty(AnytimeSDA(), network, observations, 50, trials=70, seed=1, faults=faults)
    few = simulate_faulty(AnytimeSDA(), network, observations, 50, trials=3, seed=1, faults=faults)
    np.testing.assert_array_equal(many.estimates[:3], few.estimates)


@pytest.mark.slow
@pytest.mark.parametrize(
    "faults",
    [
        Faults(Loss(0.5)),
        Faults(Bursts(10, 0.3)),
        Faults(Bursts(10, 0.3, both=True)),
        Faults(Delay(1, 0.4)),
        Faults(Partition(range(8), 100, 300)),
        Faults(Join(3, 150), Crash(12, 100), Restart(12, 250)),
    ],
    ids=["loss", "bursts", "bursts both ways", "late", "partition", "join and restart"],
)
def test_every_agent_reaches_the_average_whatever_is_lost(faults):
    # Without noise the ledger's limit is the average itself, for any pattern of losses.
    network, observations = Network.grid(4, 4), gaussian(16, std=0.0)
    result = simulate_faulty(AnytimeSDA(), network, observations, 1500, trials=5, seed=2, faults=faults)
    np.testing.assert_allclose(result.estimates, observations.mean.mean(), atol=1e-5)


def test_a_crash_returns_the_flow_and_survivors_reach_their_own_average():
    network, observations = Network.grid(4, 4), gaussian(16, std=0.0)
    faults = Faults(Loss(0.3), Crash(5, 400), Crash(10, 600))
    result = simulate_faulty(AnytimeSDA(), network, observations, 1200, trials=5, seed=2, faults=faults)
    survivors = np.delete(np.arange(16), [5, 10])
    average = observations.mean[survivors].mean()
    assert abs(average - observations.mean.mean()) > 0.05
    np.testing.assert_allclose(result.estimates[:, survivors, 0], average, atol=1e-5)
    np.testing.assert_allclose(result.target, average)
    # Nobody notices: the edges of the dead stand still, and their flows are missing from the average.
    silent = Faults(Loss(0.3), Crash(5, 400, notice=10_000), Crash(10, 600, notice=10_000))
    ignored = simulate_faulty(AnytimeSDA(), network, observations, 1200, trials=5, seed=2, faults=silent)
    assert np.abs(ignored.estimates[:, survivors, 0] - average).max() > 0.01


def test_flows_cancel_so_that_the_average_is_conserved():
    network, observations = Network.cycle(10), gaussian(10)
    # After losses, five quiet rounds bring the two ends of every edge together again.
    faults = Faults(Partition([[k] for k in range(9)], 40, 60), Crash(3, 20), Restart(3, 30))
    arguments = AnytimeSDA(smoothing=0), network, observations, 65
    result = simulate_faulty(*arguments, trials=4, faults=faults, return_rate=0.0)
    samples = observations.sample(0, range(65), range(4))
    own = samples.mean(axis=0)
    present = [t for t in range(65) if not 20 <= t < 30]
    own[3] = samples[present, 3].mean(axis=0)
    np.testing.assert_allclose(result.estimates.sum(axis=1)[:, 0], own.sum(axis=0)[0], rtol=1e-12)
    # While one-way losses go on it is conserved only up to the last round's difference; but never by much.
    lossy = simulate_faulty(AnytimeSDA(smoothing=0), network, observations, 400, 4, 0, Faults(Loss(0.3)))
    own = observations.sample(0, range(400), range(4)).mean(axis=0)
    assert np.abs(lossy.estimates.sum(axis=1)[:, 0] - own.sum(axis=0)[0]).max() < 0.1


@pytest.mark.slow
def test_skipping_the_missing_neighbor_drifts_away():
    network, observations = Network.path(10), gaussian(10)
    faults = Faults(Loss(0.1))
    arguments = (AnytimeSDA(), network, observations, 2000, 20, 0, faults)
    ledger = simulate_faulty(*arguments)
    naive = simulate_faulty(*arguments, rule="skip")
    assert ledger.total_error < 0.002
    assert naive.total_error > 1000 * ledger.total_error
    # Without losses there is nothing to skip.
    whole = simulate_faulty(*arguments[:6], rule="skip")
    np.testing.assert_allclose(whole.estimates, simulate_faulty(*arguments[:6]).estimates, atol=1e-12)


@pytest.mark.slow
def test_loss_costs_little_on_a_well_connected_network():
    network, observations = Network.erdos_renyi(30, seed=1), gaussian(30)
    limit = 1 / 600  # a center's error, summed over the agents: sigma^2 / T
    quiet = simulate_faulty(AnytimeSDA(), network, observations, 600, trials=200, seed=3)
    lossy = simulate_faulty(AnytimeSDA(), network, observations, 600, 200, 3, Faults(Loss(0.5)))
    assert abs(quiet.total_error / limit - 1) < 4 * quiet.stderr / limit + 0.03
    # The same observations in both, so the difference is that of the losses alone.
    extra = (lossy.errors - quiet.errors) / limit
    assert -0.01 < extra.mean() < 0.1 + 4 * extra.std() / np.sqrt(200)


def test_a_late_joiner_counts_by_its_own_clock():
    network, observations = Network.complete(5), gaussian(5, std=0.0)
    faults = Faults(Join(2, 40))
    # SSDA takes its samples in the agent's own round 0, which is round 40 for the one that joins then.
    certain = Uniform(observations.mean, observations.mean)
    ssda = simulate_faulty(SSDA(), network, certain, 200, 1, 0, faults)
    np.testing.assert_allclose(ssda.estimates[0, :, 0], observations.mean.mean(), atol=1e-9)
    before = simulate_faulty(AnytimeSDA(), network, observations, 40, 1, 0, faults)
    np.testing.assert_allclose(before.estimates[0, [0, 1, 3, 4], 0], before.target[0], atol=1e-6)
    assert before.alive.tolist() == [True, True, False, True, True]


def test_other_observations_and_drift():
    network = Network.complete(4)
    coins = simulate_faulty(
        AnytimeSDA(), network, Bernoulli([0.1, 0.2, 0.3, 0.4]), 400, 50, 0, Faults(Loss(0.2))
    )
    assert abs(coins.estimates.mean() - 0.25) < 4 * np.sqrt(0.2 / (4 * 400 * 50))
    drifting = Drifting(gaussian(4, std=0.0), [0.0, 0.1, 0.0, 0.1])
    result = simulate_faulty(
        AnytimeSDA(gain=1.0, smoothing=0), network, drifting, 101, 1, 0, Faults(Crash(1, 50))
    )
    np.testing.assert_allclose(result.target, drifting.mean[[0, 2, 3]].mean() + 10 / 3)


def test_a_ledger_that_a_method_does_not_have_is_refused():
    network = Network.path(4)
    for name in ("dsg", "d-asg", "sstm_sc", "msda", "linear"):
        with pytest.raises(Unsupported, match=r"no edge ledger, .* with a ledger are sda, anytime-sda, ssda"):
            simulate_faulty(name, network, gaussian(4), 10, 1, 0, Faults(Loss(0.1)), rule="ledger")
    assert tabulate(AnytimeSDA(), network, 5).ledger == (2, 3)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"faults": Faults(Crash(6, 2))}, InvalidInput, "Crash names agent 6, but the agents are 0..5"),
        ({"observations": gaussian(4)}, InvalidInput, "network has 6 agents, but the observations have 4"),
        ({"rounds": [10, 0]}, InvalidInput, "rounds must be at least 1, got 0"),
        ({"rule": "hope"}, InvalidInput, "rule must be 'ledger' or 'skip', got 'hope'"),
        ({"trials": 0}, InvalidInput, "trials must be a whole number of at least 1, got 0"),
        (
            {"faults": Faults(Join(2, 12)), "method": SDA()},
            Unsupported,
            "agent 2 takes part in 8 of 20 rounds",
        ),
        ({"faults": Faults(*[Crash(k, 3) for k in range(6)])}, InvalidInput, "no agent is alive"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused(changes, error, text):
    arguments = {
        "method": AnytimeSDA(),
        "network": Network.path(6),
        "observations": gaussian(6),
        "rounds": 20,
        "trials": 2,
        **changes,
    }
    with pytest.raises(error, match=text):
        simulate_faulty(**arguments)


def test_a_single_fault_will_do(small):
    net, obs = small
    a = gs.simulate("anytime-sda", net, obs, 30, trials=4, faults=gs.faults.Loss(0.2))
    b = gs.simulate("anytime-sda", net, obs, 30, trials=4, faults=gs.faults.Faults(gs.faults.Loss(0.2)))
    np.testing.assert_array_equal(a.estimates, b.estimates)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "network", "most"),
    [
        (0.5, Network.path(100), 2.0),
        (0.5, Network.star(100), 1.25),
        (0.5, Network.erdos_renyi(100, seed=1), 1.03),
        (0.7, Network.grid(10, 10), 1.2),
        (0.7, Network.random_geometric(100, seed=1), 1.2),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_local_form_bears_heavy_loss(loss, network, most):
    """Times a perfect center that sees the same samples, after 2976 rounds."""
    obs, rounds, trials = gaussian(100), 2976, 10
    run = simulate(
        AnytimeSDA("local"), network, obs, rounds, trials, seed=5, faults=Loss(loss), keep="errors"
    )
    parts = [obs.sample(5, range(rounds), range(b, b + 1)).mean() for b in range(trials)]
    center = 100 * np.mean((np.array(parts) - obs.mean.mean()) ** 2)
    assert run.total_error < most * center


@pytest.mark.slow
@pytest.mark.parametrize("name", ["path:60", "cycle:60", "star:60", "grid:8x8"])
@pytest.mark.parametrize("loss", [0.003, 0.03, 0.3])
def test_the_local_heavy_ball_is_not_behind_the_local_form(name, loss):
    """Without loss it is ahead of it; at 30% both take the same step on almost all edges."""
    network = Network.named(name)
    arguments = network, gaussian(network.agents), [100, 300, 1000], 16
    both = [
        simulate(AnytimeSDA(form), *arguments, seed=3, faults=Loss(loss), keep="errors").total_error
        for form in ("local-heavy-ball", "local")
    ]
    assert np.all(both[0] < 1.1 * both[1])


def test_a_form_for_reliable_networks_says_that_it_is_one():
    net, obs = gs.Network.cycle(6), gs.Gaussian(np.arange(6.0))
    lost, crashed = gs.faults.Loss(0.2), gs.faults.Crash(5, 10)
    for form, faults, warned in (
        ("heavy-ball", lost, True),
        ("heavy-ball", crashed, False),
        ("local", lost, False),
        ("local-heavy-ball", lost, False),
    ):
        run = gs.simulate(gs.AnytimeSDA(form), net, obs, 20, trials=2, faults=faults)
        assert ("may diverge where messages are lost" in run.records()[0]["note"]) == warned
