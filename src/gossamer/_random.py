"""Random numbers that are pure functions of where they are used.

Every number is a function of (seed, purpose, trial, agent, component, round) and of nothing else.  It does
not depend on the number of threads, on how the trials are cut into blocks, or on the order of the draws, and
a deployed agent can draw exactly the observations that a simulation drew for it.

The generator is Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random
numbers: as easy as 1, 2, 3", SC 2011).  It maps a counter of four 32-bit words and a key of two to four random
32-bit words.  The words are used as follows.

====  ==============================
word  counter
====  ==============================
c0    round // 4, called the quad
c1    agent
c2    trial
c3    component | (purpose << 24)
====  ==============================

The key is a 64-bit number derived from the seed by `key`; its low half is the first key word.  One call of the
generator serves the four rounds of a quad.  Uniforms are (w + 1/2) / 2**32, word k for round 4 * quad + k.
Normals come by Box and Muller's method: words 0 and 1 give the radius and the angle of the normals of the
first two rounds (cosine, then sine), words 2 and 3 those of the last two.  The radius has 32 bits, so a normal
never exceeds 6.77 in absolute value.

The ranges are those of the counter: round < 2**34, agent and trial < 2**32, component < 2**24, purpose < 256.
The compiled functions do not check them (a number beyond its range wraps round); `normals` and `uniforms` do.

The loops over lanes (trials, or agents) are written so that LLVM vectorises them: no branches, no calls into
the mathematical library, 32-bit multiplications in 64-bit lanes, and polynomials for the logarithm, the sine
and the cosine.  Sums and products are fused only where `_fma` says so, and nothing is compiled with
`fastmath`: vectorised loops, their remainders and single draws round alike, on every machine.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba import carray, njit, types  # type: ignore[import-untyped, unused-ignore]
from numba.extending import intrinsic  # type: ignore[import-untyped, unused-ignore]
from numpy.typing import NDArray

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

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compiled(function: _Function) -> _Function:
    """Compile with the options that every function here uses."""
    options = {"cache": True, "nogil": True, "error_model": "numpy", "boundscheck": False}
    return cast(_Function, njit(**options)(function))


def _inlined(function: _Function) -> _Function:
    """Compile like `_compiled`, and have LLVM put the code into every caller, so that loops vectorise."""
    options = {"cache": True, "nogil": True, "error_model": "numpy", "boundscheck": False}
    return cast(_Function, njit(forceinline=True, **options)(function))


def _intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register with Numba a function that writes its own LLVM instructions."""
    return cast(Callable[..., Any], intrinsic(function))


@_intrinsic
def _as_bits(typing: Any, x: Any) -> Any:
    """Return the bits of a float64 as a uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@_intrinsic
def _as_float(typing: Any, bits: Any) -> Any:
    """Return the float64 that has the bits of a uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@_intrinsic
def _fma(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x * y + z, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@_intrinsic
def _prefer_wide_vectors(typing: Any) -> Any:
    """Ask LLVM to use vectors of 512 bits in the calling function, where the machine has them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), generate


@_intrinsic
def _scratch(typing: Any) -> Any:
    """Return the address of `4 * _LANES` float64 on the stack, aligned to a cache line."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(ir.DoubleType(), 4 * _LANES))
            memory.align = 64
        return builder.bitcast(memory, ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(), generate


# Lanes are worked on by so many at once; the scratch memory of a block is 8 KB.
_LANES = 64
_GRAIN = 8


# Philox4x32: multipliers and key increments.
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)

# The bits of 2**52: a 32-bit integer or-ed into them gives the float64 2**52 + integer.
_MAGIC_BITS = np.uint64(0x4330000000000000)
_MAGIC = 2.0**52

_SCALE = 2.0**-32

# The logarithm: w + 1/2 = 2**k m with sqrt(1/2) <= m < sqrt(2).
_MANTISSA = np.uint64(52)
_EXPONENT_MASK = np.uint64(0xFFF0000000000000)
_ROOT_HALF_BITS = np.uint64(0x3FE6A09E667F3BCD)
_TWO_LN2 = 2.0 * math.log(2.0)

# The polynomials are those of fdlibm (Sun Microsystems, 1993): e_log.c (times two), k_sin.c and k_cos.c.
_L1 = 2.0 * 6.666666666666735130e-01
_L2 = 2.0 * 3.999999999940941908e-01
_L3 = 2.0 * 2.857142874366239149e-01
_L4 = 2.0 * 2.222219843214978396e-01
_L5 = 2.0 * 1.818357216161805012e-01
_L6 = 2.0 * 1.531383769920937332e-01
_L7 = 2.0 * 1.479819860511658591e-01
_S1 = -1.66666666666666324348e-01
_S2 = 8.33333333332248946124e-03
_S3 = -1.98412698298579493134e-04
_S4 = 2.75573137070700676789e-06
_S5 = -2.50507602534068634195e-08
_S6 = 1.58969099521155010221e-10
_C1 = 4.16666666666666019037e-02
_C2 = -1.38888888888741095749e-03
_C3 = 2.48015872894767294178e-05
_C4 = -2.75573143513906633035e-07
_C5 = 2.08757232129817482790e-09
_C6 = -1.13596475577881948265e-11

# The angle: quarter turns and a signed rest of at most an eighth of a turn.
_EIGHTH = np.uint64(1 << 29)
_QUARTER_SHIFT = np.uint64(30)
_QUARTER_MASK = np.uint64((1 << 30) - 1)
_EIGHTH_MAGIC = 2.0**52 + 2.0**29
_STEP = 2.0 * math.pi * 2.0**-32
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_SIGN_SHIFT = np.uint64(62)

_PURPOSE_SHIFT = np.uint64(24)
_ROUND_SHIFT = np.uint64(2)
_ROUND_MASK = np.uint64(3)


@_inlined
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


@_inlined
def _squared_radius(w: np.uint64) -> float:
    """Return -2 log((w + 1/2) / 2**32) for a 32-bit word w."""
    bits = _as_bits(_as_float(_MAGIC_BITS | w) - (_MAGIC - 0.5))
    exponent = (bits - _ROOT_HALF_BITS) & _EXPONENT_MASK
    f = _as_float(bits - exponent) - 1.0
    e = (_MAGIC + 32.0) - _as_float(_MAGIC_BITS | (exponent >> _MANTISSA))
    s = f / (f + 2.0)
    z = s * s
    zz = z * z
    p = _fma(zz, _fma(z, _L7, _L6), _fma(z, _L5, _L4))
    q = _fma(zz, _fma(z, _L3, _L2), _fma(z, _L1, 4.0))
    p = _fma(zz * zz, p, q)
    result: float = _fma(-s, p, e * _TWO_LN2)
    return result


@_inlined
def _cos_sin(w: np.uint64) -> tuple[float, float]:
    """Return the cosine and the sine of 2 pi w / 2**32 for a 32-bit word w."""
    shifted = w + _EIGHTH
    quarter = shifted >> _QUARTER_SHIFT
    x = (_as_float(_MAGIC_BITS | (shifted & _QUARTER_MASK)) - _EIGHTH_MAGIC) * _STEP
    z = x * x
    zz = z * z
    p = _fma(zz, _fma(zz, _fma(z, _S6, _S5), _fma(z, _S4, _S3)), _fma(z, _S2, _S1))
    sine = _fma(z * x, p, x)
    p = _fma(zz, _fma(zz, _fma(z, _C6, _C5), _fma(z, _C4, _C3)), _fma(z, _C2, _C1))
    cosine = _fma(zz, p, _fma(z, -0.5, 1.0))
    # Turn by the quarters: swap if odd; the cosine is negative in quarters 1 and 2, the sine in 2 and 3.
    odd = (quarter & _ONE) != np.uint64(0)
    a = sine if odd else cosine
    b = cosine if odd else sine
    a_sign = ((quarter + _ONE) & _TWO) << _SIGN_SHIFT
    b_sign = (quarter & _TWO) << _SIGN_SHIFT
    return _as_float(_as_bits(a) ^ a_sign), _as_float(_as_bits(b) ^ b_sign)


@_inlined
def _four_normals(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[float, float, float, float]:
    """Return the four normals of one counter."""
    w0, w1, w2, w3 = _philox(c0, c1, c2, c3, k0, k1)
    r0 = math.sqrt(_squared_radius(w0))
    r2 = math.sqrt(_squared_radius(w2))
    x0, x1 = _cos_sin(w1)
    x2, x3 = _cos_sin(w3)
    return r0 * x0, r0 * x1, r2 * x2, r2 * x3



@_compiled
def _block_words(
    block: NDArray[np.float64], n: int, c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64,
    d1: np.uint64, d2: np.uint64, key: np.uint64
) -> None:
    _prefer_wide_vectors()
    k0 = key & _LOW
    k1 = key >> _HALF
    for b in range(n):
        lane = np.uint64(b)
        w0, w1, w2, w3 = _philox(c0, c1 + (d1 & lane), c2 + (d2 & lane), c3, k0, k1)
        block[0, b] = _as_float(_MAGIC_BITS | w0)
        block[1, b] = _as_float(_MAGIC_BITS | w1)
        block[2, b] = _as_float(_MAGIC_BITS | w2)
        block[3, b] = _as_float(_MAGIC_BITS | w3)


@_compiled
def _block_normals(block: NDArray[np.float64], n: int) -> None:
    _prefer_wide_vectors()
    for b in range(n):
        r0 = math.sqrt(_squared_radius(_as_bits(block[0, b]) & _LOW))
        r2 = math.sqrt(_squared_radius(_as_bits(block[2, b]) & _LOW))
        x0, x1 = _cos_sin(_as_bits(block[1, b]) & _LOW)
        x2, x3 = _cos_sin(_as_bits(block[3, b]) & _LOW)
        block[0, b] = r0 * x0
        block[1, b] = r0 * x1
        block[2, b] = r2 * x2
        block[3, b] = r2 * x3

@_compiled
def _normal_block(block, n, c0, c1, c2, c3, d1, d2, key):
    _block_words(block, n, c0,c1,c2,c3,d1,d2,key)
    _block_normals(block, n)

@_compiled
def _fill(out, key, c0, c1, c2, c3, d1, d2):
    lanes = out.shape[1]
    block = carray(_scratch(), (4, _LANES))
    for start in range(0, lanes, _LANES):
        n = min(_LANES, lanes - start)
        m = (n + _GRAIN - 1) // _GRAIN * _GRAIN
        s = np.uint64(start)
        _normal_block(block, m, c0, c1 + (d1 & s), c2 + (d2 & s), c3, d1, d2, key)
        for k in range(4):
            for b in range(n):
                out[k, start + b] = block[k, b]

@_compiled
def fill_normals(
    out: NDArray[Any],
    key: np.uint64,
    purpose: int,
    quad: int,
    agent: int,
    component: int,
    first_trial: int,
) -> None:
    c0 = np.uint64(quad)
    c1 = np.uint64(agent)
    c2 = np.uint64(first_trial)
    c3 = np.uint64(component) | (np.uint64(purpose) << _PURPOSE_SHIFT)
    _fill(out, np.uint64(key), c0,c1,c2,c3,np.uint64(0),_LOW)

@_compiled
def fill_normals_agents(
    out: NDArray[Any],
    key: np.uint64,
    purpose: int,
    quad: int,
    agent: int,
    component: int,
    first_trial: int,
) -> None:
    c0 = np.uint64(quad)
    c1 = np.uint64(agent)
    c2 = np.uint64(first_trial)
    c3 = np.uint64(component) | (np.uint64(purpose) << _PURPOSE_SHIFT)
    _fill(out, np.uint64(key), c0,c1,c2,c3,_LOW,np.uint64(0))
