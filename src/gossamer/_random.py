"""Random numbers that are pure functions of where they are used.

Every number is a function of (seed, purpose, trial, agent, component, round) and of nothing else.  It does
not depend on the number of threads, on how the trials are cut into blocks, or on the order of the draws, and
a deployed agent can draw exactly the observations that a simulation drew for it.

The generator is Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel
random numbers: as easy as 1, 2, 3", SC 2011).  It maps a counter of four 32-bit words and a key of two to
four random 32-bit words.  The counter is used as follows.

====  ==============================
word  counter
====  ==============================
c0    round // 4, called the quad
c1    agent
c2    trial
c3    component | (purpose << 24)
====  ==============================

The key is a 64-bit number derived from the seed by `key`; its low half is the first key word.  One call of
the generator serves the four rounds of a quad.  Uniforms are (w + 1/2) / 2**32, word k for round
4 * quad + k.  Normals come by Box and Muller's method: words 0 and 1 give the radius sqrt(-2 log u) and the
angle 2 pi w / 2**32 of the normals of the first two rounds (cosine, then sine), words 2 and 3 those of the
last two.  The radius has 32 bits, so a normal never exceeds 6.77 in absolute value.

The ranges are those of the counter: round < 2**34, agent and trial < 2**32, component < 2**24, purpose < 256.
The compiled functions do not check them (a number beyond its range wraps round); `normals` and `uniforms` do.

The loops over lanes (trials, or agents) are written so that LLVM vectorises them: no branches, no calls into
the mathematical library, 32-bit multiplications in 64-bit lanes, and polynomials for the logarithm, the sine
and the cosine.  Vectorised loops, their remainders and single draws round alike (see `_vector.py`).
"""

from __future__ import annotations

import math
import operator
from typing import Any, cast

import numpy as np
from numba.np.numpy_support import carray  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import NDArray

from gossamer._vector import (
    GRAIN,
    LANES,
    as_bits,
    as_float,
    compiled,
    fma,
    inlined,
    prefer_wide_vectors,
    scratch,
)
from gossamer.errors import InvalidInput

__all__ = [
    "ACTIVATION",
    "FAULT",
    "OBSERVATION",
    "PROBLEM",
    "SECOND",
    "fill_normals",
    "fill_normals_agents",
    "fill_uniforms",
    "index",
    "key",
    "normal",
    "normals",
    "uniform",
    "uniforms",
    "words",
]

OBSERVATION = 0
"""Purpose: the noise of the observations."""
SECOND = 1
"""Purpose: a second, independent noise beside the observations."""
ACTIVATION = 2
"""Purpose: which agents, or which edges, are active in a round."""
FAULT = 3
"""Purpose: lost messages, failed links and other faults."""
PROBLEM = 4
"""Purpose: the random parts of a problem itself."""

# Philox4x32: multipliers and key increments.
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)

# The bits of 2**52: a 32-bit integer or-ed into them gives the float64 2**52 + integer.
_MAGIC_BITS = np.uint64(0x4330000000000000)
_MAGIC_LESS_HALF = 2.0**52 - 0.5
_MAGIC_AND_33 = 2.0**52 + 33.0

_SCALE = 2.0**-32

# The logarithm: w + 1/2 = 2**k h with k >= 0 and sqrt(1/8) <= h < sqrt(1/2), also for w = 0.
_MANTISSA = np.uint64(52)
_EXPONENT_MASK = np.uint64(0xFFF0000000000000)
_ROOT_EIGHTH_BITS = np.uint64(0x3FD6A09E667F3BCD)
_TWO_LN2 = 2.0 * math.log(2.0)

# The polynomials are those of fdlibm (Sun Microsystems, 1993): e_log.c times two, and k_sin.c and k_cos.c in
# steps of 2**-32 of a turn instead of radians.
_L1 = 2.0 * 6.666666666666735130e-01
_L2 = 2.0 * 3.999999999940941908e-01
_L3 = 2.0 * 2.857142874366239149e-01
_L4 = 2.0 * 2.222219843214978396e-01
_L5 = 2.0 * 1.818357216161805012e-01
_L6 = 2.0 * 1.531383769920937332e-01
_L7 = 2.0 * 1.479819860511658591e-01
_S0 = 6.283185307179586 * 2.0**-32
_S1 = -41.34170224039968 * 2.0**-96
_S2 = 81.60524927596886 * 2.0**-160
_S3 = -76.7058597089433 * 2.0**-224
_S4 = 42.05868552483791 * 2.0**-288
_S5 = -15.093830287058815 * 2.0**-352
_S6 = 3.7813859205893228 * 2.0**-416
_C1 = -19.739208802178716 * 2.0**-64
_C2 = 64.9393940226682 * 2.0**-128
_C3 = -85.45681720660279 * 2.0**-192
_C4 = 60.2446413424593 * 2.0**-256
_C5 = -26.426252110769937 * 2.0**-320
_C6 = 7.90314500414306 * 2.0**-384
_C7 = -1.697786258825899 * 2.0**-448

# The angle: quarter turns and a signed rest of at most an eighth of a turn.
_EIGHTH = np.uint64(1 << 29)
_QUARTER_SHIFT = np.uint64(30)
_QUARTER_MASK = np.uint64((1 << 30) - 1)
_EIGHTH_MAGIC = 2.0**52 + 2.0**29
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_SIGN_SHIFT = np.uint64(62)

_PURPOSE_SHIFT = np.uint64(24)
_ROUND_MASK = np.uint64(3)


@inlined
def _philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four words of Philox4x32-10 (32-bit words, each in a uint64)."""
    for _ in range(10):
        # Only the low halves count: the masks say so to LLVM, which then needs one 32-bit multiplication.
        p0 = (c0 & _LOW) * _M0
        p1 = (c2 & _LOW) * _M1
        c0 = (p1 >> _HALF) ^ c1 ^ k0
        c1 = p1
        c2 = (p0 >> _HALF) ^ c3 ^ k1
        c3 = p0
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0 & _LOW, c1 & _LOW, c2 & _LOW, c3 & _LOW


@inlined
def _reduce(x: float) -> tuple[float, float]:
    """Return e and h with (w + 1/2) / 2**32 = 2**-e 2 h and sqrt(1/8) <= h < sqrt(1/2), for x = 2**52 + w."""
    bits = as_bits(x - _MAGIC_LESS_HALF)
    exponent = (bits - _ROOT_EIGHTH_BITS) & _EXPONENT_MASK
    e = _MAGIC_AND_33 - as_float(_MAGIC_BITS | (exponent >> _MANTISSA))
    return e, as_float(bits - exponent)


@inlined
def _finish(e: float, s: float) -> float:
    """Return 2 e log(2) - 2 log(2 h) for s = (2 h - 1) / (2 h + 1)."""
    z = s * s
    zz = z * z
    p = fma(zz, fma(z, _L7, _L6), fma(z, _L5, _L4))
    q = fma(zz, fma(z, _L3, _L2), fma(z, _L1, 4.0))
    p = fma(zz * zz, p, q)
    result: float = fma(-s, p, e * _TWO_LN2)
    return result


@inlined
def _radii(x0: float, x2: float) -> tuple[float, float]:
    """Return sqrt(-2 log u) for two uniforms u, whose words are given as 2**52 + w."""
    # One division serves both logarithms.
    e0, h0 = _reduce(x0)
    e2, h2 = _reduce(x2)
    g0 = h0 + 0.5
    g2 = h2 + 0.5
    d = 1.0 / (g0 * g2)
    s0 = (h0 - 0.5) * g2 * d
    s2 = (h2 - 0.5) * g0 * d
    return math.sqrt(_finish(e0, s0)), math.sqrt(_finish(e2, s2))


@inlined
def _cos_sin(x: float) -> tuple[float, float]:
    """Return the cosine and the sine of 2 pi w / 2**32 for a 32-bit word w, given as 2**52 + w."""
    shifted = as_bits(x) + _EIGHTH
    quarter = shifted >> _QUARTER_SHIFT
    y = as_float(_MAGIC_BITS | (shifted & _QUARTER_MASK)) - _EIGHTH_MAGIC
    z = y * y
    p = fma(z, _S6, _S5)
    p = fma(z, p, _S4)
    p = fma(z, p, _S3)
    p = fma(z, p, _S2)
    p = fma(z, p, _S1)
    sine = y * fma(z, p, _S0)
    p = fma(z, _C7, _C6)
    p = fma(z, p, _C5)
    p = fma(z, p, _C4)
    p = fma(z, p, _C3)
    p = fma(z, p, _C2)
    p = fma(z, p, _C1)
    cosine = fma(z, p, 1.0)
    # Turn by the quarters: swap if odd; the cosine is negative in quarters 1 and 2, the sine in 2 and 3.
    odd = (quarter & _ONE) != _ZERO
    a = sine if odd else cosine
    b = cosine if odd else sine
    a_sign = ((quarter + _ONE) & _TWO) << _SIGN_SHIFT
    b_sign = (quarter & _TWO) << _SIGN_SHIFT
    return as_float(as_bits(a) ^ a_sign), as_float(as_bits(b) ^ b_sign)


@inlined
def _uniform(x: float) -> float:
    """Return (w + 1/2) / 2**32 for a 32-bit word w, given as 2**52 + w."""
    return (x - _MAGIC_LESS_HALF) * _SCALE


@inlined
def _last_word(purpose: int, component: int) -> np.uint64:
    """Return the counter word of a component and a purpose."""
    return np.uint64(component) | (np.uint64(purpose) << _PURPOSE_SHIFT)


@compiled
def _block_words(
    block: NDArray[np.float64],
    n: int,
    c0: np.uint64,
    c1: np.uint64,
    c2: np.uint64,
    c3: np.uint64,
    key: np.uint64,
    over_agents: np.uint64,
    over_trials: np.uint64,
) -> None:
    """Write the words of n lanes, each as the float64 2**52 + w.

    The masks are all ones for the counter word that counts the lanes and zero for the other.
    """
    prefer_wide_vectors()
    k0 = key & _LOW
    k1 = key >> _HALF
    for b in range(n):
        lane = np.uint64(b)
        w0, w1, w2, w3 = _philox(c0, c1 + (lane & over_agents), c2 + (lane & over_trials), c3, k0, k1)
        block[0, b] = as_float(_MAGIC_BITS | w0)
        block[1, b] = as_float(_MAGIC_BITS | w1)
        block[2, b] = as_float(_MAGIC_BITS | w2)
        block[3, b] = as_float(_MAGIC_BITS | w3)


@compiled
def _block_normals(out: NDArray[Any], start: int, block: NDArray[np.float64], n: int) -> None:
    """Write the normals of n lanes of words into the columns of out from start on; out is not the block."""
    prefer_wide_vectors()
    first = np.uint64(start)  # unsigned, so that Numba does not ask whether an index is negative
    for b in range(n):
        lane = first + np.uint64(b)
        r0, r2 = _radii(block[0, b], block[2, b])
        x0, x1 = _cos_sin(block[1, b])
        x2, x3 = _cos_sin(block[3, b])
        out[0, lane] = r0 * x0
        out[1, lane] = r0 * x1
        out[2, lane] = r2 * x2
        out[3, lane] = r2 * x3


@compiled
def _block_uniforms(out: NDArray[Any], start: int, block: NDArray[np.float64], n: int) -> None:
    """Write the uniforms of n lanes of words into the columns of out from start on."""
    prefer_wide_vectors()
    first = np.uint64(start)
    for k in range(4):
        for b in range(n):
            out[k, first + np.uint64(b)] = _uniform(block[k, b])


@compiled
def _fill_normals(
    out: NDArray[Any],
    c0: np.uint64,
    c1: np.uint64,
    c2: np.uint64,
    c3: np.uint64,
    key: np.uint64,
    over_agents: np.uint64,
    over_trials: np.uint64,
) -> None:
    """Fill out with normals, its lanes counting agents or trials."""
    lanes = out.shape[1]
    block = carray(scratch(), (4, LANES))
    for start in range(0, lanes, LANES):
        n = min(LANES, lanes - start)
        full = (n + GRAIN - 1) // GRAIN * GRAIN
        s = np.uint64(start)
        _block_words(
            block, full, c0, c1 + (s & over_agents), c2 + (s & over_trials), c3, key, over_agents, over_trials
        )
        if n == full:
            _block_normals(out, start, block, n)
        else:
            # The last vector is computed in full, aside, and the lanes that count are copied.
            rest = carray(scratch(), (4, LANES))
            _block_normals(rest, 0, block, full)
            for k in range(4):
                for b in range(n):
                    out[k, s + np.uint64(b)] = rest[k, b]


@compiled
def fill_normals(
    out: NDArray[Any],
    key: np.uint64,
    purpose: int,
    quad: int,
    agent: int,
    component: int,
    first_trial: int,
) -> None:
    """Fill `out` with the standard normals of four rounds, one lane for each of consecutive trials.

    ``out[k, b]`` becomes the normal of round ``4 * quad + k`` and of trial ``first_trial + b``.

    Parameters
    ----------
    out
        Array of shape (4, B), float64 or float32.  It should be C-contiguous, and typed so; other layouts
        give the same numbers more slowly.  Fastest if B is a multiple of 8.
    key
        What `key` made of the seed.
    purpose
        One of the purposes of this module.
    quad
        Number of the round, divided by four and rounded down.
    agent, component
        Whose normals, and which of its components.
    first_trial
        Trial of the first lane.
    """
    _fill_normals(
        out,
        np.uint64(quad),
        np.uint64(agent),
        np.uint64(first_trial),
        _last_word(purpose, component),
        np.uint64(key),
        _ZERO,
        _LOW,
    )


@compiled
def fill_normals_agents(
    out: NDArray[Any],
    key: np.uint64,
    purpose: int,
    quad: int,
    first_agent: int,
    component: int,
    trial: int,
) -> None:
    """Fill `out` with the standard normals of four rounds, one lane for each of consecutive agents.

    ``out[k, b]`` becomes the normal of round ``4 * quad + k`` and of agent ``first_agent + b``.

    Parameters
    ----------
    out
        Array of shape (4, B), as in `fill_normals`.
    key
        What `key` made of the seed.
    purpose
        One of the purposes of this module.
    quad
        Number of the round, divided by four and rounded down.
    first_agent
        Agent of the first lane.
    component, trial
        Which component, in which trial.
    """
    _fill_normals(
        out,
        np.uint64(quad),
        np.uint64(first_agent),
        np.uint64(trial),
        _last_word(purpose, component),
        np.uint64(key),
        _LOW,
        _ZERO,
    )


@compiled
def fill_uniforms(
    out: NDArray[Any],
    key: np.uint64,
    purpose: int,
    quad: int,
    agent: int,
    component: int,
    first_trial: int,
) -> None:
    """Fill `out` with the uniforms of four rounds, one lane for each of consecutive trials.

    ``out[k, b]`` becomes the uniform of round ``4 * quad + k`` and of trial ``first_trial + b``.  It lies
    strictly between 0 and 1 in a float64; in a float32 it may be rounded to 1.

    Parameters
    ----------
    out
        Array of shape (4, B), as in `fill_normals`.
    key
        What `key` made of the seed.
    purpose
        One of the purposes of this module.
    quad
        Number of the round, divided by four and rounded down.
    agent, component
        Whose uniforms, and which of its components.
    first_trial
        Trial of the first lane.
    """
    lanes = out.shape[1]
    block = carray(scratch(), (4, LANES))
    c2 = np.uint64(first_trial)
    c3 = _last_word(purpose, component)
    for start in range(0, lanes, LANES):
        n = min(LANES, lanes - start)
        full = (n + GRAIN - 1) // GRAIN * GRAIN
        trial = c2 + np.uint64(start)
        _block_words(block, full, np.uint64(quad), np.uint64(agent), trial, c3, np.uint64(key), _ZERO, _LOW)
        _block_uniforms(out, start, block, n)


@compiled
def words(
    key: np.uint64, purpose: int, quad: int, agent: int, component: int, trial: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four random 32-bit words of a quad of rounds, each in a uint64.

    Parameters
    ----------
    key
        What `key` made of the seed.
    purpose
        One of the purposes of this module.
    quad
        Number of the round, divided by four and rounded down.
    agent, component, trial
        Whose words, of which component, in which trial.
    """
    k = np.uint64(key)
    c3 = _last_word(purpose, component)
    return _philox(np.uint64(quad), np.uint64(agent), np.uint64(trial), c3, k & _LOW, k >> _HALF)


@compiled
def _word(key: np.uint64, purpose: int, trial: int, agent: int, component: int, round: int) -> np.uint64:
    """Return the random 32-bit word of one round."""
    r = np.uint64(round)
    w0, w1, w2, w3 = words(key, purpose, round >> 2, agent, component, trial)
    k = r & _ROUND_MASK
    return (w0 if k == _ZERO else w1) if k < _TWO else (w2 if k == _TWO else w3)


@compiled
def normal(key: np.uint64, purpose: int, trial: int, agent: int, component: int, round: int) -> float:
    """Return the standard normal of one round, bit for bit the one that the fill functions write.

    Parameters
    ----------
    key
        What `key` made of the seed.
    purpose
        One of the purposes of this module.
    trial, agent, component, round
        Where the number is used.
    """
    r = np.uint64(round)
    w0, w1, w2, w3 = words(key, purpose, round >> 2, agent, component, trial)
    r0, r2 = _radii(as_float(_MAGIC_BITS | w0), as_float(_MAGIC_BITS | w2))
    second = (r & _TWO) != _ZERO
    x, y = _cos_sin(as_float(_MAGIC_BITS | (w3 if second else w1)))
    return (r2 if second else r0) * (y if (r & _ONE) != _ZERO else x)


@compiled
def uniform(key: np.uint64, purpose: int, trial: int, agent: int, component: int, round: int) -> float:
    """Return the uniform of one round, strictly between 0 and 1: the one that `fill_uniforms` writes.

    Parameters
    ----------
    key
        What `key` made of the seed.
    purpose
        One of the purposes of this module.
    trial, agent, component, round
        Where the number is used.
    """
    return _uniform(as_float(_MAGIC_BITS | _word(key, purpose, trial, agent, component, round)))


@compiled
def index(key: np.uint64, purpose: int, trial: int, round: int, n: int) -> int:
    """Return a random integer from 0 to n - 1, for example an edge that gossips in a round.

    Each integer has its probability 1 / n up to 2**-32.  The word is that of agent 0 and component 0.

    Parameters
    ----------
    key
        What `key` made of the seed.
    purpose
        One of the purposes of this module.
    trial, round
        Where the number is used.
    n
        How many integers there are to choose from, at least 1 and less than 2**32.
    """
    # As an int64: Numba makes a float64 of a uint64 and an int64.
    return np.int64((_word(key, purpose, trial, 0, 0, round) * np.uint64(n)) >> _HALF)  # type: ignore[return-value]


@compiled
def _draw(
    out: NDArray[np.float64],
    gaussian: bool,
    key: np.uint64,
    purpose: int,
    first_trial: int,
    first_agent: int,
    first_round: int,
) -> None:
    """Fill out, of shape (rounds, agents, components, trials), with normals or with uniforms."""
    rounds, agents, components, trials = out.shape
    buffer = np.empty((4, trials))
    for agent in range(agents):
        for component in range(components):
            for quad in range(first_round // 4, (first_round + rounds + 3) // 4):
                if gaussian:
                    fill_normals(buffer, key, purpose, quad, first_agent + agent, component, first_trial)
                else:
                    fill_uniforms(buffer, key, purpose, quad, first_agent + agent, component, first_trial)
                for k in range(4):
                    row = 4 * quad + k - first_round
                    if 0 <= row < rounds:
                        out[row, agent, component] = buffer[k]


def key(seed: int) -> np.uint64:
    """Return the 64-bit key of a seed, which the compiled functions take.

    Parameters
    ----------
    seed
        A non-negative integer of any size.
    """
    if isinstance(seed, bool):
        raise InvalidInput(
            f"seed must be a non-negative integer, not the truth value {seed}; pass for example 1"
        )
    try:
        number = operator.index(seed)
    except TypeError:
        raise InvalidInput(
            f"seed must be a non-negative integer, not {seed!r} of type {type(seed).__name__}; "
            "pass for example 1"
        ) from None
    if number < 0:
        raise InvalidInput(f"seed must not be negative, but {number} came; pass for example {-number}")
    return cast(np.uint64, np.random.SeedSequence(number).generate_state(1, np.uint64)[0])


def _check_range(name: str, values: range, limit: int) -> None:
    """Refuse a range with steps, or one that leaves the generator's counter."""
    if not isinstance(values, range):
        raise InvalidInput(f"{name} must be a range, not {values!r}; pass for example range(10)")
    if len(values) and values.step != 1:
        raise InvalidInput(
            f"{name} must be a range of step 1, not {values!r}; draw them all and take a slice"
        )
    if len(values) and (values.start < 0 or values.stop > limit):
        raise InvalidInput(f"{name} must lie between 0 and {limit - 1}, but {values!r} came; choose others")


def _check_and_draw(
    gaussian: bool, seed: int, purpose: int, trials: range, agents: range, components: int, rounds: range
) -> NDArray[np.float64]:
    """Check the arguments of `normals` and `uniforms`, and draw."""
    if not 0 <= purpose < 1 << 8:
        raise InvalidInput(
            f"purpose must lie between 0 and 255, but {purpose} came; use the module's constants"
        )
    if not 0 <= components <= 1 << 24:
        raise InvalidInput(f"components must lie between 0 and {1 << 24}, but {components} came; draw fewer")
    _check_range("trials", trials, 1 << 32)
    _check_range("agents", agents, 1 << 32)
    _check_range("rounds", rounds, 1 << 34)
    out = np.empty((len(rounds), len(agents), components, len(trials)))
    if out.size:
        _draw(out, gaussian, key(seed), purpose, trials.start, agents.start, rounds.start)
    return out


def normals(
    seed: int, purpose: int, trials: range, agents: range, components: int, rounds: range
) -> NDArray[np.float64]:
    """Return the standard normals that a simulation with this seed uses.

    Parameters
    ----------
    seed
        A non-negative integer.
    purpose
        One of the purposes of this module.
    trials, agents, rounds
        Which ones: ranges of step 1.  An agent that runs by itself asks for one trial and one agent.
    components
        How many components each agent has.

    Returns
    -------
    ndarray
        Of shape (rounds, agents, components, trials).
    """
    return _check_and_draw(True, seed, purpose, trials, agents, components, rounds)


def uniforms(
    seed: int, purpose: int, trials: range, agents: range, components: int, rounds: range
) -> NDArray[np.float64]:
    """Return the uniforms, strictly between 0 and 1, that a simulation with this seed uses.

    Parameters
    ----------
    seed
        A non-negative integer.
    purpose
        One of the purposes of this module.
    trials, agents, rounds
        Which ones: ranges of step 1.
    components
        How many components each agent has.

    Returns
    -------
    ndarray
        Of shape (rounds, agents, components, trials).
    """
    return _check_and_draw(False, seed, purpose, trials, agents, components, rounds)
