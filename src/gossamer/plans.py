"""The result of `gs.plan`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gossamer import plotting
from gossamer.engines.exact import exact
from gossamer.engines.results import over_limit, spread_out, standard_error
from gossamer.engines.simulate import simulate
from gossamer.errors import InvalidInput, Unsupported
from gossamer.faults import Quiet
from gossamer.methods import Method
from gossamer.networks import Network
from gossamer.observations import Masks, Observations
from gossamer.plotting import Panels
from gossamer.results import Record, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ALWAYS = Quiet(1e-300)
"""Agents that always have news."""

_LENGTHENED = 4
"""How often a plan gets more rounds because silence adds to its error."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan(Result):
    """The cost of a target error. Samples are per agent; messages and bytes are those of the whole network.

    Attributes
    ----------
    method, network, observations
        The method, the network and the streams of the plan.
    target : float
        The total error to reach, summed over agents.
    rounds : int or None
        The smallest number of rounds with that error; None if it was not reached.
    total_error : float
        Expected total error after these rounds; if the target is not reached, the smallest error found.
    centralized_limit : float
        Error of a center that sees all observations of the same rounds.
    samples : float
        Number of observations per agent in these rounds.
    messages, bytes : float
        Number of messages and bytes that the whole network sends.
    note : str
        Remarks, such as the reason why a target is not reached; empty if there are none.
    masks : Masks or None
        Masks that hide the readings, if there are any.

    See Also
    --------
    plan : Computes it.
    Plans : Several plans as a table.

    Examples
    --------
    >>> plan = gs.plan("grid:4x4", gs.Gaussian(np.arange(16.0)), target=0.01)
    >>> plan.reached, plan.total_error <= 0.01, plan.messages == 48 * plan.rounds
    (True, True, True)
    """

    method: Method
    network: Network
    observations: Observations
    target: float
    rounds: int | None  #: None: the target is out of reach, see `note`
    #: after those rounds (an upper end, if `note` says so); of a missed target, the least found
    total_error: float
    centralized_limit: float
    samples: float
    messages: float
    bytes: float
    note: str = ""
    masks: Masks | None = None  #: masks and noise, if any

    shown = ("target", "rounds", "samples", "messages", "bytes", "over_limit", "note")

    @property
    def title(self) -> str:
        return f"{self.method.label} on {self.network.name}"

    @property
    def reached(self) -> bool:
        return self.rounds is not None

    @property
    def mse(self) -> float:
        """The total error's mean over the agents."""
        return self.total_error / self.network.agents

    @property
    def over_limit(self) -> float:
        """The total error as a multiple of the centralized limit; infinite if that is 0."""
        return over_limit(self.total_error, self.centralized_limit)

    def records(self) -> list[Record]:
        """Return one row; a plan that misses its target has an error but no costs."""
        costs = ("samples", "messages", "bytes")
        return [
            {
                "network": self.network.name,
                "method": self.method.label,
                "target": self.target,
                "rounds": self.rounds,
                **{name: getattr(self, name) if self.reached else None for name in costs},
                "total_error": self.total_error,
                "mse": self.mse,
                "centralized_limit": self.centralized_limit,
                "over_limit": self.over_limit,
                "noise": None if self.masks is None else self.masks.noise,
                "note": self.note,
            }
        ]

    def quiet(self, fraction: float = 0.1, *, trials: int = 32, seed: int = 0) -> Plan:
        """Return the plan for agents that are silent while they have no news: fewer messages, more rounds if needed.

        Messages, and what silence adds to the error, are simulated, next to agents that see the same observations and
        always speak. The error is the upper end, two standard errors above the mean of the trials.

        Parameters
        ----------
        fraction : float
            As for `gs.faults.Quiet`.
        trials, seed : int
            As for `gs.simulate`.

        Examples
        --------
        >>> plan = gs.plan("complete:6", gs.Gaussian(np.arange(6.0)), 0.001, gs.AnytimeSDA("local-heavy-ball"))
        >>> quiet = plan.quiet()
        >>> quiet.total_error <= 0.001, quiet.messages < 0.7 * plan.messages
        (True, True)
        """
        if self.masks is not None:
            raise Unsupported("agents with masks always speak; plan without masks, or without quiet agents")
        if self.rounds is None:
            return self
        problem, rounds = (self.method, self.network, self.observations), self.rounds
        for _ in range(_LENGTHENED):
            speaking, run = (
                simulate(*problem, rounds, trials, seed, faults=faults)
                for faults in (_ALWAYS, Quiet(fraction))
            )
            known, added = exact(*problem, rounds), run.errors - speaking.errors
            total = (
                known.total_error + 2 * known.uncertainty + float(added.mean() + 2 * standard_error(added))
            )
            if total <= self.target or not math.isfinite(total):
                break
            rounds = math.ceil(rounds * total / self.target)
        sent = f"quiet: {run.messages / speaking.messages:.0%} of the messages after {known.rounds} rounds"
        reached = total <= self.target
        if not reached:
            sent += f", but the error of {total:.3g} misses the target; plan without quiet agents"
        return replace(
            self,
            rounds=known.rounds if reached else None,
            total_error=total,
            centralized_limit=known.centralized_limit,
            samples=known.samples if reached else math.inf,
            messages=run.messages if reached else math.inf,
            bytes=run.bytes if reached else math.inf,
            note="; ".join(filter(None, (self.note, f"{sent} ({trials} trials)"))),
        )

    def plot(self, ax: Panels | None = None) -> Axes:
        """Plot the error on the way to the target, and the target."""
        end = self.rounds or 2 * max(64, self.network.agents)
        course = exact(self.method, self.network, self.observations, spread_out(1, end))
        goal = plotting.Curve("target", course.rounds, np.full(len(course.rounds), self.target), limit=True)
        axes = plotting.draw_errors(ax, [*course.curves(), goal], self.title)
        if self.rounds is not None:
            axes.plot([self.rounds], [self.total_error], "o", color=plotting.RED, zorder=5)
        return axes


class Plans(list[Plan], Result):
    """Several plans, one per requested combination.

    See Also
    --------
    plan : Computes them.
    Plan : One entry.
    Comparison : Errors of several methods as a table.

    Examples
    --------
    >>> plans = gs.plan("grid:4x4", gs.Gaussian(np.arange(16.0)), 0.01, ["sda", "anytime-sda"])
    >>> plans.cheapest(by="messages").method.name
    'anytime-sda'
    """

    title = "What a target error costs"
    shown = ("network", "method", *Plan.shown)
    __repr__ = Result.__repr__

    def records(self) -> list[Record]:
        return [record for plan in self for record in plan.records()]

    def plot(self, ax: Panels | None = None) -> Panels:
        """Plot rounds needed against the target, a panel for each network (then `ax` is one axes for each)."""
        networks = list(dict.fromkeys(plan.network.name for plan in self))
        axes = plotting.axes_for(networks, ax)
        for panel, name in zip(axes, networks, strict=True):
            plans = [plan for plan in self if plan.network.name == name]
            curves = []
            for method in dict.fromkeys(plan.method.label for plan in plans):
                mine = sorted((p.target, p.rounds or np.nan) for p in plans if p.method.label == method)
                curves.append(plotting.Curve(method, *np.array(mine).T))
            plotting.draw_curves(panel, curves, "rounds needed", "target error")
        plotting.legend(axes)
        return axes[0] if len(axes) == 1 else axes

    def cheapest(self, by: str = "rounds") -> Plan:
        """Return the plan with the fewest "rounds", "samples", "messages" or "bytes" of those that reach their
        target."""
        if by not in ("rounds", "samples", "messages", "bytes"):
            raise InvalidInput(parameter="by", required="rounds, samples, messages or bytes", got=repr(by))
        reached = [plan for plan in self if plan.reached]
        if not reached:
            raise InvalidInput(
                "none of these plans reaches its target: " + "; ".join(plan.note for plan in self)
            )
        return min(reached, key=lambda plan: float(getattr(plan, by)))
