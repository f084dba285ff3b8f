"""The fleet's private authority: who is let in, and who can read the keys."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from gossamer.agents.membership.certificates import (
    AGENT_DAYS,
    Authority,
    check_name,
    check_private,
    expires,
    write_file,
)
from gossamer.errors import InvalidInput


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "certificates", "a test")


def test_an_agent_gets_a_certificate_of_its_name_and_addresses(authority: Authority) -> None:
    issued = authority.issue("pump-7", ["10.0.0.7", "pump7.example", "10.0.0.7"])
    certificate = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "pump-7"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    assert names.get_values_for_type(x509.DNSName) == ["pump7.example"]
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca  # a stolen agent must not sign others
    key = load_pem_private_key(issued.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == certificate.public_key()


def test_only_its_own_authority_vouches_for_an_agent(authority: Authority, tmp_path: Path) -> None:
    """A reloaded authority is the same one; another with the same name is not."""
    issued = Authority.load(authority.directory).issue("a", ["localhost"])
    certificate = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
    certificate.verify_directly_issued_by(authority.certificate)
    other = Authority.create(tmp_path / "other", "a test")
    with pytest.raises(InvalidSignature):
        certificate.verify_directly_issued_by(other.certificate)


def test_keys_are_for_their_owner_alone(authority: Authority) -> None:
    issued = authority.issue("a", ["localhost"])
    assert stat.S_IMODE(authority.directory.stat().st_mode) == 0o700
    for key in (issued.key, authority.directory / "ca.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        check_private(key)
    issued.key.chmod(0o640)
    with pytest.raises(InvalidInput, match=r"mode 0600.*got mode 0640.*chmod 600"):
        check_private(issued.key)
    with pytest.raises(InvalidInput, match="cannot be read"):
        check_private(authority.directory / "nobody.key")


def test_keys_appear_in_no_representation_and_no_error(authority: Authority) -> None:
    secret = (authority.directory / "ca.key").read_text()
    assert "PRIVATE KEY" in secret
    assert "PrivateKey" not in repr(authority)
    (authority.directory / "ca.pem").write_text("not a certificate")
    with pytest.raises(InvalidInput, match=r"ca\.pem and ca\.key") as error:
        Authority.load(authority.directory)
    assert all(line not in str(error.value) for line in secret.splitlines())


def test_a_renewed_certificate_replaces_the_old_one(authority: Authority) -> None:
    first = authority.issue("a", ["localhost"], days=1)
    soon = expires(first.certificate)
    assert soon < datetime.now(UTC) + timedelta(days=1)
    second = authority.issue("a", ["localhost"])
    assert second == first
    assert expires(second.certificate) > soon + timedelta(days=AGENT_DAYS - 2)


def test_an_authority_is_never_overwritten(authority: Authority) -> None:
    before = (authority.directory / "ca.key").read_bytes()
    with pytest.raises(InvalidInput, match="already holds an authority"):
        Authority.create(authority.directory)
    assert (authority.directory / "ca.key").read_bytes() == before


@pytest.mark.parametrize("name", ["", "a/b", "../x", "-a", "a b", "x" * 65, "ca", "a\n", "a*"])
def test_names_that_cannot_be_a_file_or_a_common_name_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_name(name)


def test_a_missing_authority_or_certificate_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="gossamer fleet init"):
        Authority.load(tmp_path)
    with pytest.raises(InvalidInput, match="must be a certificate in PEM form"):
        expires(tmp_path / "none.pem")


def test_a_host_that_is_no_name_is_refused_before_anything_is_written(authority: Authority) -> None:
    with pytest.raises(InvalidInput, match="a host name must be ASCII, got 'pümp'"):
        authority.issue("pump", ["pümp"])
    assert not (authority.directory / "pump.key").exists()


def test_a_file_may_be_written_by_many_at_once(tmp_path: Path) -> None:
    """As by agents that share a folder, all of which get the same roster."""
    file = tmp_path / "fleet.roster"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: write_file(file, bytes([k]) * 9000), range(64)))
    assert len(set(file.read_bytes())) == 1
    assert file.stat().st_size == 9000
    assert [found.name for found in tmp_path.iterdir()] == ["fleet.roster"]
