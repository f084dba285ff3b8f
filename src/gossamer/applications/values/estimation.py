"""Values from experience: agents that see one environment, each with its own rewards, learn the values of their average
reward by averaging least-squares temporal differences.

See `lstd.py` for the equations. If all agents see the same states, A is common and only b is averaged; if each has an
environment of its own, A is averaged as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import checks
from gossamer.applications.policy import problems
from gossamer.applications.policy.evaluation import PolicyEvaluation
from gossamer.applications.solvers import Alone, settled
from gossamer.applications.values.averaging import Averaging
from gossamer.applications.values.experience import Experience
from gossamer.applications.values.lstd import (
    BATCHES,
    FREEDOM,
    RIDGE,
    SHORTEST,
    TraceSteps,
    Transitions,
    check_varied,
    slices,
    slow_parts,
    solve,
    steps_of,
)
from gossamer.applications.values.online import OnlineValues
from gossamer.applications.values.process import TableProcess
from gossamer.applications.values.results import ValueFit, ValueRun, ValueRuns, check_states
from gossamer.applications.values.rivals import DistributedTD, OneShot
from gossamer.applications.values.simulation import Solver, alone, run, together
from gossamer.arrays import AnyArray, Floats, Integers
from gossamer.engines.results import OneOrMore
from gossamer.errors import InvalidInput
from gossamer.faults import FaultsLike
from gossamer.features import features_of, fitted, memory_of, rows_of
from gossamer.least_squares import pack, unpack
from gossamer.methods import AnytimeSDA, Method, resolve
from gossamer.networks import ChangingNetwork, Network, NetworkLike

STEPS = (1.0, 2.0, 4.0, 8.0)
"""The first steps of temporal differences that `compare` tries."""


class ValueEstimation:
    r"""Agents that learn the values of a policy from experience, with features of states.

    Parameters
    ----------
    network : Network, NetworkX graph or str
        The network of the N agents, for example "grid:10x10".
    features : callable, array_like, str or transformer
        A function from a batch of states to rows of numbers (M, p); a table (S, p) for states 0 .. S-1; a text,
        "fourier:50" (see `RandomFourier`), "tiles:8x8" (see `TileCoding`), "linear" or "table:16" (one value for each
        of 16 states), or one of these classes; or a transformer of scikit-learn.
    discount : float
        Discount factor :math:`\gamma` per step, at least 0 and below 1; 1 for the average reward.
    trace : float
        Decay :math:`\lambda` of the eligibility trace, from 0 to below 1 (1 is allowed with a discount below 1).
    ridge : float, optional
        A penalty in units of the mean squares of the features. None is 0.01 divided by the number of steps: values
        always exist, also with collinear features, and the bias vanishes faster than the standard error.
    shared : bool
        Whether all agents see the same states. If not, each has an environment of its own.
    average : bool
        Whether values are relative to the average reward per step; the discount is then 1.
    process : PolicyEvaluation, optional
        A process with a table of transitions, for `simulate`; see `from_policy`.

    See Also
    --------
    PolicyEvaluation : Values of a known chain with noisy rewards.
    gossamer.applications.Experience : The trajectories that it reads.
    gossamer.applications.DistributedTD : An estimator to compare with.

    Examples
    --------
    >>> from gossamer.applications import problems
    >>> task = gs.PolicyEvaluation.from_problem("cycle:5", problems.garnet(30, 3), discount=0.9)
    >>> phi = np.random.default_rng(0).random((30, 4))
    >>> run = gs.ValueEstimation.from_policy(task, phi).simulate("anytime-sda", 1000, trials=4)
    >>> bool(run.over_limit < 1.2)
    True
    """

    def __init__(
        self,
        network: NetworkLike,
        features: object,
        discount: float,
        trace: float = 0.0,
        *,
        ridge: float | None = None,
        shared: bool = True,
        average: bool = False,
        process: PolicyEvaluation | None = None,
    ) -> None:
        self.network = Network.of(network)
        self.features = features_of(features)
        for name, value in (("shared", shared), ("average", average)):
            if not isinstance(value, bool):
                raise InvalidInput(parameter=name, required="True or False", got=checks.brief(value))
        self.shared, self.average = shared, average
        discount = checks.number("discount", discount, least=0, most=1)
        if discount == 1 and not average:
            raise InvalidInput(
                "of 1 has no finite values in general; use a discount below 1, or average=True for values relative to "
                "the average reward",
                parameter="discount",
            )
        if average and discount != 1:
            raise InvalidInput(
                parameter="discount", required="1 with average=True", got=checks.brief(discount)
            )
        self.discount = 1.0 if average else problems.check_discount(discount)
        self.trace = checks.number("trace", trace, least=0, most=1)
        if average and self.trace == 1:
            raise InvalidInput(parameter="trace", required="below 1 with average=True", got="1")
        self.ridge = None if ridge is None else checks.number("ridge", ridge, least=0)
        self.task = process
        self.size = 0 if process is None else self.process.features.shape[1]
        self._last: tuple[object, Averaging] | None = None
        self.limits: dict[tuple[object, ...], Floats] = {}

    @classmethod
    def from_policy(
        cls,
        task: PolicyEvaluation,
        features: object,
        trace: float = 0.0,
        *,
        ridge: float | None = None,
        shared: bool = True,
        average: bool = False,
    ) -> ValueEstimation:
        """Estimate the values of a `PolicyEvaluation` from trajectories, with features of its states."""
        if not isinstance(task, PolicyEvaluation):
            raise InvalidInput(parameter="task", required="a gs.PolicyEvaluation", got=checks.brief(task))
        return cls(
            task.network,
            features,
            1.0 if average else task.discount,
            trace,
            ridge=ridge,
            shared=shared,
            average=average,
            process=task,
        )

    @classmethod
    def from_gymnasium(
        cls,
        network: NetworkLike,
        environment: object,
        policy: object = "uniform",
        features: object = "fourier:50",
        discount: float = 0.95,
        *,
        trace: float = 0.0,
        **recording: Any,
    ) -> ValueFit:
        """Return every agent's values of a policy in any environment of Gymnasium.

        `recording` are `steps` and the other arguments of `Experience.from_gymnasium`.

        Examples
        --------
        >>> fit = gs.ValueEstimation.from_gymnasium("cycle:4", "cartpole", lambda x: int(x[2] > 0), steps=2000)
        >>> fit.values(fit.seen[:3]).shape
        (4, 3)
        """
        net = Network.of(network)
        given = Experience.from_gymnasium(environment, policy, agents=net.agents, **recording)
        problem = cls(net, features, discount, trace, shared=given.last.ndim == 1)
        return problem.from_trajectories(given)

    @classmethod
    def from_pettingzoo(
        cls,
        environment: object,
        policies: object = "uniform",
        features: object = "fourier:50",
        discount: float = 0.95,
        *,
        network: NetworkLike | None = None,
        trace: float = 0.0,
        **recording: Any,
    ) -> ValueFit:
        """Return the values of the joint observation at every agent of a parallel environment of PettingZoo.

        `recording` are `steps` and the other arguments of `Experience.from_pettingzoo`. `network` must have as many
        agents as the environment; a cycle by default.
        """
        given = Experience.from_pettingzoo(environment, policies, **recording)
        agents = given.rewards.shape[1]
        net = Network.of(network or f"{'cycle' if agents > 2 else 'path'}:{agents}")
        return cls(net, features, discount, trace).from_trajectories(given)

    def __repr__(self) -> str:
        size = f"{self.size} features" if self.size else type(self.features).__name__
        return f"ValueEstimation({self.network!r}, {size}, discount {self.discount:g}, trace {self.trace:g})"

    # -- features ---------------------------------------------------------------------------------------------

    def rows(self, states: AnyArray) -> Floats:
        """Return (M, p) the features of a batch of states; those with a scale are fitted to the first batch."""
        states = check_states(states)
        self.features = fitted(self.features, states)
        rows = rows_of(self.features, states, self.size or None)
        self.size = rows.shape[1]
        return rows

    @cached_property
    def process(self) -> TableProcess:
        """The process that `simulate` walks through."""
        if self.task is None:
            raise InvalidInput(
                "a simulation needs a process whose values are known; use ValueEstimation.from_policy, or hand in your "
                "own steps with online() or from_trajectories()"
            )
        states = np.arange(self.task.states)
        self.features = fitted(self.features, states)
        table = rows_of(self.features, states)
        check_varied(table)
        return TableProcess(self.task, table, self.trace, self.average)

    @property
    def approximation_error(self) -> float:
        """The squared distance between the true values of a process and the values that the features converge to."""
        return self.process.approximation_error

    def ridge_for(self, steps: int) -> float:
        """Return the ridge after this many steps of all trajectories."""
        return RIDGE / checks.whole_number("steps", steps, least=1) if self.ridge is None else self.ridge

    # -- simulated trajectories ---------------------------------------------------------------------------------

    def simulate(
        self,
        methods: Solver | Sequence[Solver],
        rounds: int | Sequence[int] | Integers,
        trials: int = 20,
        seed: int = 0,
        *,
        faults: FaultsLike = None,
        network: ChangingNetwork | None = None,
    ) -> Any:
        """Run one method, or several of them on the same trajectories, in `trials` independent trials.

        Parameters
        ----------
        methods
            A method that averages, or its name; or one of `DistributedTD`, `OneShot`, `Alone`, `Centralized` of
            `gs.applications`; or a list.
        rounds
            One number of steps, or several.
        trials, seed
            Number of trials, and their seed.
        faults
            Faults (`gs.faults`), for methods that average.
        network
            A changing network instead of the problem's own.

        Returns
        -------
        ValueRun or ValueRuns
            Errors, next to those of a center; for a list of methods, all of them.
        """
        some = methods if isinstance(methods, list | tuple) else [methods]
        if not some:
            raise InvalidInput("at least one method is needed, got none")
        trials, seed = checks.whole_number("trials", trials, least=1, most=2**32), checks.seed(seed)
        runs = [run(self, solver, rounds, trials, seed, faults, network) for solver in some]
        return ValueRuns(runs) if isinstance(methods, list | tuple) else runs[0]

    def compare(
        self,
        rounds: int | Sequence[int] | Integers,
        trials: int = 20,
        seed: int = 0,
        *,
        steps: Sequence[float] = STEPS,
    ) -> ValueRuns:
        """Compare averaged least squares with temporal differences, one average at the end, and each agent alone.

        Of the `steps` of temporal differences, the one with the smallest error after the largest number of rounds is
        shown, which requires knowing the values; its note says so.
        """
        runs = [self.simulate(AnytimeSDA(), rounds, trials, seed)]
        last = int(np.argmax(np.atleast_1d(runs[0].rounds)))

        def error(run: ValueRun[OneOrMore, OneOrMore]) -> float:
            return float(np.nan_to_num(np.atleast_1d(run.total_error)[last], nan=np.inf))

        for mixing in ("rounds", "tracking", "once"):
            rivals = [DistributedTD(step, mixing=mixing) for step in checks.listed("steps", steps)]
            best = min(self.simulate(rivals, rounds, trials, seed), key=error)
            runs.append(replace(best, tried=len(rivals)))
        return ValueRuns([*runs, *self.simulate([OneShot(), Alone()], rounds, trials, seed)])

    def averaging(
        self, method: Method, horizons: Integers, faults: FaultsLike, network: ChangingNetwork | None
    ) -> Averaging:
        """Return the averaging by a method; the last one is reused, because computing coefficients takes time."""
        asked = (method, horizons.tobytes())
        if faults is not None or network is not None:
            return Averaging(
                method, self.network if network is None else network, self.network, horizons, faults
            )
        if self._last is None or self._last[0] != asked:
            self._last = (asked, Averaging(method, self.network, self.network, horizons))
        return self._last[1]

    def steps(self, given: Transitions) -> TraceSteps:
        """Return the contribution of each step of a trajectory to the sums."""
        return steps_of(given, self.discount, self.trace, self.average)

    # -- recorded trajectories ------------------------------------------------------------------------------------

    def from_trajectories(
        self,
        experience: Experience | str | Path,
        method: Method | str | None = None,
        *,
        faults: FaultsLike = None,
        network: ChangingNetwork | None = None,
        seed: int = 0,
    ) -> ValueFit:
        """Return every agent's values after the recorded steps, one exchange with the neighbors per step.

        Parameters
        ----------
        experience
            Recorded steps (see `Experience.of` for arrays), or a file or folder of them (see `Experience.read`).
        method
            The method that averages, by default `AnytimeSDA`.
        faults, network
            As in `simulate`.
        seed
            The seed of the faults.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> states = rng.normal(size=(2001, 1)).cumsum(axis=0) * 0.9 ** np.arange(2001)[:, None]
        >>> rewards = states[:-1] + rng.normal(size=(2000, 4))
        >>> steps = gs.applications.Experience.of(states, rewards)
        >>> problem = gs.ValueEstimation("cycle:4", lambda x: np.column_stack([x, x**0]), 0.9)
        >>> fit = problem.from_trajectories(steps)
        >>> fit.values([[0.0], [1.0]]).shape, fit.standard_errors([[0.0]]).shape
        ((4, 2), (4, 1))
        """
        steps = (
            experience
            if isinstance(experience, Experience)
            else Experience.read(experience, self.network.agents)
        )
        agents = self.network.agents
        rounds = len(steps.rewards)
        if steps.rewards.shape[1] != agents:
            raise InvalidInput(
                parameter="rewards",
                required=f"one for each of {agents} agents of the network",
                got=f"{steps.rewards.shape[1]}",
            )
        if (steps.last.ndim == 1) != self.shared:
            raise InvalidInput(
                "a trajectory for each agent needs ValueEstimation(..., shared=False)"
                if self.shared
                else "shared=False needs a trajectory for each agent: Experience.of(..., shared=False)"
            )
        if self.average and steps.terminated.any():
            raise InvalidInput(
                "the average reward is for processes that go on forever, but episodes terminate; use a discount"
            )
        method = AnytimeSDA() if method is None else resolve(method)
        shape = steps.states.shape[2:] if not self.shared else steps.states.shape[1:]
        flat = [array.reshape(-1, *shape) for array in (steps.states, steps.next_states)]
        phi, following = (self.rows(states).reshape(rounds, -1, self.size) for states in flat)
        check_varied(phi)
        ends, last = (flags.reshape(rounds, -1) for flags in (steps.terminated, steps.last))
        ratios = steps.importance.reshape(rounds, -1)
        trajectories = [
            self.steps(Transitions(phi[:, i], following[:, i], own, ends[:, i], last[:, i], ratios[:, i]))
            for i, own in enumerate([steps.rewards] if self.shared else steps.rewards.T[..., None])
        ]
        averaging = self.averaging(method, np.array([rounds]), faults, network)
        batches = BATCHES if rounds >= BATCHES * SHORTEST else 1
        ridge = self.ridge_for(rounds * len(trajectories))
        if self.shared:
            sums = averaging.shared(trajectories[:1], seed, batches)[0][0]
        else:
            sums = averaging.separate([trajectories], seed)[0][0]
        theta = solve(sums, ridge)
        spreads, freedom = None, float(FREEDOM)
        if not self.shared and batches > 1:
            spreads, freedom = self._own_spreads(trajectories, theta, method)
        # Each agent tells from its own steps how long they remember; these numbers are averaged as well.
        decays = self.discount * self.trace * (1 - last.mean(axis=0))
        memory = np.mean(
            [
                max(memory_of(phi[:, i], own.rewards.mean(axis=1)), (1 + decays[i]) / (1 - decays[i]))
                for i, own in enumerate(trajectories)
            ]
        )
        pooled = together(alone(self, trajectories), 1)
        kept = np.linspace(0, len(flat[0]) - 1, min(len(flat[0]), 500)).round().astype(int)
        return ValueFit(
            problem=self,
            method=method,
            network=averaging.network,
            rounds=rounds,
            episodes=steps.episodes,
            theta=theta,
            center_theta=solve(pooled, ridge)[0],
            sums=sums,
            spreads=spreads,
            degrees_of_freedom=freedom,
            ridge=ridge,
            offset=phi.mean(axis=(0, 1)) if self.average else np.zeros(self.size),
            effective_share=steps.effective_share,
            parts=float(rounds / memory),
            seen=flat[0][kept],
        )

    def _own_spreads(
        self, trajectories: Sequence[TraceSteps], theta: Floats, method: Method
    ) -> tuple[Floats, float]:
        """Return every agent's average over the network of the covariances of the agents' sums, (N, P, P), and its
        degrees of freedom (Satterthwaite's)."""
        rounds = len(trajectories[0].rewards)
        spreads = []
        for own, mine in zip(trajectories, theta, strict=True):
            residuals = own.rewards[:, 0] - own.differences @ mine
            batches = [residuals[some] @ own.traces[some] for some in slices(rounds, BATCHES)]
            parts = slow_parts(np.stack(batches) / rounds)
            spreads.append(parts.T @ parts / len(parts))
        totals = np.trace(spreads, axis1=1, axis2=2)
        held = unpack(settled(method, self.network, pack(np.stack(spreads)), rounds), theta.shape[1])
        return held / self.network.agents, FREEDOM * totals.sum() ** 2 / max((totals**2).sum(), 1e-300)

    # -- steps as they come -----------------------------------------------------------------------------------------

    def online(self, method: AnytimeSDA | None = None, *, errors: bool = False) -> OnlineValues:
        """Return an online estimator, which is updated with every step.

        With `errors`, it also has standard errors; a message then holds 32 times as many numbers.
        """
        return OnlineValues(self, method, errors=errors)
