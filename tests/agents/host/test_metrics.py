"""Prometheus metrics: the names, the labels, and that they follow the agent."""

from __future__ import annotations

import asyncio
import platform
import re
import ssl
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.small_fleets import fleet, free_ports
from tests.support.waiting import until_true

from gossamer.agents.agent import Agent
from gossamer.agents.host.metrics import AgentCollector
from gossamer.agents.host.status import estimate_line
from gossamer.agents.host.web import serve
from gossamer.agents.snapshot import Snapshot
from gossamer.agents.sources.opening import FromIterable
from gossamer.agents.statistics.layout import Answers, Layout
from gossamer.agents.transports.memory import Memory
from gossamer.errors import InvalidInput, OutputError
from gossamer.fingerprint import full_version
from gossamer.networks import Network

END = datetime(2027, 1, 1, tzinfo=UTC)
"""Of a certificate."""


def scrape(port: int) -> dict[tuple[str, tuple[str, ...]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(v for k, v in sorted(sample.labels.items()) if k != "agent")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels["agent"] == "agent0"
    }


async def some_rounds() -> Snapshot:
    """Agent 0's snapshot after it talked a while with its neighbor, in process."""
    settings = fleet(Network.path(2), dimension=2, replicates=4, pace=0.002)
    hub = Memory()
    async with (
        Agent(settings[0], transport=hub.transport(0, (1,))) as a,
        Agent(settings[1], transport=hub.transport(1, (0,))) as b,
    ):
        for _ in range(3):
            a.observe([1.0, 2.0])
            b.observe([3.0, 4.0])
        await until_true(lambda: a.snapshot.age > 30 and np.isfinite(a.estimate).all(), "30 rounds")
        return a.snapshot


def everything() -> Answers:
    """Answers of a fleet that is asked for all there is; half of its members have observed."""
    layout = Layout(2, variance=True, bins=(0.0, 2.0, 5.0), replicates=2, covariance=True, extremes=True)
    mean, squares, product = [1.0, 2.0], [3.0, 9.0], [4.25]
    shares, noise = [0.1, 0.1, 0.2, 0.3, 0.5, 0.5], [0.01, 0.02, 0.03, 0.04]
    answers = layout.read(np.array([0.5, *mean, *squares, *shares, *product, *noise]))
    return replace(answers, extremes=(np.array([-1.0, 0.5]), np.array([5.0, 6.0])))


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    found = asyncio.run(some_rounds())
    return replace(found, neighbors=tuple(replace(n, round_trip=0.25) for n in found.neighbors))


def test_metrics_say_what_the_snapshot_says(snapshot: Snapshot) -> None:
    snapshot = replace(snapshot, rejected={"garbage": 3, "late": 1})
    port = free_ports(1)[0]
    collector = AgentCollector(
        lambda: snapshot, "agent0", bad_observations=lambda: 5, certificate_end=lambda: END
    )
    stop = serve(collector, str, port)
    try:
        found = scrape(port)
    finally:
        stop()
    assert found["gossamer_rounds_total", ()] == snapshot.age > 30
    assert found["gossamer_samples_total", ()] == 3
    assert found["gossamer_estimate", ("0",)] == snapshot.estimate[0]
    assert found["gossamer_estimate", ("1",)] == snapshot.estimate[1]
    assert found["gossamer_standard_error", ("1",)] == snapshot.standard_error[1]
    assert found["gossamer_messages_sent_total", ()] == snapshot.sent > 0
    assert found["gossamer_messages_received_total", ()] == snapshot.received > 0
    assert found["gossamer_messages_rejected_total", ("garbage",)] == 3
    assert found["gossamer_messages_lost_total", ("agent1",)] == snapshot.neighbors[0].lost
    assert found["gossamer_round_trip_seconds", ("agent1",)] == snapshot.neighbors[0].round_trip == 0.25
    assert found["gossamer_last_heard_seconds", ("agent1",)] == snapshot.neighbors[0].last_heard
    assert found["gossamer_neighbors", ()] == 1
    assert found["gossamer_neighbors_alive", ()] == 1
    assert found["gossamer_bad_observations_total", ()] == 5
    assert found["gossamer_certificate_expiry_timestamp_seconds", ()] == END.timestamp()
    assert found["gossamer_healthy", ()] == 1


def test_metrics_follow_the_agent_and_leave_out_what_is_unknown(snapshot: Snapshot) -> None:
    now = [replace(snapshot, estimate=np.array([np.nan, np.nan]), age=1, state="degraded")]
    port = free_ports(1)[0]
    stop = serve(AgentCollector(lambda: now[0], "agent0"), str, port)
    try:
        found = scrape(port)
        assert ("gossamer_estimate", ("0",)) not in found
        assert found["gossamer_healthy", ()] == 0
        assert "gossamer_certificate_expiry_timestamp_seconds" not in {name for name, _ in found}
        liar = replace(snapshot.neighbors[0], state="quarantined")
        now[0] = replace(snapshot, age=2, neighbors=(liar,), clipped=4)
        found = scrape(port)
        assert found["gossamer_rounds_total", ()] == 2
        assert found["gossamer_neighbors_quarantined", ()] == 1
        assert found["gossamer_clipped_observations_total", ()] == 4
        assert ("gossamer_estimate", ("0",)) in found
    finally:
        stop()


def test_what_is_not_known_of_the_members_is_left_out(snapshot: Snapshot) -> None:
    """Neither a sum without their number, nor one where every observation counts the same."""
    for unknown in (
        replace(snapshot, members=0),
        replace(snapshot, members=4, answers=Layout(2, weighting="samples").read(np.ones(3))),
    ):
        line = estimate_line(unknown, "agent0", FromIterable(2, []))
        assert not {"observing", "total", "total_standard_error", "minimum", "covariance"} & set(line)
        text = generate_latest(AgentCollector(lambda now=unknown: now, "agent0").registry()).decode()
        assert "gossamer_total{" not in text
        assert "gossamer_observing_members{" not in text


def test_versions_states_and_problems_are_metrics(snapshot: Snapshot) -> None:
    now = replace(snapshot, state="degraded", problem="disk full", store_failures=7)
    registry = AgentCollector(lambda: now, "agent0", method="ssda").registry()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"gossamer_{name}", {"agent": "agent0", **labels})

    build = {"version": full_version(), "python": platform.python_version(), "method": "ssda"}
    assert value("build_info", openssl=ssl.OPENSSL_VERSION, **build) == 1
    assert [value("state", state=s) for s in ("running", "degraded", "stopped")] == [0, 1, 0]
    assert value("problems") == value("problem_info", problem="disk full") == 1
    assert value("store_failures_total") == 7
    assert value("neighbor_state", neighbor="agent1", state="alive") == 1


def test_the_documentation_lists_every_metric(snapshot: Snapshot) -> None:
    answers, ends = everything(), np.array([1.0, 2.0])
    now = replace(snapshot, answers=answers, variance=answers.variance, problem="x", rejected={"garbage": 1})
    now = replace(now, members=2, least=ends, largest=ends)
    collector = AgentCollector(lambda: now, "agent0", certificate_end=lambda: END)
    text = generate_latest(collector.registry()).decode()
    served = {
        sample.name + "".join(f",{label}" for label in sorted(sample.labels) if label != "agent")
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    page = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
    listed = {
        name + "".join(f",{label}" for label in sorted(re.findall(r"\w+", labels)))
        for name, labels in re.findall(r"^\| `(gossamer_\w+)(?:\{([\w, ]+)\})?`", page, re.MULTILINE)
    }
    assert listed == served


def test_two_agents_in_one_program_do_not_collide(snapshot: Snapshot) -> None:
    registries = [AgentCollector(lambda: snapshot, name).registry() for name in ("a", "b")]
    for registry, name in zip(registries, "ab", strict=True):
        assert registry.get_sample_value("gossamer_rounds_total", {"agent": name}) == snapshot.age


@pytest.mark.parametrize("port", [-1, 0, 70000])
def test_a_port_that_is_none_says_so(snapshot: Snapshot, port: int) -> None:
    with pytest.raises(
        InvalidInput, match=f"metrics_port must be a whole number of at least 1 and at most 65535, got {port}"
    ):
        serve(AgentCollector(lambda: snapshot, "agent0"), str, port)


def test_a_port_in_use_says_so(snapshot: Snapshot, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    stop = serve(AgentCollector(lambda: snapshot, "agent0"), str, port)
    try:
        with pytest.raises(
            OutputError, match=f"metrics_port must be free, but 127.0.0.1:{port} cannot be used"
        ):
            serve(AgentCollector(lambda: snapshot, "agent0"), str, port)
    finally:
        stop()
