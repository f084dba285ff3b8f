"""Problems of the applications, read from command-line options and files."""

from __future__ import annotations

import csv as csv_module
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import checks
from gossamer.applications import LikelihoodEstimation, LinearEstimation, PolicyEvaluation, problems
from gossamer.applications.linear.dealing import check_unique
from gossamer.arrays import NOT_NPZ, AnyArray
from gossamer.cli.commands import refuse
from gossamer.cli.parsing import read_numbers
from gossamer.errors import InvalidInput, nearest
from gossamer.networks import Network


def read_sensors(
    network: Network, path: Path, *, target: str, split: str, intercept: bool, weighting: str, seed: int
) -> LinearEstimation:
    """Return linear estimation from a user's file: sensors (A, parameter), or rows of data (X, y, or a CSV table)."""
    if path.suffix.lower() == ".npz":
        arrays = _read_npz(path)
        if "A" in arrays:
            refuse("target split intercept", "with sensors A, which are not rows of data")
            _needs(path, arrays, "A", "parameter")
            given = arrays.get("covariance", np.array(1.0))
            covariance = float(given) if given.ndim == 0 else list(given)
            return LinearEstimation(
                network, list(arrays["A"]), arrays["parameter"], covariance, weighting=weighting
            )
        _needs(path, arrays, "X", "y")
        refuse("target weighting", "with the arrays X and y")
        if "agent" in arrays:
            refuse("split", "with the array agent, which says which agent holds which row")
        rule = arrays.get("agent", split)
        return LinearEstimation.from_data(
            arrays["X"], arrays["y"], network, rule, intercept=intercept, seed=seed
        )
    refuse("weighting", "with rows of data, which all count the same")
    table = _table_with(path, target)
    return LinearEstimation.from_data(table, target, network, split, intercept=intercept, seed=seed)


def read_rows(
    network: Network, path: Path, *, target: str, split: str, **options: Any
) -> LikelihoodEstimation:
    """Return a model of the rows of a CSV table, distributed over the agents."""
    return LikelihoodEstimation.from_data(_table_with(path, target), target, network, split, **options)


def _table_with(path: Path, target: str) -> Mapping[str, AnyArray]:
    """Return the columns of a CSV table, including the target."""
    table = _read_table(path)
    if target not in table:
        raise InvalidInput(
            parameter="target",
            required=f"a column of {path}, {', '.join(table)}",
            got=f"{target!r}{nearest(target, table)}",
        )
    return table


def parse_policy_problem(
    network: Network,
    text: str,
    *,
    rewards: Path | None,
    policy: str,
    discount: float,
    rule: str,
    spread: float,
    reward_std: float,
    seed: int,
) -> PolicyEvaluation:
    """Return policy evaluation on a built-in problem, a Gymnasium environment, or a matrix from a file."""
    path = Path(text)
    if not text.startswith("gym:"):
        refuse("policy", "without an environment of Gymnasium, such as --problem gym:FrozenLake")
    if path.suffix.lower() in (".npz", ".csv"):
        refuse("rule spread", "with rewards from a file")
    if path.suffix.lower() != ".csv":
        refuse("rewards", "unless --problem is a CSV file with the matrix P")
    if rule != "perturb":
        refuse("spread", f"with --rule {rule}")
    checks.number("reward_std", reward_std, least=0)
    if path.suffix.lower() == ".npz":
        arrays = _read_npz(path)
        _needs(path, arrays, "P", "rewards")
        if "reward_std" in arrays:
            refuse("reward_std", f"with that of {path}")
        return PolicyEvaluation(
            network, arrays["P"], arrays["rewards"], discount, arrays.get("reward_std", reward_std)
        )
    if path.suffix.lower() == ".csv":
        if rewards is None:
            raise InvalidInput(
                "a matrix P from a CSV file needs --rewards, a CSV file with one row per agent"
            )
        return PolicyEvaluation(
            network, read_numbers(path)[1], read_numbers(rewards)[1], discount, reward_std
        )
    process = _process(text, policy, discount, seed)
    return PolicyEvaluation.from_problem(
        network, process, discount, rule=rule, spread=spread, reward_std=reward_std, seed=seed
    )


def _process(text: str, policy: str, discount: float, seed: int) -> problems.MarkovRewardProcess:
    kind, _, rest = text.partition(":")
    if kind == "gym":
        table = read_numbers(Path(policy))[1] if policy.endswith(".csv") else policy
        return problems.from_gymnasium(rest, table, discount)
    named: dict[str, Callable[..., problems.MarkovRewardProcess]] = {
        "garnet": problems.garnet,
        "chain": problems.chain,
        "grid-world": problems.grid_world,
    }
    if kind not in named:
        raise InvalidInput(
            f"there is no problem {text!r}{nearest(kind, named)}; choose garnet:STATESxBRANCHING, chain:STATES, "
            "grid-world:ROWSxCOLS, gym:ENVIRONMENT, or a file ending in .npz or .csv"
        )
    try:
        sizes = [int(part) for part in rest.split("x")] if rest else []
    except ValueError:
        raise InvalidInput(f"{text!r} needs whole numbers after the colon, such as garnet:20x3") from None
    most = 1 if kind == "chain" else 2
    if len(sizes) > most:
        raise InvalidInput(f"{kind} takes at most {most} numbers, got {len(sizes)} in {text!r}")
    return named[kind](*sizes, **({"seed": seed} if kind == "garnet" else {}))


def _read_npz(path: Path) -> dict[str, AnyArray]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except NOT_NPZ as error:
        raise InvalidInput(f"{path} cannot be read as NPZ: {error}") from error


def _needs(path: Path, arrays: Mapping[str, object], *names: str) -> None:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InvalidInput(f"{path} needs the arrays {', '.join(names)}, got {', '.join(arrays) or 'none'}")


def _read_table(path: Path) -> dict[str, AnyArray]:
    """Return the columns by name, as numbers if every cell of a column is a number."""
    try:
        rows = [row for row in csv_module.reader(path.read_text().splitlines()) if row]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    if len(rows) < 2:
        raise InvalidInput(f"{path} needs a header row and rows of data, got {len(rows)} lines")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise InvalidInput(f"{path}, line {number}: {len(rows[0])} cells are needed, got {len(row)}")
    check_unique([name.strip() for name in rows[0]])
    columns: dict[str, AnyArray] = {}
    for name, *cells in zip(*rows, strict=True):
        column = np.array(cells)
        try:
            columns[name.strip()] = column.astype(float)
        except ValueError:
            columns[name.strip()] = column
    return columns
