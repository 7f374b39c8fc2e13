"""A client whose requests are forwarded to control."""

import socket
import struct

METADATA = 3


def asking(correlation_id: int, api: int = METADATA, version: int = 1, body: bytes = b"") -> bytes:
    return struct.pack(">ihhih", 10 + len(body), api, version, correlation_id, -1) + body


def framed(correlation_id: int, size: int = 0) -> bytes:
    return struct.pack(">ii", 4 + size, correlation_id) + bytes(size)


def read(link: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = link.recv(min(1 << 20, size - len(found)))
        assert data, f"closed after {len(found)} bytes"
        found += data
    return found
