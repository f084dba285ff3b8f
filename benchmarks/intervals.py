"""Measure how often the published 95% intervals of models learned from streams contain the truth.

    python -m benchmarks.intervals --designs cancer,claims --trials 400

Six agents on a cycle draw one row each per round, with replacement, from a table whose labels are drawn from a model
that is known. An estimate counts where it is published; each row of the output has the coverage over all coefficients,
its standard error over trials, the least coverage of a coefficient, the share of trials with a published estimate, and
the coverage of the pooled fit of the same rows by normal intervals from model-based standard errors, which is what
statistics packages report: over the trials with a published estimate, and over all trials.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import gossamer as gs
from gossamer.errors import InvalidInput
from gossamer.families import family_of

AGENTS, HORIZONS = 6, (60, 100, 200, 400)


class Design(NamedTuple):
    """A table of covariates, and the parameters of the family that labels are drawn from; the last is the intercept."""

    family: str
    x: np.ndarray
    truth: np.ndarray


def standardized(x: np.ndarray) -> np.ndarray:
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0))


def cancer() -> Design:
    """A strong signal: the fit of four columns separates most rows."""
    x, y = load_breast_cancer(return_X_y=True)
    x = standardized(x[:, :4])
    known = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(x, y)
    return Design("logistic", x, np.append(known.coef_, known.intercept_))


def wine() -> Design:
    """Class 1 against the others, by three columns."""
    x, y = load_wine(return_X_y=True)
    x = standardized(x[:, [1, 4, 10]])
    known = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(x, y == 1)
    return Design("logistic", x, np.append(known.coef_, known.intercept_))


def rare() -> Design:
    """One label in twenty is 1."""
    x = np.random.default_rng(1).normal(size=(2000, 3))
    return Design("logistic", x, np.array([0.8, -0.5, 0.3, -3.4]))


def diabetes() -> Design:
    """Counts around 150, by four columns."""
    x, y = load_diabetes(return_X_y=True)
    x = standardized(x[:, [1, 2, 3, 8]])
    known = PoissonRegressor(alpha=0.0, tol=1e-8, max_iter=1000).fit(x, y)
    return Design("poisson", x, np.append(known.coef_, known.intercept_))


def claims() -> Design:
    """Few counts above zero, and skewed covariates, so that few rows carry the information."""
    rng = np.random.default_rng(2)
    x = standardized(np.column_stack([rng.exponential(size=2000), rng.lognormal(sigma=0.8, size=2000)]))
    return Design("poisson", x, np.array([0.4, 0.3, -1.5]))


def costs() -> Design:
    """Gamma labels, skewed covariates."""
    rng = np.random.default_rng(3)
    x = standardized(np.column_stack([rng.exponential(size=2000), rng.normal(size=2000)]))
    return Design("gamma", x, np.array([0.5, -0.3, 2.0]))


def outliers() -> Design:
    """Huber's loss."""
    return Design("huber", np.random.default_rng(4).normal(size=(2000, 3)), np.array([1.0, -0.5, 0.2, 3.0]))


DESIGNS: dict[str, Callable[[], Design]] = {
    maker.__name__: maker for maker in (cancer, wine, rare, diabetes, claims, costs, outliers)
}


def trial(design: Design, seed: int, horizons: tuple[int, ...] = HORIZONS) -> np.ndarray:
    """(2, horizons, p): whether the interval of each coefficient contains it, 1 or 0, by the stream and by the pooled
    fit of the same rows; NaN where it is withheld, or where there is no finite fit."""
    rng, family, size = np.random.default_rng([seed, 7]), family_of(design.family), design.x.shape[1]
    online = gs.LikelihoodEstimation(gs.Network.cycle(AGENTS), design.family, size).online()
    covered = np.full((2, len(horizons), size + 1), np.nan)
    rows, labels = [], []
    for t in range(1, max(horizons) + 1):
        x = design.x[rng.integers(len(design.x), size=AGENTS)]
        y = family.draw(rng, (x @ design.truth[:-1] + design.truth[-1])[None])
        rows.append(x)
        labels.append(y)
        online.observe([(x[i : i + 1], y[i : i + 1]) for i in range(AGENTS)])
        if t not in horizons:
            continue
        if online.ready.all():
            covered[0, horizons.index(t)] = contains(online.intervals()[0], design.truth)
        seen = slice(None, online.included)  # the estimate is the fit of these rounds
        try:
            pooled = gs.LikelihoodEstimation.from_data(
                np.concatenate(rows[seen]), np.concatenate(labels[seen]), 2, family=design.family
            )
            summary = pooled.fit().summary()
        except InvalidInput:  # separable
            continue
        covered[1, horizons.index(t)] = contains(summary.intervals, design.truth)
    return covered


def contains(intervals: np.ndarray, truth: np.ndarray) -> np.ndarray:
    low, high = np.moveaxis(intervals, -1, 0)
    return np.asarray((low <= truth) & (truth <= high))


def share(covered: np.ndarray) -> str:
    """The mean of (trials, p) with its standard error over trials; NaN do not count."""
    some = covered[~np.isnan(covered[:, 0])]
    if not len(some):
        return "-"
    return f"{some.mean():.3f} ± {some.mean(axis=1).std() / np.sqrt(len(some)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="seed of the first trial")
    parser.add_argument("--designs", default=",".join(DESIGNS))
    options = parser.parse_args()
    print(
        "| rows | T | coverage | least of a coefficient | published | pooled fit, same trials | all trials |"
    )
    print("|---" * 7 + "|")
    for name in options.designs.split(","):
        design = DESIGNS[name]()
        covered = np.array([trial(design, options.first + k) for k in range(options.trials)])
        for h, rounds in enumerate(HORIZONS):
            ours, pooled = covered[:, 0, h], covered[:, 1, h]
            published = ~np.isnan(ours[:, 0])
            least = f"{ours[published].mean(axis=0).min():.3f}" if published.any() else "-"
            cells = [share(ours), least, f"{published.mean():.0%}", share(pooled[published]), share(pooled)]
            print(f"| {name} | {rounds} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
