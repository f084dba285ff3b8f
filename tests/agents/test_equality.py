"""Without faults, agents compute what the simulation computes: every method, in process and over the network."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support import SUPPORT
from tests.support.node_form import NodeForm, Partners
from tests.support.own_methods import HeavyBall, NewestOnly
from tests.support.small_fleets import PLAINTEXT, fleet, hidden, make_certificates, weights_of
from tests.support.waiting import until
from tests.support.zenoh_router import MIDDLES

import gossamer as gs
from gossamer.agents.agent import Agent
from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.config.tables import ObservationsTable, RoundsTable
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.round.conversation import Conversation
from gossamer.agents.round.ledger import Ledger
from gossamer.agents.round.transport import Transport
from gossamer.agents.transports.memory import Memory
from gossamer.agents.transports.tls import TlsTransport
from gossamer.faults import Faults
from gossamer.methods import METHODS, tabulate
from gossamer.methods.ledger import ledger_program
from gossamer.methods.method import Method
from gossamer.numerics import random

NETWORK = gs.Network.grid(2, 3)
ROUNDS = 96
SEED = 11
OBSERVATIONS = gs.Gaussian(np.column_stack([np.arange(6.0), -np.arange(6.0)]), std=2.0)
PATIENCE = 60.0


def simulated(method: Method) -> np.ndarray:
    return gs.simulate(method, NETWORK, OBSERVATIONS, ROUNDS, trials=1, seed=SEED).estimates[0]


def observed(method: Method) -> np.ndarray:
    """(rounds, agents, n): what each agent sees in trial 0 of the simulation."""
    batches = method.batches(NETWORK, ROUNDS)
    return OBSERVATIONS.sample(SEED, range(ROUNDS), range(1), batches=batches)[..., 0]


def node(method: Method, i: int) -> Ledger | NodeForm:
    partners = None if method.mixing == "matrix" else random_partners(method.mixing, i)
    return NodeForm(tabulate(method, NETWORK, ROUNDS), i, weights_of(NETWORK, i), 2, partners)


def random_partners(mixing: str, me: int) -> Partners:
    """Who exchanges with agent `me` in a round of random gossip, as the simulation draws it."""
    key = random.key(SEED)

    def pairwise(t: int) -> tuple[int, ...]:
        edge = NETWORK.edges[random.index(key, random.ACTIVATION, 0, t, len(NETWORK.edges))]
        i, j = int(edge[0]), int(edge[1])
        return (j,) if me == i else (i,) if me == j else ()

    def broadcast(t: int) -> tuple[int, ...]:
        speaker = int(random.index(key, random.ACTIVATION, 0, t, NETWORK.agents))
        return (speaker,) if speaker in NETWORK.neighbors(me) else ()

    return pairwise if mixing == "pairwise" else broadcast


def ledger(method: Method, i: int) -> Ledger | NodeForm:
    return Ledger(ledger_program(method, NETWORK, ROUNDS), i, weights_of(NETWORK, i), 2)


def run(transports: list[Transport], cores: list[Ledger | NodeForm], observations: np.ndarray) -> np.ndarray:
    """Run one agent per thread over opened transports, and return their estimates."""
    failures: list[BaseException] = []

    def live(i: int) -> None:
        try:
            neighbors = tuple(weights_of(NETWORK, i))
            conversation = Conversation(i, cores[i], transports[i], neighbors, timeout=PATIENCE)
            assert conversation.gather(PATIENCE)
            for t in range(ROUNDS):
                conversation.step(observations[t, i])
            assert all(peer.lost == peer.late == 0 for peer in conversation.peers.values())
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=live, args=(i,)) for i in range(NETWORK.agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=2 * PATIENCE)
        assert not thread.is_alive()
    if failures:
        raise failures[0]
    return np.array([core.estimate for core in cores])


@pytest.fixture(scope="module")
def in_process() -> list[Transport]:
    memory = Memory()
    transports = [memory.transport(i, tuple(weights_of(NETWORK, i))) for i in range(NETWORK.agents)]
    for transport in transports:
        transport.open()
    return list(transports)


@pytest.fixture(scope="module")
def over_tls() -> Iterator[list[Transport]]:
    transports = [TlsTransport(s) for s in fleet(NETWORK)]
    for transport in transports:
        with pytest.warns(UserWarning, match="plaintext"):
            transport.open()
    _settle(transports)
    yield list(transports)
    for transport in transports:
        transport.close()


@pytest.fixture(scope="module", params=MIDDLES)
def over_a_broker(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[list[Transport]]:
    broker = request.param(tmp_path_factory.mktemp("broker"))
    certificates = make_certificates(tmp_path_factory.mktemp("ca") / "ca", NETWORK.agents)
    settings = hidden(
        fleet(NETWORK, certificates=certificates), range(NETWORK.agents), broker.address("site")
    )
    transports = [TlsTransport(s) for s in settings]
    for transport in transports:
        transport.open()
    _settle(transports)
    yield list(transports)
    for transport in transports:
        transport.close()
    broker.stop()


def _settle(transports: list[TlsTransport]) -> None:
    """Wait until all are connected for a while: where both ends call each other, one of two connections is given up,
    and with it what was said on it."""
    deadline, calm = time.monotonic() + PATIENCE, 0
    while calm < 20 and time.monotonic() < deadline:
        for transport in transports:
            transport.exchange(0, {}, time.monotonic() + 0.01, lambda sender, payload: False)
        together = all(t.present() == set(weights_of(NETWORK, i)) for i, t in enumerate(transports))
        calm = calm + 1 if together else 0


def close_to(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


# Push-sum runs on one-way links, which a conversation between neighbors does not have.
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if kind().mixing != "push"])
@pytest.mark.parametrize("where", ["in_process", "over_tls"])
def test_every_method_equals_the_simulation(name: str, where: str, request: pytest.FixtureRequest) -> None:
    method = METHODS[name]()
    cores = [node(method, i) for i in range(NETWORK.agents)]
    close_to(run(request.getfixturevalue(where), cores, observed(method)), simulated(method))


@pytest.mark.parametrize(
    "method", [gs.SDA(), gs.AnytimeSDA(), gs.AnytimeSDA("local"), gs.SSDA()], ids=lambda method: method.label
)
@pytest.mark.parametrize("where", ["in_process", "over_tls"])
def test_ledgers_equal_the_simulation(method: Method, where: str, request: pytest.FixtureRequest) -> None:
    cores = [ledger(method, i) for i in range(NETWORK.agents)]
    close_to(run(request.getfixturevalue(where), cores, observed(method)), simulated(method))


@pytest.mark.slow
def test_a_broker_in_between_changes_nothing(over_a_broker: list[Transport]) -> None:
    method = gs.AnytimeSDA("local")
    cores = [ledger(method, i) for i in range(NETWORK.agents)]
    close_to(run(over_a_broker, cores, observed(method)), simulated(method))


def deployed(
    make: Callable[..., Transport | None],
    method: Method | None = None,
    settings: list[AgentSettings] | None = None,
) -> np.ndarray:
    """Whole agents, as they are deployed: estimates after ROUNDS rounds."""
    method = method or gs.AnytimeSDA()
    y = observed(method)
    if settings is None:
        options = {"dimension": 2, "timeout": PATIENCE, "death": 2 * PATIENCE, "replicates": 2}
        settings = fleet(NETWORK, method=method, **options)
    answers: dict[int, np.ndarray] = {}

    async def main() -> None:
        agents = [Agent(s, transport=make(s), source=list(y[:, s.id])) for s in settings]
        for agent in agents:
            i = agent.settings.id
            agent.subscribe(lambda s, i=i: answers.setdefault(i, s.estimate) if s.age == ROUNDS else None)
        for agent in agents:
            await agent.__aenter__()
        await asyncio.to_thread(until, lambda: len(answers) == len(agents), f"{ROUNDS} rounds")
        for agent in agents:
            await agent.__aexit__(None, None, None)

    asyncio.run(main())
    return np.array([answers[i] for i in range(len(settings))])


def in_memory() -> Callable[[AgentSettings], Transport]:
    memory = Memory()
    return lambda s: memory.transport(s.id, tuple(n.id for n in s.neighbors))


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        gs.AnytimeSDA(),
        gs.AnytimeSDA(acceleration="chebyshev"),
        gs.SSDA(),
        gs.SDA(burn_in=0),
        gs.SDA(output="last"),
        HeavyBall(),
        NewestOnly(),
    ],
    ids=lambda method: method.label,
)
def test_whole_agents_in_process_equal_the_simulation(method: Method) -> None:
    """Methods of the user's own included: no agent knows which method it runs."""
    estimates = deployed(in_memory(), method)
    close_to(estimates, simulated(method))
    faulty = gs.simulate(method, NETWORK, OBSERVATIONS, ROUNDS, trials=1, seed=SEED, faults=Faults())
    close_to(estimates, faulty.estimates[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "method"),
    [
        ('name = "ssda"', gs.SSDA()),
        ('name = "own_methods.py:HeavyBall"\nmomentum = 0.3', HeavyBall(momentum=0.3)),
    ],
    ids=["ssda", "a file of one's own"],
)
def test_a_fleet_runs_the_method_that_its_file_names(tmp_path: Path, text: str, method: Method) -> None:
    rounds = RoundsTable(every="0", timeout="30s", death="60s")
    made = Fleet.create(NETWORK, rounds=rounds, observations=ObservationsTable(dimension=2))
    path = made.write(tmp_path)
    shutil.copy(SUPPORT / "own_methods.py", tmp_path)
    written = path.read_text()
    path.write_text(re.sub(r"\[method\].*?\n\n", f"[method]\n{text}\n\n", written, flags=re.DOTALL))
    read = Fleet.read(path)
    settings = [read.settings(i, path.parent) for i in range(NETWORK.agents)]
    close_to(deployed(in_memory(), method, settings), simulated(method))


@pytest.mark.slow
@pytest.mark.filterwarnings(PLAINTEXT)
def test_whole_agents_over_tls_equal_the_simulation() -> None:
    close_to(deployed(lambda s: None), simulated(gs.AnytimeSDA()))
