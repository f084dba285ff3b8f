"""Each statistic alone: what it adds, between which values, and that the compiled pass adds the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gossamer.agents.round.batching import Batcher
from gossamer.agents.statistics import layout as module
from gossamer.agents.statistics.layout import STATISTICS, Answers, Layout
from gossamer.agents.statistics.mean import Mean
from gossamer.agents.statistics.replicates import Replicates
from gossamer.agents.statistics.statistic import Box, Membership, Metric, Statistic, shown
from gossamer.arrays import Floats

RANGE = ((-2.0, 3.0), (1.0, 4.0))
EVERYTHING = Layout(
    2, variance=True, bins=(0.0, 2.0), covariance=True, extremes=True, replicates=3, range=RANGE
)


@dataclass(frozen=True)
class Cubes(Statistic):
    """The mean of r^3: a statistic that the compiled pass does not know."""

    size: int
    squares = True

    @classmethod
    def asked(cls, layout: Layout) -> Cubes:
        return cls(layout.dimension)

    def components(self, observation: Floats) -> Floats:
        return observation**3

    def box(self, low: Floats, high: Floats) -> Box:
        return np.minimum(low**3, 0.0), np.maximum(high**3, 0.0)

    def entries(self, answers: Answers, count: Membership) -> dict[str, Any]:
        return {"cubes": shown(answers.get(Cubes))}

    def metrics(self, answers: Answers, count: Membership) -> Iterable[Metric]:
        yield Metric.vector("cubes", "Mean of the cubes", answers.get(Cubes))


def observations(count: int) -> list[Floats]:
    low, high = np.array(RANGE).T
    return list(np.random.default_rng(3).uniform(low, high, (count, 2)))


def averaged(layout: Layout, rows: list[Floats]) -> Floats:
    batch = Batcher(layout, seed=1).batch(rows, np.zeros(layout.size), 0.0, 0)
    return batch.observation.copy()


def statistics(layout: Layout) -> list[Any]:
    return [pytest.param(s, id=type(s).__name__) for s in layout.statistics if s.size]


@pytest.mark.parametrize("statistic", statistics(EVERYTHING))
def test_the_compiled_pass_adds_the_components_of_a_statistic(statistic: Statistic) -> None:
    rows = observations(7)
    mean = averaged(EVERYTHING, rows)[EVERYTHING.slices[type(statistic)]]
    low, high = statistic.box(*np.array(RANGE).T)
    assert ((low <= mean) & (mean <= high)).all()
    if not isinstance(statistic, Replicates):
        np.testing.assert_allclose(mean, np.mean([statistic.components(row) for row in rows], axis=0))


def test_the_components_of_all_statistics_fill_the_vector_in_order() -> None:
    spans = [EVERYTHING.slices[type(s)] for s in EVERYTHING.statistics]
    assert [span.start for span in spans] == [1, *(span.stop for span in spans[:-1])]
    assert spans[-1].stop == EVERYTHING.size == len(EVERYTHING.box[0])
    assert [type(s) for s in EVERYTHING.statistics] == list(STATISTICS)
    assert [type(s) for s in Layout(1).statistics] == [Mean]


def test_a_new_statistic_is_one_class_and_one_line_in_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe of CONTRIBUTING.md: everything that shows statistics shows it."""
    monkeypatch.setattr(module, "STATISTICS", (*STATISTICS[:-1], Cubes, STATISTICS[-1]))
    layout = Layout(2, variance=True, replicates=3, range=RANGE)
    rows = observations(5)
    answers = layout.read(averaged(layout, rows))
    cubes = np.mean(np.array(rows) ** 3, axis=0)
    np.testing.assert_allclose(answers.get(Cubes), cubes)
    np.testing.assert_allclose(answers.mean, np.mean(rows, axis=0))
    np.testing.assert_allclose(answers.variance, np.var(rows, axis=0))
    plain = Layout(2, variance=True, replicates=3)
    monkeypatch.undo()
    np.testing.assert_array_equal(answers.standard_error, plain.read(averaged(plain, rows)).standard_error)
    assert answers.entries(Membership(4))["cubes"] == pytest.approx(cubes)
    assert any(metric.name == "cubes" for metric in answers.metrics(Membership(4)))
    assert len(layout.box[0]) == layout.size
