"""Models learned over a network: every agent holds nearly the estimate that a center with all samples would have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.applications.likelihood.families import Family, family_of
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.networks import Network, NetworkLike
from gossamer.observations import Gaussian, Observations, check_match


class LikelihoodEstimation:
    """A network whose agents fit one model to everybody's samples (x, y).

    It minimizes the mean over all samples of the family's loss at the predictor x'theta, plus ridge/2 ||theta||^2
    (of the intercept nothing is added). With m predictors (softmax) theta has m rows of `width` numbers, one after
    another.

    Parameters
    ----------
    network
        Who talks to whom.
    family
        A `Family`, or its name: "logistic", "softmax" (three classes), "poisson", "gamma" or "huber".
    dimension
        How many covariates a sample has.
    parameter
        The true theta, shape (size,), from which simulations draw labels.
    covariates
        Streams of `dimension` components, from which simulations draw covariates; each agent has its own.
    samples
        How many samples an agent sees in a round: a number, or one per agent.
    intercept
        Whether to add a covariate that is always 1, as the last one.
    ridge
        The penalty's factor.
    names
        What the covariates are called.
    """

    def __init__(
        self,
        network: NetworkLike,
        family: Family | str,
        dimension: int,
        *,
        parameter: ArrayLike | None = None,
        covariates: Observations | None = None,
        samples: int | Sequence[int] = 1,
        intercept: bool = False,
        ridge: float = 0.0,
        names: Sequence[str] | None = None,
    ) -> None:
        self.network = network = Network.of(network)
        self.family = family_of(family)
        self.dimension = checks.whole_number("dimension", dimension, least=1, most=1000)
        self.intercept = bool(intercept)
        self.width = self.dimension + self.intercept
        self.size = self.width * self.family.outputs
        self.ridge = checks.number("ridge", ridge, least=0)
        self.parameter = None if parameter is None else checks.array("parameter", parameter, (self.size,))
        if covariates is not None:
            check_match(network, covariates)
            if covariates.components != self.dimension:
                raise InvalidInput(
                    f"covariates need one component per covariate ({self.dimension}), got {covariates.components}"
                )
        self.covariates = covariates
        self.samples = np.broadcast_to(checks.array("samples", samples), (network.agents,))
        default = [f"x{k}" for k in range(self.dimension)]
        given = default if names is None else [str(name) for name in checks.listed("names", names)]
        if len(given) != self.dimension:
            raise InvalidInput(f"names needs one entry per covariate ({self.dimension}), got {len(given)}")
        self.names = [*given, "intercept"] if self.intercept else given

    def __repr__(self) -> str:
        return f"LikelihoodEstimation({self.network!r}, {self.family.name}, {self.size} parameters)"

    @classmethod
    def random(
        cls,
        network: NetworkLike,
        family: Family | str = "logistic",
        dimension: int = 5,
        *,
        samples: int | Sequence[int] = 1,
        intercept: bool = False,
        ridge: float = 0.0,
        seed: int = 0,
    ) -> LikelihoodEstimation:
        """A random problem: theta of length 1, and every agent with covariates around a point of its own."""
        network, family = Network.of(network), family_of(family)
        dimension = checks.whole_number("dimension", dimension, least=1, most=1000)
        rng = np.random.default_rng(checks.seed(seed))
        centers = rng.normal(size=(network.agents, dimension)) * 0.7
        spreads = rng.uniform(0.3, 1.2, size=(network.agents, dimension))
        parameter: Floats = rng.normal(size=((dimension + bool(intercept)) * family.outputs))
        parameter /= np.linalg.norm(parameter)
        return cls(
            network,
            family,
            dimension,
            parameter=parameter,
            covariates=Gaussian(centers, spreads),
            samples=samples,
            intercept=intercept,
            ridge=ridge,
        )
