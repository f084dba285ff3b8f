"""Masks that cancel, secret numbers on edges that hide the level of each agent, and noise that stays in the average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.networks import Network
from gossamer.numerics import random
from gossamer.observations.shapes import as_numbers
from gossamer.observations.stream import BatchSizes, Observations


@dataclass(frozen=True)
class Masks:
    r"""Secret random numbers, one per edge and component, that hide the readings of an agent.

    The two ends of an edge agree on :math:`m_{ij} = -m_{ji}`, a normal number with standard deviation `scale`, and an
    agent averages its own values plus :math:`X_i = \sum_j m_{ij}`. All :math:`X_i` sum to zero, so the average is
    unchanged, and a dual method removes the disagreement at its accelerated rate.

    Parameters
    ----------
    scale : float or sequence of float
        Standard deviation of a mask, in units of the observations; one number, or one per component.
    refresh : bool
        Whether the masks also change in every round t, by a normal increment with standard deviation
        :math:`\text{scale}/(t+1)`, which hides the differences between the readings of an agent as well.
    noise : float
        Standard deviation of a normal number that each agent draws once and adds to its level, in every component. It
        stays in the average, and makes the answer differentially private; a scale of 0 means noise without masks.

    See Also
    --------
    privacy : What remains visible to a coalition of agents.

    Examples
    --------
    >>> net, obs = gs.Network.grid(5, 5), gs.Gaussian(np.zeros(25))
    >>> [gs.exact("anytime-sda", net, obs, rounds=400, masks=m).over_limit for m in (None, gs.Masks(1000))]
    [1.017, 1.017]
    """

    scale: float | tuple[float, ...]
    refresh: bool = False
    noise: float = 0.0

    def __post_init__(self) -> None:
        scales = as_numbers(self.scale, "scale")
        checks.number("noise", self.noise, least=0)
        alone = self.noise > 0 and not scales.any()
        good = scales.ndim <= 1 and scales.size > 0 and np.all(np.isfinite(scales))
        if not (good and (scales.min() > 0 or alone)):
            raise InvalidInput(
                parameter="scale",
                required="a standard deviation above 0, or one per component; 0 with noise alone",
                got=checks.brief(self.scale),
            )
        object.__setattr__(self, "scale", tuple(scales.tolist()) if scales.ndim else float(scales))

    @classmethod
    def of(cls, masks: Masks | ArrayLike | None) -> Masks | None:
        """Return masks, from their scale if only that is given."""
        return masks if masks is None or isinstance(masks, Masks) else cls(masks)  # type: ignore[arg-type]

    def scales(self, components: int) -> Floats:
        """Return (n,) the standard deviation of a mask in each component."""
        scales = np.atleast_1d(np.asarray(self.scale, dtype=float))
        if scales.size not in (1, components):
            raise InvalidInput(
                parameter="scale",
                required=f"one number, or one for each of the {components} components",
                got=f"{scales.size} numbers",
            )
        return np.broadcast_to(scales, components)


def incidence(network: Network) -> scipy.sparse.csr_array:
    """Return (N, E) the incidence matrix: +1 at the end of an edge with the smaller number, -1 at the other."""
    edges = network.edges
    count = len(edges)
    return scipy.sparse.csr_array(
        (np.tile([1.0, -1.0], count), (edges.ravel(), np.repeat(np.arange(count), 2))),
        shape=(network.agents, count),
    )


class Masked(Observations):
    """Streams plus masks that cancel over the network, and noise; mean and variance are those of `base`, without them.

    In round t an agent's running mean is shifted by X_t. If masks do not change, that is the shift of every
    observation; with `refresh`, the observation of round t is shifted by (t + 1) X_t - t X_{t-1}.
    """

    def __init__(self, base: Observations, network: Network, masks: Masks) -> None:
        self.base = base
        self.mean, self.variance = base.mean, base.variance
        self.masks = masks
        self.scales = masks.scales(base.components)
        self._incidence = incidence(network)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_incidence": self._incidence.nonzero()}

    @property
    def drift(self) -> Floats:
        return self.base.drift

    @property
    def moving(self) -> bool:
        return self.base.moving

    @property
    def known_rounds(self) -> float:
        return self.base.known_rounds

    def means(self, rounds: range) -> Floats:
        return self.base.means(rounds)

    def sample(
        self, seed: int, rounds: range, trials: range, agents: range | None = None, batches: BatchSizes = None
    ) -> Floats:
        agents = range(self.agents) if agents is None else agents
        plain = self.base.sample(seed, rounds, trials, agents, batches)
        shift = self._shifts(seed, rounds, trials)[:, agents.start : agents.stop : agents.step]
        if self.masks.noise:
            noise = random.normals(seed, random.LEVEL, trials, agents, self.components, range(1))
            shift = shift + self.masks.noise * noise
        return (
            plain + shift
            if batches is None
            else plain + shift * (batches[rounds.start : rounds.stop, None, None, None] > 0)
        )

    def _shifts(self, seed: int, rounds: range, trials: range) -> Floats:
        """Return (rounds, N, n, trials), or (1, N, n, trials) if they are the same in all rounds."""
        if not self.masks.refresh:
            return self._draw(seed, range(1), trials)
        steps = (
            self._draw(seed, range(rounds.stop), trials)
            / np.arange(1.0, rounds.stop + 1)[:, None, None, None]
        )
        level = np.cumsum(steps, axis=0)
        return np.asarray((level + np.arange(rounds.stop)[:, None, None, None] * steps)[rounds.start :])

    def _draw(self, seed: int, rounds: range, trials: range) -> Floats:
        edges = range(self._incidence.shape[1])
        masks = random.normals(seed, random.MASK, trials, edges, self.components, rounds)
        masks = np.moveaxis(masks * self.scales[:, None], 1, 0)
        sums = self._incidence @ masks.reshape(len(edges), -1)
        return np.asarray(np.moveaxis(sums.reshape(self.agents, *masks.shape[1:]), 0, 1))
