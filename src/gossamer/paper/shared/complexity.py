"""How many samples an agent needs for a given accuracy: exactly, and by the paper's protocol.

The protocol (run T = 1, 2, ... rounds, repeat 100 times, stop at the first T whose average error is at most eps) needs
new runs for every T. Here one trajectory per trial serves all T: with A_T the running mean of SDA's iterates, the
estimate of a run that starts averaging at T0 is (T A_T - T0 A_T0)/(T - T0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gossamer.arrays import Floats, Integers
from gossamer.engines.exact import propagate
from gossamer.methods import SDA, SSTM, tabulate
from gossamer.networks import Network
from gossamer.observations import Gaussian
from gossamer.paper.pipeline.results import Row
from gossamer.paper.shared import problem
from gossamer.paper.shared.modes import EverySDA, energies
from gossamer.paper.shared.problem import described, first_at_most

RESAMPLES = 200
BLOCK = 2**28
"""Largest size in bytes of the estimates of a block of trials after all numbers of rounds."""
FINE, STEP = 2048, 8
"""The protocol examines every T up to FINE and every STEP-th beyond. They are at most 0.4% apart; random variation
between runs moves the answer by 10%."""


def every_sda(net: Network, mean: Floats, least: float) -> EverySDA:
    """Return SDA for as many rounds as it takes to reach the error `least` for each of several vectors of means."""
    rounds = math.ceil(2.2 / least)
    while True:
        every = EverySDA(net, rounds)
        if np.all(every.total_error(mean)[-1] <= least):
            return every
        rounds *= 2


# -- exactly -----------------------------------------------------------------------------------------------


def exact_samples(
    graph: str, agents: int, spread: float, large: Sequence[float], small: Sequence[float],
    first: int, draws: int, seed: int,
) -> list[Row]:  # fmt: skip
    """Return the samples of SDA, and for large accuracies of SSTM_sc with the paper's and tuned batches, per draw."""
    rows: list[Row] = []
    numbers = list(range(first, first + draws))
    for group in [[d] for d in numbers] if graph == "erdos-renyi" else [numbers]:
        net = problem.network(graph, agents, seed, group[0])
        mean = np.stack([problem.means(agents, spread, seed, d) for d in group])
        sda = every_sda(net, mean, min(*large, *small))
        error = sda.total_error(mean)
        sstm = EverySSTM(net, mean, min(large))
        for k, d in enumerate(group):
            base = described("samples", graph, agents, spread, seed, draw=d, source="exact")
            for eps in (*large, *small):
                rounds = first_at_most(error[:, k], eps)
                assert rounds is not None
                common = {**base, "epsilon": eps, "rounds": rounds, "method": "sda"}
                averaging = 1.0 / sda.window[rounds - 1]
                rows.append({**common, "quantity": "samples", "value": rounds})
                rows.append({**common, "quantity": "share of 1/T", "value": averaging / error[rounds - 1, k]})
            for eps in large:
                rows += [{**base, "epsilon": eps, **row} for row in sstm.samples(k, eps)]
            rows.append({**base, "quantity": "dual radius / spread", "value": _radius(net, mean[k])})
    return rows


def _radius(net: Network, mean: Floats) -> float:
    """Return ||lambda*|| / ||sqrt(L) lambda*||: the norm of the dual solution over the value that the paper uses."""
    assert net.spectrum is not None
    energy = energies(net, mean[None])[:, 0]
    return float(np.sqrt((energy / net.spectrum.eigenvalues[1:]).sum() / energy.sum()))


class EverySSTM:
    """SSTM_sc after every number of rounds, for any batches: error = bias + dual/r + N/r_T (noise variance 1).

    T rounds make T - 1 dual steps, each on a batch of r, and the answer adds a fresh batch of r_T.
    """

    def __init__(self, net: Network, mean: Floats, least: float) -> None:
        self.net, self.mean = net, mean
        assert net.spectrum is not None
        energy = energies(net, mean)
        rounds = math.ceil(15 * math.sqrt(net.condition_number)) + 30
        while True:
            table = tabulate(SSTM(batch=1), net, rounds)
            # Read x instead of theta.
            dual = table._replace(estimate_state=np.tile([1.0, 0.0, 0.0], (rounds, 1)))
            response, noise = propagate(dual, net.spectrum.eigenvalues, np.arange(1, rounds))
            # Before the first step the estimate is the mean of the agent's own batch.
            self.bias: Floats = np.vstack([energy.sum(axis=0), (1 + response[:, 1:, 0]) ** 2 @ energy])
            self.dual: Floats = np.append(0.0, noise[:, 1:].sum(axis=1))
            if np.all(self.bias[-1] <= least / 2):
                return
            rounds *= 2

    def total_error(self, which: int, method: SSTM) -> Floats:
        """Return the error after T = 1, 2, ... rounds with this method's batches."""
        batch, last = method.batches(self.net, 2)  # the same for every T
        return np.asarray(self.bias[:, which] + self.dual / batch + self.net.agents / last)

    def method(self, which: int, epsilon: float) -> SSTM:
        """Return SSTM_sc with the paper's parameters for this accuracy and these means."""
        centered = self.mean[which] - self.mean[which].mean()
        return SSTM(accuracy=epsilon, spread=float(np.linalg.norm(centered)))

    def samples(self, which: int, epsilon: float) -> list[Row]:
        method = self.method(which, epsilon)
        rounds = first_at_most(self.total_error(which, method), epsilon)
        batch, last = method.batches(self.net, 2)
        # On badly connected networks the paper's batches leave more noise than eps, forever.
        total = math.inf if rounds is None else (rounds - 1) * batch + last
        steps_taken = (rounds or len(self.bias)) - 1
        common = {"rounds": steps_taken + 1, "method": "sstm_sc"}
        steps = np.arange(len(self.bias))
        left = np.where(self.bias[:, which] < epsilon, epsilon - self.bias[:, which], np.nan)
        # The cheapest batches for T - 1 steps, by Lagrange: r ~ sqrt(dual/(T-1)), r_T ~ sqrt(N).
        root = np.sqrt(self.dual * steps) + math.sqrt(self.net.agents)
        best = int(np.nanargmin(root**2 / left))
        tuned_each = math.ceil(math.sqrt(self.dual[best] / max(best, 1)) * root[best] / left[best])
        tuned_last = math.ceil(math.sqrt(self.net.agents) * root[best] / left[best])
        return [
            {**common, "quantity": "samples", "value": float(total)},
            {**common, "quantity": "share of last batch", "value": float(last / (steps_taken * batch + last))},
            {
                "rounds": best + 1, "method": "sstm_sc, tuned", "quantity": "samples",
                "value": float(best * tuned_each + tuned_last),
            },
        ]  # fmt: skip


# -- by simulation -------------------------------------------------------------------------------------------


def sda_protocol(
    graph: str, agents: int, spread: float, epsilons: Sequence[float], trials: int, seed: int
) -> list[Row]:
    """Return the first T whose average over the trials is at most eps; one trajectory per trial serves all T."""
    net = problem.network(graph, agents, seed)
    obs = problem.observations(agents, spread, seed)
    sda = every_sda(net, obs.mean.T, min(epsilons))
    truth = first_at_most(sda.total_error(obs.mean.T)[:, 0], min(epsilons))
    assert truth is not None
    for reserve in (1.25, 2.0, 4.0):
        horizons = examined(math.ceil(reserve * truth))
        errors = trajectories(net, obs, horizons, trials, seed)
        if np.any(errors.mean(axis=1) <= min(epsilons)):
            break
    base = described("samples", graph, agents, spread, seed, method="sda", trials=trials, source="protocol")
    return [{**base, **row} for row in first_passages(horizons, errors, epsilons, seed)]


def examined(rounds: int) -> Integers:
    """Return the numbers of rounds that the protocol examines."""
    return np.concatenate([np.arange(1, min(rounds, FINE) + 1), np.arange(FINE + STEP, rounds + STEP, STEP)])


def first_passages(horizons: Integers, errors: Floats, epsilons: Sequence[float], seed: int) -> list[Row]:
    """Return the first T whose errors (H, trials) average to at most eps (or the last T), with bootstrap intervals."""
    trials = errors.shape[1]
    weights = np.random.default_rng([seed, trials]).multinomial(
        trials, np.full(trials, 1 / trials), RESAMPLES
    )
    means = np.column_stack([errors.mean(axis=1), errors @ (weights.T / trials)])
    rows: list[Row] = []
    for eps in epsilons:
        reached = means <= eps
        firsts = np.where(reached.any(axis=0), horizons[reached.argmax(axis=0)], horizons[-1])
        low, high = np.quantile(firsts[1:], [0.025, 0.975])
        rounds = int(firsts[0])
        answer = {"value": rounds, "low": float(low), "high": float(high)}
        rows.append({"epsilon": eps, "rounds": rounds, "quantity": "samples", **answer})
    return rows


def trajectories(net: Network, obs: Gaussian, horizons: Integers, trials: int, seed: int) -> Floats:
    """Return (H, trials) squared errors of SDA after each number of rounds, from one trajectory per trial."""
    errors = np.empty((len(horizons), trials))
    burn_in = horizons // 2
    kept = np.union1d(horizons, np.maximum(burn_in, 1))
    block = max(8, BLOCK // (len(kept) * net.agents * 8) // 8 * 8)
    for first in range(0, trials, block):
        count = min(block, trials - first)
        runs = problem.run(SDA(burn_in=0), net, obs, kept, trials=count, seed=seed, first_trial=first)
        averages, target = runs.estimates[..., 0], float(obs.mean.mean())
        for row, (total, begin) in enumerate(zip(horizons.tolist(), burn_in.tolist(), strict=True)):
            window = averages[np.searchsorted(kept, total)] * (total / (total - begin)) - target
            if begin:
                window -= averages[np.searchsorted(kept, begin)] * (begin / (total - begin))
            errors[row, first : first + count] = np.einsum("ri,ri->r", window, window)
    return errors


def sda_fresh(
    graph: str, agents: int, spread: float, epsilons: Sequence[float], trials: int, seed: int
) -> list[Row]:
    """Follow the protocol literally, with new runs for every T; errors are drawn per mode from their Gaussian law."""
    net = problem.network(graph, agents, seed)
    obs = problem.observations(agents, spread, seed)
    sda = every_sda(net, obs.mean.T, min(epsilons) / 2)  # noise may move the answer past the exact one
    error = sda.total_error(obs.mean.T)[:, 0]
    amplitude = np.sqrt(energies(net, obs.mean.T)[:, 0])
    rng = np.random.default_rng([seed, agents])
    about = {"method": "sda", "trials": trials, "source": "fresh protocol"}
    base = described("samples", graph, agents, spread, seed, **about)
    rows: list[Row] = []
    rounds = 0
    far = 1 + 20 / math.sqrt(trials)  # an average of this many runs is never further off
    for eps in sorted(epsilons, reverse=True):
        while True:
            rounds += 1
            if error[rounds - 1] > far * eps:
                continue
            noise = rng.standard_normal((trials, len(amplitude) + 1))
            away = sda.response(rounds) * amplitude + np.sqrt(sda.gain(rounds)) * noise[:, 1:]
            average = (away**2).sum() / trials + (noise[:, 0] ** 2).mean() / sda.window[rounds - 1]
            if average <= eps:
                break
        rows.append({**base, "epsilon": eps, "rounds": rounds, "quantity": "samples", "value": rounds})
        rounds -= 1  # the next accuracy may stop at this T as well
    return rows


def sstm_runs(
    graph: str, agents: int, spread: float, epsilons: Sequence[float], trials: int, seed: int
) -> list[Row]:
    """Simulate SSTM_sc for T around the exact answer; the error at any other T is far from eps."""
    net = problem.network(graph, agents, seed)
    obs = problem.observations(agents, spread, seed)
    every = EverySSTM(net, obs.mean.T, min(epsilons))
    base = described(
        "samples", graph, agents, spread, seed, method="sstm_sc", trials=trials, source="protocol"
    )
    rows: list[Row] = []
    for eps in epsilons:
        method = every.method(0, eps)
        error = every.total_error(0, method)
        if not np.any(error <= eps):  # no number of rounds would do
            rows.append({**base, "epsilon": eps, "quantity": "samples", "value": math.inf})
            continue
        near = np.flatnonzero(error <= 1.15 * eps)
        for rounds in range(int(near[0]) + 1, len(error) + 1):
            runs = problem.run(method, net, obs, rounds, trials=trials, seed=seed, keep="errors")
            if runs.total_error <= eps:
                break
        common = {**base, "epsilon": eps, "rounds": rounds}
        rows.append({**common, "quantity": "samples", "value": float(method.batches(net, rounds).sum())})
        rows.append({**common, "quantity": "total_error", "value": runs.total_error})
    return rows
