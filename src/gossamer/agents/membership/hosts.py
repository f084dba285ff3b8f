"""Names and endpoints of the agents of a network, from labels or from a file of hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gossamer import checks
from gossamer.agents.config.settings import check_endpoint
from gossamer.errors import InvalidInput, require

if TYPE_CHECKING:
    import msgspec

    from gossamer.agents.config.tables import Member
    from gossamer.agents.membership.fleet import Fleet
    from gossamer.networks import Network
else:
    msgspec = require("msgspec", "agents")

PORT = 7447
"""The first port of a fleet."""


class Hosts(NamedTuple):
    """Where agents are, in the order of their numbers: name -> endpoint, and name -> number."""

    endpoints: dict[str, str]
    ids: dict[str, int]


def read_hosts(path: Path) -> Hosts:
    """Read "name host:port" lines, or "name host:port number"; the port may be left out.

    "-" instead of host:port is an agent that cannot be reached; its endpoint is empty.
    Without numbers the agents are numbered in the order of the lines.
    """
    endpoints: dict[str, str] = {}
    ids: dict[str, int] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as text ({type(error).__name__})") from None
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if not words:
            continue
        if len(words) not in (2, 3) or words[0] in endpoints:
            raise InvalidInput(f"{path}, line {number} must be a new name and its host:port, got {line!r}")
        endpoints[words[0]] = endpoint_of(words[1])
        if len(words) == 3:
            if not re.fullmatch("[0-9]{1,9}", words[2]) or int(words[2]) in ids.values():
                raise InvalidInput(
                    f"{path}, line {number}: the agent's number must be a new one, got {words[2]!r}"
                )
            ids[words[0]] = int(words[2])
    if ids and len(ids) < len(endpoints):
        nameless = next(name for name in endpoints if name not in ids)
        raise InvalidInput(f"{path} must give every agent its number, or none, but {nameless} has none")
    ids = ids or {name: k for k, name in enumerate(endpoints)}
    return Hosts({name: endpoints[name] for name in sorted(ids, key=lambda name: ids[name])}, ids)


def names_and_endpoints(network: Network, hosts: dict[str, str] | None) -> tuple[list[str], list[str]]:
    """Return the names and the endpoints of a network whose agents have names.

    Without `hosts` the names are the addresses themselves, "host:port" or just "host".
    """
    labels = [str(label) for label in network.labels]
    if hosts is None:
        names = [re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-.") for label in labels]
        return names, [with_port(label) for label in labels]
    missing = [label for label in labels if label not in hosts]
    if missing:
        raise InvalidInput(
            f"must have a line for every agent, but {missing[0]!r} has none", parameter="hosts"
        )
    return labels, [hosts[label] for label in labels]


def placed(network: Network, hosts: dict[str, str]) -> tuple[list[str], list[str]]:
    """Names and endpoints of a network without labels: the hosts, in their order."""
    if len(hosts) != network.agents:
        raise InvalidInput(
            f"must have a line for each of the {network.agents} agents of this topology, got {len(hosts)}",
            parameter="hosts",
        )
    return list(hosts), list(hosts.values())


def numbered(fleet: Fleet, ids: dict[str, int]) -> Fleet:
    """Return the fleet with these numbers for its agents, in their order; `ids` may have more names."""
    ranked = sorted(fleet.agents, key=lambda member: ids[member.name])
    number = {member.id: ids[member.name] for member in ranked}
    return fleet.with_(
        agents=[msgspec.structs.replace(member, id=number[member.id]) for member in ranked],
        edges=[msgspec.structs.replace(edge, a=number[edge.a], b=number[edge.b]) for edge in fleet.edges],
    )


def with_metrics(members: Sequence[Member], first: int) -> list[Member]:
    """Return the members with addresses of their metrics: on their own hosts, on port `first` and the ones after it."""
    taken: Counter[str] = Counter()
    made = []
    for member in members:
        host = member.endpoint.rpartition(":")[0]
        if not host:
            made.append(member)
            continue
        made.append(msgspec.structs.replace(member, metrics=f"{host}:{first + taken[host]}"))
        taken[host] += 1
    checks.whole_number("metrics_port", first, least=1, most=65536 - max(taken.values()))
    return made


def labels_are_addresses(network: Network) -> bool:
    """Return whether the labels of the agents are their addresses.

    They are not if one of them cannot be an address, such as a number. A mixture of clear addresses (with a port or a
    dot) and names that cannot be addresses is a mistake.
    """
    labels = [str(label) for label in network.labels]
    others = [label for label in labels if not _may_be_address(label)]
    clear = [label for label in labels if label not in others and re.search("[.:]", label)]
    if others and clear:
        raise InvalidInput(
            f"must all be named by addresses, or none of them, got {clear[0]!r} and {others[0]!r}; "
            "give hosts, a file that says where each agent is",
            parameter="agents",
        )
    return not others


def _may_be_address(label: str) -> bool:
    """Whether a name can be "host:port" or "host"; a number is not, and digits with dots must be an IPv4 address."""
    endpoint = with_port(label)
    host = endpoint.rpartition(":")[0]
    try:
        check_endpoint("endpoint", endpoint)
    except InvalidInput:
        return False
    if re.fullmatch(r"[-\d.]+", host):
        return bool(re.fullmatch(r"(\d{1,3}\.){3}\d{1,3}", host))
    return True


def endpoint_of(text: str) -> str:
    """Return the endpoint that people write as host:port, host, or - for an agent that cannot be reached."""
    return "" if text == "-" else with_port(text)


def with_port(address: str) -> str:
    """Return host:port, with the default port if none is given."""
    bare = address.endswith("]") if address.startswith("[") else ":" not in address
    return f"{address}:{PORT}" if bare else address
