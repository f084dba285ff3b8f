"""Eigenvalues and eigenvectors of a gossip matrix, in closed form where the graph has one.

A `Spectrum` diagonalizes L = Q diag(eigenvalues) Q*, with mode 0 the constant vector. Engines need only four
products with Q, so a path of a million agents costs a cosine transform and no matrix:

    analyze(x)     Q* x              coordinates of x in the eigenmodes
    synthesize(c)  Q c               back again
    energy(v)      sum_i |q_im|^2 v_i   the share of each mode in a quantity per agent (a variance)
    spread(v)      sum_m |q_im|^2 v_m   the share of each agent in a quantity per mode
"""

from __future__ import annotations

import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Literal

import numpy as np
import scipy.fft
import scipy.linalg
from threadpoolctl import threadpool_limits

from gossamer.arrays import AnyArray, Floats
from gossamer.facts import KnownFacts

Factor = tuple[Literal["path", "cycle"], int]
"""One factor of a product graph: its kind and its size."""

PIECE = 2**20
"""Number of eigenvalues that are processed together if there are many."""


class Spectrum(ABC):
    """The spectral decomposition of a gossip matrix; arrays run over agents or modes along axis 0."""

    eigenvalues: Floats

    @abstractmethod
    def analyze(self, x: AnyArray) -> AnyArray: ...

    @abstractmethod
    def synthesize(self, c: AnyArray) -> AnyArray: ...

    @abstractmethod
    def energy(self, v: AnyArray) -> AnyArray: ...

    @abstractmethod
    def spread(self, v: AnyArray) -> AnyArray: ...


class DenseSpectrum(Spectrum):
    """Any symmetric matrix, by a dense eigendecomposition."""

    def __init__(self, gossip: AnyArray) -> None:
        # With several threads the last bits, and so the results of a cluster, would depend on their number.
        with threadpool_limits(1, user_api="blas"):
            values, vectors = scipy.linalg.eigh(gossip)
        # Mode 0 is known exactly: no rounding there means no rounding in the average itself.
        values[0] = 0.0
        vectors[:, 0] = 1.0 / np.sqrt(len(values))
        self.eigenvalues = values
        self.vectors = vectors

    def analyze(self, x: AnyArray) -> AnyArray:
        return np.tensordot(self.vectors.T, x, axes=1)

    def synthesize(self, c: AnyArray) -> AnyArray:
        return np.tensordot(self.vectors, c, axes=1)

    def energy(self, v: AnyArray) -> AnyArray:
        return np.tensordot(self.vectors.T**2, v, axes=1)

    def spread(self, v: AnyArray) -> AnyArray:
        return np.tensordot(self.vectors**2, v, axes=1)


class _Axis:
    """One factor of a product graph: how it transforms one axis of an array, and its Laplacian eigenvalues."""

    def __init__(self, kind: Literal["path", "cycle"], size: int) -> None:
        k = np.arange(size)
        self.kind = kind
        self.size = size
        angle = np.pi * k / size if kind == "path" else 2 * np.pi * k / size
        self.eigenvalues = 4.0 * np.sin(angle / 2) ** 2
        # cos^2 of mode k is (1 + cos of mode 2k)/2; beyond the last mode the cosine folds back, negated.
        double = 2 * k
        self._fold = np.where(double < size, double, 2 * size - double)
        self._sign = np.where(double < size, 1.0, np.where(double == size, 0.0, -1.0))

    def analyze(self, x: AnyArray, axis: int) -> AnyArray:
        if self.kind == "path":
            return _dct(x, 2, axis)
        return np.asarray(scipy.fft.fft(x, axis=axis, norm="ortho"))

    def synthesize(self, c: AnyArray, axis: int) -> AnyArray:
        if self.kind == "path":
            return _dct(c, 3, axis)
        return np.asarray(scipy.fft.ifft(c, axis=axis, norm="ortho"))

    def energy(self, v: AnyArray, axis: int) -> AnyArray:
        flat = v.sum(axis=axis, keepdims=True) / self.size
        if self.kind == "cycle":
            return np.broadcast_to(flat, v.shape)
        v = np.moveaxis(v, axis, 0)
        cosines = scipy.fft.dct(v, axis=0) / 2
        doubled = cosines[self._fold % self.size] * _column(self._sign, v.ndim)
        doubled[0] = 0.0
        return np.asarray(np.moveaxis(doubled, 0, axis) / self.size + flat)

    def spread(self, v: AnyArray, axis: int) -> AnyArray:
        flat = v.sum(axis=axis, keepdims=True) / self.size
        if self.kind == "cycle":
            return np.broadcast_to(flat, v.shape)
        v = np.moveaxis(v, axis, 0)
        folded = np.zeros_like(v, dtype=float)
        np.add.at(folded, self._fold[1:] % self.size, v[1:] * _column(self._sign[1:], v.ndim))
        cosines = scipy.fft.dct(folded, type=3, axis=0) / 2 + folded[0] / 2
        return np.asarray(np.moveaxis(cosines, 0, axis) / self.size + flat)


class ProductSpectrum(Spectrum):
    """A scaled Laplacian of a product of paths and cycles: path, cycle, grid, torus, hypercube."""

    def __init__(self, scale: float, factors: Sequence[Factor]) -> None:
        self._axes = [_Axis(kind, size) for kind, size in factors]
        self._shape = tuple(axis.size for axis in self._axes)
        sums = reduce(np.add.outer, [axis.eigenvalues for axis in self._axes])
        self.eigenvalues = scale * np.asarray(sums).reshape(-1)

    def _each_axis(self, x: AnyArray, transform: str) -> AnyArray:
        trailing = x.shape[1:]
        x = x.reshape(*self._shape, *trailing)
        for number, axis in enumerate(self._axes):
            x = getattr(axis, transform)(x, number)
        return x.reshape(-1, *trailing)

    def analyze(self, x: AnyArray) -> AnyArray:
        return self._each_axis(x, "analyze")

    def synthesize(self, c: AnyArray) -> AnyArray:
        return np.real(self._each_axis(c, "synthesize"))

    def energy(self, v: AnyArray) -> AnyArray:
        return self._each_axis(v, "energy")

    def spread(self, v: AnyArray) -> AnyArray:
        return self._each_axis(v, "spread")


def product_facts(factors: Sequence[Factor], weights: Sequence[float], bound: float) -> KnownFacts:
    """Return the facts of a product of paths and cycles with these weights; `bound` holds for all eigenvalues.

    If the weights differ, as Metropolis weights do at the border of a grid, lambda_2 and the trace are computed with
    the smallest weight on every edge: lambda_2 is then slightly too small, and the trace too large. The relative error
    is about one over the side of the grid, and on the safe side. lambda_max is a bound that is closer than 1e-6.
    """
    axes = [_Axis(kind, size).eigenvalues for kind, size in factors]
    scale, agents = min(weights), math.prod(size for _, size in factors)
    ends = [np.sort(values) for values in axes if len(values) > 1]
    least = scale * min(values[1] for values in ends)
    most = scale * reduce(operator.add, [values[-1] for values in ends])
    half = len(axes) // 2
    halves = (reduce(np.add.outer, some, np.zeros(1)).reshape(-1) for some in (axes[:half], axes[half:]))
    across, along = sorted(halves, key=len)  # the loop is over the smaller number
    trace = 0.0
    for value in across.tolist():
        for begin in range(0, len(along), PIECE):
            eigenvalues = scale * (value + along[begin : begin + PIECE])
            trace += float(np.sum(1.0 / eigenvalues[eigenvalues > most * 1e-14] ** 2))
    largest = float(most)
    if len(set(weights)) > 1:
        largest = min(bound, _metropolis_bound([size for _, size in factors if size > 1]))
    return KnownFacts(agents, largest, float(least), trace, max(2.0, bound))


def _metropolis_bound(sides: Sequence[int]) -> float:
    """Return a bound on the eigenvalues of a grid of paths with Metropolis weights: max_i (|L| x)_i / x_i, x > 0.

    Collatz and Wielandt: it holds for every x. Here x is a product of cosines, x_i = prod_a cos(k_a (i_a - center_a)).
    An agent at the border of the axes B has D - |B| neighbors, and with c_a = 2 + 2 cos k_a, r_a = 1 + x_1/x_0 at the
    border of axis a, and 2 for each axis of two agents, which are all at its border,

        (|L| x)_i / x_i = sum_{a not in B} c_a / (1 + D - |B|) + sum_{a in B} r_a / (2 + D - |B|).

    The k_a are chosen so that this is the same for no border and for each single one. Agents at several borders have
    less, and almost no share of x, so lambda_max is only slightly below the bound.
    """
    long = np.array([side for side in sides if side > 2], dtype=float)
    pairs = 2.0 * (len(sides) - len(long))
    most = 2 * len(long) + len(sides) - len(long)  # D
    low, high = np.zeros(len(long)), np.pi / (long - 1)  # x is positive
    for _ in range(100):  # bisection of all axes at once
        k = (low + high) / 2
        across = 2 + 2 * np.cos(k)
        inward = 1 + np.cos(k * (long - 3) / 2) / np.cos(k * (long - 1) / 2)
        above = inward > across - (across.sum() - across + pairs) / most
        low, high = np.where(above, low, k), np.where(above, k, high)
    ratios = []
    for border in itertools.product([False, True], repeat=len(long)):
        count = most - sum(border)
        rest = across[~np.array(border, bool)].sum() + pairs
        ratios.append(rest / (1 + count) + inward[np.array(border, bool)].sum() / (2 + count))
    return float(max(ratios)) * (1 + 1e-14)


class CompleteSpectrum(ProductSpectrum):
    """A scaled Laplacian of the complete graph: all modes but the constant share one eigenvalue.

    So any basis that contains the constant vector will do; here it is that of a path.
    """

    def __init__(self, scale: float, agents: int) -> None:
        super().__init__(scale, [("path", agents)])
        self.eigenvalues = np.full(agents, scale * agents)
        self.eigenvalues[0] = 0.0


class StarSpectrum(Spectrum):
    """A scaled Laplacian of a star with agent 0 in the center.

    Modes: the constant (0), center against leaves (N), and any vector on the leaves with sum zero (1).
    """

    def __init__(self, scale: float, agents: int) -> None:
        self._leaves = _Axis("path", agents - 1)
        self.eigenvalues = np.full(agents, float(scale))
        self.eigenvalues[0] = 0.0
        self.eigenvalues[1] = scale * agents
        n = agents - 1
        self._pair = np.array([[1.0, n], [np.sqrt(n), -np.sqrt(n)]]) / np.sqrt([[agents], [agents]])
        # rows: constant and center-against-leaves in the coordinates (center, sum of leaves / n)
        self._n = n

    def analyze(self, x: AnyArray) -> AnyArray:
        inner = self._leaves.analyze(x[1:], 0)
        pair = np.stack([x[0], inner[0] / np.sqrt(self._n)])
        return np.concatenate([np.tensordot(self._pair, pair, axes=1), inner[1:]])

    def synthesize(self, c: AnyArray) -> AnyArray:
        center, level = np.tensordot(np.linalg.inv(self._pair), c[:2], axes=1)
        leaves = np.concatenate([(level * np.sqrt(self._n))[None], c[2:]])
        return np.concatenate([center[None], self._leaves.synthesize(leaves, 0)])

    def energy(self, v: AnyArray) -> AnyArray:
        agents = self._n + 1
        total = v[1:].sum(axis=0)
        first = np.stack([(v[0] + total) / agents, (self._n * v[0] + total / self._n) / agents])
        return np.concatenate([first, self._leaves.energy(v[1:], 0)[1:]])

    def spread(self, v: AnyArray) -> AnyArray:
        agents = self._n + 1
        center = (v[0] + self._n * v[1]) / agents
        shared = (v[0] + v[1] / self._n) / agents
        inner = np.concatenate([np.zeros_like(v[:1], dtype=float), v[2:]])
        return np.concatenate([center[None], self._leaves.spread(inner, 0) + shared])


def _dct(x: AnyArray, kind: Literal[2, 3], axis: int) -> AnyArray:
    """Apply the orthonormal cosine transform, also to complex arrays (a path crossed with a cycle)."""
    if np.iscomplexobj(x):
        return _dct(x.real, kind, axis) + 1j * _dct(x.imag, kind, axis)
    return np.asarray(scipy.fft.dct(x, type=kind, axis=axis, norm="ortho"))


def _column(v: AnyArray, ndim: int) -> AnyArray:
    return v.reshape(-1, *([1] * (ndim - 1)))
