"""The linear iteration: plain repeated averaging with the neighbors (Xiao, Boyd 2004)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Register, StaticMethod, first_round


class Iteration(StaticMethod):
    """x <- x - step_size mixed, from the mean of `samples` observations taken in round 0."""

    class State(NamedTuple):
        value: Register

    class Coefficients(NamedTuple):
        load: Floats
        step_size: float

    @staticmethod
    def message(c: Coefficients, s: State, observation: Register) -> Register:
        return s.value + c.load * observation

    @staticmethod
    def step(c: Coefficients, s: State, observation: Register, mixed: Register) -> State:
        return Iteration.State(s.value + c.load * observation - c.step_size * mixed)

    @staticmethod
    def estimate(c: Coefficients, s: State) -> Register:
        return s.value


@dataclass(frozen=True)
class LinearIteration(Iteration):
    r"""Plain averaging, :math:`x_{t+1} = (I - a L) x_t`: each agent moves to a weighted mean of its neighborhood.

    The weights are the network's: metropolis, max-degree, best-constant or laplacian.

    Parameters
    ----------
    samples : int
        Number of observations that each agent averages in round 0.
    step_size : float, optional
        The step size a, above 0. It is 1 by default where that converges (:math:`\lambda_\max < 2`), and otherwise
        :math:`2/(\lambda_\max + \lambda_2)`, the best constant.

    See Also
    --------
    ChebyshevAveraging : With acceleration.
    SSDA : With momentum.
    DSG : The same gossip on streams.

    Examples
    --------
    >>> net, obs = gs.Network.cycle(10), gs.Gaussian(np.arange(10.0), std=0.0)
    >>> gs.exact(gs.LinearIteration(), net, obs, rounds=30).total_error
    0.014799
    """

    samples: int = 1
    step_size: float | None = None

    name: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        if self.step_size is not None:
            checks.number("step_size", self.step_size, above=0)

    def coefficients(self, network: SpectralFacts, rounds: int) -> Iteration.Coefficients:
        step_size = self.step_size
        if step_size is None:
            best = 2.0 / (network.lambda_max + network.lambda_2)
            step_size = 1.0 if network.lambda_max < 2 else best
        return self.Coefficients(first_round(rounds), step_size)
