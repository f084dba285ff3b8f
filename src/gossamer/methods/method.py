"""The contract of a method: its parameters, its registers and four small functions.

A method is written once, in the notation of its paper, and every engine runs that one definition. In round t agent i
holds registers s_i and its newest observation (the mean of the round's batch of samples) and computes

    m_i   = message(c_t, s_i, observation_i)            its message to the neighbors
    u_i   = sum_j L_ij m_j                              the gossip product of the messages (`mixed`)
    s_i  <- step(c_t, s_i, observation_i, u_i)          its local update

After T rounds its answer is estimate(c_{T-1}, s_i). The registers start at zero. The functions may only add
and scale: they receive scalars, arrays over trials, or unit vectors (from which `probing.py` reads the method's
coefficients), so they must not branch on values. Whatever changes from round to round is a coefficient.

A coefficient called `gain` is the weight of the newest observation in the agent's own running mean. Engines use it
unchanged; a deployed agent, which may see any number of samples in a round, replaces it by its own weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats, same
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts
from gossamer.results import html_table

Register: TypeAlias = Any
"""A register, a message or an observation: a float, an array over trials, or unit vectors. The functions of a method
only add and scale, so they need not know which."""

Fields: TypeAlias = Any
"""A NamedTuple of the method's own: its registers (`State`) or its coefficients."""


class Tunable(NamedTuple):
    """A parameter that `gs.tune` may choose: an initial value, and bounds within which every value is valid.

    Attributes
    ----------
    start, least, most : float
        The value at which the search starts, and its bounds.
    whole : bool
        Whether it is a number of rounds. Otherwise it is continuous, and searched on a logit scale if it has an upper
        bound, or on a log scale if it has none.

    See Also
    --------
    gossamer.tune : Optimizes parameters.
    gossamer.Method : Its `tunable` returns these.

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

    See Also
    --------
    gossamer.methods.tabulate : Evaluates a method for all rounds.
    AnytimeSDA : The default method.

    Examples
    --------
    >>> method = gs.methods.resolve("anytime-sda")
    >>> method.label, method.anytime
    ('anytime-sda', True)
    """

    name: ClassVar[str]
    """Name of the method on the command line and in `METHODS`."""

    State: ClassVar[type[Fields]]
    """A NamedTuple class: the registers an agent keeps between rounds. All start at zero."""

    mixing: ClassVar[str] = "matrix"
    """"matrix": the network's gossip matrix. "pairwise" or "broadcast": a random exchange each round.
    "push": :math:`L = I - A` with the column-stochastic A of a directed network; the answer is the estimate divided by
    what it would be if every agent observed 1."""

    @property
    def mixes(self) -> str:
        """Description of how the method mixes, for error messages."""
        if self.mixing == "push":
            return "it divides what one-way links push (push gossip)"
        return f"it wakes agents at random ({self.mixing} gossip)"

    @property
    def label(self) -> str:
        """Return the name with every parameter that was set: "sda, burn_in=3", "anytime-sda, chebyshev"."""
        parameters: tuple[Field[object], ...] = fields(self) if is_dataclass(self) else ()
        given = {f.name: getattr(self, f.name) for f in parameters}
        chosen = {f.name: given[f.name] for f in parameters if not same(given[f.name], f.default)}
        words = [
            value
            if isinstance(value, str)
            else f"{name}={value:.6g}"
            if isinstance(value, float)
            else f"{name}={value}"
            for name, value in chosen.items()
        ]
        return ", ".join([self.name, *words])

    def _repr_html_(self) -> str:
        """Show the parameters in notebooks; those that were not set are chosen for the network."""
        parameters: tuple[Field[object], ...] = fields(self) if is_dataclass(self) else ()
        values = [getattr(self, f.name) for f in parameters]
        rows = [
            (f.name, "chosen for the network" if value is None else value)
            for f, value in zip(parameters, values, strict=True)
        ]
        return html_table(self.name, ("parameter", "value"), rows)

    @property
    def bears_loss(self) -> bool:
        """Return whether the method converges where messages are lost, as far as is known."""
        return True

    @property
    def after_loss(self) -> Method | None:
        """Return the method whose step an edge takes for a while after it has missed a message; None: this one.

        It has the same registers. Only how gossip changes them on the edge may differ (`ledger.py`).
        """
        return None

    @property
    def anytime(self) -> bool:
        """Return whether round t is the same for any number of rounds, so that one run serves every horizon."""
        return False

    def averages_since(self, rounds: int) -> int | None:
        """Return :math:`T_0` if the estimate is the mean over rounds :math:`T_0` to :math:`T-1` of iterates that are
        the same for any T.

        One pass then serves every horizon, although :math:`T_0` may move with it, as a burn-in does. None if this does
        not hold.
        """
        return None

    def tunable(self, network: SpectralFacts, rounds: int) -> Mapping[str, Tunable]:
        """Return the parameters that `gs.tune` may choose on this network, by name."""
        return {}

    @abstractmethod
    def coefficients(self, network: SpectralFacts, rounds: int) -> Fields:
        """Return a NamedTuple whose fields are floats (constant) or arrays with one entry per round."""

    def batches(self, network: SpectralFacts, rounds: int) -> Floats:
        """Return the number of samples that each agent takes in each round, possibly 0. One by default."""
        return np.ones(rounds)

    @staticmethod
    @abstractmethod
    def message(c: Fields, s: Fields, observation: Register) -> Register:
        """Return an agent's message to its neighbors."""

    @staticmethod
    @abstractmethod
    def step(c: Fields, s: Fields, observation: Register, mixed: Register) -> Fields:
        r"""Return the registers after the exchange; `mixed` is :math:`\sum_j L_{ij} m_j` of the messages m."""

    @staticmethod
    @abstractmethod
    def estimate(c: Fields, s: Fields) -> Register:
        """Return the agent's answer now."""


class StaticMethod(Method):
    """A method that averages fixed values: all samples are taken in round 0 and kept."""

    samples: int

    anytime = True

    def batches(self, network: SpectralFacts, rounds: int) -> Floats:
        return first_round(rounds, checks.whole_number("samples", self.samples, least=1))


def first_round(rounds: int, value: float = 1.0) -> Floats:
    """Return `value` in round 0 and 0 later: the coefficient by which a static method takes its value."""
    coefficient = np.zeros(rounds)
    coefficient[0] = value
    return coefficient


def batch_sizes(batch: float | Sequence[float], rounds: int) -> Floats:
    """Return one batch size per round from a number or a sequence of at least `rounds` numbers."""
    try:
        sizes = np.asarray(batch, dtype=float)
    except (TypeError, ValueError, OverflowError):
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
