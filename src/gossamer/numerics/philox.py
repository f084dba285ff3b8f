"""Philox4x32-10, and how its words become normals and uniforms: compiled, without branches or library calls.

A word is stored in an unsigned integer as wide as the number that is computed from it: a uint64 for a float64, a uint32
for a float32. In single precision all arithmetic is single, so a vector holds twice as many lanes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types  # type: ignore[import-untyped, unused-ignore]

from gossamer.numerics.compiling import body_of, inlined
from gossamer.numerics.vectors import Untyped, as_bits, as_float, fma

# Philox4x32: multipliers and key increments.
LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
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
ZERO = np.uint64(0)
ONE = np.uint64(1)
TWO = np.uint64(2)
_SIGN_SHIFT = np.uint64(62)

# The same in single precision. The polynomials interpolate 4 atanh(s) / s, (sin(y) / y - 1) / y**2 and
# (cos(y) - 1) / y**2, as functions of the square, in Chebyshev's points, with errors below 1e-8.
_SINGLE = np.float32(1)
_SINGLE_HALF = np.float32(0.5)
_SINGLE_SCALE = np.float32(-(2.0**-33))
_SINGLE_MANTISSA = np.uint32(23)
_SINGLE_EXPONENT_MASK = np.uint32(0xFF800000)
_SINGLE_ROOT_EIGHTH_BITS = np.uint32(0x3EB504F3)
_SINGLE_TWO_LN2 = np.float32(2.0 * math.log(2.0))
_SINGLE_STEP = np.float32(2.0 * math.pi * 2.0**-32)
_33 = np.int32(33)
_SINGLE_EIGHTH = np.int32(1 << 29)
_SINGLE_SIGN_SHIFT = np.uint32(30)
_SL0, _SL1 = np.float32(3.99999999726), np.float32(1.33333630676)
_SL2, _SL3 = np.float32(0.799497010354), np.float32(0.598487809412)
_SS0, _SS1, _SS2 = np.float32(-0.166666646623), np.float32(0.00833274827063), np.float32(-0.000195878908805)
_SC0, _SC1 = np.float32(-0.499999999691), np.float32(0.0416666506445)
_SC2, _SC3 = np.float32(-0.00138875891556), np.float32(2.44637882929e-05)


@inlined
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four words of Philox4x32-10 (32-bit words, each in a uint64)."""
    for _ in range(10):
        # Only the low halves count: the masks say so to LLVM, which then needs one 32-bit multiplication.
        p0 = (c0 & LOW) * _M0
        p1 = (c2 & LOW) * _M1
        c0 = (p1 >> HALF) ^ c1 ^ k0
        c1 = p1
        c2 = (p0 >> HALF) ^ c3 ^ k1
        c3 = p0
        k0 = (k0 + _W0) & LOW
        k1 = (k1 + _W1) & LOW
    return c0 & LOW, c1 & LOW, c2 & LOW, c3 & LOW


@inlined
def _reduce(w: np.uint64) -> tuple[float, float]:
    """Return e and h with (w + 1/2) / 2**32 = 2**-e 2 h and sqrt(1/8) <= h < sqrt(1/2)."""
    bits = as_bits(as_float(_MAGIC_BITS | w) - _MAGIC_LESS_HALF)
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
def _double_squares(w0: np.uint64, w2: np.uint64) -> tuple[float, float]:
    # One division serves both logarithms.
    e0, h0 = _reduce(w0)
    e2, h2 = _reduce(w2)
    g0 = h0 + 0.5
    g2 = h2 + 0.5
    d = 1.0 / (g0 * g2)
    s0 = (h0 - 0.5) * g2 * d
    s2 = (h2 - 0.5) * g0 * d
    return _finish(e0, s0), _finish(e2, s2)


@inlined
def _single_square(w: np.uint32) -> np.float32:
    bits = as_bits(np.float32(w) + _SINGLE_HALF)
    exponent = np.uint32(bits - _SINGLE_ROOT_EIGHTH_BITS) & _SINGLE_EXPONENT_MASK
    e = np.float32(np.int32(_33 - np.int32(exponent >> _SINGLE_MANTISSA)))
    h = as_float(np.uint32(bits - exponent))
    # Close to 1, the difference from 1 is computed from the other end of the word, so that no digits are lost.
    rest = _SINGLE_SCALE * (np.float32(np.uint32(~w)) + _SINGLE_HALF)
    s = (rest if e == np.float32(0) else h - _SINGLE_HALF) / (h + _SINGLE_HALF)
    z = s * s
    p = fma(z, fma(z, fma(z, _SL3, _SL2), _SL1), _SL0)
    square: np.float32 = fma(-s, p, e * _SINGLE_TWO_LN2)
    return square


@inlined
def _single_squares(w0: np.uint32, w2: np.uint32) -> tuple[np.float32, np.float32]:
    return _single_square(w0), _single_square(w2)


def squared_radii(w0: Untyped, w2: Untyped) -> Untyped:
    """Return -2 log u for the uniforms u = (w + 1/2) / 2**32 of two words."""


@body_of(squared_radii)
def _squared_radii(w0: Untyped, w2: Untyped) -> Untyped:
    squares = _single_squares if w0 == types.uint32 else _double_squares
    return lambda w0, w2: squares(w0, w2)


@inlined
def _double_cos_sin(w: np.uint64) -> tuple[float, float]:
    shifted = w + _EIGHTH
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
    odd = (quarter & ONE) != ZERO
    a = sine if odd else cosine
    b = cosine if odd else sine
    a_sign = ((quarter + ONE) & TWO) << _SIGN_SHIFT
    b_sign = (quarter & TWO) << _SIGN_SHIFT
    return as_float(as_bits(a) ^ a_sign), as_float(as_bits(b) ^ b_sign)


@inlined
def _single_cos_sin(w: np.uint32) -> tuple[np.float32, np.float32]:
    shifted = np.uint32(w + np.uint32(_EIGHTH))
    quarter = shifted >> np.uint32(_QUARTER_SHIFT)
    y = _SINGLE_STEP * np.float32(np.int32(np.int32(shifted & np.uint32(_QUARTER_MASK)) - _SINGLE_EIGHTH))
    z = y * y
    sine = fma(z * y, fma(z, fma(z, _SS2, _SS1), _SS0), y)
    cosine = fma(z, fma(z, fma(z, fma(z, _SC3, _SC2), _SC1), _SC0), _SINGLE)
    odd = (quarter & np.uint32(1)) != np.uint32(0)
    a = sine if odd else cosine
    b = cosine if odd else sine
    a_sign = np.uint32((quarter + np.uint32(1)) & np.uint32(2)) << _SINGLE_SIGN_SHIFT
    b_sign = np.uint32(quarter & np.uint32(2)) << _SINGLE_SIGN_SHIFT
    return as_float(np.uint32(as_bits(a) ^ a_sign)), as_float(np.uint32(as_bits(b) ^ b_sign))


def cos_sin(w: Untyped) -> Untyped:
    """Return the cosine and the sine of 2 pi w / 2**32 for a word w."""


@body_of(cos_sin)
def _cos_sin(w: Untyped) -> Untyped:
    turn = _single_cos_sin if w == types.uint32 else _double_cos_sin
    return lambda w: turn(w)


@inlined
def to_uniform(w: np.uint64) -> float:
    """Return (w + 1/2) / 2**32 for a word w."""
    shifted: float = as_float(_MAGIC_BITS | w)
    return (shifted - _MAGIC_LESS_HALF) * _SCALE
