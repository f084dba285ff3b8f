"""Two earlier ways to estimate a parameter over a network, for comparison with averaging methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gossamer import checks
from gossamer.applications.linear import innovations
from gossamer.applications.solvers import settled
from gossamer.arrays import Floats, Integers
from gossamer.methods import LinearIteration
from gossamer.numerics import random
from gossamer.numerics.sparse import rows_of

if TYPE_CHECKING:
    from gossamer.applications.linear.estimation import LinearEstimation


@dataclass(frozen=True)
class XiaoBoydLall:
    r"""Sensor fusion by average consensus (Xiao, Boyd, Lall 2005).

    Each agent starts from its own matrix and vector, and replaces both in every round by weighted means over its
    neighborhood:

    .. math::

        P_i &\leftarrow \sum_j W_{ij} P_j, \qquad P_i(0) = A_i^\top S_i^{-1} A_i \\
        q_i &\leftarrow \sum_j W_{ij} q_j, \qquad q_i(0) = A_i^\top S_i^{-1} y_i

    Its estimate is :math:`P_i^{-1} q_i` (of least norm, while :math:`P_i` is singular). P and q are mixed the same way,
    so the estimate has no bias.

    Parameters
    ----------
    samples : int, optional
        The measurements are taken once and then fused: this many of them, or as many as there are rounds (None), so
        that nothing is fused before all of them are taken.

    See Also
    --------
    KarMoura : Consensus and innovations.
    gossamer.LinearEstimation : The problem that it solves.

    Examples
    --------
    >>> sensors = gs.LinearEstimation.random(gs.Network.grid(3, 3), dimension=2, measurements=1)
    >>> run = sensors.simulate(gs.applications.XiaoBoydLall(samples=100), 100, trials=20)
    >>> run.total_error < 2 * sensors.centralized_error(100)
    True
    """

    samples: int | None = 1
    name: ClassVar[str] = "xiao-boyd-lall"

    def estimates(self, problem: LinearEstimation, horizons: Integers, trials: int, seed: int) -> Floats:
        weighted = problem if problem.measurements is not None else problem.weighted("precision")
        parts = []
        for horizon in horizons.tolist():
            batch = np.array([float(horizon if self.samples is None else self.samples)])
            taken = weighted.moments.sample(seed, range(1), range(trials), batches=batch)[0]  # (N, d, trials)
            fused = settled(LinearIteration(), weighted.network, taken.reshape(len(taken), -1), horizon)
            grams = weighted.average_grams(LinearIteration(), horizon)
            inverse = np.linalg.pinv(grams, rcond=1e-12, hermitian=True)
            parts.append(np.einsum("nab,nbt->tna", inverse, fused.reshape(taken.shape), optimize=True))
        return np.stack(parts)


@dataclass(frozen=True)
class KarMoura:
    r"""Consensus + innovations (Kar, Moura and others, 2011-2013).

    .. math:: x_i \leftarrow x_i - b_t \sum_j L_{ij} x_j + a_t K A_i^\top S_i^{-1} (Y_{i,t} - A_i x_i)

    The defaults are the best of `a`, `tau` and `delay` tried on a grid and a path (a = 1 forgets its start too slowly).

    Parameters
    ----------
    form : str
        Time scales: "LU" has one, :math:`a_t = a/(t+1+\text{delay})` and :math:`b_t = b\,a_t`; "mixed" has two, with
        :math:`b_t = b/(t+1)^\tau`, so that consensus outlasts the innovations.
    gain : str
        The matrix K: "efficient" is :math:`\bar A^{-1}`, the inverse of the mean of :math:`A_i^\top S_i^{-1} A_i`
        (with a = 1 asymptotically as good as a center), and "identity" the identity.
    a, b, delay : float, optional
        Factors of the two step sizes, and rounds by which the innovations are delayed. By default b is so large that
        the first exchange is just stable, the delay makes the first innovation stable, and a is a multiple of
        :math:`1/\lambda_\min(K \bar A)`.
    tau : float
        The exponent :math:`\tau` of "mixed", above 0 and below 1/2.

    See Also
    --------
    XiaoBoydLall : Sensor fusion by average consensus.
    gossamer.LinearEstimation : The problem that it solves.

    Examples
    --------
    >>> sensors = gs.LinearEstimation.random(gs.Network.grid(3, 3), dimension=2, measurements=1)
    >>> run = sensors.simulate(gs.applications.KarMoura(), [100, 1000], trials=20)
    >>> run.total_error[1] < run.total_error[0]
    True
    """

    form: str = "mixed"
    gain: str = "efficient"
    a: float | None = None
    b: float | None = None
    tau: float = 0.1
    delay: float | None = None
    name: ClassVar[str] = "kar-moura"

    def __post_init__(self) -> None:
        checks.choice("form", self.form, ("LU", "mixed"))
        checks.choice("gain", self.gain, ("efficient", "identity"))
        checks.number("tau", self.tau, above=0, below=0.5)
        for name, value in (("a", self.a), ("b", self.b)):
            if value is not None:
                checks.number(name, value, above=0)
        if self.delay is not None:
            checks.number("delay", self.delay, least=0)

    def estimates(self, problem: LinearEstimation, horizons: Integers, trials: int, seed: int) -> Floats:
        problem = problem if problem.measurements is not None else problem.weighted("precision")
        network = problem.network
        average = problem.grams.mean(axis=0)
        gain = np.linalg.inv(average) if self.gain == "efficient" else np.eye(problem.dimension)
        pull = np.matmul(gain, problem.grams)
        innovation, consensus = self._steps(problem, pull, average, int(horizons.max()))
        lanes = min(innovations.LANES, -(-trials // 8) * 8)
        first = np.arange(0, trials, lanes)
        order = np.argsort(horizons, kind="stable")
        shape = (network.agents, problem.dimension, lanes)
        out = np.empty((len(first), len(horizons), *shape))
        moments = problem.moments
        innovations.innovate(
            out,
            np.zeros((len(first), *shape)),
            first,
            random.key(seed),
            innovations.Innovations(moments.mean @ gain.T, np.matmul(gain, moments.factor), pull),
            innovations.StepSizes(innovation, consensus, horizons[order]),
            rows_of(network.gossip),
        )
        ordered = np.empty((len(horizons), trials, *shape[:2]))
        ordered[order] = np.moveaxis(out, (1, 0, 4), (0, 1, 2)).reshape(len(horizons), -1, *shape[:2])[
            :, :trials
        ]
        return ordered

    def _steps(
        self, problem: LinearEstimation, pull: Floats, average: Floats, rounds: int
    ) -> tuple[Floats, Floats]:
        """Return a_t and b_t."""
        mixed = self.form == "mixed"
        a = self.a
        if a is None and self.gain == "efficient":
            a = 2.0 if mixed else 4.0
        elif a is None:
            a = (1.0 if mixed else 2.0) / float(np.linalg.eigvalsh(average)[0])
        strongest = a * float(np.linalg.norm(pull, 2, axis=(1, 2)).max())
        # With two time scales the network damps what one strong sensor does, so half the margin is enough.
        delay = max((0.5 if mixed else 1.0) * strongest - 1, 0.0) if self.delay is None else self.delay
        time = np.arange(1, rounds + 1)
        innovation: Floats = np.asarray(a / (time + delay), dtype=float)
        largest = 1.0 / problem.network.lambda_max
        if mixed:
            consensus = (largest if self.b is None else self.b) / time**self.tau
        else:
            consensus = innovation * (largest / innovation[0] if self.b is None else self.b)
        return innovation, np.asarray(consensus)
