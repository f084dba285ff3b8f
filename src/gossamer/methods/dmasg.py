"""D-MASG: the primal accelerated method in stages (Fallah, Gurbuzbalaban, Ozdaglar, Simsekli, Zhu; JMLR 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossamer import checks
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts
from gossamer.methods.primal import AcceleratedGradient, momentum_of, smallest_shifted_eigenvalue


@dataclass(frozen=True)
class DMASG(AcceleratedGradient):
    r"""D-ASG in stages: each stage halves the step size twice and lasts twice as long.

    .. math::

        t_k &= 2^k \big\lceil 7 \sqrt{\tilde\kappa} \ln 2 \big\rceil \quad (k = 2, \dots, K),
        \qquad \tilde\kappa = 2/\lambda_N(W_1) \\
        \alpha_1 &= \lambda_N/2, \qquad \alpha_k = \lambda_N/2^{2k+1},
        \qquad \beta_k = (1 - \sqrt{\alpha_k})/(1 + \sqrt{\alpha_k})

    Stage 1 takes the rounds before stage 2. The momentum restarts with each stage. The paper runs
    :math:`T = 2 (t_2 + \dots + t_K)` rounds (`rounds_for`); for other T, K is the largest number of stages for which
    that sum is at most T/2, and stage 1 takes the remaining rounds.

    Parameters
    ----------
    stages : int, optional
        Number of stages K; by default as many as fit.

    See Also
    --------
    DASG : One of its stages.
    RRMA : Another method in stages.
    AnytimeSDA : A dual method without stages.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0))
    >>> gs.exact(gs.DMASG(), net, obs, rounds=2000).over_limit
    7.1338
    """

    stages: int | None = None

    name: ClassVar[str] = "d-masg"

    def __post_init__(self) -> None:
        if self.stages is not None:
            checks.whole_number("stages", self.stages, least=1, most=60)

    @property
    def anytime(self) -> bool:
        return self.stages == 1

    @staticmethod
    def stage_unit(network: SpectralFacts) -> int:
        r"""Return :math:`\lceil 7 \sqrt{\tilde\kappa} \ln 2\rceil`, the number of rounds in the unit of all stages."""
        return math.ceil(7 * math.sqrt(2 / smallest_shifted_eigenvalue(network)) * math.log(2))

    @staticmethod
    def rounds_for(network: SpectralFacts, stages: int) -> int:
        """Return the paper's number of rounds T for K stages (K >= 2)."""
        checks.whole_number("stages", stages, least=2)
        return int(2 * (2 ** (stages + 1) - 4)) * DMASG.stage_unit(network)

    def coefficients(self, network: SpectralFacts, rounds: int) -> AcceleratedGradient.Coefficients:
        smallest, unit = smallest_shifted_eigenvalue(network), self.stage_unit(network)
        stages = int(self.stages or 1)
        if self.stages is None:
            while 2 * (2 ** (stages + 2) - 4) * unit <= rounds:
                stages += 1
        lengths = [2**k * unit for k in range(2, stages + 1)]
        first = rounds - sum(lengths)
        if first < 1:
            raise InvalidInput(
                f"{stages} stages of D-MASG need more than {sum(lengths)} rounds on this network, "
                f"got rounds={rounds}; use fewer stages or leave stages out"
            )
        alphas = [smallest / 2] + [smallest / 2 ** (2 * k + 1) for k in range(2, stages + 1)]
        step_size = np.repeat(alphas, [first, *lengths])
        momentum = momentum_of(step_size)
        momentum[np.cumsum([0, first, *lengths[:-1]] if lengths else [0])] = 0.0
        return self.Coefficients(step_size, momentum)
