"""The choice of a certificate by the server name that a TLS client sends (SNI, RFC 6066).

Names are compared by the rules of RFC 9525: whole or with a wildcard for the first label, without
regard to case, internationalized ones as the A-labels that both sides have. Java chooses by the
name, too: its key manager PKIX, and from Java 26 on SunX509, Kafka's default.
"""

import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbroker.protocol.slices import each_paced


def names_of(chain: bytes) -> list[str]:
    """The host names in the first certificate of a chain in PEM: those of subjectAltName; without
    any there, the common name."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    names: list[str] = []
    try:
        certificate = x509.load_pem_x509_certificates(chain)[0]
        for extension in certificate.extensions:
            if isinstance(extension.value, x509.SubjectAlternativeName):
                names += extension.value.get_values_for_type(x509.DNSName)
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return []  # OpenSSL reads what this library refuses
    return [_folded(name) for name in names or [str(one.value) for one in common]]


def by_name(names: Sequence[Sequence[str]]) -> dict[str, int]:
    """The index of the entry for each name; of several entries with a name it is the first."""
    found: dict[str, int] = {}
    for index, own in enumerate(names):
        for name in own:
            found.setdefault(name, index)
    return found


def chosen(entries: Mapping[str, int], name: str) -> int:
    """The index of the entry for a server name: one that has it rather than one that has a
    wildcard for it; 0 if none has."""
    name = _folded(name)
    label, _, domain = name.partition(".")
    index = entries.get(name)
    if index is None and label and domain:
        index = entries.get(f"*.{domain}")
    return index or 0


def choose_by_name(contexts: Sequence[ssl.SSLContext], chains: Sequence[bytes]) -> None:
    """Make the first context give a client to the one whose certificate has the name that the
    client sends. A client without a name, or with another one, stays."""
    entries = by_name([names_of(chain) for chain in each_paced(chains)])
    others = contexts[1:]

    def choose(session: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name and (index := chosen(entries, name)):
            session.context = others[index - 1]

    contexts[0].sni_callback = choose
    if not isinstance(sys.unraisablehook, _Unraisable):
        sys.unraisablehook = _Unraisable(sys.unraisablehook)


class _Unraisable:
    """A hook for errors that cannot be raised, without those of a server name that is not ASCII:
    Python then refuses the handshake, as Java does, but first prints a traceback for each
    client."""

    def __init__(self, before: Callable[[Any], object]) -> None:
        self._before = before

    def __call__(self, unraisable: Any) -> None:
        """Pass on any other error."""
        if not isinstance(unraisable.exc_value, UnicodeDecodeError) or type(unraisable.object) is not bytes:
            self._before(unraisable)


def _folded(name: str) -> str:
    return name.lower().removesuffix(".")
