"""Renewal of certificates over the fleet's own connections; keys never leave their host.

The operator asks a running agent, which makes a new key, keeps it, and answers with a signing request. The authority
signs a certificate for that key, with the name and the hosts of the roster, and the operator sends it; the agent checks
it, and replaces its old files, which it then uses like files that were copied by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.agents.config.settings import Neighbor, Tls
from gossamer.agents.config.tables import Member
from gossamer.agents.membership.certificates import Authority, pem_of_key, read_certificate, write_file
from gossamer.agents.text import printable
from gossamer.agents.transports.calling import ask
from gossamer.errors import InvalidInput, OutputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

RENEW = b"gossamer renew\n"
"""The operator's question: alone, it asks for a signing request; followed by a certificate (PEM), it installs that."""


class Renewal:
    """The agent's side of a renewal; `where` is the folder of its certificates."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._key: EllipticCurvePrivateKey | None = None

    def answer(self, question: bytes, me: Member) -> bytes:
        """Return the answer to one of the operator's two questions."""
        brought = question[len(RENEW) :]
        return self._install(brought, me).encode() if brought else self._request(me)

    def _request(self, me: Member) -> bytes:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509.oid import NameOID

        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, me.certified)])
        request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(self._key, hashes.SHA256())
        return request.public_bytes(Encoding.DER)

    def _install(self, brought: bytes, me: Member) -> str:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.x509.oid import NameOID

        key, self._key = self._key, None
        if key is None:
            return f"{me.name} was not asked for a signing request, or has restarted since; ask again"
        try:
            certificate = x509.load_pem_x509_certificate(brought)
            certificate.verify_directly_issued_by(read_certificate(self._where / "ca.pem"))
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            if certificate.public_key() != key.public_key() or [n.value for n in names] != [me.certified]:
                return f"{me.name} refused a certificate that is not for its key and name"
            write_file(self._where / f"{me.name}.key", pem_of_key(key), private=True)
            write_file(self._where / f"{me.name}.pem", brought)
        except (ValueError, TypeError, InvalidSignature, InvalidInput) as error:
            return f"{me.name} refused a certificate that its authority did not sign ({type(error).__name__})"
        except OutputError as error:
            return f"{me.name} cannot store its new certificate: {error}"
        return DONE


DONE = "renewed"
"""An agent's answer when its new certificate is installed."""


def renew_running(authority: Authority, tls: Tls, fleet: str, member: Member) -> str:
    """Renew the certificate of a running agent; return what went wrong, or an empty text."""
    contact = Neighbor(member.id, endpoint=member.endpoint, name=member.certified)
    try:
        request = ask(tls, fleet, contact, RENEW)
        made = authority.sign_request(
            request, member.name, [member.certified_host], common_name=member.certified
        )
        said = printable(ask(tls, fleet, contact, RENEW + made).decode(errors="replace"))
    except (OSError, InvalidInput) as error:
        return str(error)
    return "" if said == DONE else said
