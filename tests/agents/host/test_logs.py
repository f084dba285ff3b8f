"""Logs that cannot be flooded."""

from __future__ import annotations

import logging

from gossamer.agents.host.logs import Sparing, log

EXPIRED = (
    "refused a connection: certificate expired: verification time {}, but not valid after 9 ({} seconds ago)"
)


def passed(*messages: tuple[object, ...], name: str = log.name) -> list[int]:
    """Which of some messages, (format, arguments...), pass."""
    sparing = Sparing()
    records = [logging.LogRecord(name, logging.INFO, "", 0, m[0], m[1:], None) for m in messages]
    return [k for k, record in enumerate(records) if sparing.filter(record)]


def test_equal_messages_pass_ever_more_rarely() -> None:
    assert passed(*[("%s", "hello")] * 20) == [0, 1, 3, 7, 15]


def test_times_and_ports_make_no_difference() -> None:
    assert passed(*[("%s", EXPIRED.format(1000 + k, k)) for k in range(20)]) == [0, 1, 3, 7, 15]
    assert passed(*[("%s", f"zenoh: 10.0.0.7:{4000 + k} went") for k in range(20)]) == [0, 1, 3, 7, 15]


def test_neighbors_are_told_apart() -> None:
    neighbors = [("agent %d: neighbor %d connected", 0, j) for j in range(5)]
    assert passed(*neighbors) == [0, 1, 2, 3, 4]
    away = [("%s", f"cannot connect to tls/10.0.0.{j}:7447: refused (os error {j % 2})") for j in range(5)]
    assert passed(*away, *away) == list(range(10))
    assert passed(*[away[0]] * 8) == [0, 1, 3, 7]
