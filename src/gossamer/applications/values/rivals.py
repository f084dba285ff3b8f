"""Temporal differences over a network from Markovian samples, for comparison with averaged least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.networks import Network


@dataclass(frozen=True)
class OneShot:
    """Every agent solves for its own values alone; the solutions are averaged once, at the end.

    If all agents see the same states, this equals a center that holds all rewards. If each sees a trajectory of its
    own, it has the bias of a single agent.

    See Also
    --------
    DistributedTD : Temporal differences that are averaged every round.
    gossamer.ValueEstimation : The estimator that it is compared with.

    Examples
    --------
    >>> gs.applications.OneShot().name
    'one-shot'
    """

    name: ClassVar[str] = "one-shot"


@dataclass(frozen=True)
class DistributedTD:
    r"""Distributed TD(:math:`\lambda`) with Markovian samples, with the trace of the `ValueEstimation`.

    An agent's step from the transition of round k, with the features :math:`\phi_k` and :math:`\phi_k'` of its two
    states and the eligibility trace :math:`z_k`, is

    .. math:: g_i = z_k \big(r_i + \gamma \phi_k'^\top \theta_i - \phi_k^\top \theta_i\big)

    With :math:`W = I - L`, estimates are mixed in every round (Doan, Maguluri, Romberg 2019), with gradient tracking
    (as in Pu and Nedic 2021; :math:`g_i'` is the step of the round before), or once, after the last round (Tian,
    Paschalidis and Olshevsky 2024):

    .. math::

        \text{"rounds"} \quad & \theta_i \leftarrow \sum_j W_{ij} \theta_j + a_k g_i \\
        \text{"tracking"} \quad & y_i \leftarrow \sum_j W_{ij} y_j + g_i - g_i', \qquad
        \theta_i \leftarrow \sum_j W_{ij} \theta_j + a_k y_i \\
        \text{"once"} \quad & \theta_i \leftarrow \theta_i + a_k g_i

    The step sizes are :math:`a_k = a/\sqrt{k+1}`, divided by the largest :math:`\lVert z_k\rVert^2`.

    Parameters
    ----------
    step_size : float
        The factor a of the step sizes, above 0.
    output : str
        The "last" iterate, or the "average" of all, weighted by their steps.
    mixing : str
        How estimates are mixed: "rounds", "tracking" or "once", as above.

    See Also
    --------
    OneShot : Averages the agents' own solutions once.
    gossamer.ValueEstimation : The estimator that it is compared with.

    Examples
    --------
    >>> gs.applications.DistributedTD(step_size=0.5, mixing="tracking").label
    'td, tracking, step=0.5'
    """

    step_size: float = 2.0
    output: str = "last"
    mixing: str = "rounds"
    name: ClassVar[str] = "td"

    def __post_init__(self) -> None:
        checks.number("step_size", self.step_size, above=0)
        checks.choice("output", self.output, ("last", "average"))
        checks.choice("mixing", self.mixing, ("rounds", "tracking", "once"))

    @property
    def label(self) -> str:
        named = {"rounds": "td", "tracking": "td, tracking", "once": "td, averaged once"}[self.mixing]
        return f"{named}, step={self.step_size:g}" + ("" if self.output == "last" else ", averaged")

    def weights(
        self, network: Network, traces: Floats, differences: Floats, rewards: Floats, horizons: Integers
    ) -> Floats:
        """Return (H, trials, N, P) after ascending horizons, from (T, trials, 1 or N, P) twice and (T, trials, N)."""
        rounds, trials, agents = rewards.shape
        laplacian = network.gossip.toarray()
        largest = float(max(np.einsum("tbnp,tbnp->tbn", traces, traces).max(), 1e-300))
        theta = np.zeros((trials, agents, traces.shape[-1]))
        total, weight = np.zeros_like(theta), 0.0
        tracked, old = np.zeros_like(theta), np.zeros_like(theta)
        out = []
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(rounds):
                step = self.step_size / np.sqrt(k + 1) / largest
                errors = rewards[k] - (theta * differences[k]).sum(axis=-1)
                change = traces[k] * errors[..., None]
                if self.mixing == "tracking":
                    tracked = tracked - laplacian @ tracked + change - old
                    old, change = change, tracked
                if self.mixing != "once":
                    theta = theta - laplacian @ theta
                theta = theta + step * change
                total += step * theta
                weight += step
                if k + 1 in horizons:
                    now = total / weight if self.output == "average" else theta
                    if self.mixing == "once":
                        now = np.broadcast_to(now.mean(axis=1, keepdims=True), now.shape)
                    out += [now.copy()]
        return np.stack(out)
