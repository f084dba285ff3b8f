"""Measure what lost messages and dying agents cost; `--write FILE` puts the tables into a document.

    python benchmarks/loss_table.py --write docs/reliability-simulated.md

The unit is sigma^2/T, the error, summed over the agents, of a center that holds every observation. A table
shows the network's share: how far the agents' estimates are from that center's, so that the total error is 1
plus this. It is measured against the center's estimate in the same trial, which takes the center's own noise
out of the standard error. Means are drawn anew, uniform on [0, 10], in each of several draws.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

import gossamer as gs
from gossamer.engines.faulty import simulate_faulty
from gossamer.faults import Bursts, Crash, Delay, Faults, Join, Loss, Partition, Quiet, Restart

ROUNDS = 2976
GRAPHS = {
    "path": gs.Network.path(100),
    "cycle": gs.Network.cycle(100),
    "star": gs.Network.star(100),
    "grid": gs.Network.grid(10, 10),
    "ER": gs.Network.erdos_renyi(100, seed=1),
}
LOSSES = {
    "no loss": Faults(),
    "10% lost": Faults(Loss(0.1)),
    "30%": Faults(Loss(0.3)),
    "50%": Faults(Loss(0.5)),
    "one-way bursts, mean 10, 17% of the time": Faults(Bursts(10, 0.17)),
    "the same, 50%": Faults(Bursts(10, 0.5)),
}
EVENTS = {
    "nothing": Faults(),
    "agent 17 crashes 76 rounds before the end": Faults(Crash(17, ROUNDS - 76)),
    "agent 17 crashes in round 1000": Faults(Crash(17, 1000)),
    "and restarts in round 1500": Faults(Crash(17, 1000), Restart(17, 1500)),
    "agent 17 joins in round 1000": Faults(Join(17, 1000)),
    "agents 0-49 cut off in rounds 1000-1999": Faults(Partition(range(50), 1000, 2000)),
    "agents 0-49 cut off in rounds 0-999": Faults(Partition(range(50), 0, 1000)),
    "one message in ten is late": Faults(Delay(1, 0.1)),
    "bursts that silence both directions, mean 10, 17%": Faults(Bursts(10, 0.17, both=True)),
    "all of: 30% lost, crash at 500, restart at 800, cut off 1000-1999": Faults(
        Loss(0.3), Crash(17, 500), Restart(17, 800), Partition(range(50), 1000, 2000)
    ),
}


def center(
    observations: gs.Observations, faults: Faults, trials: int, seed: int, last: int = ROUNDS
) -> np.ndarray:
    """(trials,) the average, over the agents alive at the end, of the mean of each one's own observations."""
    total, count = np.zeros((observations.agents, trials)), np.zeros(observations.agents)
    for start in range(0, last, 248):
        rounds = range(start, min(start + 248, last))
        there = np.array([faults.alive_agents(observations.agents, t) for t in rounds])
        samples = observations.sample(seed, rounds, range(trials))[:, :, 0]
        total += np.einsum("ti,tib->ib", there, samples)
        count += there.sum(axis=0)
    alive = faults.alive_agents(observations.agents, last - 1)
    return (total[alive] / count[alive, None]).mean(axis=0)


class Bench:
    def __init__(self, draws: int, trials: int) -> None:
        self.draws, self.trials = draws, trials
        self._centers: dict[tuple[int, int, Faults], np.ndarray] = {}
        self.sent = 1.0  # the share of messages that the agents of the latest runs sent

    def share(
        self,
        network: gs.Network,
        faults: Faults,
        rounds: int = ROUNDS,
        method: gs.Method | None = None,
        **options: object,
    ) -> tuple[float, float]:
        """The network's share of the error in units of sigma^2/T, and its standard error over the draws."""
        shares = []
        for draw in range(self.draws):
            observations = gs.Gaussian(np.random.default_rng(draw).uniform(0, 10, network.agents), 1.0)
            result = simulate_faulty(
                method or gs.AnytimeSDA(), network, observations, rounds, self.trials, draw, faults, **options
            )
            people = Faults(*(item for item in faults.items if isinstance(item, Crash | Restart | Join)))
            key = draw, rounds, people
            if key not in self._centers:
                self._centers[key] = center(observations, people, self.trials, draw, rounds)
            gaps = result.estimates[:, result.alive, 0] - self._centers[key][:, None]
            shares.append(rounds * (gaps**2).sum(axis=1).mean())
            self.sent = result.messages / (2 * len(network.edges) * rounds)
        print(f"{network.name} {faults.items}: {np.mean(shares):.4g}", file=sys.stderr, flush=True)
        return float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(self.draws))

    def loss(self) -> str:
        rows = [
            (name, *(self.share(network, faults) for faults in LOSSES.values()))
            for name, network in GRAPHS.items()
        ]
        return markdown(["", *LOSSES], rows)

    def events(self) -> str:
        graphs = ("cycle", "grid", "ER")
        rows = [(label, *(self.share(GRAPHS[g], faults) for g in graphs)) for label, faults in EVENTS.items()]
        return markdown(["", *graphs], rows)

    def patience(self) -> str:
        """Other values of A."""
        values = (1, 3, 5, 8, 12, ROUNDS)
        rows = [
            (name, label, *(self.share(GRAPHS[name], LOSSES[label], silence=a) for a in values))
            for name in ("path", "cycle")
            for label in list(LOSSES)[3:]
        ]
        return markdown(["", "", *(f"A = {a}" for a in values[:-1]), "no limit"], rows)

    def outages(self) -> str:
        """The extreme answers, and `worst`, while one agent after another is away for 50 rounds, 80 times."""
        networks = {
            "12 agents, geometric": gs.Network.named("geometric:12", "metropolis", 0),
            "grid 6x6": gs.Network.grid(6, 6),
            "cycle of 20": gs.Network.cycle(20),
        }
        rows = []
        for name, network in networks.items():
            rng = np.random.default_rng(5)
            observations = gs.Gaussian(np.where(rng.random(network.agents) < 0.5, 10.0, 30.0), 0.0)
            who = np.random.default_rng(0).integers(network.agents, size=80).tolist()
            starts = [300 + 170 * k for k in range(80)]
            away = [
                fault for a, t in zip(who, starts, strict=True) for fault in (Crash(a, t), Restart(a, t + 50))
            ]
            for loss in (0.0, 0.05, 0.2, 0.4):
                cells = []
                for rate in (0.0, 0.9, 0.95, 0.98, 0.99):
                    run = simulate_faulty(
                        gs.AnytimeSDA("local"),
                        network,
                        observations,
                        starts[-1] + 170,
                        8,
                        0,
                        Faults(Loss(loss), *away),
                        return_rate=rate,
                        keep="errors",
                    )
                    cells.append(f"{run.worst:.2g}" if run.worst > 1e-9 else "0")
                    print(f"{name}, {loss:.0%}, {rate}: {run.worst:.4g}", file=sys.stderr, flush=True)
                rows.append((name, f"{loss:.0%}", *cells))
        return markdown(["", "lost", "at once", "0.9", "0.95", "0.98", "0.99"], rows)

    def quiet(self) -> str:
        """The share with and without silence of agents that have no news, and the messages that these sent."""
        method, rows = gs.AnytimeSDA("local-heavy-ball"), []
        for name, network in GRAPHS.items():
            row: list[object] = [name]
            for rounds in (1000, ROUNDS):
                row.append(self.share(network, Faults(), rounds, method))
                row += [self.share(network, Faults(Quiet()), rounds, method), f"{self.sent:.0%}"]
            for faults in (Faults(Loss(0.3)), Faults(Loss(0.3), Quiet())):
                row.append(self.share(network, faults, ROUNDS, method))
            rows.append((*row, f"{self.sent:.0%}"))
        at = [
            f"{what}T = {t}"
            for t in ("1000", f"{ROUNDS}", f"{ROUNDS}, 30% lost")
            for what in ("", "quiet, ", "sent, ")
        ]
        return markdown(["", *at], rows)

    def naive(self) -> str:
        """Root mean square error per agent, with the ledger and without."""
        observations = gs.Gaussian(np.random.default_rng(0).uniform(0, 10, 100), 1.0)
        rows = []
        for method in (gs.SDA(), gs.AnytimeSDA()):
            for name in ("path", "ER"):
                for loss in (0.01, 0.1, 0.3):
                    runs = [
                        simulate_faulty(
                            method,
                            GRAPHS[name],
                            observations,
                            ROUNDS,
                            self.trials,
                            0,
                            Faults(Loss(loss)),
                            rule=rule,
                        )
                        for rule in ("ledger", "skip")
                    ]
                    errors = [f"{np.sqrt(run.total_error / 100):.3g}" for run in runs]
                    rows.append((type(method).__name__, name, f"{loss:.0%}", *errors))
        return markdown(["method", "graph", "lost", "ledger", "skipping"], rows)


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header)]
    lines += [[shown(*cell) if isinstance(cell, tuple) else str(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(value: float, error: float) -> str:
    """Value and standard error with as many digits as the error deserves."""
    if not np.isfinite(value) or value > 1e12:
        return "diverges"
    if value >= 1000:
        return f"{value:.3g} ± {error:.1g}".replace("e+0", "e")
    digits = int(np.clip(1 - np.floor(np.log10(max(error, 1e-9))), 0, 5))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=12, help="draws of the means")
    parser.add_argument("--trials", type=int, default=32, help="trials for each draw")
    parser.add_argument(
        "--only",
        choices=["loss", "events", "quiet", "outages", "naive", "patience"],
        help="one of the tables",
    )
    parser.add_argument("--write", type=Path, help="a document whose marked tables are replaced")
    options = parser.parse_args()
    started = time.perf_counter()
    bench = Bench(options.draws, options.trials)
    tables = {
        "loss": bench.loss,
        "events": Bench(max(2, options.draws // 2), options.trials).events,
        "quiet": Bench(max(2, options.draws // 3), options.trials // 2).quiet,
        "outages": bench.outages,
        "naive": bench.naive,
        "patience": Bench(max(2, options.draws // 3), options.trials).patience,
    }
    for name in [options.only] if options.only else tables:
        text = f"{tables[name]()}\n"
        print(f"\n## {name}\n\n{text}")
        if options.write:
            before, rest = options.write.read_text(encoding="utf-8").split(f"<!-- {name} -->\n", 1)
            after = rest[rest.index("<!-- end -->") :]
            options.write.write_text(f"{before}<!-- {name} -->\n{text}{after}", encoding="utf-8")
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
