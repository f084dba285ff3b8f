"""A method as numbers: the coefficients of its four functions, read off by evaluating them on unit vectors.

Because a method only adds and scales, round t is

    message   m  = message_state[t] . s + message_input[t] y
    registers s' = step_state[t] s + step_input[t] y + step_mixed[t] u,     u = sum_j L_ij m_j
    estimate  e  = estimate_state[t] . s'

and one table serves every engine. All rounds are probed at once: the functions receive the coefficients as
arrays over rounds. A function that is not linear is caught here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import InvalidInput
from gossamer.methods.base import Method, check_rounds

if TYPE_CHECKING:
    from gossamer.networks import Network

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Coefficients of a method on one network for one number of rounds; R registers, T rounds."""

    message_state: Array  #: (T, R)
    message_input: Array  #: (T,)
    step_state: Array  #: (T, R, R)
    step_input: Array  #: (T, R)
    step_mixed: Array  #: (T, R)
    estimate_state: Array  #: (T, R)
    batches: Array  #: (T,) samples per agent and round

    @property
    def rounds(self) -> int:
        return len(self.batches)

    @property
    def registers(self) -> int:
        return int(self.message_state.shape[1])

    @property
    def samples(self) -> float:
        """Samples each agent takes in all."""
        return float(self.batches.sum())

    @property
    def exchanges(self) -> int:
        """Rounds in which the neighbours' messages are used; the others need no communication."""
        return int(np.count_nonzero(self.step_mixed.any(axis=1)))

    @property
    def ledger(self) -> tuple[int, ...]:
        """The registers that live on edges (see `edge_registers`); empty: the method has no ledger form."""
        inputs = [self.step_state, self.step_input[:, :, None], self.step_mixed[:, :, None]]
        return edge_registers((np.concatenate(inputs, axis=2) != 0).any(axis=0))

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (
            self.message_state,
            self.message_input,
            self.step_state,
            self.step_input,
            self.step_mixed,
            self.estimate_state,
            self.batches,
        )

    def first(self, rounds: int) -> Table:
        """The table of the first rounds alone, sharing memory with this one."""
        return Table(*(array[:rounds] for array in self.arrays))

    def starts_like(self, other: Table) -> bool:
        """Whether this table is `other`'s for fewer rounds, so that one pass of `other` serves both."""
        n = self.rounds
        return n <= other.rounds and all(
            np.array_equal(a, b[:n]) for a, b in zip(self.arrays, other.arrays, strict=True)
        )


def edge_registers(uses: NDArray[np.bool_]) -> tuple[int, ...]:
    """The registers that are sums over an agent's edges, so that each edge can keep its own share.

    `uses` (R, R + 2) says which of (registers, observation, mixed) each register's step uses in any round. On edges
    live those that use what was mixed, with all that they depend on. None may use the observation, or their sum over
    the edges would count it once per edge: then there is no such form, and the answer is empty.
    """
    size = len(uses)
    held = set(np.flatnonzero(uses[:, size + 1]).tolist())
    while not (needed := {int(k) for i in held for k in np.flatnonzero(uses[i, :size])}) <= held:
        held |= needed
    return () if any(uses[i, size] for i in held) else tuple(sorted(held))


def tabulate(method: Method, network: Network, rounds: int) -> Table:
    """Read the coefficients of `method` on `network` for `rounds` rounds."""
    rounds = check_rounds(rounds)
    c = method.coefficients(network, rounds)
    for field, value in zip(c._fields, c, strict=True):
        shape = np.shape(value)
        if shape not in ((), (rounds,)) or not np.all(np.isfinite(value)):
            raise InvalidInput(
                f"{type(method).__name__}.coefficients must give finite floats or arrays of length rounds={rounds}, "
                f"but {field} has shape {shape}"
                + ("" if np.all(np.isfinite(value)) else " and is not finite")
            )
    size = len(method.State._fields)

    def outputs(c: Any, s: Array, y: float, mixed: float) -> Array:
        """(T, 1 + R + 1): message, new registers and estimate for given inputs, in every round of c."""
        state = method.State(*s)
        rows = [method.message(c, state, y), *method.step(c, state, y, mixed), method.estimate(c, state)]
        if len(rows) != size + 2:
            raise InvalidInput(f"{type(method).__name__}.step must return a State of {size} registers")
        return np.stack(np.broadcast_arrays(*rows, np.empty(_rounds_of(c)))[:-1], axis=-1)

    unit = np.eye(size + 2)
    probes = np.stack([outputs(c, e[:size], e[size], e[size + 1]) for e in unit], axis=-1)
    if probes.ndim == 2:  # every coefficient is a constant
        probes = np.broadcast_to(probes, (rounds, *probes.shape))
    _check_linear(method, c, outputs, probes, size)
    batches = np.asarray(method.batches(network, rounds), dtype=float)
    if batches.shape != (rounds,):
        raise InvalidInput(
            f"{type(method).__name__}.batches must give one size per round ({rounds}), but shape {batches.shape} came"
        )
    table = Table(
        message_state=np.ascontiguousarray(probes[:, 0, :size]),
        message_input=np.ascontiguousarray(probes[:, 0, size]),
        step_state=np.ascontiguousarray(probes[:, 1:-1, :size]),
        step_input=np.ascontiguousarray(probes[:, 1:-1, size]),
        step_mixed=np.ascontiguousarray(probes[:, 1:-1, size + 1]),
        estimate_state=np.ascontiguousarray(probes[:, -1, :size]),
        batches=batches,
    )
    silent = batches == 0
    if table.step_input[silent].any() or table.message_input[silent].any():
        raise InvalidInput(
            f"{type(method).__name__} uses an observation in round {int(np.argmax(silent))}, "
            "in which it takes no samples; give the observation a zero coefficient there"
        )
    return table


def _rounds_of(c: Any) -> tuple[int, ...]:
    return np.broadcast_shapes(*(np.shape(value) for value in c))


def _check_linear(method: Method, c: Any, outputs: Callable[..., Array], probes: Array, size: int) -> None:
    """Evaluate the functions at one more point, in a few rounds: a linear function has no freedom left there."""
    few = np.unique(np.linspace(0, len(probes) - 1, 16).astype(int))
    some = type(c)(*(value if np.ndim(value) == 0 else value[few] for value in c))
    probes = probes[few]
    point = np.random.default_rng(20).uniform(0.5, 2.0, size + 2)
    expected = probes @ point
    actual = outputs(some, point[:size], point[size], point[size + 1])
    nothing = np.atleast_2d(outputs(some, np.zeros(size), 0.0, 0.0))
    scale = 1.0 + np.abs(probes) @ point
    names = ["message", *(f"step ({field})" for field in method.State._fields), "estimate"]
    for k, name in enumerate(names):
        if np.any(np.abs(actual - expected)[:, k] > 1e-9 * scale[:, k]) or np.any(nothing[:, k] != 0):
            raise InvalidInput(
                f"{name} of {type(method).__name__} is not linear in (registers, observation, mixed): "
                "a method may only add and scale; put whatever changes between rounds into coefficients()"
            )
    if np.any(probes[:, 0, size + 1]) or np.any(probes[:, -1, size : size + 2]):
        raise InvalidInput(f"{type(method).__name__}.message and estimate must not use what was mixed")
