"""Eight clinics learn one model, and no patient's row leaves its clinic.

Each clinic has a table of its patients: age, body mass index, dose of a drug, and whether there was a complication.
Together they want the logistic regression of all patients,

    log odds of a complication = a * age + b * bmi + c * dose + d,

which no clinic can estimate well alone: the smallest has 40 patients. But none may hand out its table. So each runs an
agent. It reads the clinic's own file, and tells its neighbors sums over all of its patients that it mixes with
theirs; after a few hundred rounds every agent holds the coefficients that all rows in one table would give, with
standard errors.

    python examples/clinics.py

The agents are real processes with TLS connections on this machine; on eight machines nothing changes but the
addresses in fleet.toml. It takes about ten seconds.
"""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gossamer.agents.config.tables import ModelTable, ObservationsTable, RoundsTable
from gossamer.agents.fleet.local import LocalFleet
from gossamer.agents.membership.fleet import Fleet
from gossamer.applications import LikelihoodEstimation
from gossamer.networks import Network

Array = NDArray[np.float64]

CLINICS = ("Aach", "Berg", "Celle", "Daun", "Essen", "Furth", "Gera", "Hamm")
COVARIATES = ("age", "bmi", "dose")
TRUTH = np.array([0.04, 0.08, 0.6, -6.0])  # per year, per kg/m^2, per milligram, and the constant


def patients(clinic: int) -> Array:
    """The table of one clinic. Clinics differ in size, in whom they treat, and in what they prescribe."""
    rng = np.random.default_rng([7, clinic])
    count = 40 + 25 * clinic
    age = rng.normal(45 + 4 * clinic, 12, count).round()
    bmi = rng.normal(28 - clinic / 2, 4, count).round(1)
    dose = rng.choice([0.5, 1.0, 2.0] if clinic % 2 else [1.0, 2.0, 3.0], count)
    odds = np.column_stack([age, bmi, dose, np.ones(count)]) @ TRUTH
    return np.column_stack([age, bmi, dose, rng.random(count) < 1 / (1 + np.exp(-odds))])


def found_fleet(directory: Path) -> Path:
    """Write every clinic's table, and the files of the fleet; return fleet.toml."""
    # 1. A table per clinic. In real life each is on a machine of its own, and this program never sees them.
    for k, name in enumerate(CLINICS):
        np.savetxt(
            directory / f"{name}.csv",
            patients(k),
            delimiter=",",
            fmt="%g",
            header=",".join([*COVARIATES, "complication"]),
            comments="",
        )

    # 2. Who talks to whom, and what is learned: fleet.toml and its certificates are all that the clinics must agree on.
    #    An agent whose model differs is not averaged with. Weighting by samples: every patient counts the same.
    fleet = Fleet.create(
        Network.hypercube(3),
        names=CLINICS,
        endpoints=[f"127.0.0.1:{port}" for port in free_ports(len(CLINICS))],
        sources=[f"csv:{directory / name}.csv,target=complication" for name in CLINICS],
        model=ModelTable(family="logistic", covariates=COVARIATES),
        observations=ObservationsTable(weighting="samples"),
        rounds=RoundsTable(every="5ms", timeout="500ms"),
    )
    return fleet.write(directory)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def learn(fleet: Path, rounds: int, seconds: float = 60.0) -> tuple[Array, Array]:
    """Run the agents for so many rounds; return every clinic's coefficients and standard errors, (8, 4) each."""
    deadline = time.monotonic() + seconds
    with LocalFleet(fleet, insecure=False) as agents:
        while time.monotonic() < deadline:
            agents.supervise()
            status = agents.status()
            if all(agent.rounds >= rounds for agent in status):
                break
            time.sleep(0.1)
        else:
            raise SystemExit(
                f"the agents did not play {rounds} rounds in {seconds:.0f} s; see {fleet.parent}/logs"
            )
    return (
        np.array([agent.estimate for agent in status], dtype=float),
        np.array([agent.standard_error for agent in status], dtype=float),
    )


def main(rounds: int = 600) -> tuple[Array, Array]:
    """Let the clinics learn; return what each of them found (8, 4), and the fit of all rows in one table."""
    with tempfile.TemporaryDirectory() as folder:
        found, errors = learn(found_fleet(Path(folder)), rounds)

    # 3. What nobody has, for comparison: all rows in one table; and what the smallest clinic would find on its own.
    tables = [patients(k) for k in range(len(CLINICS))]
    pooled = fit(np.vstack(tables))
    alone = fit(tables[0])

    names = [*COVARIATES, "constant"]
    count = sum(map(len, tables))
    print(
        f"{count} patients in {len(CLINICS)} clinics; the fleet after {rounds} rounds, as {CLINICS[-1]} knows it:\n"
    )
    print(f"{'':10}{'truth':>9}{'one table':>12}{'fleet':>10}{'± s.e.':>9}{CLINICS[0] + ' alone':>14}")
    for k, name in enumerate(names):
        print(
            f"{name:10}{TRUTH[k]:9.3f}{pooled[k]:12.4f}{found[-1, k]:10.4f}{errors[-1, k]:9.3f}{alone[k]:14.3f}"
        )
    print(f"\nlargest difference of any clinic from the fit of one table: {np.abs(found - pooled).max():.1e}")
    return found, pooled


def fit(table: Array) -> Array:
    """The coefficients of one table, in one place."""
    problem = LikelihoodEstimation.from_data(table[:, :-1], table[:, -1], agents=2)
    return problem.fit().estimates[0]


if __name__ == "__main__":
    main()
