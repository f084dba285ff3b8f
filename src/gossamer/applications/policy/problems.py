"""Problems for policy evaluation: random processes, chains, grid worlds, Gymnasium environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.linalg import splu

from gossamer import checks
from gossamer.arrays import Floats, Integers, extent
from gossamer.errors import InvalidInput, nearest, require

RULES = ("perturb", "split", "one", "same")

MOST_STATES = 10**7

DISCOUNT = 0.9
"""The default discount, everywhere."""


@dataclass(frozen=True, repr=False, eq=False)
class MarkovRewardProcess:
    """Transitions P (S, S) under a policy, the expected reward of every state, and a name."""

    transitions: sp.csr_matrix
    reward: Floats
    name: str

    @property
    def states(self) -> int:
        return len(self.reward)

    def __repr__(self) -> str:
        return f"MarkovRewardProcess({self.name}, {self.states} states, rewards {extent(self.reward)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MarkovRewardProcess):
            return NotImplemented
        return (
            self.name == other.name
            and self.transitions.shape == other.transitions.shape
            and (self.transitions != other.transitions).nnz == 0
            and np.array_equal(self.reward, other.reward)
        )

    __hash__ = None  # type: ignore[assignment]


def garnet(states: int = 20, branching: int = 3, seed: int = 0) -> MarkovRewardProcess:
    """Return a random process: `branching` next states per state, random probabilities, rewards uniform on [0, 1]."""
    states = _states(states, 1)
    branching = checks.whole_number("branching", branching, least=1, most=states)
    rng = np.random.default_rng(checks.seed(seed))
    columns = (
        np.argsort(rng.random((states, states)), axis=1)[:, :branching]
        if states <= 2000
        else np.stack([rng.choice(states, branching, replace=False) for _ in range(states)])
    )
    # Cutting the unit interval at uniform points gives a flat Dirichlet distribution.
    shares = rng.dirichlet(np.ones(branching), size=states)
    rows = np.repeat(np.arange(states), branching)
    matrix = sp.csr_matrix((shares.ravel(), (rows, columns.ravel())), shape=(states, states))
    return MarkovRewardProcess(matrix, rng.random(states), f"garnet:{states}x{branching}")


def _states(number: int, least: int) -> int:
    states = checks.whole_number("states", number, least=least)
    return states if states <= MOST_STATES else checks.whole_number("states", states, most=MOST_STATES)


def chain(states: int = 10, forward: float = 0.7) -> MarkovRewardProcess:
    """Return a random walk on a line: one step right with probability `forward`, else left; the ends reflect.

    The reward is 1 in the last state and 0 elsewhere.
    """
    states = _states(states, 2)
    forward = checks.probability("forward", forward)
    state = np.arange(states)
    ends = np.concatenate([np.minimum(state + 1, states - 1), np.maximum(state - 1, 0)])
    weights = np.repeat([forward, 1 - forward], states)
    matrix = sp.csr_matrix((weights, (np.tile(state, 2), ends)), shape=(states, states))
    return MarkovRewardProcess(_tidy(matrix), (state == states - 1).astype(float), f"chain:{states}")


def grid_world(rows: int = 5, cols: int = 5, slip: float = 0.2) -> MarkovRewardProcess:
    """Return a walk to the far corner of a grid: along the longer remaining side, or with probability `slip` anywhere.

    Every step has the reward -1 until the corner, which is absorbing.
    """
    rows, cols = checks.whole_number("rows", rows, least=1), checks.whole_number("cols", cols, least=1)
    slip = checks.probability("slip", slip)
    count = _states(rows * cols, 2)
    matrix = sp.lil_matrix((count, count))
    for s in range(count - 1):
        r, c = divmod(s, cols)
        aims = [(r + dr, c + dc) for dr, dc in ((1, 0), (0, 1), (-1, 0), (0, -1))]
        ends = [min(max(a, 0), rows - 1) * cols + min(max(b, 0), cols - 1) for a, b in aims]
        # Head along the longer of the two remaining distances.
        matrix[s, ends[0] if rows - 1 - r >= cols - 1 - c else ends[1]] += 1 - slip
        for end in ends:
            matrix[s, end] += slip / 4
    matrix[count - 1, count - 1] = 1.0
    reward = np.full(count, -1.0)
    reward[-1] = 0.0
    return MarkovRewardProcess(_tidy(matrix.tocsr()), reward, f"grid-world:{rows}x{cols}")


def from_gymnasium(
    environment: object, policy: str | ArrayLike = "optimal", discount: float = DISCOUNT, **options: object
) -> MarkovRewardProcess:
    """Return the process that a policy induces on a tabular Gymnasium environment (FrozenLake, Taxi, CliffWalking).

    environment  its id, such as "FrozenLake-v1" or "FrozenLake" for the newest version (`options` go to
                 gymnasium.make), or an environment with `env.unwrapped.P`
    policy       "optimal" (value iteration with `discount`), "uniform", one action per state, or a table (S, A)
    Every state in which an episode ends is absorbing, with reward 0 from then on.
    """
    made = make(environment, options)
    unwrapped = made.unwrapped
    table, spec = getattr(unwrapped, "P", None), getattr(unwrapped, "spec", None)
    name = str(spec.id) if spec else type(unwrapped).__name__
    if isinstance(environment, str):
        made.close()
    if table is None:
        raise InvalidInput(
            f"{name} has no table of transitions (env.unwrapped.P); tabular environments such as FrozenLake, Taxi and "
            "CliffWalking have one, and gs.ValueEstimation.from_gymnasium takes any environment"
        )
    moves, rewards = _tables(table)
    chosen = _policy(policy, moves, rewards, check_discount(discount))
    transitions = sum(sp.diags_array(chosen[:, a]) @ move for a, move in enumerate(moves))
    reward = (chosen * rewards).sum(axis=1)
    return MarkovRewardProcess(_tidy(sp.csr_matrix(transitions)), reward, name)


class Space(Protocol):
    """A space of actions or observations in Gymnasium."""

    def seed(self, seed: int) -> object: ...
    def sample(self) -> object: ...
    def contains(self, x: object) -> bool: ...


class Environment(Protocol):
    """An environment of Gymnasium."""

    @property
    def unwrapped(self) -> object: ...

    observation_space: Space
    action_space: Space

    def reset(self, *, seed: int | None = None) -> tuple[object, object]: ...
    def step(self, action: object) -> tuple[object, float, bool, bool, object]: ...
    def close(self) -> None: ...


def make(environment: object, options: Mapping[str, object], copies: int | None = None) -> Environment:
    """Return the environment with this id, or the given one; with `copies`, a vectorized one with that many copies."""
    if isinstance(environment, str):
        gymnasium = require("gymnasium", "rl")
        name = _newest(environment, gymnasium.registry)
        try:
            if copies is None:
                return cast(Environment, gymnasium.make(name, **options))
            return cast(Environment, gymnasium.make_vec(name, num_envs=copies, **options))
        except (gymnasium.error.Error, ImportError) as error:
            raise InvalidInput(f"Gymnasium cannot make {environment!r}: {error}") from error
    if not hasattr(environment, "unwrapped"):
        raise InvalidInput(
            parameter="environment",
            required="the id of a Gymnasium environment or one itself",
            got=repr(environment),
        )
    return cast(Environment, environment)


def _newest(name: str, registry: Mapping[str, Spec]) -> str:
    """Return the id with a version: `taxi` is the newest installed version of Taxi, `Taxi-v4` that version."""
    wanted = name.lower()
    versions = [
        (spec.version, id)
        for id, spec in registry.items()
        if spec.version is not None and spec.namespace is None and wanted in (spec.name.lower(), id.lower())
    ]
    return max(versions, default=(0, name))[1]


class Spec(Protocol):
    """An entry of Gymnasium's registry."""

    name: str
    namespace: str | None
    version: int | None


def _tables(table: Any) -> tuple[list[sp.csr_matrix], Floats]:
    """Return one transition matrix per action, and the expected rewards (S, A); final states are absorbing."""
    states = len(table)
    actions = len(table[0])
    final = {end for row in table.values() for outs in row.values() for _, end, _, over in outs if over}
    rewards = np.zeros((states, actions))
    moves = []
    for a in range(actions):
        entries = [
            (s, end, p) for s in range(states) if s not in final for p, end, _, _ in table[s][a] if p > 0
        ] + [(s, s, 1.0) for s in final]
        rows, cols, weights = zip(*entries, strict=True)
        moves.append(sp.csr_matrix((weights, (rows, cols)), shape=(states, states)))
        for s in range(states):
            if s not in final:
                rewards[s, a] = sum(p * r for p, _, r, _ in table[s][a])
    return moves, rewards


def _policy(policy: str | ArrayLike, moves: list[sp.csr_matrix], rewards: Floats, discount: float) -> Floats:
    """Return the policy as a checked table (S, A)."""
    states, actions = rewards.shape
    if isinstance(policy, str):
        if policy == "uniform":
            return np.full((states, actions), 1.0 / actions)
        if policy == "optimal":
            return _one_hot(value_iteration(moves, rewards, discount), actions)
        raise InvalidInput(
            parameter="policy",
            required="'optimal', 'uniform' or a table",
            got=f"{policy!r}{nearest(policy, ('optimal', 'uniform'))}",
        )
    given = checks.array("policy", policy)
    if given.shape == (states,) and np.all(given == np.floor(given)):
        if given.min() < 0 or given.max() >= actions:
            raise InvalidInput(
                parameter="actions",
                required=f"numbers from 0 to {actions - 1}",
                got=f"{given.min():g} to {given.max():g}",
            )
        return _one_hot(given.astype(int), actions)
    return check_policy(given, states, actions)


def _one_hot(actions: Integers, count: int) -> Floats:
    return np.asarray(np.eye(count)[actions])


def check_policy(table: Floats, states: int, actions: int) -> Floats:
    """Return the table of action probabilities, or say which row is wrong."""
    if table.shape != (states, actions):
        raise InvalidInput(
            f"a policy must be a table of shape ({states}, {actions}), states by actions, or one action per state, "
            f"got shape {table.shape}"
        )
    empty = np.flatnonzero(table.sum(axis=1) == 0)
    if len(empty):
        raise InvalidInput(
            f"every state needs an action, but the policy's row of state {empty[0]} is empty "
            f"({len(empty)} such rows); give it probabilities that sum to 1"
        )
    off = np.abs(table.sum(axis=1) - 1)
    if table.min() < 0 or not np.all(np.isfinite(table)) or off.max() > 1e-6:
        worst = int(np.argmin(table.min(axis=1))) if table.min() < 0 else int(np.argmax(off))
        raise InvalidInput(
            f"every row of a policy must hold probabilities that sum to 1, but the row of state {worst} is "
            f"{table[worst].tolist()}"
        )
    return table


def value_iteration(
    moves: list[sp.csr_matrix], rewards: Floats, discount: float, tolerance: float = 1e-10
) -> Integers:
    """Return (S,) the best action of every state, by iterating the Bellman operator until nothing changes."""
    value = np.zeros(len(rewards))
    while True:
        scores = rewards + discount * np.column_stack([move @ value for move in moves])
        better = scores.max(axis=1)
        if np.abs(better - value).max() <= tolerance * (1 - discount):
            # Rounding must not decide between equal actions.
            best: Integers = np.argmax(
                scores >= better[:, None] - 1e-9 * (1 + np.abs(better[:, None])), axis=1
            )
            return best
        value = better


def share_rewards(
    reward: ArrayLike, agents: int, rule: str = "perturb", spread: float = 1.0, seed: int = 0
) -> Floats:
    """Return (N, S) rewards of the agents, whose average is `reward`.

    "perturb"  reward + spread times normal numbers, minus their average
    "split"    agent i sees a random share of the reward
    "one"      one random agent sees all of it, the others nothing
    "same"     every agent sees the reward
    """
    checks.choice("rule", rule, RULES)
    whole = checks.array("reward", reward, (None,))
    agents = checks.whole_number("agents", agents, least=1, most=MOST_STATES)
    spread = checks.number("spread", spread)
    rng = np.random.default_rng(checks.seed(seed))
    if rule == "perturb":
        spread = checks.number("spread", spread, least=0)
        noise = rng.normal(size=(agents, len(whole)))
        shared = whole + spread * (noise - noise.mean(axis=0))
    elif rule == "split":
        shared = agents * rng.dirichlet(np.ones(agents))[:, None] * whole
    elif rule == "one":
        shared = agents * np.eye(agents)[rng.integers(agents)][:, None] * whole
    else:
        shared = np.tile(whole, (agents, 1))
    return np.asarray(shared)


def stationary_distribution(transitions: sp.csr_matrix) -> Floats:
    """Return (S,) the long-run distribution of a process, averaged over starting states."""
    # (1 - c)(I - c P')^{-1} u tends to the long-run average as c -> 1, for any number of classes and periods.
    states = transitions.shape[0]
    system = sp.eye_array(states) - (1 - 1e-8) * transitions.T
    spread = np.clip(splu(sp.csc_array(system)).solve(np.ones(states)), 0, None)
    distribution: Floats = spread / spread.sum()
    return distribution


def check_transitions(matrix: object) -> sp.csr_matrix:
    """Return P as a CSR matrix with stored positive entries, or say why it is not a transition matrix."""
    transitions = sp.csr_matrix(
        matrix if sp.issparse(matrix) else checks.array("P", matrix, (None, None)), dtype=float
    )
    if transitions.shape[0] != transitions.shape[1] or transitions.shape[0] == 0:
        raise InvalidInput(f"a transition matrix must be square, got shape {transitions.shape}")
    if not np.all(np.isfinite(transitions.data)) or (transitions.nnz and transitions.data.min() < 0):
        raise InvalidInput("transition probabilities must be finite and not negative; check the matrix P")
    sums = np.asarray(transitions.sum(axis=1)).ravel()
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > 1e-8:
        raise InvalidInput(
            f"every row of a transition matrix must sum to 1, but row {worst} sums to {sums[worst]:.6g}; "
            "a row holds the probabilities of the next state"
        )
    return _tidy(transitions)


def check_discount(discount: float) -> float:
    """Return gamma, or say what is wrong with it."""
    return checks.number("discount", discount, least=0, below=1)


def _tidy(matrix: sp.csr_matrix) -> sp.csr_matrix:
    matrix = sp.csr_matrix(matrix)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix
