"""Two sites behind NAT with the same private address, a hub and a broker, in network namespaces of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.mosquitto import PROGRAM, needs_mosquitto
from tests.support.waiting import PATIENCE, until

from gossamer.agents.config.tables import RoundsTable, TransportTable
from gossamer.agents.host.options import Options
from gossamer.agents.membership.fleet import Fleet
from gossamer.networks import Network

NET = f"g{os.getpid() % 100_000}"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def inside(name: str, *words: str) -> None:
    subprocess.run(["ip", "netns", "exec", f"{NET}{name}", *words], check=True, capture_output=True)


def wire(a: str, b: str, addresses: tuple[str, str]) -> None:
    """A cable between two namespaces; its ends are named after the other one."""
    ip(
        "link",
        "add",
        f"{b}",
        "netns",
        f"{NET}{a}",
        "type",
        "veth",
        "peer",
        "name",
        f"{a}",
        "netns",
        f"{NET}{b}",
    )
    for here, there, address in ((a, b, addresses[0]), (b, a, addresses[1])):
        if address:
            inside(here, "ip", "address", "add", address, "dev", there)
        inside(here, "ip", "link", "set", "dev", there, "up")


@pytest.fixture
def sites() -> Iterator[None]:
    """Sites a and b (both 192.168.7.2) behind the routers ra and rb; hub and broker in the open; all meet in hub."""
    names = ("a", "b", "ra", "rb", "hub", "broker")
    if os.geteuid() or not all(map(shutil.which, ("ip", "iptables"))):
        pytest.skip("needs root, ip and iptables to make network namespaces")
    try:
        for name in names:
            ip("netns", "add", f"{NET}{name}")
    except subprocess.CalledProcessError as error:
        _delete(names)
        pytest.skip(f"network namespaces cannot be made here: {error.stderr!r}")
    try:
        for name in names:
            inside(name, "ip", "link", "set", "dev", "lo", "up")
        for k, (site, router) in enumerate((("a", "ra"), ("b", "rb")), 1):
            wire(site, router, ("192.168.7.2/24", "192.168.7.1/24"))
            inside(site, "ip", "route", "add", "default", "via", "192.168.7.1")
            wire(router, "hub", (f"10.77.{k}.2/24", f"10.77.{k}.1/24"))
            inside(router, "ip", "route", "add", "default", "via", f"10.77.{k}.1")
            inside(router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            inside(router, "iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "hub", "-j", "MASQUERADE")
        wire("broker", "hub", ("10.77.3.2/24", "10.77.3.1/24"))
        inside("broker", "ip", "route", "add", "default", "via", "10.77.3.1")
        inside("hub", "sysctl", "-qw", "net.ipv4.ip_forward=1")
        yield
    finally:
        _delete(names)


def _delete(names: tuple[str, ...]) -> None:
    for name in names:
        subprocess.run(["ip", "netns", "delete", f"{NET}{name}"], capture_output=True, check=False)


@pytest.mark.slow
@needs_mosquitto
def test_sites_behind_nat_average_and_a_cut_heals(sites: None, tmp_path: Path) -> None:
    fleet = Fleet.create(
        Network.cycle(3),
        names=["a", "b", "hub"],
        endpoints=["", "", "10.77.3.1:7447"],
        sources=["sim:1,0,0", "sim:2,0,0", "sim:6,0,0"],
        rounds=RoundsTable(every="50ms", death="2s"),
        transport=TransportTable(broker="mqtt://10.77.3.2:1883"),
    )
    path = fleet.write(tmp_path)
    (tmp_path / "mosquitto.conf").write_text(
        "user root\nlistener 1883\nallow_anonymous true\nset_tcp_nodelay true\n"
    )
    assert PROGRAM is not None
    programs = {"broker": [PROGRAM, "-c", str(tmp_path / "mosquitto.conf")]}
    for name in ("a", "b", "hub"):
        options = Options(fleet=str(path), agent=name).text()
        programs[name] = [sys.executable, "-m", "gossamer.agents.host.process", options]
    running = [
        subprocess.Popen(
            ["ip", "netns", "exec", f"{NET}{name}", *program],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, program in programs.items()
    ]

    def states() -> dict[str, dict[str, object]]:
        files = {name: tmp_path / "status" / f"{name}.json" for name in ("a", "b", "hub")}
        return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}

    def agree(mean: float, names: tuple[str, ...], neighbors: int) -> bool:
        now = states()
        return len(now) == 3 and all(
            int(str(now[name]["neighbors_alive"])) >= neighbors
            and isinstance(estimate := now[name]["estimate"], float)
            and abs(estimate - mean) < 0.01
            for name in names
        )

    try:
        until(lambda: agree(3.0, ("a", "b", "hub"), 2), f"the average of all, got {states()}")
        inside("ra", "ip", "link", "set", "dev", "hub", "down")
        until(lambda: agree(4.0, ("b", "hub"), 1), "the average of the two that are left")
        inside("ra", "ip", "link", "set", "dev", "hub", "up")
        inside("ra", "ip", "route", "replace", "default", "via", "10.77.1.1")
        until(lambda: agree(3.0, ("a", "b", "hub"), 2), "the average of all, and all edges again")
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait(PATIENCE)
