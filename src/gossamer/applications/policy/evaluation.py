"""Decentralized policy evaluation: agents that share an environment learn the value of their average reward.

A Markov reward process with transition matrix P, rewards r_i of agent i, and discount gamma. In every round each
state's next state is drawn, seen by all, and agent i sees its own noisy reward in every state. The values

    J* = (I - gamma P)^{-1} rbar,    rbar = mean of r_i

are estimated by every agent as J_i = (I - gamma Phat)^{-1} rhat_i: Phat is the common empirical transition matrix
and rhat_i comes from any averaging method. Solving is sparse, so several thousand states are fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from gossamer import checks, plotting, theory
from gossamer.applications.policy import bellman, problems, temporal_differences
from gossamer.applications.policy.rivals import TemporalDifference
from gossamer.applications.solvers import Alone, Centralized, averages
from gossamer.applications.streams import Stream
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.engines.horizons import horizons_of
from gossamer.engines.results import DIVERGES, OneOrMore, over_limit, standard_error
from gossamer.errors import InvalidInput
from gossamer.methods import AnytimeSDA, Method, resolve
from gossamer.networks import Network, NetworkLike
from gossamer.numerics import random
from gossamer.observations import Gaussian, Observations
from gossamer.results import Record, Result

if TYPE_CHECKING:
    from gossamer.plotting import Panels

Solver = Any
"""A method or its name (the plug-in estimator with it), or TemporalDifference, Alone, Centralized."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class EvaluationRun(Result):
    """Simulated values; with several horizons, arrays have one more axis in front.

    error      mean over trials of max_i ||J_i - J*||_inf
    stderr     its standard error
    l2_error   mean over trials of max_i ||J_i - J*||_2, with its standard error l2_stderr
    errors     (trials,) the maximum of the sup norm in each trial
    per_agent  (N,) mean over trials of each agent's ||J_i - J*||_inf
    values     (trials, N, S), or None if they were not kept
    """

    problem: PolicyEvaluation = field(compare=False)
    solver: Solver
    trials: int
    seed: int
    rounds: OneOrMore
    error: OneOrMore
    stderr: OneOrMore
    l2_error: OneOrMore
    l2_stderr: OneOrMore
    errors: Floats
    per_agent: Floats
    values: Floats | None

    shown = ("rounds", "trials", "error", "stderr", "over_limit", "note")

    @property
    def label(self) -> str:
        """The name of the solver."""
        return str(getattr(self.solver, "label", getattr(self.solver, "name", self.solver)))

    @property
    def title(self) -> str:
        return f"{self.label} on {self.problem.network.name}, {self.problem.states} states"

    @property
    def centralized_limit(self) -> OneOrMore:
        """The error of a center that holds all samples, on the same samples; computed on first access."""
        return self.problem.centralized_error(self.rounds, self.trials, self.seed)

    @property
    def over_limit(self) -> OneOrMore:
        """The error as a multiple of the centralized limit; infinite where that is 0."""
        return over_limit(self.error, self.centralized_limit)

    @property
    def note(self) -> str | AnyArray:
        """A remark on the error of each horizon."""
        return np.where(np.isfinite(self.error), "", DIVERGES)[()]

    def records(self) -> list[Record]:
        errors = ("error", "stderr", "l2_error", "l2_stderr")
        names = ("rounds", "trials", *errors, "centralized_limit", "over_limit", "note")
        horizons = np.atleast_1d(self.rounds)
        columns = [np.broadcast_to(getattr(self, name), horizons.shape).tolist() for name in names]
        fixed = {
            "network": self.problem.network.name,
            "method": self.label,
            "agents": self.problem.network.agents,
            "states": self.problem.states,
            "discount": self.problem.discount,
        }
        return [fixed | dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def plot(self, ax: Panels | None = None) -> Panels:
        half = plotting.half_width(self.stderr, self.trials)
        curves = [
            plotting.Curve(self.label, self.rounds, self.error, half),
            plotting.Curve("centralized limit", self.rounds, self.centralized_limit, limit=True),
        ]
        return plotting.draw_errors(ax, curves, self.title, plotting.VALUE_ERROR)


class PolicyEvaluation:
    r"""A Markov reward process with one reward function per agent.

    Parameters
    ----------
    network : Network, NetworkX graph or str
        The network of the N agents, for example "grid:10x10".
    transitions : array_like or sparse matrix
        The matrix P of transition probabilities between the S states, shape (S, S); every row adds up to 1.
    rewards : array_like or Observations
        Mean rewards :math:`r_i(s)`, shape (N, S), observed with Gaussian noise; or streams of S components, such as
        gs.Bernoulli(probabilities), whose means are the :math:`r_i`.
    discount : float
        Discount factor :math:`\gamma` per step, at least 0 and below 1.
    reward_std : array_like
        Standard deviation of the rewards, in their unit: a number, or shape (N, 1) or (N, S). It is for Gaussian
        rewards only, because streams have their own.

    See Also
    --------
    ValueEstimation : Values from trajectories, with features of states.
    gossamer.applications.TemporalDifference : An estimator to compare with.

    Examples
    --------
    >>> rewards = [[3.0, 0.0], [0.0, 3.0], [0.0, 0.0]]
    >>> team = gs.PolicyEvaluation("cycle:3", [[0.9, 0.1], [0.5, 0.5]], rewards, 0.9)
    >>> team.values
    array([10., 10.])
    >>> team.simulate("anytime-sda", 400, trials=10).error < 1.0
    True
    """

    def __init__(
        self,
        network: NetworkLike,
        transitions: object,
        rewards: ArrayLike | Observations,
        discount: float,
        reward_std: ArrayLike | None = None,
    ) -> None:
        self.network = network = Network.of(network)
        self.transitions = problems.check_transitions(transitions)
        self.states = int(self.transitions.shape[0])
        self.discount = problems.check_discount(discount)
        self.streams = self._streams(rewards, reward_std)
        self.rewards = self.streams.mean
        self.reward_std = np.sqrt(self.streams.variance)
        self._centralized: dict[tuple[object, ...], object] = {}

    def _streams(self, rewards: ArrayLike | Observations, std: ArrayLike | None) -> Observations:
        shape = (self.network.agents, self.states)
        if not isinstance(rewards, Observations):
            return Gaussian(checks.array("rewards", rewards, shape), 1.0 if std is None else std)
        if rewards.mean.shape != shape:
            raise InvalidInput(
                f"must have a stream for each agent, with a component for each state, {shape}, got "
                f"{rewards.mean.shape}",
                parameter="rewards",
            )
        if rewards.moving or np.any(rewards.drift):
            raise InvalidInput(
                "must have means that do not move, since values are those of fixed rewards",
                parameter="rewards",
            )
        if std is not None:
            raise InvalidInput(
                "is for Gaussian rewards; streams have their own, so leave it out", parameter="reward_std"
            )
        return rewards

    def __repr__(self) -> str:
        return f"PolicyEvaluation({self.network!r}, {self.states} states, discount {self.discount:g})"

    @classmethod
    def from_problem(
        cls,
        network: NetworkLike,
        problem: problems.MarkovRewardProcess,
        discount: float = problems.DISCOUNT,
        *,
        rule: str = "perturb",
        spread: float = 1.0,
        reward_std: ArrayLike = 1.0,
        seed: int = 0,
    ) -> PolicyEvaluation:
        """Return a problem of `gossamer.applications.policy.problems` whose reward is divided among agents by `rule`.

        See `problems.share_rewards` for the rules; under every rule the agents' average is the problem's reward.
        """
        network = Network.of(network)
        if not isinstance(problem, problems.MarkovRewardProcess):
            raise InvalidInput(
                f"a problem such as problems.garnet(20) is needed, got {checks.brief(problem)}; "
                "your own P and rewards go to PolicyEvaluation(network, P, rewards, discount)"
            )
        rewards = problems.share_rewards(problem.reward, network.agents, rule, spread, seed)
        return cls(network, problem.transitions, rewards, discount, reward_std)

    # -- the answer -----------------------------------------------------------------------------------------

    @cached_property
    def cumulative(self) -> Floats:
        """Cumulative probabilities along each row of P; the last of a row exceeds any uniform."""
        starts = self.transitions.indptr
        running = np.cumsum(self.transitions.data)
        before = np.concatenate([[0.0], running])[starts[:-1]]
        cumulative: Floats = running - np.repeat(before, np.diff(starts))
        cumulative[starts[1:] - 1] = 2.0
        return cumulative

    @cached_property
    def values(self) -> Floats:
        """(S,) J*, the true values of the average reward."""
        return np.asarray(self._solve(self.transitions.data, self.rewards.mean(axis=0)[:, None])[:, 0])

    def stationary_distribution(self) -> Floats:
        """Return (S,) the long-run distribution of the process, averaged over starting states."""
        return problems.stationary_distribution(self.transitions)

    def _solve(self, probabilities: Floats, rewards: Floats) -> Floats:
        """Return (I - gamma Phat)^{-1} r for one Phat with the sparsity of P, and several columns r."""
        matrix = sp.csr_matrix(
            (probabilities, self.transitions.indices, self.transitions.indptr), self.transitions.shape
        )
        return bellman.solve(matrix, self.discount, rewards)

    def bound(self, rounds: int) -> theory.Bound:
        """Return Corollary 2, a bound on the error of the plug-in estimator with SDA, term by term."""
        return theory.corollary_2(
            self.network,
            rewards=self.rewards,
            variance=self.streams.variance,
            discount=self.discount,
            rounds=rounds,
        )

    def centralized_error(
        self, rounds: int | Sequence[int] | Integers, trials: int = 20, seed: int = 0
    ) -> OneOrMore:
        """Return the simulated error of a center that holds all samples; the same samples are simulated only once."""
        trials, seed = checks.whole_number("trials", trials, least=1, most=2**32), checks.seed(seed)
        asked = (horizons_of(rounds)[1], *horizons_of(rounds)[0].tolist(), trials, seed)
        if asked not in self._centralized:
            self._centralized[asked] = self.simulate(Centralized(), rounds, trials, seed, keep=False).error
        return self._centralized[asked]

    # -- running it -----------------------------------------------------------------------------------------

    def simulate(
        self,
        solver: Solver,
        rounds: int | Sequence[int] | Integers,
        trials: int = 20,
        seed: int = 0,
        *,
        keep: bool = True,
    ) -> EvaluationRun:
        """Run `solver` in `trials` independent trials; every solver sees the same samples for the same seed.

        With keep=False the values themselves are discarded once their errors are known.
        """
        if not isinstance(keep, bool):
            raise InvalidInput(parameter="keep", required="True or False", got=checks.brief(keep))
        horizons, one = horizons_of(rounds)
        trials = checks.whole_number("trials", trials, least=1, most=2**32)
        block = trials if keep else max(1, 2**24 // (len(horizons) * self.network.agents * self.states))
        worst, lengths, values = [], [], []
        for first in range(0, trials, block):
            count = min(block, trials - first)
            learned = self._values(solver, horizons, count, seed, first)
            worst.append(np.abs(learned - self.values).max(axis=3))
            lengths.append(np.linalg.norm(learned - self.values, axis=3).max(axis=2))
            if keep:
                values.append(learned)
        by_agent = np.concatenate(worst, axis=1)  # (H, trials, N)
        errors = by_agent.max(axis=2)
        l2_errors = np.concatenate(lengths, axis=1)
        kept = values[0] if keep else None
        error, per_agent = errors.mean(axis=1), by_agent.mean(axis=1)
        which = 0 if one else slice(None)
        return EvaluationRun(
            problem=self,
            solver=resolve(solver) if isinstance(solver, str) else solver,
            trials=trials,
            seed=seed,
            rounds=int(horizons[0]) if one else horizons,
            error=error[which],
            stderr=standard_error(errors)[which],
            l2_error=l2_errors.mean(axis=1)[which],
            l2_stderr=standard_error(l2_errors)[which],
            errors=errors[which],
            per_agent=per_agent[which],
            values=None if kept is None else kept[which],
        )

    def _values(self, solver: Solver, horizons: Integers, trials: int, seed: int, first: int) -> Floats:
        if isinstance(solver, TemporalDifference):
            return solver.values(self, horizons, trials, seed, first)
        if not isinstance(solver, Method | Alone | Centralized):
            solver = resolve(solver)
        rewards = averages(solver, self.network, self.streams, horizons, trials, seed, first)
        return self.plug_in(rewards, self.sample_transitions(horizons, trials, seed, first))

    def sample_transitions(
        self,
        rounds: int | Sequence[int] | Integers,
        trials: int = 1,
        seed: int = 0,
        first_trial: int = 0,
    ) -> Floats:
        """Return (H, trials, nnz) empirical transition probabilities on the sparsity pattern of P."""
        horizons, _ = horizons_of(rounds)
        trials = checks.whole_number("trials", trials, least=1, most=2**32)
        first_trial = checks.whole_number("first_trial", first_trial, least=0, most=2**32)
        order = np.argsort(horizons, kind="stable")
        counts = np.zeros((trials, len(horizons), self.transitions.nnz), dtype=np.int64)
        temporal_differences.count_transitions(
            counts, random.key(seed), first_trial, horizons[order], self.transitions.indptr, self.cumulative
        )
        sampled = np.empty((len(horizons), trials, self.transitions.nnz))
        sampled[order] = np.moveaxis(counts, 1, 0)
        return sampled / horizons[:, None, None]

    def plug_in(self, rewards: Floats, probabilities: Floats) -> Floats:
        """Return (H, trials, N, S) values from rewards (H, trials, N, S) and probabilities (H, trials, nnz)."""
        count, trials = rewards.shape[:2]
        columns = np.swapaxes(rewards, 2, 3)
        if self.states > bellman.DENSE:
            solved = [
                self._solve(probabilities[h, t], columns[h, t]) for h in range(count) for t in range(trials)
            ]
            return np.swapaxes(np.stack(solved).reshape(columns.shape), 2, 3)
        rows = np.repeat(np.arange(self.states), np.diff(self.transitions.indptr))
        systems = np.zeros((count, trials, self.states, self.states))
        systems[:, :, rows, self.transitions.indices] = -self.discount * probabilities
        systems[:, :, np.arange(self.states), np.arange(self.states)] += 1.0
        return np.swapaxes(np.linalg.solve(systems, columns), 2, 3)

    def online(self, method: AnytimeSDA | None = None) -> OnlineEvaluation:
        """Return an online estimator, which is updated whenever samples arrive."""
        return OnlineEvaluation(self.network, self.states, self.discount, method)


class OnlineEvaluation:
    """Every agent's values at any moment, from samples given round by round; P need not be known."""

    def __init__(
        self, network: NetworkLike, states: int, discount: float, method: AnytimeSDA | None = None
    ) -> None:
        self.discount = problems.check_discount(discount)
        self.states = states
        self._stream = Stream(network, states, method)
        self._counts = sp.csr_matrix((states, states))

    @property
    def rounds(self) -> int:
        """Number of rounds of samples so far."""
        return self._stream.rounds

    def observe(self, next_states: ArrayLike, rewards: ArrayLike) -> None:
        """Run one round with the common next state of every state, (S,), and the agents' rewards, (N, S)."""
        observation = checks.array("rewards", rewards, (self._stream.network.agents, self.states))
        following = checks.array("next_states", next_states, (self.states,))
        if following.min() < 0 or following.max() >= self.states or np.any(following != np.floor(following)):
            raise InvalidInput(
                f"next states must be whole numbers from 0 to {self.states - 1}, got {following.tolist()}"
            )
        ones = np.ones(self.states)
        self._counts = self._counts + sp.csr_matrix(
            (ones, following.astype(int), np.arange(self.states + 1)), self._counts.shape
        )
        self._stream.advance(observation)

    def values(self) -> Floats:
        """Return (N, S) every agent's current values."""
        if self.rounds == 0:
            raise InvalidInput("there are no values before the first round; call observe() first")
        return bellman.solve(self._counts / self.rounds, self.discount, self._stream.values.T).T
