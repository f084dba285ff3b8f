"""Agents that learn a model: the fit of all rows, its standard errors, restarts, loss, and rows that are refused."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.support.model_fleets import ModelFleet
from tests.support.small_fleets import fleet
from tests.support.waiting import until_true

from gossamer.agents.agent import Agent
from gossamer.agents.config.model import FleetModel
from gossamer.agents.config.settings import AgentSettings, differing
from gossamer.agents.config.tables import ModelTable, ObservationsTable, RoundsTable
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.round.batching import Batch
from gossamer.agents.round.row_batching import Clock, RowBatcher, spread_of
from gossamer.agents.sources.csv_files import CsvTable, GrowingCsvFile
from gossamer.agents.statistics.models import ModelAnswers, ModelLayout
from gossamer.agents.transports.faulty import Faulty
from gossamer.agents.transports.memory import Memory
from gossamer.applications.likelihood.estimation import LikelihoodEstimation
from gossamer.errors import InvalidInput
from gossamer.families import Family
from gossamer.faults import Faults, Loss
from gossamer.networks import Network

THETA = np.array([0.8, -0.5, 0.2])
COVARIATES = ("age", "dose")


def rows(family: str, agents: int = 5, seed: int = 0) -> list[np.ndarray]:
    """Rows of every agent, each with covariates around a point of its own, and unequally many."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(agents):
        x = rng.normal(size=(40 + 10 * i, 2)) + rng.normal(size=2)
        eta = x @ THETA[:2] + THETA[2]
        y = {
            "logistic": lambda eta=eta: rng.random(len(eta)) < 1 / (1 + np.exp(-eta)),
            "softmax": lambda eta=eta: np.digitize(eta + rng.logistic(size=len(eta)), [-1, 1]),
            "poisson": lambda eta=eta: rng.poisson(np.exp(eta)),
            "gamma": lambda eta=eta: rng.gamma(2, np.exp(eta) / 2),
            "huber": lambda eta=eta: eta + rng.standard_t(2.5, len(eta)),
        }[family]()
        found.append(np.column_stack([x, y]))
    return found


def pooled(data: list[np.ndarray], family: Family, ridge: float = 0.0) -> np.ndarray:
    """The fit of all rows in one place."""
    together = np.vstack(data)
    return LikelihoodEstimation.from_data(
        together[:, :-1], together[:, -1], Network.path(2), family=family, ridge=ridge
    ).stored.solution


def settings_of(family: str, network: Network, weighting: str = "samples", **changes) -> list[AgentSettings]:
    model = FleetModel(family, COVARIATES, **{"least": 1} | changes)
    return [
        replace(s, model=model, dimension=3, weighting=weighting, replicates=16, members=network.agents)
        for s in fleet(network, dimension=3)
    ]


async def learn(agents: list[Agent], rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and standard errors after so many rounds."""
    async with AsyncExitStack() as stack:
        for agent in agents:
            await stack.enter_async_context(agent)
        await until_true(lambda: min(agent.snapshot.age for agent in agents) >= rounds, f"{rounds} rounds")
        assert {agent.snapshot.state for agent in agents} == {"running"}
        return tuple(np.array([getattr(a, name) for a in agents]) for name in ("estimate", "standard_error"))


def agents_of(settings: list[AgentSettings], sources, **arguments) -> list[Agent]:
    wires = Memory()
    return [
        Agent(
            s,
            transport=wires.transport(s.id, tuple(n.id for n in s.neighbors)),
            source=source,
            seed=s.id,
            **arguments,
        )
        for s, source in zip(settings, sources, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "softmax", "poisson", "gamma", "huber"])
def test_every_agent_learns_the_fit_of_all_rows(family):
    data, settings = rows(family), settings_of(family, Network.cycle(5), ridge=0.01)
    estimates, errors = asyncio.run(learn(agents_of(settings, [list(part) for part in data]), 500))
    known = pooled(data, settings[0].model.build(), ridge=0.01)
    np.testing.assert_allclose(estimates, np.tile(known, (5, 1)), atol=1e-5)
    assert np.all((errors > 0.01) & (errors < 1))


@pytest.mark.slow
def test_each_agent_may_count_the_same():
    """Weighting by agents gives the fit in which every agent's rows weigh as much together."""
    data, settings = rows("poisson"), settings_of("poisson", Network.cycle(5), "agents")
    estimates, _ = asyncio.run(learn(agents_of(settings, [list(part) for part in data]), 500))
    weights = np.concatenate([np.full(len(part), 1 / len(part)) for part in data])
    together = np.vstack(data)
    x = np.column_stack([together[:, :-1], np.ones(len(together))])
    slopes = weights * (np.exp(x @ estimates[0]) - together[:, -1])
    np.testing.assert_allclose(x.T @ slopes, 0, atol=1e-4)


@pytest.mark.slow
def test_standard_errors_are_those_of_the_sandwich():
    """With 64 replicates a standard error is off by 9%; 4 of these are allowed."""
    data = rows("poisson")
    settings = [replace(s, replicates=64) for s in settings_of("poisson", Network.cycle(5))]
    estimates, errors = asyncio.run(learn(agents_of(settings, [list(part) for part in data]), 400))
    together = np.vstack(data)
    x = np.column_stack([together[:, :-1], np.ones(len(together))])
    rates = np.exp(x @ estimates[0])
    inverse = np.linalg.inv((x.T * rates) @ x)
    scores = x * (rates - together[:, -1])[:, None]
    known = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    np.testing.assert_allclose(errors, np.tile(known, (5, 1)), rtol=4 / np.sqrt(128))


@pytest.mark.slow
def test_a_third_of_all_messages_may_be_lost():
    data, settings = rows("logistic"), settings_of("logistic", Network.complete(5))
    wires = Memory()
    agents = [
        Agent(
            replace(s, timeout=0.02),
            transport=Faulty(
                wires.transport(s.id, tuple(n.id for n in s.neighbors)), s.id, Faults(Loss(0.3)).bind(3)
            ),
            source=list(part),
            seed=s.id,
        )
        for s, part in zip(settings, data, strict=True)
    ]
    estimates, _ = asyncio.run(learn(agents, 250))
    np.testing.assert_allclose(estimates, np.tile(pooled(data, settings[0].model.build()), (5, 1)), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CsvTable, GrowingCsvFile])
def test_a_restart_goes_on_from_the_store(kind, tmp_path: Path):
    """The agents stop before there is a good estimate: a table is read again, and so is a file that grows."""
    data, settings = rows("logistic", 3), settings_of("logistic", Network.cycle(3))
    for i, part in enumerate(data):
        np.savetxt(tmp_path / f"{i}.csv", part, delimiter=",", header="age,dose,sick", comments="")

    def start() -> list[Agent]:
        files = [kind(3, tmp_path / f"{s.id}.csv", [*COVARIATES, "sick"]) for s in settings]
        stored = [replace(s, store=tmp_path / f"{s.id}.db") for s in settings]
        return agents_of(stored, files)

    asyncio.run(learn(start(), 3))
    again = start()
    estimates, _ = asyncio.run(learn(again, 500))
    assert [agent.snapshot.samples for agent in again] == [len(part) for part in data]
    rows_each = np.mean([len(part) for part in data])  # no row counts twice
    assert [a.snapshot.answers.presence for a in again] == pytest.approx([rows_each] * 3, rel=1e-3)
    known = pooled(data, settings[0].model.build())
    tolerance = 1e-5 if kind is CsvTable else 1e-3  # rows whose sums are good are not read again
    np.testing.assert_allclose(estimates, np.tile(known, (3, 1)), atol=tolerance)
    assert np.ptp(estimates, axis=0).max() < 1e-5


def test_a_store_belongs_to_its_model(tmp_path: Path):
    first, other = (
        replace(settings_of(family, Network.path(2))[0], store=tmp_path / "agent.db")
        for family in ("poisson", "logistic")
    )
    asyncio.run(learn(agents_of([first], [list(rows("poisson", 1)[0])]), 2))
    with pytest.raises(
        InvalidInput, match=r"for Logistic\(.*of age, dose and a constant, but it belongs to .*Poisson"
    ):
        agents_of([other], [None])


def alone(family: str, table: np.ndarray, rounds: int) -> ModelAnswers:
    """What an agent without neighbors makes of its table."""
    layout = ModelLayout(3, weighting="samples", replicates=64, model=FleetModel(family, COVARIATES))
    held = np.zeros(layout.size)
    age = 0
    batcher = RowBatcher(layout, lambda: held, (held, 0), 1, Clock(lambda: age, lambda: 1, tuple))
    for age in range(rounds):
        held = batcher.batch([] if age else [table], held, len(table) * (age > 0), age).observation
    return batcher.answers()


@pytest.mark.parametrize("family", ["logistic", "softmax", "gamma"])
def test_how_far_from_zero_covariates_are_does_not_matter(family):
    """Such as years: their share of the curvature is small beside that of the intercept."""
    table = np.vstack(rows(family))
    near, far = alone(family, table, 300), alone(family, table + np.array([2000, 0, 0]), 300)
    shifted = far.mean.reshape(-1, 3) + np.outer(far.mean.reshape(-1, 3)[:, 0], [0, 0, 2000])
    np.testing.assert_allclose(shifted.ravel(), near.mean, atol=1e-4)
    slopes = np.arange(len(near.mean)) % 3 < 2
    np.testing.assert_allclose(far.standard_error[slopes], near.standard_error[slopes], rtol=1e-4)


def test_hubers_loss_bears_gross_outliers():
    table = np.vstack(rows("huber"))
    table[::20, -1] = 1e4
    found = alone("huber", table, 300)
    family = FleetModel("huber", COVARIATES).build()
    np.testing.assert_allclose(found.mean, pooled([table], family), atol=1e-6)
    assert np.all((found.standard_error > 0.01) & (found.standard_error < 1))


def test_few_rows_are_not_told(caplog: pytest.LogCaptureFixture):
    """Neither at the start nor later: the difference between two messages must not be that of a row."""
    layout = ModelLayout(3, weighting="samples", model=FleetModel("logistic", COVARIATES, least=4))
    data = rows("logistic", 1)[0]
    turn = 0  # a row comes in each
    batcher = RowBatcher(
        layout, lambda: np.zeros(layout.size), nothing(layout), 1, Clock(lambda: 18 * turn, lambda: 1, tuple)
    )
    assert batcher.batch([data[:3]], np.zeros(0), 0, 0).weight == 0
    assert "a table of 3 rows is not used: fewer than 4 rows are never shared" in caplog.text
    counts = []
    for turn, row in enumerate(data[:11], start=1):
        counts.append(batcher.batch([row], np.zeros(0), turn, turn).observation[0])
    assert counts == [0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8]


def nothing(layout: ModelLayout) -> tuple[np.ndarray, float]:
    """The sums of an agent that has had no rows."""
    return np.zeros(layout.size), 0.0


def test_an_estimate_is_withheld_until_all_directions_are_known():
    async def main() -> None:
        agents = agents_of(settings_of("logistic", Network.path(2)), [None, None])
        async with AsyncExitStack() as stack:
            for agent in agents:
                await stack.enter_async_context(agent)
            agents[0].observe([1.0, 2.0, 1])
            agents[1].observe([0.5, 1.0, 0])
            await until_true(lambda: agents[0].snapshot.age >= 30, "30 rounds")
            snapshot = agents[0].snapshot
            assert np.isnan(snapshot.estimate).all()
            assert snapshot.estimate.shape == (3,)
            assert snapshot.state == "running"

    asyncio.run(main())


def test_labels_of_another_family_are_refused():
    async def main() -> None:
        (agent, _) = agents_of(settings_of("logistic", Network.path(2)), [None, None])
        with pytest.raises(
            InvalidInput, match=r"the label of a row must be 0 or 1 for .* logistic, got 2\.0"
        ):
            agent.observe([1.0, 2.0, 2.0])

    asyncio.run(main())


def test_rows_beyond_the_memory_are_let_go_once_the_estimate_is_good():
    """Until then they are held; their sums stay, and the sums of many rows are those of their parts."""
    layout = ModelLayout(
        3, weighting="samples", model=FleetModel("logistic", COVARIATES, memory=100, least=3)
    )
    data = np.vstack(rows("logistic"))
    batch = Batch(np.zeros(layout.size), 0, 0.0)
    age, clock = 0, Clock(lambda: 18 * age, lambda: 1, tuple)
    batcher = RowBatcher(layout, lambda: batch.observation, nothing(layout), 1, clock)
    for age, part in enumerate(np.split(data, [3, 40, 200])):
        batch = batcher.batch(list(part), np.zeros(0), 0, age)
        assert (batch.samples, batch.weight) == (len(part), 1.0)
        if age == 1:
            assert batcher.held == 40
    for age in range(4, 40):
        batch = batcher.batch([], np.zeros(0), 0, age)
    assert batcher.held == len(data)
    age = 40
    batch = batcher.batch(list(data[:3]), np.zeros(0), 0, age)
    assert batcher.held == 100
    assert batch.observation[0] == len(data) + 3
    x, sums = np.column_stack([data[:, :2], np.ones(len(data))]), layout.sums
    theta = layout.judge(batch.observation, 1).theta
    p = 1 / (1 + np.exp(-np.vstack([x, x[:3]]) @ theta))
    whole = np.vstack([x, x[:3]])
    np.testing.assert_allclose(sums.curvature(batch.observation), (whole.T * p * (1 - p)) @ whole, atol=1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"dimension": 2},
            "dimension must be the number of covariates of the model, and one for the label, 3",
        ),
        ({"variance": True}, "leave out variance"),
        ({"bins": (0.0, 1.0)}, "leave out bins"),
    ],
)
def test_settings_that_do_not_go_with_a_model(changes, message):
    with pytest.raises(InvalidInput, match=message):
        replace(settings_of("logistic", Network.path(2))[0], **changes)


def test_models_are_checked():
    with pytest.raises(
        InvalidInput, match=r"model\.family must be .*, got 'logit' \(did you mean 'logistic'"
    ):
        FleetModel("logit")
    with pytest.raises(InvalidInput, match=r"model\.covariates must be the names .* got \['a', 'a'\]"):
        FleetModel("logistic", ("a", "a"))


def test_the_model_is_part_of_the_fingerprint():
    mine, other = (settings_of(family, Network.path(2))[0] for family in ("logistic", "poisson"))
    assert differing(mine.fingerprint, other.fingerprint) == ["model"]
    plain = fleet(Network.path(2), dimension=3)[0]
    assert len(mine.fingerprint) == len(plain.fingerprint) + 2  # fleets without a model speak as ever


def test_fleet_toml_holds_the_model(tmp_path: Path):
    made = Fleet.create(
        Network.path(2),
        model=ModelTable(family="poisson", covariates=COVARIATES, ridge=0.1),
        observations=ObservationsTable(weighting="samples"),
        rounds=RoundsTable(every="0"),
        sources=["-", "csv:rows.csv,target=visits"],
    )
    path = made.write(tmp_path)
    text = path.read_text()
    assert 'family = "poisson"' in text
    assert "no row is stored or sent" in text
    read = Fleet.read(path)
    assert read.model == made.model
    settings = read.settings(0, tmp_path)
    assert settings.model == FleetModel("poisson", COVARIATES, ridge=0.1)
    assert settings.dimension == 3
    path.write_text(text.replace('"poisson"', '"poison"'))
    with pytest.raises(InvalidInput, match=r"model\.family must be .*did you mean 'poisson'"):
        Fleet.read(path)


def test_labels_in_csv_files(tmp_path: Path):
    file = tmp_path / "rows.csv"
    file.write_text("id,dose,sick,age\n7,1.5,1,40\n8,2.5,0,50\n")
    made = Fleet.create(
        Network.path(2), model=ModelTable(family="logistic", covariates=COVARIATES), sources=["-", "-"]
    )
    source = made.source(0, f"csv:{file},target=sick")
    source.begin(0, 1e20)
    assert [table.tolist() for table in source] == [[[40, 1.5, 1], [50, 2.5, 0]]]
    with pytest.raises(InvalidInput, match=r"needs a column of labels; write csv:FILE,target=COLUMN"):
        made.source(0, f"csv:{file}")
    with pytest.raises(InvalidInput, match=r"must be among id, dose, sick, age of .*, got 'ill'"):
        made.source(0, f"csv:{file},target=ill")
    plain = Fleet.create(Network.path(2))
    with pytest.raises(InvalidInput, match=r"target=sick is for fleets that learn a model"):
        plain.source(0, f"csv:{file},target=sick")


@pytest.mark.slow
def test_a_model_that_forgets_follows_effects_that_flip():
    """With a half-life of 30 rounds, 200 rounds after the flip nothing of what was before is left."""
    agents, rng = ModelFleet(Network.cycle(3), "logistic", forgetting=30.0), np.random.default_rng(0)
    for age in range(400):
        x = rng.normal(size=(3, 4, 2))
        eta = (1 if age < 200 else -1) * (x @ THETA[:2]) + THETA[2]
        y = rng.random((3, 4)) < 1 / (1 + np.exp(-eta))
        agents.play([list(np.column_stack([x[i], y[i]])) for i in range(3)])
    agents.play(rounds=5)
    for answer in agents.answers():
        off = np.abs(answer.judgement.theta - [-0.8, 0.5, 0.2]) / answer.judgement.errors
        assert off.max() < 4
        assert answer.judgement.linearization < 0.1
        turn = spread_of(3)  # in each 12 rows a round enter, and count less from then on
        assert answer.presence * 3 == pytest.approx(12 * turn / (1 - 0.5 ** (turn / 30)), rel=0.01)


class CutOff:
    """Faults that lose everything to and from an agent from some moment on."""

    def __init__(self, agent: int) -> None:
        self.agent, self.now = agent, False

    def lost(self, round: int, sender: int, receiver: int) -> bool:
        return self.now and self.agent in (sender, receiver)

    def delay(self, round: int, sender: int, receiver: int) -> int:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("keep", [True, False])
def test_rows_of_members_that_vanish_stay_if_they_are_to_be_kept(keep):
    data, settings = rows("poisson", 3), settings_of("poisson", Network.cycle(3), keep=keep)
    wires, cut = Memory(), CutOff(2)

    async def main() -> list[np.ndarray]:
        agents = [
            Agent(
                replace(s, timeout=0.005, death=0.05),
                transport=Faulty(wires.transport(s.id, tuple(n.id for n in s.neighbors)), s.id, cut),
                source=list(part),
                seed=s.id,
            )
            for s, part in zip(settings, data, strict=True)
        ]
        async with AsyncExitStack() as stack, asyncio.timeout(60):
            for agent in agents:
                await stack.enter_async_context(agent)
            while agents[0].snapshot.age < 120:
                await asyncio.sleep(0.005)
            cut.now = True
            while agents[0].snapshot.age < 700:
                await asyncio.sleep(0.005)
            return [agent.estimate for agent in agents[:2]]

    estimates = asyncio.run(main())
    known = pooled(data if keep else data[:2], settings[0].model.build())
    np.testing.assert_allclose(estimates, np.tile(known, (2, 1)), atol=1e-3)


def test_standard_errors_beyond_fifteen_parameters_rest_on_more_replicates():
    names = tuple(f"x{k}" for k in range(16))
    many, few = ModelFleet(Network.path(2), "poisson", names), ModelFleet(Network.path(2), "poisson")
    assert (many.layout.noise, few.layout.noise) == (32, 8)
    assert np.isnan(many.answers()[0].quantile_95).all()  # nothing is known yet
    x = np.random.default_rng(0).normal(size=(2, 400, 17))
    x[..., -1] = x[..., -1] > 0
    many.play([list(part) for part in x])
    many.play(rounds=200)
    student = many.answers()[0].quantile_95
    np.testing.assert_allclose(student, 2.037, atol=0.002)  # 32 degrees of freedom


@pytest.mark.parametrize("family", ["logistic", "softmax", "gamma"])
def test_intervals_go_by_the_rows_that_a_parameter_rests_on(family):
    """Few rows far out carry the information: few degrees of freedom, and with fewer still nothing is published."""
    table = np.vstack(rows(family))
    table[:, 0] = np.sign(table[:, 0]) * table[:, 0] ** 2
    found = alone(family, table, 300)
    x = np.column_stack([table[:, :-1], np.ones(len(table))])
    model, theta = found.layout.family, found.judgement.theta.reshape(-1, 3)
    bends, slopes = model.curvatures(theta @ x.T, table[:, -1]), model.slopes(theta @ x.T, table[:, -1])
    parts = [np.kron(np.eye(model.outputs), row[:, None]) for row in x]  # (p, m) each
    inverse = np.linalg.inv(sum(part @ bend @ part.T for part, bend in zip(parts, bends.T, strict=True)))
    own = np.array(
        [np.diag(part.T @ inverse @ part @ bend) for part, bend in zip(parts, bends.T, strict=True)]
    )
    along = np.array([inverse @ part for part in parts])  # (n, p, m)
    scores = np.einsum("npm,nm->np", along, slopes.T / (1 - own)) ** 2
    bent = np.einsum("npa,nac,npc->np", along, bends.T, along)
    freedom = 2 * scores.sum(axis=0) ** 2 / (scores**2).sum(axis=0)
    effective = bent.sum(axis=0) ** 2 / (bent**2).sum(axis=0)
    np.testing.assert_allclose(
        found.judgement.freedom, freedom, rtol=0.02
    )  # the inverse is that of the last look
    np.testing.assert_allclose(found.judgement.effective, effective, rtol=0.02)
    np.testing.assert_allclose(found.quantile_95, stats.t.ppf(0.975, freedom), rtol=0.01)
    table[:, 0] = np.arange(len(table)) % 27 == 0  # a category that few rows have
    few = alone(family, table, 300)
    assert "too few rows so far: age" in few.withheld
    assert few.withheld.endswith("because few carry the information; intervals need 15")
