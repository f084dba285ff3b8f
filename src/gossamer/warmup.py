"""Compile ahead of time, on all cores, the functions that Numba would otherwise compile during the first runs.

Compiled code is kept on disk next to the sources, so this is needed once after installing and after an edit. Each of
the `TASKS` is a small run through the public functions that shows the compiler the types of real runs. They are grouped
by the compiled code that they need, so that no two processes compile the same function.

A stamp next to the compiled code records the sources, versions and processor that it was made for; if it still matches,
there is nothing to do.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypedDict

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
import numpy as np

from gossamer import checks
from gossamer.arrays import Precision
from gossamer.fingerprint import PACKAGE, SourceTree
from gossamer.numerics.compiling import compiled, expect_compiling

AGENTS = 12
ROUNDS = [3, 7]
TRIALS = 16
"""Enough for a simulation to put trials side by side."""
LARGE = 20_000
"""Agents enough for one trial to be spread over all cores."""


class Compiled(NamedTuple):
    """A module with compiled functions, and where Numba keeps them."""

    source: str
    folder: str


class _Stamp(TypedDict, total=False):
    """What compiled code was made for, and its modules with their folders and digests."""

    identity: dict[str, str]
    compiled: list[list[str]]


def warm_up(
    jobs: int | None = None,
    *,
    force: bool = False,
    begin: Callable[[Sequence[str]], None] = lambda names: None,
    done: Callable[[str], None] = lambda name: None,
) -> bool:
    """Compile everything that is missing, `jobs` tasks at a time (one per core); False if there was nothing to do.

    `begin` is told the names of all tasks, `done` each one that has ended. With `force` the stamp is ignored.
    """
    if jobs is not None:
        checks.whole_number("jobs", jobs, least=1)
    stamp, tree = _stamp(), SourceTree(PACKAGE)
    known = _read(stamp)
    identity = _identity(tree)
    if not force and known.get("identity") == identity:
        return False
    if known:
        _forget_outdated(tree, known.get("compiled", []))
    else:
        _forget_everything()
    begin(list(TASKS))
    modules: set[Compiled] = set()
    # A forked process would inherit locks that are never released.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs or os.cpu_count() or 1, mp_context=context) as pool:
        waiting = {pool.submit(_work, name): name for name in TASKS}
        for finished in as_completed(waiting):
            modules.update(Compiled(*module) for module in finished.result())
            done(waiting[finished])
    made = [[*module, tree.digest(Path(module.source))] for module in sorted(modules)]
    _write(stamp, {"identity": identity, "compiled": made})
    return True


# -- what is compiled ---------------------------------------------------------------------------------------------


def _trials_side_by_side(kind: Precision = np.float64) -> None:
    from gossamer.engines.simulate import simulate
    from gossamer.methods import AnytimeSDA, PairwiseGossip
    from gossamer.networks import Network
    from gossamer.observations import Drifting, Gaussian, Uniform

    net, mean = Network.grid(3, AGENTS // 3), np.arange(float(AGENTS))
    for method in (AnytimeSDA(), PairwiseGossip()):
        simulate(method, net, Gaussian(mean), ROUNDS, TRIALS, dtype=kind, progress=False)
    for obs in (Uniform(mean, mean + 1), Drifting(Gaussian(mean), 0.1)):
        simulate(AnytimeSDA(), net, obs, ROUNDS, TRIALS, dtype=kind, progress=False)
    simulate(AnytimeSDA(), net, Gaussian(mean), ROUNDS, TRIALS, keep="iterates", dtype=kind, progress=False)


def _agents_side_by_side(kind: Precision = np.float64) -> None:
    from gossamer.engines.simulate import simulate
    from gossamer.methods import AnytimeSDA
    from gossamer.networks import Network
    from gossamer.observations import Gaussian

    for agents in (AGENTS, LARGE):
        obs = Gaussian(np.arange(float(agents)))
        simulate(AnytimeSDA(), Network.cycle(agents), obs, ROUNDS, 1, dtype=kind, progress=False)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError):  # not installed, or without its library
        return
    simulate(
        AnytimeSDA(), f"cycle:{LARGE}", obs, ROUNDS, 1, dtype=kind, cluster=MPI.COMM_SELF, progress=False
    )


def _drawn_networks() -> None:
    from gossamer.networks import Network
    from gossamer.networks.topologies import COUNTED

    for name in (f"geometric:{COUNTED}", f"erdos-renyi:{COUNTED}", f"expander:{COUNTED}x4"):
        _ = Network.named(name).links


def _exact_errors() -> None:
    from gossamer.engines.exact import exact
    from gossamer.methods import SDA, AnytimeSDA
    from gossamer.networks import DENSE_LIMIT, Network
    from gossamer.observations import Gaussian
    from gossamer.planning import plan
    from gossamer.tuning import tune

    net, obs = Network.path(AGENTS), Gaussian(np.arange(float(AGENTS)))
    exact(AnytimeSDA(), net, obs, ROUNDS[-1])
    exact(AnytimeSDA(), net, obs, ROUNDS)
    exact(SDA(), net, obs, range(1, AGENTS))
    tune(AnytimeSDA("chebyshev"), net, obs, ROUNDS[-1])
    plan(net, obs, 1.0)
    tune("sda", net, obs, ROUNDS[-1], "step_size")
    tune("sda", net, obs, ROUNDS[-1], ["burn_in", "step_size"])
    large = DENSE_LIMIT + 1  # too large to decompose
    exact(AnytimeSDA(), Network.expander(large, 4), Gaussian(np.arange(float(large))), ROUNDS[0])


def _faults_and_likelihood() -> None:
    """Together, because both draw their samples ahead of the rounds."""
    from gossamer.applications import LikelihoodEstimation
    from gossamer.engines.simulate import simulate
    from gossamer.faults import Bursts, Crash, Delay, Faults, Loss
    from gossamer.methods import AnytimeSDA
    from gossamer.networks import ChangingNetwork, Network
    from gossamer.observations import Gaussian

    net, obs = Network.path(AGENTS), Gaussian(np.arange(float(AGENTS)))
    for faults in (Faults(Loss(0.2)), Faults(Loss(0.2), Bursts(4, 0.2), Delay(1, 0.1), Crash(1, 2))):
        simulate(AnytimeSDA(), net, obs, ROUNDS[-1], TRIALS, faults=faults, progress=False)
    changing, local = ChangingNetwork.matchings(AGENTS), AnytimeSDA(acceleration="local")
    for some in (Faults(), Faults(Loss(0.2))):
        simulate(local, changing, obs, ROUNDS[-1], TRIALS, faults=some, progress=False)
    LikelihoodEstimation.random(net, "logistic", 2).simulate("anytime-sda", ROUNDS, TRIALS)


def _linear_estimation() -> None:
    from gossamer.applications import KarMoura, LinearEstimation
    from gossamer.networks import Network

    sensors = LinearEstimation.random(Network.cycle(AGENTS), 2, 2)
    for solver in (KarMoura("LU"), KarMoura("mixed")):
        sensors.simulate(solver, ROUNDS, TRIALS)


def _policy_evaluation() -> None:
    from gossamer.applications import PolicyEvaluation, TemporalDifference, problems
    from gossamer.networks import Network

    task = PolicyEvaluation.from_problem(Network.cycle(AGENTS), problems.garnet(5, 2))
    task.sample_transitions(ROUNDS, TRIALS)
    for learner in (TemporalDifference(), TemporalDifference("iid")):
        task.simulate(learner, ROUNDS, TRIALS)


def _comparison() -> None:
    from gossamer.comparison.backends import threads_must_take_turns

    threads_must_take_turns()


TASKS: dict[str, Callable[[], None]] = {
    "trials side by side": _trials_side_by_side,
    "trials side by side (single precision)": partial(_trials_side_by_side, np.float32),
    "exact errors": _exact_errors,
    "linear estimation": _linear_estimation,
    "policy evaluation": _policy_evaluation,
    "agents side by side": _agents_side_by_side,
    "agents side by side (single precision)": partial(_agents_side_by_side, np.float32),
    "faults and maximum likelihood": _faults_and_likelihood,
    "networks drawn from counters": _drawn_networks,
    "comparisons": _comparison,
}
"""By name, the longest first, so that no core ends up alone with a long one."""


def _work(name: str) -> list[Compiled]:
    """One task; returns every module with compiled functions that it has loaded."""
    expect_compiling()
    TASKS[name]()
    return sorted({entry for module in list(sys.modules) for entry in _compiled_in(module)})


def _compiled_in(module: str) -> Iterator[Compiled]:
    if module.split(".")[0] != PACKAGE.name:
        return
    for value in list(vars(sys.modules[module]).values()):
        if getattr(getattr(value, "py_func", None), "__module__", None) == module:
            yield Compiled(str(sys.modules[module].__file__), value.stats.cache_path)


# -- what is compiled already -------------------------------------------------------------------------------------


@compiled
def _anything() -> None:
    """Never called: it says where Numba keeps compiled code."""


def _stamp() -> Path:
    return Path(_anything.stats.cache_path) / "warmup.json"  # type: ignore[attr-defined]


def _identity(tree: SourceTree) -> dict[str, str]:
    """Everything that compiled code is tied to; Numba too looks at versions, processor, size and age of a file."""
    files = hashlib.sha256()
    for path in sorted(tree.reachable(Path(__file__))):
        about = path.stat()
        files.update(f"{path} {about.st_size} {about.st_mtime_ns}\n".encode())
    features = hashlib.sha256(str(sorted(llvm.get_host_cpu_features().items())).encode())
    return {
        "sources": files.hexdigest()[:16],
        "python": platform.python_version(),
        "numba": numba.__version__,
        "processor": f"{llvm.get_host_cpu_name()} {features.hexdigest()[:16]}",
    }


def _forget_outdated(tree: SourceTree, recorded: Iterable[Sequence[str]]) -> None:
    """Remove compiled code whose module, or anything it imports, has changed since.

    Numba itself notices only a change of the file that a function is in, and functions of other files are
    compiled into it: after an edit of `philox.py` a simulation would continue to draw the old numbers.
    """
    for source, folder, digest in recorded:
        path = Path(source)
        if not path.exists() or tree.digest(path) != digest:
            for old in Path(folder).glob(f"{path.stem}.*.nb[ic]"):
                old.unlink(missing_ok=True)


def _forget_everything() -> None:
    """Remove compiled code of unknown age: what it was compiled from, types included, may no longer exist."""
    for old in PACKAGE.rglob("*.nb[ic]"):
        old.unlink(missing_ok=True)


def _read(stamp: Path) -> _Stamp:
    try:
        content = json.loads(stamp.read_text())
        return {"identity": content["identity"], "compiled": content["compiled"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write(stamp: Path, content: _Stamp) -> None:
    """Write the stamp whole or not at all; without one the next call just looks again."""
    draft = stamp.with_name(f"{stamp.name}.{os.getpid()}.part")
    try:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(content, indent=1))
        draft.replace(stamp)
    except OSError:
        draft.unlink(missing_ok=True)
