"""Pieces on disk: resuming, and never mixing settings or code."""

from __future__ import annotations

import json

import pytest

import gossamer as gs
from gossamer.paper.pipeline.cache import PieceCache
from gossamer.paper.pipeline.pieces import Piece
from gossamer.paper.pipeline.run import run_pieces

CALLS = []


def work(size: int, label: str = "a"):
    CALLS.append((size, label))
    return [{"experiment": "test", "quantity": label, "value": float(k)} for k in range(size)]


def test_finished_pieces_are_read_back_and_not_computed_again(tmp_path):
    CALLS.clear()
    pieces = [Piece("one", work, {"size": 2}), Piece("two", work, {"size": 3})]
    first = run_pieces(pieces, PieceCache(tmp_path), jobs=1)
    told = []
    again = run_pieces(
        pieces, PieceCache(tmp_path), jobs=1, done=lambda piece, fresh: told.append((piece.name, fresh))
    )
    assert len(CALLS) == 2
    assert told == [("one", False), ("two", False)]
    assert {k: v[0] for k, v in first.items()} == {k: v[0] for k, v in again.items()}


def test_changed_setting_does_not_reuse_results(tmp_path):
    CALLS.clear()
    cache = PieceCache(tmp_path)
    run_pieces([Piece("one", work, {"size": 2, "label": "a"})], cache, jobs=1)
    other = Piece("one", work, {"size": 2, "label": "b"})
    assert cache.load(other) is None
    found = run_pieces([other], cache, jobs=1)
    assert CALLS == [(2, "a"), (2, "b")]
    assert found[other.key][0][0]["quantity"] == "b"


def test_changed_code_or_schema_does_not_reuse_results(tmp_path, monkeypatch):
    cache, piece = PieceCache(tmp_path), Piece("one", work, {"size": 1})
    run_pieces([piece], cache, jobs=1)
    assert cache.load(piece) is not None
    monkeypatch.setattr("gossamer.paper.pipeline.pieces.fingerprint", lambda module: "other")
    assert cache.load(piece) is None
    monkeypatch.undo()
    monkeypatch.setattr("gossamer.paper.pipeline.pieces.SCHEMA", 99)
    assert cache.load(piece) is None


def test_file_under_the_right_name_with_other_settings_is_refused(tmp_path):
    cache, piece, other = (
        PieceCache(tmp_path),
        Piece("one", work, {"size": 1}),
        Piece("one", work, {"size": 2}),
    )
    run_pieces([other], cache, jobs=1)
    cache.path(other).rename(cache.path(piece))
    assert cache.load(piece) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"identity": 1}'])
def test_damaged_file_is_computed_again(tmp_path, damage):
    CALLS.clear()
    cache, piece = PieceCache(tmp_path), Piece("one", work, {"size": 1})
    run_pieces([piece], cache, jobs=1)
    cache.path(piece).write_text(damage)
    run_pieces([piece], cache, jobs=1)
    assert len(CALLS) == 2
    assert json.loads(cache.path(piece).read_text())["rows"]


def test_interrupted_run_continues_with_what_is_missing(tmp_path):
    CALLS.clear()
    pieces = [Piece(f"p{k}", work, {"size": k}, weight=10 - k) for k in range(1, 6)]

    def interrupt(piece, fresh):
        if len(CALLS) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pieces(pieces, PieceCache(tmp_path), jobs=1, done=interrupt)
    before = len(CALLS)
    assert before < 5
    run_pieces(pieces, PieceCache(tmp_path), jobs=1)
    assert sorted(size for size, _ in CALLS[before:]) == [4, 5][-(5 - before) :]
    assert not list(tmp_path.glob("*.part"))


def test_shared_pieces_run_once(tmp_path):
    CALLS.clear()
    run_pieces([Piece("one", work, {"size": 1})] * 3, PieceCache(tmp_path), jobs=1)
    assert len(CALLS) == 1


def test_unknown_column_is_an_error(tmp_path):
    with pytest.raises(LookupError, match=r"unknown columns \['color'\]"):
        PieceCache(tmp_path).save(Piece("one", work), [{"color": 1}], 0.0)


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(gs.OutputError, match="choose another folder"):
        PieceCache(tmp_path / "file" / "below")
