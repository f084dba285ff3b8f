"""Models that are updated whenever samples arrive, with standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from gossamer import checks
from gossamer.applications.likelihood.learning import running_mean
from gossamer.applications.likelihood.linearization import Linearizer
from gossamer.applications.streams import Stream, rounds_to_spread
from gossamer.arrays import Booleans, Floats
from gossamer.errors import InvalidInput
from gossamer.families import numbered
from gossamer.least_squares import in_words
from gossamer.methods import AnytimeSDA
from gossamer.models import (
    LEAST_SPREAD,
    PUBLISHED,
    ROWS,
    Judgement,
    agreement,
    next_look,
)

if TYPE_CHECKING:
    from gossamer.applications.likelihood.estimation import LikelihoodEstimation


class OnlineLikelihood:
    """Every agent's model at any moment. Each call of `observe` is one exchange with the neighbors.

    Agents may see any number of samples in a round, or none; every sample has the same weight.

    New samples wait until earlier ones have spread over the network (29 rounds on a cycle of ten), so that the
    published estimate is the fit to all samples of the first `included` rounds, and to no others.

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
        method = AnytimeSDA() if method is None else running_mean(method)
        self._method = replace(method, gain=1.0, smoothing=0.0)  # the current sums, not a running mean
        self._every = max(rounds_to_spread(self._method, problem.network), LEAST_SPREAD)
        self._linearizer = Linearizer(problem, 1, errors=True, memory=memory, every=self._every)
        self._half_life = 0.0 if forgetting is None else checks.number("forgetting", forgetting, least=1)
        self._stream = Stream(problem.network, self._linearizer.layout.components, self._method)
        self._neighbors = [problem.network.neighbors(i) for i in range(problem.network.agents)]
        # Pairs of a round and the samples that arrived in it.
        self._waiting: list[tuple[int, list[tuple[Floats, Floats]]]] = []
        self._totals = np.zeros_like(self._stream.values)  # the sums over each agent's samples
        self._age = self._next = 0  # rounds since the first sample, and the age at which agents look next
        self._included = 0
        self._losses: list[float] = []
        self._lowest: set[int] = set()  # which of the labels 0 and -1 have been seen
        self._found, self._reasons = self._read()

    @property
    def rounds(self) -> int:
        """Number of exchanges so far."""
        return self._stream.rounds

    @property
    def included(self) -> int:
        """Number of calls of `observe` that the estimates include: all samples of the first calls, and no others."""
        return self._included

    def observe(self, samples: Sequence[object] | None = None) -> None:
        """Run one round with each agent's new samples (X, y), X of shape (k, dimension) and y of k labels, or None.

        Labels are members of the problem's `classes`; without `classes`, numbers, or -1 and 1 for two classes.
        Pass None instead of the list if no agent has new samples; the agents then only exchange messages.
        """
        agents = self._problem.network.agents
        given = [None] * agents if samples is None else checks.listed("samples", samples)
        if len(given) != agents:
            raise InvalidInput(
                f"samples (X, y), or None, are needed for each of {agents} agents, got {len(given)}"
            )
        rows = [self._checked(i, row) for i, row in enumerate(given)]
        self._losses.append(self._score(rows))
        if samples is not None:
            self._waiting.append((self.rounds, rows))
        if self.rounds % self._every == 0:
            self._take_in()
        self._totals += self._linearizer.take_change()
        self._stream.advance(self._totals)
        if self._age:
            self._age += 1
            if self._age > self._next or self.rounds % self._every == self._every // 2:
                self._next = next_look(self._age, bool(self._linearizer.near.all()), self._half_life)
                self._linearizer.look(self._judge())
        if self.rounds % self._every == 0:
            self._included = self.rounds - self._every + 1
            self._found, self._reasons = self._read()

    def _score(self, rows: Sequence[tuple[Floats, Floats]]) -> float:
        """Return the mean loss of new samples by the current estimates; NaN if there are no samples or no estimates."""
        theta, losses = self.estimates(), []
        for i in np.flatnonzero(self.ready).tolist():
            x, y = rows[i]
            x = np.column_stack([x, np.ones((len(x), self._problem.width - x.shape[1]))])
            losses.append(self._problem.family.losses(theta[i].reshape(-1, self._problem.width) @ x.T, y))
        scored = np.concatenate(losses) if losses else np.empty(0)
        return float(scored.mean()) if len(scored) else np.nan

    def _take_in(self) -> None:
        """Add the waiting samples to the sums; no others are added until these have spread."""
        problem, layout = self._problem, self._linearizer.layout
        if self._half_life:
            factor = 0.5 ** (self._every / self._half_life)
            self._totals *= factor**layout.powers
            self._linearizer.fade(factor)
        agents = range(problem.network.agents)
        rows = [[batch[i] for _, batch in self._waiting] for i in agents]
        ages = [self.rounds - since for since, _ in self._waiting]
        counts = [sum(len(y) for _, y in own) for own in rows]
        self._waiting = []
        if not any(counts):
            return
        x, y = np.zeros((max(counts), problem.width, len(agents), 1)), np.ones((max(counts), len(agents), 1))
        weights = np.zeros((max(counts), len(agents)))
        for i, own in enumerate(rows):
            x[: counts[i], : problem.dimension, i, 0] = np.concatenate([covariates for covariates, _ in own])
            x[: counts[i], problem.dimension :, i, 0] = 1.0
            y[: counts[i], i, 0] = np.concatenate([labels for _, labels in own])
            old = np.repeat(ages, [len(labels) for _, labels in own])
            weights[: counts[i], i] = 0.5 ** (old / self._half_life) if self._half_life else 1.0
        self._totals += self._linearizer.observe(x, y, weights, max(counts))[0, :, :, 0].T
        self._age = self._age or 1

    def _checked(self, agent: int, given: object) -> tuple[Floats, Floats]:
        size = self._problem.dimension
        if given is None:
            return np.empty((0, size)), np.empty(0)
        if not isinstance(given, list | tuple) or len(given) != 2:
            raise InvalidInput(
                f"the samples of agent {agent} must be a pair (X, y), or None, got {checks.brief(given)}"
            )
        x = checks.array(f"the covariates of agent {agent}", given[0], (None, size))
        y = self._numbers(given[1], f" of agent {agent}")
        if y.shape != (len(x),):
            raise InvalidInput(f"agent {agent} needs one label per row of X ({len(x)}), got shape {y.shape}")
        return x, y

    def _numbers(self, labels: object, whose: str) -> Floats:
        """Return labels as the family numbers them: the numbers of classes, and 0 for -1 if classes are -1 and 1."""
        family, classes = self._problem.family, self._problem.classes
        if classes is not None:
            return family.check_labels(numbered(labels, classes, whose), whose)
        y = np.atleast_1d(np.asarray(labels))
        if family.categorical and y.dtype.kind in "US":
            raise InvalidInput(
                f"the labels{whose} must be {family.labels} for the family {family.name}, got text: "
                f"{str(y.flat[0])!r}; name the classes in LikelihoodEstimation(..., classes=['no', 'yes'])"
            )
        y, signs = family.recoded(checks.array(f"the labels{whose}", y))
        lowest = self._lowest | ({-1} if signs else set(y[y == 0].astype(int).tolist()))
        if len(lowest) > 1:
            raise InvalidInput(f"the labels{whose} must be 0 and 1, or -1 and 1, got both 0 and -1")
        self._lowest = lowest
        return family.check_labels(y, whose)

    @property
    def prequential_losses(self) -> Floats:
        """(rounds,) the mean loss of the samples of each round by the estimates published before the round.

        For classes this is the log loss. NaN if no agent with new samples had an estimate.
        """
        return np.array(self._losses)

    # -- the estimates ------------------------------------------------------------------------------------------

    def _judge(self) -> Judgement:
        """Return the current estimates from the agents' averages."""
        return self._linearizer.judge(self._stream.values.T[..., None], 1 / self._problem.network.agents)

    def _read(self) -> tuple[Judgement, list[str]]:
        """Return the estimates from the agents' averages, and the reasons why estimates are withheld."""
        judgement = self._judge()
        return judgement, [self._reason(i, judgement) for i in range(self._problem.network.agents)]

    def _reason(self, agent: int, judgement: Judgement) -> str:
        """Return why an agent withholds its estimate, or an empty text."""
        problem, layout, held = self._problem, self._linearizer.layout, self._stream.values
        names = problem.parameter_names
        if not judgement.ready[agent, 0]:
            way = in_words(
                judgement.directions[agent, 0, :, int(np.argmin(judgement.known[agent, 0]))], names
            )
            return (
                f"too few samples so far: those of {self._included} rounds, which have spread, do not determine the "
                f"direction {way}; observe more. If this lasts, no covariates vary along it: drop one of them, or add "
                "a ridge penalty"
            )
        own = Judgement(*(part[agent, 0] for part in judgement))
        if not own.enough(problem.penalty):
            return f"too few samples so far: {own.rows:.0f} have spread, not {ROWS} per parameter ({problem.size})"
        if problem.family.separates and problem.ridge == 0:
            contradicted = layout.contradictions(held[agent]) * len(held)
            if contradicted < problem.size - 0.5:
                return (
                    f"the labels are separable so far, or nearly (the model contradicts {max(contradicted, 0):.0f} of "
                    "them): there is no finite estimate, because the loss falls forever along the direction "
                    f"{in_words(judgement.theta[agent, 0], names)}; observe more, or add a ridge penalty "
                    "(ridge=1e-4, say)"
                )
        if not judgement.linearization[agent, 0] <= PUBLISHED:
            return own.exact(names, "samples") or (
                f"samples are linearized up to {judgement.linearization[agent, 0]:.2g} standard errors from the "
                "estimate: either it is still being improved, or it has moved away from samples that are no longer "
                "in memory"
            )
        step = own.unsettled(problem.family, self._linearizer.reference[:, agent, 0])
        if step:
            return f"the estimate has moved by {step:.2g} standard errors since samples were linearized: not settled"
        apart = max(float(own.apart(layout, held[j], problem.penalty)) for j in self._neighbors[agent])
        most = agreement(len(held))
        if not apart <= most:
            return f"neighbors are {apart:.2g} standard errors apart, more than {most:.2g}: averages have not mixed"
        return own.unfounded(names, problem.penalty, "samples")

    @property
    def withheld(self) -> list[str]:
        """Return why each agent withholds its estimate, or an empty text if it does not."""
        return list(self._reasons)

    @property
    def ready(self) -> Booleans:
        """Return (N,) whether each agent has an estimate that it does not withhold."""
        return np.array([not reason for reason in self._reasons])

    def estimates(self) -> Floats:
        """Return (N, p) every agent's current estimate; NaN while it is withheld, for the reason in `withheld`."""
        return np.where(self.ready[:, None], self._found.theta[:, 0], np.nan)

    def covariances(self) -> Floats:
        r"""Return (N, p, p) the covariance of each agent's estimate, as the agent itself estimates it; NaN if withheld.

        It is :math:`A^{-1} J A^{-1}` / (number of samples), with the averages A of the curvature and J of the squared
        scores, which is valid even if the family is not the true one (the sandwich of Huber and White).
        """
        return np.where(self.ready[:, None, None], self._found.covariance[:, 0], np.nan)

    def standard_errors(self) -> Floats:
        """Return (N, p) the standard error of each entry of `estimates`."""
        return np.asarray(np.sqrt(np.maximum(np.einsum("nii->ni", self.covariances()), 0.0)))

    @property
    def degrees_of_freedom(self) -> Floats:
        """(N, p) degrees of freedom of Student's t for each estimate: twice the effective number of samples that
        determine it, by their squared scores (Satterthwaite)."""
        return np.where(self.ready[:, None], self._found.freedom[:, 0], np.nan)

    def intervals(self, level: float = 0.95) -> Floats:
        """Return (N, p, 2) confidence intervals by Student's t."""
        level = checks.number("level", level, above=0, below=1)
        reach = stats.t.ppf((1 + level) / 2, self.degrees_of_freedom) * self.standard_errors()
        return np.stack([self.estimates() - reach, self.estimates() + reach], axis=-1)
