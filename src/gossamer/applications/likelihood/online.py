"""Models that are refined whenever samples come in, with standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer import checks
from gossamer.applications.likelihood.learning import running_mean
from gossamer.applications.likelihood.linearization import Linearizer
from gossamer.applications.linear.sensors import in_words
from gossamer.applications.streams import Stream
from gossamer.arrays import Booleans, Floats
from gossamer.engines.exact import exact
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA
from gossamer.models import PUBLISHED, Judgement, agreement, next_look
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
    >>> problem = gs.LikelihoodEstimation(gs.Network.cycle(4), "logistic", dimension=1, intercept=False)
    >>> online, rng = problem.online(), np.random.default_rng(0)
    >>> for _ in range(200):
    ...     x = rng.normal(size=(4, 1, 1))
    ...     online.observe([(x_i, rng.random(1) < 1 / (1 + np.exp(-x_i[:, 0]))) for x_i in x])
    >>> online.estimates().shape
    (4, 1)
    >>> bool(np.all(np.abs(online.estimates() - 1) < 4 * online.standard_errors()))
    True
    """

    def __init__(
        self,
        problem: LikelihoodEstimation,
        method: AnytimeSDA | None = None,
        *,
        memory: int = 10_000,
        forgetting: float | None = None,
    ) -> None:
        self._problem = problem
        memory = checks.whole_number("memory", memory, least=1)
        self._linearizer = Linearizer(problem, 1, errors=True, memory=memory)
        self._method = AnytimeSDA() if method is None else running_mean(method)
        self._half_life = 0.0
        if forgetting is not None:
            self._half_life = checks.number("forgetting", forgetting, least=1)
            self._method = replace(self._method, gain=1 - 0.5 ** (1 / self._half_life))
        self._stream = Stream(problem.network, self._linearizer.layout.components, self._method)
        self._neighbors = [problem.network.neighbors(i) for i in range(problem.network.agents)]
        self._age = self._next = 0  # rounds since the first sample, and at which number of them agents look
        self._past: list[tuple[int, Floats]] = []  # estimates of the last looks, and after how many rounds
        self._judged: tuple[int, Judgement, Floats, list[str]] | None = None

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
        self._linearizer.fade(self._fading())
        observation = self._linearizer.observe(x, y, weights, most)[0, :, :, 0]
        self._stream.advance(observation)
        if self._age or weights.any():
            self._age += 1
        if self._age >= self._next > 0 or self._age == 1:
            self._next = next_look(self._age, bool(self._linearizer.near.all()), self._half_life)
            found = self._linearizer.judge(self._stream.values[..., None], 1 / self._counting())
            self._linearizer.look(found)
            self._past = [*self._past[-3:], (self.rounds, found.theta[:, 0])]

    def _fading(self) -> float:
        """By what factor earlier rounds count less in the next one, whose own weight in the running mean grows to the
        method's gain: 1 for plain means."""
        gain, before = self._method.gain, max(self.rounds, 1)
        if gain is None:
            return 1.0
        last, now = max(1 / before, gain), max(1 / (self.rounds + 1), gain)
        return (1 - now) * last / now

    def _counting(self) -> float:
        """About how many rounds of all agents count in an average."""
        gain = self._method.gain
        rounds = max(self.rounds, 1)
        return self._problem.network.agents * (rounds if gain is None else min(rounds, 2 / gain))

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

    def _judge(self) -> tuple[Judgement, Floats, list[str]]:
        """What the agents' averages say, with the share of `models.judge`, and why estimates are withheld."""
        if self._judged is None or self._judged[0] != self.rounds:
            network, held = self._problem.network, self._stream.values
            share = np.ones(network.agents)
            if self.rounds:
                streams = Gaussian(np.zeros(network.agents), 1.0)
                share = np.asarray(exact(self._method, network, streams, self.rounds).per_agent)
            found = self._linearizer.judge(held[..., None], share[:, None])
            excess = np.sqrt(np.maximum(share * self._counting() - 1, 0.0))
            reasons = [self._reason(i, found, float(excess[i])) for i in range(network.agents)]
            self._judged = self.rounds, found, share, reasons
        return self._judged[1:]

    def _reason(self, agent: int, found: Judgement, excess: float) -> str:
        """Why an agent withholds its estimate; empty: it does not."""
        problem, layout, held = self._problem, self._linearizer.layout, self._stream.values
        names = problem.parameter_names
        if not found.ready[agent, 0]:
            way = in_words(found.directions[agent, 0, :, int(np.argmin(found.known[agent, 0]))], names)
            return (
                f"too few samples so far: after {self.rounds} rounds the direction {way} is not known; observe more. "
                "If this lasts, nobody's covariates vary along it: drop one of them, or add a ridge penalty"
            )
        if problem.family.separates and problem.ridge == 0:
            contradicted = layout.contradictions(held[agent]) * self._counting()
            if contradicted < problem.size - 0.5:
                return (
                    f"the labels are separable so far, or nearly (of {max(contradicted, 0):.0f} the model says the "
                    "opposite): there is no finite estimate, because the loss falls forever along the direction "
                    f"{in_words(found.theta[agent, 0], names)}; observe more, or add a ridge penalty (ridge=1e-4, say)"
                )
        if not found.linearization[agent, 0] <= PUBLISHED:
            return (
                f"samples are linearized up to {found.linearization[agent, 0]:.2g} standard errors from the estimate: "
                "either it is still being improved, or it has moved away from samples that are no longer in memory"
            )
        own = Judgement(*(part[agent, 0] for part in found))
        apart = max(float(own.apart(layout, held[j], problem.penalty)) for j in self._neighbors[agent])
        most = agreement(len(held)) + 4 * excess  # what is new differs from agent to agent
        if not apart <= most:
            return f"neighbors are {apart:.2g} standard errors apart, more than {most:.2g}: averages have not mixed"
        return self._drifting(agent, own)

    def _drifting(self, agent: int, own: Judgement) -> str:
        """Why an estimate lags behind samples whose nature changes: it moves more than samples of one kind let it."""
        rounds = self.rounds
        known = [(before, theta) for before, theta in self._past if before <= rounds - max(1, rounds // 12)]
        if not known:
            return ""
        before, theta = known[-1]
        new = max(1 - before / rounds, 1 - (1 - (self._method.gain or 0.0)) ** (rounds - before))
        moved = float(np.abs((own.theta - theta[agent]) / own.errors).max())
        if moved <= 3.5 * np.sqrt(new) + PUBLISHED:
            return ""
        return (
            f"the estimate has moved by {moved:.2g} standard errors in {rounds - before} rounds, more than samples of "
            "one kind explain: the newest ones have not spread"
        )

    @property
    def withheld(self) -> list[str]:
        """Why each agent withholds its estimate; an empty text: it does not."""
        return list(self._judge()[2])

    @property
    def ready(self) -> Booleans:
        """(N,) whether each agent has an estimate that it does not withhold."""
        return np.array([not reason for reason in self._judge()[2]])

    def estimates(self) -> Floats:
        """(N, p) every agent's estimate now; NaN while it is withheld, and `withheld` says why."""
        return np.where(self.ready[:, None], self._judge()[0].theta[:, 0], np.nan)

    def covariances(self) -> Floats:
        """(N, p, p) the covariance of each agent's estimate, as the agent itself estimates it; NaN if withheld.

        A^{-1} J A^{-1} / (number of samples), with the averages A of the curvature and J of the squared scores: this
        holds whether or not the family is the true one (the sandwich of Huber and White). Neighbors' estimates are made
        of the same samples, so nothing is gained by comparing them; and the samples do not count equally while they
        spread, which multiplies the variance by what the exact engine says for this method and network.
        """
        return np.where(self.ready[:, None, None], self._judge()[0].covariance[:, 0], np.nan)

    def standard_errors(self) -> Floats:
        """(N, p) the standard error of each number of `estimates`."""
        return np.asarray(np.sqrt(np.maximum(np.einsum("nii->ni", self.covariances()), 0.0)))
