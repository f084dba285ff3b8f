"""Exact errors on networks too large to decompose: biases exactly, variances by random probes.

A method's response h(lambda) and noise gain v(lambda) after T rounds are polynomials of degree T and 2 T, so

    bias     = x' h(L)^2 x              x: the means without their average
    variance = trace(A),  A = s v(L) s  s: the diagonal matrix of the agents' standard deviations

are sums of Chebyshev moments (`moments.py`), which T products with the matrix give for every method and every horizon
up to T. The constant mode is known. A trace is the mean of z'A z over random signs z. If a few slow
modes dominate it, the probes vary a lot: then an orthonormal basis Q of the subspace on which A is large is found by
applying A to random vectors (as in Hutch++, Meyer et al. 2021), trace(Q'A Q) is computed exactly, and only the rest is
sampled.

How many probes are needed for a standard error of 1% of the total error is decided from how much the probes of a pilot
differ, and the standard error is computed from the same number. The pilot is not part of the mean, so the mean's error
is independent of both, whatever the distribution of a probe is: the two-stage rule of Stein (1945). If the differences
of the probes in the mean decided, as they seem natural to do, the standard error would be too small: sampling would
stop where they happen to be small. Where all probes together differ more than the pilot, they count: that is never
less.

If T is large, fewer moments suffice: |sum_{j > d} c_j mu_j| <= mu_0 sum_{j > d} |c_j|, and the coefficients c_j of h^2
and v are computed before the moments. So no slow mode is missed, for any spectrum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import scipy.fft
from threadpoolctl import threadpool_limits

from gossamer.arrays import Floats
from gossamer.engines.exact.measure import Measure, Sampled, integrate, jackson, measure
from gossamer.engines.exact.moments import (
    PANEL,
    Interval,
    Operator,
    Panel,
    filtered_by,
    moments_of,
    panels_of,
)
from gossamer.engines.exact.propagation import Pass
from gossamer.errors import Unsupported
from gossamer.networks import DENSE_LIMIT, Network
from gossamer.observations import Observations

RELATIVE = 0.01
"""Relative standard error of the total error at which no more probes are added."""

PILOT = 16
"""Number of probes of the pilot, from which a standard error is computed."""

TRUNCATION = 1e-4
"""Largest effect of omitted moments, relative to the error in the network's average."""

LARGE = 2**13
"""Number of agents from which on a single probe is tried first; it suffices if many modes matter."""

MANY_PROBES = 64
"""If more probes than this seem to be needed, slow modes are deflated first.

This is decided by the probes themselves, because keeping a pilot only if its variance is small would give too small a
standard error. Later on, for other horizons, the pilot decides, but only if it requires four times as many.
"""

BOUND = 16
"""A single probe has only a bound of its variance; slow modes are deflated at once if it requires this many times more
probes than `MANY_PROBES`."""

DEFLATED = 16
"""Number of vectors that are deflated at a time."""

FILTER = 2
"""Degree of the filter that finds these vectors, at most, as a multiple of the root of the condition number."""

WORK = 2**36
"""Number of updates of an agent after which no more probes are added, a few minutes."""


class Sampler:
    """Measures of these observations on a network without a full spectrum, with the required accuracy."""

    def __init__(self, network: Network, observations: Observations) -> None:
        if np.any(observations.drift) or observations.moving:
            raise Unsupported(
                f"exact errors of {'moving' if observations.moving else 'drifting'} means need a full spectrum: at "
                f"most {DENSE_LIMIT} agents, or path, cycle, star, complete, torus, hypercube of any size; use "
                "gs.simulate instead"
            )
        self.network, self.observations = network, observations
        self.variance = observations.variance.sum(axis=1)
        self.deviation = np.sqrt(self.variance)[:, None]
        center = observations.mean.mean(axis=0)
        self.means = observations.mean - center
        self.average = Measure(
            nodes=np.zeros(1),
            constant=np.ones(1),
            signal=np.full((1, 1, 1), network.agents * float((center**2).sum())),
            power=np.full(1, self.variance.sum() / network.agents),
        )
        self.random = np.random.default_rng(0)
        self.basis = np.empty((network.agents, 0))  # Q
        self.probes: list[Panel] = []
        self.pilot: list[Panel] = []  # once there is one, it is kept, whatever it says
        self.taken: list[Panel] = []  # of the vectors of the basis
        self.count = self.columns = 0

    @cached_property
    def interval(self) -> Interval:
        """A little more than from lambda_2 to lambda_max, which are known to some digits."""
        try:
            low = 0.98 * self.network.lambda_2
        except Unsupported:  # it did not converge: then from 0, which takes more moments
            low = 0.0
        return Interval(low, self.network.lambda_max * (1 + 1e-9))

    @cached_property
    def operator(self) -> Operator:
        return Operator.of(self.network.links, self.interval)

    @cached_property
    def signals(self) -> list[Panel]:
        return self._panels(self.means[:, self.means.any(axis=0)])

    def _panels(self, vectors: Floats) -> list[Panel]:
        self.columns += vectors.shape[1]
        return panels_of(self.operator, self.interval, vectors)

    def fit(self, passes: Sequence[Pass]) -> Sampled:
        """A measure with which the standard error after all horizons of the passes is small."""
        if not self.probes and self.variance.any():
            if self.network.agents >= LARGE:
                self.add_probes(1)
            else:
                self._begin()
        with threadpool_limits(1, user_api="blas"), np.errstate(all="ignore"):
            degree = self.degree(passes)
            over = self.measure(degree)
            gains = [run.propagate(over.nodes) for run in passes]
            while True:
                excess = _excess(over, passes, gains)
                needed = math.ceil(self.count * min(float(excess.max()), 1e4) ** 2)
                enough = needed <= self.count or self.columns * degree // 2 * self.network.agents > WORK
                if enough and (self.pilot or self.count <= 1):
                    return over
                most = BOUND * MANY_PROBES if self.count == 1 else MANY_PROBES * (4 if self.pilot else 1)
                if not enough and needed > most and self._room():
                    noise = np.concatenate([noise[:, 1:] for _, noise in gains])
                    self.deflate(noise[np.argmax(excess)])
                elif self.count == 1:
                    self._begin()
                elif not self.pilot:
                    self.pilot = self._panels(self._seen(self._random_signs(PILOT)))
                else:
                    self.add_probes(-(-(needed - self.count) // PANEL) * PANEL)
                over = self.measure(degree)

    def _begin(self) -> None:
        """Start with fresh probes, which decide whether to deflate or to take a pilot."""
        self.probes, self.pilot, self.count = [], [], 0
        self.add_probes(PANEL)

    def measure(self, degree: int) -> Sampled:
        """The measure for polynomials of this degree, with the probes that there are."""
        size = degree + 1
        groups = (self.signals, self.taken, self.probes, self.pilot)
        moments = moments_of([panel for group in groups for panel in group], degree)
        weights = scipy.fft.dct(moments, type=3, axis=0) / size if moments.size else moments
        ends = np.cumsum([sum(panel.count for panel in group) for group in groups])
        signal, taken, probes, pilot = np.split(weights, ends[:-1], axis=1)
        known = np.concatenate([self.average.power, taken.sum(axis=1)])
        probes, pilot = (
            np.concatenate([np.zeros((1, columns.shape[1])), columns]) for columns in (probes, pilot)
        )
        scales = [float((self.means**2).sum()), float(self.variance.max())]
        return Sampled(
            nodes=np.concatenate([np.zeros(1), self.interval.nodes(size)]),
            constant=np.concatenate([np.ones(1), np.zeros(size)]),
            signal=np.concatenate([self.average.signal, signal.sum(axis=1)[:, None, None]]),
            power=known + (probes.mean(axis=1) if self.count else 0.0),
            known=known,
            probes=probes,
            pilot=pilot,
            scales=np.tile(scales, (size + 1, 1)),
        )

    def add_probes(self, count: int) -> None:
        self.probes += self._panels(self._seen(self._random_signs(count)))
        self.count += count

    def _random_signs(self, count: int) -> Floats:
        signs = self.random.choice([-1.0, 1.0], (self.network.agents, count))
        return np.asarray(signs - self.basis @ (self.basis.T @ signs))

    def _seen(self, vectors: Floats) -> Floats:
        """What the modes other than the constant one see of vectors of unit noise."""
        noise = self.deviation * vectors
        return np.asarray(noise - noise.mean(axis=0))

    def _room(self) -> int:
        """Vectors that can be taken out."""
        count = min(DEFLATED, 2**24 // self.network.agents, self.network.agents // 2 - self.basis.shape[1])
        return count if count >= PANEL else 0

    def deflate(self, noise: Floats) -> None:
        """Take out what a noise gain, given at the nodes, is largest on, and begin with fresh probes."""
        count = self._room()
        # Polynomials of this degree tell the slow modes apart; they need not be those of the noise gain.
        degree = min(len(noise) // 2, FILTER * self.interval.steps)
        coefficients = _coefficients(noise)[: degree + 1] * jackson(degree + 1)
        start = self._seen(self._random_signs(count))
        filtered = filtered_by(self._panels(start), coefficients) + coefficients[0] * start
        filtered = self.deviation * (filtered - filtered.mean(axis=0))
        filtered -= self.basis @ (self.basis.T @ filtered)
        fresh = np.linalg.qr(filtered)[0]
        self.basis = np.concatenate([self.basis, fresh], axis=1)
        self.taken += self._panels(self._seen(fresh))
        self._begin()

    def degree(self, passes: Sequence[Pass]) -> int:
        """The least degree whose moments suffice for all horizons of the passes."""
        full = 2 * max(int(run.ends[-1]) for run in passes)
        low, high = self.interval
        size = max(64, 2 ** math.ceil(math.log2(8 * math.sqrt(high / low)))) if low else full
        signal, power = float((self.means**2).sum()), float(self.variance.sum())
        integral = integrate(passes, self.network, self.observations, self.average)
        allowed = TRUNCATION * (integral.bias + integral.variance)
        while True:
            size = min(size, full + 1)  # with that many nothing is aliased
            enough = 0
            for run in passes:
                response, noise = run.propagate(self.interval.nodes(size))
                squares = response[..., 0] ** 2
                left = signal * np.abs(_coefficients(squares)) + power * np.abs(_coefficients(noise))
                tails = np.cumsum(left[:, ::-1], axis=1)[:, ::-1]
                rounding = size * 2.0**-50 * (signal * squares.max(axis=1) + power * noise.max(axis=1))
                # Where a method diverges, no degree helps.
                good = ~(2 * tails > np.maximum(allowed[run.which], rounding)[:, None])
                enough = max(enough, int(np.where(good.any(axis=1), good.argmax(axis=1), size).max()))
            if enough <= 3 * size // 4 or size > full:
                return max(min(enough, full), 2)
            size *= 2


def _excess(over: Sampled, passes: Sequence[Pass], gains: Sequence[tuple[Floats, Floats]]) -> Floats:
    """(H,) standard errors as multiples of what they may be, in the order of the passes."""
    excess = []
    for run, (response, noise) in zip(passes, gains, strict=True):
        bias, variance, uncertainty = over.integral(over.sums(response, noise, run.ends))
        total = bias + variance
        excess.append(np.where(np.isfinite(total) & (total > 0), uncertainty / (RELATIVE * total), 0.0))
    return np.concatenate(excess)


def measures(network: Network, observations: Observations) -> Measure | Sampler:
    """What gives the measure for passes (`fit`): the full spectrum, where there is one, or a sampler."""
    return Sampler(network, observations) if network.spectrum is None else measure(network, observations)


def _coefficients(values: Floats) -> Floats:
    """The coefficients of the Chebyshev polynomials in functions with these values at the nodes (the last axis)."""
    coefficients = scipy.fft.dct(values, type=2) / values.shape[-1]
    coefficients[..., 0] /= 2
    return np.asarray(coefficients)
