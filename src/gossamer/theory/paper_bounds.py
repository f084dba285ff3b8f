"""The paper's bounds, term by term, with explicit constants.

A bound is returned with its terms and with whether its conditions hold (`applies`); outside them the paper makes no
statement. Constants that the paper hides in O(.) are derived from the explicit ones of Theorem 1, along the paper's
own proofs, and the terms as stated in the paper are the bound's `order`.
"""

from __future__ import annotations

import math

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput, Unsupported
from gossamer.networks import Network, NetworkLike
from gossamer.numerics.search import first_true
from gossamer.observations import Observations
from gossamer.theory.bound import Bound, check_problem, moves, unmoved_condition


def k_star(network: NetworkLike | float) -> int:
    r"""Return k* of Definition 1, the burn-in that Theorem 1 requires.

    It is the smallest k from which on

    .. math::

        \Big(1 + \frac{k}{r+1}\Big) \Big(1 - \frac1r\Big)^k \le \Big(1 - \frac1{2r}\Big)^k, \quad r = \sqrt\kappa .

    Parameters
    ----------
    network : Network or float
        A network, or its condition number :math:`\kappa`, at least 1.

    See Also
    --------
    theorem_1 : The bound that requires it.

    Examples
    --------
    >>> gs.theory.k_star(gs.Network.path(100))
    153
    """
    if isinstance(network, int | float | np.number):
        kappa = checks.number("a condition number", network, least=1 - 1e-9)
    else:
        kappa = Network.of(network).condition_number
    root = math.sqrt(max(kappa, 1.0))
    if root - 1 < 1e-9:
        return 1

    def excess(k: int) -> float:  # concave in k and 0 at k = 0: positive, then negative
        return math.log1p(k / (root + 1)) + k * (math.log1p(-1 / root) - math.log1p(-1 / (2 * root)))

    return first_true(lambda k: excess(k) <= 0)


def theorem_1(network: NetworkLike, observations: Observations, rounds: int) -> Bound:
    r"""Return Theorem 1, a bound on the error of SDA with the paper's parameters after T rounds.

    With the burn-in :math:`T_0 = T/2 \ge k^*` and the condition number :math:`\kappa` it is

    .. math::

        \frac{16\kappa}{T^2} e^{-T/(2\sqrt\kappa)} \sum_i \|\mu_i - \bar\mu\|^2
        + \frac{24 (k^* + \sqrt\kappa)}{T^2} \sum_{ij} \sigma_{ij}^2
        + \frac{2}{T} \sum_j \max_i \sigma_{ij}^2 .

    Parameters
    ----------
    network : Network, NetworkX graph or str
        The network of the N agents, for example "grid:10x10".
    observations : Observations
        The streams, with means :math:`\mu_i` and variances :math:`\sigma_{ij}^2` of component j at agent i.
    rounds : int
        Number of rounds T, at least 1.

    See Also
    --------
    k_star : The burn-in that it requires.
    theorem_2 : The bound for DSG.
    theorem_3 : The bound for Anytime SDA.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(20), gs.Gaussian(np.arange(20.0))
    >>> gs.theory.theorem_1(net, obs, 1000).total > gs.exact("sda", net, obs, 1000).total_error
    True
    """
    network, rounds = check_problem(network, observations, rounds)
    start = k_star(network)
    return Bound(
        terms=_theorem_1(network, observations.mean, observations.variance, rounds),
        applies=rounds / 2 >= start and not moves(observations),
        condition=f"T/2 >= k* = {start}" + unmoved_condition(observations),
    )


def _theorem_1(network: Network, mean: Floats, variance: Floats, rounds: int) -> dict[str, float]:
    """Return the terms of Theorem 1 for streams with these means and variances, (N, n)."""
    kappa = network.condition_number
    spread = ((mean - mean.mean(axis=0)) ** 2).sum()
    return {
        "bias": float(16 * kappa / rounds**2 * math.exp(-rounds / (2 * math.sqrt(kappa))) * spread),
        "mixing noise": float(24 * (k_star(network) + math.sqrt(kappa)) * variance.sum() / rounds**2),
        "averaging noise": float(2 * variance.max(axis=0).sum() / rounds),
    }


def theorem_2(network: NetworkLike, observations: Observations, rounds: int) -> Bound:
    r"""Return Theorem 2, a bound on the error of DSG after T rounds.

    All eigenvalues of W = I - L except one must be inside (-1, 1). With their absolute values
    :math:`\rho_2 \ge \dots \ge \rho_N`, the summed variances of the agents in decreasing order
    :math:`\sigma_{(1)}^2 \ge \dots \ge \sigma_{(N)}^2` (component by component) and :math:`\kappa = 1/(1 - \rho_2)` it
    is

    .. math::

        \frac{2\kappa^2}{T^2} \sum_i \|\mu_i\|^2
        + \frac{2}{T^2} \sum_{k=2}^N \frac{\sigma_{(k-1)}^2}{1 - \rho_k^2}
        + \frac{2}{NT} \sum_{ij} \sigma_{ij}^2 .

    Parameters
    ----------
    network : Network
        The network of the agents, small enough to be decomposed.
    observations : Observations
        The streams, with means :math:`\mu_i` and variances :math:`\sigma_{ij}^2`.
    rounds : int
        Number of rounds T, at least 1.

    See Also
    --------
    theorem_1 : The bound for SDA.
    theorem_3 : The bound for Anytime SDA.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(20), gs.Gaussian(np.arange(20.0))
    >>> gs.theory.theorem_2(net, obs, 1000).total > gs.exact("dsg", net, obs, 1000).total_error
    True
    """
    network, rounds = check_problem(network, observations, rounds)
    if network.spectrum is None:
        raise Unsupported(
            "Theorem 2 needs every eigenvalue of the network, and this one is too large to decompose"
        )
    moduli = np.sort(np.abs(1 - network.spectrum.eigenvalues))[::-1][1:]
    stable = moduli[0] < 1
    kappa = 1 / (1 - moduli[0]) if stable else math.inf
    ordered = np.sort(observations.variance, axis=0)[::-1][:-1].sum(axis=1)
    with np.errstate(divide="ignore"):
        mixing = (ordered / (1 - moduli**2)).sum() if stable else math.inf
    return Bound(
        terms={
            "bias": float(2 * kappa**2 * (observations.mean**2).sum() / rounds**2),
            "mixing noise": float(2 * mixing / rounds**2),
            "averaging noise": float(2 * observations.variance.sum() / (network.agents * rounds)),
        },
        applies=bool(stable) and not moves(observations),
        condition="the spectral radius of W - 11'/N is below 1" + unmoved_condition(observations),
    )


def corollary_1(
    network: NetworkLike, *, gram: Floats, mean: Floats, variance: Floats, rounds: int, gram_rounds: int
) -> Bound:
    r"""Return Corollary 1, a bound on the error of distributed linear estimation, summed over agents.

    SDA with the paper's parameters averages :math:`A_i^\top Y_i` for T rounds and :math:`A_i^\top A_i` for T' rounds
    (its last iterate); agent i answers with :math:`\hat A_i^{-1} \hat\mu_i`. In every mode of the network, the last
    iterate retains at most the share

    .. math:: g = \Big(1 + \frac{k}{\sqrt\kappa + 1}\Big) \Big(1 - \frac{1}{\sqrt\kappa}\Big)^k, \quad k = T' - 1

    of the initial deviation (the lemma behind Theorem 1), so that :math:`\|\hat A_i - \bar A\| \le D` with
    :math:`D^2 = g^2 \sum_i \|A_i^\top A_i - \bar A\|_F^2`. While :math:`m = \|\bar A^{-1}\| D \le 1/2`, the paper's
    proof gives

    .. math::

        E \sum_i \|\beta_i - \beta^*\|^2
        \le 16 \|\bar\mu\|^2 \|\bar A^{-1}\|^4 D^2 + (2 + 16 m^2) \|\bar A^{-1}\|^2 E_1

    where :math:`E_1` is Theorem 1 for the averages of :math:`A_i^\top Y_i`. The paper has spectral norms in place of
    Frobenius norms, for which a universal constant would need another proof.

    Parameters
    ----------
    network : Network
        The network of the N sensors.
    gram : ndarray
        The matrices :math:`A_i^\top A_i`, shape (N, d, d).
    mean, variance : ndarray
        Means :math:`\mu_i` of :math:`A_i^\top Y_i` and their variances, shape (N, d).
    rounds, gram_rounds : int
        T, and T', the number of rounds that averaged the Gram matrices.

    See Also
    --------
    corollary_2 : The same for policy evaluation.
    theorem_1 : The bound that it follows from.

    Examples
    --------
    >>> sensors = gs.LinearEstimation.random(gs.Network.grid(3, 3), dimension=2, measurements=1)
    >>> bound = sensors.bound(2000, gram_rounds=400)
    >>> run = sensors.simulate("sda", 2000, gram=gs.SDA(output="last"), gram_rounds=400)
    >>> bound.applies, bound.total > run.total_error
    (True, True)
    >>> sensors.bound(2000, gram_rounds=1).applies
    False
    """
    network = Network.of(network)
    kappa, rounds = network.condition_number, checks.rounds(rounds)
    gram_rounds = checks.rounds(gram_rounds)
    mean = checks.array("mean", mean, (network.agents, None))
    variance = checks.array("variance", variance, mean.shape)
    gram = checks.array("gram", gram, (*mean.shape, mean.shape[1]))
    average = gram.mean(axis=0)
    if np.linalg.matrix_rank(average) < len(average):
        raise InvalidInput(
            "the average of the A_i'A_i must be invertible, but it is singular; make sure that every direction is "
            "observed by some sensor"
        )
    inverse = float(np.linalg.norm(np.linalg.inv(average), 2))
    center, root = mean.mean(axis=0), math.sqrt(max(kappa, 1.0))
    level = float(center @ center)
    left = (1 + (gram_rounds - 1) / (root + 1)) * (1 - 1 / root) ** (gram_rounds - 1)
    apart = left * math.sqrt(float(((gram - average) ** 2).sum()))
    margin, start = inverse * apart, k_star(network)
    averaging = sum(_theorem_1(network, mean, variance, rounds).values())
    spectral = float((np.linalg.norm(gram - average, 2, axis=(1, 2)) ** 2).sum())
    order = inverse**2 * (
        math.exp(-rounds / root) * float(((mean - center) ** 2).sum())
        + root * float(variance.sum()) / rounds**2
        + float(variance.max(axis=0).sum()) / rounds
    )
    return Bound(
        terms={
            "matrix (T1)": 16 * level * inverse**4 * apart**2,
            "vector (T2)": (2 + 16 * min(margin, 0.5) ** 2) * inverse**2 * averaging,
        },
        applies=rounds / 2 >= start and margin <= 0.5,
        condition=(
            f"T/2 >= k* = {start}, and T' so large that ||Abar^-1|| ||Ahat_i - Abar|| is certainly at most 1/2 "
            f"(it is at most {margin:.3g})"
        ),
        order={
            "matrix (T1)": level * inverse**4 * math.exp(-gram_rounds / root) * spectral,
            "vector (T2)": order,
        },
    )


def corollary_2(
    network: NetworkLike, *, rewards: Floats, variance: Floats, discount: float, rounds: int
) -> Bound:
    r"""Return Corollary 2, a bound on the expected error of plug-in policy evaluation with SDA.

    The error is the largest over agents and states. The first three terms are the square roots of those of Theorem 1,
    divided by :math:`1 - \gamma`. For the transitions,

    .. math:: (I - \gamma\hat P)^{-1} \bar r - J^* = \gamma (I - \gamma\hat P)^{-1} (\hat P - P) J^* .

    Every row of :math:`(\hat P - P) J^*` is a mean of T independent values in an interval as long as the range of
    :math:`J^*`, which is at most that of :math:`\bar r` divided by :math:`1 - \gamma`. Hoeffding's lemma for the
    largest of S rows therefore gives

    .. math:: \frac{\gamma}{(1 - \gamma)^2} \, \mathrm{range}(\bar r) \sqrt{\frac{\log(2S)}{2T}} .

    The paper's own terms for the transitions (`order`) have a better power of :math:`1 - \gamma`, assume rewards of
    size 1 and hide a constant.

    Parameters
    ----------
    network : Network, NetworkX graph or str
        The network of the N agents, for example "grid:10x10".
    rewards, variance : ndarray
        Mean and variance of the reward, per agent and state, shape (N, S).
    discount : float
        The discount factor :math:`\gamma`, at least 0 and below 1.
    rounds : int
        Number of rounds T, at least 1.

    See Also
    --------
    corollary_1 : The same for linear estimation.
    theorem_1 : The bound that it follows from.

    Examples
    --------
    >>> rewards = np.arange(10.0).reshape(5, 2)
    >>> bound = gs.theory.corollary_2(
    ...     "cycle:5", rewards=rewards, variance=np.ones((5, 2)), discount=0.9, rounds=1000
    ... )
    >>> bound.applies, list(bound.terms)
    (True, ['bias', 'mixing noise', 'averaging noise', 'transitions'])
    """
    network = Network.of(network)
    rewards = checks.array("rewards", rewards, (network.agents, None))
    variance = checks.array("variance", variance, rewards.shape)
    discount, rounds = checks.number("discount", discount, least=0, below=1), checks.rounds(rounds)
    kappa, states = network.condition_number, rewards.shape[1]
    average = rewards.mean(axis=0)
    spread = math.sqrt(float(((rewards - average) ** 2).sum()))
    short = 1 - discount
    start = k_star(network)
    averaging = _theorem_1(network, rewards, variance, rounds)
    return Bound(
        terms={
            **{name: math.sqrt(term) / short for name, term in averaging.items()},
            "transitions": discount
            * float(np.ptp(average))
            * math.sqrt(math.log(2 * states) / (2 * rounds))
            / short**2,
        },
        applies=rounds / 2 >= start,
        condition=f"T/2 >= k* = {start}",
        order={
            "bias": math.exp(-rounds / (2 * math.sqrt(kappa))) * spread / short,
            "mixing noise": kappa**0.25 * math.sqrt(float(variance.sum())) / (short * rounds),
            "averaging noise": math.sqrt(float(variance.max(axis=0).sum())) / (short * math.sqrt(rounds)),
            "transitions": math.sqrt(math.log(states)) / (short**1.5 * math.sqrt(rounds)),
            "transitions, higher order": math.log(states) / (short**2 * rounds),
        },
    )
