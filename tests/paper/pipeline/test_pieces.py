"""Pieces in the store: resuming, and never mixing settings or code."""

from __future__ import annotations

import pytest

from gossamer.comparison.store import Store
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.results import COLUMNS
from gossamer.paper.pipeline.run import run_pieces

CALLS = []


def store_in(folder):
    return Store(folder, COLUMNS)


def work(size: int, label: str = "a"):
    CALLS.append((size, label))
    return [{"experiment": "test", "quantity": label, "value": float(k)} for k in range(size)]


def test_finished_pieces_are_read_back_and_not_computed_again(tmp_path):
    CALLS.clear()
    pieces = [Piece("one", work, {"size": 2}), Piece("two", work, {"size": 3})]
    first = run_pieces(pieces, store_in(tmp_path), workers=1)
    told = []
    again = run_pieces(
        pieces, store_in(tmp_path), workers=1, done=lambda piece, fresh: told.append((piece.name, fresh))
    )
    assert len(CALLS) == 2
    assert told == [("one", False), ("two", False)]
    assert {k: v.rows for k, v in first.items()} == {k: v.rows for k, v in again.items()}


def test_changed_setting_does_not_reuse_results(tmp_path):
    CALLS.clear()
    store = store_in(tmp_path)
    run_pieces([Piece("one", work, {"size": 2, "label": "a"})], store, workers=1)
    other = Piece("one", work, {"size": 2, "label": "b"})
    assert store.read(other.key) is None
    found = run_pieces([other], store, workers=1)
    assert CALLS == [(2, "a"), (2, "b")]
    assert found[other.key].rows[0]["quantity"] == "b"


def test_changed_code_does_not_reuse_results(tmp_path, monkeypatch):
    store, piece = store_in(tmp_path), Piece("one", work, {"size": 1})
    run_pieces([piece], store, workers=1)
    assert store.read(piece.key) is not None
    monkeypatch.setattr("gossamer.paper.pipeline.pieces.fingerprint", lambda module: "other")
    assert store.read(piece.key) is None


def test_damaged_file_is_computed_again(tmp_path):
    CALLS.clear()
    piece = Piece("one", work, {"size": 1})
    run_pieces([piece], store_in(tmp_path), workers=1)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    run_pieces([piece], store_in(tmp_path), workers=1)
    assert len(CALLS) == 2
    assert len(store_in(tmp_path).read(piece.key).rows) == 1


def test_interrupted_run_continues_with_what_is_missing(tmp_path):
    CALLS.clear()
    pieces = [Piece(f"p{k}", work, {"size": k}, weight=10 - k) for k in range(1, 6)]

    def interrupt(piece, fresh):
        if len(CALLS) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pieces(pieces, store_in(tmp_path), workers=1, done=interrupt)
    before = len(CALLS)
    assert before < 5
    run_pieces(pieces, store_in(tmp_path), workers=1)
    assert sorted(size for size, _ in CALLS[before:]) == [4, 5][-(5 - before) :]
    assert len(list(tmp_path.iterdir())) == 5


def test_shared_pieces_run_once(tmp_path):
    CALLS.clear()
    run_pieces([Piece("one", work, {"size": 1})] * 3, store_in(tmp_path), workers=1)
    assert len(CALLS) == 1
