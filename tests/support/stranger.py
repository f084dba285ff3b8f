"""A process that tries to join a fleet without the right to; it logs as an agent does.

    python stranger.py KIND FLEET.TOML ID

KIND: "none" shows no certificate, "other" one of another authority, "expired" one that has expired,
"plaintext" does not speak TLS at all.
"""

from __future__ import annotations

import ssl
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gossamer.agents.config.settings import AgentSettings
from gossamer.agents.host import logs
from gossamer.agents.membership.certificates import Authority
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.transports import calling, connector
from gossamer.agents.transports.tls import TlsTransport


def disguised(kind: str, path: Path, agent: int) -> AgentSettings:
    """The settings of agent `agent`, changed into those of a stranger."""
    fleet = Fleet.read(path)
    if kind == "plaintext":
        return fleet.settings(agent, insecure=True)
    settings = fleet.settings(agent, path.parent)
    assert settings.tls is not None
    if kind == "none":
        empty = ssl.create_default_context(cafile=settings.tls.authority)
        calling.contexts = connector.contexts = lambda tls: (empty, empty)
        return settings
    directory = Path(tempfile.mkdtemp())
    if kind == "other":
        issued = Authority.create(directory / "other").issue(settings.name, ["127.0.0.1"])
    else:
        authority = replace(Authority.load(path.parent / fleet.certificates), directory=directory)
        long_ago = datetime.now(UTC) - timedelta(days=9)
        issued = authority.issue(settings.name, ["127.0.0.1"], start=long_ago, days=1)
    return replace(settings, tls=replace(settings.tls, certificate=issued.certificate, key=issued.key))


if __name__ == "__main__":
    kind, path, agent = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    logs.set_up(kind)
    transport = TlsTransport(disguised(kind, path, agent))
    transport.open()
    sys.stdin.read()
    transport.close()
