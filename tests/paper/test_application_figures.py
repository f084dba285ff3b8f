"""The report's figures of the applications; tests/experiments draws and judges them with all the others."""

from __future__ import annotations

from gossamer.paper.figures import applications
from gossamer.paper.pipeline.settings import Settings


def test_pieces_depend_on_the_code_of_the_applications(monkeypatch):
    settings = Settings.quick()
    before = [piece.key for piece in applications.estimation_pieces(settings)]
    monkeypatch.setattr(applications, "_code", lambda: "other")
    assert not set(before) & {piece.key for piece in applications.estimation_pieces(settings)}
