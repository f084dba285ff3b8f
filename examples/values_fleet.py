"""Six robots learn the values of one policy, each from its own walks and its own rewards.

Each robot walks through its own copy of a corridor of eleven cells, at random, until it leaves it at one of the ends.
Only the right end pays, and every robot is paid a different amount. Together they want the values of the cells for the
average robot, which are half of the average payment in the middle and rise in a straight line. No robot shows its walks
or its rewards to anyone: each runs an agent that averages sums over its transitions with its neighbors.

    python examples/values_fleet.py

The agents are real processes with TLS connections on this machine. Each reads its transitions as JSON lines, here from
a file. It takes about ten seconds.
"""

from __future__ import annotations

import json
import shlex
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gossamer.agents import Fleet, LocalFleet
from gossamer.networks import Network

Array = NDArray[np.float64]

CELLS, ROBOTS = 11, 6
PAYMENTS = np.array([2.0, 4.0, 6.0, 8.0, 10.0, 12.0])
TRUTH = PAYMENTS.mean() * np.arange(1, CELLS + 1) / (CELLS + 1)


def write_walks(robot: int, path: Path, steps: int) -> list[tuple[int, float, int, bool]]:
    """Write the transitions of one robot as JSON lines, and return them."""
    rng = np.random.default_rng([3, robot])
    state, walks = CELLS // 2, []
    with path.open("w") as file:
        for _ in range(steps):
            following = state + int(rng.choice([-1, 1]))
            over = not 0 <= following < CELLS
            reward = float(PAYMENTS[robot] + rng.normal()) if following == CELLS else 0.0
            line = {"state": state, "reward": reward, "next_state": min(max(following, 0), CELLS - 1)}
            print(json.dumps(line | {"terminated": over}), file=file)
            walks.append((state, reward, line["next_state"], over))
            state = CELLS // 2 if over else following
    return walks  # type: ignore[return-value]


def found_fleet(directory: Path) -> Path:
    """Write the files of the fleet; return the path of fleet.toml."""
    # A source may be any command that writes lines; this one then waits, as a robot would for its next transition.
    read = "import sys, time; print(open(sys.argv[1]).read(), end='', flush=True); time.sleep(1e6)"
    python = shlex.join([sys.executable, "-c", read])
    fleet = Fleet.create(
        Network.cycle(ROBOTS),
        endpoints=[f"127.0.0.1:{port}" for port in free_ports(ROBOTS)],
        sources=[f"cmd:{python} {shlex.quote(str(directory / f'{k}.jsonl'))}" for k in range(ROBOTS)],
        values={"features": f"table:{CELLS}", "discount": 0.999, "trace": 0.9},
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


def center_values(walks: list[list[tuple[int, float, int, bool]]]) -> Array:
    """Return the values of a center that holds the transitions of all robots."""
    eye = np.eye(CELLS)
    matrix, right = np.zeros((CELLS, CELLS)), np.zeros(CELLS)
    for own in walks:
        trace = np.zeros(CELLS)
        for state, reward, following, over in own:
            trace = trace + eye[state]
            matrix += np.outer(trace, eye[state] - (0.0 if over else 0.999) * eye[following])
            right += reward * trace
            trace = trace * (0.0 if over else 0.999 * 0.9)
    return np.asarray(np.linalg.solve(matrix, right))


def main(steps: int = 2000, seconds: float = 60.0) -> tuple[Array, Array]:
    """Let the robots learn; return the values of each of them, (6, 11), and those of a center."""
    with tempfile.TemporaryDirectory() as folder:
        walks = [write_walks(k, Path(folder) / f"{k}.jsonl", steps) for k in range(ROBOTS)]
        center = center_values(walks)
        learned = learn(found_fleet(Path(folder)), center, seconds)
    print(f"{ROBOTS} robots, {steps} transitions each; values of the cells, from left to right:\n")
    for name, row in (
        ("truth", TRUTH),
        ("a center", center),
        ("robot 0", learned[0]),
        ("robot 5", learned[5]),
    ):
        print(f"{name:10}" + "".join(f"{value:6.2f}" for value in row))
    print(f"\nlargest difference of any robot from the center: {np.abs(learned - center).max():.1e}")
    return learned, center


def learn(fleet: Path, center: Array, seconds: float) -> Array:
    """Run the agents until they have the values of the center, or the time is over; return their values, (6, 11)."""
    deadline = time.monotonic() + seconds
    learned = np.full((ROBOTS, CELLS), np.nan)
    with LocalFleet(fleet, insecure=False) as agents:
        while time.monotonic() < deadline:
            agents.supervise()
            known = [np.ravel(np.array(agent.estimate, dtype=float)) for agent in agents.status()]
            if all(row.shape == (CELLS,) and np.isfinite(row).all() for row in known):
                learned = np.array(known)  # with a feature for each cell, the weights are the values
                if len(known) == ROBOTS and np.abs(learned - center).max() < 1e-3:
                    break
            time.sleep(0.1)
    return learned


if __name__ == "__main__":
    main()
