"""Exports of a fleet: one agent's folder as an archive, and the addresses of the metrics for Prometheus."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

from gossamer.agents.membership.certificates import write_file
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.roster import roster_path
from gossamer.errors import InvalidInput

_PRIVATE = 0o600
_READABLE = 0o644


def bundle(path: Path, agent: str, target: Path, unit: Path | None = None) -> list[str]:
    """Write the folder of one agent as a compressed tar file that only its owner can read; return its file names.

    It contains fleet.toml, the roster, the authority's certificate, the agent's certificate and key, the file of a
    custom method, and the systemd unit if it is given.
    """
    fleet = Fleet.read(path)
    member = fleet.member(agent)
    fleet.tls(member.id, path.parent)  # raises if a file is missing or outdated
    where = Path(fleet.certificates)
    if where.is_absolute():
        raise InvalidInput(
            parameter="certificates",
            required="a directory relative to fleet.toml to be bundled",
            got=str(fleet.certificates),
        )
    files = {name: path.parent / name for name in (where / "ca.pem", where / f"{member.name}.pem")}
    files |= {Path(path.name): path, Path(roster_path(path).name): roster_path(path)}
    key = where / f"{member.name}.key"
    files[key] = path.parent / key
    own, dot, _ = fleet.method.name.partition(".py:")
    if dot:
        files[Path(f"{own}.py")] = path.parent / f"{own}.py"
    if unit is not None:
        files[Path(unit.name)] = unit
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, file in sorted(files.items()):
            try:
                content = file.read_bytes()
            except OSError as error:
                raise InvalidInput(f"{file} must be readable to be bundled ({error.strerror})") from None
            entry = tarfile.TarInfo(f"{member.name}/{name.as_posix()}")
            entry.size, entry.mode = len(content), _PRIVATE if name == key else _READABLE
            archive.addfile(entry, io.BytesIO(content))
    write_file(target, packed.getvalue(), private=True)
    return [f"{member.name}/{name.as_posix()}" for name in sorted(files)]


def targets(fleet: Fleet, port: int = 0) -> list[dict[str, Any]]:
    """The addresses of the members' metrics for Prometheus (file_sd), one group per agent, labeled with fleet and name.

    `port` is for agents without an address in fleet.toml; if it is 0, they are left out.
    """
    groups = []
    for member in fleet.agents:
        address = member.metrics or (
            f"{member.endpoint.rpartition(':')[0]}:{port}" if port and member.endpoint else ""
        )
        if address:
            groups.append({"targets": [address], "labels": {"fleet": fleet.fleet, "member": member.name}})
    if not groups:
        raise InvalidInput(
            parameter="metrics_port",
            required="the port on which the agents serve their metrics, since fleet.toml has no address of them",
            got=str(port),
        )
    return groups


def targets_text(groups: list[dict[str, object]]) -> str:
    """Groups of targets as the JSON of a file_sd file."""
    return json.dumps(groups, indent=1) + "\n"
