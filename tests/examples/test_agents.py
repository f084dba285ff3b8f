"""The examples of agents run, and say what their texts promise."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_sensor_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    """Rates of 20 and 200 a second, noise 0.5, 12 sensors: the standard error is 0.04 early and 0.02 later."""
    early, later, off = asyncio.run(load("sensor_fleet").main())
    assert early < 0.4
    assert later < 0.2
    assert off < 0.2  # the boiler room alone shifts the average by more than 1
    assert "while the boiler room is off" in capsys.readouterr().out


@pytest.mark.slow
def test_clinics(capsys: pytest.CaptureFixture[str]) -> None:
    """Every clinic's process finds the fit of all rows, from which a clinic alone is far."""
    found, pooled = load("clinics").main()
    np.testing.assert_allclose(found, np.tile(pooled, (8, 1)), rtol=1e-3)
    assert "one table" in capsys.readouterr().out


@pytest.mark.slow
def test_linear_estimation(capsys: pytest.CaptureFixture[str]) -> None:
    answers, center = asyncio.run(load("linear_estimation_agents").main(rounds=200))
    np.testing.assert_allclose(answers, np.broadcast_to(center, answers.shape), atol=0.02)
    np.testing.assert_allclose(center, [2.0, -1.0, 0.5], atol=0.08)
    assert "truth" in capsys.readouterr().out


@pytest.mark.slow
def test_reward_averaging(capsys: pytest.CaptureFixture[str]) -> None:
    """Agents are within a little of the center, which is within 0.4 of the truth; alone, they are 3 away."""
    answers, center, truth = asyncio.run(load("reward_averaging_agents").main(rounds=200))
    np.testing.assert_allclose(answers, np.broadcast_to(center, answers.shape), atol=0.1)
    np.testing.assert_allclose(center, truth, atol=0.4)
    assert "a company alone" in capsys.readouterr().out


@pytest.mark.slow
def test_salaries(capsys: pytest.CaptureFixture[str]) -> None:
    """All agree, on the average plus noise that is there and within 6 standard deviations."""
    answers, truth, noise = load("salaries").main()
    assert np.ptp(answers) < 0.01
    assert 0.01 < abs(answers[0] - truth) < 6 * noise
    assert "for the most curious neighbor, epsilon is 0.9" in capsys.readouterr().out


@pytest.mark.slow
def test_values_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    """Every robot's process finds the values of a center, whose standard error in the middle is about 0.2."""
    learned, center = load("values_fleet").main()
    np.testing.assert_allclose(learned, np.tile(center, (6, 1)), atol=1e-3)
    assert abs(center[5] - 3.5) < 0.8
    assert "a center" in capsys.readouterr().out
