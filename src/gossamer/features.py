"""Features of observations: functions that turn a batch of observations into rows of numbers.

NumPy alone, because agents that learn values compute them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from gossamer import checks
from gossamer.arrays import AnyArray, Floats
from gossamer.errors import InvalidInput

MOST = 20_000
"""Largest number of features."""

REACH = 2.5
"""The grids of tile coding reach this many standard deviations to both sides."""


@dataclass(frozen=True, eq=False)
class Standardizer:
    """The mean and the standard deviation of each component of an observation."""

    mean: Floats
    std: Floats

    @classmethod
    def of(cls, observations: AnyArray) -> Standardizer:
        rows = as_rows(observations)
        std = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.where(std > 0, std, 1.0))

    @classmethod
    def between(cls, low: Floats, high: Floats) -> Standardizer:
        """Return the one that maps the range of each component to -2.5 .. 2.5, the range of most observations."""
        return cls((low + high) / 2, (high - low) / (2 * REACH))

    def __call__(self, observations: AnyArray) -> Floats:
        rows = as_rows(observations)
        if rows.shape[1] != len(self.mean):
            raise InvalidInput(
                f"an observation must have {len(self.mean)} numbers, as those that the features were fitted to, "
                f"got {rows.shape[1]}"
            )
        return (rows - self.mean) / self.std


class Standardized:
    """Features of a standardized observation."""

    scale: Standardizer | None

    def fit(self, observations: AnyArray) -> Self:
        """Return the same features, standardized by these observations (M, ...)."""
        return self.scaled(Standardizer.of(observations))

    def scaled(self, scale: Standardizer) -> Self:
        """Return the same features with this scale."""
        return replace(self, scale=scale)  # type: ignore[type-var]

    def standardize(self, observations: AnyArray) -> Floats:
        """Return (M, d) the standardized observations."""
        if self.scale is None:
            raise InvalidInput(
                "the features are not standardized yet; call features.fit(observations) with some observations first"
            )
        return self.scale(observations)


@dataclass(frozen=True, eq=False)
class Linear(Standardized):
    """The components of a standardized observation, and a constant."""

    scale: Standardizer | None = None

    def __call__(self, observations: AnyArray) -> Floats:
        rows = self.standardize(observations)
        return np.column_stack([rows, np.ones(len(rows))])


@dataclass(frozen=True, eq=False)
class RandomFourier(Standardized):
    """Random Fourier features of a standardized observation, and a constant.

    They approximate a Gaussian kernel (scikit-learn's `RBFSampler`), so that values are smooth functions of the
    observation. `ValueEstimation` fits them to its first experience; `fit` does so by hand.

    Parameters
    ----------
    count : int
        Number of features; one of them is the constant.
    width : float
        The width of the kernel in standard deviations of an observation, times the root of their number.
    seed : int
        Seed of the random frequencies, at least 0.
    scale : Standardizer, optional
        Means and spreads of the observations; `fit` sets it.

    See Also
    --------
    TileCoding : Features that are constant on tiles.
    gossamer.ValueEstimation : Uses features of states.

    Examples
    --------
    >>> observations = np.random.default_rng(0).normal(size=(100, 4))
    >>> gs.applications.RandomFourier(50).fit(observations)(observations).shape
    (100, 50)
    """

    count: int = 50
    width: float = 1.0
    seed: int = 0
    scale: Standardizer | None = None

    def __post_init__(self) -> None:
        checks.whole_number("count", self.count, least=2, most=MOST)
        checks.number("width", self.width, above=0)
        checks.seed(self.seed)

    def __call__(self, observations: AnyArray) -> Floats:
        rows = self.standardize(observations)
        frequencies, phases = _draw_fourier(self.count - 1, rows.shape[1], self.seed)
        waves = np.cos(rows @ (frequencies / (self.width * np.sqrt(rows.shape[1]))) + phases)
        return np.column_stack([np.sqrt(2.0) * waves, np.ones(len(rows))])


@lru_cache(maxsize=8)
def _draw_fourier(count: int, dimension: int, seed: int) -> tuple[Floats, Floats]:
    """Return standard normal frequencies (d, count) and uniform phases (count,): those of sklearn's `RBFSampler`."""
    rng = np.random.RandomState(seed)
    frequencies = rng.normal(size=(dimension, count))
    return frequencies, rng.uniform(0, 2 * np.pi, size=count)


@dataclass(frozen=True, eq=False)
class TileCoding(Standardized):
    """Tile coding of a standardized observation: several grids that are shifted against each other.

    In each grid an observation belongs to one tile, whose feature is 1. Grids reach from -2.5 to 2.5 standard
    deviations of the observations that they are fitted to.

    Parameters
    ----------
    tilings : int
        Number of grids over the states, each shifted against the others.
    tiles : int
        Number of tiles along each component of an observation.
    scale : Standardizer, optional
        Means and spreads of the observations; `fit` sets it.

    See Also
    --------
    RandomFourier : Smooth features.
    gossamer.ValueEstimation : Uses features of states.

    Examples
    --------
    >>> observations = np.random.default_rng(0).normal(size=(100, 2))
    >>> rows = gs.applications.TileCoding(tilings=4, tiles=5).fit(observations)(observations)
    >>> rows.shape, bool(np.all(rows.sum(axis=1) == 4))
    ((100, 144), True)
    """

    tilings: int = 8
    tiles: int = 8
    scale: Standardizer | None = None

    def __post_init__(self) -> None:
        checks.whole_number("tilings", self.tilings, least=1, most=1000)
        checks.whole_number("tiles", self.tiles, least=2, most=1000)

    def scaled(self, scale: Standardizer) -> Self:
        """Return the same features with this scale."""
        count = self.tilings * (self.tiles + 1) ** len(scale.mean)
        if count > MOST:
            raise InvalidInput(
                f"{self.tilings} tilings of {self.tiles} tiles along each of {len(scale.mean)} components are {count} "
                f"features, more than {MOST}; use fewer tiles, or RandomFourier"
            )
        return super().scaled(scale)

    def __call__(self, observations: AnyArray) -> Floats:
        rows = self.standardize(observations)
        rows = (np.clip(rows, -REACH, REACH - 1e-9) + REACH) / (2 * REACH) * self.tiles
        side = self.tiles + 1
        per_grid = side ** rows.shape[1]
        out = np.zeros((len(rows), self.tilings * per_grid))
        powers = side ** np.arange(rows.shape[1])
        odd = (
            2 * np.arange(rows.shape[1]) + 1
        )  # shifts along a diagonal would leave artifacts (Miller and Glanz 1996)
        for k in range(self.tilings):
            shift = (k * odd / self.tilings) % 1
            tile = np.floor(rows + shift).astype(int) @ powers
            out[np.arange(len(rows)), k * per_grid + tile] = 1.0
        return out


@dataclass(frozen=True, eq=False)
class StateFeatures:
    """One row of features for each state of a table; states are whole numbers."""

    table: Floats

    def __call__(self, states: AnyArray) -> Floats:
        numbers = np.asarray(states)
        if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= len(self.table):
            raise InvalidInput(
                parameter="states",
                required=f"whole numbers from 0 to {len(self.table) - 1}, one of the rows of features",
                got=checks.brief(states),
            )
        return np.asarray(self.table[numbers])


PARTS = 50
"""Least number of independent parts that a trajectory must be worth for standard errors.

With fewer, even the exact variance is of little use: errors are not normal, because some states were hardly seen.
"""

_ROWS = 2048
"""Number of rows of a trajectory that tell how long it remembers."""


class Succession:
    """Sums over successive rows of features, (M, p), which tell how long a process remembers its state."""

    def __init__(self, size: int) -> None:
        self._sums = np.zeros((2, size + 1, size + 1))

    def add(self, rows: Floats) -> None:
        """Add the pairs of successive rows."""
        now = np.column_stack([np.ones(len(rows)), rows])
        self._sums += now[:-1].T @ np.stack([now[:-1], now[1:]])

    @property
    def count(self) -> int:
        """Number of pairs."""
        return int(self._sums[0, 0, 0])

    @property
    def memory(self) -> float:
        """Number of steps that tell as much as one independent one, for the slowest combination of the features.

        With eigenvalues x of the regression of a row on the one before, the largest (1 + x) / (1 - x), which is by what
        factor the variance of a mean grows.
        """
        if not self.count:
            return np.inf
        zero, one = (part[1:, 1:] - np.outer(part[1:, 0], part[0, 1:]) / self.count for part in self._sums)
        varies = np.diag(zero) > 1e-10 * np.diag(self._sums[0])[1:]
        size = np.sqrt(np.where(varies, np.diag(zero), np.inf))
        zero, one = (part / size / size[:, None] for part in (zero, one))
        step = np.linalg.solve(zero + 1e-6 * np.eye(len(zero)), one)
        # Subspace iteration: only the largest eigenvalues matter.
        basis = np.random.default_rng(0).normal(size=(len(step), min(len(step), 32)))
        for _ in range(10):
            basis, _ = np.linalg.qr(step @ basis)
        values = np.linalg.eigvals(basis.T @ step @ basis)
        values = values / np.maximum(1.0, np.abs(values) * (1 + 1e-9))
        return float(max(1.0, ((1 + values) / (1 - values)).real.max()))


def memory_of(phi: Floats, rewards: Floats) -> float:
    """Return the `Succession.memory` of a trajectory, features (T, p) and rewards (T,)."""
    stride = max(1, len(phi) // _ROWS)
    some = Succession(phi.shape[1] + 1)
    some.add(np.column_stack([phi[::stride], rewards[::stride]]))
    return stride * some.memory


def too_few(parts: float) -> str:
    """Return why a trajectory that is worth this many independent steps has no standard errors, or an empty text."""
    if parts >= PARTS:
        return ""
    return (
        f"standard errors need more steps: states and rewards change so slowly that these are worth {parts:.2g} "
        f"independent ones, fewer than {PARTS}"
    )


Features = Callable[[AnyArray], Floats]


def features_of(features: object) -> Any:
    """Return features as a function; a table (S, p), a text such as "fourier:50", or a transformer of scikit-learn."""
    if isinstance(features, str):
        return _named(features)
    if hasattr(features, "transform"):
        return Transformed(features)
    if callable(features):
        return features
    if not (isinstance(features, Sequence) or hasattr(features, "__array__")):
        raise InvalidInput(
            parameter="features",
            required='a function, a table of rows for states 0, 1, ..., a text such as "fourier:50", or a transformer '
            "of scikit-learn",
            got=checks.brief(features),
        )
    table = checks.array("features", features, (None, None))
    if not table.size:
        raise InvalidInput(
            parameter="features", required="rows of at least one number", got=f"shape {table.shape}"
        )
    return StateFeatures(table)


@dataclass(frozen=True, eq=False)
class Transformed:
    """Features by a transformer of scikit-learn."""

    transformer: Any
    fitted: bool = False

    def fit(self, observations: AnyArray) -> Transformed:
        return Transformed(self.transformer.fit(as_rows(observations)), True)

    def __call__(self, observations: AnyArray) -> Floats:
        rows = self.transformer.transform(as_rows(observations))
        return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=float)


def fitted(features: Any, observations: AnyArray) -> Any:
    """Return the features, standardized by these observations unless they are already or need not be."""
    done = getattr(features, "scale", None) is not None or getattr(features, "fitted", False)
    return features if done or not hasattr(features, "fit") else features.fit(observations)


def as_rows(observations: AnyArray) -> Floats:
    """Return (M, d) observations of any shape (M, ...)."""
    rows = np.asarray(observations, dtype=float)
    return rows.reshape(len(rows), -1)


def _named(text: str) -> Features:
    kind, _, rest = text.partition(":")
    try:
        numbers = [int(part) for part in rest.split("x")] if rest else []
    except ValueError:
        numbers = [-1] * 3
    if kind == "linear" and not rest:
        return Linear()
    if kind == "table" and len(numbers) == 1:
        return StateFeatures(np.eye(checks.whole_number("features", numbers[0], least=1, most=MOST)))
    if kind == "fourier" and len(numbers) <= 1:
        return RandomFourier(numbers[0]) if numbers else RandomFourier()
    if kind == "tiles" and len(numbers) <= 2:
        return TileCoding(**dict(zip(("tilings", "tiles"), numbers, strict=False)))  # type: ignore[arg-type]
    raise InvalidInput(
        parameter="features",
        required="fourier:NUMBER, for example fourier:50, tiles:TILINGSxTILES, for example tiles:8x8, linear, or "
        "table:STATES, for example table:16",
        got=repr(text),
    )


def rows_of(features: Features, states: AnyArray, count: int | None = None) -> Floats:
    """Return (M, p) the features of M states; `count` is the p that they had before."""
    try:
        rows = np.asarray(features(states), dtype=float)
    except InvalidInput:
        raise
    except Exception as error:  # a function of the user's may raise anything
        raise InvalidInput(
            f"must be a function from states of shape {np.shape(states)} to rows of numbers, but it failed: "
            f"{type(error).__name__}: {error}",
            parameter="features",
        ) from error
    if rows.ndim != 2 or len(rows) != len(states) or rows.shape[1] == 0:
        raise InvalidInput(
            parameter="features",
            required=f"one row for each of {len(states)} states, ({len(states)}, p)",
            got=f"shape {rows.shape}",
            hint="a function receives a batch of states, with the states along the first axis",
        )
    if count is not None and rows.shape[1] != count:
        raise InvalidInput(
            f"must always have the same length: {count} numbers before, {rows.shape[1]} now",
            parameter="features",
        )
    if not np.all(np.isfinite(rows)):
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InvalidInput(
            parameter="features",
            required="finite",
            got=f"NaN or infinite ones in {int((~np.isfinite(rows).all(axis=1)).sum())} of {len(rows)} states, the "
            f"first of them state {bad}",
        )
    return rows
