"""A process that tries to join a fleet without the right to; it logs as an agent does.

    python stranger.py KIND FLEET.TOML ID

KIND: "none" shows no certificate, "other" one of another authority, "expired" one that has expired,
"plaintext" does not speak TLS at all.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import zenoh

from gossamer.agents.fleet.certificates import Authority
from gossamer.agents.fleet.file import Fleet
from gossamer.agents.host import logs
from gossamer.agents.transports.zenoh import configuration


def disguised(kind: str, path: Path, agent: int) -> dict[str, Any]:
    """The configuration of agent `agent`, changed into that of a stranger."""
    fleet = Fleet.read(path)
    if kind == "plaintext":
        return configuration(fleet.settings(agent, insecure=True))
    config = configuration(fleet.settings(agent, path.parent))
    tls = config["transport"]["link"]["tls"]
    if kind == "none":
        tls["enable_mtls"] = False
        del tls["connect_certificate"], tls["connect_private_key"]
        return config
    name = fleet.member(agent).name
    if kind == "other":
        issued = Authority.create(Path(tempfile.mkdtemp()) / "other").issue(name, ["127.0.0.1"])
    else:
        long_ago = datetime.now(UTC) - timedelta(days=9)
        authority = Authority.load(path.parent / fleet.certificates)
        issued = authority.issue(name, ["127.0.0.1"], start=long_ago, days=1)
    for end in ("listen", "connect"):
        tls[f"{end}_certificate"] = str(issued.certificate)
        tls[f"{end}_private_key"] = str(issued.key)
    return config


if __name__ == "__main__":
    kind, path, agent = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    logs.set_up(kind)
    with logs.capture_zenoh():
        config = json.dumps(disguised(kind, path, agent))
        with zenoh.open(zenoh.Config.from_json5(config)) as session:
            for key in (f"gossamer/0/{agent}", "gossamer/0/5"):
                session.put(key, b"let me in")
            sys.stdin.read()
