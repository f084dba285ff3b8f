"""The contract of a method: its parameters, its registers and four small functions.

A method is written once, as the math of its paper, and every engine runs that one definition. In round t
agent i holds registers s_i and its newest observation (the mean of the round's batch of samples) and does

    m_i   = message(c_t, s_i, observation_i)            what it tells its neighbors
    u_i   = sum_j L_ij m_j                              what gossip makes of the messages (`mixed`)
    s_i  <- step(c_t, s_i, observation_i, u_i)          its local update

After T rounds its answer is estimate(c_{T-1}, s_i). The registers start at zero. The functions may only add
and scale: they receive scalars, arrays over trials, or unit vectors (that is how `probing.py` reads the method's
coefficients off), so they must not branch on values. Whatever changes from round to round is a coefficient.

A coefficient called `gain` is the weight of the newest observation in the agent's own running mean. Engines leave
it as it is; a deployed agent, which may see any number of samples in a round, puts its own weight in its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts

Number = Any
"""A float, or an array that broadcasts: message, step and estimate never need to know which."""


class Tunable(NamedTuple):
    """A parameter that `gs.tune` may choose: where to start, and the bounds within which every value makes sense.

    Attributes
    ----------
    start, least, most : float
        Where the search begins, and its bounds.
    whole : bool
        Whether it is a number of rounds; otherwise it is continuous, searched on a logit scale where it has an
        upper bound and on a log scale where it has none.

    Examples
    --------
    >>> gs.SDA().tunable(gs.Network.cycle(10), rounds=100)["burn_in"]
    Tunable(start=50, least=0, most=99, whole=True)
    """

    start: float
    least: float = 0.0
    most: float = np.inf
    whole: bool = False


class Method(ABC):
    """A linear method for averaging streams over a network. Subclasses are frozen dataclasses of parameters.

    Examples
    --------
    >>> method = gs.methods.resolve("anytime-sda")
    >>> method.label, method.anytime
    ('anytime-sda', True)
    """

    name: ClassVar[str]
    """What the method is called on the command line and in `METHODS`."""

    State: ClassVar[type[Any]]
    """A NamedTuple class: the registers an agent keeps between rounds. All start at zero."""

    mixing: ClassVar[str] = "matrix"
    """"matrix": the network's gossip matrix. "pairwise" or "broadcast": a random exchange each round.
    "push": L = I - A with the column-stochastic A of a directed network, and the answer is the estimate divided by what
    it would be if everybody observed 1."""

    @property
    def mixes(self) -> str:
        """How it mixes, as a refusal puts it."""
        if self.mixing == "push":
            return "it divides what one-way links push (push gossip)"
        return f"it wakes agents at random ({self.mixing} gossip)"

    @property
    def label(self) -> str:
        """The name with every parameter that was set: "sda, burn_in=3", "anytime-sda, chebyshev"."""
        parameters: tuple[Any, ...] = fields(self) if is_dataclass(self) else ()
        given = {f.name: getattr(self, f.name) for f in parameters}
        chosen = {f.name: given[f.name] for f in parameters if not np.array_equal(given[f.name], f.default)}
        words = [
            value
            if isinstance(value, str)
            else f"{name}={value:.6g}"
            if isinstance(value, float)
            else f"{name}={value}"
            for name, value in chosen.items()
        ]
        return ", ".join([self.name, *words])

    @property
    def anytime(self) -> bool:
        """Whether round t does the same whatever the number of rounds, so that one run serves every horizon."""
        return False

    def averages_since(self, rounds: int) -> int | None:
        """T0 if the estimate is the mean over rounds T0 .. T-1 of what is the same for any number of rounds T.

        Then one pass serves every horizon, although T0 may move with it, as a burn-in does. None: no such promise.
        """
        return None

    def tunable(self, network: SpectralFacts, rounds: int) -> Mapping[str, Tunable]:
        """The parameters that `gs.tune` may choose on this network, by name."""
        return {}

    @abstractmethod
    def coefficients(self, network: SpectralFacts, rounds: int) -> Any:
        """Return a NamedTuple whose fields are floats (constant) or arrays with one entry per round."""

    def batches(self, network: SpectralFacts, rounds: int) -> Floats:
        """Return how many samples each agent takes in each round (0: none). One by default."""
        return np.ones(rounds)

    @staticmethod
    @abstractmethod
    def message(c: Any, s: Any, observation: Number) -> Number:
        """What an agent tells its neighbors."""

    @staticmethod
    @abstractmethod
    def step(c: Any, s: Any, observation: Number, mixed: Number) -> Any:
        """Return the registers after the exchange; `mixed` is sum_j L_ij message_j."""

    @staticmethod
    @abstractmethod
    def estimate(c: Any, s: Any) -> Number:
        """Return the agent's answer now."""


class StaticMethod(Method):
    """A method that averages fixed values: all its samples are taken in round 0, and held."""

    samples: int

    @property
    def anytime(self) -> bool:
        return True

    def batches(self, network: SpectralFacts, rounds: int) -> Floats:
        return first_round(rounds, checks.whole_number("samples", self.samples, least=1))


def first_round(rounds: int, value: float = 1.0) -> Floats:
    """`value` in round 0 and nothing later: the coefficient by which a static method takes its value."""
    found = np.zeros(rounds)
    found[0] = value
    return found


def batch_sizes(batch: float | Sequence[float], rounds: int) -> Floats:
    """Return one batch size per round from a number or a sequence of at least `rounds` numbers."""
    try:
        sizes = np.asarray(batch, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInput(
            parameter="batch", required="a number or one number per round", got=repr(batch)
        ) from None
    if sizes.ndim == 0:
        sizes = np.full(rounds, float(sizes))
    if sizes.ndim != 1 or len(sizes) < rounds:
        raise InvalidInput(
            parameter="batch",
            required=f"a number or one number per round ({rounds})",
            got=f"an array of shape {sizes.shape}",
        )
    sizes = sizes[:rounds]
    if not np.all(np.isfinite(sizes)) or sizes.min() < 1 or np.any(sizes != np.floor(sizes)):
        raise InvalidInput(f"batch sizes must be whole numbers of at least 1, got {sizes.min():g}")
    return sizes
