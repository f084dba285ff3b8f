"""evaluate-policy with features: values from experience, of an environment without a table or of recorded steps."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import gossamer as gs
from gossamer.cli.commands import refuse
from gossamer.cli.options import OutputOptions, complete_networks, option
from gossamer.cli.output import Record
from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    from gossamer.applications import Experience

_GROUP = "Values from experience"
FEATURES, NETWORK = "fourier:50", "cycle:10"


class ExperienceOptions(NamedTuple):
    """Options for learning values without a table of states."""

    features: Annotated[
        str | None,
        option(
            f"Features of states instead of a table of states: {FEATURES}, the default, or tiles:8x8.",
            group=_GROUP,
        ),
    ] = None
    trajectories: Annotated[
        Path | None,
        option(
            "Recorded steps instead of an environment: .npz, .parquet, .jsonl, or a folder of Minari.",
            group=_GROUP,
        ),
    ] = None
    network: Annotated[
        str | None,
        option(
            f"Network of the agents, where the argument is an environment; {NETWORK} by default, and for PettingZoo a "
            "cycle of its agents.",
            group=_GROUP,
            autocompletion=complete_networks,
        ),
    ] = None
    trace: Annotated[float, option("lambda of LSTD(lambda), from 0 to 1, for example 0.5.", group=_GROUP)] = (
        0.0
    )


def environment_of(text: str, problem: str, given: ExperienceOptions) -> str | None:
    """Return the environment to learn from: the argument itself, or that of --problem gym:NAME with --features."""
    if is_environment(text):
        return text
    if given.features is not None and problem.startswith("gym:"):
        return problem[4:]
    return None


def is_environment(text: str) -> bool:
    """Return whether the argument names an environment of Gymnasium or a module of PettingZoo rather than a network."""
    if ":" in text or Path(text).exists():
        return False
    if "." in text:
        try:
            return importlib.util.find_spec(text) is not None
        except (ImportError, ValueError):
            return "_v" in text  # a module of a package that is not installed
    if importlib.util.find_spec("gymnasium") is None:
        return False
    from gymnasium import registry

    plain = [spec for spec in registry.values() if spec.namespace is None]
    return text.lower() in {name.lower() for spec in plain for name in (spec.id, spec.name)}


def learn_values(
    environment: str | None,
    network: gs.Network | None,
    horizons: list[int],
    given: ExperienceOptions,
    *,
    policy: str,
    discount: float,
    rule: str,
    spread: float,
    seed: int,
    output: OutputOptions,
) -> None:
    """Learn from the steps of an environment, or from recorded ones, and show the values after each horizon."""
    refuse("methods rivals trials reward_std rewards", "where values are learned from experience")
    steps = _steps(environment, network, max(horizons), given, policy, rule, spread, seed)
    agents, recorded = steps.rewards.shape[1], len(steps.rewards)
    if network is None:
        network = gs.Network.of(f"{'cycle' if agents > 2 else 'path'}:{agents}")
    if horizons[-1] > recorded:
        raise InvalidInput(
            parameter="rounds",
            required=f"at most {recorded}, the number of recorded steps",
            got=str(horizons[-1]),
        )
    shared = steps.last.ndim == 1
    problem = gs.ValueEstimation(network, given.features or FEATURES, discount, given.trace, shared=shared)
    fits = {
        t: problem.from_trajectories(steps.first(t)) for t in reversed(horizons)
    }  # features fit all steps
    seen = fits[horizons[-1]].seen
    rows: list[Record] = []
    for t in horizons:
        fit = fits[t]
        values, center, errors = fit.values(seen), fit.centralized_values(seen), fit.standard_errors(seen)
        distance, error = (float((x**2).mean() ** 0.5) for x in (values - center, errors))
        rows.append(
            {
                "network": network.name,
                "source": environment or str(given.trajectories),
                "features": problem.size,
                "rounds": t,
                "episodes": fit.episodes,
                "mean_value": float(values.mean()),
                "stderr": None if error != error else error,
                "distance": distance,
                "distance_stderr": None if error != error else distance / error,
                "note": fit.notes[0] if fit.notes else "",
            }
        )
    what = f"{environment or given.trajectories}, {problem.size} features"
    output.emit(
        rows,
        title=f"Values of {what}, at {agents} agents on {network.name}, gamma = {discount:g}",
        columns=["rounds", "episodes", "mean_value", "stderr", "distance", "distance_stderr"],
        headings={
            "rounds": "T",
            "mean_value": "mean value",
            "stderr": "std error",
            "distance": "from a center",
            "distance_stderr": "in std errors",
        },
        notes=[
            "means over agents and the states seen; from a center that holds all rewards, root mean square",
            *dict.fromkeys(row["note"] for row in rows if row["note"]),
        ],
    )
    output.draw(fits[horizons[-1]].plot)


def _steps(
    environment: str | None,
    network: gs.Network | None,
    rounds: int,
    given: ExperienceOptions,
    policy: str,
    rule: str,
    spread: float,
    seed: int,
) -> Experience:
    from gossamer.applications import Experience

    if given.trajectories is not None:
        refuse("policy problem rule spread", "with --trajectories, whose actions and rewards are recorded")
        assert network is not None
        return Experience.read(given.trajectories, network.agents)
    act = parse_policy(policy)
    if environment is not None and "." in environment:
        refuse("rule spread", "with an environment of PettingZoo, whose agents have rewards of their own")
        return Experience.from_pettingzoo(environment, act, rounds, seed=seed)
    assert network is not None
    return Experience.from_gymnasium(
        environment, act, rounds, network.agents, rule=rule, spread=spread, seed=seed
    )


def parse_policy(text: str) -> object:
    """Return "uniform" (also for `optimal`, the default for tables), or the function of FILE.py:FUNCTION."""
    if ".py:" not in text:
        if text not in ("optimal", "uniform"):
            raise InvalidInput(parameter="policy", required="uniform or FILE.py:FUNCTION", got=repr(text))
        refuse(
            "policy" if text == "optimal" else "",
            "without a table of states; use uniform or FILE.py:FUNCTION",
        )
        return "uniform"
    from gossamer.methods.loading import load_file

    file, _, name = text.rpartition(":")
    function = getattr(
        load_file(Path(file), file, "your own policy is given as FILE.py:FUNCTION"), name, None
    )
    if not callable(function):
        raise InvalidInput(f"{file} has no function {name!r}", parameter="policy")
    return function
