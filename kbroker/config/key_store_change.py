"""Whether a new key store may replace that of a running TLS listener
(SslFactory.CertificateEntries.ensureCompatible).

A client that trusted an old certificate must find the same name in the new one, unless
ssl.allow.dn.changes and ssl.allow.san.changes allow the change.
"""

from typing import TYPE_CHECKING, NamedTuple

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_store import Chains
from kbroker.protocol.slices import each_paced

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


def incompatible(config: BrokerConfig, listener: str, old: Chains, new: Chains) -> str | None:
    """The reason why the entries of `new` may not replace those of `old`, with Kafka's text; None
    when they may. They are compared one by one. config: that of the start, because the two settings
    that allow changes are read then."""
    may_rename = config.of_listener(listener, DN_CHANGES) is True
    may_lose_names = config.of_listener(listener, SAN_CHANGES) is True
    if old == new or (may_rename and may_lose_names):
        return None
    if len(old) != len(new):
        return (
            f"Keystore entries do not match, existing store contains {len(old)} entries, new store contains "
            f"{len(new)} entries"
        )
    pairs = []
    for before, after in each_paced(zip(old, new, strict=True)):
        if (existing := _Shown.of(*before)) is None:
            continue  # OpenSSL reads what this library refuses; its names are unknown
        if (replacing := _Shown.of(*after)) is None:
            return "the new certificate cannot be read"
        pairs.append((existing, replacing))
    renamed = () if may_rename else (_renamed(*pair) for pair in each_paced(pairs))
    reduced = () if may_lose_names else (_reduced(*pair) for pair in each_paced(pairs))
    return next((why for why in (*renamed, *reduced) if why is not None), None)


class _Shown(NamedTuple):
    """The part of an entry that clients see."""

    alias: str
    subject: "Name"
    names: "list[GeneralName]"

    @classmethod
    def of(cls, alias: str, chain: bytes) -> "_Shown | None":
        """That part of an entry with this chain; None if the chain cannot be read."""
        if (certificate := _certificate(chain)) is None:
            return None
        return cls(alias, certificate.subject, _names(certificate))


def _renamed(old: _Shown, new: _Shown) -> str | None:
    if _folded(old.subject) == _folded(new.subject):
        return None
    was, is_now = (f"alias={one.alias}, DN={_dn(one.subject)}" for one in (old, new))
    return f"Keystore DistinguishedName does not match:  existing={{{was}}}, new={{{is_now}}}"


def _reduced(old: _Shown, new: _Shown) -> str | None:
    if set(old.names) <= set(new.names):
        return None
    was, is_now = (f"alias={one.alias}, SAN=[{', '.join(map(_shown, one.names))}]" for one in (old, new))
    return f"Keystore SubjectAltNames do not match:  existing={{{was}}}, new={{{is_now}}}"


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
