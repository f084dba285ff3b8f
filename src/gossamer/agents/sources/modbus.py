"""Registers of a Modbus TCP device, read at equal intervals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

from gossamer.agents.config.urls import Place, Url
from gossamer.agents.sources.formats import ReadingFormat
from gossamer.agents.sources.kinds import LiveSource
from gossamer.agents.statistics.readings import Vector, vector
from gossamer.errors import InvalidInput, require

log = logging.getLogger("gossamer.agents.sources.opening")

_TYPES = ("int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")

_PATIENCE = 3.0
"""Seconds to wait for an answer of the device."""


class ModbusSource(LiveSource):
    """Registers of a Modbus TCP device, read at equal intervals.

    The path is the address of a register, from 0 on, or one for each component with commas between them. An agent that
    was away misses what the device measured meanwhile.
    """

    def __init__(self, url: Url, owner: Place) -> None:
        super().__init__(owner.dimension)
        if (
            not url.host
            or len(url.paths) != owner.dimension
            or not all(path.isdecimal() and int(path) < 1 << 16 for path in url.paths)
        ):
            raise InvalidInput(
                f"modbus: needs a host and the address of a register for each of the {owner.dimension} component(s), "
                f"such as modbus://10.0.0.9/100?type=float32, got {url.text!r}"
            )
        self.host, self.port = url.host, url.port or 502
        self.addresses = [int(path) for path in url.paths]
        self.type = url.text_of("type", "int16", choices=_TYPES)
        self.table = url.text_of("table", "holding", choices=("holding", "input"))
        self.word_order = url.text_of("word_order", "big", choices=("big", "little"))
        self.device = int(url.number("device", 1, least=0, most=255))
        self.every = url.seconds("every", "1s", above=0)
        self.format = ReadingFormat(scale=url.numbers("scale", 1.0), offset=url.numbers("offset", 0.0))
        self.format.check(owner.dimension)

    def begin(self, stored: int, largest: float) -> None:
        super().begin(stored, largest)
        require("pymodbus.client", "modbus")

    async def raw(self) -> AsyncGenerator[list[float]]:
        client_of = require("pymodbus.client", "modbus").AsyncModbusTcpClient
        client = client_of(self.host, port=self.port, timeout=_PATIENCE, retries=0, reconnect_delay=0)
        loop = asyncio.get_running_loop()
        due = loop.time()
        try:
            while True:
                values = await self._read(client)
                if values is not None:
                    yield values
                due = max(due + self.every, loop.time())
                await asyncio.sleep(due - loop.time())
        finally:
            client.close()

    async def _read(self, client: Any) -> list[float] | None:
        """Return the registers; None if they cannot be read, and then `failing` says why."""
        why = ""
        values: list[float] = []
        try:
            if not client.connected and not await client.connect():
                why = "cannot be reached"
            for address in () if why else self.addresses:
                kind = client.DATATYPE[self.type.upper()]
                read = getattr(client, f"read_{self.table}_registers")
                answer = await read(address, count=kind.value[1], device_id=self.device)
                if answer.isError():
                    why = f"refuses register {address} ({answer})"
                    break
                values.append(float(client.convert_from_registers(answer.registers, kind, self.word_order)))
        except (OSError, require("pymodbus.exceptions", "modbus").ModbusException) as error:
            client.close()
            why = f"does not answer ({error})"
        failing = f"the device {self.host}:{self.port} {why}" if why else ""
        if failing != self.failing:
            log.warning("%s", failing or f"the device {self.host}:{self.port} answers again")
        self.failing = failing
        return None if why else values

    def understand(self, item: object) -> Vector:
        return self.format.in_units(vector(item, self.dimension, self.largest), self.largest)
