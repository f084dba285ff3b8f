"""Propagate a table through the rounds, one scalar system per eigenvalue: responses and noise gains."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gossamer.arrays import AnyArray, Booleans, Floats, Integers
from gossamer.engines.exact import recursions, windows
from gossamer.engines.horizons import check_table, passes
from gossamer.methods import Method, Table, tabulate
from gossamer.networks import Network
from gossamer.networks.spectrum import Spectrum
from gossamer.numerics.vectors import Untyped
from gossamer.observations import Observations

if TYPE_CHECKING:
    from gossamer.engines.exact.measure import Measure

_forward: Untyped = recursions.forward
_backward: Untyped = recursions.backward
_windowed: Untyped = windows.windowed
_averaged: Untyped = windows.averaged
_sweep: Untyped = recursions.sweep

_NONE = np.empty((0, 0))
"""Weights that are not kept."""


def propagate(table: Table, nodes: Floats, ends: Integers) -> tuple[Floats, Floats]:
    """Return responses (H, G, 2) to the mean and to its drift, and noise gains (H, G), at eigenvalues `nodes`.

    A single horizon at the end of the table is cheaper backward (a vector per eigenvalue instead of a
    covariance); forward, one pass serves every horizon.
    """
    if len(ends) == 1 and ends[0] == table.rounds:
        result = _backward(nodes, table, table.rounds, _NONE)
    else:
        result = _forward(nodes, table, ends)
    return np.moveaxis(result[:2], 0, 2), result[2]


def impulse_response(table: Table, eigenvalues: Floats) -> Floats:
    """Return (T, modes) the weight of round t's observation in the final estimate, for each eigenvalue."""
    weights = np.empty((table.rounds, len(eigenvalues)))
    _backward(eigenvalues, table, table.rounds, weights)
    return weights


@dataclass(frozen=True)
class Pass:
    """Horizons that one pass over the rounds of a table serves: read its estimate after each of `ends` rounds."""

    table: Table
    which: Integers  #: (H,) positions among all requested horizons
    ends: Integers  #: (H,) ascending

    @property
    def samples(self) -> Floats:
        """(H,) per agent."""
        return np.asarray(np.cumsum(self.table.batches)[self.ends - 1])

    @property
    def exchanges(self) -> Integers:
        """(H,) rounds in which the neighbors' messages are used."""
        return np.asarray(np.cumsum(self.table.step_mixed.any(axis=1))[self.ends - 1])

    def propagate(self, nodes: Floats) -> tuple[Floats, Floats]:
        """Return responses (H, G, 2) and noise gains (H, G), as in the function of this name."""
        return propagate(self.table, nodes, self.ends)

    def expected(self, spectrum: Spectrum, observations: Observations) -> AnyArray:
        """Return (H, modes, n) the expected values of the estimates by mode, for arbitrarily moving means."""
        means = {
            t: self.table.round(t - 1).estimate(state)
            for t, state in _registers(self.table, spectrum, observations, set(self.ends.tolist()))
        }
        return np.stack([means[t] for t in self.ends.tolist()])


@dataclass(frozen=True)
class WindowedPass(Pass):
    """The same for answers that are the mean, from `starts` to `ends`, of the quantity that `register` sums up."""

    starts: Integers  #: (H,)
    register: int

    def propagate(self, nodes: Floats) -> tuple[Floats, Floats]:
        result = _windowed(nodes, self.table, self.register, _windows(self.starts, self.ends))
        return np.moveaxis(result[:2], 0, 2), result[2]

    def expected(self, spectrum: Spectrum, observations: Observations) -> AnyArray:
        times = {*self.starts.tolist(), *self.ends.tolist()}
        sums = {t: state[self.register] for t, state in _registers(self.table, spectrum, observations, times)}
        pairs = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return np.stack([(sums[end] - sums[start]) / (end - start) for start, end in pairs])


@dataclass(frozen=True)
class Runs(Pass):
    """Variants of a method, whose tables of `rounds` rounds each are concatenated; all are read at their end.

    With ascending `starts`, the answers are the means, since each start, of the quantity that `register` sums up: a row
    for every run and every start. All rounds of a run are then identical, and the table contains one for each run.
    """

    rounds: int
    starts: Integers | None = None
    register: int = 0

    @classmethod
    def of(cls, table: Table, rounds: int, starts: Integers | None = None, register: int = 0) -> Runs:
        rows = table.rounds // rounds if starts is None else table.rounds * len(starts)
        return cls(table, np.arange(rows), np.full(rows, rounds), rounds, starts, register)

    def propagate(self, nodes: Floats) -> tuple[Floats, Floats]:
        if self.starts is None:
            result = _backward(nodes, self.table, self.rounds, _NONE)
        else:
            result = _averaged(nodes, self.table, self.rounds, self.register, self.starts)
        result = result.reshape(3, -1, len(nodes))
        return np.moveaxis(result[:2], 0, 2), result[2]

    def expected(self, spectrum: Spectrum, observations: Observations) -> AnyArray:
        length = self.rounds if self.starts is None else 1
        tables = (
            Table(*(array[start : start + length] for array in self.table))
            for start in range(0, self.table.rounds, length)
        )
        return np.concatenate([self._run(table).expected(spectrum, observations) for table in tables])

    def _run(self, table: Table) -> Pass:
        """Return one of the runs."""
        if self.starts is None:
            return Pass(table, np.arange(1), self.ends[:1])
        table = Table(*(np.repeat(row, self.rounds, axis=0) for row in table))
        which = np.arange(len(self.starts))
        return WindowedPass(table, which, self.ends[which], self.starts, self.register)


def _windows(starts: Integers, ends: Integers) -> windows.Windows:
    times = _distinct(np.concatenate([starts, ends]))
    gaps = _distinct(ends - starts)
    return windows.Windows(
        np.searchsorted(times, starts),
        np.searchsorted(times, ends),
        np.searchsorted(gaps, ends - starts),
        times,
        gaps,
    )


def _distinct(times: Integers) -> Integers:
    """Return the distinct values in ascending order; counting is faster than sorting a million."""
    return np.flatnonzero(np.bincount(times))


def trajectory(method: Method, network: Network, horizons: Integers) -> list[Pass]:
    """Return the smallest number of passes over the rounds that serve all horizons.

    One pass suffices if the method is `anytime`, or if its answer is the mean since a round that moves with the horizon
    (`Method.averages_since`) and the rounds are otherwise identical.
    """
    if not method.anytime and len(horizons) > len(method.State._fields) ** 2:  # otherwise backward is cheaper
        order = np.argsort(horizons, kind="stable")
        ends = horizons[order]
        starts = [
            since for t in ends.tolist() if (since := method.averages_since(t)) is not None and since < t
        ]
        if len(starts) == len(ends):
            last = int(ends[-1])
            check_table(method, last)
            summed = summing(tabulate(method, network, last), last, starts[-1])
            if summed is not None:
                return [WindowedPass(summed[0], order, ends, np.array(starts), summed[1])]
    found_passes = []
    for table, followers in passes(method, network, horizons):
        which = np.array(followers)[np.argsort(horizons[followers], kind="stable")]
        found_passes.append(Pass(table, which, horizons[which]))
    return found_passes


def one_pass(method: Method, network: Network, first: int = 1) -> bool:
    """Return whether one pass serves every number of rounds from `first` on."""
    if method.anytime:
        return True
    some = first + np.arange(len(method.State._fields) ** 2 + 1)
    return method.averages_since(first) is not None and len(trajectory(method, network, some)) == 1


FORGOTTEN = 1e-20
"""A register counts as independent of a past that is multiplied by less than this."""

LONGEST_MEMORY = 2**13
"""Largest number of rounds within which independence is sought in order to skip rounds."""


class Sweep:
    """The errors of an `anytime` method after every number of rounds, a block of rounds at a time."""

    def __init__(self, method: Method, network: Network, over: Measure) -> None:
        self.method, self.network, self.over, self.rounds = method, network, over, 0
        width = min(recursions.PANEL, len(over.nodes))
        panels = -(-len(over.nodes) // width)

        def laid(values: Floats) -> Floats:
            padded = np.zeros(panels * width)
            padded[: len(values)] = values
            return padded.reshape(panels, width)

        drift = over.signal if over.signal.shape[1] > 1 else np.zeros((len(over.nodes), 2, 2))
        self._weights = recursions.Weights(
            laid(over.nodes),
            laid(over.constant),
            laid(over.signal[:, 0, 0]),
            laid(drift[:, 0, 1]),
            laid(drift[:, 1, 1]),
            laid(over.power),
        )
        size = len(method.State._fields)
        shapes = ((2, 2, size), (size, size), (size, size), (size,), (size, size))
        self._moments = recursions.RegisterMoments(*(np.zeros((panels, *shape, width)) for shape in shapes))
        self._mixed, self._uses = np.zeros(size, bool), np.zeros((size, size), bool)  # by any round so far

    def block(self, rounds: int) -> tuple[Floats, Floats]:
        """Return bias and variance after each of the next `rounds` rounds, an even number."""
        stop = self.rounds + rounds
        piece = tabulate(self.method, self.network, stop, piece=slice(self.rounds, stop))
        bias, variance = _sweep(self._moments, piece, self.rounds, self._weights)
        self._mixed = self._mixed | piece.step_mixed.any(axis=0)
        self._uses = self._uses | piece.step_state.any(axis=0)
        self.rounds = stop
        return np.maximum(bias, 0.0), variance

    def copy(self) -> Sweep:
        """Return a sweep that continues from the same round."""
        other = copy(self)
        other._moments = recursions.RegisterMoments(*(array.copy() for array in self._moments))
        return other

    @property
    def influenced(self) -> Booleans:
        """(R,) whether messages of neighbors have reached a register in the rounds so far."""
        influenced = self._mixed
        for _ in influenced:
            influenced = influenced | (self._uses & influenced).any(axis=1)
        return influenced

    def memory(self, rounds: int, influenced: Booleans) -> int | None:
        """Return how many of the last rounds before `rounds`, an even number, determine the influenced registers in all
        modes but the constant one; None if more than `LONGEST_MEMORY`."""
        before = max(0, rounds - LONGEST_MEMORY)
        piece = tabulate(self.method, self.network, rounds, piece=slice(before, rounds))
        registers = np.flatnonzero(influenced)
        ahead = np.repeat(np.eye(len(registers))[..., None], len(self.over.nodes) - 1, axis=2)
        for t in range(piece.rounds - 1, -1, -1):
            mixed = np.outer(piece.step_mixed[t, registers], piece.message_state[t, registers])
            step = piece.step_state[t][np.ix_(registers, registers)][..., None]
            ahead = np.einsum("ijg,jkg->ikg", ahead, step + mixed[..., None] * self.over.nodes[1:])
            passed = piece.rounds - t
            if passed % 256 == 0:
                left = float(np.abs(ahead).max(initial=0.0))
                if left < FORGOTTEN:
                    return passed
                if not left ** (LONGEST_MEMORY / passed) < FORGOTTEN:
                    return None
        return None

    def resume(self, average: Sweep, influenced: Booleans) -> None:
        """Continue after the rounds of a sweep of the constant mode, as if the influenced registers were zero.

        The others are the same in all modes. After as many rounds as `memory` says, all registers are right.
        """
        own, m, known = ~influenced, self._moments, average._moments
        both = np.outer(own, own)
        m.mean[:], m.cov[:] = 0.0, 0.0
        m.mean[:, 0][:, :, own] = known.mean[:, 0][:, :, own]
        m.cov[:, both] = known.cov[:, both]
        m.mean[0, ..., 0], m.cov[0, ..., 0] = known.mean[0, ..., 0], known.cov[0, ..., 0]
        self.rounds = average.rounds


class AverageSweeps:
    """The error in the network's average alone, a lower bound on the total error, after every number of rounds."""

    def __init__(self, sweep: Sweep, reach: int) -> None:
        self.sweeps, self.reach = [sweep], reach  # at the beginning of every block
        self.errors, self.useful = np.empty(0), True

    def leap(self, going: Sweep, target: float, least: int) -> int:
        """Move the sweep `going` to the next rounds that may meet the target, if these are at least `least` further on.

        Return the number of rounds that it has then done.
        """
        length = going.rounds
        start = (self._first(target, length) - 1) // 2 * 2
        if not self.useful or start < length + least:
            return length
        influenced = self.sweeps[-1].influenced
        memory = going.memory(start, influenced)
        self.useful = memory is not None
        if memory is None or start - memory <= length:
            return length
        last = [sweep for sweep in self.sweeps if sweep.rounds <= start - memory][-1].copy()
        if more := start - memory - last.rounds:
            last.block(more)
        going.resume(last, influenced)
        going.block(memory)
        return start

    def _first(self, target: float, length: int) -> int:
        """Return the smallest number of rounds above `length` that may meet the target; 0 if there is none."""
        while True:
            good = np.flatnonzero(self.errors[length:] <= target)
            rounds = min(2**16, (self.reach - len(self.errors)) // 2 * 2)
            if good.size or not rounds:
                return length + 1 + int(good[0]) if good.size else 0
            self.sweeps.append(self.sweeps[-1].copy())
            bias, variance = self.sweeps[-1].block(rounds)
            self.errors = np.append(self.errors, bias + variance)


def summing(table: Table, rounds: int, since: int) -> tuple[Table, int] | None:
    """Return a table that sums the quantity which `table` averages from round `since` on, and the register of the sum.

    Return None unless the table has this form in each of its runs of `rounds` rounds: its estimate is one register that
    nothing else uses, the running mean s <- s + (z - s)/(t - since + 1) of a combination z of the other registers and
    the observation, and the rounds are otherwise identical.
    """
    register = _estimate_register(table)
    if register is None or not _alike_but(table, register, rounds):
        return None
    # One row per round: the factors of all registers, of the observation and of `mixed` in the update of s.
    factors = np.column_stack(
        [table.step_state[:, register], table.step_observation[:, register], table.step_mixed[:, register]]
    ).reshape(-1, rounds, table.registers + 2)
    given = factors[:, since : since + 1].copy()  # z: what the first round adds to the mean
    given[..., register] = 0.0
    share = 1.0 / np.arange(1, rounds - since + 1)[:, None]
    mean = share * given
    mean[..., register] = 1.0 - share[:, 0]
    if not np.allclose(factors[:, since:], mean, rtol=1e-13, atol=1e-15):
        return None
    given[..., register] = 1.0
    total = np.repeat(given[:, 0], rounds, axis=0)
    replaced = table._replace(
        step_state=table.step_state.copy(),
        step_observation=table.step_observation.copy(),
        step_mixed=table.step_mixed.copy(),
    )
    replaced.step_state[:, register] = total[:, :-2]
    replaced.step_observation[:, register] = total[:, -2]
    replaced.step_mixed[:, register] = total[:, -1]
    return replaced, register


def _estimate_register(table: Table) -> int | None:
    """Return the register, if any, that is the estimate in every round and that nothing else reads."""
    read = np.flatnonzero(table.estimate_state.any(axis=0))
    if len(read) != 1 or not np.all(table.estimate_state[:, read] == 1.0):
        return None
    register = int(read[0])
    others = np.arange(table.registers) != register
    if table.message_state[:, register].any() or table.step_state[:, others, register].any():
        return None
    return register


def _alike_but(table: Table, register: int, rounds: int) -> bool:
    """Return whether all rounds of a run are identical but for `register`, and each updates the others with `mixed`."""
    others = np.arange(table.registers) != register
    used = (
        table.message_state,
        table.message_observation,
        table.step_state[:, others],
        table.step_observation[:, others],
        table.step_mixed[:, others],
    )
    runs = [array.reshape(-1, rounds, *array.shape[1:]) for array in used]
    alike = all(np.all(run == run[:, :1]) for run in runs)
    return alike and bool(table.step_mixed[:, others].any(axis=1).all())


BLOCK = 2**22
"""Size of a block of means that is transformed to the modes at once."""


def _registers(
    table: Table, spectrum: Spectrum, observations: Observations, times: set[int]
) -> Iterator[tuple[int, AnyArray]]:
    """Yield (t, registers (R, modes, n)) after each of `times` rounds: expected values, mode by mode."""
    eigenvalues = spectrum.eigenvalues[:, None]
    state: AnyArray = np.zeros((table.registers, len(eigenvalues), observations.components))
    last, length = max(times), max(1, BLOCK // observations.mean.size)
    if 0 in times:
        yield 0, state
    for begin in range(0, last, length):
        block = range(begin, min(begin + length, last))
        for t, mean in zip(block, observations.means(block), strict=True):
            level = spectrum.analyze(mean)
            row = table.round(t)
            state = row.step(state, level, eigenvalues * row.message(state, level))
            if t + 1 in times:
                yield t + 1, state
