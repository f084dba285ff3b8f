"""[values] of fleet.toml. Help pages of the command line load this module: it must not load NumPy."""

from __future__ import annotations

from typing import Annotated, Any

from gossamer.agents.config.declaration import Declaration, FileTable
from gossamer.errors import InvalidInput


def _check_pairs(name: str, value: Any) -> None:
    """Raise unless these are pairs of a smallest and a larger number."""
    pairs = [value] if len(value) == 2 and not isinstance(value[0], tuple | list) else value
    try:
        fine = all(low < high for low, high in pairs)
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise InvalidInput(
            parameter=name, required="the smallest and a larger number, such as [-1, 1]", got=repr(value)
        )


class ValuesTable(FileTable, frozen=True, kw_only=True):
    """Values of states to learn from transitions of an environment, instead of the mean of observations
    (docs/deploy.md); without features no values are learned. The dimension then follows from the states.
    """

    features: Annotated[
        str,
        Declaration(
            'Features of a state: "fourier:50", "tiles:4x4", "linear", or "table:16" for states 0 to 15.',
            live=False,
        ),
    ] = ""
    states: Annotated[
        tuple[tuple[float, float], ...],
        Declaration(
            "Smallest and largest value of each component of a state, such as [[-2.4, 2.4], [-3, 3]]; states outside "
            "are moved to the nearest end. Empty for a table.",
            check=_check_pairs,
            live=False,
        ),
    ] = ()
    rewards: Annotated[
        tuple[float, ...],
        Declaration(
            "Smallest and largest reward, such as [0, 1]; empty if unknown. With it, what neighbors may claim is "
            'bounded, unless weighting is "samples".',
            check=_check_pairs,
            live=False,
        ),
    ] = ()
    discount: Annotated[float, Declaration("The discount per step, gamma.", least=0, below=1, live=False)] = (
        0.95
    )
    trace: Annotated[
        float,
        Declaration("The decay of the eligibility trace, lambda, from 0 to 1.", least=0, most=1, live=False),
    ] = 0.0
    ridge: Annotated[
        float,
        Declaration("Penalty on the squares of the weights of the features.", above=0, live=False),
    ] = 1e-6
    seed: Annotated[int, Declaration("The seed of random features.", least=0, live=False)] = 0
    shared: Annotated[
        bool,
        Declaration(
            "Whether all agents see the same transitions, each with its own reward. Messages are then much shorter, "
            "because each agent has the matrix of the features itself; there are no standard errors.",
            live=False,
        ),
    ] = False
