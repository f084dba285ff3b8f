"""What `gs.exact` returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gossamer.arrays import Floats
from gossamer.engines.exact.per_agent import per_agent_errors
from gossamer.engines.results import ErrorResult, Rounds, Value
from gossamer.methods import Method
from gossamer.networks import Network
from gossamer.observations import Observations


@dataclass(frozen=True, kw_only=True)
class Exact(ErrorResult[Rounds, Value]):
    """The expected error itself: total_error = bias + variance.

    uncertainty is 0 for an exact spectrum, and one standard error of total_error where Lanczos quadrature was used.
    samples and messages are per agent and in the whole network; a message is one vector over one directed link.
    """

    method: Method
    network: Network
    observations: Observations
    bias: Value
    variance: Value
    uncertainty: Value
    samples: Value
    messages: Value

    @cached_property
    def per_agent(self) -> Floats:
        """(N,) expected squared error of each agent, or (H, N) for several horizons; computed when asked for."""
        horizons = np.atleast_1d(self.rounds)
        errors = per_agent_errors(self.method, self.network, self.observations, horizons)
        return errors[0] if np.isscalar(self.rounds) else errors
