"""PKCS12 stores with several entries, as keytool writes them, for tests."""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "sesame"
BEGIN, END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
SALT = bytes(8)
DATA = bytes.fromhex("06092a864886f70d010701")
SHA256 = bytes.fromhex("300d06096086480165030402010500")
SEQUENCE, OCTETS, EXPLICIT = 0x30, 0x04, 0xA0


@dataclass(frozen=True)
class Made:
    """An entry of a store; its chain begins with its own certificate."""

    alias: str
    key: ec.EllipticCurvePrivateKey
    chain: list[x509.Certificate]

    @property
    def pem(self) -> bytes:
        return b"".join(one.public_bytes(Encoding.PEM) for one in self.chain)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def made(
    alias: str,
    *names: str,
    issuer: Made | None = None,
    ends: datetime = END,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Made:
    """An entry with a new certificate, whose subject is CN=ALIAS, for the host names."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, alias)])
    builder = x509.CertificateBuilder(
        issuer.chain[0].subject if issuer else subject, subject, key.public_key(), x509.random_serial_number(),
        BEGIN, ends, [],
    )  # fmt: skip
    builder = builder.add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), False)
    certificate = builder.sign(issuer.key if issuer else key, hashes.SHA256())
    return Made(alias, key, [certificate, *(issuer.chain if issuer else [])])


def single(entry: Made, encryption: KeySerializationEncryption | None = None) -> bytes:
    """A store with this entry only."""
    locked = encryption or PrivateFormat.PKCS12.encryption_builder().kdf_rounds(1).build(PASSWORD.encode())
    own = entry.chain[0] if entry.chain else None
    return pkcs12.serialize_key_and_certificates(
        entry.alias.encode(), entry.key, own, entry.chain[1:], locked
    )


def store(*entries: Made, encryption: KeySerializationEncryption | None = None) -> bytes:
    """A store with these entries in this order, locked with PASSWORD; its keys as by
    `encryption`."""
    safe = _tlv(SEQUENCE, b"".join(_certificates_and_key(each, encryption) for each in entries))
    text = f"{PASSWORD}\0".encode("utf-16-be")
    key = hashlib.sha256(b"\3" * 64 + _filled(SALT) + _filled(text)).digest()
    digest = hmac.digest(key, safe, "sha256")
    mac = _tlv(SEQUENCE, _tlv(SEQUENCE, SHA256 + _tlv(OCTETS, digest)) + _tlv(OCTETS, SALT))
    info = _tlv(SEQUENCE, DATA + _tlv(EXPLICIT, _tlv(OCTETS, safe)))
    return _tlv(SEQUENCE, b"\x02\x01\x03" + info + mac)


def put(path: Path, *entries: Made, encryption: KeySerializationEncryption | None = None) -> Path:
    """A store with these entries at the path, replaced as by a rename."""
    new = path.with_suffix(".new")
    new.write_bytes(store(*entries, encryption=encryption))
    return new.replace(path)


def settings(path: Path) -> dict[str, str]:
    """A key store's settings."""
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": PASSWORD,
    }


def authorities(path: Path, entries: Sequence[Made]) -> Path:
    """The certificates of self-signed entries, for clients that trust them."""
    path.write_bytes(b"".join(each.pem for each in entries))
    return path


def _certificates_and_key(entry: Made, encryption: KeySerializationEncryption | None) -> bytes:
    """The parts of a store with one entry, its key from one that is locked by `encryption`."""
    parts = _contents(single(entry))
    if encryption is None:
        return parts
    keys = [part for part in _items(_contents(single(entry, encryption))) if DATA in part[:20]]
    return b"".join([part for part in _items(parts) if DATA not in part[:20]] + keys)


def _items(der: bytes) -> Iterator[bytes]:
    """The items one after the other, with their heads."""
    while der:
        rest = _first(der)[1]
        yield der[: len(der) - len(rest)]
        der = rest


def _contents(single_store: bytes) -> bytes:
    """The parts of a store, with the keys and the certificates."""
    pfx, _ = _first(single_store)
    _, after_version = _first(pfx)
    info, _ = _first(after_version)
    _, content = _first(info)
    octets, _ = _first(content)
    safe, _ = _first(octets)
    return _first(safe)[0]


def _first(der: bytes) -> tuple[bytes, bytes]:
    """The value of the first item, and what follows it."""
    at, size = 2, der[1]
    if size & 0x80:
        at += size & 0x7F
        size = int.from_bytes(der[2:at])
    return der[at : at + size], der[at + size :]


def _tlv(tag: int, value: bytes) -> bytes:
    if len(value) < 0x80:
        return bytes((tag, len(value))) + value
    size = len(value).to_bytes(-(-len(value).bit_length() // 8))
    return bytes((tag, 0x80 | len(size))) + size + value


def _filled(text: bytes) -> bytes:
    """Repeated to whole blocks of SHA-256."""
    return (text * 64)[: -(-len(text) // 64) * 64]
