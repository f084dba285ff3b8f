r"""What a coalition of curious agents learns from all messages of masked averaging, computed exactly.

The messages of all rounds are functions of the masked levels :math:`y + Bm + z` (B: the incidence matrix of the edges,
m: their masks, z: noise that stays in the average) and of what the streams add to them later. A coalition that sees
every message, but knows only the masks of its own edges, sees of the honest agents

.. math:: y_h + B_h m_h + z_h , \qquad \text{a Gaussian with covariance } \Sigma = s^2 L_h + s_z^2 I ,

with the Laplacian :math:`L_h` of the graph of the honest agents. Changing the levels by a vector d is therefore
Gaussian differentially private with :math:`\mu^2 = d^T \Sigma^{-1} d`, and no analysis of the messages can do better or
worse. :math:`\Sigma^{-1}` is the resistance matrix of a network of resistors, in which every agent is also connected to
the ground with the conductance :math:`s_z^2`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypedDict

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq
from scipy.sparse.csgraph import connected_components

from gossamer import checks, plotting
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, Unsupported
from gossamer.networks import Network, NetworkLike
from gossamer.numerics.gaussian_privacy import delta_of, epsilon_of, mu_of
from gossamer.numerics.selected import centered_inverse, factored_inverse, factors_fill
from gossamer.observations import Masks, incidence
from gossamer.results import Record, Result

if TYPE_CHECKING:
    from gossamer.plotting import Panels

DENSE = 2000
"""Largest connected part of the honest agents for which the distances between all pairs are computed."""

COALITIONS = 300
"""Largest number of coalitions that are evaluated; beyond this a sample is, and a note says so."""

DELTA = 1e-5
"""The delta for which tables show epsilon."""


class View(NamedTuple):
    """What a coalition sees of one agent: mu of a change of its level, and the largest of a move to another agent."""

    agent: int
    coalition: tuple[int, ...]
    change: float
    move: float  #: infinite if the coalition cuts the agent off from all others
    note: str = ""  #: which coalitions were examined, if not all


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Privacy(Result):
    r"""How well masks and noise hide the level of each agent from a coalition.

    All :math:`\mu` are parameters of Gaussian differential privacy: telling apart whether the level was changed is as
    hard as telling apart two normal distributions with unit variance whose means differ by :math:`\mu`. 0 is perfect
    privacy, above about 6 there is none; infinite means that the change is visible without doubt.

    Attributes
    ----------
    mu_change : ndarray
        The :math:`\mu` for a change of the agent's level by `change`, shape (N,); NaN for members of the coalition.
    mu_move : ndarray
        The :math:`\mu` for a move of that amount to another honest agent that is connected to it by honest agents,
        shape (N,): the largest over these agents, or an upper bound on it in networks with more than 2000 agents; NaN
        if there is none.
    mu_reading : ndarray
        The :math:`\mu` for a change of one of `readings` readings, of which the level is the mean, shape (N,); NaN
        unless they are given.
    public : list of tuple of int
        The parts into which the coalition cuts the honest agents. The sum of the levels over a part is public, up to
        the noise of its members.
    worst_agent, worst_neighbor, worst_pair : View or None
        The agent with the largest :math:`\mu` under this coalition, or under any of one or two of its neighbors.

    See Also
    --------
    privacy : Computes it.
    Masks : The masks whose effect it describes.

    Examples
    --------
    >>> result = gs.privacy("grid:4x4", gs.Masks(30.0), noise=1.0)
    >>> result.mu_change.max(), result.epsilon(delta=1e-5)
    (0.25158, 0.93277)
    >>> gs.privacy("path:3", gs.Masks(30.0), coalition=[1]).public
    [(0,), (2,)]
    """

    network: Network
    masks: Masks
    noise: float
    coalition: tuple[int, ...]
    change: float
    readings: int | None
    mu_change: Floats
    mu_move: Floats
    public: list[tuple[int, ...]]
    caveats: tuple[str, ...] = field(default=())

    shown: ClassVar[Sequence[str]] = ("agent", "mu_change", "mu_move", "epsilon", "note")

    @property
    def title(self) -> str:
        hidden = f"masks of {self.masks.scale}" + (", refreshed" if self.masks.refresh else "")
        noise = f" and noise of {self.noise:g}" if self.noise else ""
        count, seen = len(self.coalition), ""
        if count:
            names = ", ".join(map(str, self.coalition))
            seen = f" against agent{'s' * (count > 1)} {names}" if count <= 4 else f" against {count} agents"
        return f"{hidden}{noise} on {self.network.name}{seen}"

    @property
    def mu_reading(self) -> Floats:
        return self.mu_change / (math.nan if self.readings is None else self.readings)

    @property
    def worst_agent(self) -> View | None:
        mu = self.mu_change if self.noise else self.mu_move
        if np.isnan(mu).all():
            return None
        agent = int(np.nanargmax(mu))
        return View(agent, self.coalition, float(self.mu_change[agent]), float(self.mu_move[agent]))

    @cached_property
    def worst_neighbor(self) -> View | None:
        return self._worst(1)

    @cached_property
    def worst_pair(self) -> View | None:
        return self._worst(2)

    def _worst(self, size: int) -> View | None:
        return _worst_of(self.network, self.masks, self.noise, self.change, *_around(self.network, size))

    def epsilon(self, delta: float = DELTA, mu: float | None = None, *, times: int = 1) -> float:
        r"""Return the epsilon of (epsilon, delta)-differential privacy for `mu`, by default that of the worst agent.

        Without noise this is about moves between agents, because the sum of the levels is public. `times` is the number
        of averages of the same data, each with masks and noise of its own: their :math:`\mu` add up in squares.
        """
        delta = checks.number("delta", delta, above=0, below=1)
        return epsilon_of(self._repeated(mu, times), delta)

    def delta(self, epsilon: float, mu: float | None = None, *, times: int = 1) -> float:
        """Return the delta of (epsilon, delta)-differential privacy for `mu`, by default that of the worst agent.

        `times` is as in `epsilon`.
        """
        return delta_of(self._repeated(mu, times), checks.number("epsilon", epsilon, least=0))

    def _repeated(self, mu: float | None, times: int) -> float:
        return (self._mu if mu is None else mu) * math.sqrt(checks.whole_number("times", times, least=1))

    @property
    def _mu(self) -> float:
        worst = self.worst_agent
        return math.nan if worst is None else worst.change if self.noise else worst.move

    def records(self) -> list[Record]:
        part = {agent: k for k, members in enumerate(self.public) for agent in members}
        note = "; ".join(self.caveats)
        mu = self.mu_change if self.noise else self.mu_move
        values = {
            "mu_change": self.mu_change,
            "mu_move": self.mu_move,
            "mu_reading": self.mu_reading,
            "epsilon": np.array([epsilon_of(one, DELTA) for one in mu.tolist()]),
        }
        rows: list[Record] = []
        for agent in sorted(part):
            numbers = {name: float(column[agent]) for name, column in values.items()}
            known = {name: None if math.isnan(number) else number for name, number in numbers.items()}
            rows.append(
                {"network": self.network.name, "agent": agent, "part": part[agent], **known, "note": note}
            )
        return rows

    def plot(self, ax: Panels | None = None) -> Panels:
        """Plot delta against epsilon for the worst agent, and for the worst single neighbor and pair of neighbors."""
        (ax,) = plotting.axes_for([self.title], ax)
        views = [("this coalition", self.worst_agent), ("one neighbor", self.worst_neighbor)]
        for label, view in [*views, ("two neighbors", self.worst_pair)]:
            mu = math.nan if view is None else view.change if self.noise else view.move
            if not 0 < mu < math.inf:
                continue
            epsilons = np.linspace(0, epsilon_of(mu, 1e-12), 200)
            ax.semilogy(epsilons, [delta_of(mu, e) for e in epsilons], label=f"{label} ($\\mu$ = {mu:.3g})")
        ax.set(xlabel=r"$\epsilon$", ylabel=r"$\delta$", title=self.title)
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
        return ax


def privacy(
    network: NetworkLike,
    masks: Masks | float,
    *,
    noise: float = 0.0,
    coalition: Iterable[int] | str | int = (),
    change: float = 1.0,
    readings: int | None = None,
) -> Privacy:
    """Return what a coalition that sees all messages of all rounds learns about each honest agent.

    Parameters
    ----------
    network : Network, NetworkX graph or str
        The network of the N agents, for example "grid:10x10".
    masks : Masks or float
        The masks, or their scale, in units of the observations.
    noise : float
        Standard deviation of the noise that each agent adds once to its level; by default that of `masks`.
    coalition : collection of int, "any neighbor", or int
        The curious agents; or the worst single neighbor of any agent; or the worst coalition of this many agents.
    change : float
        By how much a level is changed, in units of the observations.
    readings : int, optional
        Number of readings of which each level is the mean, all taken before the average begins.

    Returns
    -------
    Privacy
        The Gaussian differential privacy of every agent, the worst cases, and what is public in any case.

    See Also
    --------
    Masks : Masks that hide observations and cancel in the average.
    Privacy : The result.

    Examples
    --------
    >>> gs.privacy("cycle:10", 10.0, coalition=[3]).mu_move[[2, 4, 7]]
    array([0.2828, 0.2828, 0.2236])
    """
    network = Network.of(network)
    masks = _masks(masks)
    noise = checks.number("noise", noise, least=0) or masks.noise
    change = checks.number("change", change, above=0)
    if readings is not None:
        readings = checks.whole_number("readings", readings, least=1)
    caveats: list[str] = []
    members = _members(network, coalition)
    if members is None:
        near = not isinstance(coalition, int)
        candidates = _every(network, coalition) if isinstance(coalition, int) else _around(network, 1)
        view = _worst_of(network, masks, noise, change, *candidates, near=near)
        members = () if view is None else view.coalition
        caveats += [view.note] if view is not None and view.note else []
    mu_change, mu_move, parts = _mus(network, masks, noise, change, members)
    if max((len(part) for part in parts), default=0) > DENSE:
        caveats.append(f"mu_move is an upper bound in parts of more than {DENSE} agents")
        if noise and float(np.max(masks.scale)) > 1e4 * noise:
            caveats.append(
                "masks beyond 10^4 times the noise leave rounding errors in mu_change in such parts"
            )
    return Privacy(
        network=network,
        masks=masks,
        noise=noise,
        coalition=members,
        change=change,
        readings=readings,
        mu_change=mu_change,
        mu_move=mu_move,
        public=parts,
        caveats=tuple(caveats),
    )


def neighbor_uncertainty(network: Network, masks: Masks) -> Floats:
    """Return (N,) the uncertainty of a single curious neighbor about the level of each agent, as a standard deviation.

    It knows one mask of the agent's edges and, from the average, the mean of all levels; the agent's other masks hide
    the difference between the two. A leaf has no other masks.
    """
    scale = float(np.min(masks.scale))
    return np.asarray(scale * np.sqrt(np.maximum(network.links.degrees - 1.0, 0.0)))


class PrivacyOptions(TypedDict, total=False):
    """The arguments of `masks_for`."""

    masks: Masks | float | None
    noise: float
    epsilon: float | None
    delta: float
    change: float
    coalition: Iterable[int] | str | int


def masks_for(
    network: Network,
    *,
    masks: Masks | float | None = None,
    noise: float = 0.0,
    epsilon: float | None = None,
    delta: float = 1e-6,
    change: float = 1.0,
    coalition: Iterable[int] | str | int = (),
) -> Masks | None:
    """Return masks and noise; None if there are none.

    With `epsilon`, the noise is the least that gives every honest agent (epsilon, delta)-differential privacy. It lies
    between the noise of a trusted center, divided among the agents, and local noise, which suffices without masks.
    """
    known = Masks.of(masks) or Masks(0.0, noise=1.0)
    if known.refresh:
        raise Unsupported(
            "plans are for masks that do not change; leave refresh out, or evaluate some numbers of rounds with "
            "gs.exact(..., masks=)",
            parameter="masks",
        )
    if epsilon is not None:
        if noise:
            raise InvalidInput(
                "says how much noise is needed; leave out epsilon or noise", parameter="epsilon"
            )
        most = mu_of(epsilon, delta)
        local = checks.number("change", change, above=0) / most

        def excess(noise: float) -> float:
            view = privacy(network, known, noise=noise, coalition=coalition, change=change)
            return float(np.nanmax(view.mu_change)) / most - 1

        least = local / math.sqrt(network.agents)
        if excess(local * (1 - 1e-9)) > 0:
            noise = local
        else:
            noise = least if excess(least) <= 0 else float(brentq(excess, least, local, rtol=1e-9))
    if masks is None and not noise:
        return None
    return replace(known, noise=noise) if noise else known


def _masks(masks: Masks | float) -> Masks:
    masking = Masks.of(masks)
    if masking is None:
        raise InvalidInput(parameter="masks", required="gs.Masks(scale) or a scale", got="None")
    return masking


def _members(network: Network, coalition: Iterable[int] | str | int) -> tuple[int, ...] | None:
    """Return the agents of a given coalition; None if the worst one is requested."""
    if isinstance(coalition, str):
        checks.choice("coalition", coalition, ("any neighbor",))
        return None
    if isinstance(coalition, int):
        checks.whole_number("coalition", coalition, least=1, most=network.agents - 1)
        return None
    given, last = checks.listed("coalition", coalition), network.agents - 1
    return tuple(sorted({checks.whole_number("coalition", i, least=0, most=last) for i in given}))


def _mus(
    network: Network, masks: Masks, noise: float, change: float, coalition: Collection[int]
) -> tuple[Floats, Floats, list[tuple[int, ...]]]:
    """Return (N,) mu of changes and of moves, and the parts of the honest agents."""
    changes, moves = np.full((2, network.agents), np.nan)
    scale = float(np.min(masks.scale))  # the component that is hidden least
    honest = np.setdiff1d(np.arange(network.agents), list(coalition))
    incident = incidence(network)
    inside = incident[:, (scale > 0) & (np.abs(incident[honest]).sum(axis=0) == 2)][honest]
    laplacian = sp.csr_array(inside @ inside.T)
    count, label = connected_components(laplacian, directed=False) if len(honest) else (0, np.empty(0))
    parts = []
    for part in range(count):
        members = np.flatnonzero(label == part)
        agents = honest[members]
        covariance = scale**2 * laplacian[members][:, members] + noise**2 * sp.eye_array(len(members))
        changed, moved = _resistances(sp.csc_array(covariance), noise**2)
        changes[agents], moves[agents] = change * np.sqrt(changed), change * np.sqrt(moved)
        parts.append(tuple(agents.tolist()))
    return changes, moves, sorted(parts)


def _resistances(covariance: sp.csc_array, ground: float) -> tuple[Floats, Floats]:
    """Return the squared mu of a unit change and of a unit move for each agent of one part.

    They are the resistance from the agent to the ground, and the largest resistance from it to another agent. Without
    noise nothing is connected to the ground, so one agent is grounded; resistances between agents do not depend on it.
    """
    size, grounded = covariance.shape[0], ground > 0
    nowhere = np.full(size, np.nan)
    if size == 1:
        return (1 / covariance.diagonal() if grounded else np.full(1, np.inf)), nowhere
    kept = slice(None) if grounded else slice(size - 1)
    matrix = sp.csc_array(covariance[kept][:, kept])
    if size <= DENSE:
        inverse = np.zeros((size, size))
        if grounded:
            # The mean of all agents has the eigenvalue noise^2, which may be tiny, so its part is added separately.
            stiff = float(covariance.diagonal().mean())
            inverse[:] = (
                np.linalg.inv(matrix.toarray() + stiff / size) + (1 / ground - 1 / (ground + stiff)) / size
            )
        else:
            inverse[kept, kept] = np.linalg.inv(matrix.toarray())
        diagonal = inverse.diagonal()
        moved = np.max(diagonal[:, None] + diagonal - 2 * inverse, axis=1)
    else:
        centered = centered_inverse(sp.csr_array(covariance), ground) if factors_fill(covariance) else None
        # Differences of levels sum to zero, so resistances between agents do not need the part of their mean.
        mean = 1 / (ground * size) if centered and grounded else 0.0
        inner, inverse_column = centered or factored_inverse(matrix)
        diagonal = np.zeros(size)
        diagonal[slice(None) if centered else kept] = inner
        # Resistances are distances, so a path through one central agent bounds them all.
        center = int(np.argmin(diagonal))
        column = np.zeros(size)
        if len(inner) == size:
            column[:] = inverse_column(center)
        elif center < size - 1:
            column[kept] = inverse_column(center)
        from_center = diagonal + diagonal[center] - 2 * column
        moved = from_center + from_center.max()
        diagonal += mean
    return (diagonal.copy() if grounded else np.full(size, np.inf)), moved


def _worst_of(
    network: Network,
    masks: Masks,
    noise: float,
    change: float,
    coalitions: Sequence[tuple[int, ...]],
    note: str,
    *,
    near: bool = True,
) -> View | None:
    """Return the view of the coalition that sees most of one of its neighbors, or, unless `near`, of any agent."""
    worst, most = None, -math.inf
    for coalition in coalitions:
        mu_change, mu_move, _ = _mus(network, masks, noise, change, coalition)
        # An agent that is cut off has no secret to share.
        mu_move = np.where(np.isnan(mu_move), np.inf, mu_move)
        mu = mu_change if noise else mu_move
        watched = np.concatenate([_neighbors(network, i) for i in coalition]) if near else np.arange(len(mu))
        around = np.setdiff1d(watched, coalition)
        if len(around) and mu[around].max() > most:
            agent = int(around[np.argmax(mu[around])])
            most = float(mu[agent])
            worst = View(agent, coalition, float(mu_change[agent]), float(mu_move[agent]), note)
    return worst


def _neighbors(network: Network, agent: int) -> Integers:
    links = network.links
    return np.asarray(links.neighbors[links.starts[agent] : links.starts[agent + 1]]).astype(np.int64)


def _around(network: Network, size: int) -> tuple[list[tuple[int, ...]], str]:
    """Return the coalitions of up to `size` neighbors of an agent, and a note if they are only some of them.

    Agents with few neighbors come first, because few masks hide them.
    """
    limit = _most_coalitions(network)
    coalitions: dict[tuple[int, ...], None] = {}
    for agent in np.argsort(network.links.degrees, kind="stable").tolist():
        near = sorted(_neighbors(network, agent).tolist())
        for members in itertools.combinations(near, min(size, len(near))):
            if len(coalitions) == limit:
                return list(
                    coalitions
                ), f"only {limit} coalitions, around the agents with the fewest neighbors, were examined"
            coalitions[members] = None
    return list(coalitions), ""


def _every(network: Network, size: int) -> tuple[list[tuple[int, ...]], str]:
    """Return all coalitions of `size` agents, or some of them with a note that says so.

    These contain as many neighbors of an agent as fit, and random agents.
    """
    if math.comb(network.agents, size) <= COALITIONS:
        return list(itertools.combinations(range(network.agents), size)), ""
    rng = np.random.default_rng(0)
    coalitions = []
    for members in _around(network, size)[0]:
        others = np.setdiff1d(np.arange(network.agents), members)
        more = rng.choice(others, size - len(members), replace=False).tolist()
        coalitions.append(tuple(sorted((*members, *more))))
    where = "around the agents with the fewest neighbors"
    return coalitions, f"only {len(coalitions)} coalitions of {size} agents, {where}, were examined"


def _most_coalitions(network: Network) -> int:
    """Return how many coalitions are evaluated in a network of this size."""
    return int(np.clip(COALITIONS * (300 / network.agents) ** 2, 10, COALITIONS))
