"""While a fleet mixes after a change, agents say so, and the standard errors they report cover it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.lockstep import PACE, Desk, Lockstep

from gossamer.agents.round.batching import Batcher
from gossamer.agents.statistics.layout import Answers, Layout
from gossamer.agents.statistics.mixing import Mixing, combined, settled
from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import RETURN_RATE
from gossamer.networks import Network

STUDENT = 2.306
"""A 95% interval has this many standard errors at each side, with 8 replicates."""


class Watched(Lockstep):
    """A fleet in lockstep that observes with noise, and reports as agents do. Agents can be away for a while."""

    def __init__(self, network: Network, means: np.ndarray, loss: float) -> None:
        super().__init__(
            network,
            means,
            method=AnytimeSDA("local"),
            loss=loss,
            death=0.1,  # five rounds
            replicates=8,
            return_rate=RETURN_RATE,
            seed=1,
        )
        self.noise = np.random.default_rng(2)
        self.batchers = {i: Batcher(self.layout, seed=i) for i in self.desks}
        self.mixing = {i: Mixing(self.layout, RETURN_RATE) for i in self.desks}

    def _step(self, desk: Desk) -> None:
        desk.now = max(desk.now, self._round * PACE)
        seen = [np.array([self.means[desk.id] + self.noise.standard_normal()])]
        ledger = desk.ledger
        batch = self.batchers[desk.id].batch(seen, ledger.mean, ledger.samples, ledger.age)
        desk.conversation.step(batch.observation, batch.samples, batch.weight)
        self.mixing[desk.id].note(ledger.age, ledger.estimate)

    def held(self) -> float:
        """What the fleet holds: the means of the agents there, and what is left of the flows from those away."""
        total = np.zeros(2)
        for i, desk in self.desks.items():
            ledger = desk.ledger
            total += [1.0, self.means[i]]
            total += ledger.returning[:2]
            for j in desk.conversation.peers.keys() - self.desks.keys():
                total += ledger.flow(j)[ledger.program.flow_register, :2]
        return float(total[1] / total[0])

    def report(self, i: int) -> tuple[float, float, bool]:
        """Estimate, standard error and `settled` of an agent, as its snapshot has them."""
        desk = self.desks[i]
        answers = self.layout.read(desk.ledger.estimate)
        near = [peer.value for peer in desk.conversation.peers.values() if peer.used and not peer.dead]
        noise, mixing = (
            answers.standard_error,
            self.mixing[i].error(answers, desk.ledger.returning, near),
        )
        return (
            float(answers.mean[0]),
            float(combined(noise, mixing)[0]),
            settled(answers, noise, mixing),
        )


@pytest.mark.slow
def test_intervals_cover_what_the_fleet_holds() -> None:
    """200 outages, short and long: intervals have the average of those there, and of what is left of those away."""
    n = 8
    fleet = Watched(Network.grid(2, 4), np.where(np.arange(n) % 3 == 0, 30.0, 10.0), loss=0.1)
    fleet.run(500)
    reports = [fleet.report(i) for i in fleet.desks]
    assert sum(quiet for _, _, quiet in reports) >= n - 1
    alone = np.median([error for _, error, _ in reports])
    random = np.random.default_rng(3)
    hits, errors, calm = [], [], []
    for outage in range(200):
        away = int(random.integers(n))
        desk = fleet.desks.pop(away)
        longer = 6 if outage % 10 == 0 else 1
        for rounds, back in ((12, False), (8 * longer, False), (5, True), (15 * longer, True)):
            if back:
                fleet.desks[away] = desk
            fleet.run(rounds)
            right = fleet.held()
            for i in fleet.desks:
                estimate, error, quiet = fleet.report(i)
                hits.append(abs(estimate - right) <= STUDENT * error)
                errors.append(error)
                calm.append(quiet)
    assert np.mean(hits) > 0.95
    assert np.mean(calm) < 0.1  # nobody claims to be settled meanwhile
    assert np.median(errors) > 3 * alone
    fleet.run(900)  # all are back, and what was on its way has returned: it is the average of all again
    assert fleet.held() == pytest.approx(fleet.average(), abs=1e-3)
    now = [fleet.report(i) for i in fleet.desks]
    assert sum(quiet for _, _, quiet in now) >= n - 1
    assert np.mean([abs(e - fleet.average()) <= STUDENT * error for e, error, _ in now]) >= 0.75


def test_what_counts_as_mixing() -> None:
    layout = Layout(1, replicates=2)

    def answers(value: float) -> Answers:
        return layout.read(np.array([1.0, value, 0.01, 0.01]))

    mixing, nothing = Mixing(layout, RETURN_RATE), np.zeros(4)
    now = answers(5.0)
    assert mixing.error(now, nothing, []) == [0.0]
    assert mixing.error(now, nothing, [answers(5.5).vector, answers(4.9).vector]) == pytest.approx([0.5])
    assert mixing.error(now, np.array([0.0, -2.0, 0.0, 0.0]), []) == pytest.approx([2.0])
    for age in range(100):
        mixing.note(age, answers(0.03 * age).vector)
    assert mixing.error(answers(0.03 * 99), nothing, [])[0] == pytest.approx(0.03 * 49)
    noise = now.standard_error
    assert settled(now, noise, np.array([0.005]))
    assert not settled(now, noise, np.array([0.05]))
    assert settled(now, np.zeros(1), np.array([1e-6]))  # sensors without noise
    assert not settled(now, np.zeros(1), np.array([1e-4]))
    assert combined(noise, np.array([0.05]))[0] == pytest.approx(np.hypot(0.01, 0.05))
    assert np.isnan(mixing.error(layout.read(np.zeros(4)), nothing, [])).all()
