"""The two worked examples run as they stand and say what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_clinics_agree_with_scikit_learn(capsys):
    runpy.run_path(str(EXAMPLES / "sensor_calibration.py"))  # asserts agreement to nine digits
    assert "after  80 rounds" in capsys.readouterr().out


@pytest.mark.slow
def test_robots_on_the_frozen_lake(capsys):
    runpy.run_path(str(EXAMPLES / "policy_evaluation.py"))
    assert "a data center" in capsys.readouterr().out


@pytest.mark.slow
def test_pupils_learn_the_noise_of_their_school(capsys):
    runpy.run_path(str(EXAMPLES / "school_contacts.py"))  # asserts that the local form is ahead of DSG
    assert "typical error of a phone" in capsys.readouterr().out
