"""Propagate a table through the rounds, one scalar system per eigenvalue: responses and noise gains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.engines.exact import recursions, windows
from gossamer.engines.horizons import check_table, passes
from gossamer.methods import Method, Table, tabulate
from gossamer.networks import Network
from gossamer.networks.spectrum import Spectrum
from gossamer.observations import Observations

if TYPE_CHECKING:
    from gossamer.engines.exact.measure import Measure

_forward: Any = recursions.forward
_backward: Any = recursions.backward
_backward_runs: Any = recursions.backward_runs
_windowed: Any = windows.windowed
_averaged: Any = windows.averaged
_sweep: Any = recursions.sweep


def propagate(table: Table, nodes: Floats, ends: Integers) -> tuple[Floats, Floats]:
    """Responses (H, G, 2) to the mean and to its drift, and noise gains (H, G), at eigenvalues `nodes`.

    A single horizon at the end of the table is cheaper backward (a vector per eigenvalue instead of a
    covariance); forward, one pass serves every horizon.
    """
    if len(ends) == 1 and ends[0] == table.rounds:
        result = _backward(nodes, table, np.empty((0, 0)))[:, None]
    else:
        result = _forward(nodes, table, ends)
    return np.moveaxis(result[:2], 0, 2), result[2]


def impulse_response(table: Table, spectrum: Spectrum) -> Floats:
    """(T, modes): the weight of round t's observation in the final estimate."""
    weights = np.empty((table.rounds, len(spectrum.eigenvalues)))
    _backward(spectrum.eigenvalues, table, weights)
    return weights


@dataclass(frozen=True)
class Pass:
    """Horizons that one pass over the rounds of a table serves: read its estimate after each of `ends` rounds."""

    table: Table
    which: Integers  #: (H,) positions among all horizons that were asked for
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
        """Responses (H, G, 2) and noise gains (H, G), as in the function of this name."""
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
    """The same where the answer after `ends` rounds is the mean since `starts` of what `register` sums up."""

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
    """Variants of a method, whose tables of `rounds` rounds each follow one another; all are read at their end.

    With `starts`, which ascend, the answers are the means since each of these of what `register` sums up: a row for
    every run and every start. Then the rounds of a run are all alike, and the table holds one of each.
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
            result = _backward_runs(nodes, self.table, self.rounds)
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
    """The different ones in ascending order; counting is faster than sorting a million."""
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
    """Whether one pass serves every number of rounds from `first` on."""
    if method.anytime:
        return True
    some = first + np.arange(len(method.State._fields) ** 2 + 1)
    return method.averages_since(first) is not None and len(trajectory(method, network, some)) == 1


class Sweep:
    """The errors of an `anytime` method after every number of rounds, a block of rounds at a time."""

    def __init__(self, method: Method, network: Network, over: Measure) -> None:
        self.method, self.network, self.rounds = method, network, 0
        width = recursions.PANEL
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

    def block(self, rounds: int) -> tuple[Floats, Floats]:
        """Bias and variance after each of the next `rounds` rounds, an even number."""
        stop = self.rounds + rounds
        piece = tabulate(self.method, self.network, stop, piece=slice(self.rounds, stop))
        bias, variance = _sweep(self._moments, piece, self.rounds, self._weights)
        self.rounds = stop
        return np.maximum(bias, 0.0), variance


def summing(table: Table, rounds: int, since: int) -> tuple[Table, int] | None:
    """A table that sums what `table` averages from round `since` on, and the register that holds the sum.

    None unless that is what it does, in each of its runs of `rounds` rounds: its estimate is one register that nothing
    else uses, the running mean s <- s + (z - s)/(t - since + 1) of what the other registers and the observation give,
    and the rounds are otherwise all alike.
    """
    register = _estimate_register(table)
    if register is None or not _alike_but(table, register, rounds):
        return None
    # One row per round: the factors of all registers, of the observation and of `mixed` in the update of s.
    factors = np.column_stack(
        [table.step_state[:, register], table.step_observation[:, register], table.step_mixed[:, register]]
    ).reshape(-1, rounds, table.registers + 2)
    given = factors[:, since : since + 1].copy()  # z: what the first round of the mean adds to it
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
    """The register that is the estimate in every round and that no message and no other register reads, if any."""
    read = np.flatnonzero(table.estimate_state.any(axis=0))
    if len(read) != 1 or not np.all(table.estimate_state[:, read] == 1.0):
        return None
    register = int(read[0])
    others = np.arange(table.registers) != register
    if table.message_state[:, register].any() or table.step_state[:, others, register].any():
        return None
    return register


def _alike_but(table: Table, register: int, rounds: int) -> bool:
    """Whether all rounds of a run do the same, but for `register`, and each updates every other one with `mixed`."""
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
"""Numbers of a block of means that are brought to the modes at once."""


def _registers(
    table: Table, spectrum: Spectrum, observations: Observations, times: set[int]
) -> Iterator[tuple[int, AnyArray]]:
    """(t, registers (R, modes, n)) after each of `times` rounds: expected values, mode by mode."""
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
