"""Points on disk: computed once, found by content, and never half written."""

from __future__ import annotations

import importlib
import sys
import types

import numpy as np
import pandas as pd
import pytest

import gossamer as gs
from gossamer.comparison import engine as module
from gossamer.methods.loading import load_class

NETS = {"path": gs.Network.path(6), "cycle": gs.Network.cycle(8)}


def streams(network):
    return gs.Gaussian(np.random.default_rng(3).uniform(0, 10, network.agents), 1.0)


@pytest.fixture
def computed(monkeypatch):
    """What was computed rather than read: (network, method, horizons) of every point."""
    whole, seen = module.evaluate, []

    def watching(batch):
        seen.extend((point.setting.name, point.name, tuple(horizons)) for _, point, horizons in batch)
        return whole(batch)

    monkeypatch.setattr(module, "evaluate", watching)
    return seen


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
    whole = gs.compare(["sda", "dsg", "d-masg"], NETS, streams, [20, 50, 80], trials=4)
    pd.testing.assert_frame_equal(more.to_frame(), whole.to_frame(), rtol=1e-12)
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
    assert gs.compare("sda", NETS, streams, 20, store=tmp_path) == first
    assert len(computed) == 1


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


def test_code_without_a_file_is_refused(tmp_path, monkeypatch):
    place = types.ModuleType("__main__")
    exec("import gossamer as gs\nclass Typed(gs.Gaussian): pass", vars(place))
    monkeypatch.setitem(sys.modules, "__main__", place)
    with pytest.raises(gs.InvalidInput, match="whose code stands in a file"):
        gs.compare("sda", NETS["path"], place.Typed(np.arange(6.0)), 20, store=tmp_path)
    assert len(gs.compare("sda", NETS["path"], place.Typed(np.arange(6.0)), 20).rows) == 1


def test_a_store_is_a_folder():
    with pytest.raises(gs.InvalidInput, match="store must be a folder, got 5"):
        gs.compare("sda", NETS, streams, 20, store=5)
