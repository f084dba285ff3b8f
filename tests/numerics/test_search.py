from __future__ import annotations

import pytest

from gossamer.numerics.search import first_true


@pytest.mark.parametrize("answer", [1, 2, 3, 4, 5, 31, 32, 33, 1000])
def test_the_first_is_found_in_few_trials(answer):
    asked = []
    assert first_true(lambda n: asked.append(n) or n >= answer) == answer
    assert len(asked) <= 2 * answer.bit_length() + 1


def test_nothing_beyond_the_limit_is_asked():
    asked = []
    assert first_true(lambda n: bool(asked.append(n)), most=11) is None
    assert asked == [1, 2, 4, 8, 11]
    assert first_true(lambda n: n >= 11, most=11) == 11
    assert first_true(lambda n: n >= 9, most=11) == 9
