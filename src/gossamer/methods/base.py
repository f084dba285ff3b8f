"""The contract of a method: its parameters, its registers and four small functions.

A method is written once, as the maths of its paper, and every engine runs that one definition. In round t
agent i holds registers s_i and its newest observation y_i (the mean of the round's batch of samples) and does

    m_i   = message(c_t, s_i, y_i)                 what it tells its neighbours
    u_i   = sum_j L_ij m_j                         what gossip makes of the messages (`mixed`)
    s_i  <- step(c_t, s_i, y_i, u_i)               its local update

After T rounds its answer is estimate(c_{T-1}, s_i). The registers start at zero. The functions may only add
and scale: they receive scalars, arrays over trials, or unit vectors (that is how `table.py` reads the method's
coefficients off), so they must not branch on values. Whatever changes from round to round is a coefficient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.errors import InvalidInput

if TYPE_CHECKING:
    from gossamer.networks import Network

Number = Any
"""A float, or an array that broadcasts: message, step and estimate never need to know which."""


class Method(ABC):
    """A linear method for averaging streams over a network. Subclasses are frozen dataclasses of parameters."""

    name: ClassVar[str]
    """How the method is called on the command line and in `METHODS`."""

    State: ClassVar[type[Any]]
    """A NamedTuple class: the registers an agent keeps between rounds. All start at zero."""

    mixing: ClassVar[str] = "matrix"
    """"matrix": the network's gossip matrix. "pairwise" or "broadcast": a random exchange each round."""

    @property
    def label(self) -> str:
        """The name with every parameter that was set: "sda, burn_in=3", "anytime-sda, chebyshev"."""
        parameters: tuple[Any, ...] = fields(self) if is_dataclass(self) else ()
        given = {f.name: getattr(self, f.name) for f in parameters}
        chosen = {f.name: given[f.name] for f in parameters if not np.array_equal(given[f.name], f.default)}
        words = [value if isinstance(value, str) else f"{name}={value}" for name, value in chosen.items()]
        return ", ".join([self.name, *words])

    @abstractmethod
    def coefficients(self, network: Network, rounds: int) -> Any:
        """Return a NamedTuple whose fields are floats (constant) or arrays with one entry per round."""

    def batches(self, network: Network, rounds: int) -> NDArray[np.float64]:
        """Return how many samples each agent takes in each round (0: none). One by default."""
        return np.ones(rounds)

    @staticmethod
    @abstractmethod
    def message(c: Any, s: Any, y: Number) -> Number:
        """What an agent tells its neighbours."""

    @staticmethod
    @abstractmethod
    def step(c: Any, s: Any, y: Number, mixed: Number) -> Any:
        """Return the registers after the exchange; `mixed` is sum_j L_ij message_j."""

    @staticmethod
    @abstractmethod
    def estimate(c: Any, s: Any) -> Number:
        """Return the agent's answer now."""


def whole(name: str, value: Any, least: int) -> int:
    """Return `value` as an int, or say that it is no whole number of at least `least`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | np.number)
        or not np.isfinite(value)
        or value != np.floor(value)
        or value < least
    ):
        raise InvalidInput(f"{name} must be a whole number of at least {least}, but {value!r} came")
    return int(value)


def check_rounds(rounds: int) -> int:
    """Return `rounds` as an int, or say what was wrong with it."""
    return whole("rounds", rounds, 1)


def check_positive(name: str, value: float | None, *, zero: bool = False) -> None:
    """Complain unless `value` is None, or finite and positive (or zero, where `zero` allows it)."""
    if value is None:
        return
    if not isinstance(value, int | float | np.number) or not (
        np.isfinite(value) and (value > 0 or (zero and value == 0))
    ):
        least = "at least 0" if zero else "above 0"
        raise InvalidInput(f"{name} must be a finite number {least}, but {value!r} came")


def check_whole(name: str, value: int | None, least: int) -> None:
    """Complain unless `value` is None or a whole number of at least `least`."""
    if value is not None:
        whole(name, value, least)


def batch_sizes(batch: float | Sequence[float], rounds: int) -> NDArray[np.float64]:
    """Return one batch size per round from a number or a sequence of at least `rounds` numbers."""
    try:
        sizes = np.asarray(batch, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInput(f"batch must be a number or one number per round, but {batch!r} came") from None
    if sizes.ndim == 0:
        sizes = np.full(rounds, float(sizes))
    if sizes.ndim != 1 or len(sizes) < rounds:
        raise InvalidInput(
            f"batch must be a number or one number per round ({rounds}), but an array of shape {sizes.shape} came"
        )
    sizes = sizes[:rounds]
    if not np.all(np.isfinite(sizes)) or sizes.min() < 1 or np.any(sizes != np.floor(sizes)):
        raise InvalidInput(f"batch sizes must be whole numbers of at least 1, but {sizes.min():g} came")
    return sizes


def first_round_only(rounds: int, samples: int) -> NDArray[np.float64]:
    """Batches of a static averaging method: all its samples in round 0, none later."""
    check_whole("samples", samples, 1)
    batches = np.zeros(rounds)
    batches[0] = samples
    return batches


def load(rounds: int) -> NDArray[np.float64]:
    """Coefficient of a static averaging method that takes its value in round 0 and holds it."""
    flags = np.zeros(rounds)
    flags[0] = 1.0
    return flags


class Nesterov(NamedTuple):
    """Step size eta and momentum zeta of the dual accelerated methods."""

    step_size: float
    momentum: float


def nesterov(network: Network, step_size: float | None, momentum: float | None) -> Nesterov:
    """eta = 1/lambda_1 and zeta = (sqrt k - 1)/(sqrt k + 1), the paper's choice, unless set by hand."""
    eta = 1.0 / network.lambda_max if step_size is None else step_size
    if momentum is None:
        root = np.sqrt(network.condition_number)
        momentum = float((root - 1) / (root + 1))
    return Nesterov(float(eta), momentum)
