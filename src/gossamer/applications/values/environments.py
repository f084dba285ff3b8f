"""Steps of environments of Gymnasium and PettingZoo under a policy, recorded as experience."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from gossamer import checks
from gossamer.applications.policy import problems
from gossamer.applications.policy.problems import Space
from gossamer.arrays import AnyArray, Booleans, Floats
from gossamer.errors import InvalidInput, MissingExtra, require

Policy = Callable[[object], object]
"""An action for an observation; for a vectorized environment, one for each of a batch of observations."""

Columns = tuple[AnyArray, ...]
"""States, rewards, next states, ends and cuts; with copies of an environment, agents are their second axis."""


class VectorEnvironment(Protocol):
    num_envs: int
    metadata: Mapping[str, object]
    single_observation_space: Space
    action_space: Space

    def reset(self, *, seed: int | None = None) -> tuple[AnyArray, object]: ...
    def step(self, actions: object) -> tuple[AnyArray, Floats, Booleans, Booleans, object]: ...


class ParallelEnvironment(Protocol):
    possible_agents: Sequence[str]
    agents: Sequence[str]

    def observation_space(self, agent: str) -> Space: ...
    def action_space(self, agent: str) -> Space: ...
    def reset(self, seed: int | None = None) -> tuple[Mapping[str, object], object]: ...
    def step(self, actions: Mapping[str, object]) -> tuple[Mapping[str, object], ...]: ...


def record_gymnasium(
    environment: object,
    policy: object,
    steps: int,
    agents: int,
    *,
    shared: bool = True,
    rule: str = "perturb",
    spread: float = 1.0,
    seed: int = 0,
    **options: object,
) -> Columns:
    """See `Experience.from_gymnasium`."""
    steps, agents, seed = _counted(steps, agents, seed)
    made = problems.make(environment, options, None if shared else agents)
    try:
        if hasattr(made, "num_envs"):
            return _copies(cast("VectorEnvironment", made), policy, steps, seed)
        if not shared:
            raise InvalidInput(
                "shared=False needs a copy of the environment for each agent: its id, or a vectorized environment such "
                "as gymnasium.make_vec(id, num_envs=30)",
                parameter="environment",
            )
        encode, act = _encoder(made.observation_space), _actor(policy, made.action_space, seed)
        rows = []
        observation, _ = made.reset(seed=seed)
        for _ in range(steps):
            state = encode(observation)
            observation, reward, over, cut, _ = made.step(act(observation))
            rows.append((state, reward, encode(observation), over, cut))
            if over or cut:
                observation, _ = made.reset()
        states, rewards, following, ends, cuts = (np.array(column) for column in zip(*rows, strict=True))
        own = problems.share_rewards(rewards, agents, rule, spread, seed).T
        return states, own, following, ends, cuts
    finally:
        if isinstance(environment, str):
            made.close()


def _copies(environment: VectorEnvironment, policy: object, steps: int, seed: int) -> Columns:
    """Record a vectorized environment, one copy for each agent. Steps that only reset a copy are left out."""
    modes = require("gymnasium", "rl").vector.AutoresetMode
    mode = environment.metadata.get("autoreset_mode", modes.NEXT_STEP)
    if mode != modes.NEXT_STEP:
        raise InvalidInput(
            parameter="environment",
            required="a vectorized environment whose copies reset in the step after an episode ends "
            "(AutoresetMode.NEXT_STEP)",
            got=str(mode),
        )
    encode = _encoder(environment.single_observation_space)
    act = _actor(policy, environment.action_space, seed)
    rows, taken = [], []
    observations, _ = environment.reset(seed=seed)
    counts, begins = np.zeros(environment.num_envs, dtype=int), np.zeros(environment.num_envs, dtype=bool)
    while counts.min() < steps:
        states = np.array([encode(one) for one in observations])
        observations, rewards, ends, cuts, _ = environment.step(act(observations))
        after = np.array([encode(one) for one in observations])
        rows.append((states, np.array(rewards), after, np.array(ends), np.array(cuts)))
        taken.append(~begins)
        counts += ~begins
        begins = rows[-1][3] | rows[-1][4]
    order = np.argsort(~np.array(taken), axis=0, kind="stable")[:steps]  # the first steps of each copy
    own = np.arange(environment.num_envs)
    return tuple(np.array(column)[order, own] for column in zip(*rows, strict=True))


def record_pettingzoo(
    environment: object, policies: object, steps: int, *, seed: int = 0, **options: object
) -> Columns:
    """See `Experience.from_pettingzoo`."""
    steps, _, seed = _counted(steps, 1, seed)
    made = _parallel(environment, options)
    spaces = require("gymnasium", "rl").spaces
    names = list(made.possible_agents)
    seen = {name: made.observation_space(name) for name in names}
    actors = {
        name: _actor(_policy_of(policies, name, names), made.action_space(name), seed + k, "policies")
        for k, name in enumerate(names)
    }

    def joint(observations: Mapping[str, object]) -> Floats:
        """The observations of all agents, concatenated; zeros for agents that have left."""
        parts = [
            spaces.flatten(seen[name], observations[name])
            if name in observations
            else np.zeros(spaces.flatdim(seen[name]))
            for name in names
        ]
        return np.concatenate(parts).astype(float)

    rows = []
    observations, _ = made.reset(seed=seed)
    for _ in range(steps):
        state = joint(observations)
        actions = {name: actors[name](observations[name]) for name in made.agents}
        observations, rewards, _, cuts, _ = made.step(actions)
        over, cut = not made.agents, any(cuts.values())
        own = [rewards.get(name, 0.0) for name in names]
        rows.append((state, own, joint(observations), over and not cut, over and cut))
        if over:
            observations, _ = made.reset()
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def _counted(steps: int, agents: int, seed: int) -> tuple[int, int, int]:
    return (
        checks.whole_number("steps", steps, least=1),
        checks.whole_number("agents", agents, least=1),
        checks.seed(seed) % 2**31,
    )


def _encoder(space: Space) -> Callable[[object], int | Floats]:
    """Return a function from an observation to the number of a state, or to a copy as a flat array."""
    spaces = require("gymnasium", "rl").spaces
    if isinstance(space, spaces.Discrete):
        return lambda observation: int(np.asarray(observation))
    return lambda observation: np.array(spaces.flatten(space, observation), dtype=float)


def _actor(policy: object, space: Space, seed: int, parameter: str = "policy") -> Policy:
    """Return a function from observations to checked actions."""
    if policy == "uniform":
        space.seed(seed)
        return lambda _: space.sample()
    if not callable(policy):
        raise InvalidInput(
            parameter=parameter,
            required="a function from an observation to an action, or 'uniform' for random actions",
            got=checks.brief(policy),
        )

    def act(observation: object) -> object:
        try:
            action = policy(observation)
        except Exception as error:  # a function of the user's may raise anything
            raise InvalidInput(
                f"must be a function from an observation to an action, but it failed for {checks.brief(observation)}: "
                f"{type(error).__name__}: {error}",
                parameter=parameter,
            ) from error
        if not space.contains(action):
            raise InvalidInput(
                parameter=parameter,
                required=f"a function to actions of {space}",
                got=f"{checks.brief(action)}",
            )
        return action

    return act


def _policy_of(policies: object, name: str, names: Sequence[str]) -> object:
    """Return the policy of one agent."""
    if not isinstance(policies, Mapping):
        return policies
    if set(policies) != set(names):
        raise InvalidInput(
            parameter="policies",
            required=f"one function for all agents, or one for each of {', '.join(names)}",
            got=f"those of {', '.join(map(str, policies)) or 'none'}",
        )
    return policies[name]


def _parallel(environment: object, options: Mapping[str, object]) -> ParallelEnvironment:
    """Return a parallel environment of PettingZoo, by the name of its module or as it was given."""
    if isinstance(environment, str):
        try:
            environment = import_module(environment).parallel_env(**options)
        except ImportError as error:
            package = str(environment).partition(".")[0]
            raise MissingExtra(
                f"{environment} cannot be imported: {error}; run: pip install 'gossamer[rl]' {package}"
            ) from error
        except (AttributeError, TypeError) as error:
            raise InvalidInput(
                f"{environment} must be a module with parallel_env(), such as mpe2.simple_spread_v3: {error}",
                parameter="environment",
            ) from error
    if hasattr(environment, "agent_iter"):
        raise InvalidInput(
            "is an environment in which agents act in turn; use pettingzoo.utils.aec_to_parallel(environment)",
            parameter="environment",
        )
    if not hasattr(environment, "possible_agents"):
        raise InvalidInput(
            parameter="environment",
            required="a parallel environment of PettingZoo, or the name of its module such as mpe2.simple_spread_v3",
            got=checks.brief(environment),
        )
    return cast("ParallelEnvironment", environment)
