"""Models learned over a network: every agent obtains nearly the estimate of a center that has all samples."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.applications.likelihood.fits import Fit, Fits
from gossamer.applications.likelihood.intake import IntakeOptions, take_rows
from gossamer.applications.likelihood.learning import LearningRuns, Solver, learn
from gossamer.applications.likelihood.online import OnlineLikelihood
from gossamer.applications.likelihood.ridge_path import RidgePath, ridge_path
from gossamer.applications.likelihood.stored_rows import RIVALS, Fitter, StoredRows, stored_rows
from gossamer.applications.likelihood.streaming import in_blocks, newton
from gossamer.applications.linear.dealing import check_unique, with_intercept
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.families import Family, family_of, with_classes
from gossamer.faults import FaultsLike
from gossamer.methods import AnytimeSDA
from gossamer.networks import ChangingNetwork, Network, NetworkLike
from gossamer.observations import Gaussian, Observations, check_match


class LikelihoodEstimation:
    r"""A network whose agents fit one model to the samples (x, y) of all agents.

    The model minimizes the mean over all samples of the family's loss at the predictor :math:`x^\top\theta`, plus the
    penalty :math:`\frac{\mathrm{ridge}}{2} \lVert\theta\rVert^2` without the intercept. With m predictors (softmax),
    :math:`\theta` consists of m rows of `width` numbers, one after another.

    Parameters
    ----------
    network : Network, NetworkX graph or str
        The network of the N agents, for example "grid:10x10".
    family : Family or str
        A `Family`, or its name: "logistic", "softmax" (three classes), "poisson", "gamma" or "huber".
    dimension : int
        Number of covariates of a sample, without the intercept.
    parameter : array_like, optional
        The true :math:`\theta`, shape (size,), from which simulations draw labels.
    covariates : Observations, optional
        Streams of `dimension` components, one per agent, from which simulations draw covariates.
    samples : int or sequence of int
        Number of samples per agent and round: one number, or one per agent.
    intercept : bool
        Whether to add a covariate that is always 1, as the last one.
    ridge : float
        Factor of the penalty above, at least 0; it does not apply to the intercept.
    names : sequence of str, optional
        Names of the covariates, for tables and errors; by default x0, x1, ...
    classes : sequence, optional
        Labels of the classes, such as ["no", "yes"], if samples carry these instead of 0, 1, ...; parameters are named
        after them. Two classes may also be -1 and 1 without being listed.

    See Also
    --------
    LinearEstimation : A linear model by averages of its normal equations.
    gossamer.applications.Family : Losses and their base class.
    gossamer.agents.FleetModel : The same models in a fleet.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> rows = gs.LikelihoodEstimation.from_data(x, x[:, 0] > x[:, 1] / 2, gs.Network.cycle(5), ridge=0.1)
    >>> rows.fit("newton", 500).disagreement < 1e-6
    True
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
        intercept: bool = True,
        ridge: float = 0.0,
        names: Sequence[str] | None = None,
        classes: Sequence[object] | None = None,
    ) -> None:
        self.stored: StoredRows | None = None
        self._centralized: dict[tuple[tuple[int, ...], int], Floats] = {}
        self.network = network = Network.of(network)
        self.classes: tuple[object, ...] | None = None
        if classes is None:
            self.family = family_of(family)
        else:
            self.family, self.classes = with_classes(family, classes)
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
                    f"need one component per covariate ({self.dimension}), got {covariates.components}",
                    parameter="covariates",
                )
        self.covariates = covariates
        self.samples = _samples(samples, network.agents)
        default = [f"x{k}" for k in range(self.dimension)]
        given = default if names is None else [str(name) for name in checks.listed("names", names)]
        if len(given) != self.dimension:
            raise InvalidInput(
                f"needs one entry per covariate ({self.dimension}), got {len(given)}", parameter="names"
            )
        check_unique(given)
        self.names = with_intercept(given) if self.intercept else given

    @classmethod
    def from_data(
        cls,
        X: object,
        y: object,
        agents: int | NetworkLike | None = None,
        split: object = "contiguous",
        *,
        family: Family | str = "logistic",
        intercept: bool = True,
        ridge: float = 0.0,
        lasso: float = 0.0,
        local: Sequence[str] = (),
        sample_weight: object = None,
        offset: object = None,
        exposure: object = None,
        class_weight: object = None,
        classes: Sequence[object] | None = None,
        missing: str = "refuse",
        standardize: bool = False,
        seed: int = 0,
    ) -> LikelihoodEstimation:
        r"""Distribute rows of data over agents, which keep them; `fit` then fits the model to all rows.

        Parameters
        ----------
        X
            An array (rows, covariates), a dictionary of columns, or a pandas or polars frame. Contiguous rows of an
            array of floats are not copied. Text is a category: every level but the first, in sorted order, has an
            indicator "column=level".
        y
            One label per row, the name of a column of the frame, or a formula such as "y ~ age + C(site)" (needs the
            extra `formula`). Classes may be text, two classes also -1 and 1.
        agents
            Number of agents (on an Erdős–Rényi graph), or the network itself.
        split
            "contiguous" blocks of rows, "random", "sorted" (blocks of rows sorted by label, which makes agents as
            different as possible), "by:<column>" (one agent per value of that column, which is then not a covariate),
            or an array with the agent of each row: labels of the network's agents, or one label per agent. Agents may
            have no rows.
        family, intercept, ridge
            As for the class, and also "least-squares" and "negative-binomial" (whose dispersion is estimated).
            "softmax" has as many classes as there are labels, with a predictor for each.
        lasso
            Factor of an additional penalty :math:`\lVert\theta\rVert_1` (without intercepts), which sets parameters to
            exactly zero.
        local
            Parameters that each agent estimates for itself, for example ["intercept"]; they have no penalty.
        sample_weight
            Weight of each row (2 counts as two rows): one number per row, or the name of a column.
        offset, exposure
            Added to each row's predictor; an exposure is a factor of the mean, whose logarithm is added. One number per
            row, or the name of a column.
        class_weight
            "balanced" (all classes have the same total weight), or a weight for each label.
        classes
            The labels of the classes in an order of your choice, for example with the reference first; by default in
            sorted order.
        missing
            "refuse" missing values, "drop" their rows, or replace them by the "mean" over the network.
        standardize
            Apply the penalties to covariates of standard deviation 1 over the network; parameters stay in the units of
            the data.
        seed
            Seed of the random split.

        Examples
        --------
        >>> import numpy as np
        >>> import gossamer as gs
        >>> x = np.random.default_rng(0).normal(size=(200, 2))
        >>> y = (x[:, 0] + np.random.default_rng(1).logistic(size=200) > 0).astype(float)
        >>> fit = gs.LikelihoodEstimation.from_data(x, y, agents=gs.Network.cycle(5)).fit()
        >>> fit.estimates.shape
        (5, 3)
        >>> bool(fit.error[-1] < 1e-9)
        True
        """
        options = IntakeOptions(sample_weight, offset, exposure, class_weight, missing, standardize, classes)
        local = [str(name) for name in checks.listed("local", local)]
        taken = take_rows(X, y, agents, split, checks.seed(seed), family, bool(intercept), options)
        family = taken.family.against_first() if local else taken.family
        taken = taken._replace(family=family)
        problem = cls(
            taken.network,
            family,
            len(taken.design.names),
            samples=[len(rows.y) for rows in taken.data],
            intercept=taken.intercept,
            ridge=ridge,
            names=taken.design.names,
            classes=taken.design.classes,
        )
        lasso = checks.number("lasso", lasso, least=0)
        problem.stored = stored_rows(taken, ridge=problem.ridge, lasso=lasso, local=local)
        return problem

    def fit(
        self, method: Fitter = "newton", rounds: int = 1000, *, tolerance: float = 1e-9, steps: int = 200
    ) -> Fit:
        """Fit the rows of `from_data`, and return every agent's parameters with the rounds and bytes that this took.

        Parameters
        ----------
        method
            "newton", which uses averaged curvatures ("newton-cholesky") or, for large models, conjugate gradients
            ("newton-cg"); or one of `Extra`, `ExactDiffusion`, `GradientTracking`, `Centralized` and `Alone` of
            `gs.applications`, for comparison.
        rounds
            Number of rounds of a gradient method; Newton's method does not need it.
        tolerance
            Newton's method stops when no agent's estimate moves by more than this, relative to its size.
        steps
            Largest number of steps of Newton's method.
        """
        return self._stored_rows().fit(method, rounds, tolerance=tolerance, steps=steps)

    @property
    def differentiable(self) -> bool:
        """Return whether gradient methods can fit the rows of `from_data`, which requires one smooth loss."""
        model = self._stored_rows().model
        return model.lasso is None and model.local is None and not model.family.scale_terms

    def ridge_path(
        self, by: str = "cv", ridges: Sequence[float] | None = None, *, folds: int = 5, seed: int = 0
    ) -> RidgePath:
        """Choose the ridge penalty for the rows of `from_data` by the predicted error on new rows.

        Parameters
        ----------
        by
            "cv" for cross-validation, where every agent divides its own rows into folds; "gcv" for generalized
            cross-validation, with one fit per penalty.
        ridges
            The penalties to try; by default 13 from 1e-5 to 10, which suit standardized covariates.
        folds, seed
            Number of folds, and the seed of the division into folds.

        Examples
        --------
        >>> x = np.random.default_rng(0).normal(size=(60, 20))
        >>> y = x[:, 0] + np.random.default_rng(1).normal(size=60)
        >>> rows = gs.LikelihoodEstimation.from_data(x, y, gs.Network.cycle(5), family="least-squares")
        >>> path = rows.ridge_path("gcv")
        >>> path.best > 0.01
        True
        """
        return ridge_path(self._stored_rows(), by, ridges, folds, seed)

    def compare_fits(
        self, methods: Sequence[Fitter] = RIVALS, rounds: int = 1000, *, target: float = 1e-6
    ) -> Fits:
        """Fit the rows of `from_data` by several methods, and compare their errors and the rounds and bytes they took
        to come within `target` of the fit in one place."""
        return self._stored_rows().compare(methods, rounds, target=target)

    def _stored_rows(self) -> StoredRows:
        if self.stored is None:
            raise InvalidInput(
                "fit() is for rows that agents hold (LikelihoodEstimation.from_data); streams have online() and "
                "simulate()"
            )
        return self.stored

    def on(self, network: NetworkLike) -> LikelihoodEstimation:
        """Return the same problem on another network of the same size; centralized estimates are computed only once."""
        network = Network.of(network)
        if network.agents != self.network.agents:
            raise InvalidInput(f"a network of {self.network.agents} agents is needed, got {network.agents}")
        other = copy(self)
        other.network = network
        return other

    @property
    def parameter_names(self) -> list[str]:
        r"""The names of the entries of :math:`\theta`; with several predictors, name[class]."""
        return self.family.parameter_names(self.names, self.classes)

    @property
    def intercepts(self) -> int:
        """Number of intercepts: one for each predictor, or none."""
        return self.family.outputs * self.intercept

    @property
    def per_round(self) -> float:
        """Mean number of samples per agent and round."""
        return float(self.samples.mean())

    @cached_property
    def penalty(self) -> Floats:
        """(size,) the ridge penalty of each parameter."""
        penalty = np.full((self.family.outputs, self.width), self.ridge)
        penalty[:, self.dimension :] = 0.0
        return penalty.ravel()

    @cached_property
    def steepness(self) -> float:
        r"""The largest mean curvature of any agent at :math:`\theta = 0`, the unit of gradient methods' step sizes."""
        assert self.covariates is not None
        squares = (self.covariates.mean**2 + self.covariates.variance).sum(axis=1)
        bends = self.family.curvatures(np.zeros((self.family.outputs, 1)), np.ones(1))
        return float((squares.max() + self.intercept) * max(bends.max(), 1e-3))

    def simulate(
        self,
        methods: Solver | Sequence[Solver],
        rounds: int | Sequence[int] | Integers,
        trials: int = 100,
        seed: int = 0,
        *,
        faults: FaultsLike = None,
        network: ChangingNetwork | None = None,
    ) -> Any:
        """Run one method, or several of them on the same samples, in `trials` independent trials.

        Parameters
        ----------
        methods
            `AnytimeSDA` or its name, or one of `DSGD`, `DSGT`, `Alone`, `Centralized` of `gs.applications`; or a list.
        rounds
            Number of rounds T after which to report the error, or several such numbers.
        trials, seed
            Number of trials, and their seed.
        faults
            Faults (`gs.faults`); `AnytimeSDA` then runs by the rules of the edge ledger.
        network
            A changing network instead of the problem's own.

        Returns
        -------
        LearningRun or LearningRuns
            Errors with the samples, rounds and bytes they took; for a list of methods, all of them.

        Examples
        --------
        >>> import gossamer as gs
        >>> problem = gs.LikelihoodEstimation.random(gs.Network.cycle(10), "poisson", dimension=2)
        >>> run = problem.simulate("anytime-sda", rounds=200, trials=8)
        >>> bool(run.over_limit < 2)
        True
        """
        some = methods if isinstance(methods, list | tuple) else [methods]
        if not some:
            raise InvalidInput("at least one method is needed, got none")
        runs = [learn(self, solver, rounds, trials, seed, faults, network) for solver in some]
        return LearningRuns(runs) if isinstance(methods, list | tuple) else runs[0]

    def centralized(self, rounds: tuple[int, ...], trials: int, seed: int) -> Floats:
        """Return (H, trials, N, p) estimates of a center that holds all samples; computed once.

        The first horizons do not depend on those that follow.
        """
        for (others, other_seed), known in self._centralized.items():
            if other_seed == seed and others[: len(rounds)] == rounds and known.shape[1] >= trials:
                return known[: len(rounds), :trials]
        known = in_blocks(self, trials, seed, newton(self, np.array(rounds)), max(rounds)).estimates
        self._centralized[rounds, seed] = known
        return known

    def online(
        self, method: AnytimeSDA | None = None, *, memory: int = 10_000, forgetting: float | None = None
    ) -> OnlineLikelihood:
        """Return an online estimator, which is updated whenever samples arrive, with standard errors.

        Parameters
        ----------
        method
            `AnytimeSDA`, in any of its forms.
        memory
            Number of rounds of samples that are kept to be linearized again; older ones are discarded once estimates
            are accurate.
        forgetting
            Number of rounds after which the weight of a sample is halved, to follow models that change. None disables
            it: all samples have the same weight.
        """
        return OnlineLikelihood(self, method, memory=memory, forgetting=forgetting)

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
        intercept: bool = True,
        ridge: float = 0.0,
        seed: int = 0,
    ) -> LikelihoodEstimation:
        r"""Return a random problem: :math:`\theta` of length 1, covariates of each agent around a point of its own."""
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


MOST_SAMPLES = 2**31


def _samples(samples: object, agents: int) -> Floats:
    """Return (N,) whole numbers, not all zero."""
    counts = checks.array("samples", samples)
    if (
        counts.shape not in ((), (agents,))
        or np.any((counts < 0) | (counts > MOST_SAMPLES) | (counts != np.floor(counts)))
        or not counts.any()
    ):
        raise InvalidInput(
            parameter="samples",
            required=f"whole numbers from 0 to {MOST_SAMPLES}, one for all agents or one for each of {agents}, and not "
            "all zero",
            got=checks.brief(samples),
        )
    return np.broadcast_to(counts, (agents,))
