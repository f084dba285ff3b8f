"""Local parameters, which each agent estimates for itself: eliminated locally, so that only shared ones are sent.

Split agent i's curvature and pseudo-response into those of the shared parameters (s) and of its own (o). At the minimum
its own parameters are o = A_oo^{-1} (b_o - A_os s), and the shared ones are determined by the Schur complement

    A_ss - A_so A_oo^{-1} A_os,     b_s - A_so A_oo^{-1} b_o,

which is averaged like any curvature and pseudo-response. Local parameters never leave the agent, and have no penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gossamer.arrays import Booleans, Floats
from gossamer.errors import InvalidInput
from gossamer.least_squares import in_words, invert

if TYPE_CHECKING:
    from gossamer.applications.likelihood.agent import FittingAgent
    from gossamer.applications.likelihood.consensus import Consensus
    from gossamer.applications.likelihood.rows import Model

_FAR = 1e3
"""Predictors that exceed the labels by this factor count as infinite."""

_FLAT = 1e-6
"""A loss that grows by less along a direction does not contradict it."""


class OwnParameters(NamedTuple):
    """An agent's own parameters as the shared ones determine them: constant - gain @ shared.

    gain      (own, shared)
    constant  (own,)
    inverse   (own, own) of the own part of the curvature
    diagonal  (own,) of that part of the curvature
    known     whether the agent's rows determine all its own parameters
    """

    local: Booleans
    gain: Floats
    constant: Floats
    inverse: Floats
    diagonal: Floats
    known: bool

    def completed(self, shared: Floats) -> Floats:
        """Return (p,) all parameters of the agent."""
        whole = np.empty(len(self.local))
        whole[~self.local] = shared
        whole[self.local] = self.constant - self.gain @ shared
        return whole

    @property
    def reduction(self) -> Floats:
        """Return the (shared, p) matrix that maps a score of all parameters to one of the shared ones."""
        whole = np.zeros((len(self.gain.T), len(self.local)))
        whole[:, ~self.local] = np.eye(len(whole))
        whole[:, self.local] = -self.gain.T
        return whole


def eliminate(curvature: Floats, response: Floats, local: Booleans) -> tuple[Floats, Floats, OwnParameters]:
    """Return the Schur complement, its pseudo-response, and how the agent's own parameters follow."""
    own, shared = np.flatnonzero(local), np.flatnonzero(~local)
    inner, mixed = curvature[np.ix_(own, own)], curvature[np.ix_(own, shared)]
    inverse, _, known = invert(inner, 1e-12)
    solved = OwnParameters(
        local, inverse @ mixed, inverse @ response[own], inverse, np.diag(inner), bool(known.all())
    )
    outer = curvature[np.ix_(shared, shared)] - mixed.T @ solved.gain
    return outer, response[shared] - mixed.T @ solved.constant, solved


def check_own(
    model: Model, agents: Sequence[FittingAgent], ways: Sequence[Floats], exchange: Consensus
) -> None:
    """Raise an error that names the first agent whose rows do not determine its own parameters, and the reason."""
    assert model.local is not None
    unknown, receding = np.zeros((2, len(agents), len(agents)))
    for i, (agent, way) in enumerate(zip(agents, ways, strict=True)):
        if agent.own is not None and len(agent.y):
            unknown[i, i] = not agent.own.known
            own_way = np.where(model.local, way, 0.0)
            farthest = float(np.abs(agent.changes(own_way)).max())
            if agent.own.known and farthest > 0.1:  # near a minimum, labels cannot be separable
                receding[i, i] = agent.growth(own_way, farthest, _FAR) <= _FLAT
    problems = exchange.largest(np.hstack([unknown, receding]))
    if not problems.any():
        return
    first = int(np.argmax(problems))
    agent_number, names = first % len(agents), [model.names[k] for k in np.flatnonzero(model.local).tolist()]
    if first < len(agents):
        raise InvalidInput(
            f"the rows of agent {agent_number} must determine its own parameters ({', '.join(names)}), but do not vary "
            "enough; leave some of them out of `local`, or give the agent more rows"
        )
    direction = in_words(ways[agent_number][model.local], names)
    raise InvalidInput(
        f"the labels of agent {agent_number} are separable by its own parameters: the loss falls forever along the "
        f"direction {direction}; leave them out of `local`, or give the agent rows with other labels"
    )
