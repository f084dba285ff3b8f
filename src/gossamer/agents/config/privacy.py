"""The table [privacy] of fleet.toml: masks that cancel, and noise that stays in the average (docs/privacy.md).

Help pages of the command line load this module: it must not load NumPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from gossamer.agents.config.declaration import Declaration, FileTable
from gossamer.agents.config.values import check_scales
from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    from gossamer.agents.config.settings import AgentSettings


class PrivacyTable(FileTable, frozen=True, kw_only=True):
    """Masks that hide what each agent observes and cancel in the average, and noise that stays in it
    (docs/privacy.md).
    """

    mask: Annotated[
        float | tuple[float, ...],
        Declaration(
            "Standard deviation of the secret numbers of the edges, such as 1000 times the spread of the observations, "
            "or one per component; 0 disables them.",
            check=check_scales,
            agreed=11,
            omitted=(),
        ),
    ] = 0.0
    refresh: Annotated[
        bool,
        Declaration(
            "Whether masks also change in every round, which hides the differences between readings as well, and "
            "costs accuracy in the first rounds.",
            agreed=17,
            omitted=False,
        ),
    ] = False
    least_neighbors: Annotated[
        int, Declaration("With masks, an agent with fewer live neighbors takes no part.", least=1, live=False)
    ] = 1
    noise: Annotated[
        float | tuple[float, ...],
        Declaration(
            "Standard deviation of the number that each agent draws once and adds to its level, or one per component; "
            "0 disables it, unless there is an epsilon.",
            check=check_scales,
            agreed=12,
            omitted=(),
        ),
    ] = 0.0
    epsilon: Annotated[
        float,
        Declaration(
            "Differential privacy of a member's level, in place of noise: all messages of all rounds together are "
            "(epsilon, delta)-private; 0 disables it.",
            least=0,
            agreed=13,
            omitted=0.0,
        ),
    ] = 0.0
    delta: Annotated[
        float,
        Declaration(
            "The delta that goes with epsilon, far below 1 over the number of members.",
            above=0,
            below=1,
            agreed=14,
            omitted=1e-6,
        ),
    ] = 1e-6
    change: Annotated[
        float | tuple[float, ...],
        Declaration(
            "The change of a member's level that epsilon hides, or one per component; 0 is the width of the range.",
            check=check_scales,
            agreed=15,
            omitted=(),
        ),
    ] = 0.0
    honest: Annotated[
        int,
        Declaration(
            "With masks, the least number of honest members, such as 8 of 10: the noise that epsilon requires is "
            "divided among them.",
            least=1,
            agreed=16,
            omitted=1,
        ),
    ] = 1


def check_privacy(settings: AgentSettings) -> None:
    """Raise unless masks and noise can hide everything that depends on observations."""
    unmaskable = {
        "extremes": settings.extremes and "the extremes of a fleet are observations of a member",
        "model": settings.model is not None
        and "the sums of a model change with its estimate, and the changes would reveal the rows",
        "weighting": settings.weighting == "samples"
        and "sums per round change in rounds without observations as well, and the changes would reveal the sums",
    }
    for what, why in unmaskable.items():
        if settings.mask and why:
            raise InvalidInput(
                f"hides averages of observations, but {why}; leave out mask or {what}", parameter="mask"
            )
    if not (settings.noise or settings.epsilon):
        return
    name = "epsilon" if settings.epsilon else "noise"
    if settings.noise and settings.epsilon:
        raise InvalidInput(
            f"says how much noise is needed, so it must not be given together with noise={settings.noise}; leave out "
            "one of them",
            parameter=name,
        )
    statistics = [name for name in ("variance", "covariance", "extremes", "bins") if getattr(settings, name)]
    learned = [name for name in ("model", "values") if getattr(settings, name) is not None]
    if learned or settings.weighting != "agents" or statistics:
        others = "".join([*learned, *statistics][:1]) or "weighting"
        raise InvalidInput(
            "protects the level of each member in an average that gives all members the same weight, and nothing else; "
            f"leave out {name} or {others}",
            parameter=name,
        )
    if settings.epsilon and not (settings.change or settings.range):
        raise InvalidInput(
            parameter="change", required="the change of a level that epsilon hides, or a range", got="neither"
        )
    if settings.honest > 1 and (not settings.mask or settings.honest > (settings.members or math.inf)):
        raise InvalidInput(
            parameter="honest",
            required="at most the number of members, and 1 without masks, because then the noise of each member must "
            "suffice alone",
            got=f"{settings.honest} of {settings.members} members {'with' if settings.mask else 'without'} masks",
        )


def noise_of(settings: AgentSettings) -> tuple[float, ...]:
    """Return the standard deviation of an agent's noise in each component; empty if there is none.

    A change of the level by c_k in component k has mu^2 = sum over k of (c_k / s_k)^2 / H, if H honest members add
    noise of standard deviation s_k each.
    """
    if not settings.epsilon:
        return settings.noise
    # Imported here because most agents do not need it.
    from gossamer.numerics.gaussian_privacy import mu_of

    share = math.sqrt(settings.dimension / settings.honest) / mu_of(settings.epsilon, settings.delta)
    return tuple(change * share for change in changes_of(settings))


def changes_of(settings: AgentSettings) -> tuple[float, ...]:
    """Return the change of a level that epsilon hides, by component."""
    return settings.change or tuple(high - low for low, high in settings.range)
