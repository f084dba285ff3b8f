"""R-RRMA-AC-SA^2: restarted, regularized accelerated stochastic approximation on the dual.

Gorbunov, Dvinskikh, Gasnikov 2019, on Foster et al. 2019 (recursive regularization) and Ghadimi and Lan
(AC-SA). The original also selects among several independent trajectories; that choice depends on the data,
so it is not linear and is left out here. The constants of the outer restarts are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Method, Register

MOST_DOUBLINGS = 60
"""Batches stop doubling at this size, to avoid an overflow on networks that need few rounds."""


@dataclass(frozen=True)
class RRMA(Method):
    r"""Outer restarts with doubling batches around RRMA-AC-SA².

    AC-SA minimizes what is :math:`\lambda`-strongly convex and H-smooth. In its iteration t = 1, 2, ..., with
    :math:`a = 2/(t+1)`, :math:`\gamma = 4H/(t(t+1))` and :math:`D = \gamma + (1-a^2)\lambda`,

    .. math::

        m &= \frac{(1-a)(\lambda+\gamma)}{D} z + \frac{a\,((1-a)\lambda+\gamma)}{D} x, \qquad g = L (m + R) + r(m) \\
        x &\leftarrow \frac{a\lambda m + ((1-a)\lambda+\gamma) x - a g}{\lambda+\gamma}, \qquad
        z \leftarrow a x + (1-a) z

    where z is its output so far and r the gradient of the regularizer. AC-SA² is two runs, the second from the output
    of the first. RRMA has :math:`\lfloor\log_2(H/\lambda)\rfloor` stages; after stage s with output
    :math:`\hat x_s`, the term :math:`\lambda 2^{s-1} \lVert x - \hat x_s\rVert^2` joins the objective. Restart r takes
    `effort` :math:`\sqrt\kappa \ln\kappa` gradients, with batches of `batch` :math:`2^r` samples. The answer is z plus
    the mean of a fresh last batch, drawn in the last round, which needs no exchange.

    Parameters
    ----------
    batch : int
        Number of samples per agent and round in the first restart; it doubles with every restart.
    effort : float
        Number of gradients of a restart, relative to :math:`\sqrt\kappa \ln\kappa`.

    See Also
    --------
    SSTM : Another dual method with batches.
    DMASG : Another method in stages.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.RRMA(), net, obs, rounds=300).samples > 300
    True
    """

    batch: int = 1
    effort: float = 4.0

    name: ClassVar[str] = "r-rrma-ac-sa2"

    class State(NamedTuple):
        aggregate: Register  #: AC-SA's output so far (ag)
        x: Register
        anchor: Register  #: sum of lam 2^s xh_s over the regularizing stages done
        theta: Register

    class Coefficients(NamedTuple):
        restart: Floats  #: 1 where a new AC-SA run starts from the aggregate
        forget: Floats  #: 1 where an outer restart drops the anchors
        to_aggregate: Floats  #: weight of ag in md
        to_x: Floats  #: weight of x in md
        pull: Floats  #: a lam/(lam+ga)
        keep: Floats  #: ((1-a)lam+ga)/(lam+ga)
        gradient: Floats  #: a/(lam+ga)
        blend: Floats  #: a
        regular: Floats  #: sum of lam 2^s in the gradient
        fix: Floats  #: lam 2^s where a stage ends and its output becomes an anchor

    def __post_init__(self) -> None:
        checks.number("effort", self.effort, above=0)
        checks.whole_number("batch", self.batch, least=1)

    def _runs(self, network: SpectralFacts, rounds: int) -> list[int]:
        """Return the number of gradients of each outer restart."""
        kappa = max(network.condition_number, 1.0 + 1e-9)
        budget = max(2, math.ceil(self.effort * math.sqrt(kappa) * math.log(max(kappa, math.e))))
        steps = rounds - 1
        restarts = max(1, steps // budget)
        return [len(part) for part in np.array_split(np.arange(steps), restarts)]

    def batches(self, network: SpectralFacts, rounds: int) -> Floats:
        runs = self._runs(network, rounds)
        doublings = np.minimum(np.arange(len(runs)), MOST_DOUBLINGS)
        sizes = [np.full(length, self.batch * 2.0**k) for k, length in zip(doublings, runs, strict=True)]
        last = self.batch * 2.0 ** doublings[-1] * max(1, runs[-1])
        return np.append(np.concatenate(sizes), last)

    def coefficients(self, network: SpectralFacts, rounds: int) -> Coefficients:
        low, high = network.lambda_2, network.lambda_max
        stages = max(1, math.floor(math.log2(high / low))) if high > low else 1
        table = {name: np.zeros(rounds) for name in self.Coefficients._fields}
        table["keep"][-1] = table["to_x"][-1] = 1.0  # the last round only draws the last batch
        t = 0
        for length in self._runs(network, rounds):
            regular = 0.0
            outer = True
            for stage, part in enumerate(np.array_split(np.arange(length), stages)):
                for half in np.array_split(part, 2):
                    lam, smooth = low + regular, high + regular
                    for k in range(1, len(half) + 1):
                        a, ga = 2 / (k + 1), 4 * smooth / (k * (k + 1))
                        d = ga + (1 - a * a) * lam
                        table["restart"][t] = k == 1
                        table["forget"][t] = outer
                        table["to_aggregate"][t] = (1 - a) * (lam + ga) / d
                        table["to_x"][t] = a * ((1 - a) * lam + ga) / d
                        table["pull"][t] = a * lam / (lam + ga)
                        table["keep"][t] = ((1 - a) * lam + ga) / (lam + ga)
                        table["gradient"][t] = a / (lam + ga)
                        table["blend"][t] = a
                        table["regular"][t] = regular
                        outer = False
                        t += 1
                if len(part):
                    table["fix"][t - 1] = low * 2.0 ** (stage + 1)
                    regular += low * 2.0 ** (stage + 1)
        return self.Coefficients(**table)

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        start = s.x + c.restart * (s.aggregate - s.x)
        return c.to_aggregate * s.aggregate + c.to_x * start + observation

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        start = s.x + c.restart * (s.aggregate - s.x)
        anchor = s.anchor - c.forget * s.anchor
        middle = c.to_aggregate * s.aggregate + c.to_x * start
        gradient = mixed + c.regular * middle - anchor
        x = c.pull * middle + c.keep * start - c.gradient * gradient
        aggregate = s.aggregate + c.blend * (x - s.aggregate)
        return RRMA.State(
            aggregate=aggregate, x=x, anchor=anchor + c.fix * aggregate, theta=aggregate + observation
        )

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.theta
