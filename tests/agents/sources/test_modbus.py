"""Registers of a real Modbus server."""

from __future__ import annotations

import asyncio
import sys

import pytest
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice
from tests.support.reading import parse_source
from tests.support.small_fleets import free_ports
from tests.support.waiting import PATIENCE, until_true

from gossamer.agents.sources.modbus import ModbusSource
from gossamer.errors import InvalidInput, MissingExtra


def device() -> SimDevice:
    registers = [
        SimData(100, values=[2.5, -1.0], datatype=DataType.FLOAT32),
        SimData(110, values=[215, 65535], datatype=DataType.REGISTERS),
    ]
    return SimDevice(1, simdata=registers)


async def first(source: ModbusSource, count: int = 1) -> list[list[float]]:
    source.begin(0, 1e90)
    found: list[list[float]] = []
    async for value in source.observations():
        found.append(value.tolist())
        if len(found) == count:
            break
    return found


def test_registers_become_observations_and_a_device_may_come_late() -> None:
    port = free_ports(1)[0]

    async def main() -> None:
        address = f"modbus://127.0.0.1:{port}"
        early = parse_source(f"{address}/110?scale=0.1&every=20ms", 1, 0)
        assert isinstance(early, ModbusSource)
        task = asyncio.create_task(first(early, 2))
        await until_true(lambda: early.failing, "a device that is missing")
        assert early.failing == f"the device 127.0.0.1:{port} cannot be reached"
        server = ModbusTcpServer(device(), address=("127.0.0.1", port))
        await server.serve_forever(background=True)
        try:
            assert await task == [[21.5], [21.5]]
            assert early.failing == ""
            for rest, dimension, expected in (
                ("100,102?type=float32&scale=2,1&offset=0,1", 2, [5.0, 0.0]),
                ("111?type=uint16", 1, [65535.0]),
                ("111", 1, [-1.0]),
            ):
                source = parse_source(f"{address}/{rest}", dimension, 0)
                assert isinstance(source, ModbusSource)
                assert await first(source) == [expected]
            wrong = parse_source(f"{address}/900?every=20ms", 1, 0)
            assert isinstance(wrong, ModbusSource)
            task = asyncio.create_task(first(wrong))
            await until_true(lambda: "refuses register 900" in wrong.failing, "a register that is missing")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        finally:
            await server.shutdown()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("modbus://host/1,2", r"the address of a register for each of the 1 component\(s\)"),
        ("modbus://host/x", "modbus: needs a host and the address"),
        ("modbus://host/65536", "modbus: needs a host and the address"),
        ("modbus://host/1?every=0s", "every must be a finite number above 0"),
        ("modbus://host/1?type=text", "type must be"),
        ("modbus://host/1?scale=1,2", "scale must have 1 or 1 entries"),
    ],
)
def test_a_wrong_address_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_source(text, 1, 0)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymodbus.client", None)
    with pytest.raises(MissingExtra, match=r"pip install 'gossamer\[modbus\]'"):
        parse_source("modbus://host/1", 1, 0).begin(0, 1e90)
