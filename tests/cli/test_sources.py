"""gossamer sources: what is installed."""

from __future__ import annotations

import json

from tests.support.commands import invoke

from gossamer.agents.sinks.kinds import SINKS
from gossamer.agents.sources.opening import SOURCES


def test_all_kinds_are_listed() -> None:
    shown = invoke("sources").output
    assert all(
        word in shown for word in ("Sources", "csv:FILE", "mqtt[s]://", "Sinks", "file://PATH", "gossamer")
    )
    lines = [json.loads(line) for line in invoke("sources", "--json").output.splitlines()]
    assert {(line["group"], line["kind"]) for line in lines} >= {
        *(("source", kind) for kind in SOURCES),
        *(("sink", kind) for kind in SINKS),
    }
    assert {line["package"] for line in lines} == {"gossamer"}
