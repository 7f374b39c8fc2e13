"""KeyUpdate messages of a TLS 1.3 client (RFC 8446, 4.6.3), which Python's client cannot send: each
changes the client's keys, and asks for a message in return."""

import hmac
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SECRET = "CLIENT_TRAFFIC_SECRET_0"
MESSAGE = b"\x18\0\0\1\1"
HANDSHAKE = b"\x16"
TAG_BYTES = 16


def key_updates(client: ssl.SSLObject, key_log: Path, count: int) -> Iterator[bytes]:
    """The first records of a client after its handshake. key_log: of its context."""
    suite = (client.cipher() or ("",))[0]
    assert suite == "TLS_AES_256_GCM_SHA384"
    (line,) = (line for line in key_log.read_text().splitlines() if line.startswith(SECRET))
    secret = bytes.fromhex(line.split()[2])
    text = MESSAGE + HANDSHAKE
    head = b"\x17\3\3" + struct.pack(">H", len(text) + TAG_BYTES)
    for _ in range(count):
        key, nonce = _expanded(secret, b"key", 32), _expanded(secret, b"iv", 12)
        yield head + AESGCM(key).encrypt(nonce, text, head)  # the first record with these keys
        secret = _expanded(secret, b"traffic upd", 48)


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label with SHA-384, of at most one block."""
    label = b"tls13 " + label
    info = struct.pack(">HB", size, len(label)) + label + b"\0"
    return hmac.digest(secret, info + b"\1", "sha384")[:size]
