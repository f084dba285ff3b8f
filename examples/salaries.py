"""Eight colleagues learn their average salary, and none of them learns the salary of another.

Each runs an agent. The agent adds secret numbers to what it says, which it has agreed with its neighbors and which
cancel in the average; and it draws one more number that does not cancel, so that the average itself is differentially
private: it hides a change of one salary by 20,000 even from members that put their own salaries together.

    python examples/salaries.py

The agents are real processes with TLS connections on this machine. It takes about ten seconds.
"""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gossamer as gs
from gossamer.agents import Fleet, LocalFleet

Array = NDArray[np.float64]

OFFICE = gs.Network.hypercube(3)
SALARIES = np.array([48000, 52300, 56600, 60900, 65200, 50500, 54800, 59100], dtype=float)
MASK, CHANGE, EPSILON, DELTA = 1e7, 20_000.0, 1.0, 1e-3
HONEST = 6


def found_fleet(directory: Path) -> Path:
    """Write each colleague's file and the files of the fleet; return the path of fleet.toml."""
    for k, salary in enumerate(SALARIES):  # in reality each file is on its owner's machine
        (directory / f"{k}.csv").write_text(f"{salary}\n")
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in SALARIES]
    endpoints = [f"127.0.0.1:{opened.getsockname()[1]}" for opened in sockets]
    for opened in sockets:
        opened.close()
    fleet = Fleet.create(
        OFFICE,
        endpoints=endpoints,
        sources=[f"csv:{directory / str(k)}.csv" for k in range(len(SALARIES))],
        observations={"range": (0.0, 200_000.0)},
        privacy={"mask": MASK, "epsilon": EPSILON, "delta": DELTA, "change": CHANGE, "honest": HONEST},
        rounds={"every": "10ms", "timeout": "500ms"},
    )
    return fleet.write(directory)


def average(fleet: Path, seconds: float = 60.0) -> tuple[Array, Array]:
    """Run the agents until they agree; return each agent's average and its standard error."""
    deadline = time.monotonic() + seconds
    with LocalFleet(fleet, insecure=False, store=str(fleet.parent / "stores")) as agents:
        while time.monotonic() < deadline:
            agents.supervise()
            status = agents.status()
            known = [agent for agent in status if agent.estimate and None not in agent.estimate]
            answers = np.ravel([agent.estimate for agent in known]).astype(float)
            if len(known) == len(SALARIES) and np.ptp(answers) < 0.01:
                return answers, np.ravel([agent.standard_error for agent in known]).astype(float)
            time.sleep(0.1)
    raise SystemExit(f"the agents did not agree in {seconds:.0f} s; see {fleet.parent}/logs")


def main() -> tuple[Array, float, float]:
    """Let the colleagues average; return each agent's answer, the truth, and the noise in the average."""
    with tempfile.TemporaryDirectory() as folder:
        path = found_fleet(Path(folder))
        (noise,) = Fleet.read(path).settings(0, insecure=True).noise_scale
        answers, errors = average(path)
    in_average = noise / np.sqrt(len(SALARIES))
    print(f"the average is {SALARIES.mean():,.0f}; agent 0 says {answers[0]:,.0f} +- {errors[0]:,.0f}")
    print(f"each agent added noise of {noise:,.0f} once, which is {in_average:,.0f} in the average;")
    print(f"without masks it would be {noise * np.sqrt(HONEST / len(SALARIES)):,.0f} for the same guarantee")
    seen = gs.privacy(OFFICE, MASK, noise=noise, change=CHANGE, coalition="any neighbor")
    print(f"for the most curious neighbor, epsilon is {seen.epsilon(DELTA):.3f} at delta {DELTA:g}")
    return answers, float(SALARIES.mean()), float(in_average)


if __name__ == "__main__":
    main()
