"""Anytime SDA in closed form: its expected error, a bound on it (Theorem 3), and its error on drifting means.

docs/theorem.md proves every formula. In the mode of eigenvalue lambda, Nesterov's recursion filters the increments D_s
of what agents average: the answer after T rounds is sum_s g_{T-s} D_s. With r = sqrt(kappa), rho = 1 - 1/r and

    lambda = lambda_2 + (lambda_max - lambda_2) sin^2 phi,

    g_k = rho^k cos^{k-1} phi (cos phi U_k(cos phi) + r T_{k+1}(cos phi)) / (r + 1)

with Chebyshev polynomials T and U, so that |g_k| <= (1 + k/(r+1)) rho^k, with equality at lambda_2.
"""

from __future__ import annotations

import math
from typing import NamedTuple, overload

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import Unsupported
from gossamer.networks import Network, NetworkLike
from gossamer.networks.spectrum import Spectrum
from gossamer.observations import Observations, check_match
from gossamer.theory.bound import Bound, check_problem, moves, unmoved_condition

BLOCK = 2**21
"""Rounds times modes that are held at a time."""

MODES = 2**20
"""Largest number of agents for which Theorem 3 looks at every eigenvalue instead of the smallest and the largest."""

TAIL = 10
"""Theorem 3 bounds increments of the first T/TAIL rounds by the largest that is left of them. Any number is valid; 10
keeps the bound within 1.4 times the error from T = 10 sqrt(kappa) on, on the paper's five networks."""


class _Filter(NamedTuple):
    """What the filters of all modes have in common.

    root, decay, momentum   sqrt(kappa), rho and zeta
    window, memory          the smoothing window w >= 1, and 1 - 1/w
    """

    root: float
    decay: float
    momentum: float
    window: float
    memory: float

    @classmethod
    def of(cls, network: Network, smoothing: float) -> _Filter:
        root = math.sqrt(max(network.condition_number, 1.0))
        window = max(checks.number("smoothing", smoothing, least=0, most=1e9), 1.0)
        return cls(root, 1 - 1 / root, (root - 1) / (root + 1), window, 1 - 1 / window)

    def envelope(self, k: int) -> float:
        """Return b_k, the bound on |g_k| in every mode, which g_k attains at lambda_2."""
        return float((1 + k / (self.root + 1)) * self.decay**k)

    def smoothed_envelope(self, k: int) -> float:
        """Return a bound on (1/w) sum_{i=1}^k (1 - 1/w)^(k-i) b_i, that is, on |g_k| after smoothing."""
        fast, slow = sorted((self.decay, self.memory))
        gap = (slow - fast) / slow if slow else 1.0
        ratio, most = 1 - gap, 1 / gap if gap else math.inf
        if self.decay > self.memory:
            return self.envelope(k) * min(k, most) / self.window
        weighted = min(k, ratio * most) + min(k * (k + 1) / 2, ratio * most**2) / (self.root + 1)
        return weighted * slow**k / self.window

    def response(self, network: Network, eigenvalues: Floats, rounds: int) -> Floats:
        """Return (rounds, modes): g_1 ... g_rounds at these nonzero eigenvalues."""
        low, high = network.lambda_2, network.lambda_max
        angle = np.arctan2(
            np.sqrt(np.maximum(eigenvalues - low, 0)), np.sqrt(np.maximum(high - eigenvalues, 0))
        )
        k = np.arange(1, rounds + 1)[:, None]
        sine, cosine = np.sin(angle), np.cos(angle)
        slow = sine < 1e-9
        second = np.where(slow, k + 1.0, np.sin((k + 1) * angle) / np.where(slow, 1.0, sine))
        mixed = cosine * second + self.root * np.cos((k + 1) * angle)
        return np.asarray(self.decay**k * cosine ** (k - 1) * mixed / (self.root + 1))


class _Moments(NamedTuple):
    """Sums of products of f_k = discount^(k/2) g_k over k >= 1, one entry per mode.

    f_{k+1} = forward f_k - back f_{k-1} for k >= 1, with f_0 = 1 and f_1 = first; lag_0 = sum f_k^2 and
    lag_1 = sum f_k f_{k+1} solve the two equations that follow from it.
    """

    forward: Floats
    back: Floats
    first: Floats
    lag_0: Floats
    lag_1: Floats

    @classmethod
    def of(cls, shared: _Filter, eta_lambda: Floats, discount: float = 1.0) -> _Moments:
        zeta, scale, q = shared.momentum, math.sqrt(discount), np.maximum(1 - eta_lambda, 0)
        p, d = (1 + zeta) * q * scale, zeta * q * discount
        first = ((1 + zeta) * q - zeta) * scale
        numerator = first**2 + d**2 - 2 * p * d * first / (1 + d)
        lag_0 = numerator / (1 - p**2 - d**2 + 2 * p**2 * d / (1 + d))
        return cls(p, d, first, lag_0, (p * lag_0 - d * first) / (1 + d))

    def lagged(self, memory: float) -> Floats:
        """Return sum_{j >= 1} memory^(j-1) sum_k f_k f_{k+j}."""
        p, d = self.forward, self.back
        inside = (p - d * memory) * self.lag_0 - d * (self.first + self.lag_1)
        return np.asarray(inside / (1 - p * memory + d * memory**2))

    def smoothed(self, shared: _Filter, discount: float = 1.0) -> Floats:
        """Return sum f_k^2 of the filter after smoothing, whose impulse response is that of g averaged over about
        w rounds."""
        memory = shared.memory * math.sqrt(discount)
        left = shared.window**2 * (1 - discount) + discount * (2 * shared.window - 1)  # w^2 (1 - memory^2)
        return (self.lag_0 + 2 * memory * self.lagged(memory)) / left


@overload
def anytime_error(
    network: NetworkLike, observations: Observations, rounds: int, smoothing: float = ...
) -> float: ...
@overload
def anytime_error(
    network: NetworkLike, observations: Observations, rounds: Integers, smoothing: float = ...
) -> Floats: ...
def anytime_error(
    network: NetworkLike, observations: Observations, rounds: int | Integers, smoothing: float = 0.0
) -> float | Floats:
    r"""Return the expected error of Anytime SDA (Nesterov's form) after T rounds in closed form, for one T or several.

    Without smoothing it is

    .. math::

        \frac{\bar\sigma^2}{T} + \sum_{\lambda > 0} \Big[ g_T^2 \Big(\|\mu_\lambda\|^2 + \frac{\sigma_\lambda^2}{T}\Big)
        + \sigma_\lambda^2 \sum_{s=1}^{T-1} \frac{(g_{T-s} - g_T)^2}{s(s+1)} \Big]

    with the impulse response :math:`g_k` of mode :math:`\lambda`, the means :math:`\mu_\lambda` and variances
    :math:`\sigma_\lambda^2 = \sum_i q_{\lambda i}^2 \|\sigma_i\|^2` of the modes, and the variance
    :math:`\bar\sigma^2 = \frac1N \sum_i \|\sigma_i\|^2` of the constant mode. With smoothing, :math:`g_{T-s}` is
    averaged over the following rounds as the observations are. The theorem's page has the proof, and what the other
    forms of Anytime SDA have in place of :math:`g`.

    Parameters
    ----------
    network : Network
        The network of the agents, small enough to be decomposed.
    observations : Observations
        The streams of the N agents, whose means must not move.
    rounds : int or ndarray of int
        Number of rounds T, or an array of such numbers, whose shape the result has.
    smoothing : float
        The window w in rounds, as in `AnytimeSDA`; 0 disables smoothing.

    See Also
    --------
    theorem_3 : The bound on it.
    tracking_error : The error if the means move.
    gossamer.exact : The expected error of any method.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(20), gs.Gaussian(np.arange(20.0))
    >>> gs.theory.anytime_error(net, obs, 300), gs.exact(gs.AnytimeSDA(smoothing=0), net, obs, 300).total_error
    (0.0035553, 0.0035553)
    """
    network = check_match(network, observations)
    shared, spectrum = _Filter.of(network, smoothing), _spectrum(network)
    if moves(observations):
        raise Unsupported(
            "the closed form needs means that do not move; use gs.exact, or gs.theory.tracking_error for drifting means"
        )
    if isinstance(rounds, np.ndarray) and rounds.ndim:
        horizons = [checks.rounds(t) for t in rounds.tolist()]
        return np.array([_error(network, spectrum, observations, t, shared) for t in horizons])
    return _error(network, spectrum, observations, checks.rounds(rounds), shared)


LONGEST = 10**7
"""Largest number of rounds over which the closed form sums."""


def _error(
    network: Network, spectrum: Spectrum, observations: Observations, rounds: int, shared: _Filter
) -> float:
    if rounds > LONGEST:
        raise Unsupported(
            f"the closed form sums over all rounds: at most {LONGEST}, but these are {rounds}; "
            "gs.theory.theorem_3 bounds the error"
        )
    square = _of_modes(spectrum, observations.mean)
    variance = spectrum.energy(observations.variance).sum(axis=1)
    s = np.arange(1, rounds)[:, None]
    gain = np.maximum(1 / np.arange(1, rounds + 1), 1 / shared.window)
    kept = np.cumprod(np.append(1.0, (1 - gain)[:0:-1]))[:0:-1]  # of d_s, not yet in the smoothed mean
    total = float(variance[0] * (1 / rounds + (kept**2 / (s * (s + 1))[:, 0]).sum()))
    block = max(1, BLOCK // rounds)
    for start in range(1, len(variance), block):
        part = slice(start, start + block)
        held = shared.response(network, spectrum.eigenvalues[part], rounds)[::-1]  # row s: g_{T-s}
        if shared.memory:
            held[-1] *= gain[-1]
            for t in range(rounds - 2, -1, -1):
                held[t] = gain[t] * held[t] + (1 - gain[t]) * held[t + 1]
        noise = held[0] ** 2 / rounds + ((held[1:] - held[0]) ** 2 / (s * (s + 1))).sum(axis=0)
        total += float((held[0] ** 2 * square[part] + noise * variance[part]).sum())
    return total


def theorem_3(network: NetworkLike, observations: Observations, rounds: int, smoothing: float = 0.0) -> Bound:
    r"""Return Theorem 3, a bound on the error of Anytime SDA (Nesterov's form) after T rounds (ours).

    With :math:`b_k = (1 + k/(\sqrt\kappa + 1)) (1 - 1/\sqrt\kappa)^k` and, without smoothing, it is

    .. math::

        \frac{\bar\sigma^2}{T} + \frac{1}{T^2} \sum_{\lambda > 0} \sigma_\lambda^2 G_\lambda
        + b_T^2 \sum_i \|\mu_i - \bar\mu\|^2 + \text{transient noise}, \qquad
        G_\lambda = \sum_{k \ge 1} \gamma^k g_k^2 \le \sum_{k \ge 1} \gamma^k b_k^2 ,

    where :math:`\gamma \to 1` as T grows, :math:`G_\lambda` has a closed form (without :math:`\gamma` it is at most
    :math:`\frac54 (\sqrt\kappa - 1)`), and the transient noise falls like :math:`b_{0.9 T}^2`. The leading constant is
    that of a center that holds all samples, where Theorem 1 has twice as much; T need not be known in advance. A
    window w makes :math:`G_\lambda` smaller, and adds about :math:`\bar\sigma^2 w / 2 T^2`.

    On networks that are too large to be decomposed every :math:`G_\lambda` is replaced by the largest, that of
    :math:`\lambda_2`.

    Parameters
    ----------
    network : Network, NetworkX graph or str
        The network of the N agents, for example "grid:10x10".
    observations : Observations
        The streams, with means :math:`\mu_i` and variances :math:`\sigma_{ij}^2` of component j at agent i.
    rounds : int
        Number of rounds T, at least 1.
    smoothing : float
        The window w in rounds, as in `AnytimeSDA`; 0 disables smoothing.

    See Also
    --------
    theorem_1 : The bound for SDA.
    anytime_error : The expected error itself.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(20), gs.Gaussian(np.arange(20.0))
    >>> gs.theory.theorem_3(net, obs, 300).total / gs.theory.anytime_error(net, obs, 300)
    1.0029
    """
    network, rounds = check_problem(network, observations, rounds)
    shared = _Filter.of(network, smoothing)
    first = max(1, rounds // TAIL, math.ceil(shared.window - 1))  # increments before this round are the tail
    last = max(rounds - first, 1)
    discount = (max(rounds, first + 1) ** 2 / (first * (first + 1))) ** (1 / last)
    left = discount * max(shared.decay, shared.memory) ** 2
    long_enough = rounds > first and left < 1
    total = float(observations.variance.sum())
    center = total / network.agents  # the variance in the constant mode
    apart = total - center  # and in all others
    spectrum = network.spectrum if network.agents <= MODES else None
    if spectrum is None:
        nonzero, variance = np.array([network.lambda_2]), np.array([apart])
    else:
        nonzero, variance = spectrum.eigenvalues[1:], spectrum.energy(observations.variance).sum(axis=1)[1:]
    mixing = late = transient = math.inf
    end = shared.envelope(rounds)
    if long_enough:
        energy = _Moments.of(shared, nonzero / network.lambda_max, discount).smoothed(shared, discount)
        mixing = float((variance * energy).sum()) / rounds**2
        kept = discount * shared.memory**2
        late = center * kept / (1 - kept) / rounds**2
        tail = max(shared.envelope(last), shared.smoothed_envelope(last))
        unmixed, ended = apart * tail**2, math.sqrt(apart) * end
        transient = unmixed + 2 * ended * math.sqrt(mixing + unmixed) + ended**2
        transient += center * shared.memory ** (2 * last)
    deviation = observations.mean - observations.mean.mean(axis=0)
    return Bound(
        terms={
            "bias": end**2 * float((deviation**2).sum()),
            "transient noise": transient,
            "mixing noise": mixing + late,
            "averaging noise": center / rounds,
        },
        applies=long_enough and not moves(observations),
        condition=f"T > max(w - 1, 1) and gamma max(rho, 1 - 1/w)^2 < 1 (it is {left:.3g})"
        + unmoved_condition(observations),
    )


def tracking_error(
    network: NetworkLike, observations: Observations, gain: float, smoothing: float = 0.0
) -> float:
    r"""Return the error of Anytime SDA (Nesterov's form) with a constant gain, in closed form, once it is stationary.

    With the gain :math:`\alpha` the running mean forgets, so that agents follow means that drift by
    :math:`\delta_i` per round. Without smoothing the error is

    .. math::

        \frac{\alpha}{2 - \alpha} \bar\sigma^2 + N \Big(\frac{1 - \alpha}{\alpha}\Big)^2 \|\bar\delta\|^2
        + \sum_{\lambda > 0} \Big[ \sigma_\lambda^2 V_\lambda
        + \Big(\frac{1 - \zeta}{\eta\lambda} - 1\Big)^2 \|\delta_\lambda\|^2 \Big]

    where :math:`V_\lambda = \alpha^2 \sum_{k \ge 1} g_k^2` up to terms of order :math:`\alpha^3`.

    Parameters
    ----------
    network : Network
        The network of the agents, small enough to be decomposed.
    observations : Observations
        The streams of the N agents; their means may drift.
    gain : float
        The constant gain, at least 1e-9 and at most 1.
    smoothing : float
        The window w in rounds, as in `AnytimeSDA`; 0 disables smoothing.

    See Also
    --------
    anytime_error : The error if the means do not move.
    gossamer.Drifting : Means that move.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(20), gs.Drifting(gs.Gaussian(np.zeros(20)), 0.001)
    >>> gs.theory.tracking_error(net, obs, gain=0.05)
    0.073671
    >>> gs.exact(gs.AnytimeSDA(gain=0.05, smoothing=0), net, obs, 2000).total_error
    0.073671
    """
    network = check_match(network, observations)
    shared, spectrum = _Filter.of(network, smoothing), _spectrum(network)
    if observations.moving:
        raise Unsupported("the closed form needs means that stay or drift linearly; use gs.exact")
    alpha = checks.number("gain", gain, least=1e-9, most=1)
    past, memory, window = 1 - alpha, shared.memory, shared.window
    eta_lambda = spectrum.eigenvalues[1:] / network.lambda_max
    modes = _Moments.of(shared, eta_lambda)
    p, d = modes.forward, modes.back
    energy, near = modes.smoothed(shared), modes.lag_0 + memory * modes.lagged(memory)
    across = (p - d * past) * near - d * (modes.first + modes.lag_1 + memory * near)
    both = alpha + 1 / window - alpha / window  # 1 - past memory
    lagged = (memory * energy + across / (window**2 * (1 - p * past + d * past**2))) / both
    noise = np.append(
        alpha * (1 + past * memory) / (both * (2 - alpha) * (2 * window - 1)),
        2 * alpha**2 / (2 - alpha) * (energy - alpha * lagged),
    )
    late = np.append(past / alpha + window - 1, (1 - shared.momentum) / eta_lambda - 1)
    variance = spectrum.energy(observations.variance).sum(axis=1)
    return float((noise * variance + late**2 * _of_modes(spectrum, observations.drift)).sum())


def _of_modes(spectrum: Spectrum, vectors: Floats) -> Floats:
    """Return the squared length of (N, n) vectors in every mode."""
    return np.asarray((np.abs(spectrum.analyze(vectors)) ** 2).sum(axis=1))


def _spectrum(network: Network) -> Spectrum:
    if network.spectrum is None:
        raise Unsupported(
            "the closed form needs every eigenvalue of the network, and this one is too large to decompose; "
            "use gs.exact"
        )
    return network.spectrum
