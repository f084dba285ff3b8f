"""Points on disk: computed once, found by content, and never half written."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest

import gossamer as gs
from gossamer.comparison import sweep as module
from gossamer.comparison.points import COLUMNS
from gossamer.comparison.store import Store, verified
from gossamer.methods.loading import load_class

NETS = {"path": gs.Network.path(6), "cycle": gs.Network.cycle(8)}


def streams(network):
    return gs.Gaussian(np.random.default_rng(3).uniform(0, 10, network.agents), 1.0)


@pytest.fixture
def computed(monkeypatch):
    """What was computed rather than read: (network, method, horizons without kept trials) of every point."""
    whole, seen = module.evaluate, []

    def watching(batch):
        for each in batch:
            fresh = tuple(t for t in each.horizons if t not in each.kept)
            seen.append((each.point.setting.name, each.point.name, fresh))
        return whole(batch)

    monkeypatch.setattr(module, "evaluate", watching)
    return seen


@pytest.mark.slow
def test_a_second_call_computes_only_what_is_missing(tmp_path, computed):
    first = gs.compare(["sda", "dsg"], NETS, streams, [20, 50], trials=4, store=tmp_path)
    assert len(computed) == 4
    computed.clear()
    assert gs.compare(["sda", "dsg"], NETS, streams, [20, 50], trials=4, store=tmp_path) == first
    assert computed == []
    more = gs.compare(["sda", "dsg", "d-masg"], NETS, streams, [20, 50, 80], trials=4, store=tmp_path)
    assert sorted(computed) == sorted(
        [(net, method, (80,)) for net in NETS for method in ("sda", "dsg")]
        + [(net, "d-masg", (20, 50, 80)) for net in NETS]
    )
    assert more == gs.compare(["sda", "dsg", "d-masg"], NETS, streams, [20, 50, 80], trials=4)
    assert more.remarks == []
    assert len(list(tmp_path.glob("*.parquet"))) == 6
    assert len(pd.read_parquet(tmp_path)) == 18


def test_everything_that_a_number_depends_on_is_in_the_key(tmp_path, computed):
    def run(method="sda", network=NETS["path"], std=1.0, **options):
        streams = gs.Gaussian(np.arange(network.agents, dtype=float), std)
        return gs.compare(method, network, streams, 20, store=tmp_path, **options)

    run()
    variants = [
        {"method": gs.SDA(burn_in=2)},
        {"network": gs.Network.path(6, weights="laplacian")},
        {"network": gs.Network.star(6)},
        {"std": 2.0},
        {"trials": 3},
        {"trials": 3, "seed": 1},
        {"trials": 3, "faults": gs.faults.Loss(0.1)},
        {"trials": 3, "faults": gs.faults.Loss(0.2)},
    ]
    for count, options in enumerate(variants, start=2):
        run(**options)
        assert len(computed) == count
    run()
    assert len(computed) == len(variants) + 1


def test_the_names_are_those_of_the_caller(tmp_path, computed):
    gs.compare({"a": "sda"}, {"x": NETS["path"]}, streams, 20, store=tmp_path)
    again = gs.compare({"b": "sda"}, {"y": NETS["path"]}, streams, 20, store=tmp_path)
    assert len(computed) == 1
    assert (again.column("method"), again.column("network")) == (["b"], ["y"])


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on(tmp_path, interrupt):
    many = {f"er{k}": gs.Network.erdos_renyi(8, seed=k) for k in range(30)}
    interrupt(4)
    assert gs.compare("sda", many, streams, [20], store=tmp_path, workers=1).partial
    kept = len(list(tmp_path.glob("*.parquet")))
    assert 0 < kept < 30
    done = gs.compare("sda", many, streams, [20], store=tmp_path)  # the one Ctrl-C is over
    assert done == gs.compare("sda", many, streams, [20])
    assert not done.partial


def test_a_damaged_file_is_computed_again(tmp_path, computed):
    first = gs.compare("sda", NETS, streams, 20, store=tmp_path)
    file = next(tmp_path.glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:100])
    computed.clear()
    with pytest.warns(UserWarning, match=f"damaged files in .* computed again: {file.name}$"):
        assert gs.compare("sda", NETS, streams, 20, store=tmp_path) == first
    assert len(computed) == 1


@pytest.mark.slow
def test_no_flipped_bit_gives_a_wrong_number(tmp_path):
    """Every bit of the file is under its digest, and what does not have its digest is not read."""
    gs.compare(["sda"], NETS["path"], streams, [20, 50], trials=3, store=tmp_path)
    (file,) = tmp_path.glob("*.parquet")
    content = file.read_bytes()
    assert verified(content) == content

    def damaged(place):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << (place % 8)
        return bytes(flipped)

    for place in range(0, 8 * len(content), 3):
        with pytest.raises(ValueError, match="not the file"):
            verified(damaged(place))
    places = np.random.default_rng(1).choice(8 * len(content), 200, replace=False).tolist()
    store = Store(tmp_path, COLUMNS)
    assert len(store.read(file.stem).rows) == 2
    for place in places:
        file.write_bytes(damaged(place))
        assert store.read(file.stem) is None
    assert len(store.damaged) == len(places)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sda", "anytime-sda", "d-masg", "dsg"])
def test_a_comparison_that_was_extended_equals_a_fresh_one(tmp_path, method):
    """With one horizon, a few, and so many that SDA has one pass for all: the last digits depend on it."""
    sizes = [[40], [40, 60], [40, 60, 80], [*range(40, 100, 5)]]
    for horizons in sizes:
        stored = gs.compare(method, NETS["cycle"], streams, horizons, trials=3, store=tmp_path)
        assert stored == gs.compare(method, NETS["cycle"], streams, horizons, trials=3)
        assert stored.notes == []
    fewer = gs.compare(method, NETS["cycle"], streams, [40, 60], trials=3, store=tmp_path)
    (remark,) = fewer.notes
    assert "computed together with other numbers of rounds (40 45 50" in remark


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path, computed):
    (tmp_path / "file").write_text("")
    with pytest.raises(gs.OutputError, match="choose a folder"):
        gs.compare("sda", NETS, streams, 20, store=tmp_path / "file")
    assert computed == []


METHOD = """
from dataclasses import dataclass
import gossamer as gs
from {helper} import STEP

@dataclass(frozen=True)
class Mine(gs.SDA):
    name = "mine"

    def coefficients(self, network, rounds):
        return super().coefficients(network, rounds)._replace(step_size=STEP / network.lambda_max)
"""


def load(folder, step):
    """A method of a user's own, whose step size stands in another file."""
    (folder / "a_helper_of_mine.py").write_text(f"STEP = {step}\n")
    (folder / "a_method_of_mine.py").write_text(METHOD.format(helper="a_helper_of_mine"))
    for name in ("a_helper_of_mine", "a_method_of_mine"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return load_class(f"{folder / 'a_method_of_mine.py'}:Mine")()


def test_own_code_is_known_by_all_the_files_it_uses(tmp_path, monkeypatch, computed):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = gs.compare(load(tmp_path, 1.0), NETS["path"], streams, 20, store=tmp_path / "runs")
    again = gs.compare(load(tmp_path, 1.0), NETS["path"], streams, 20, store=tmp_path / "runs")
    assert len(computed) == 1
    assert again == first
    other = gs.compare(load(tmp_path, 0.5), NETS["path"], streams, 20, store=tmp_path / "runs")
    assert len(computed) == 2
    assert other.column("total_error") != first.column("total_error")


def test_functions_are_known_by_their_code(tmp_path, computed):
    base, scale = streams(NETS["path"]), 0.1
    waves = [lambda t: [np.sin(t)] * 6, lambda t: [np.cos(t)] * 6, lambda t: [scale * i for i in range(6)]]
    for wave in (*waves, *waves):
        gs.compare("anytime-sda", NETS["path"], gs.Moving(base, wave), 20, store=tmp_path)
    assert len(computed) == 3
    scale = 0.2
    gs.compare("anytime-sda", NETS["path"], gs.Moving(base, waves[2]), 20, store=tmp_path)
    assert len(computed) == 4


OWN = """
import os
import numpy as np
import gossamer as gs

class Method(gs.SDA):
    name = "mine"

    def coefficients(self, network, rounds):
        c = super().coefficients(network, rounds)
        return c._replace(step_size=c.step_size * float(os.environ["SHRINK"]))

class Streams(gs.UniformDriven):
    mean, variance = np.arange(6.0)[:, None], np.full((6, 1), 1 / 12)

    def from_uniforms(self, agents, *uniforms):
        return self.mean[agents, :, None] + (uniforms[0] - 0.5) * float(os.environ["SHRINK"])

class Late(Streams):  # they change after round 15
    def from_uniforms(self, agents, *uniforms):
        return self.mean[agents, :, None] + uniforms[0] - 0.5

    def sample(self, seed, rounds, trials, agents=None, batches=None):
        late = np.array(rounds)[:, None, None, None] > 15
        return super().sample(seed, rounds, trials, agents, batches) + late * float(os.environ["SHRINK"])

def mean_at(t):
    return np.arange(6.0) * float(os.environ["SHRINK"]) * (t > 10)

def edges(t):
    return [(0, 1), (1, 2), (2, 3), (3, 4)] + [(4, 5)] * (t > 10 * float(os.environ["SHRINK"]))
"""


@pytest.mark.parametrize("what", ["method", "streams", "late", "inside", "means", "network"])
def test_values_count_and_not_only_code(tmp_path, monkeypatch, computed, what):
    """A method, streams or a network whose code reads an environment variable."""
    (tmp_path / "reading_globals.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    own = importlib.import_module("reading_globals")

    def run(shrink):
        monkeypatch.setenv("SHRINK", shrink)
        method = own.Method() if what == "method" else gs.AnytimeSDA("local")
        late = own.Late()
        kinds = {"streams": own.Streams(), "late": late, "inside": gs.Drifting(late, 0.0)}
        obs = kinds.get(what) or streams(NETS["path"])
        obs = gs.Moving(obs, own.mean_at) if what == "means" else obs
        net = gs.ChangingNetwork.from_function(own.edges, 6) if what == "network" else NETS["path"]
        return gs.compare(method, net, obs, [20, 50], trials=3, store=tmp_path / "runs")

    whole = run("1")
    assert run("1") == whole
    assert len(computed) == 1
    half = run("0.5")
    assert len(computed) == 2
    assert half.column("simulated_error") != whole.column("simulated_error")
    assert run("1") == whole
    sys.modules.pop("reading_globals")


def test_a_spectrum_is_not_computed_to_read_what_is_stored(tmp_path, monkeypatch):
    def network():
        return gs.Network.erdos_renyi(10, seed=1)

    first = gs.compare(["sda", "dsg"], network(), streams, [20, 50], store=tmp_path)

    def refuse(*args, **kwargs):
        raise AssertionError("this takes long on large networks")

    for name in ("spectrum", "lambda_max", "lambda_2", "condition_number"):
        monkeypatch.setattr(gs.Network, name, property(refuse))
    assert gs.compare(["sda", "dsg"], network(), streams, [20, 50], store=tmp_path) == first


TYPED = """
from dataclasses import dataclass
from typing import NamedTuple
import numpy as np
import gossamer as gs

SCALE = {scale}

def shrunk(value):
    return {body}

@dataclass(frozen=True)
class Typed(gs.SDA):
    factor: float = 1.0
    name = "typed"

    def coefficients(self, network, rounds):
        c = super().coefficients(network, rounds)
        return c._replace(step_size=self.factor * shrunk(c.step_size))

class Streams(gs.Gaussian):
    kinds = {{"a", "b"}}
"""


@pytest.mark.parametrize("file", [None, "<stdin>"])
def test_classes_typed_into_a_notebook_are_known_by_their_code(tmp_path, monkeypatch, computed, file):
    """The numbers of cells, which every session counts anew, do not matter; code and the globals that it uses do."""

    def run(cell, scale="1.0", body="value * SCALE"):
        place = types.ModuleType("__main__")
        place.__file__ = file  # "<stdin>" is what `python - < script.py` says
        monkeypatch.setitem(sys.modules, "__main__", place)
        exec(compile(TYPED.format(scale=scale, body=body), f"<ipython-input-{cell}>", "exec"), vars(place))
        obs = place.Streams(np.arange(6.0))
        return gs.compare(place.Typed(), NETS["path"], obs, 20, store=tmp_path).column("total_error")

    first = run(1)
    assert run(2) == first
    assert len(computed) == 1
    assert run(3, scale="0.5") != first
    assert run(4, body="value * SCALE / 3") != first
    assert len(computed) == 3
    assert run(5) == first
    assert len(computed) == 3


def test_typed_code_whose_globals_cannot_be_hashed_is_refused(tmp_path, monkeypatch):
    place = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", place)
    text = "import gossamer as gs\nLOCK = open(__import__('os').devnull)\nclass Typed(gs.Gaussian):\n"
    exec(text + "    def receive_estimates(self, *given): LOCK.read()", vars(place))
    with (
        place.LOCK,
        pytest.raises(gs.InvalidInput, match=r"LOCK is .* cannot be pickled; put the code into a mod"),
    ):
        gs.compare("sda", NETS["path"], place.Typed(np.arange(6.0)), 20, store=tmp_path)
    assert len(gs.compare("sda", NETS["path"], place.Typed(np.arange(6.0)), 20).rows) == 1


READING = """
import os, pathlib, sys
from gossamer.comparison.store import Store

store = Store(pathlib.Path(sys.argv[1]), {"rounds": int})
store.write("a", [(5,)], {})
before = len(os.listdir("/proc/self/task"))
assert store.read("a").rows == [(5,)]
sys.exit(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not pathlib.Path("/proc/self/task").exists(), reason="counts the threads of a process on Linux"
)
def test_reading_starts_no_threads(tmp_path):
    """A thread of Arrow that is busy when the interpreter exits aborts the process after its work is done."""
    assert subprocess.run([sys.executable, "-c", READING, str(tmp_path)], check=False).returncode == 0


def test_a_store_is_a_folder():
    with pytest.raises(gs.InvalidInput, match="store must be a folder, got 5"):
        gs.compare("sda", NETS, streams, 20, store=5)
