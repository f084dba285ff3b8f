"""Distributed temporal differences, the established way to evaluate a policy over a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.applications.policy import temporal_differences
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.numerics import random
from gossamer.numerics.sparse import rows_of
from gossamer.observations import Gaussian

if TYPE_CHECKING:
    from gossamer.applications.policy.evaluation import PolicyEvaluation

STEPS = ("harmonic", "sqrt", "constant")

IN_FLIGHT = 2**22
"""Number of rewards in memory at a time, if the compiled loops do not draw them."""


@dataclass(frozen=True)
class TemporalDifference:
    r"""Distributed TD(0) (Doan, Maguluri, Romberg 2019).

    In the generative form, every state of the table :math:`\Theta` is updated in every round, with rewards
    :math:`R_k` and sampled successors :math:`Z_k`; in the iid form one state with features :math:`\phi(s_k)`:

    .. math::

        \Theta &\leftarrow W \Theta + \alpha_k (R_k + \gamma Z_k \Theta - \Theta) \\
        \theta_i &\leftarrow \sum_j W_{ij} \theta_j + \alpha_k \delta_i \phi(s_k), \qquad
        \delta_i = R_i + \gamma \phi(s_k')^\top \theta_i - \phi(s_k)^\top \theta_i

    If W has negative eigenvalues, steps near 1 are unstable, so steps are capped at
    :math:`(1 + \lambda_\min(W))/(1 + \gamma)`, and divided by the largest :math:`\lVert\phi(s)\rVert^2` if that is
    above 1.

    Parameters
    ----------
    form : str
        How states are drawn: "generative" or "iid" (from `distribution`, default the stationary one).
    step : str
        Step sizes :math:`\alpha_k`: "harmonic" is :math:`2c/((1-\gamma)(k+1)+2)`, "sqrt" is :math:`c/\sqrt{k+1}`, and
        "constant" is c.
    step_size : float
        Factor c of the step sizes, above 0; 1 by default.
    output : str
        The answer: the "last" iterate, or the "average" :math:`\sum_k \alpha_k \theta_k / \sum_k \alpha_k`.
    radius : float, optional
        Radius of a ball onto which every agent's :math:`\theta` is projected, in units of values. None disables it.
    features : array_like, optional
        Features :math:`\phi(s)` for the iid form, shape (S, p); by default one per state.
    distribution : array_like, optional
        Probabilities of the states of the iid form, shape (S,).

    See Also
    --------
    gossamer.PolicyEvaluation : The problem that it solves.
    DistributedTD : The same idea on trajectories with features.

    Examples
    --------
    >>> team = gs.PolicyEvaluation("cycle:3", [[0.9, 0.1], [0.5, 0.5]], np.ones((3, 2)), 0.9)
    >>> td = team.simulate(gs.applications.TemporalDifference(), 400, trials=10)
    >>> td.error > team.simulate("anytime-sda", 400, trials=10).error
    True
    """

    form: str = "generative"
    step: str = "harmonic"
    step_size: float = 1.0
    output: str = "last"
    radius: float | None = None
    features: ArrayLike | None = None
    distribution: ArrayLike | None = None
    name: ClassVar[str] = "td"

    def __post_init__(self) -> None:
        checks.choice("form", self.form, ("generative", "iid"))
        checks.choice("step", self.step, STEPS)
        checks.choice("output", self.output, ("last", "average"))
        checks.number("step_size", self.step_size, above=0)
        if self.radius is not None:
            checks.number("radius", self.radius, above=0)
        if self.form == "generative" and (self.features is not None or self.distribution is not None):
            raise InvalidInput(
                "features and distribution belong to form='iid'; the generative form is tabular"
            )

    def steps(self, problem: PolicyEvaluation, rounds: int) -> Floats:
        r"""Return the step sizes :math:`\alpha_k` of all rounds, shape (rounds,)."""
        k = np.arange(rounds)
        raw = {
            "harmonic": 2.0 / ((1 - problem.discount) * (k + 1) + 2),
            "sqrt": 1.0 / np.sqrt(k + 1),
            "constant": np.ones(rounds),
        }[self.step]
        if self.form == "iid" and self.step == "harmonic":
            # One of S states moves in a round, so the same decrease takes S times as many rounds.
            raw = 2.0 / ((1 - problem.discount) * (k + 1) / problem.states + 2)
        # The smallest eigenvalue of W is 1 - lambda_max(L). W - alpha + alpha gamma Z then never expands.
        cap = min((2 - problem.network.lambda_max) / (1 + problem.discount), 1.0)
        if cap <= 0:
            raise InvalidInput(
                f"temporal differences mix with W = I - L, which needs lambda_max(L) < 2, but it is "
                f"{problem.network.lambda_max:.4g} here; use weights='metropolis'"
            )
        longest = 1.0 if self.features is None else float((np.asarray(self.features) ** 2).sum(axis=1).max())
        return np.asarray(np.minimum(self.step_size * raw, cap) / max(longest, 1.0))

    def values(
        self,
        problem: PolicyEvaluation,
        horizons: Integers,
        trials: int,
        seed: int,
        first_trial: int = 0,
    ) -> Floats:
        """Return (H, trials, N, S) every agent's values after each horizon."""
        order = np.argsort(horizons, kind="stable")
        steps = self.steps(problem, int(horizons.max()))
        radius = np.inf if self.radius is None else float(self.radius)
        transitions = problem.transitions
        gaussian = isinstance(problem.streams, Gaussian) and problem.streams.normal_std is not None
        rewards, std = problem.rewards.T, problem.reward_std.T
        if not gaussian:  # then what is drawn is the reward itself
            rewards, std = np.zeros_like(rewards), np.ones_like(std)
        process = temporal_differences.RewardProcess(
            transitions.indptr,
            transitions.indices,
            problem.cumulative,
            np.ascontiguousarray(rewards),
            np.ascontiguousarray(std),
        )
        learning = temporal_differences.Learning(
            steps, problem.discount, radius, self.output == "average", horizons[order]
        )
        gossip = rows_of(problem.network.gossip)
        key = random.key(seed)
        agents, total = problem.network.agents, len(steps)
        features = np.eye(problem.states) if self.form == "generative" else self._features(problem)
        cumulative = np.cumsum(self._distribution(problem)) if self.form == "iid" else np.ones(1)
        cumulative[-1] = 2.0  # rounding must not make the last state unreachable
        visits = temporal_differences.Visits(features, cumulative)
        out = np.empty((trials, len(horizons), agents, features.shape[1]))
        theta, average = np.zeros((2, trials, features.shape[1], agents))
        share = total if gaussian else max(4, IN_FLIGHT // (agents * problem.states * trials) // 4 * 4)
        drawn = np.empty((0, agents, problem.states, trials))
        for begin in range(0, total, share):
            end = min(begin + share, total)
            if not gaussian:
                which = range(first_trial, first_trial + trials)
                drawn = np.ascontiguousarray(problem.streams.sample(seed, range(begin, end), which))
            piece = temporal_differences.Stretch(begin, end, theta, average, drawn)
            if self.form == "generative":
                temporal_differences.generative(out, key, first_trial, process, learning, gossip, piece)
            else:
                temporal_differences.independent(
                    out, key, first_trial, process, learning, gossip, piece, visits
                )
        if self.form != "generative":
            out = out @ features.T
        ordered = np.empty((len(horizons), trials, *out.shape[2:]))
        ordered[order] = np.moveaxis(out, 1, 0)
        return ordered

    def _features(self, problem: PolicyEvaluation) -> Floats:
        if self.features is None:
            return np.eye(problem.states)
        features = np.ascontiguousarray(self.features, dtype=float)
        if features.ndim != 2 or len(features) != problem.states or not np.all(np.isfinite(features)):
            raise InvalidInput(
                f"need one finite row per state, ({problem.states}, p), got shape {features.shape}",
                parameter="features",
            )
        return features

    def _distribution(self, problem: PolicyEvaluation) -> Floats:
        if self.distribution is None:
            return problem.stationary_distribution()
        given = np.asarray(self.distribution, dtype=float)
        if given.shape != (problem.states,) or given.min() < 0 or not np.isclose(given.sum(), 1):
            raise InvalidInput(
                f"needs one probability per state ({problem.states}) that sum to 1, got shape "
                f"{given.shape} with sum {given.sum():g}",
                parameter="distribution",
            )
        return given
