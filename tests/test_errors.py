"""Errors with fields: the text made from them, another name for the parameter, and the way through a process."""

from __future__ import annotations

import pickle

import pytest

from gossamer.errors import GossamerError, InvalidNetwork, MissingExtra, OutputError


def test_the_text_is_made_from_the_fields():
    assert str(GossamerError("no agent is left")) == "no agent is left"
    assert str(GossamerError("needs a path", parameter="store")) == "store needs a path"
    assert str(GossamerError(", in seconds, is 0", parameter="pace")) == "pace, in seconds, is 0"
    assert str(GossamerError(parameter="n", required="at least 2")) == "n must be at least 2"
    error = GossamerError(parameter="n", required="at least 2", got="1", hint="add one")
    assert str(error) == "n must be at least 2, got 1; add one"
    assert (error.parameter, error.required, error.got, error.hint) == ("n", "at least 2", "1", "add one")


@pytest.mark.parametrize("kind", [InvalidNetwork, MissingExtra, OutputError])
def test_another_process_sees_the_same_error(kind):
    error = kind(parameter="n", required="at least 2", got="1")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert vars(copy) == vars(error)
    assert str(copy) == "n must be at least 2, got 1"


def test_an_error_is_named_by_its_place():
    fields = ("step_size", "momentum")
    error = GossamerError("must be above 0", parameter="step_size").inside("method", fields)
    assert str(error) == "method.step_size must be above 0"
    assert (
        str(GossamerError("must be above 0", parameter="n").inside("method", fields))
        == "method: n must be above 0"
    )
    assert str(GossamerError("there is no file").inside("method", fields)) == "method: there is no file"
