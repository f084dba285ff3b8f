"""What the ranks of `test_cluster.py` run: cases by name, and the errors of all trials as text that keeps every bit."""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import partial

import numpy as np

import gossamer as gs
from gossamer.engines.simulate import agent_lanes
from gossamer.networks import topologies
from gossamer.networks.parts import NamedParts

topologies.COUNTED = 1000  # so that small random networks are drawn from counters, as large ones are


def means(agents, components=1):
    return np.random.default_rng(agents).uniform(0, 10, (agents, components))


def case(method, name, horizons, trials=1, *, observe=gs.Gaussian, components=1, weights=None, **options):
    """A call of gs.simulate without its `cluster`."""
    network = name if weights is None else gs.Network.named(name, weights)
    agents = topologies_agents(name)
    return partial(
        gs.simulate, method, network, observe(means(agents, components)), horizons, trials, seed=5, **options
    )


def topologies_agents(name):
    from gossamer.networks.names import named_topology

    return named_topology(name).agents


SDA = gs.SDA(
    step_size=0.6, momentum=0.8
)  # these two ask for no spectrum, which would cost more than the rest
LOCAL = gs.AnytimeSDA("local")
CASES = {
    "grid": case(LOCAL, "grid:37x45", [3, 20, 41], 2),
    "waves": case(SDA, "grid:300x40", [7, 30]),
    "waves on a torus": case(SDA, "torus:300x40", 23, dtype=np.float32),
    "torus": case("anytime-sda", "torus:40x40", 30),
    "cycle": case("dsg", "cycle:2100", [1, 2, 30]),
    "path": case("d-masg", "path:1800", 25),
    "hypercube": case("chebyshev", "hypercube:11", 20),
    "geometric": case(SDA, "geometric:1700", [10, 25]),
    "erdos-renyi": case(LOCAL, "erdos-renyi:1500", 20),
    "expander": case(LOCAL, "expander:1600x5", 20),
    "a spectrum": case("anytime-sda", "geometric:600", 20),
    "several passes": case("sda", "grid:20x30", [9, 20], 2),
    "laplacian weights": case("anytime-sda", "grid:30x41", 20, weights="laplacian"),
    "single precision": case(LOCAL, "grid:30x41", 20, dtype=np.float32),
    "components": case(SDA, "grid:30x41", [5, 20], components=3, first_trial=7),
    "drift": case(SDA, "grid:30x41", 20, observe=lambda mean: gs.Drifting(gs.Gaussian(mean), 0.1)),
    "uneven noise": case(SDA, "grid:30x41", 20, observe=lambda mean: gs.Gaussian(mean, mean / 3)),
    "not normal": case(SDA, "torus:30x41", 9, observe=lambda mean: gs.Uniform(mean, mean + 1)),
    "batches": case("sstm_sc", "torus:24x24", 30),
    "fewer agents than ranks can share": case(SDA, "grid:10x10", 20),
}


def hexed(result):
    limits = [float(limit).hex() for limit in np.atleast_1d(result.centralized_limit)]
    return [float(error).hex() for error in result.errors.ravel()], limits


def streams(agents):
    generator = np.random.default_rng(3)
    generator.bit_generator.advance(agents.start)
    return gs.Gaussian(generator.uniform(0, 10, len(agents)))


def long_run(comm, folder, die_at=None):
    """200 rounds with checkpoints; rank 1 may die in the middle."""
    if die_at is not None and comm.rank == 1:
        from gossamer.engines.simulate.halo import Exchange

        begin = Exchange.begin

        def deadly(self, t):
            if t == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            begin(self, t)

        Exchange.begin = deadly
    parts = NamedParts("grid:37x45", "max-degree")
    return gs.simulate(
        "anytime-sda", parts, streams, [30, 111, 200], 2, cluster=comm, checkpoint=folder, every=30
    )


def refused(run):
    """Return what rank 0 says about a call that must fail; the other ranks end silently."""
    try:
        run()
    except (gs.InvalidInput, gs.Unsupported) as error:
        return str(error)
    except SystemExit:
        return ""
    raise AssertionError("this should have been refused")


def waves(run):
    """Return the number of rounds of the longest wave of a run."""
    depths, play = [1], agent_lanes.play_wave

    def noted(tasks, rounds, *rest):
        depths.append(rounds[1] - rounds[0])
        play(tasks, rounds, *rest)

    agent_lanes.play_wave = noted
    try:
        run()
    finally:
        agent_lanes.play_wave = play
    return max(depths)


def everything(comm, folders):
    """All cases on one communicator, and networks from folders of three parts each."""
    found = {name: hexed(run(cluster=comm)) for name, run in CASES.items()}
    found["depths"] = [waves(partial(CASES[name], cluster=comm)) for name in ("waves", "waves on a torus")]
    for folder in folders:
        read = partial(gs.simulate, "anytime-sda", folder, streams, 40, 3, cluster=comm)
        found[folder] = hexed(read()) if comm.size <= 3 else refused(read)
    found["pairwise"] = refused(partial(gs.simulate, "pairwise", "grid:37x45", streams, 40, cluster=comm))
    return found


def main():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    what, *rest = sys.argv[1:]
    if what == "everything":  # by the number of ranks, in one job
        found = {}
        for size in range(2, comm.size + 1):
            some = comm.Split(comm.rank >= size)
            if comm.rank < size:
                answers = some.gather(everything(some, rest))
                if some.rank == 0:
                    for answer in answers[
                        1:
                    ]:  # the same result on every rank, and refusals on the first alone
                        assert all(answer[name] in (each, "") for name, each in answers[0].items())
                        assert answer["pairwise"] == ""
                    found[size] = answers[0]
    elif what == "long":
        found = hexed(long_run(comm, rest[0], int(rest[1]) if len(rest) > 1 else None))
    else:  # an error that a single rank meets

        def broken(agents):
            if comm.rank == 1:
                raise ValueError("these streams are broken")
            return streams(agents)

        found = hexed(gs.simulate("anytime-sda", "grid:37x45", broken, 40, cluster=comm))
    if comm.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
