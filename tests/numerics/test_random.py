"""The random numbers: the generator, the accuracy of the normals, their distribution, and their addresses."""

from __future__ import annotations

import hashlib
import math
import platform
import re
from typing import Any

import numpy as np
import pytest
from numba import njit  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped, unused-ignore]

from gossamer.errors import InvalidInput
from gossamer.numerics import counters, philox
from gossamer.numerics import random as r

KEY = r.key(20260)


def normals(kind: Any, seed: int, trials: range, agents: range, components: int, rounds: range) -> Any:
    """`random.normals`, or the same in single precision, as float64."""
    if kind is np.float64:
        return r.normals(seed, r.OBSERVATION, trials, agents, components, rounds)
    quads = range(rounds.start // 4, -(-rounds.stop // 4))
    out = np.empty((4 * len(quads), len(agents), components, len(trials)), kind)
    for k, quad in enumerate(quads):
        for i, agent in enumerate(agents):
            for c in range(components):
                where = (r.OBSERVATION, quad, agent, c, trials.start)
                r.fill_normals(out[4 * k : 4 * k + 4, i, c], r.key(seed), *where)
    first = rounds.start - 4 * quads.start
    return out[first : first + len(rounds)].astype(np.float64)


@pytest.fixture(scope="module", params=[np.float64, np.float32], ids=["double", "single"])
def sample(request: Any) -> NDArray[np.float64]:
    """About a million normals, of shape (rounds, agents, components, trials)."""
    drawn: NDArray[np.float64] = normals(request.param, 7, range(100, 356), range(3, 11), 4, range(2, 130))
    return drawn


def test_the_bits_of_old_versions() -> None:
    """Deployed agents and stored results share these numbers."""
    drawn = r.normals(2026, r.OBSERVATION, range(3), range(5), 2, range(40))
    assert hashlib.sha256(drawn.astype("<f8").tobytes()).hexdigest() == BITS_OF_2026


BITS_OF_2026 = "b686a699de1d9a46284e68988e1fb1ec8cb50293180d1e496462b96ebe281ab9"


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    c0, c1, c2, c3 = counter
    k = np.uint64(key[0] | key[1] << 32)
    assert [int(w) for w in r.words(k, c3 >> 24, c0, c1, c3 & 0xFFFFFF, c2)] == list(expected)
    # The vectorized loop as well, through the uniforms.
    out = np.empty((4, 9))
    r.fill_uniforms(out, k, c3 >> 24, c0, c1, c3 & 0xFFFFFF, c2)
    assert [int(x * 2.0**32) for x in out[:, 0]] == list(expected)


def test_words_are_used_as_documented() -> None:
    """Box-Muller of the documented words, by NumPy in long doubles."""
    got = np.empty((4, 64))
    uniform = np.empty((4, 64))
    r.fill_normals(got, KEY, r.SECOND, 5, 6, 7, 80)
    r.fill_uniforms(uniform, KEY, r.SECOND, 5, 6, 7, 80)
    w = np.array([r.words(KEY, r.SECOND, 5, 6, 7, t) for t in range(80, 144)]).T.astype(np.longdouble)
    assert np.array_equal(uniform, (w + 0.5) / 2.0**32)
    radius = np.sqrt(-2 * np.log((w[0::2] + 0.5) / 2.0**32))
    angle = 8 * np.arctan(np.longdouble(1)) * w[1::2] / 2.0**32
    want = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(4, 64)
    assert np.abs(got - want).max() < 3e-15


@njit  # type: ignore[untyped-decorator, unused-ignore]
def _pieces(w: Any, radius: Any, cosine: Any, sine: Any) -> None:
    for i in range(w.size):
        square, _ = philox.squared_radii(w[i], w[w.size - 1 - i])
        radius[i] = math.sqrt(square)
        cosine[i], sine[i] = philox.cos_sin(w[i])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "number", "error"), [(np.uint64, np.float64, 6e-16), (np.uint32, np.float32, 2e-7)]
)
def test_accuracy_of_radius_and_angle(word: Any, number: Any, error: float) -> None:
    """The polynomials against long doubles, at the ends and the seams of their ranges and between."""
    seams = [0.0, 1.0, 2.0, 2.0**31 - 1, 2.0**32 * math.sqrt(0.5) // 1]
    seams += [k * 2.0**29 for k in range(9)]
    seams = [s + d for s in seams for d in (-2, -1, 0, 1, 2)]
    w = np.concatenate([seams, np.random.default_rng(1).integers(0, 2**32, 100_000), 2.0 ** np.arange(32)])
    w = w[(w >= 0) & (w < 2.0**32)].astype(word)
    radius, cosine, sine = np.empty((3, w.size), number)
    _pieces(w, radius, cosine, sine)
    exact = w.astype(np.longdouble)
    u = (exact + 0.5) / 2.0**32
    # log1p where u is close to 1: there the logarithm's relative accuracy would be lost.
    true_radius = np.sqrt(-2 * np.where(u > 0.5, np.log1p(u - 1), np.log(u)))
    angle = 8 * np.arctan(np.longdouble(1)) * exact / 2.0**32
    if np.finfo(np.longdouble).eps >= 1e-18:  # then what it is compared with has an error, too
        error = max(error, 2e-15)
    assert np.abs(radius / true_radius - 1).max() < error
    assert np.abs(cosine - np.cos(angle)).max() < error / 2
    assert np.abs(sine - np.sin(angle)).max() < error / 2
    assert radius.max() < 6.77
    assert radius.min() > 0


@pytest.mark.slow
def test_moments(sample: NDArray[np.float64]) -> None:
    x = sample.ravel()
    # E x**k and E x**(2 k) of a standard normal give the standard error of the k-th moment.
    moment = {k: 0.0 if k % 2 else float(math.prod(range(1, k, 2))) for k in range(1, 13)}
    for k in range(1, 7):
        error = math.sqrt((moment[2 * k] - moment[k] ** 2) / x.size)
        assert abs(np.mean(x**k) - moment[k]) < 4 * error, k


@pytest.mark.slow
def test_distribution(sample: NDArray[np.float64]) -> None:
    assert stats.kstest(sample.ravel(), "norm").pvalue > 1e-3
    for k in range(4):  # each place in a quad by itself; the sample begins with round 2
        assert stats.kstest(sample[(k + 2) % 4 :: 4].ravel(), "norm").pvalue > 1e-3, k
    uniform = r.uniforms(7, r.FAULT, range(4096), range(2), 2, range(32))
    assert uniform.min() > 0
    assert uniform.max() < 1
    assert stats.kstest(uniform.ravel(), "uniform").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_tails(kind: Any) -> None:
    x = np.abs(normals(kind, 11, range(8192), range(8), 2, range(128)).ravel())
    for sigma in (3, 4, 5):
        expected = x.size * math.erfc(sigma / math.sqrt(2))
        assert abs(np.count_nonzero(x > sigma) - expected) < 4 * math.sqrt(expected), sigma


@pytest.mark.slow
@pytest.mark.parametrize("axis", range(4), ids=["rounds", "agents", "components", "trials"])
@pytest.mark.parametrize("lag", [1, 2, 3])
def test_neighbors_are_uncorrelated(sample: NDArray[np.float64], axis: int, lag: int) -> None:
    moved = np.moveaxis(sample, axis, 0)
    a, b = moved[:-lag].ravel(), moved[lag:].ravel()
    error = 1 / math.sqrt(a.size)
    assert abs(np.mean(a * b)) < 4 * error
    assert abs(np.mean((a**2 - 1) * (b**2 - 1)) / 2) < 4 * error
    assert abs(np.mean(a * (b**2 - 1)) / math.sqrt(2)) < 4 * error


def test_cosine_and_sine_of_a_pair_are_uncorrelated(sample: NDArray[np.float64]) -> None:
    a, b = sample[0::2].ravel(), sample[1::2].ravel()  # rounds 2 and 3, 4 and 5, ...
    error = 1 / math.sqrt(a.size)
    assert abs(np.mean(a * b)) < 4 * error
    assert abs(np.mean((a**2 - 1) * (b**2 - 1)) / 2) < 4 * error
    # The angle is uniform: a pair lies in each eighth of the plane equally often.
    counts = np.bincount(((np.arctan2(b, a) / math.pi + 1) * 4).astype(int) % 8, minlength=8)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_purposes_and_seeds_differ() -> None:
    where = (range(4096), range(2), 1, range(16))
    base = r.normals(1, r.OBSERVATION, *where).ravel()
    others = [r.normals(1, p, *where) for p in (r.SECOND, r.ACTIVATION, r.FAULT, r.PROBLEM)]
    others += [r.normals(seed, r.OBSERVATION, *where) for seed in (0, 2, 1 + 2**32, 1 + 2**64)]
    for other in others:
        assert abs(np.mean(base * other.ravel())) < 4 / math.sqrt(base.size)
        assert not np.any(base == other.ravel())
    assert np.array_equal(base, r.normals(1, r.OBSERVATION, *where).ravel())


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 5, 8, 100, 128, 300])
def test_scalar_and_both_layouts_agree(lanes: int) -> None:
    by_trial, by_agent, uniform = np.empty((3, 4, lanes))
    r.fill_normals(by_trial, KEY, r.OBSERVATION, 12, 5, 2, 70)
    r.fill_normals_agents(by_agent, KEY, r.OBSERVATION, 12, 70, 2, 5)
    r.fill_uniforms(uniform, KEY, r.FAULT, 12, 5, 2, 70)
    for k in range(4):
        for b in range(lanes):
            assert by_trial[k, b] == r.normal(KEY, r.OBSERVATION, 70 + b, 5, 2, 48 + k)
            assert by_agent[k, b] == r.normal(KEY, r.OBSERVATION, 5, 70 + b, 2, 48 + k)
            assert uniform[k, b] == r.uniform(KEY, r.FAULT, 70 + b, 5, 2, 48 + k)
    assert np.unique(np.concatenate([by_trial, by_agent])).size == 8 * lanes


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 5, 8, 37, 128, 300])
def test_single_precision_rounds_alike_everywhere(lanes: int) -> None:
    """A lane's number depends neither on how many there are nor on what they count, and is that of double precision."""
    full, by_trial, by_agent = (np.empty((4, n), np.float32) for n in (304, lanes, lanes))
    double = np.empty((4, lanes))
    r.fill_normals(full, KEY, r.OBSERVATION, 12, 5, 2, 70)
    r.fill_normals(by_trial, KEY, r.OBSERVATION, 12, 5, 2, 70)
    r.fill_normals(double, KEY, r.OBSERVATION, 12, 5, 2, 70)
    assert np.array_equal(by_trial, full[:, :lanes])
    assert np.abs(by_trial - double).max() < 2e-6  # three units of the last digit at six standard deviations
    r.fill_normals_agents(by_agent, KEY, r.OBSERVATION, 12, 70, 2, 5)
    for b in range(lanes):
        single = np.empty((4, 1), np.float32)
        r.fill_normals(single, KEY, r.OBSERVATION, 12, 70 + b, 2, 5)
        assert np.array_equal(single[:, 0], by_agent[:, b])


@pytest.mark.slow
def test_strides_give_the_same_numbers() -> None:
    want = np.empty((4, 37))
    r.fill_normals(want, KEY, r.OBSERVATION, 1, 2, 3, 4)
    wide = np.full((4, 80), np.nan)
    r.fill_normals(wide[:, 1:75:2], KEY, r.OBSERVATION, 1, 2, 3, 4)
    assert np.array_equal(wide[:, 1:75:2], want)
    assert np.isnan(np.delete(wide, np.s_[1:75:2], axis=1)).all()


def test_blocks_do_not_matter() -> None:
    whole = r.normals(3, r.OBSERVATION, range(10, 400), range(4), 2, range(3, 14))
    for name, at in (("trials", 101), ("agents", 1), ("rounds", 6)):
        ranges = {"trials": range(10, 400), "agents": range(4), "rounds": range(3, 14)}
        axis = {"trials": 3, "agents": 1, "rounds": 0}[name]
        full = ranges[name]
        parts = []
        for part in (full[:at], full[at:]):
            ranges[name] = part
            parts.append(r.normals(3, r.OBSERVATION, ranges["trials"], ranges["agents"], 2, ranges["rounds"]))
        assert np.array_equal(np.concatenate(parts, axis=axis), whole), name
    k = r.key(3)
    assert whole[4, 1, 1, 33] == r.normal(k, r.OBSERVATION, 43, 1, 1, 7)
    assert np.array_equal(
        r.normals(3, r.OBSERVATION, range(43, 44), range(1, 2), 2, range(3, 14))[:, 0, :, 0],
        whole[:, 1, :, 33],
    )


def test_index() -> None:
    n = 7
    draws = np.array([r.index(KEY, r.ACTIVATION, trial, t, n) for trial in range(20) for t in range(700)])
    assert draws.min() >= 0
    assert draws.max() < n
    assert stats.chisquare(np.bincount(draws, minlength=n)).pvalue > 1e-3
    # The product of word and n, by Python's integers; n close to its limit.
    for t in range(8):
        word = int(r.words(KEY, r.ACTIVATION, t // 4, 0, 0, 3)[t % 4])
        assert r.index(KEY, r.ACTIVATION, 3, t, 2**32 - 5) == word * (2**32 - 5) >> 32


def test_errors_say_what_came() -> None:
    with pytest.raises(InvalidInput, match="-3"):
        r.key(-3)
    for wrong in (1.5, "1", True, None):
        with pytest.raises(InvalidInput, match=re.escape(str(wrong))):
            r.key(wrong)  # type: ignore[arg-type]
    assert r.key(np.int32(5)) == r.key(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="step 1"):
        r.normals(1, 0, range(0, 10, 2), range(1), 1, range(1))
    with pytest.raises(InvalidInput, match="agents"):
        r.normals(1, 0, range(1), range(-1, 3), 1, range(1))
    with pytest.raises(InvalidInput, match="rounds"):
        r.uniforms(1, 0, range(1), range(1), 1, range(2**34, 2**34 + 1))
    with pytest.raises(InvalidInput, match="purpose"):
        r.normals(1, 256, range(1), range(1), 1, range(1))
    with pytest.raises(InvalidInput, match="trials"):
        r.normals(1, 0, 5, range(1), 1, range(1))  # type: ignore[arg-type]
    assert r.normals(1, 0, range(0), range(3), 2, range(4)).shape == (4, 3, 2, 0)


def test_keys_are_those_of_numpy() -> None:
    """A fixed number: results of old versions stay reproducible."""
    assert r.key(0) == np.random.SeedSequence(0).generate_state(1, np.uint64)[0]
    assert int(r.key(1)) == KEY_OF_ONE


KEY_OF_ONE = 7434755675892716031


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86 assembly")
@pytest.mark.parametrize(
    ("loop", "arguments"),
    [
        (r._panel_squares, (np.empty((4, 128)), np.ones((4, 128), np.uint64), 128)),
        (r._panel_squares, (np.empty((4, 128), np.float32), np.ones((4, 128), np.uint32), 128)),
        (r._panel_normals, (np.empty((4, 128)), 0, np.ones((4, 128)), np.ones((4, 128), np.uint64), 128)),
        (
            r._panel_normals,
            (
                np.empty((4, 128), np.float32),
                0,
                np.ones((4, 128), np.float32),
                np.ones((4, 128), np.uint32),
                128,
            ),
        ),
        (
            r._panel_words,
            (np.ones((4, 128), np.uint64), 128, 0, r.Address(*[np.uint64(0)] * 6, np.uint64(0xFFFFFFFF))),
        ),
    ],
)
def test_loops_are_vectorized(loop: Any, arguments: tuple[Any, ...]) -> None:
    """Packed arithmetic of some kind; which instructions, and from where they read, is LLVM's to choose.

    Compiled afresh, since Numba keeps no assembly of what it has cached.
    """
    afresh: Any = njit(error_model="numpy")(loop.py_func)
    afresh(*arguments)
    assembly = "".join(afresh.inspect_asm().values())
    assert re.search(
        r"\sv?(mul|add|sub|div|sqrt|fn?m(add|sub)\d+)p[sd]\s|\sv?p(mul|add|sub)u?(dq|q)\s", assembly
    )


def test_numbers_without_a_compiler_are_the_same():
    """`counters` draws for agents, which must not load Numba."""
    key = r.key(12345678901234567890)
    for place in ((3, 0, 0, 0, 0), (19, 7, 2**24, 5, 2**33 + 1), (255, 2**32 - 1, 3, 2**24 - 1, 2**34 - 1)):
        assert counters.uniform(key, *place) == r.uniform(key, *place)
