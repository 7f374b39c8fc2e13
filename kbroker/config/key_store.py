"""Key and trust stores of TLS listeners: PEM and PKCS12 files, and PEM in the settings
(KIP-651)."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kbroker.config.broker import BrokerConfig
from kbroker.config.plain_file import open_plain

if TYPE_CHECKING:  # imported when a store needs it: most brokers have none
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
PEM_MAGIC: Final = b"-----BEGIN "
PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
FILES: Final = ("ssl.keystore.location", "ssl.truststore.location")
MAX_BYTES: Final = 16 << 20
PEM_ALIAS: Final = "kafka"
"""The name that Kafka gives to the only entry of a PEM store."""
_PEM_KEY: Final = re.compile(rb"^-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----", re.MULTILINE)

Text = Callable[[str], str | None]
Chains = tuple[tuple[str, bytes], ...]
"""Alias of each entry, and as PEM the certificates that it presents."""


class KeyStoreError(Exception):
    """A store that cannot be used; the text shows no secret."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key and its certificate chain as PEM. password: of the key, empty for none."""

    key: bytes = field(repr=False)
    chain: bytes
    password: str = field(repr=False)
    alias: str = PEM_ALIAS


def texts(config: BrokerConfig, listener: str) -> Text:
    """The text settings of a listener; None for those that are unset or empty."""

    def text(name: str) -> str | None:
        value = config.of_listener(listener, name)
        return value if isinstance(value, str) and value else None

    return text


def client_auth(config: BrokerConfig, listener: str) -> str:
    """ssl.client.auth of a TLS listener. On SASL_SSL it is none unless it is set for that listener,
    as in Kafka (KIP-684): its clients log in by SASL."""
    endpoint = next((each for each in config.listeners if each.listener == listener), None)
    own = config.is_set_for_listener(listener, "ssl.client.auth")
    if endpoint is not None and endpoint.protocol.sasl and not own:
        return "none"
    return texts(config, listener)("ssl.client.auth") or "none"


def key_store(text: Text) -> tuple[KeyEntry, ...]:
    """The listener's own keys and certificates, in the order of the store, at least one. Raises
    KeyStoreError."""
    key, chain = text("ssl.keystore.key"), text("ssl.keystore.certificate.chain")
    kind, location = text("ssl.keystore.type") or JKS, text("ssl.keystore.location")
    password = text("ssl.key.password") or ""
    if key is not None and chain is not None:
        if kind != PEM:
            raise KeyStoreError("ssl.keystore.key is PEM: ssl.keystore.type must say so")
        return _pem_entry("ssl.keystore.key", key.encode(), chain.encode(), password)
    if location is None:
        raise KeyStoreError(
            "ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain, must be set"
        )
    content = _content(location)
    if kind == PEM:
        return _pem_entry(f"ssl.keystore.location={location}", content, content, password)
    return _pkcs12_entries("ssl.keystore", kind, location, content, text("ssl.keystore.password") or "")


def trusted(text: Text) -> str:
    """The certificates that clients' are checked against, as PEM. Raises KeyStoreError."""
    certificates, location = text("ssl.truststore.certificates"), text("ssl.truststore.location")
    kind = text("ssl.truststore.type") or JKS
    if certificates is not None and kind == PEM:
        return certificates
    if location is None:
        raise KeyStoreError(
            "ssl.truststore.location, or PEM in ssl.truststore.certificates, must be set for ssl.client.auth"
        )
    content = _content(location)
    if kind == PEM:
        return content.decode("ascii", "ignore")  # comments may hold anything
    from cryptography.hazmat.primitives.serialization import Encoding

    store = _pkcs12("ssl.truststore", kind, location, content, text("ssl.truststore.password") or "")
    found = [one.certificate for one in (store.cert, *store.additional_certs) if one is not None]
    if not found:
        raise KeyStoreError(f"ssl.truststore.location={location}: no certificate in it")
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in found)


def stamps(text: Text) -> Iterator[tuple[str, int, int, int]]:
    """Path, time, size and inode of each store's file: they change when the file is replaced."""
    for name in FILES:
        if (location := text(name)) is not None:
            try:
                found = Path(location).stat()
            except OSError:
                continue
            yield location, found.st_mtime_ns, found.st_size, found.st_ino


def chains_of(entries: Iterable[KeyEntry]) -> Chains:
    """Alias and certificates of each entry, without its key."""
    return tuple((entry.alias, entry.chain) for entry in entries)


def expires_s(entries: Iterable[KeyEntry]) -> float:
    """Unix time when the first of the listener's own certificates ends. Raises KeyStoreError."""
    from cryptography import x509

    try:
        own = [x509.load_pem_x509_certificates(entry.chain)[0] for entry in entries]
    except ValueError as error:
        raise KeyStoreError(f"the certificate cannot be read: {error}") from None
    return min(one.not_valid_after_utc.timestamp() for one in own)


def _pem_entry(named: str, key: bytes, chain: bytes, password: str) -> tuple[KeyEntry]:
    """The entry of a PEM store, which has one (DefaultSslEngineFactory.PemStore)."""
    if (count := len(_PEM_KEY.findall(key))) > 1:
        raise KeyStoreError(f"{named}: {count} private keys; PEM has one, several are for {PKCS12}")
    return (KeyEntry(key, chain, password),)


def _content(location: str) -> bytes:
    try:
        with open_plain(location) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KeyStoreError(f"{location}: {error.strerror or os.strerror(error.errno or 0)}") from None
    if len(content) > MAX_BYTES:
        raise KeyStoreError(f"{location}: larger than {MAX_BYTES} bytes")
    return content


def _pkcs12(name: str, kind: str, location: str, content: bytes, password: str) -> "PKCS12KeyAndCertificates":
    """A PKCS12 store; Java's type JKS takes those, too. Raises KeyStoreError."""
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    if content.startswith(JKS_MAGIC):
        raise KeyStoreError(
            f"{name}.location={location}: a Java key store (JKS), which kbroker does not read. Convert it: keytool "
            f"-importkeystore -srckeystore {location} -destkeystore {location}.p12 -deststoretype PKCS12; then set "
            f"{name}.location={location}.p12 and {name}.type=PKCS12"
        )
    if PEM_MAGIC in content:
        raise KeyStoreError(f"{name}.location={location}: a PEM file: set {name}.type={PEM}")
    if kind not in (PKCS12, JKS):
        raise KeyStoreError(f"{name}.type={kind}: kbroker reads {PEM} and {PKCS12}")
    try:
        return load_pkcs12(content, password.encode() or None)
    except ValueError:
        raise KeyStoreError(
            f"{name}.location={location}: not a PKCS12 store, or {name}.password is wrong"
        ) from None


def _pkcs12_entries(
    name: str, kind: str, location: str, content: bytes, password: str
) -> tuple[KeyEntry, ...]:
    from kbroker.config.key_entries import entries_of

    store = _pkcs12(name, kind, location, content, password)
    try:
        found = entries_of(content, password, store)
    except ValueError as error:
        raise KeyStoreError(f"{name}.location={location}: {error}") from None
    if not found:
        raise KeyStoreError(f"{name}.location={location}: no private key with a certificate in it")
    return tuple(KeyEntry(key, chain, "", alias) for alias, key, chain in found)
