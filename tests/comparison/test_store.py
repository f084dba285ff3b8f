"""Points on disk: computed once, found by content, and never half written."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gossamer as gs
from gossamer.comparison import engine as module

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
