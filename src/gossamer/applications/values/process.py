"""Trajectories of a process with a table of transitions, where the values that features can represent are known."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from gossamer import checks
from gossamer.applications.policy import problems
from gossamer.applications.policy.evaluation import PolicyEvaluation
from gossamer.applications.values.lstd import Transitions
from gossamer.arrays import Booleans, Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.numerics import random
from gossamer.observations import Gaussian

_WALK = 18
"""A purpose in addition to those of `numerics.random`: the steps of trajectories."""

_IN_FLIGHT = 2**24
"""Number of rewards of all states in memory at a time."""


class TableProcess:
    """A `PolicyEvaluation` that is walked through, one state per step.

    States that are never left and pay nothing are ends of episodes; the next episode then begins in any other state,
    each with the same probability.
    """

    def __init__(self, task: PolicyEvaluation, features: Floats, trace: float, average: bool) -> None:
        self.task, self.features, self.trace, self.average = task, features, trace, average
        mean = task.rewards.mean(axis=0)
        stays = task.transitions.diagonal() == 1
        self.terminal: Booleans = stays & (np.abs(mean) <= 1e-12 * (1 + np.abs(mean).max()))
        if self.terminal.all():
            raise InvalidInput(
                "every state of this process is an end without reward, so there is nothing to learn"
            )
        if average and self.terminal.any():
            raise InvalidInput(
                f"the average reward is for processes that go on forever, but state {int(np.argmax(self.terminal))} "
                "is never left; use a discount below 1"
            )

    @cached_property
    def kept(self) -> sp.csr_matrix:
        """P without the transitions into ends."""
        return sp.csr_matrix(self.task.transitions @ sp.diags_array((~self.terminal).astype(float)))

    @cached_property
    def visited(self) -> Floats:
        """(S,) how often each state is visited in the long run; never an end."""
        going = ~self.terminal
        if going.all():
            return self.task.stationary_distribution()
        lost = 1.0 - np.asarray(self.kept.sum(axis=1)).ravel()
        again = sp.csr_matrix(np.outer(lost, going / going.sum()))
        restarted = sp.csr_matrix((self.kept + again)[going][:, going])
        visited = np.zeros(len(going))
        visited[going] = problems.stationary_distribution(restarted)
        return visited

    @cached_property
    def values(self) -> Floats:
        """(S,) the values that temporal differences converge to; for the average reward, less their mean."""
        phi, weights = self.features, self.visited
        discount = 1.0 if self.average else self.task.discount
        states = len(weights)
        system = sp.csc_array(sp.eye_array(states) - discount * self.trace * self.kept.T)
        traces = splu(system).solve(np.ascontiguousarray(weights[:, None] * phi))  # (S, p)
        reward = self.task.rewards.mean(axis=0)
        if self.average:
            reward = reward - weights @ reward
        matrix = traces.T @ (phi - discount * (self.kept @ phi))
        theta = np.linalg.lstsq(matrix, traces.T @ reward, rcond=1e-12)[0]
        values = phi @ theta
        return np.asarray(np.where(self.terminal, 0.0, values - (weights @ values if self.average else 0.0)))

    @property
    def approximation_error(self) -> float:
        """The squared distance of these values from the true ones, as the long run visits the states."""
        truth = self.task.values if not self.average else self._relative()
        return float(self.visited @ (self.values - truth) ** 2)

    def _relative(self) -> Floats:
        """(S,) the true relative values for the average reward."""
        states, weights = len(self.visited), self.visited
        reward = self.task.rewards.mean(axis=0)
        system = np.eye(states) - self.task.transitions.toarray() + np.outer(np.ones(states), weights)
        return np.asarray(np.linalg.solve(system, reward - weights @ reward))

    # -- samples ----------------------------------------------------------------------------------------------

    def walk(self, rounds: int, seed: int, trials: range, walkers: int) -> tuple[Integers, Integers]:
        """Return states and next states, (rounds, walkers, trials); pure functions of (seed, trial, walker)."""
        rounds, seed = checks.rounds(rounds), checks.seed(seed)
        uniforms = random.uniforms(seed, _WALK, trials, range(walkers), 3, range(rounds))
        transitions = self.task.transitions
        # Adding its row's number to every cumulative probability makes them ascend over all rows.
        rows = np.repeat(np.arange(self.task.states), np.diff(transitions.indptr))
        ladder = rows + np.minimum(self.task.cumulative, 1.0)
        going = np.flatnonzero(~self.terminal)
        states = np.empty((rounds, walkers, len(trials)), dtype=np.int64)
        following = np.empty_like(states)
        now = np.searchsorted(np.cumsum(self.visited)[:-1], uniforms[0, :, 1], side="right")
        for t in range(rounds):
            states[t] = now
            entry = np.searchsorted(ladder, now + uniforms[t, :, 0], side="right")
            now = transitions.indices[np.minimum(entry, transitions.indptr[now + 1] - 1)]
            following[t] = now
            if len(going) < len(self.terminal):
                anew = going[(uniforms[t, :, 2] * len(going)).astype(np.int64)]
                now = np.where(self.terminal[now], anew, now)
        return states, following

    def rewards(self, states: Integers, seed: int, trials: range) -> Floats:
        """Return (rounds, N, trials) the rewards that agents see in these states, (rounds, 1 or N, trials)."""
        streams, (agents, count) = self.task.streams, self.task.rewards.shape
        rounds = len(states)
        who = np.arange(agents)[None, :, None]
        if isinstance(streams, Gaussian) and streams.normal_std is not None:
            noise = random.normals(seed, random.OBSERVATION, trials, range(agents), 1, range(rounds))[:, :, 0]
            return np.asarray(self.task.rewards[who, states] + self.task.reward_std[who, states] * noise)
        out = np.empty((rounds, agents, len(trials)))
        length = max(1, _IN_FLIGHT // (agents * count * len(trials)))
        where = np.arange(len(trials))[None, None]
        for first in range(0, rounds, length):
            some = range(first, min(first + length, rounds))
            drawn = streams.sample(seed, some, trials)  # (rounds, N, S, trials)
            out[some.start : some.stop] = drawn[
                np.arange(len(some))[:, None, None], who, states[some.start : some.stop], where
            ]
        return out

    def transitions(self, states: Integers, following: Integers, rewards: Floats) -> Transitions:
        """Return one trajectory with its features, from states (T,), next states (T,) and rewards (T, n)."""
        ends = self.terminal[following]
        table = self.features
        return Transitions(table[states], table[following], rewards, ends, ends, np.ones(len(states)))
