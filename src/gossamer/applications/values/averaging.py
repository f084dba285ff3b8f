"""Averages of b, or of A and b, over a network, by any method and any engine.

If all agents see one trajectory, agent j adds z_t r_{j,t} in round t. z_t is common, and methods are linear, so agent
i's average is the sum over t of z_t times a weighted sum over j of r_{j,t}: the exact engine's weights of single
observations replace a simulation of P components by one product of matrices. With faults, on changing networks, and for
trajectories of the agents' own, the components are simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gossamer.applications.values.lstd import Sums, TraceSteps, scale_of, slices, sums_of
from gossamer.arrays import Floats, Integers
from gossamer.engines.exact import impulse_response
from gossamer.engines.simulate import simulate
from gossamer.errors import Unsupported
from gossamer.faults import FaultsLike
from gossamer.methods import Method, tabulate
from gossamer.networks import ChangingNetwork, Network
from gossamer.networks.spectrum import DenseSpectrum, Spectrum
from gossamer.observations import Observations

_LARGEST = 2**27
"""Number of weights of the exact engine above which the network is simulated."""

_DENSE = 300
"""Largest number of agents for which eigenvectors are computed as a dense matrix."""


class Averaging:
    """A method on a network, for ascending numbers of rounds."""

    def __init__(
        self,
        method: Method,
        network: Network | ChangingNetwork,
        fixed: Network,
        horizons: Integers,
        faults: FaultsLike = None,
    ) -> None:
        self.method, self.network, self.fixed, self.horizons, self.faults = (
            method,
            network,
            fixed,
            horizons,
            faults,
        )
        self.tables = [tabulate(method, fixed, int(t)) for t in horizons]
        if any(np.any(table.batches != 1) for table in self.tables):
            raise Unsupported(
                f"values take one step of the environment per round, but {method.label} takes batches of steps or "
                "none; use gs.AnytimeSDA()"
            )

    @property
    def direct(self) -> bool:
        """Whether the weights of the exact engine apply."""
        return (
            self.faults is None
            and isinstance(self.network, Network)
            and self.method.mixing == "matrix"
            and self.fixed.spectrum is not None
            and int(self.horizons.sum()) * self.fixed.agents <= _LARGEST
        )

    @cached_property
    def common(self) -> list[Floats]:
        """For each horizon, (T,) the weight of each step in the average over all agents."""
        return [impulse_response(table, np.zeros(1))[:, 0] for table in self.tables]

    @cached_property
    def _basis(self) -> Spectrum:
        """Eigenvectors of the network; real ones where they are cheap, because complex sums cost twice as much."""
        assert self.fixed.spectrum is not None
        small = self.fixed.agents <= _DENSE
        return DenseSpectrum(self.fixed.gossip.toarray()) if small else self.fixed.spectrum

    @cached_property
    def _responses(self) -> list[Floats]:
        return [impulse_response(table, self._basis.eigenvalues).T for table in self.tables]

    def _direct(self, steps: TraceSteps, batches: int) -> list[Sums]:
        """Sum the rewards in the eigenbasis of the network, N x P numbers per batch, then transform them to agents."""
        modes = self._basis.analyze(steps.rewards.T)  # (N, T)
        row = []
        for weights, response in zip(self.common, self._responses, strict=True):
            sums = sums_of(steps.first(len(weights)), weights, response * modes[:, : len(weights)], batches)
            rights = np.real(self._basis.synthesize(np.moveaxis(sums.rights, 1, 0)))
            row.append(sums._replace(rights=np.moveaxis(rights, 0, 1)))
        return row

    def shared(self, trials: Sequence[TraceSteps], seed: int, batches: int = 1) -> list[list[Sums]]:
        """Return the sums by trial and horizon if all agents see the trajectory of a trial."""
        if self.direct:
            return [self._direct(steps, batches) for steps in trials]
        size = trials[0].traces.shape[1]
        by_horizon = []
        for horizon, weights in zip(self.horizons.tolist(), self.common, strict=True):
            held = self._simulated(SharedSteps(trials, horizon, batches), [horizon], seed)[0]
            rights = np.moveaxis(held.reshape(*held.shape[:2], batches, size), 2, 1)  # (trials, K, N, P)
            by_horizon.append(
                [
                    sums_of(steps.first(horizon), weights, np.zeros((1, horizon)), batches)._replace(
                        rights=right
                    )
                    for steps, right in zip(trials, rights, strict=True)
                ]
            )
        return [list(row) for row in zip(*by_horizon, strict=True)]

    def separate(self, trials: Sequence[Sequence[TraceSteps]], seed: int) -> list[list[Sums]]:
        """Return the sums by trial and horizon if each agent has a trajectory of its own."""
        size = trials[0][0].traces.shape[1]
        held = self._simulated(OwnSteps(trials), self.horizons.tolist(), seed)  # (H, trials, N, P^2 + P)
        by_trial = []
        for k, agents in enumerate(trials):
            row = []
            for h, horizon in enumerate(self.horizons.tolist()):
                scale = np.sqrt(np.mean([scale_of(steps.first(horizon)) ** 2 for steps in agents], axis=0))
                matrices = held[h, k, :, : size * size].reshape(1, -1, size, size)
                row.append(Sums(matrices, held[h, k, None, :, size * size :], scale))
            by_trial.append(row)
        return by_trial

    def _simulated(self, streams: Observations, rounds: Sequence[int], seed: int) -> Floats:
        """(H, trials, N, n) the agents' averages."""
        run = simulate(
            self.method,
            self.network,
            streams,
            list(rounds),
            streams.trials,  # type: ignore[attr-defined]
            seed,
            faults=self.faults,
            progress=False,
        )  # type: ignore[call-overload, misc, unused-ignore]
        return np.asarray(run.estimates)


class StepStreams(Observations):
    """Numbers of each step as streams, of `trials` trials."""

    def __init__(self, trials: int, agents: int, components: int) -> None:
        self.trials = trials
        self.mean = np.zeros((agents, components))
        self.variance = np.ones_like(self.mean)

    def sample(
        self,
        seed: int,
        rounds: range,
        trials: range,
        agents: range | None = None,
        batches: Floats | None = None,
    ) -> Floats:
        who, some = range(self.agents) if agents is None else agents, slice(rounds.start, rounds.stop)
        return np.stack([self.numbers(trial, some, who) for trial in trials], axis=-1)

    def numbers(self, trial: int, some: slice, who: range) -> Floats:
        """(rounds, agents, components)"""
        raise NotImplementedError


class SharedSteps(StepStreams):
    """z_t r_{j,t} as streams, with components of their own for each batch of steps."""

    def __init__(self, trials: Sequence[TraceSteps], rounds: int, batches: int) -> None:
        self.given, self.batches = trials, batches
        self.batch = np.empty(rounds, dtype=int)
        for k, some in enumerate(slices(rounds, batches)):
            self.batch[some] = k
        super().__init__(len(trials), trials[0].rewards.shape[1], batches * trials[0].traces.shape[1])

    def numbers(self, trial: int, some: slice, who: range) -> Floats:
        traces, _, rewards = (array[some] for array in self.given[trial])
        out = np.zeros((len(traces), len(who), self.batches, traces.shape[1]))
        added = rewards[:, who.start : who.stop, None] * traces[:, None]
        out[np.arange(len(traces)), :, self.batch[some]] = added
        return out.reshape(len(traces), len(who), -1)


class OwnSteps(StepStreams):
    """z_t d_t' and z_t r_t of each agent's own trajectory as streams."""

    def __init__(self, trials: Sequence[Sequence[TraceSteps]]) -> None:
        self.given = trials
        size = trials[0][0].traces.shape[1]
        super().__init__(len(trials), len(trials[0]), size * size + size)

    def numbers(self, trial: int, some: slice, who: range) -> Floats:
        out = []
        for agent in who:
            traces, differences, rewards = (array[some] for array in self.given[trial][agent])
            products = traces[:, :, None] * differences[:, None, :]
            out.append(np.column_stack([products.reshape(len(traces), -1), traces * rewards]))
        return np.stack(out, axis=1)
