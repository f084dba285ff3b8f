"""The roster: only what the authority signed is believed, epochs only grow, and nonsense is refused by name."""

from __future__ import annotations

import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from gossamer.agents.config.members import Edge, Left, RosterMember
from gossamer.agents.config.tables import Member
from gossamer.agents.membership import roster as module
from gossamer.agents.membership.certificates import Authority
from gossamer.agents.membership.fleet import Fleet
from gossamer.agents.membership.roster import LARGEST, Roster, common_name, read_roster, roster_path
from gossamer.errors import InvalidInput, InvalidRoster
from gossamer.networks import Network


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("roster") / "certificates")


def ring(agents: int = 4, epoch: int = 3, **changes: Any) -> Roster:
    made = Roster(
        fleet="plant",
        epoch=epoch,
        members=tuple(RosterMember(id=i, name=f"a{i}", endpoint=f"10.0.0.{i}:7447") for i in range(agents)),
        edges=tuple(Edge(i, (i + 1) % agents) for i in range(agents)),
    )
    return msgspec.structs.replace(made, **changes)


def forge(found: object, authority: Authority) -> bytes:
    """Anything at all with a good signature: what only the holder of the key can make."""
    body = found if isinstance(found, bytes) else msgspec.json.encode(found)
    signature = authority.key.sign(module._MAGIC + body, ec.ECDSA(hashes.SHA256()))
    return module._MAGIC + module._LENGTHS.pack(len(signature), len(body)) + signature + body


@pytest.mark.slow
@given(st.data())
def test_what_is_signed_is_what_is_opened(authority: Authority, data: st.DataObject) -> None:
    """Any ids, any order of the rows: the same fleet gives the same roster."""
    ids = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=8, unique=True))
    members = [
        RosterMember(id=i, name=f"n{i}", endpoint=f"h{i}:1", common_name=f"n{i}@{i}" if i % 2 else "")
        for i in ids
    ]
    edges = [Edge(a, b) for a, b in pairwise(ids)]
    gone = (Left(id=max(ids) + 1, name="x", keep=True, epoch=2),)
    made = Roster(fleet="f", epoch=9, members=tuple(members), edges=tuple(edges), left=gone)
    mixed = msgspec.structs.replace(
        made,
        members=tuple(data.draw(st.permutations(members))),
        edges=tuple(Edge(edge.b, edge.a) for edge in data.draw(st.permutations(edges))),
    )
    opened = Roster.open(mixed.sign(authority), authority.certificate, "f")
    assert opened == made.canonical() == mixed.canonical()
    assert not opened.supersedes(made.canonical())


@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_is_refused(authority: Authority, position: float, bit: int) -> None:
    data = bytearray(ring().sign(authority))
    data[int(position * len(data))] ^= 1 << bit
    with pytest.raises(InvalidRoster):
        Roster.open(bytes(data), authority.certificate)


def test_any_truncation_is_refused(authority: Authority) -> None:
    data = ring().sign(authority)
    for length in range(len(data)):
        with pytest.raises(
            InvalidRoster, match=r"must (not be truncated|have the \d+ bytes that it announces)"
        ):
            Roster.open(data[:length], authority.certificate)
    with pytest.raises(InvalidRoster, match="that it announces"):
        Roster.open(data + b"\0", authority.certificate)


@given(st.binary(max_size=200))
def test_garbage_is_refused(authority: Authority, data: bytes) -> None:
    for text in (data, module._MAGIC + data):
        with pytest.raises(InvalidRoster):
            Roster.open(text, authority.certificate)


def test_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority.create(tmp_path)
    with pytest.raises(InvalidRoster, match="must be signed by this fleet's authority"):
        Roster.open(ring().sign(other), authority.certificate)


def test_the_signature_of_a_certificate_signs_no_roster(authority: Authority) -> None:
    """The authority's key signs both; what it signs begins differently, so that one cannot pass for the other."""
    issued = authority.issue("a", ["localhost"])
    certificate = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
    body = certificate.tbs_certificate_bytes
    data = module._MAGIC + module._LENGTHS.pack(len(certificate.signature), len(body))
    with pytest.raises(InvalidRoster, match="must be signed"):
        Roster.open(data + certificate.signature + body, authority.certificate)


def test_a_roster_that_is_too_large_is_not_even_read(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "fleet.roster"
    path.write_bytes(b"x" * (LARGEST + 10))
    with pytest.raises(
        InvalidRoster, match=r"fleet\.roster: a roster must have at most 1,000,000 bytes, got "
    ):
        read_roster(path, authority.directory / "ca.pem")
    named = tuple(
        RosterMember(id=i, name=f"{i}" + 50 * "x", endpoint="h" * 4000 + f":{i + 1}") for i in range(1000)
    )
    with pytest.raises(InvalidRoster, match="at most 1,000,000 bytes"):
        ring(members=named, edges=tuple(Edge(i, i + 1) for i in range(999))).sign(authority)


def members(*changes: dict[str, Any]) -> tuple[RosterMember, ...]:
    found = list(ring().members)
    return tuple(
        msgspec.structs.replace(member, **change) for member, change in zip(found, changes, strict=False)
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fleet": "other"}, "must be of this fleet, 'plant', got one of 'other'"),
        ({"epoch": -1}, "epoch must be a whole number from 0 on, got -1"),
        ({"members": ring().members[:1], "edges": ()}, "at least 2 agents, got 1"),
        ({"members": members({}, {"id": 0}, {}, {})}, "agents: id must be different .* got 0 twice"),
        (
            {"members": members({}, {"name": "a0"}, {}, {})},
            "agents: name must be different .* got 'a0' twice",
        ),
        (
            {"members": members({}, {"endpoint": "10.0.0.0:7447"}, {}, {})},
            "agents: endpoint must be different",
        ),
        ({"members": members({}, {"name": "../x"}, {}, {})}, r"agents\[1\]\.name: an agent's name must have"),
        ({"members": members({}, {"endpoint": "h"}, {}, {})}, r"agents\[1\]\.endpoint must be host:port"),
        (
            {"members": members({}, {"id": -4}, {}, {})},
            r"agents\[1\]\.id must be a whole number from 0 to 4294967295, got -4",
        ),
        (
            {"members": members({}, {"common_name": "a0"}, {}, {})},
            r"agents\[1\]\.common_name must be 'a1', @ and",
        ),
        (
            {"members": members({}, {"common_name": "a0@2"}, {}, {})},
            r"agents\[1\]\.common_name must be 'a1', @ and",
        ),
        (
            {"edges": (Edge(0, 1), Edge(1, 9))},
            r"edges\[1\]: an edge must join .* of this fleet, once, got \[1, 9\]",
        ),
        ({"edges": (Edge(0, 1), Edge(1, 1))}, r"edges\[1\]: .* two different agents"),
        ({"edges": (Edge(0, 1), Edge(1, 0))}, r"edges\[1\]: .* once"),
        (
            {"edges": (Edge(0, 1, -2.0),)},
            r"edges\[0\]: a weight must be a finite number above 0, or left out",
        ),
        (
            {"edges": (Edge(0, 1), Edge(2, 3))},
            r"connected network, but this graph has 2 components \(sizes 2, 2\)",
        ),
        (
            {"left": (Left(id=2, name="a2", keep=False, epoch=1),)},
            "left: an agent that was removed must no longer be a member",
        ),
        ({"left": (Left(id=9, name="x", keep=False, epoch=4),)}, "since an epoch up to 3, got id 9, epoch 4"),
        ({"left": 2 * (Left(id=9, name="x", keep=False, epoch=1),)}, "left: id must be different"),
    ],
)
def test_a_roster_that_makes_no_sense_is_refused(
    authority: Authority, changes: dict[str, Any], message: str
) -> None:
    """Even with a good signature."""
    with pytest.raises(InvalidRoster, match=message):
        Roster.open(forge(ring(**changes), authority), authority.certificate, "plant")


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"fleet": "plant"}', b"\xff\xfe", msgspec.json.encode(ring())[:-1] + b',"more":1}'],
    ids=str,
)
def test_a_malformed_roster_is_refused(authority: Authority, body: bytes) -> None:
    with pytest.raises(InvalidRoster, match="must be well-formed"):
        Roster.open(forge(body, authority), authority.certificate)


def test_epochs_only_grow() -> None:
    assert ring(epoch=4).supersedes(ring(epoch=3))
    assert not ring(epoch=3).supersedes(ring(epoch=4))
    assert not ring(epoch=3).supersedes(ring(epoch=3))
    for one, other in ((ring(4), ring(5)), (ring(5), ring(4))):
        with pytest.raises(
            InvalidRoster, match=r"two different ones of epoch 3; neither counts: .*fleet sign"
        ):
            one.supersedes(other)


def test_a_common_name_fits_into_a_certificate() -> None:
    assert common_name("pump", 7) == "pump@7"
    with pytest.raises(InvalidRoster, match=r"name must be short enough .* 64 characters"):
        common_name(63 * "x", 7)


# -- beside fleet.toml ------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Fleet.create(Network.cycle(4), fleet="plant").write(tmp_path / "fleet")


def put(path: Path, found: Roster) -> None:
    roster_path(path).write_bytes(found.sign(Authority.load(path.parent / "certificates")))


def test_a_new_fleet_has_a_signed_roster(path: Path) -> None:
    fleet = Fleet.read(path)
    assert fleet.epoch == 1
    assert read_roster(roster_path(path), path.parent / "certificates" / "ca.pem", "plant") == fleet.roster
    assert roster_path(path) == path.parent / "fleet.roster"
    assert stat.S_IMODE(roster_path(path).stat().st_mode) == 0o644


def test_a_newer_roster_counts_and_an_older_one_does_not(path: Path) -> None:
    before = Fleet.read(path)
    changed = msgspec.structs.replace(
        before.roster,
        members=(
            *before.roster.members[1:],
            RosterMember(id=7, name="new", endpoint="h:1", common_name="new@2"),
        ),
        edges=(Edge(1, 2), Edge(2, 3), Edge(3, 7)),
        left=(Left(id=0, name="agent0", keep=False, epoch=2),),
    )
    for epoch in (0, 1):
        put(path, msgspec.structs.replace(changed, epoch=max(epoch, 0), left=()))
        assert Fleet.read(path) == before
    put(path, msgspec.structs.replace(changed, epoch=2))
    after = Fleet.read(path)
    assert after.epoch == 2
    assert [member.name for member in after.agents] == ["agent1", "agent2", "agent3", "new"]
    assert after.agents[0] == before.agents[1]  # with its source
    assert after.agents[3] == Member(id=7, name="new", endpoint="h:1", common_name="new@2")
    settings = after.settings(3, path.parent)
    assert [(n.id, n.name, n.degree) for n in settings.neighbors] == [(2, "agent2", 2), (7, "new@2", 1)]
    assert [n.weight for n in settings.neighbors] == [0.0, 0.0]  # they follow from the degrees
    assert after.weights[3] == {2: 1 / 3, 7: 1 / 3}
    for removed in ("agent0", 0):
        with pytest.raises(InvalidInput, match=r"agent 0 \(agent0\) was removed from this fleet in epoch 2"):
            after.settings(removed, path.parent)


def test_without_a_roster_the_file_counts(path: Path) -> None:
    before = Fleet.read(path)
    roster_path(path).unlink()
    assert Fleet.read(path) == before


def test_a_file_from_before_there_were_epochs_still_works(path: Path) -> None:
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("epoch"))
    path.write_text(text.replace("left = [\n]\n", ""))
    roster_path(path).unlink()
    assert Fleet.read(path).epoch == 0


@pytest.mark.parametrize("spoil", ["bit", "truncated", "fleet", "disconnected"])
def test_an_agent_does_not_start_with_a_roster_it_cannot_trust(path: Path, spoil: str) -> None:
    """Going on with the older list of fleet.toml would let agents back in that were removed."""
    fleet, file = Fleet.read(path).roster, roster_path(path)
    if spoil == "bit":
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    elif spoil == "truncated":
        file.write_bytes(file.read_bytes()[:-1])
    elif spoil == "fleet":
        put(path, msgspec.structs.replace(fleet, fleet="other"))
    else:
        authority = Authority.load(path.parent / "certificates")
        file.write_bytes(forge(msgspec.structs.replace(fleet, edges=()), authority))
    with pytest.raises(InvalidRoster, match=r"fleet\.roster: "):
        Fleet.read(path)
