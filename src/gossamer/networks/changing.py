"""Networks whose edges come and go from round to round."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, Unsupported
from gossamer.facts import ExchangeFacts
from gossamer.networks.contacts import (
    Block,
    Computed,
    Contacts,
    Dropout,
    EdgesLike,
    Listed,
    Matchings,
    Table,
    Waypoints,
    read_contacts,
)
from gossamer.networks.directed import DirectedNetwork
from gossamer.networks.drawing import Drawn, positions_of
from gossamer.networks.layout import natural
from gossamer.networks.names import split_name
from gossamer.networks.network import Network, NetworkLike
from gossamer.networks.topologies import MOST_EDGES


def _no_spectrum(name: str) -> Unsupported:
    return Unsupported(
        f"the method asks for the network's {name}, which a changing network does not have, since every round has "
        "another spectrum; use a method that needs none, such as AnytimeSDA(acceleration='local-heavy-ball') or DSG, "
        "or set all parameters of the method by hand"
    )


@dataclass(frozen=True)
class ChangingNetwork(Drawn):
    """A network whose edges come and go: in each round, agents in contact exchange one message, as on a `Network`.

    The edges are the same in every trial. Two changing networks are equal if they were created in the same way.

    Attributes
    ----------
    agents : int
        Number of agents N in the network.
    name : str
        A short name of the network, for tables and figures.
    labels : tuple
        The names of the N agents, in order; their numbers if the contacts have no names.
    positions : ndarray or None
        Positions of the agents in a picture, shape (N, 2): in round 0 if they move, otherwise those of the network that
        loses links or the first of those that take turns.

    See Also
    --------
    Network : Links that do not change.

    Examples
    --------
    >>> net = gs.ChangingNetwork.mobile(60, radius=0.2, speed=0.01)
    >>> net.edges_at(0).shape[1]
    2
    >>> obs = gs.Gaussian(np.zeros(60))
    >>> gs.simulate(gs.AnytimeSDA("local-heavy-ball"), net, obs, rounds=300, trials=20).mse < 0.001
    True
    """

    contacts: Contacts
    name: str
    labels: tuple[Hashable, ...]
    _positions: Callable[[], Floats | None] | None = field(default=None, compare=False, repr=False)

    lambda_bound: ClassVar[float] = 2.0  # in all rounds, because the weights are Metropolis weights

    @property
    def agents(self) -> int:  # type: ignore[override]
        return self.contacts.agents

    @property
    def lambda_max(self) -> float:
        """A bound on the eigenvalues of all rounds: every agent's own weight is at least 1/N (Gershgorin)."""
        return 2 - 2 / self.agents

    @property
    def lambda_2(self) -> float:
        raise _no_spectrum("lambda_2")

    @property
    def condition_number(self) -> float:
        raise _no_spectrum("condition_number")

    @property
    def inverse_square_trace(self) -> float:
        raise _no_spectrum("inverse_square_trace")

    @property
    def exchanges(self) -> ExchangeFacts:
        raise _no_spectrum("exchanges")

    @cached_property
    def positions(self) -> Floats | None:
        return None if self._positions is None else self._positions()

    def __len__(self) -> int:
        return self.agents

    def __repr__(self) -> str:
        return f"ChangingNetwork({self.name}, {self.agents} agents)"

    def edges_at(self, round: int) -> Integers:
        """Return (E, 2) the pairs of agents in contact in a round, the smaller number first."""
        return self.contacts.pairs(checks.whole_number("round", round, least=0))

    def edges_in(self, rounds: range) -> Block:
        """Return the edges of several rounds: the rows indptr[k]:indptr[k + 1] of `pairs` are those of the k-th."""
        return self.contacts.block(rounds)

    def summary(self, rounds: int = 100) -> dict[str, str | float]:
        """Describe how dense the first rounds are, and in how many of them all agents are connected."""
        indptr, pairs = self.edges_in(range(checks.rounds(rounds)))
        stages = [pairs[start:stop] for start, stop in pairwise(indptr)]
        return {
            "network": self.name,
            "agents": self.agents,
            "rounds": rounds,
            "mean_edges": len(pairs) / rounds,
            "mean_degree": 2 * len(pairs) / (rounds * self.agents),
            "connected_rounds": sum(self._parts(edges) == 1 for edges in stages),
            "parts": self._parts(pairs),  # of all contacts together
        }

    def _drawn(self) -> tuple[Integers, Integers]:
        return self.edges_at(0), np.empty((0, 2), dtype=np.int64)

    def _degrees(self) -> Integers:
        return np.bincount(self.edges_at(0).ravel(), minlength=self.agents)

    def _parts(self, edges: Integers) -> int:
        graph = coo_matrix((np.ones(len(edges)), tuple(edges.T)), shape=(self.agents, self.agents))
        return int(connected_components(graph, directed=False, return_labels=False))

    @classmethod
    def _of(
        cls,
        contacts: Contacts,
        name: str,
        labels: Sequence[Hashable] | None = None,
        positions: Callable[[], Floats | None] | None = None,
    ) -> ChangingNetwork:
        return cls(contacts, name, tuple(range(contacts.agents) if labels is None else labels), positions)

    @classmethod
    def mobile(cls, n: int, radius: float = 0.2, speed: float = 0.01, seed: int = 0) -> ChangingNetwork:
        """Build a network of agents that move in the unit square, each straight to one random point after another
        (random waypoint), at `speed` (at most 1) per round and without pauses. Agents within `radius` of each other are
        in contact."""
        n = checks.whole_number("n", n, least=2, most=MOST_EDGES)
        radius = checks.number("radius", radius, above=0)
        speed = checks.number(
            "speed", speed, least=0, most=1
        )  # a faster agent would pass many points in a round
        contacts = Waypoints(n, radius, speed, checks.seed(seed))
        return cls._of(contacts, f"mobile:{n}", positions=contacts.start)

    @classmethod
    def matchings(cls, n: int, seed: int = 0) -> ChangingNetwork:
        """Let each agent meet one other agent, at random, in every round; if their number is odd, one stays alone."""
        n = checks.whole_number("n", n, least=2, most=MOST_EDGES)
        return cls._of(
            Matchings(n, checks.seed(seed)), f"matchings:{n}", positions=partial(natural, f"cycle:{n}", n)
        )

    @classmethod
    def dropout(cls, network: NetworkLike, alive: float, seed: int = 0) -> ChangingNetwork:
        """Keep each edge of a network with probability `alive`, independently in every round."""
        base = Network.of(network)
        contacts = Dropout(base.agents, base.edges, checks.probability("alive", alive), checks.seed(seed))
        return cls._of(contacts, f"dropout of {base.name}", base.labels, partial(positions_of, base))

    @classmethod
    def switching(cls, networks: Sequence[NetworkLike], every: int = 1) -> ChangingNetwork:
        """Use one network after another, each for `every` rounds, then the first again."""
        bases = [Network.of(network) for network in checks.listed("networks", networks)]
        if not bases:
            raise InvalidInput(
                parameter="networks", required="at least one network to switch between", got="none"
            )
        sizes = sorted({base.agents for base in bases})
        if len(sizes) > 1:
            raise InvalidInput(f"all networks must have the same agents, got {sizes} agents")
        indptr = np.concatenate([[0], np.cumsum([len(base.edges) for base in bases])]).astype(np.int64)
        edges = np.concatenate([base.edges for base in bases])
        every = checks.whole_number("every", every, least=1)
        name = "switching " + ", ".join(dict.fromkeys(base.name for base in bases))
        contacts = Listed(bases[0].agents, indptr, edges, every, repeat=True)
        return cls._of(contacts, name, bases[0].labels, partial(positions_of, bases[0]))

    @classmethod
    def from_contacts(
        cls, table: Table, every: float | None = None, *, repeat: bool = False, name: str | None = None
    ) -> ChangingNetwork:
        """Read recorded contacts: rows of time, a, b and optionally a duration, as a file, an array or a data frame.

        A file has columns separated by spaces or commas, an optional header, and # for comments. A round lasts `every`
        units of time, by default the smallest difference between two times. A contact lasts for its duration, but at
        least one round. After the last contact there are no more contacts or, with `repeat`, they start again.
        """
        if every is not None:
            every = checks.number("every", every, above=0)
        contacts, labels = read_contacts(table, every, bool(repeat))
        stem = Path(table).stem if isinstance(table, str | Path) else "contacts"
        return cls._of(contacts, name or stem, labels)

    @classmethod
    def from_function(
        cls, function: Callable[[int], EdgesLike], agents: int, *, name: str = "function"
    ) -> ChangingNetwork:
        """Build a network from `function(round)`, which returns the edges of a round: pairs of agent numbers, or a
        NetworkX graph of them.

        The same round must always have the same edges.
        """
        if not callable(function):
            raise InvalidInput(
                parameter="function", required="a function of the round", got=checks.brief(function)
            )
        return cls._of(
            Computed(checks.whole_number("agents", agents, least=2, most=MOST_EDGES), function), name
        )


AnyNetwork = Network | ChangingNetwork | DirectedNetwork


def changing_of(value: object) -> ChangingNetwork | None:
    """Return `value` if it is a changing network, or the changing network that it names; otherwise None."""
    if isinstance(value, str):
        return parse_changing(value)
    return value if isinstance(value, ChangingNetwork) else None


def network_of(value: NetworkLike | ChangingNetwork | DirectedNetwork) -> Network | ChangingNetwork:
    """Like `Network.of`, for functions that also take changing networks."""
    changing = changing_of(value)
    return Network.of(value) if changing is None else changing


_NAMES: dict[str, Callable[..., ChangingNetwork]] = {
    "mobile": ChangingNetwork.mobile,
    "matchings": ChangingNetwork.matchings,
    "dropout": ChangingNetwork.dropout,
    "switching": ChangingNetwork.switching,
    "contacts": ChangingNetwork.from_contacts,
}

EXAMPLES = (
    "mobile:60,radius=0.2,speed=0.01, matchings:60, dropout:grid:10x10,alive=0.2, switching:path:20+star:20,every=5, "
    "contacts:FILE"
)


def parse_changing(text: str, seed: int = 0) -> ChangingNetwork | None:
    """Return the changing network that a text such as `mobile:60,radius=0.2` names; None if it names another kind."""
    kind, rest = split_name(text)
    if kind not in _NAMES or rest is None:
        return None
    first, *others = rest.split(",")
    build, values = _NAMES[kind], {}
    subject, *parameters = inspect.signature(build).parameters
    known = [name for name in parameters if name not in ("name", "seed")]
    for part in others:
        name, equals, value = part.partition("=")
        if not equals or name.strip() not in known:
            raise InvalidInput(
                f"{kind} takes {', '.join(known) or 'no parameters'}, got {part!r}; examples: {EXAMPLES}"
            )
        values[name.strip()] = _number(text, value)
    if "seed" in parameters:
        values["seed"] = seed
    read: dict[str, Callable[[], float | Path | Network | list[Network]]] = {
        "n": lambda: _number(text, first),
        "table": lambda: Path(first),
        "network": lambda: Network.named(first, seed=seed),
        "networks": lambda: [Network.named(base, seed=seed) for base in first.split("+")],
    }
    return build(read[subject](), **values)


def _number(text: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise InvalidInput(f"{text!r} needs a number where {word!r} is; examples: {EXAMPLES}") from None
