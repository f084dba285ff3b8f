"""Eight clinics learn one model, and no patient's row leaves its clinic.

Each clinic has a table of its patients: age, body mass index, dose of a drug, and whether there was a complication.
Together they want the logistic regression of all patients,

    log odds of a complication = a * age + b * bmi + c * dose + d,

which no clinic can estimate well alone: the smallest has 40 patients. But no clinic may share its table. So each runs
an agent, which reads the clinic's own file and sends its neighbors sums over all of its patients, mixed with theirs.
After a few hundred rounds every agent has the coefficients that all rows in one table would give, with standard
errors.

    python examples/clinics.py

The agents are real processes with TLS connections on this machine; on eight machines only the addresses in fleet.toml
would change. It takes about ten seconds.
"""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gossamer.agents import Fleet, LocalFleet
from gossamer.applications import LikelihoodEstimation
from gossamer.networks import Network

Array = NDArray[np.float64]

CLINICS = ("Aach", "Berg", "Celle", "Daun", "Essen", "Furth", "Gera", "Hamm")
COVARIATES = ("age", "bmi", "dose")
TRUTH = np.array([0.04, 0.08, 0.6, -6.0])  # per year, per kg/m^2, per milligram, and the constant


def patients(clinic: int) -> Array:
    """Return the table of one clinic. Clinics differ in size, in their patients, and in what they prescribe."""
    rng = np.random.default_rng([7, clinic])
    count = 40 + 25 * clinic
    age = rng.normal(45 + 4 * clinic, 12, count).round()
    bmi = rng.normal(28 - clinic / 2, 4, count).round(1)
    dose = rng.choice([0.5, 1.0, 2.0] if clinic % 2 else [1.0, 2.0, 3.0], count)
    odds = np.column_stack([age, bmi, dose, np.ones(count)]) @ TRUTH
    return np.column_stack([age, bmi, dose, rng.random(count) < 1 / (1 + np.exp(-odds))])


def found_fleet(directory: Path) -> Path:
    """Write every clinic's table and the files of the fleet; return the path of fleet.toml."""
    # 1. A table per clinic. In reality each one is on its own machine, and no program sees all of them.
    for k, name in enumerate(CLINICS):
        np.savetxt(
            directory / f"{name}.csv",
            patients(k),
            delimiter=",",
            fmt="%g",
            header=",".join([*COVARIATES, "complication"]),
            comments="",
        )

    # 2. The network and the model. The clinics need to agree only on fleet.toml and its certificates; agents do not
    #    average with an agent whose model differs. Weighting by samples makes every patient count the same.
    fleet = Fleet.create(
        Network.hypercube(3),
        names=CLINICS,
        endpoints=[f"127.0.0.1:{port}" for port in free_ports(len(CLINICS))],
        sources=[f"csv:{directory / name}.csv,target=complication" for name in CLINICS],
        model={"family": "logistic", "covariates": COVARIATES},
        observations={"weighting": "samples"},
        rounds={"every": "5ms", "timeout": "500ms"},
    )
    return fleet.write(directory)


def free_ports(count: int) -> list[int]:
    """Return unused ports of this machine."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def learn(fleet: Path, rounds: int, seconds: float = 60.0) -> tuple[Array, Array]:
    """Run the agents for the given number of rounds; return every clinic's coefficients and standard errors, (8, 4)
    each."""
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
    """Let the clinics learn; return the estimates of each of them, (8, 4), and the fit to all rows in one table."""
    with tempfile.TemporaryDirectory() as folder:
        fitted, errors = learn(found_fleet(Path(folder)), rounds)

    # 3. For comparison: the fit to all rows in one table, and what the smallest clinic would find on its own.
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
            f"{name:10}{TRUTH[k]:9.3f}{pooled[k]:12.4f}{fitted[-1, k]:10.4f}{errors[-1, k]:9.3f}{alone[k]:14.3f}"
        )
    print(
        f"\nlargest difference of any clinic from the fit of one table: {np.abs(fitted - pooled).max():.1e}"
    )
    return fitted, pooled


def fit(table: Array) -> Array:
    """Fit one table in one place and return the coefficients."""
    problem = LikelihoodEstimation.from_data(table[:, :-1], table[:, -1], agents=2)
    return problem.fit().estimates[0]


if __name__ == "__main__":
    main()
