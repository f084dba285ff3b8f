"""The compiled modules of a round: the same numbers as in Python, and Python alone is enough."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.agents.round import numbers as compiled

SOURCE = Path(compiled.__file__).parents[2]


@pytest.fixture(scope="module")
def by_numpy() -> ModuleType:
    """The module in Python, whether or not it was compiled."""
    if not compiled.COMPILED:
        pytest.skip("gossamer was installed without a C compiler, so there is only the Python form")
    spec = importlib.util.spec_from_file_location("numbers_by_numpy", SOURCE / "agents/round/numbers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    return module


def same(one: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


@given(st.integers(0, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**32))
def test_rounds_of_numbers(
    by_numpy: ModuleType, degree: int, own: int, registers: int, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rounds, nothing = 3, own + 1 + registers
    columns = [*range(own + 1), *([nothing, *range(own + 1, nothing)] * degree)]
    maps = (
        rng.normal(size=(rounds, 1 + own, nothing + 1)),
        rng.normal(size=(rounds, 1 + own, nothing + 1)),
        rng.normal(size=(rounds, registers, 1 + registers)),
        rng.normal(size=(rounds, nothing + 1)),
        np.array(columns, dtype=np.int64),
        rng.uniform(size=degree),
    )
    for table in (*maps[:2], maps[3]):
        table[..., nothing] = 0.0  # no map reads what was said
    most = rng.uniform(0.1, 2.0, size=(degree, n)) if seed % 2 else None
    two = [module.Numbers(*maps, n, most=most) for module in (compiled, by_numpy)]
    for t in range(rounds):
        observation, weight = rng.normal(size=n), rng.uniform()
        heard = rng.normal(size=(degree, 1 + registers, n))
        for numbers in two:
            numbers.begin(t, observation, weight)
        same(two[0].tells, two[1].tells)
        assert all(numbers.told(k) == numbers.tells[k].tobytes() for numbers in two for k in range(degree))
        for numbers in two:
            for k in range(degree):
                if (seed + k) % 2:
                    numbers.adopt(k, heard[k].tobytes())
                if (seed + k) % 3:
                    numbers.move(k, t, heard[k].tobytes())
            numbers.finish(t)
        same(two[0].own, two[1].own)
        same(two[0].tells[:, 1:], two[1].tells[:, 1:])
        same(two[0].answer, two[1].answer)
        if most is not None and t == 0 and all((seed + k) % 3 for k in range(degree)):
            assert (np.abs(two[0].tells[:, 1:]) <= most[:, None]).all()


@given(
    st.integers(1, 4),
    st.lists(st.floats(-2, 2), max_size=3).map(sorted),
    st.booleans(),
    st.integers(0, 3),
    st.integers(1, 4),
    st.integers(0, 2**32),
)
def test_features(
    by_numpy: ModuleType, n: int, bins: list[float], variance: bool, replicates: int, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(8, replicates))
    two = [module.Features(n, bins, variance, noise) for module in (compiled, by_numpy)]
    for presence in (0.0, 1.0, 0.3):
        mean = np.concatenate([[presence], rng.normal(size=n) * presence, rng.normal(size=2)])
        observations = rng.normal(size=(count, n))
        for features in two:
            features.begin(mean)
            for k, observation in enumerate(observations):
                features.add(observation, 5.0 + k, k)
        same(two[0].row, two[1].row)
        assert two[0].row[0] == count


def test_a_wrong_length_is_an_error_in_both(by_numpy: ModuleType) -> None:
    """Not a look beyond the end of an array."""
    for module in (compiled, by_numpy):
        one = np.ones((1, 2, 2))
        numbers = module.Numbers(one, one, one, one[:, 0], np.arange(2), np.zeros(0), 3)
        features = module.Features(3, [], False, np.zeros((1, 2)))
        with pytest.raises(ValueError):
            numbers.begin(0, np.zeros(2), 0.5)
        with pytest.raises(ValueError):
            features.begin(np.zeros(3))
        with pytest.raises(ValueError):
            features.add(np.zeros(2), 1.0, 0)


@pytest.mark.parametrize("last", [0.0, 3.0, np.inf, -np.inf, np.nan, 1e200])
def test_square(by_numpy: ModuleType, last: float) -> None:
    numbers = np.array([1.0, 2.0, 3.0, last]).tobytes()
    expected = 14.0 + last * last
    np.testing.assert_equal([compiled.square(numbers), by_numpy.square(numbers)], [expected, expected])


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, -1.0, 1.5, -2.0, np.nan, np.inf]), min_size=3, max_size=3))
def test_beyond(by_numpy: ModuleType, numbers: list[float]) -> None:
    most = np.array([1.0, 1.0, 0.5])
    expected = next((k for k, x in enumerate(numbers) if not abs(x) <= most[k]), -1)
    found = [module.beyond(np.array(numbers).tobytes(), most) for module in (compiled, by_numpy)]
    assert found == [expected, expected]
    for module in (compiled, by_numpy):
        with pytest.raises(ValueError):
            module.beyond(bytes(16), most)


PYTHON_ALONE = """
import sys, pytest
from importlib.machinery import FileFinder, SourceFileLoader

uncompiled = FileFinder.path_hook((SourceFileLoader, [".py"]))

def of_the_round(path, folder=sys.argv[1]):
    if path != folder:
        raise ImportError(path)
    return uncompiled(path)

sys.path_hooks.insert(0, of_the_round)
import gossamer.agents.round.numbers as numbers

print(numbers.COMPILED, numbers.__file__, flush=True)
sys.exit(pytest.main(sys.argv[2:]))
"""


@pytest.mark.slow
def test_python_alone_is_enough() -> None:
    """Where there was no compiler: the tests of the compiled modules pass on their Python source."""
    here = Path(__file__).parent
    tests = [here / f"test_{name}.py" for name in ("wire", "ledger", "conversation")]
    agent = here.parent / "test_agent.py"
    tests += [
        f"{agent}::test_every_agent_learns_the_average",
        f"{agent}::test_vectors_variance_and_quantiles",
    ]
    lasting = "not any_ and not arbitrary and not bad_messages"
    words = ["-q", "-m", "not slow", "-k", lasting, "-p", "no:cacheprovider", *map(str, tests)]
    found = subprocess.run(
        [sys.executable, "-c", PYTHON_ALONE, str(SOURCE / "agents/round"), *words],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.partition("\n")[0].split() == ["False", str(SOURCE / "agents/round/numbers.py")]
