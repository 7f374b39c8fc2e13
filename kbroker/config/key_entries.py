"""Entries of a PKCS12 store: each private key with its certificate chain.

keytool writes several keys into one store. OpenSSL, and so the library, gives only the first of
them, but the certificates of all. The other keys are found here, and decrypted by the library.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kbroker.protocol.slices import each_paced

if TYPE_CHECKING:  # imported when a store needs it: most brokers have none
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12Certificate,
        PKCS12KeyAndCertificates,
    )
    from cryptography.x509 import Certificate, Name

MAX_KEYS: Final = 64
"""Maximum number of private keys in a store: each process that serves clients makes a context of
each."""
_DATA: Final = bytes.fromhex("2a864886f70d010701")
_KEY: Final = bytes.fromhex("2a864886f70d010c0a0101")
_ENCRYPTED_KEY: Final = bytes.fromhex("2a864886f70d010c0a0102")
"""Object identifiers of RFC 7292: of plain contents, and of the two kinds of bags with a key."""

Entry = tuple[str, bytes, bytes]
"""Alias, and as PEM the key and the chain."""


def entries_of(content: bytes, password: str, store: "PKCS12KeyAndCertificates") -> list[Entry]:
    """The entries in the order of the file; a key without a certificate is none, as in Java. store:
    what the library has read from the same content. Raises ValueError with a reason."""
    certificates = [one for one in (store.cert, *store.additional_certs) if one is not None]
    keys = list(_encoded_keys(content))
    if len(keys) > MAX_KEYS:
        raise ValueError(f"{len(keys)} private keys; the maximum is {MAX_KEYS}")
    if len(keys) > 1:
        loaded = [_loaded(key, password if encrypted else None) for encrypted, key in each_paced(keys)]
        return list(_with_chains(loaded, certificates))
    if store.key is None or store.cert is None:
        return []
    chain = [one.certificate for one in certificates]
    return [(_alias(store.cert, 1), _key_pem(store.key), _chain_pem(chain))]


def _encoded_keys(content: bytes) -> Iterator[tuple[bool, bytes]]:
    """Each private key that is in plain contents, where keytool and OpenSSL write them: whether the
    key itself is encrypted, and its PKCS #8. None of a store that is not in DER."""
    try:
        ((_, pfx),) = _items(memoryview(content))
        _, (_, safe), *_ = _items(pfx)
        infos = [info for _, info in _sequence(_plain(safe))]
        bags = [bag for info in infos if (found := _plain(info)) for _, bag in _sequence(found)]
        for bag in bags:
            (_, kind), (_, value), *_ = _items(bag)
            if kind in (_KEY, _ENCRYPTED_KEY):
                yield kind == _ENCRYPTED_KEY, bytes(value)
    except ValueError:
        return


def _items(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Tag and value of each item of DER. Raises ValueError."""
    at = 0
    while at < len(data):
        value = at + 2
        size = data[at + 1] if value <= len(data) else -1
        if size & 0x80:
            value += size & 0x7F
            size = int.from_bytes(data[at + 2 : value]) if at + 2 < value <= len(data) else -1
        if not 0 <= size <= len(data) - value:
            raise ValueError("not DER")
        yield data[at], data[value : value + size]
        at = value + size


def _sequence(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The items of the only item. Raises ValueError."""
    ((_, items),) = _items(data)
    return _items(items)


def _plain(info: memoryview) -> memoryview:
    """The bytes of a content info of PKCS #7; none of encrypted ones. Raises ValueError."""
    (_, kind), *content = _items(info)
    if kind != _DATA or not content:
        return memoryview(b"")
    ((_, octets),) = _items(content[0][1])
    return octets


def _loaded(key: bytes, password: str | None) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        return load_der_private_key(key, None if password is None else password.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("a private key cannot be read with the password of the store") from None


def _with_chains(
    keys: "Iterable[PrivateKeyTypes]", certificates: "list[PKCS12Certificate]"
) -> Iterator[Entry]:
    """A certificate belongs to the key that it has the public half of; of several for the same key,
    each belongs to one entry."""
    by_key: dict[bytes, list[PKCS12Certificate]] = {}
    by_subject: dict[Name, list[Certificate]] = {}
    for one in each_paced(certificates):
        by_key.setdefault(_public(one.certificate), []).append(one)
        by_subject.setdefault(one.certificate.subject, []).append(one.certificate)
    for number, key in each_paced(enumerate(keys, 1)):
        if own := by_key.get(_public(key)):
            first = own.pop(0)
            yield _alias(first, number), _key_pem(key), _chain_pem(_chain(first.certificate, by_subject))


def _chain(first: "Certificate", by_subject: "dict[Name, list[Certificate]]") -> "list[Certificate]":
    """Certificates from `first` to its authority, as far as the store has them."""
    chain = [first]
    while chain[-1].issuer != chain[-1].subject:
        issuers = (one for one in by_subject.get(chain[-1].issuer, ()) if one not in chain)
        if (issuer := next((one for one in issuers if _issued(one, chain[-1])), None)) is None:
            break
        chain.append(issuer)
    return chain


def _issued(issuer: "Certificate", certificate: "Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
        return False
    return True


def _public(holder: "Certificate | PrivateKeyTypes") -> bytes:
    """The public key; empty if the library does not know its kind."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        return holder.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (UnsupportedAlgorithm, ValueError):
        return b""


def _alias(certificate: "PKCS12Certificate", number: int) -> str:
    """The alias of an entry in lower case, as in Java; its number if it has none."""
    return (certificate.friendly_name or b"").decode(errors="replace").lower() or str(number)


def _key_pem(key: "PrivateKeyTypes") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _chain_pem(chain: "Iterable[Certificate]") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(one.public_bytes(Encoding.PEM) for one in chain)
