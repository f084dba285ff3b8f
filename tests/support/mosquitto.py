"""A real MQTT broker on this machine, and a client that publishes to it."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.small_fleets import free_ports
from tests.support.waiting import PATIENCE, until

PROGRAM = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")

needs_mosquitto = pytest.mark.skipif(
    PROGRAM is None, reason="needs Mosquitto, which is not installed; on Debian: apt-get install mosquitto"
)


class Mosquitto:
    """A broker with a disk; `lines` are added to its configuration."""

    def __init__(self, folder: Path, lines: str = "allow_anonymous true") -> None:
        [self.port] = free_ports(1)
        self._file = folder / "mosquitto.conf"
        self._file.write_text(
            f"user root\npersistence true\npersistence_location {folder}/\nmax_queued_messages 0\n"
            f"set_tcp_nodelay true\nlistener {self.port} 127.0.0.1\n{lines}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        assert PROGRAM is not None
        self._process = subprocess.Popen(
            [PROGRAM, "-c", self._file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._listens, "a broker that listens")

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the broker ended"
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End it as a service manager does: it writes what it holds to its disk."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)
            self._process = None

    def address(self, rest: str) -> str:
        return f"mqtt://127.0.0.1:{self.port}/{rest}"

    @contextmanager
    def stranger(self, topic: str) -> Iterator[Any]:
        """Another client: all packets below `topic` that it sees, and a function that publishes."""
        seen: list[tuple[str, bytes]] = []
        with Client(self.port) as client:
            client.client.on_message = lambda _, data, message: seen.append(
                (message.topic, bytes(message.payload))
            )
            client.client.subscribe(f"{topic}/#")
            yield seen, client.client.publish

    def publish(self, messages: Iterable[tuple[str, str]], *, retain: bool = False) -> None:
        """Publish at QoS 1; return when the broker has all of it."""
        with Client(self.port) as client:
            for topic, text in messages:
                client.publish(topic, text, retain=retain)

    def retained(self, topic: str) -> dict[str, str]:
        """What is retained at these topics."""
        with Client(self.port) as client:
            client.subscribe(topic)
            return {m.topic: m.payload.decode() for m in client.messages if m.retain}


class Client:
    """A client of the tests; everything it does has happened when its methods return."""

    def __init__(self, port: int) -> None:
        from paho.mqtt import client as mqtt

        self.messages: list[Any] = []
        self._done = threading.Semaphore(0)
        self._sent: list[Any] = []
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self.client.on_message = lambda client, data, message: self.messages.append(message)
        self.client.on_connect = self.client.on_subscribe = lambda *_: self._done.release()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._done.acquire(timeout=PATIENCE)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.client.disconnect()
        self.client.loop_stop()

    def publish(self, topic: str, text: str, *, retain: bool = False) -> None:
        self._sent.append(self.client.publish(topic, text, qos=1, retain=retain))

    def wait(self) -> None:
        """Wait until the broker has confirmed everything."""
        for sent in self._sent:
            sent.wait_for_publish(PATIENCE)
        self._sent.clear()

    def subscribe(self, topic: str) -> None:
        """Subscribe, and wait until what is retained has arrived: a message to itself comes after it."""
        self.client.subscribe([(topic, 1), ("echo", 1)])
        assert self._done.acquire(timeout=PATIENCE)
        self.publish("echo", "all")
        until(lambda: any(m.topic == "echo" for m in self.messages), "an echo")
