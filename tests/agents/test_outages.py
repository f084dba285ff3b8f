"""What an outage does to a fleet in lockstep: how much returns, and after how many rounds all is as it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.support.lockstep import Lockstep
from tests.support.small_fleets import weights_of

from gossamer.methods import AnytimeSDA
from gossamer.methods.ledger import RETURN_RATE
from gossamer.networks import Network

LOW, HIGH = 10.0, 30.0
CLOSE = 1e-3 * (HIGH - LOW)


class Outages(Lockstep):
    """A fleet in which no message crosses the edges around `part`."""

    part: frozenset[int] = frozenset()

    def arrives(self, sender: int, receiver: int) -> bool:
        return (sender in self.part) == (receiver in self.part) and super().arrives(sender, receiver)

    def rounds_until(self, right: Callable[[int], float]) -> int:
        """Rounds until every agent is close to its right answer, and stays so for 50 rounds."""
        close = 0
        for k in range(1000):
            self.run(1)
            off = [abs(desk.estimate - right(i)) for i, desk in self.desks.items()]
            close = close + 1 if max(off) < CLOSE else 0
            if close == 50:
                return k - 48
        raise AssertionError("not within 1000 rounds")


def made(network: Network, high: set[int], loss: float, return_rate: float = RETURN_RATE) -> Outages:
    means = np.where(np.isin(np.arange(network.agents), list(high)), HIGH, LOW)
    method = AnytimeSDA("local")
    return Outages(network, means, method=method, loss=loss, death=0.2, seed=1, return_rate=return_rate)


def potential_flows(fleet: Lockstep) -> tuple[np.ndarray, np.ndarray]:
    """The flows of all edges, and the potential ones that have the same sum at every agent; both (N, N)."""
    n = fleet.network.agents
    weights, flows = np.zeros((n, n)), np.zeros((n, n))
    for i, desk in fleet.desks.items():
        for j, weight in weights_of(fleet.network, i).items():
            weights[i, j] = weight
            flows[i, j] = desk.ledger.flow(j)[desk.ledger.program.flow_register, 1]
    flows = (flows - flows.T) / 2  # lost messages leave the ends an update apart
    potential = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights) @ -flows.sum(axis=1)
    return flows, -weights * (potential[:, None] - potential[None, :])


@pytest.mark.slow
@pytest.mark.parametrize(("return_rate", "calm"), [(RETURN_RATE, True), (0.0, False)])
def test_a_death_returns_little_more_than_potential_flow(return_rate: float, calm: bool) -> None:
    """Each outage returns at most twice the largest potential flow, and no answer leaves the range of the data; if it
    returned at once, both would be wrong by far."""
    network = Network.grid(3, 4)
    fleet = made(network, {0, 3, 6, 9}, loss=0.4, return_rate=return_rate)
    fleet.run(300)
    random = np.random.default_rng(5)
    returned, told = [], []
    for _ in range(8):
        away = int(random.integers(network.agents))
        flows, potential = potential_flows(fleet)
        returned.append(np.abs(flows[:, away]).max() / np.abs(potential).max())
        desk = fleet.desks.pop(away)
        for back in (False, True):
            if back:
                fleet.desks[away] = desk
            for _ in range(40):
                fleet.run(1)
                told.extend(fleet.estimates())
    found = max(returned) <= 2.0 and min(told) >= LOW and max(told) <= HIGH
    assert found == calm, (max(returned), min(told), max(told))


@pytest.mark.slow
def test_after_how_many_rounds_an_outage_is_over() -> None:
    """The numbers of docs/reliability.md, to a tenth of a percent of the range of the data."""
    fleet = made(Network.cycle(5), {0, 3}, loss=0.2)
    fleet.run(400)
    desk = fleet.desks.pop(2)
    assert 200 < fleet.rounds_until(lambda i: fleet.average((2,))) < 350
    fleet.desks[2] = desk
    assert 150 < fleet.rounds_until(lambda i: fleet.average()) < 300
    fleet = made(Network.path(4), {0, 1}, loss=0.2)
    fleet.run(400)
    fleet.part = frozenset({0, 1})
    assert 300 < fleet.rounds_until(lambda i: HIGH if i < 2 else LOW) < 400
    fleet.part = frozenset()
    assert 20 < fleet.rounds_until(lambda i: fleet.average()) < 100


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("rounds", [40, 60, 200])
def test_an_unlink_makes_no_jump_beyond_the_fleets_own_mixing(rounds: int, loss: float) -> None:
    """Compared with the same fleet, and the same losses, without the unlink: once mixed, nothing moves."""
    network, means = Network.grid(2, 4), np.random.default_rng(1).integers(0, 80, 8) / 2
    unlinked, linked = (Lockstep(network, means, loss=loss, seed=4) for _ in range(2))
    for fleet in (unlinked, linked):
        fleet.run(rounds)
    off = float(np.abs(unlinked.estimates() - unlinked.average()).max())
    unlinked.desks[1].ledger.close(2)  # one end reads the roster first
    apart = []
    for _ in range(100):
        for fleet in (unlinked, linked):
            fleet.run(1)
        unlinked.desks[2].ledger.close(1)
        apart.append(np.abs(unlinked.estimates() - linked.estimates()).max())
    assert max(apart) < max(off, 1e-12)
    assert rounds < 200 or max(apart) < 1e-12
    np.testing.assert_array_equal(unlinked.desks[1].ledger.flow(2), -unlinked.desks[2].ledger.flow(1))
