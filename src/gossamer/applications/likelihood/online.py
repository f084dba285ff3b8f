"""Models that are refined whenever samples come in, with standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.learning import running_mean
from gossamer.applications.likelihood.linearization import Linearizer, Solved, refreshes, sandwich
from gossamer.applications.linear.sensors import in_words
from gossamer.applications.streams import Stream
from gossamer.arrays import Booleans, Floats
from gossamer.engines.exact import exact
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA
from gossamer.observations import Gaussian

if TYPE_CHECKING:
    from gossamer.applications.likelihood.estimation import LikelihoodEstimation


class OnlineLikelihood:
    """Every agent's model at any moment. Each call of `observe` is one exchange with the neighbors.

    Agents may see any number of samples in a round, and none; every sample counts the same, whoever saw it.

    Examples
    --------
    >>> import numpy as np
    >>> import gossamer as gs
    >>> problem = gs.LikelihoodEstimation(gs.Network.cycle(4), "logistic", dimension=1)
    >>> online, rng = problem.online(), np.random.default_rng(0)
    >>> for _ in range(200):
    ...     x = rng.normal(size=(4, 1, 1))
    ...     online.observe([(x_i, rng.random(1) < 1 / (1 + np.exp(-x_i[:, 0]))) for x_i in x])
    >>> online.estimates().shape
    (4, 1)
    >>> bool(np.all(np.abs(online.estimates() - 1) < 4 * online.standard_errors()))
    True
    """

    def __init__(self, problem: LikelihoodEstimation, method: AnytimeSDA | None = None) -> None:
        self._problem = problem
        self._linearizer = Linearizer(problem, 1, errors=True)
        self._method = AnytimeSDA() if method is None else running_mean(method)
        self._stream = Stream(problem.network, self._linearizer.layout.components, self._method)
        self._age = 0  # rounds since the first sample

    @property
    def rounds(self) -> int:
        """How many exchanges there have been."""
        return self._stream.rounds

    def observe(self, samples: Sequence[Any] | None = None) -> None:
        """One round: for each agent its new samples (X, y), with X of shape (k, dimension) and y of k labels, or None.

        None in place of the list: nobody saw anything new, and the agents exchange what they have.
        """
        problem, agents = self._problem, self._problem.network.agents
        given = [None] * agents if samples is None else checks.listed("samples", samples)
        if len(given) != agents:
            raise InvalidInput(
                f"samples (X, y), or None, are needed for each of {agents} agents, got {len(given)}"
            )
        rows = [self._checked(i, each) for i, each in enumerate(given)]
        most = max(1, *(len(y) for _, y in rows))
        x, y = np.zeros((most, agents, problem.width, 1)), np.ones((most, agents, 1))
        weights = np.zeros((most, agents))
        for i, (covariates, labels) in enumerate(rows):
            x[: len(labels), i, : problem.dimension, 0] = covariates
            x[: len(labels), i, problem.dimension :, 0] = 1.0
            y[: len(labels), i, 0] = labels
            weights[: len(labels), i] = 1.0
        observation = self._linearizer.observe(x, y, weights, most)[0, :, :, 0]
        self._stream.advance(observation)
        if self._age or weights.any():
            self._age += 1
        if refreshes(self._age):
            self._linearizer.refer(self._solved())

    def _checked(self, agent: int, given: Any) -> tuple[Floats, Floats]:
        size = self._problem.dimension
        if given is None:
            return np.empty((0, size)), np.empty(0)
        if not isinstance(given, list | tuple) or len(given) != 2:
            raise InvalidInput(
                f"the samples of agent {agent} must be a pair (X, y), or None, got {checks.brief(given)}"
            )
        x = checks.array(f"the covariates of agent {agent}", given[0], (None, size))
        y = self._problem.family.check_labels(np.atleast_1d(given[1]), f" of agent {agent}")
        if y.shape != (len(x),):
            raise InvalidInput(f"agent {agent} needs one label per row of X ({len(x)}), got shape {y.shape}")
        return x, y

    # -- what the agents know -----------------------------------------------------------------------------------

    @property
    def _held(self) -> Floats:
        return self._stream.values

    def _solved(self) -> Solved:
        layout = self._linearizer.layout
        counts = np.maximum(layout.counts(self._held), 0.0)[:, None]
        return self._linearizer.solve(self._held[..., None], max(self.rounds, 1), counts)

    @property
    def ready(self) -> Booleans:
        """(N,) whether each agent knows all directions, so that its estimate is not withheld."""
        return self._solved().ready[:, 0]

    def estimates(self) -> Floats:
        """(N, p) every agent's estimate now; an error says why, while some agent withholds its own."""
        solved = self._solved()
        late = np.flatnonzero(~solved.ready[:, 0])
        if late.size:
            i = int(late[0])
            k = int(np.argmin(solved.known[i, 0]))
            way = in_words(solved.directions[i, 0, :, k], self._problem.parameter_names)
            raise InvalidInput(
                f"too few samples so far: after {self.rounds} rounds {len(late)} of {len(solved.ready)} agents do not "
                f"know all directions (agent {i} not {way}); observe more, or look at ready. If this "
                "lasts, nobody's covariates vary along it: drop one of them, or add a ridge penalty"
            )
        theta = solved.theta[:, 0]
        if not np.all(np.isfinite(theta)):
            raise InvalidInput("the estimates have diverged: they are not finite; add a ridge penalty")
        self._check_separable(theta)
        return theta

    def _check_separable(self, theta: Floats) -> None:
        if not self._problem.family.separates or self._problem.ridge > 0:
            return
        contradictions = self._linearizer.layout.contradictions(self._held) * self.rounds * len(theta)
        if np.any(contradictions < theta.shape[1] - 0.5):
            i = int(np.argmin(contradictions))
            way = in_words(theta[i], self._problem.parameter_names)
            raise InvalidInput(
                f"the labels are separable so far, or nearly (of {max(contradictions[i], 0):.0f} the model says the "
                "opposite): there is no finite estimate, because the loss falls forever along the direction "
                f"{way} (agent {i}); observe more, or add a ridge penalty "
                "(ridge=1e-4, say)"
            )

    def covariances(self) -> Floats:
        """(N, p, p) the covariance of each agent's estimate, as the agent itself estimates it.

        A^{-1} J A^{-1} / (number of samples), with the averages A of the curvature and J of the squared scores: this
        holds whether or not the family is the true one (the sandwich of Huber and White). Neighbors' estimates are made
        of the same samples, so nothing is gained by comparing them; and the samples do not count equally while they
        spread, which multiplies the variance by what the exact engine says for this method and network.
        """
        self.estimates()
        network, streams = self._problem.network, Gaussian(np.zeros(self._problem.network.agents), 1.0)
        spread = np.asarray(exact(self._method, network, streams, self.rounds).per_agent)
        whole = sandwich(self._linearizer.layout, self._held, self._problem.penalty)
        return np.asarray(whole * spread[:, None, None])

    def standard_errors(self) -> Floats:
        """(N, p) the standard error of each number of `estimates`."""
        return np.asarray(np.sqrt(np.maximum(np.einsum("nii->ni", self.covariances()), 0.0)))
