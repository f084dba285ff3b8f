"""Recorded steps of an environment: states, the rewards of all agents, next states, and where episodes end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gossamer import checks
from gossamer.applications.values import environments, recordings
from gossamer.arrays import AnyArray, Booleans, Floats
from gossamer.errors import InvalidInput


@dataclass(frozen=True, eq=False, repr=False)
class Experience:
    """T steps, one after another. With trajectories of their own, agents are the second axis of every array.

    Attributes
    ----------
    states : array
        Observed states, shape (T, ...) if all agents share them, or (T, N, ...).
    rewards : array
        Reward of each agent in each step, shape (T, N).
    next_states : array
        The states after each step, shaped like `states`.
    terminated : array
        Whether the episode is over, so that nothing follows its next state, shape (T,) or (T, N).
    truncated : array
        Whether the episode was cut off here, so that the next state still has a value, shape (T,) or (T, N).
    importance : array
        Probability of the action by the policy to evaluate, divided by that of the policy that acted, shape (T,) or
        (T, N); 1 on policy.

    See Also
    --------
    gossamer.ValueEstimation : Estimates values from it.
    RandomFourier : Features of its states.
    TileCoding : Features of its states.

    Examples
    --------
    >>> steps = gs.applications.Experience.of(states=[0, 1, 2], rewards=[[1.0, 0.0], [0.0, 3.0]])
    >>> steps
    Experience(2 steps, 2 agents, 1 episode)
    """

    states: AnyArray
    rewards: Floats
    next_states: AnyArray
    terminated: Booleans
    truncated: Booleans
    importance: Floats

    @classmethod
    def of(
        cls,
        states: object,
        rewards: object,
        next_states: object = None,
        terminated: object = None,
        truncated: object = None,
        *,
        importance: object = None,
        shared: bool = True,
    ) -> Experience:
        """Return checked experience; without `next_states`, `states` has one more row than `rewards`."""
        states = _array("states", states)
        rewards = checks.array("rewards", rewards, (None, None))
        steps, agents = rewards.shape
        if not steps:
            raise InvalidInput("at least one step is needed, got none", parameter="rewards")
        if next_states is None:
            if len(states) != steps + 1:
                raise InvalidInput(
                    f"must have one more row than rewards ({steps + 1}) if there are no next_states, got {len(states)}",
                    parameter="states",
                )
            if terminated is not None or truncated is not None:
                raise InvalidInput(
                    "are needed with terminated or truncated, because the state after an episode is not the first "
                    "one of the next",
                    parameter="next_states",
                )
            states, following = states[:-1], states[1:]
        else:
            following = _array("next_states", next_states)
        if following.shape != states.shape or len(states) != steps:
            raise InvalidInput(
                f"states, next_states and rewards must have one row for each step, got {states.shape}, "
                f"{following.shape} and {rewards.shape}"
            )
        rows: tuple[int, ...] = (steps,) if shared else (steps, agents)
        if states.shape[: len(rows)] != rows:
            raise InvalidInput(
                parameter="states",
                required=f"of shape ({steps}, {agents}, ...), a state for each agent, because shared=False",
                got=f"shape {states.shape}",
            )
        ratios = np.ones(rows) if importance is None else checks.array("importance", importance, rows)
        if ratios.min() < 0:
            raise InvalidInput(
                parameter="importance",
                required="ratios of probabilities, at least 0",
                got=f"{ratios.min():g}",
            )
        if not ratios.any():
            raise InvalidInput(
                "are 0 in all steps: the policy to evaluate takes none of these actions",
                parameter="importance",
            )
        ends, cuts = _flags("terminated", terminated, rows), _flags("truncated", truncated, rows)
        return cls(states, rewards, following, ends, cuts & ~ends, ratios)

    # -- environments -------------------------------------------------------------------------------------------

    @classmethod
    def from_gymnasium(
        cls,
        environment: object,
        policy: object = "uniform",
        steps: int = 10_000,
        agents: int = 1,
        *,
        shared: bool = True,
        rule: str = "perturb",
        spread: float = 1.0,
        seed: int = 0,
        **options: object,
    ) -> Experience:
        """Record steps of any environment of Gymnasium, with or without a table.

        Parameters
        ----------
        environment
            Its id, such as "CartPole-v1" or "cartpole" for the newest version (`options` go to gymnasium.make), or an
            environment. In a vectorized one, every agent has its own copy.
        policy
            A function from an observation to an action (from a batch to a batch, if vectorized), or "uniform".
        steps
            Number of steps.
        agents
            Number of agents of the network.
        shared
            Whether all agents see one environment. If not, an id gives every agent its own copy.
        rule, spread
            How agents share the reward of one environment: see `problems.share_rewards`.
        seed
            The seed of the environment, of uniform actions, and of the shares.

        Examples
        --------
        >>> steps = gs.applications.Experience.from_gymnasium("cartpole", lambda x: int(x[2] > 0), 500, agents=4)
        >>> steps.states.shape, steps.rewards.shape, steps.episodes > 5
        ((500, 4), (500, 4), True)
        """
        columns = environments.record_gymnasium(
            environment, policy, steps, agents, shared=shared, rule=rule, spread=spread, seed=seed, **options
        )
        return cls.of(*columns, shared=columns[-1].ndim == 1)

    @classmethod
    def from_pettingzoo(
        cls,
        environment: object,
        policies: object = "uniform",
        steps: int = 10_000,
        *,
        seed: int = 0,
        **options: object,
    ) -> Experience:
        """Record steps of a parallel environment of PettingZoo: the joint observation, and every agent's own reward.

        Agents that have left an episode observe zeros and get no reward. An episode ends when all have left; it
        counts as truncated if one of the last to leave was truncated.

        Parameters
        ----------
        environment
            A parallel environment, or the name of its module such as "mpe2.simple_spread_v3" (`options` go to
            parallel_env).
        policies
            A function from an agent's own observation to its action, or "uniform", or one of these for each agent.
        steps, seed
            Number of steps; the seed of the environment and of uniform actions.
        """
        return cls.of(*environments.record_pettingzoo(environment, policies, steps, seed=seed, **options))

    def __repr__(self) -> str:
        episodes = self.episodes
        return (
            f"Experience({len(self.rewards)} steps, {self.rewards.shape[1]} agents, "
            f"{episodes} episode{'s'[: episodes != 1]})"
        )

    def first(self, steps: int) -> Experience:
        """Return the first steps."""
        steps = checks.whole_number("steps", steps, least=1)
        return Experience(**{name: array[:steps] for name, array in vars(self).items()})

    @property
    def last(self) -> Booleans:
        """Where an episode ends, for either reason."""
        return self.terminated | self.truncated

    @property
    def episodes(self) -> int:
        """Number of episodes, including those that are not over at the end."""
        return int(self.last[:-1].sum()) + (1 if self.last.ndim == 1 else self.last.shape[1])

    @property
    def effective_share(self) -> float:
        r"""The share of all steps that weighted steps are worth, :math:`(\sum w)^2 / \sum w^2` of their number."""
        squares = float((self.importance**2).mean())
        return float(self.importance.mean()) ** 2 / squares if squares > 0 else 0.0

    # -- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write a file that `read` reads: Parquet for one trajectory that all agents see, else `.npz`."""
        recordings.write(Path(path), vars(self))

    @classmethod
    def read(cls, path: str | Path, agents: int | None = None) -> Experience:
        """Read recorded steps.

        - `.parquet`: columns state_0, state_1, ..., reward_0, ..., next_state_0, ...; a state that is one whole number
          is the number of a state.
        - `.npz`: arrays states, rewards, next_states.
        - `.jsonl`: one object for each step, with state, rewards and next_state.
        - a folder: a dataset of Minari; its episodes are dealt to `agents` agents in turn, and every agent keeps
          as many steps as the agent with the fewest.

        terminated, truncated and importance are optional.
        """
        columns = recordings.read(Path(path), agents)
        try:
            alike = all(
                np.asarray(columns.get(name)).ndim < 2 for name in ("terminated", "truncated", "importance")
            )
            return cls.of(**columns, shared=alike)
        except InvalidInput as error:
            raise error.inside(str(path)) from None


def _array(name: str, values: object) -> AnyArray:
    """Return an array of integers (numbers of states) or of finite floats."""
    array = checks.array(name, values)
    given = np.asarray(values)
    if given.ndim >= 1 and given.dtype.kind in "iu":
        return given
    if array.ndim == 0:
        raise InvalidInput(parameter=name, required="a sequence of states", got=checks.brief(values))
    return array


def _flags(name: str, values: object, shape: tuple[int, ...]) -> Booleans:
    if values is None:
        return np.zeros(shape, dtype=bool)
    flags = np.asarray(values)
    if flags.shape != shape or not np.isin(flags, (0, 1)).all():
        raise InvalidInput(
            parameter=name,
            required=f"True or False for each step, of shape {shape}",
            got=f"shape {flags.shape}" if flags.shape != shape else checks.brief(values),
        )
    return flags.astype(bool)
