"""The common part of both applications: the solvers, and the two baselines without a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossamer.arrays import Floats, Integers
from gossamer.engines.exact import propagate
from gossamer.engines.simulate import simulate
from gossamer.facts import SpectralFacts
from gossamer.methods import DSG, Method, resolve, tabulate
from gossamer.methods.method import Register
from gossamer.networks import Network
from gossamer.observations import Gaussian, Observations


@dataclass(frozen=True)
class Alone:
    """Every agent uses only its own samples.

    See Also
    --------
    Centralized : One solver that sees all observations.
    gossamer.LinearEstimation : A problem that it solves.

    Examples
    --------
    >>> rewards = [[3.0, 0.0], [0.0, 3.0], [0.0, 0.0]]
    >>> team = gs.PolicyEvaluation("cycle:3", [[0.9, 0.1], [0.5, 0.5]], rewards, 0.9)
    >>> team.simulate(gs.applications.Alone(), 400, trials=5).error > 5
    True
    """

    name: ClassVar[str] = "alone"


@dataclass(frozen=True)
class Centralized:
    """A center holds the samples of all agents: the limit of what a network can reach.

    See Also
    --------
    Alone : Solvers that see only their own observations.
    gossamer.LinearEstimation : A problem that it solves.

    Examples
    --------
    >>> rewards = [[3.0, 0.0], [0.0, 3.0], [0.0, 0.0]]
    >>> team = gs.PolicyEvaluation("cycle:3", [[0.9, 0.1], [0.5, 0.5]], rewards, 0.9)
    >>> team.simulate(gs.applications.Centralized(), 400, trials=5).error < 2
    True
    """

    name: ClassVar[str] = "centralized"


@dataclass(frozen=True)
class OwnMean(DSG):
    """DSG without neighbors, the mean of an agent's own samples, so that the same engine also runs `Alone` and
    `Centralized`, on the same samples."""

    name: ClassVar[str] = "own-mean"

    def coefficients(self, network: SpectralFacts, rounds: int) -> DSG.Coefficients:
        return self.Coefficients(1.0 / np.arange(1, rounds + 1))

    @staticmethod
    def step(c: DSG.Coefficients, s: DSG.State, observation: Register, mixed: Register) -> DSG.State:
        return DSG.State(DSG.message(c, s, observation))


def averages(
    solver: Method | Alone | Centralized,
    network: Network,
    observations: Observations,
    horizons: Integers,
    trials: int,
    seed: int,
    first_trial: int = 0,
) -> Floats:
    """Return (H, trials, N, n) every agent's estimate of the average of all streams after each horizon."""
    method = solver if isinstance(solver, Method) else OwnMean()
    estimates = simulate(
        method, network, observations, horizons.tolist(), trials, seed, first_trial=first_trial
    ).estimates
    if isinstance(solver, Centralized):
        estimates = np.broadcast_to(estimates.mean(axis=2, keepdims=True), estimates.shape)
    return estimates


def settled(method: Method | str, network: Network, values: Floats, rounds: int) -> Floats:
    """Return (N, n) the agents' estimates after `rounds` rounds if agent i sees values[i] in every round."""
    method = resolve(method)
    if network.spectrum is None or method.mixing != "matrix":
        return np.asarray(simulate(method, network, Gaussian(values, 0.0), rounds, trials=1).estimates[0])
    spectrum = network.spectrum
    response, _ = propagate(tabulate(method, network, rounds), spectrum.eigenvalues, np.array([rounds]))
    return np.asarray(spectrum.synthesize(response[0, :, :1] * spectrum.analyze(values)))
