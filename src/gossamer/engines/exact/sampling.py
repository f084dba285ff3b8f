"""Exact errors on networks too large to decompose: biases exactly, variances by random probes.

A method's response h(lambda) and noise gain v(lambda) after T rounds are polynomials of degree T and 2 T, so

    bias     = x' h(L)^2 x              x: the means without their average
    variance = trace(A),  A = s v(L) s  s: the diagonal matrix of the agents' standard deviations

are sums of Chebyshev moments (`moments.py`), which T products with the matrix give for every method and every horizon
up to T. The constant mode is known. A trace is the mean of z'A z over random signs z. If a few slow
modes dominate it, the probes vary a lot: then an orthonormal basis Q of the subspace on which A is large is found by
applying A to random vectors (as in Hutch++, Meyer et al. 2021), trace(Q'A Q) is computed exactly, and only the rest is
sampled.

The number of probes needed for a standard error of 1% of the total error is determined from the spread of the probes of
a pilot, and so is the standard error. The pilot is not part of the mean, so the error of the mean is independent of
both, whatever the distribution of a probe: this is the two-stage rule of Stein (1945). If the spread of the probes in
the mean were used instead, the standard error would be too small, because sampling would stop where the spread happens
to be small. If all probes together have a larger spread than the pilot, the larger spread is used.

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
"""Number of agents from which a single probe is tried first; it suffices if many modes matter."""

MANY_PROBES = 64
"""If more probes than this seem to be needed, slow modes are deflated first.

The probes themselves decide this, because keeping a pilot only if its variance is small would make the standard error
too small. Later, for other horizons, the pilot decides, but only if it requires four times as many probes.
"""

BOUND = 16
"""For a single probe only a bound on the variance is known; slow modes are deflated at once if it requires this many
times more probes than `MANY_PROBES`."""

DEFLATED = 16
"""Number of vectors that are deflated at a time."""

FILTER = 2
"""Largest degree of the filter that finds these vectors, as a multiple of the square root of the condition number."""

WORK = 2**36
"""Number of agent updates after which no more probes are added: a few minutes."""


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
        self.pilot: list[Panel] = []  # once there is a pilot, it is kept
        self.taken: list[Panel] = []  # moments of the vectors of the basis
        self.count = self.columns = 0

    @cached_property
    def interval(self) -> Interval:
        """An interval slightly larger than [lambda_2, lambda_max], which are known to a few digits."""
        try:
            low = 0.98 * self.network.lambda_2
        except Unsupported:  # lambda_2 did not converge; starting at 0 takes more moments
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
        """Return a measure with which the standard error is small for all horizons of the passes."""
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
        """Return the measure for polynomials of this degree, from the current probes."""
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
        """Return vectors of unit noise, scaled by the standard deviations and without their constant mode."""
        noise = self.deviation * vectors
        return np.asarray(noise - noise.mean(axis=0))

    def _room(self) -> int:
        """Number of vectors that can be deflated."""
        count = min(DEFLATED, 2**24 // self.network.agents, self.network.agents // 2 - self.basis.shape[1])
        return count if count >= PANEL else 0

    def deflate(self, noise: Floats) -> None:
        """Deflate the subspace on which a noise gain, given at the nodes, is largest, and start with fresh probes."""
        count = self._room()
        # Polynomials of this degree separate the slow modes; they need not be those of the noise gain.
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
        """Return the smallest degree whose moments suffice for all horizons of the passes."""
        full = 2 * max(int(run.ends[-1]) for run in passes)
        low, high = self.interval
        size = max(64, 2 ** math.ceil(math.log2(8 * math.sqrt(high / low)))) if low else full
        signal, power = float((self.means**2).sum()), float(self.variance.sum())
        integral = integrate(passes, self.network, self.observations, self.average)
        allowed = TRUNCATION * (integral.bias + integral.variance)
        while True:
            size = min(size, full + 1)  # enough to avoid aliasing
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
    """Return (H,) standard errors as multiples of their limits, in the order of the passes."""
    excess = []
    for run, (response, noise) in zip(passes, gains, strict=True):
        bias, variance, uncertainty = over.integral(over.sums(response, noise, run.ends))
        total = bias + variance
        excess.append(np.where(np.isfinite(total) & (total > 0), uncertainty / (RELATIVE * total), 0.0))
    return np.concatenate(excess)


def measures(network: Network, observations: Observations) -> Measure | Sampler:
    """Return the object that provides measures (`fit`): the full spectrum if there is one, otherwise a sampler."""
    return Sampler(network, observations) if network.spectrum is None else measure(network, observations)


def _coefficients(values: Floats) -> Floats:
    """Return the Chebyshev coefficients of functions with these values at the nodes (the last axis)."""
    coefficients = scipy.fft.dct(values, type=2) / values.shape[-1]
    coefficients[..., 0] /= 2
    return np.asarray(coefficients)
