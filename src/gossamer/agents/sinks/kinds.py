"""What a sink is, and the kinds of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from gossamer.agents.config.urls import Kind, Place, Url

Answer = Mapping[str, Any]
"""What an agent publishes: the line that it prints (see docs/reference/status.md), with its fleet and its age."""

_HERE = "gossamer.agents.sinks"

SINKS = {
    "file": Kind("file://PATH", "Appends JSON lines to a file.", f"{_HERE}.files:FileSink"),
    "http": Kind("http[s]://[USER@]HOST[:PORT]/PATH", "Posts JSON to a web server.", f"{_HERE}.web:Webhook"),
    "influxdb": Kind(
        "influxdb[s]://[USER@]HOST[:PORT]/DATABASE",
        "Writes to an InfluxDB.",
        f"{_HERE}.web:InfluxSink",
    ),
    "mqtt": Kind(
        "mqtt[s]://[USER@]HOST[:PORT][/TOPIC]",
        "Publishes retained JSON at an MQTT broker; Home Assistant can discover it.",
        f"{_HERE}.mqtt:MqttSink",
    ),
}
SINKS |= {"https": SINKS["http"], "influxdbs": SINKS["influxdb"], "mqtts": SINKS["mqtt"]}
"""The kinds of sinks of this package."""


class Sink:
    """Where an agent publishes its answers.

    A sink has a thread of its own, in which all its methods but the constructor run: it may block, and any error it
    raises degrades the agent until `write` succeeds again. The options `interval` and `unsettled` of its address are
    those of `Publisher`.

    Parameters
    ----------
    url, owner : Url, Place
        The address of the sink with its options, and the agent whose answers it publishes.

    See Also
    --------
    LiveSource : Where observations come from.
    check_sink : Checks a sink against the contract.

    Examples
    --------
    docs/plugins.md has a whole one.

    >>> class Screen(gs.agents.Sink):
    ...     def write(self, answer):
    ...         print(answer["estimate"])
    >>> Screen(gs.agents.Url("screen://"), gs.agents.Place()).write({"estimate": 21.5})
    21.5
    """

    form: ClassVar[str] = ""
    """How its address is written, for `gossamer sources`."""

    def __init__(self, url: Url, owner: Place) -> None:
        self.url = url
        self.place = owner

    def open(self) -> None:
        """Prepare; called once, before the first `write`. Raises if this cannot work, such as for a missing package."""

    def write(self, answer: Answer) -> None:
        """Publish an answer, or raise."""
        raise NotImplementedError

    def close(self) -> None:
        """End; called once, also if `open` failed."""
