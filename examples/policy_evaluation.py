"""Policy evaluation: twenty robots on a frozen lake, each of which sees only its own reward.

    python examples/policy_evaluation.py

All robots live in the same environment and follow the same policy, but every robot receives a different, noisy reward.
The team's value function is that of the average reward. Robots talk only to their neighbors; the rewards are not
collected anywhere. Requires: pip install 'gossamer[rl]'
"""

import numpy as np

import gossamer as gs
from gossamer.applications import Alone, Centralized, PolicyEvaluation, TemporalDifference, problems

# -- 1. An environment and a policy -------------------------------------------------------------------------------
# Any tabular Gymnasium environment exposes its transitions as env.unwrapped.P. The policy is the best one here,
# by value iteration; "uniform", one action per state, or a table of probabilities would do as well.

lake = problems.from_gymnasium("FrozenLake", policy="optimal", discount=0.95)
print(f"{lake.name}: {lake.states} states")

# -- 2. Rewards of the robots -------------------------------------------------------------------------------------
# "perturb" adds random numbers to every robot's rewards, which cancel in the average over the robots.
# In addition, every single reward is observed with noise of standard deviation 0.5.

robots = gs.Network.random_geometric(20, seed=4)
team = PolicyEvaluation.from_problem(robots, lake, discount=0.95, rule="perturb", spread=0.3, reward_std=0.5)
print("the lake's true values (start in the upper left corner):")
print(np.round(team.values.reshape(4, 4), 2) + 0.0)

# -- 3. How accurate every robot is --------------------------------------------------------------------------------
# The plug-in estimator counts transitions, averages rewards over the network, and solves the Bellman equation;
# temporal differences (TD) mix value functions. All methods see the same samples. Errors are maxima over robots
# and states.

rounds = [100, 400, 1600, 6400]
solvers = {
    "plug-in, Anytime SDA": gs.AnytimeSDA(),
    "plug-in, SDA": gs.SDA(),
    "plug-in, DSG": gs.DSG(),
    "TD(0), last iterate": TemporalDifference(),
    "TD(0), averaged": TemporalDifference(step="sqrt", output="average"),
    "each robot alone": Alone(),
    "a data center": Centralized(),
}
runs = {name: team.simulate(solver, rounds, trials=10) for name, solver in solvers.items()}
print("\nlargest error of any robot in any state, mean of 10 trials")
print(f"  {'rounds':22}" + "".join(f"{t:9d}" for t in rounds) + "   fitted rate")
for name, run in runs.items():
    rate = np.polyfit(np.log(rounds), np.log(run.error), 1)[0]
    print(f"  {name:22}" + "".join(f"{e:9.4f}" for e in run.error) + f"   T^{rate:.2f}")
bound = team.bound(6400)
print(
    "  Corollary 2, constant 1, after 6400 rounds: "
    + ", ".join(f"{k} {v:.2g}" for k, v in bound.terms.items())
)

# -- 4. Online ----------------------------------------------------------------------------------------------------
# The robots need to know neither the transitions nor the number of rounds in advance: samples arrive round by round.

rng = np.random.default_rng(0)
cumulative = np.cumsum(team.transitions.toarray(), axis=1)
online = team.online()
print("\nsamples as they come: largest error of any robot in any state")
for t in range(1, 1601):
    following = (cumulative < rng.random((team.states, 1))).sum(axis=1).clip(max=team.states - 1)
    online.observe(following, team.rewards + team.reward_std * rng.normal(size=team.rewards.shape))
    if t in (100, 400, 1600):
        print(f"  round {t:4d}  {np.abs(online.values() - team.values).max():.4f}")

assert runs["plug-in, Anytime SDA"].error[-1] < 0.2 * runs["TD(0), averaged"].error[-1]
