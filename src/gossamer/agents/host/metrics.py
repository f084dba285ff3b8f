"""Prometheus metrics of one agent, made from its snapshot at every scrape.

`docs/reference/metrics.md` says what each metric means; a test compares that table with the metrics.
"""

from __future__ import annotations

import math
import platform
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from gossamer.agents.statistics.statistic import LabeledValues, Membership
from gossamer.errors import GossamerError, require
from gossamer.fingerprint import full_version

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric

    from gossamer.agents.snapshot import Snapshot

STATES = ("running", "degraded", "stopped")


class AgentCollector:
    """Turns an agent's snapshot into metrics; every one carries the label `agent`.

    snapshot          gives the agent's latest snapshot
    name              the agent's name
    bad_observations  gives the number of lines of its source that were not observations
    certificate_end   gives the time when its certificate expires; None if it has none
    method            the name of its method
    restarts          number of restarts after a failure
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        name: str,
        *,
        bad_observations: Callable[[], int] = lambda: 0,
        certificate_end: Callable[[], datetime | None] = lambda: None,
        method: str = "",
        restarts: int = 0,
    ) -> None:
        require("prometheus_client", "agents")
        self.snapshot = snapshot
        self._name = name
        self._bad_observations = bad_observations
        self._certificate_end = certificate_end
        self._restarts = restarts
        self._began = time.time()
        self._build = (full_version(), platform.python_version(), ssl.OPENSSL_VERSION, method)

    def registry(self) -> CollectorRegistry:
        """Return a registry of its own, so that several agents can run in one program."""
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def describe(self) -> list[Metric]:
        """Describe nothing in advance: the agent may not have started yet."""
        return []

    def collect(self) -> Iterable[Metric]:
        now = self.snapshot()
        yield from self._process(now)
        yield from self._answers(now)
        yield from self._talk(now)

    def _process(self, now: Snapshot) -> Iterable[Metric]:
        labels = ["version", "python", "openssl", "method"]
        yield self._gauges("build_info", "Versions, and the method; always 1", labels, {self._build: 1.0})
        yield self._gauge(
            "start_time_seconds", "When the agent was started, in seconds since 1970", self._began
        )
        yield self._counter(
            "restarts", "Times that `gossamer fleet up` started the agent again", self._restarts
        )
        states = {(state,): float(state == now.state) for state in dict.fromkeys([*STATES, now.state])}
        yield self._gauges("state", "1 for the agent's state, 0 for the others", ["state"], states)
        healthy = 1.0 if now.state == "running" else 0.0
        yield self._gauge("healthy", "1: running; 0: degraded or stopped", healthy)
        problems = {(text,): 1.0 for text in now.problem.split("; ") if text}
        yield self._gauge("problems", "Number of problems the agent has now", len(problems))
        yield self._gauges("problem_info", "What each of them is; always 1", ["problem"], problems)
        yield self._counter("store_failures", "Commits of the store that failed", now.store_failures)
        end = None
        with suppress(GossamerError):  # while its file is being replaced
            end = self._certificate_end()
        if end is not None:
            text = "When the agent's certificate expires, in seconds since 1970"
            yield self._gauge("certificate_expiry_timestamp_seconds", text, end.timestamp())

    def _answers(self, now: Snapshot) -> Iterable[Metric]:
        yield self._counter("rounds", "Rounds this agent took part in, across restarts", now.age)
        yield self._gauge("round", "Number of the round, shared with the neighbors", now.round)
        yield self._counter("samples", "Observations used", now.samples)
        yield self._counter("samples_acknowledged", "Observations safe in the store", now.acknowledged)
        yield self._counter("bad_observations", "Lines that were not observations", self._bad_observations())
        yield self._counter(
            "clipped_observations", "Observations brought to an end of the range", now.clipped
        )
        yield self._vector("estimate", "The network's average as this agent knows it", now.estimate)
        yield self._vector("standard_error", "Standard error, of noise and mixing", now.standard_error)
        yield self._gauge("settled", "1: the estimate no longer moves after a change", float(now.settled))
        yield self._gauge("participating", "Members without dead neighbors", now.participating)
        presence = now.answers.presence
        yield self._gauge(
            "presence", "Share of agents that have observed, or observations per round", presence
        )
        yield self._gauge("roster_epoch", "Epoch of the roster that the agent follows", now.epoch)
        yield self._gauge("members", "Members of the fleet; 0: unknown", now.members)
        for metric in now.answers.metrics(Membership(now.members, now.inherited)):
            yield self._gauges(metric.name, metric.text, list(metric.labels), metric.values)

    def _talk(self, now: Snapshot) -> Iterable[Metric]:
        yield self._counter("messages_sent", "Messages sent", now.sent)
        yield self._counter("messages_received", "Messages received, used or not", now.received)
        rejected = {(reason,): count for reason, count in sorted(now.rejected.items())}
        yield self._counters("messages_rejected", "Messages dropped, by reason", ["reason"], rejected)
        alive = sum(neighbor.state == "alive" for neighbor in now.neighbors)
        barred = sum(neighbor.state == "quarantined" for neighbor in now.neighbors)
        yield self._gauge("neighbors", "Neighbors this agent should have", len(now.neighbors))
        yield self._gauge("neighbors_alive", "Neighbors heard in the last rounds", alive)
        yield self._gauge("neighbors_quarantined", "Neighbors not heard because they lied", barred)
        by_name = {(neighbor.name,): neighbor for neighbor in now.neighbors}
        states = {(*key, neighbor.state): 1.0 for key, neighbor in by_name.items()}
        text = "State of each neighbor (joining, alive, silent, stopped, dead or quarantined); always 1"
        yield self._gauges("neighbor_state", text, ["neighbor", "state"], states)
        for make, name, attribute, text in (
            (self._counters, "messages_lost", "lost", "Rounds without a neighbor's message"),
            (self._counters, "messages_late", "late", "Messages for a round already over"),
            (self._gauges, "round_trip_seconds", "round_trip", "A message to a neighbor and its answer"),
            (self._gauges, "distance", "distance", "Difference from a neighbor's estimate"),
            (self._gauges, "last_heard_seconds", "last_heard", "Since the last used message of a neighbor"),
            (self._gauges, "neighbor_roster_epoch", "epoch", "Epoch of the roster that a neighbor follows"),
        ):
            yield make(
                name, text, ["neighbor"], {key: getattr(view, attribute) for key, view in by_name.items()}
            )

    def _counter(self, name: str, text: str, value: float) -> Metric:
        return self._counters(name, text, [], {(): value})

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        return self._gauges(name, text, [], {(): value})

    def _vector(self, name: str, text: str, values: Iterable[float]) -> Metric:
        return self._gauges(name, text, ["component"], {(str(k),): float(v) for k, v in enumerate(values)})

    def _counters(self, name: str, text: str, labels: list[str], values: LabeledValues) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        return self._filled(CounterMetricFamily(f"gossamer_{name}", text, labels=["agent", *labels]), values)

    def _gauges(self, name: str, text: str, labels: list[str], values: LabeledValues) -> Metric:
        from prometheus_client.core import GaugeMetricFamily

        return self._filled(GaugeMetricFamily(f"gossamer_{name}", text, labels=["agent", *labels]), values)

    def _filled(self, family: CounterMetricFamily | GaugeMetricFamily, values: LabeledValues) -> Metric:
        for labels, value in values.items():
            if math.isfinite(value):  # a metric that is not known yet is left out
                family.add_metric([self._name, *labels], value)
        return family
