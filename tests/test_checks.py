"""Checks of single values: what they let pass, and the words with which they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gossamer import checks
from gossamer.errors import InvalidInput


def test_good_values_come_back_in_the_form_we_use():
    assert checks.whole_number("trials", np.int32(5), least=1) == 5
    assert type(checks.whole_number("trials", 5.0)) is int
    assert type(checks.number("std", 2, above=0)) is float
    assert checks.probability("p", np.float32(0.5)) == 0.5
    assert checks.choice("weights", "b", ("a", "b")) == "b"
    assert checks.rounds(1) == 1
    assert checks.seed(2**100) == 2**100


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: checks.whole_number("trials", 2.5, least=1),
            "trials must be a whole number of at least 1, got 2.5",
        ),
        (lambda: checks.whole_number("trials", True), "trials must be a whole number, got True"),
        (lambda: checks.whole_number("port", 0, least=1, most=9), "of at least 1 and at most 9, got 0"),
        (lambda: checks.number("step_size", 0, above=0), "step_size must be a finite number above 0, got 0"),
        (lambda: checks.number("gain", 1.5, above=0, most=1), "above 0 and at most 1, got 1.5"),
        (lambda: checks.number("momentum", 1.0, least=0, below=1), "of at least 0 and below 1, got 1.0"),
        (lambda: checks.number("std", float("nan")), "std must be a finite number, got nan"),
        (lambda: checks.number("std", "1"), "std must be a finite number, got '1'"),
        (lambda: checks.probability("p", -0.1), "p must be a probability from 0 to 1, got -0.1"),
        (lambda: checks.probability("p", "a"), "p must be a probability from 0 to 1, got 'a'"),
        (
            lambda: checks.choice("rule", "legder", ("ledger", "skip")),
            r"rule must be 'ledger' or 'skip', got 'legder' \(did you mean 'ledger'\?\)",
        ),
        (
            lambda: checks.choice("rule", None, ("ledger", "skip")),
            "rule must be 'ledger' or 'skip', got None",
        ),
        (lambda: checks.rounds(0), "rounds must be a whole number of at least 1, got 0"),
        (lambda: checks.seed(-1), "seed must be a whole number of at least 0, got -1"),
        (lambda: checks.seed(1.0), "seed must be a whole number of at least 0, got 1.0"),
        (lambda: checks.seed(True), "got True"),
    ],
)
def test_bad_values_are_refused_with_what_was_required_and_what_it_got(call, text):
    with pytest.raises(InvalidInput, match=text):
        call()


def test_a_negative_zero_becomes_zero():
    assert math.copysign(1, checks.number("spread", -0.0, least=0)) == 1
