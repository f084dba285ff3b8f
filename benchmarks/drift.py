"""Compare models that forget with River on one stream whose effects change sign halfway: prequential log losses.

    pip install river          (into any environment that has gossamer; the project does not depend on it)
    python -m benchmarks.drift --seeds 10

Ten agents on a cycle see one row each per round. River's logistic regression sees all rows in one place, one at a time,
standardized, with the step of its SGD that is best in hindsight. A row's loss is taken before it is used; entries are
means over the rows of windows, each named after the number of rounds between the flip and its start.
`ideal` is the loss of the true model. The second table has the same losses minus those of River's best step in each
window, stream by stream, so that the common luck of the labels cancels: negative means better than River.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import gossamer as gs

AGENTS, FLIP, AFTER, DIMENSION = 10, 600, 600, 3
STEPS = (0.003, 0.01, 0.02, 0.03, 0.1, 0.3)
HALF_LIVES = (25, 35, 50, 100, 200)
WINDOWS = ((-200, 0), (0, 100), (100, 200), (200, 400), (400, 600))


def stream(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariates (rounds, N, d), labels (rounds, N), and the log loss of the true model (rounds,)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(FLIP + AFTER, AGENTS, DIMENSION)) + 0.5 * rng.normal(size=(AGENTS, DIMENSION))
    effects = rng.normal(size=DIMENSION)
    sign = np.where(np.arange(len(x)) < FLIP, 1.0, -1.0)[:, None]
    odds = sign * (x @ (1.5 * effects / np.linalg.norm(effects))) + 0.3
    y = (rng.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(float)
    return x, y, (np.logaddexp(0.0, odds) - y * odds).mean(axis=1)


def ours(x: np.ndarray, y: np.ndarray, half_life: float) -> np.ndarray:
    """(rounds,) the loss of each round; NaN while estimates are withheld."""
    problem = gs.LikelihoodEstimation(gs.Network.cycle(AGENTS), "logistic", DIMENSION)
    online = problem.online(forgetting=half_life)
    for rows, labels in zip(x, y, strict=True):
        online.observe([(rows[i : i + 1], labels[i : i + 1]) for i in range(AGENTS)])
    return online.prequential_losses


def river(x: np.ndarray, y: np.ndarray, step: float) -> np.ndarray:
    """(rounds,) the loss of each round by River's logistic regression of all rows."""
    from river import linear_model, optim, preprocessing

    model = preprocessing.StandardScaler() | linear_model.LogisticRegression(
        optim.SGD(step), intercept_lr=step
    )
    losses = np.empty(y.shape)
    for t, k in np.ndindex(*y.shape):
        row, label = {str(j): float(v) for j, v in enumerate(x[t, k])}, bool(y[t, k])
        chance = model.predict_proba_one(row).get(label, 0.5)
        losses[t, k] = -np.log(max(chance, 1e-15))
        model.learn_one(row, label)
    return np.asarray(losses.mean(axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(parser.parse_args().seeds)
    try:
        import river as _  # noqa: F401
    except ImportError:
        sys.exit("needs River: pip install river")
    data = [stream(seed) for seed in seeds]
    runs = {f"ours, half-life {h}": [ours(x, y, h) for x, y, _ in data] for h in HALF_LIVES}
    runs |= {f"River, step {s:g}": [river(x, y, s) for x, y, _ in data] for s in STEPS}
    runs["ideal"] = [least for *_, least in data]
    means = {name: windows(np.array(losses)) for name, losses in runs.items()}
    table("rounds after the flip", means)
    rivals = np.array([means[name] for name in means if name.startswith("River")])
    best = rivals[rivals.mean(axis=1).argmin(axis=0), :, np.arange(len(WINDOWS))].T
    print()
    table("minus River's best step", {name: mean - best for name, mean in means.items() if "ours" in name})


def windows(losses: np.ndarray) -> np.ndarray:
    """(seeds, windows) the mean loss in each window of losses (seeds, rounds)."""
    parts = [losses[:, FLIP + first : FLIP + last] for first, last in WINDOWS]
    return np.stack([np.nanmean(part, axis=1) for part in parts], axis=1)


def table(title: str, means: dict[str, np.ndarray]) -> None:
    """Print the mean over seeds with its standard error."""
    print(f"| {title} |", " | ".join(f"{first} to {last}" for first, last in WINDOWS), "|")
    print("|---" * (1 + len(WINDOWS)) + "|")
    for name, mean in means.items():
        errors = mean.std(axis=0) / np.sqrt(max(len(mean) - 1, 1))
        cells = [f"{value:.4f} ± {error:.4f}" for value, error in zip(mean.mean(axis=0), errors, strict=True)]
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
