"""Whether a new key store may replace that of a running TLS listener
(SslFactory.CertificateEntries.ensureCompatible).

A client that trusted the old certificate must find the same name in the new one, unless
ssl.allow.dn.changes and ssl.allow.san.changes allow the change.
"""

from typing import TYPE_CHECKING

from kbroker.config.broker import BrokerConfig

if TYPE_CHECKING:  # imported when a store changes: most brokers have none
    from cryptography.x509 import Certificate, GeneralName, Name

DN_CHANGES, SAN_CHANGES = "ssl.allow.dn.changes", "ssl.allow.san.changes"
RECONFIGURABLE = (
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password",
    "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.type", "ssl.truststore.location",
    "ssl.truststore.password", "ssl.truststore.certificates",
)  # fmt: skip
"""Settings of which a change makes Kafka load the stores again
(SslConfigs.RECONFIGURABLE_CONFIGS)."""
_ALIAS = "alias=kafka"
"""The name that Kafka gives to the only entry of a PEM store."""
_KINDS = {
    "RFC822Name": 1, "DNSName": 2, "DirectoryName": 4, "UniformResourceIdentifier": 6, "IPAddress": 7,
    "RegisteredID": 8,
}  # fmt: skip
_TRUST = ("ssl.truststore.location", "ssl.truststore.certificates")


def changes_stores(before: BrokerConfig, after: BrokerConfig, listener: str) -> bool:
    """Whether a listener's stores have other settings."""
    return any(before.of_listener(listener, n) != after.of_listener(listener, n) for n in RECONFIGURABLE)


def adds_trust(before: BrokerConfig, after: BrokerConfig, listener: str) -> bool:
    """Whether a listener that had no trust store would get one."""

    def trusts(config: BrokerConfig) -> bool:
        return any(config.of_listener(listener, name) for name in _TRUST)

    return trusts(after) and not trusts(before)


def incompatible(config: BrokerConfig, listener: str, old: bytes, new: bytes) -> str | None:
    """The reason why the chain `new` may not replace `old`, with Kafka's text; None when it may.
    Both are PEM, the listener's own certificate first. config: that of the start, because the two
    settings that allow changes are read then."""
    may_rename = config.of_listener(listener, DN_CHANGES) is True
    may_lose_names = config.of_listener(listener, SAN_CHANGES) is True
    if old == new or (may_rename and may_lose_names):
        return None
    existing, replacing = _certificate(old), _certificate(new)
    if existing is None:
        return None  # OpenSSL reads what this library refuses; its names are unknown
    if replacing is None:
        return "the new certificate cannot be read"
    if not may_rename and _folded(existing.subject) != _folded(replacing.subject):
        was, is_now = (f"{_ALIAS}, DN={_dn(one.subject)}" for one in (existing, replacing))
        return f"Keystore DistinguishedName does not match:  existing={{{was}}}, new={{{is_now}}}"
    names, new_names = _names(existing), _names(replacing)
    if not may_lose_names and not set(names) <= set(new_names):
        was, is_now = (f"{_ALIAS}, SAN=[{', '.join(map(_shown, each))}]" for each in (names, new_names))
        return f"Keystore SubjectAltNames do not match:  existing={{{was}}}, new={{{is_now}}}"
    return None


def _certificate(chain: bytes) -> "Certificate | None":
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(chain)[0]
    except ValueError:
        return None


def _folded(subject: "Name") -> list[frozenset[tuple[str, str]]]:
    """A subject as Java compares them: without regard to case and to further blanks."""
    return [
        frozenset((one.oid.dotted_string, " ".join(str(one.value).split()).lower()) for one in rdn)
        for rdn in subject.rdns
    ]


def _dn(subject: "Name") -> str:
    return ", ".join(rdn.rfc4514_string() for rdn in reversed(list(subject.rdns)))


def _names(certificate: "Certificate") -> "list[GeneralName]":
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName

    try:
        found = certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    except (ExtensionNotFound, ValueError):  # ValueError: an extension that cannot be parsed
        return []
    return list(found.value)


def _shown(name: "GeneralName") -> str:
    """A name as Java prints it: its number in RFC 5280, and its value."""
    return f"[{_KINDS.get(type(name).__name__, 0)}, {name.value}]"
