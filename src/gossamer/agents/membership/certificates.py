"""A private certificate authority for one fleet, and a certificate for every agent.

The authority belongs to the fleet and signs only its certificates and rosters: every holder of one of its certificates
is a member. An agent's certificate has its name (later ones NAME@EPOCH, see `roster.py`) as common name, on which
access control is based, and its addresses, which the connecting side checks. Keys are elliptic (P-256), in files of
mode 0600, set before anything is written, in a directory of mode 0700, and never appear in a log or an error.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer import checks
from gossamer.agents import files
from gossamer.agents.config.settings import OPERATOR
from gossamer.errors import InvalidInput, OutputError, require

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_DAYS = 3650
AGENT_DAYS = 90

_CLOCK_SKEW = timedelta(hours=1)
"""Certificates are valid from an hour ago, because the clocks of different machines differ."""

LONGEST_NAME = 53
"""Most characters of a new agent's name: its later certificates have NAME@EPOCH as common name, of at most 64."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Credential:
    """The files of one certificate and its private key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """A certificate authority in a directory: `ca.pem` is public, `ca.key` is secret."""

    directory: Path
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(
        cls, directory: Path, name: str = "gossamer fleet", *, days: float = AUTHORITY_DAYS
    ) -> Authority:
        """Create an authority in `directory`, which must not have one already."""
        require("cryptography", "agents")
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        if (directory / "ca.key").exists() or (directory / "ca.pem").exists():
            raise InvalidInput(
                f"{directory} already holds an authority, and a new one would lock out every agent "
                "whose certificate it signed; choose another directory, or remove this one first"
            )
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(
            name,
            key.public_key(),
            name,
            key,
            days=days,
            extensions=[
                (x509.BasicConstraints(ca=True, path_length=0), True),
                (_usage(certificates=True), True),
            ],
        )
        _make_private(directory)
        write_file(directory / "ca.key", pem_of_key(key), private=True)
        write_file(directory / "ca.pem", _pem_of_certificate(certificate))
        return cls(directory, certificate, key)

    @classmethod
    def load(cls, directory: Path) -> Authority:
        """Read an authority, to issue or renew certificates."""
        require("cryptography", "agents")
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if (directory / "ca.pem").exists() and not (directory / "ca.key").exists():
            raise InvalidInput(
                f"this needs the authority's key, {directory / 'ca.key'}, which is not on this machine; run it where "
                "the key is kept, or copy the key temporarily"
            )
        try:
            certificate = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
            key = load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"an authority must be a directory with ca.pem and ca.key, but those in {directory} "
                f"cannot be read ({type(error).__name__}); run `gossamer fleet init` to make one"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InvalidInput(f"the key in {directory} must be elliptic, got {type(key).__name__}")
        return cls(directory, certificate, key)

    def issue(
        self,
        name: str,
        hosts: Iterable[str],
        *,
        common_name: str = "",
        days: float = AGENT_DAYS,
        start: datetime | None = None,
        sync: bool = True,
    ) -> Credential:
        """Write a certificate and key for the agent `name`, reachable at `hosts` (names or IP addresses).

        `common_name` is that of the certificate, if it differs from the name (see `roster.py`). `start` is when it
        becomes valid, by default an hour ago, for clocks that run slow. Without `sync` the caller must sync the files,
        for example with one `os.sync` for many.
        """
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        made = self._certify(key.public_key(), name, hosts, common_name=common_name, days=days, start=start)
        credential = Credential(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        write_file(credential.key, pem_of_key(key), private=True, sync=sync)
        write_file(credential.certificate, made, sync=sync)
        return credential

    def sign_request(
        self, request: bytes, name: str, hosts: Iterable[str], *, common_name: str = ""
    ) -> bytes:
        """Return the certificate (PEM) for a signing request (DER), of which only the key is used."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            asked = x509.load_der_x509_csr(request)
        except ValueError:
            raise InvalidInput(f"{name} must answer with a signing request, got {request[:60]!r}") from None
        key = asked.public_key()
        if not asked.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidInput(
                f"{name} must sign its request with an elliptic key, and the signature is not valid"
            )
        return self._certify(key, name, hosts, common_name=common_name)

    def _certify(
        self,
        public_key: object,
        name: str,
        hosts: Iterable[str],
        *,
        common_name: str = "",
        days: float = AGENT_DAYS,
        start: datetime | None = None,
    ) -> bytes:
        """Return a certificate for a public key, as PEM."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        if name != OPERATOR:
            check_name(name)
        issuer = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        addresses = [_address(host) for host in dict.fromkeys(hosts)]
        certificate = _sign(
            common_name or name,
            public_key,
            str(issuer),
            self.key,
            days=days,
            start=start,
            extensions=[
                (x509.BasicConstraints(ca=False, path_length=None), True),
                (_usage(certificates=False), True),
                (x509.ExtendedKeyUsage(both_ends), False),
                (x509.SubjectAlternativeName(addresses), False),
            ],
        )
        return _pem_of_certificate(certificate)


def check_name(name: str, longest: int = 64) -> str:
    """Return `name` if it is valid for an agent, that is, as a common name and as a file name."""
    if not _NAME.fullmatch(name) or len(name) > longest:
        raise InvalidInput(
            f"an agent's name must have 1 to {longest} letters, digits, dots, dashes and underscores, "
            f"and start and end with a letter or a digit, got {checks.brief(name)}"
            + (f" ({len(name)} characters)" if len(name) > longest else "")
        )
    if name in ("ca", OPERATOR):
        whose = "the operator's" if name == OPERATOR else "the authority's"
        raise InvalidInput(f"an agent's name must not be {name!r}, which is {whose}; choose another")
    return name


def check_private(path: Path) -> None:
    """Raise if users other than its owner can read a key."""
    try:
        path.stat()
    except OSError as error:
        raise InvalidInput(
            f"the agent needs its private key {path}, which cannot be read ({error.strerror}); "
            "run `gossamer fleet init`, or copy the key to this machine"
        ) from None
    files.check(path.with_name(name) for name in ("ca.pem", f"{path.stem}.pem", path.name))
    files.check_secret(path, "the key")


def expires(path: Path) -> datetime:
    """When the certificate in a PEM file expires."""
    return read_certificate(path).not_valid_after_utc


def validity(path: Path) -> tuple[datetime, datetime]:
    """Return the first and last moment of the certificate in a PEM file."""
    certificate = read_certificate(path)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def common_name_of(path: Path) -> str:
    """Return the common name of the certificate in a PEM file."""
    from cryptography.x509.oid import NameOID

    names = read_certificate(path).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def read_certificate(path: Path) -> x509.Certificate:
    """Return the certificate in a PEM file."""
    require("cryptography", "agents")
    from cryptography import x509

    try:
        files.check([path])
        return x509.load_pem_x509_certificate(path.read_bytes())
    except InvalidInput:
        raise
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path} must be a certificate in PEM form, but it cannot be read ({type(error).__name__}); "
            "make it with `gossamer fleet init`, or copy it from the machine where that was done"
        ) from None


def _sign(
    name: str,
    public_key: object,
    issuer: str,
    key: EllipticCurvePrivateKey,
    *,
    days: float,
    extensions: list[tuple[x509.ExtensionType, bool]],
    start: datetime | None = None,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    start = datetime.now(UTC) - _CLOCK_SKEW if start is None else start
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]),
        public_key=public_key,  # type: ignore[arg-type]
        serial_number=x509.random_serial_number(),
        not_valid_before=start,
        not_valid_after=start + timedelta(days=days),
        extensions=[],
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, hashes.SHA256())


def _usage(*, certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _address(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise InvalidInput(f"a host name must be ASCII, got {host!r}; write it in punycode") from None


def pem_of_key(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _pem_of_certificate(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory {directory}: {error.strerror}") from error


def write_file(path: Path, content: bytes, *, private: bool = False, sync: bool = True) -> None:
    """Replace a file atomically, synced before it is renamed (`sync`); its mode is set before its content.

    Several processes may do so at the same time, such as agents that share a folder and receive a new roster.
    """
    if path.exists() and not path.is_file():  # root could replace a device, such as /dev/full
        raise OutputError(f"{path} cannot be replaced, because it is not a file; choose the name of a file")
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
