"""Prometheus metrics of one agent, read from its snapshot at the moment of each scrape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gossamer import checks
from gossamer.errors import OutputError, require

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from gossamer.agents.snapshot import Snapshot

Values = Mapping[Any, float]
"""A value for each tuple of labels besides the agent's."""


class AgentCollector:
    """Turns an agent's snapshot into metrics; every one carries the label `agent`.

    snapshot          gives the agent's latest snapshot
    name              the agent's name
    bad_observations  gives the number of lines of its source that were not observations
    certificate_end   when its certificate expires, in seconds since 1970; None: it has none
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        name: str,
        *,
        bad_observations: Callable[[], int] = lambda: 0,
        certificate_end: float | None = None,
    ) -> None:
        require("prometheus_client", "agents")
        self._snapshot = snapshot
        self._name = name
        self._bad_observations = bad_observations
        self._certificate_end = certificate_end

    def registry(self) -> CollectorRegistry:
        """Its own registry, so that several agents can live in one program."""
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(self)
        return registry

    def describe(self) -> list[Metric]:
        """Nothing in advance: the agent may not have started yet."""
        return []

    def collect(self) -> Iterable[Metric]:
        now = self._snapshot()
        alive = sum(neighbor.state == "alive" for neighbor in now.neighbors)
        barred = sum(neighbor.state == "quarantined" for neighbor in now.neighbors)
        yield self._counter("rounds", "Rounds this agent took part in, across restarts", now.age)
        yield self._gauge("round", "Number of the round, shared with the neighbors", now.round)
        yield self._counter("samples", "Observations used", now.samples)
        yield self._counter("samples_acknowledged", "Observations safe in the store", now.acknowledged)
        yield self._counter("bad_observations", "Lines that were not observations", self._bad_observations())
        yield self._counter(
            "clipped_observations", "Observations brought to an end of the range", now.clipped
        )
        yield self._vector("estimate", "The network's average as this agent knows it", now.estimate)
        yield self._vector("standard_error", "Standard error of the estimate", now.standard_error)
        yield self._counter("messages_sent", "Messages sent", now.sent)
        yield self._counter("messages_received", "Messages received, used or not", now.received)
        rejected = {(reason,): count for reason, count in sorted(now.rejected.items())}
        yield self._counters("messages_rejected", "Messages dropped, by reason", ["reason"], rejected)
        yield self._gauge("neighbors", "Neighbors this agent should have", len(now.neighbors))
        yield self._gauge("neighbors_alive", "Neighbors heard in the last rounds", alive)
        yield self._gauge("neighbors_quarantined", "Neighbors not heard because they lied", barred)
        each = {(str(neighbor.id),): neighbor for neighbor in now.neighbors}
        lost = {key: neighbor.lost for key, neighbor in each.items()}
        yield self._counters("messages_lost", "Rounds without a neighbor's message", ["neighbor"], lost)
        late = {key: neighbor.late for key, neighbor in each.items()}
        yield self._counters("messages_late", "Messages for a round already over", ["neighbor"], late)
        trips = {key: neighbor.round_trip for key, neighbor in each.items()}
        yield self._gauges("round_trip_seconds", "From sending to hearing the echo", ["neighbor"], trips)
        far = {key: neighbor.distance for key, neighbor in each.items()}
        yield self._gauges("distance", "Difference from a neighbor's estimate", ["neighbor"], far)
        healthy = 1.0 if now.state == "running" else 0.0
        yield self._gauge("healthy", "1: running; 0: degraded (its status says why) or stopped", healthy)
        if self._certificate_end is not None:
            text = "When the agent's certificate expires, in seconds since 1970"
            yield self._gauge("certificate_expiry_timestamp_seconds", text, self._certificate_end)

    def _counter(self, name: str, text: str, value: float) -> Metric:
        return self._counters(name, text, [], {(): value})

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        return self._gauges(name, text, [], {(): value})

    def _vector(self, name: str, text: str, values: Any) -> Metric:
        return self._gauges(name, text, ["component"], {(str(k),): float(v) for k, v in enumerate(values)})

    def _counters(self, name: str, text: str, labels: list[str], values: Values) -> Metric:
        from prometheus_client.core import CounterMetricFamily

        return self._filled(CounterMetricFamily(f"gossamer_{name}", text, labels=["agent", *labels]), values)

    def _gauges(self, name: str, text: str, labels: list[str], values: Values) -> Metric:
        from prometheus_client.core import GaugeMetricFamily

        return self._filled(GaugeMetricFamily(f"gossamer_{name}", text, labels=["agent", *labels]), values)

    def _filled(self, family: Any, values: Values) -> Metric:
        for labels, value in values.items():
            if not math.isnan(value):  # not known yet: no line is better than NaN
                family.add_metric([self._name, *labels], value)
        filled: Metric = family
        return filled


def serve(collector: AgentCollector, port: int, host: str = "127.0.0.1") -> Callable[[], None]:
    """Serve the metrics on http://host:port/metrics in a thread; return a function that stops it."""
    from prometheus_client import start_http_server

    checks.whole_number("metrics_port", port, least=1, most=65535)
    try:
        server, thread = start_http_server(port, addr=host, registry=collector.registry())
    except OSError as error:
        raise OutputError(
            f"metrics_port must be free, but {host}:{port} cannot be used ({error.strerror}); choose another"
        ) from error

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop
