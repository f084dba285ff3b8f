"""Convert a method to a table: its four functions are evaluated on unit vectors, for all rounds at once.

The functions receive the coefficients as arrays over rounds, so one evaluation per register gives every round.
Nonlinear functions are detected here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gossamer import checks
from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Fields, Method, Register
from gossamer.methods.table import Table

PIECE = 2**12
"""Number of rounds whose coefficients are read at a time, so that they stay in the cache."""


def tabulate(
    method: Method, network: SpectralFacts, rounds: int, *, piece: slice = slice(None), **changes: float
) -> Table:
    """Read the coefficients of `method` on `network` for `rounds` rounds, or a piece of these.

    Parameters
    ----------
    method : Method
        The method whose functions are evaluated.
    network : SpectralFacts
        A network, or the known facts about one.
    rounds : int
        Number of rounds T of the run, at least 1.
    piece : slice
        The rounds to keep of the table; all by default.
    **changes : float
        Values with which to replace coefficients, by name, in all rounds.

    See Also
    --------
    tabulate_all : The same for several methods.
    Table : The result.

    Examples
    --------
    >>> table = gs.methods.tabulate(gs.DSG(), gs.Network.cycle(10), rounds=4)
    >>> table.message_observation.tolist()
    [1.0, 0.5, 0.3333, 0.25]
    """
    rounds = checks.rounds(rounds)
    c = method.coefficients(network, rounds)
    check_tuple(method, "Coefficients", type(c))
    c = c._replace(**changes)
    _check_coefficients(method, c, rounds)
    return _read(method, _at(c, piece), _batches(method, network, rounds)[piece])


def tabulate_all(
    methods: Sequence[Method], network: SpectralFacts, rounds: int, *, piece: slice = slice(None)
) -> Table:
    """Return the tables of variants of one method, which differ only in their parameters, concatenated in one table.

    With `piece`, only that piece of each. The functions of a method are the same for every variant, so all of them are
    evaluated at once.

    Parameters
    ----------
    methods : sequence of Method
        Variants of one method, which differ only in their parameters.
    network : SpectralFacts
        A network, or the known facts about one.
    rounds : int
        Number of rounds T of the run, at least 1.
    piece : slice
        The rounds to keep of each table; all by default.

    See Also
    --------
    tabulate : The same for one method.
    Table : The result.

    Examples
    --------
    >>> variants = [gs.SDA(step_size=0.3), gs.SDA(step_size=0.4)]
    >>> gs.methods.tabulate_all(variants, gs.Network.cycle(10), rounds=4).step_mixed.shape[0]
    8
    """
    rounds = checks.rounds(rounds)
    coefficients = [method.coefficients(network, rounds) for method in methods]
    for method, c in zip(methods, coefficients, strict=True):
        _check_coefficients(method, c, rounds)
    joined = [
        np.concatenate([np.broadcast_to(v, rounds)[piece] for v in values])
        for values in zip(*coefficients, strict=True)
    ]
    batches = np.concatenate([_batches(method, network, rounds)[piece] for method in methods])
    return _read(methods[0], type(coefficients[0])(*joined), batches)


def _read(method: Method, c: Fields, batches: Floats) -> Table:
    size = len(method.State._fields)

    def outputs(c: Fields, s: Fields, observation: Register, mixed: Register) -> Floats:
        """Return (..., T, 1 + R + 1): message, new registers and estimate for given inputs, in every round of c."""
        state = method.State(*s)
        rows = [
            method.message(c, state, observation),
            *method.step(c, state, observation, mixed),
            method.estimate(c, state),
        ]
        if len(rows) != size + 2:
            raise InvalidInput(f"{type(method).__name__}.step must return a State of {size} registers")
        return np.stack(np.broadcast_arrays(*rows, np.empty(_rounds_of(c)))[:-1], axis=-1)

    def probes(c: Fields) -> Floats:
        """Return (..., T, outputs, inputs) for unit inputs."""
        return np.stack([outputs(c, e[:size], e[size], e[size + 1]) for e in np.eye(size + 2)], axis=-1)

    rounds = len(batches)
    few = np.unique(np.linspace(0, rounds - 1, 16).astype(int))
    _check_linear(method, _at(c, few), outputs, probes(_at(c, few)))
    shapes = ((size,), (), (size, size), (size,), (size,), (size,), ())
    table = Table(*(np.empty((rounds, *shape)) for shape in shapes))._replace(batches=batches)
    for start in range(0, rounds, PIECE):
        piece = slice(start, start + PIECE)
        read = probes(_at(c, piece))
        table.message_state[piece] = read[..., 0, :size]
        table.message_observation[piece] = read[..., 0, size]
        table.step_state[piece] = read[..., 1:-1, :size]
        table.step_observation[piece] = read[..., 1:-1, size]
        table.step_mixed[piece] = read[..., 1:-1, size + 1]
        table.estimate_state[piece] = read[..., -1, :size]
    silent = table.batches == 0
    if table.step_observation[silent].any() or table.message_observation[silent].any():
        raise InvalidInput(
            f"{type(method).__name__} uses an observation in round {int(np.argmax(silent))}, "
            "in which it takes no samples; give the observation a zero coefficient there"
        )
    return table


def check_tuple(method: Method, name: str, kind: object) -> None:
    """Raise an error unless `kind` is the NamedTuple class `name` that a method must have."""
    if not (isinstance(kind, type) and hasattr(kind, "_fields")):
        what = "its registers" if name == "State" else "what coefficients() returns"
        raise InvalidInput(
            f"{type(method).__name__} needs a NamedTuple class {name}, {what}, got {checks.brief(kind)}; "
            f"write class {name}(NamedTuple): ... inside it"
        )


def _check_coefficients(method: Method, c: Fields, rounds: int) -> None:
    for field, value in zip(c._fields, c, strict=True):
        array = np.asarray(value)
        if array.dtype.kind not in "iufb":
            raise InvalidInput(
                f"{type(method).__name__}.coefficients must give numbers, but {field} is {checks.brief(value)}; "
                "give the method numbers"
            )
        finite = bool(np.all(np.isfinite(array)))
        if array.shape not in ((), (rounds,)) or not finite:
            raise InvalidInput(
                f"{type(method).__name__}.coefficients must give finite floats or arrays of length rounds={rounds}, "
                f"but {field} has shape {array.shape}" + ("" if finite else " and is not finite")
            )


def _batches(method: Method, network: SpectralFacts, rounds: int) -> Floats:
    batches = np.asarray(method.batches(network, rounds), dtype=float)
    if batches.shape != (rounds,):
        raise InvalidInput(
            f"{type(method).__name__}.batches must give one size per round ({rounds}), got shape {batches.shape}"
        )
    return np.array(batches)


def _at(c: Fields, rounds: slice | Integers) -> Fields:
    """Return the coefficients of some of the rounds."""
    return type(c)(*(value if np.ndim(value) == 0 else value[rounds] for value in c))


def _rounds_of(c: Fields) -> tuple[int, ...]:
    return np.broadcast_shapes(*(np.shape(value) for value in c))


def _check_linear(method: Method, some: Fields, outputs: Callable[..., Floats], probes: Floats) -> None:
    """Check linearity by evaluating the functions at more points, in the rounds of these coefficients.

    The points are positive and negative, small and large, so that a threshold is detected wherever it is.
    """
    size = probes.shape[-1] - 2
    point = np.random.default_rng(20).uniform(0.5, 2.0, size + 2)
    factors = np.array([[0.0], [1.0], [-1.0], [1e-6], [-1e9], [1e9]])
    with np.errstate(all="ignore"):
        *state, observation, mixed = (factors * value for value in point)
        actual = outputs(some, state, observation, mixed)
        apart = np.abs(actual - factors[..., None] * (probes @ point))
    within = 1e-9 * np.abs(factors[..., None]) * (1.0 + np.abs(probes) @ point)
    names = ["message", *(f"step ({field})" for field in method.State._fields), "estimate"]
    for k, name in enumerate(names):
        if not np.all(apart[..., k] <= within[..., k]):
            raise InvalidInput(
                f"{name} of {type(method).__name__} is not linear in (registers, observation, mixed): "
                "a method may only add and scale; put whatever changes between rounds into coefficients()"
            )
    if np.any(probes[..., 0, size + 1]) or np.any(probes[..., -1, size : size + 2]):
        raise InvalidInput(f"{type(method).__name__}.message and estimate must not use what was mixed")
