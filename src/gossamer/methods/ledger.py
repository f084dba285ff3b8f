"""The edge ledger: how a dual method runs per edge, so that lost messages and dead agents do not bias the average.

The dual variable of SDA and related methods is a sum of flows over the agent's edges, x_i = sum_j g_ij with g_ij =
-g_ji (`Table.ledger` finds the registers for which this holds). So each end of an edge keeps a ledger of that edge and
runs the method's own `step` on it, with w_ij (m_i - m_j) as that edge's `mixed`; the other registers (running means,
averages) stay with the agent. Without faults this is the method itself. With faults:

- A message carries the sender's value, its ledger of the edge, and which message from the receiver it heard last
  (the echo).
- One end is right: the other first adopts its ledger, negated; then both apply the same update. Right is the end
  with the higher standing: `DROPPED` before `COMPARED` (with the other end, since it began) before `NEW`; of two equal
  ones, the end with the smaller number.
- An end that hears nothing leaves the edge unchanged.
- An edge moves only while the other end has heard this one within its last `SILENCE` messages. A neighbor that has
  heard nothing yet counts from this end's own beginning, so a network that begins together moves in its first
  round. Without this rule one end could keep moving alone during a one-way silence, and bursts of loss would diverge.
- An end that the other has never heard, and whose first `SILENCE` rounds are over, adopts the other's ledger even if
  it would otherwise be right: what it moved alone is undone. Once heard, this no longer applies: a neighbor that
  restarts has not heard this end either, but then this end's ledger is the live one.
- A late message counts as lost: a message from another round is not used.
- A message that an agent does not send, because it has no news (`agents/round/quiet.py`), counts as lost, too. Such
  agents all speak in one round of every `SILENCE`, so that their edges keep moving.
- Accelerations that move slow modes furthest diverge if messages are lost. An edge that has missed a message takes the
  step of the method's `after_loss` in this and the next `QUIET` rounds. An end knows of a miss if it heard nothing in
  the round before, if the other end's echo is older than that, or if the other end has sent messages in between that it
  did not use: an agent that was delayed skips rounds, and notices nothing else. (Without the last rule, fleets on busy
  machines diverged.) An edge that begins again has missed some. If the ends differ for a round, the one that is right
  decides, as always. On changing networks all edges take this step.
- A neighbor declared dead: its edge is dropped, and its flow returns slowly. The flow leaves the edge for a register of
  the agent, which is multiplied by `RETURN_RATE` at the end of every round. If it returned at once, the
  other estimates would oscillate; with lost messages an oscillation leaves circulating flows, which do not show in the
  answers, and the next outage returns these as well: in 80 outages at 20% loss, answers of 12 agents left the range of
  their data by 5e5 times its width.
- The edge itself begins again with zero flow. An end that has dropped it says so, is right (`DROPPED`), and does not
  move it until the other end has echoed a message sent since then, or has dropped it as well. An end that hears this
  drops its own flow in the same way. So no estimate jumps when a neighbor comes back from a crash, a pause or a
  partition.
- An edge that begins with zero flow while its agents run takes the method's coefficients from the first row on: with
  the momentum of a fleet that has run for a long time, an agent that joins or comes back would overshoot.
- A new or restarted edge begins at zero and is `NEW`, so that an agent that comes back never overwrites a live ledger.

- An edge that ends by agreement (deployed agents only, `agents/round/closing.py`) causes no jump: its ends agree on the
  flow and keep it.

An agent uses its own clock for its own observations: the gain of its running mean is one over
the samples it has seen.

On a changing network (`ChangingNetwork`) an agent knows which agents it is in contact with, and sends messages only to
them. The rules above hold, with these additions:

- The time of an edge is counted in contacts: two ends that met every sixtieth round were not silent in between.
- An edge is up while its ends are in contact, and for `DOWN` rounds after. Degrees count the edges that are up, every
  message carries the sender's degree, and both ends use w_ij = 1/(1 + max(d_i, d_j)): Metropolis weights of the round.
- An edge that goes down keeps its flow and loses its momentum: every register of its ledger is set to the flow, the
  one that messages read (memory := x). Without this rule, old momentum ruins the estimates on sparse networks (local
  form, a random matching of 60 agents each round, T = 3000: 82 times the limit instead of 1.02).
- An edge that is down and on whose flow both ends agree is folded: both keep the flow in their own register, forget
  the edge, and begin a new one if they meet again. So memory is bounded by the number of edges that are up, and by
  those whose ends parted while messages between them were lost. If agents may be declared dead, nothing is folded,
  because the flow of dead agents returns.

The edges of a fixed network are always up, however many messages they lose: there `SILENCE` suffices, and removing
momentum after ten silent rounds slows down long chains without much benefit elsewhere (local form, T = 2976, 70% loss:
cycle 3.6 instead of 1.4 times the limit, path 4700 instead of 1800, grid 1.00 instead of 1.01).

The simulation (`engines/faulty`) and deployed agents (`agents/round/ledger.py`) follow these rules; the same seed
loses the same messages, so that a fleet in lockstep and a simulation give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gossamer.arrays import Floats, Integers
from gossamer.errors import InvalidInput, Unsupported
from gossamer.facts import SpectralFacts
from gossamer.methods.method import Fields, Method
from gossamer.methods.probing import tabulate
from gossamer.methods.table import Table

SILENCE = 5
"""A: an edge moves only while each end was heard by the other within this many rounds. The cautious choice among
the values compared in docs/reliability-simulated.md."""

DOWN = 10
"""An edge of a changing network is up for this many rounds after each contact."""

RETURN_RATE = 0.98
"""The factor per round by which the flow of a dropped edge returns; docs/reliability-simulated.md measures it."""

QUIET = 100
"""Number of rounds without a miss after which an edge takes the method's own step again; `benchmarks/local_form.py`
compares it with never."""

NEW, COMPARED, DROPPED = 0, 1, 2
"""The standing of one end's ledger: not yet compared with the other end, compared, restarted after a drop."""

LONGEST = 16_384
"""Largest number of rounds of a program. A method whose coefficients still change then keeps those of the last row."""

PIECE = 1024
"""A program is built in pieces of this many rounds, to limit the peak memory of an agent."""


class LedgerMaps(NamedTuple):
    """The rounds of a program for one agent with d neighbors, whose rows are [own; observation; d times (mixed; edge)].

    All edges have the same factors, which are kept once, so that many neighbors take no more memory than one: `columns`
    says for each row which column of the program is its factor (`tell[t][:, columns]` are the factors of all rows).

    tell, slope, step, estimate   those of the program
    columns                       (rows,) the column of each row; that of `mixed` is the last one, nothing
    weights                       (d,) w_ij of each edge, by which what was mixed counts
    """

    tell: Floats
    slope: Floats
    step: Floats
    estimate: Floats
    columns: Integers
    weights: Floats


class LedgerProgram(NamedTuple):
    """A dual method as agents run it on edges: slices of its table, with L own registers and E on each edge.

    Row t serves an agent's round t by its own age, and the last row holds from then on.
    The weight of the newest observation in the agent's running mean is not in the rows: each agent knows its own.

    method    the method's name
    own       names of the registers that stay with the agent
    edge      names of the registers that are kept on edges
    mean      which of `own` is the running mean of the agent's observations: the method's own one, or, where it
              keeps none, one that is added, because the standard error needs it
    weighted  whether the method feeds that mean to the network, rather than the newest observation
    tell      (T, 1 + L, L + 2 + E)   [message; own registers after], from [own; observation; edge; nothing], weight 0
    slope     (T, 1 + L, L + 2 + E)   how `tell` grows with the weight
    step      (T, E, 1 + E)           edge registers after, from [mixed; edge]; the rows after a loss follow those of
                                      the method itself, (2T, E, 1 + E), if there are any
    estimate  (T, L + 2 + E)          the answer, from [own; observation; edge; nothing]
    """

    method: str
    own: tuple[str, ...]
    edge: tuple[str, ...]
    mean: int
    weighted: bool
    tell: Floats
    slope: Floats
    step: Floats
    estimate: Floats

    @property
    def rounds(self) -> int:
        return len(self.tell)

    @property
    def after_loss(self) -> int:
        """By how many rows the step of a round is later after a loss; 0 if it is the same."""
        return len(self.step) - self.rounds

    @property
    def flow_register(self) -> int | None:
        """The register of an edge that is its flow, the only one that messages read; None if they read several."""
        reads = self.tell[:, 0, len(self.own) + 1 : -1]
        registers = np.flatnonzero(reads.any(axis=0))
        return int(registers[0]) if len(registers) == 1 and np.all(reads[:, registers[0]] == 1.0) else None

    def maps(self, weights: Sequence[float]) -> LedgerMaps:
        """Return the program of an agent with one edge of each of these gossip weights."""
        first, nothing = len(self.own) + 1, self.tell.shape[2] - 1
        columns = [*range(first), *([nothing, *range(first, nothing)] * len(weights))]
        return LedgerMaps(
            self.tell,
            self.slope,
            self.step,
            self.estimate,
            np.array(columns, dtype=np.int64),
            np.array(weights, dtype=float),
        )


def ledger_program(
    method: Method, facts: SpectralFacts, rounds: int | None = None, longest: int = LONGEST
) -> LedgerProgram:
    """Slice the program of `method` from its table, or raise an error that says why it has none.

    With `rounds` the program is that of a run of that many rounds. Without, it is for a fleet that runs forever: the
    method must be anytime, and the table is as long as its coefficients change, up to `longest` rounds.
    """
    if method.mixing != "matrix":
        raise _no_program(method, method.mixes)
    if rounds is None and not method.anytime:
        raise _no_program(
            method,
            "its rounds depend on the number of rounds, but a fleet runs indefinitely (set the property `anytime` "
            "of your own method if its rounds do not depend on it)",
        )
    coefficients = method.coefficients(facts, longest if rounds is None else rounds)
    weighted = "gain" in coefficients._fields
    length = _settled(coefficients) + 1 if rounds is None else rounds
    after = method.after_loss
    if after is not None and rounds is None:
        length = max(length, _settled(after.coefficients(facts, longest)) + 1)
    natural = tabulate(method, facts, length)
    own, edge = list(natural.local), list(natural.ledger)
    if not edge:
        raise _no_program(method, "what gossip changes depends on the agent's own observations")
    if rounds is None and natural.batches.max() > 1:
        raise _no_program(method, "agents take observations as they come, so leave its batches at one sample")
    if not weighted:
        return _program(method, own, edge, _rows(natural, None, own, edge), weighted, facts)
    del natural  # agents must stay small: free what is no longer needed, and build the rest piece by piece
    rows = None
    for start in range(0, length, PIECE):
        piece = slice(start, start + PIECE)
        made = _rows(*_by_weight(method, facts, length, piece, edge), own, edge)
        rows = rows or _ProgramRows(*(np.empty((length, *part.shape[1:])) for part in made))
        for whole, part in zip(rows, made, strict=True):
            whole[piece] = part
    assert rows is not None
    return _program(method, own, edge, rows, weighted, facts)


def _no_program(method: Method, reason: str) -> Unsupported:
    return Unsupported(
        f"{method.name} cannot be deployed: {reason}; use anytime-sda, ssda, sda with output='last' or burn_in=0, "
        "or a dual method of your own"
    )


def _settled(coefficients: Fields) -> int:
    """Return the first round whose coefficients all later rounds repeat, ignoring the gain, which each agent sets
    itself."""
    last = 0
    for name, value in zip(coefficients._fields, coefficients, strict=True):
        if name != "gain" and np.ndim(value):
            changes = np.flatnonzero(np.diff(value))
            last = max(last, int(changes[-1]) + 1 if changes.size else 0)
    return last


def _by_weight(
    method: Method, facts: SpectralFacts, rounds: int, piece: slice, edge: list[int]
) -> tuple[Table, Table]:
    """Return a piece of the table where a new observation has no weight, and how it grows with the weight: linearly."""
    still, half, full = (tabulate(method, facts, rounds, piece=piece, gain=gain) for gain in (0.0, 0.5, 1.0))
    slope = Table(*(a - b for a, b in zip(full, still, strict=True)))
    elsewhere = (slope.step_state[:, edge], slope.step_mixed[:, edge], slope.estimate_state)
    linear = all(
        np.allclose(middle, base + 0.5 * growth, rtol=1e-9, atol=1e-12)
        for middle, base, growth in zip(half[:-1], still[:-1], slope[:-1], strict=True)
    )
    if not linear or any(part.any() for part in elsewhere):
        raise InvalidInput(
            f"the coefficient `gain` of {type(method).__name__} must enter the message and the agent's own registers "
            "only, and linearly, because each agent puts its own weight in its place; use another name for a "
            "coefficient that is not the weight of the newest observation"
        )
    return still, slope


class _ProgramRows(NamedTuple):
    """The rows of a `LedgerProgram`, which are named there."""

    tell: Floats
    slope: Floats
    step: Floats
    estimate: Floats


def _rows(still: Table, slope: Table | None, own: list[int], edge: list[int]) -> _ProgramRows:
    rounds = still.rounds

    def tell(table: Table) -> Floats:
        from_state = np.concatenate([table.message_state[:, None], table.step_state[:, own]], axis=1)
        from_observation = np.concatenate(
            [table.message_observation[:, None], table.step_observation[:, own]], axis=1
        )
        nothing = np.zeros((rounds, 1 + len(own), 1))
        return np.concatenate(
            [from_state[:, :, own], from_observation[:, :, None], from_state[:, :, edge], nothing], axis=2
        )

    tells = tell(still)
    growth = np.zeros_like(tells) if slope is None else tell(slope)
    answer, nothing = still.estimate_state, np.zeros((rounds, 1))
    return _ProgramRows(
        tells,
        growth,
        _steps(still, edge),
        np.concatenate([answer[:, own], nothing, answer[:, edge], nothing], axis=1),
    )


def _steps(table: Table, edge: list[int]) -> Floats:
    return np.concatenate([table.step_mixed[:, edge, None], table.step_state[:, edge][:, :, edge]], axis=2)


def _program(
    method: Method, own: list[int], edge: list[int], rows: _ProgramRows, weighted: bool, facts: SpectralFacts
) -> LedgerProgram:
    names: tuple[str, ...] = method.State._fields
    held = tuple(names[i] for i in own)
    tells, growth, step, estimate = rows
    if method.after_loss is not None:
        length = len(step)
        pieces = (slice(start, start + PIECE) for start in range(0, length, PIECE))
        later = (tabulate(method.after_loss, facts, length, piece=piece) for piece in pieces)
        step = np.concatenate([step, *(_steps(table, edge) for table in later)])
    mean = _mean(tells, growth, len(own))
    if mean is None:  # one more row and column: mean' = mean + weight (observation - mean)
        mean = len(own)
        held += ("own_mean",)
        tells, growth = (
            np.insert(np.pad(a, ((0, 0), (0, 1), (0, 0))), mean, 0.0, axis=2) for a in (tells, growth)
        )
        estimate = np.insert(estimate, mean, 0.0, axis=1)
        tells[:, -1, mean] = 1.0
        growth[:, -1, [mean, mean + 1]] = -1.0, 1.0
    at_edge = tuple(names[i] for i in edge)
    return LedgerProgram(method.name, held, at_edge, mean, weighted, tells, growth, step, estimate)


def _mean(tells: Floats, growth: Floats, own: int) -> int | None:
    """Return which own register is the running mean of the observations, r + weight (observation - r)."""
    unit = np.eye(tells.shape[2])
    for r in range(own):
        if np.all(tells[:, 1 + r] == unit[r]) and np.all(growth[:, 1 + r] == unit[own] - unit[r]):
            return r
    return None
