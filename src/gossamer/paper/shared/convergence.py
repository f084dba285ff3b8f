"""The runs of Figure 2, also shown in Figures 6 and 7: one method on one network, exactly and by simulation."""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.engines.exact import exact
from gossamer.methods import DMASG, DSG, SDA, Method
from gossamer.networks import Network
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import Row
from gossamer.paper.pipeline.settings import Settings
from gossamer.paper.shared import problem
from gossamer.paper.shared.problem import GRAPHS, around, described
from gossamer.theory import k_star

METHODS: dict[str, Method] = {"sda": SDA(), "d-masg": DMASG(), "dsg": DSG()}


def horizons(net: Network, stages: Sequence[int]) -> list[int]:
    """Return the paper's T: the rounds that K stages of D-MASG take on this network."""
    return [DMASG.rounds_for(net, k) for k in stages]


def converge(
    graph: str, method: str, agents: int, spread: float, stages: Sequence[int], trials: int, seed: int
) -> list[Row]:
    """Return the exact and the simulated error of one method on one graph, for every K."""
    net = problem.network(graph, agents, seed)
    obs = problem.observations(agents, spread, seed)
    rounds = horizons(net, stages)
    base = described("convergence", graph, agents, spread, seed, method=method)
    truth = exact(METHODS[method], net, obs, rounds)
    runs = problem.run(METHODS[method], net, obs, rounds, trials=trials, seed=seed, keep="errors")
    rows: list[Row] = []
    for k, t in enumerate(rounds):
        for quantity in ("total_error", "bias", "variance"):
            value = float(getattr(truth, quantity)[k])
            rows.append({**base, "rounds": t, "source": "exact", "quantity": quantity, "value": value})
        common = {**base, "rounds": t, "source": "simulation", "quantity": "total_error", "trials": trials}
        rows.append({**common, **around(float(runs.total_error[k]), float(runs.stderr[k]), trials)})
    if method == "sda":
        for quantity, number_ in (("condition number", net.condition_number), ("k*", k_star(net))):
            rows.append({**base, "source": "exact", "quantity": quantity, "value": float(number_)})
    return rows


def main_pieces(settings: Settings, methods: Sequence[str] = tuple(METHODS)) -> list[Piece]:
    """Return the runs of Figure 2; Figures 6 and 7 use those of SDA."""
    s = settings
    common = {
        "agents": s.agents,
        "spread": s.spread,
        "stages": list(s.stages),
        "trials": s.trials,
        "seed": s.seed,
    }
    size = s.agents * s.trials * 2 ** max(s.stages) / 4e6
    return [
        Piece(f"convergence-{graph}-{method}", converge, dict(graph=graph, method=method, **common), size)
        for graph in GRAPHS
        for method in methods
    ]
