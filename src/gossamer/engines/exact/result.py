"""The result of `gs.exact`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gossamer.arrays import Floats
from gossamer.engines.exact.per_agent import per_agent_errors
from gossamer.engines.results import Rounds, StreamResult, Value

UNCERTAIN = 0.015
"""Relative standard error of a total error from which a note mentions it."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Exact(StreamResult[Rounds, Value]):
    """An exact expected error: total_error = bias + variance.

    Attributes
    ----------
    total_error, mse, over_limit : float or ndarray
        The error: the paper's sum over agents, the mean over agents, and the multiple of the centralized limit.
    bias, variance : float or ndarray
        The two parts of the total error: that of the expected estimates, and that of their noise.
    uncertainty : float or ndarray
        One standard error of total_error if the variance is sampled; 0 if the full spectrum is known.
    samples, messages : float or ndarray
        Number of samples per agent, and of messages in the whole network; a message is one vector over one directed
        link.

    See Also
    --------
    exact : Computes it.
    Simulation : Simulated errors with the same interface.

    Examples
    --------
    >>> result = gs.exact("dsg", gs.Network.cycle(6), gs.Gaussian(np.zeros(6)), rounds=[10, 100])
    >>> result.bias + result.variance == result.total_error
    array([ True,  True])
    >>> result.messages
    array([ 120, 1200])
    """

    bias: Value
    variance: Value
    uncertainty: Value
    samples: Value
    messages: Value
    agent_errors: Floats | None = None  #: `per_agent`, if the engine has already computed it

    columns = ("bias", "variance", "uncertainty", "samples", "messages")

    def _notes(self, which: int) -> Iterator[str]:
        yield from super()._notes(which)
        samples, rounds = np.atleast_1d(self.samples)[which], np.atleast_1d(self.rounds)[which]
        total, error = np.atleast_1d(self.total_error)[which], np.atleast_1d(self.uncertainty)[which]
        if np.isfinite(total) and error > UNCERTAIN * total:
            yield f"its standard error is {error / total:.0%} of it: more probes would have taken too long"
        if samples > rounds:
            yield f"takes {samples:.3g} samples per agent; the limits are for one per round"

    @cached_property
    def per_agent(self) -> Floats:
        """(N,) expected squared error of each agent, or (H, N) for several horizons; computed on first access."""
        if self.agent_errors is not None:
            return self.agent_errors
        horizons = np.atleast_1d(self.rounds)
        errors = per_agent_errors(self.method, self.network, self.observations, horizons)
        return errors[0] if np.isscalar(self.rounds) else errors
