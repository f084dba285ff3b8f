"""Random numbers that are pure functions of where they are used.

Every number is a function of (seed, purpose, trial, agent, component, round) and of nothing else. It does not depend on
the number of threads, on how trials are divided into blocks, or on the order of the draws, and a deployed agent can
draw exactly the observations that a simulation drew for it.

The generator is Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel
random numbers: as easy as 1, 2, 3", SC 2011). It maps a counter of four 32-bit words and a key of two to
four random 32-bit words. The counter is used as follows.

====  ==============================
word  counter
====  ==============================
c0    round // 4, called the quad
c1    agent
c2    trial
c3    component | (purpose << 24)
====  ==============================

The key is a 64-bit number derived from the seed by `key`; its low half is the first key word. One call of
the generator serves the four rounds of a quad. Uniforms are (w + 1/2) / 2**32, word k for round
4 * quad + k. Normals come from Box and Muller's method: words 0 and 1 give the radius sqrt(-2 log u) and the
angle 2 pi w / 2**32 of the normals of the first two rounds (cosine, then sine), words 2 and 3 those of the
last two. The radius has 32 bits, so a normal never exceeds 6.77 in absolute value.

The functions below take the key and the place where a number is used: `purpose` is one of this module's constants,
`quad` is round // 4. The fill functions write into `out` (4, lanes), float64 or float32, best C-contiguous and with
lanes in multiples of 8.

The ranges are those of the counter: round < 2**34, agent and trial < 2**32, component < 2**24, purpose < 256.
The compiled functions do not check them (a number beyond its range wraps around); `normals` and `uniforms` do.

The loops over lanes (trials, or agents) are written so that LLVM vectorizes them: no branches, no calls into
the mathematical library, 32-bit multiplications in 64-bit lanes, and polynomials for the logarithm, the sine
and the cosine. Vectorized loops, their remainders and single draws round identically (see `vectors.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba.np.numpy_support import carray  # type: ignore[import-untyped, unused-ignore]

from gossamer.arrays import AnyArray, Floats
from gossamer.errors import InvalidInput
from gossamer.numerics.compiling import compiled, inlined
from gossamer.numerics.counters import FAULT, key
from gossamer.numerics.philox import HALF, LOW, ONE, TWO, ZERO, cos_sin, philox, squared_radii, to_uniform
from gossamer.numerics.vectors import GRAIN, PANEL, prefer_wide_vectors, scratch, scratch_words

__all__ = [
    "ACTIVATION",
    "FAULT",
    "LEVEL",
    "MASK",
    "OBSERVATION",
    "PROBLEM",
    "SECOND",
    "TOPOLOGY",
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
"""Purpose: a second noise, independent of the first."""
ACTIVATION = 2
"""Purpose: which agents, or which edges, are active in a round."""
PROBLEM = 4
"""Purpose: the random parts of a problem itself."""
TOPOLOGY = 5
"""Purpose: the edges of random networks."""
MASK = 6
"""Purpose: the masks of edges."""
LEVEL = 7
"""Purpose: the noise that agents add to their levels."""

_PURPOSE_SHIFT = np.uint64(24)
_ROUND_MASK = np.uint64(3)


@inlined
def _last_word(purpose: int, component: int) -> np.uint64:
    """Return the counter word of a component and a purpose."""
    return np.uint64(component) | (np.uint64(purpose) << _PURPOSE_SHIFT)


class Address(NamedTuple):
    """The counter and the key of the first of several lanes; one of the masks is all ones, the other zero."""

    quad: np.uint64
    agent: np.uint64
    trial: np.uint64
    last: np.uint64  #: component and purpose
    key: np.uint64
    over_agents: np.uint64  #: all ones if the lanes are consecutive agents
    over_trials: np.uint64  #: all ones if the lanes are consecutive trials


@compiled
def _panel_words(panel: AnyArray, n: int, start: int, at: Address) -> None:
    """Write the words of n lanes from lane `start` on."""
    prefer_wide_vectors()
    s = np.uint64(start)
    agent, trial = at.agent + (s & at.over_agents), at.trial + (s & at.over_trials)
    k0 = at.key & LOW
    k1 = at.key >> HALF
    for b in range(n):
        lane = np.uint64(b)
        w0, w1, w2, w3 = philox(
            at.quad, agent + (lane & at.over_agents), trial + (lane & at.over_trials), at.last, k0, k1
        )
        panel[0, b] = w0
        panel[1, b] = w1
        panel[2, b] = w2
        panel[3, b] = w3


@compiled
def _panel_squares(squares: AnyArray, panel: AnyArray, n: int) -> None:
    """Write the squared radii of n lanes of words into rows 0 and 2.

    Separate from `_panel_normals`, so that the divisions of several lanes are within the few hundred instructions that
    a processor looks ahead.
    """
    prefer_wide_vectors()
    for b in range(n):
        squares[0, b], squares[2, b] = squared_radii(panel[0, b], panel[2, b])


@compiled
def _panel_normals(out: AnyArray, start: int, squares: AnyArray, panel: AnyArray, n: int) -> None:
    """Write the normals of n lanes of words into the columns of out from start on."""
    prefer_wide_vectors()
    first = np.uint64(start)  # unsigned, so that Numba does not check for negative indices
    for pair in range(0, 4, 2):
        for b in range(n):
            lane = first + np.uint64(b)
            cosine, sine = cos_sin(panel[pair + 1, b])
            radius = math.sqrt(squares[pair, b])
            out[pair, lane] = radius * cosine
            out[pair + 1, lane] = radius * sine


@compiled
def _panel_uniforms(out: AnyArray, start: int, panel: AnyArray, n: int) -> None:
    """Write the uniforms of n lanes of words into the columns of out from start on."""
    prefer_wide_vectors()
    first = np.uint64(start)
    for k in range(4):
        for b in range(n):
            out[k, first + np.uint64(b)] = to_uniform(np.uint64(panel[k, b]))


@compiled
def _fill_normals(out: AnyArray, at: Address) -> None:
    """Fill out with normals, its lanes counting agents or trials."""
    lanes = out.shape[1]
    panel, squares = carray(scratch_words(out), (4, PANEL)), carray(scratch(out), (4, PANEL))
    for start in range(0, lanes, PANEL):
        n = min(PANEL, lanes - start)
        full = (n + GRAIN - 1) // GRAIN * GRAIN
        _panel_words(panel, full, start, at)
        _panel_squares(squares, panel, full)
        if n == full:
            _panel_normals(out, start, squares, panel, n)
        else:
            # The last vector is computed in full in a buffer, and only the lanes that are needed are copied.
            rest = carray(scratch(out), (4, PANEL))
            _panel_normals(rest, 0, squares, panel, full)
            for k in range(4):
                for b in range(n):
                    out[k, np.uint64(start + b)] = rest[k, b]


@compiled
def fill_normals(
    out: AnyArray,
    key: np.uint64,
    purpose: int,
    quad: int,
    agent: int,
    component: int,
    first_trial: int,
) -> None:
    """Fill `out` with the standard normals of four rounds, one lane for each of several consecutive trials.

    ``out[k, b]`` becomes the normal of round ``4 * quad + k`` and of trial ``first_trial + b``.
    """
    last = _last_word(purpose, component)
    _fill_normals(
        out,
        Address(np.uint64(quad), np.uint64(agent), np.uint64(first_trial), last, np.uint64(key), ZERO, LOW),
    )


@compiled
def fill_normals_agents(
    out: AnyArray,
    key: np.uint64,
    purpose: int,
    quad: int,
    first_agent: int,
    component: int,
    trial: int,
) -> None:
    """Fill `out` with the standard normals of four rounds, one lane for each of several consecutive agents.

    ``out[k, b]`` becomes the normal of round ``4 * quad + k`` and of agent ``first_agent + b``.
    """
    last = _last_word(purpose, component)
    _fill_normals(
        out,
        Address(np.uint64(quad), np.uint64(first_agent), np.uint64(trial), last, np.uint64(key), LOW, ZERO),
    )


@compiled
def fill_uniforms(
    out: AnyArray,
    key: np.uint64,
    purpose: int,
    quad: int,
    agent: int,
    component: int,
    first_trial: int,
) -> None:
    """Fill `out` with the uniforms of four rounds, one lane for each of several consecutive trials.

    ``out[k, b]`` becomes the uniform of round ``4 * quad + k`` and of trial ``first_trial + b``. It lies
    strictly between 0 and 1 in a float64; in a float32 it may be rounded to 1.
    """
    lanes = out.shape[1]
    panel = carray(scratch_words(out), (4, PANEL))
    last = _last_word(purpose, component)
    at = Address(np.uint64(quad), np.uint64(agent), np.uint64(first_trial), last, np.uint64(key), ZERO, LOW)
    for start in range(0, lanes, PANEL):
        n = min(PANEL, lanes - start)
        _panel_words(panel, (n + GRAIN - 1) // GRAIN * GRAIN, start, at)
        _panel_uniforms(out, start, panel, n)


@compiled
def words(
    key: np.uint64, purpose: int, quad: int, agent: int, component: int, trial: int
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four random 32-bit words of a quad of rounds, each in a uint64."""
    k = np.uint64(key)
    c3 = _last_word(purpose, component)
    return philox(np.uint64(quad), np.uint64(agent), np.uint64(trial), c3, k & LOW, k >> HALF)


@compiled
def _word(key: np.uint64, purpose: int, trial: int, agent: int, component: int, round: int) -> np.uint64:
    """Return the random 32-bit word of one round."""
    r = np.uint64(round)
    w0, w1, w2, w3 = words(key, purpose, round >> 2, agent, component, trial)
    k = r & _ROUND_MASK
    return (w0 if k == ZERO else w1) if k < TWO else (w2 if k == TWO else w3)


@compiled
def normal(key: np.uint64, purpose: int, trial: int, agent: int, component: int, round: int) -> float:
    """Return the standard normal of one round, bit for bit the one that the fill functions write."""
    r = np.uint64(round)
    w0, w1, w2, w3 = words(key, purpose, round >> 2, agent, component, trial)
    s0, s2 = squared_radii(w0, w2)
    second = (r & TWO) != ZERO
    x, y = cos_sin(w3 if second else w1)
    return math.sqrt(s2 if second else s0) * float(y if (r & ONE) != ZERO else x)


@compiled
def uniform(key: np.uint64, purpose: int, trial: int, agent: int, component: int, round: int) -> float:
    """Return the uniform of one round, strictly between 0 and 1: the one that `fill_uniforms` writes."""
    return to_uniform(_word(key, purpose, trial, agent, component, round))


@compiled
def index(key: np.uint64, purpose: int, trial: int, round: int, n: int) -> int:
    """Return a random integer from 0 to n - 1, for example an edge that gossips in a round.

    Each integer has its probability 1 / n up to 2**-32. The word is that of agent 0 and component 0.
    """
    # As an int64: Numba makes a float64 of a uint64 and an int64.
    return np.int64((_word(key, purpose, trial, 0, 0, round) * np.uint64(n)) >> HALF)  # type: ignore[return-value]


@compiled
def _draw(
    out: Floats,
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


def _check_range(name: str, values: range, limit: int) -> None:
    """Raise an error for a range with steps, or one beyond the range of the generator's counter."""
    if not isinstance(values, range):
        raise InvalidInput(parameter=name, required="a range such as range(10)", got=repr(values))
    if len(values) and values.step != 1:
        raise InvalidInput(
            parameter=name,
            required="a range of step 1",
            got=repr(values),
            hint="draw them all and take a slice",
        )
    if len(values) and (values.start < 0 or values.stop > limit):
        raise InvalidInput(f"must lie between 0 and {limit - 1}, got {values!r}", parameter=name)


def _check_and_draw(
    gaussian: bool, seed: int, purpose: int, trials: range, agents: range, components: int, rounds: range
) -> Floats:
    """Check the arguments of `normals` and `uniforms`, and draw."""
    if not 0 <= purpose < 1 << 8:
        raise InvalidInput(
            f"must lie between 0 and 255, got {purpose}; use the module's constants", parameter="purpose"
        )
    if not 0 <= components <= 1 << 24:
        raise InvalidInput(
            f"must lie between 0 and {1 << 24}, got {components}; draw fewer", parameter="components"
        )
    _check_range("trials", trials, 1 << 32)
    _check_range("agents", agents, 1 << 32)
    _check_range("rounds", rounds, 1 << 34)
    out = np.empty((len(rounds), len(agents), components, len(trials)))
    if out.size:
        _draw(out, gaussian, key(seed), purpose, trials.start, agents.start, rounds.start)
    return out


def normals(seed: int, purpose: int, trials: range, agents: range, components: int, rounds: range) -> Floats:
    """Return the standard normals that a simulation with this seed uses.

    Parameters
    ----------
    seed
        A whole number of at least 0.
    purpose
        One of the purposes of this module.
    trials, agents, rounds
        Which ones: ranges of step 1. An agent that runs by itself asks for one trial and one agent.
    components
        How many components each agent has.

    Returns
    -------
    ndarray
        Of shape (rounds, agents, components, trials).
    """
    return _check_and_draw(True, seed, purpose, trials, agents, components, rounds)


def uniforms(seed: int, purpose: int, trials: range, agents: range, components: int, rounds: range) -> Floats:
    """Return the uniforms, strictly between 0 and 1, that a simulation with this seed uses, like `normals`."""
    return _check_and_draw(False, seed, purpose, trials, agents, components, rounds)
