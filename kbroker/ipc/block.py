"""Blocks: many requests of clients, or many answers to them, in one frame of a link, in a form that
kernels read.

A block is a sequence of messages: each has a head, up to two byte strings, and zeros up to the next
multiple of 8. A request carries its peer (the client, packed once per connection, see `pack_peer`)
and its frame without the size. An answer carries a status and its frame with the size, and if it
may be cached its terms (`layout.py`). Kernels of both sides read and write the same
bytes. Calls of requests in blocks are negative: ``~(serial << CALL_ROW_BITS | connection row)`` of
the network process.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.ipc.layout import MessageHead
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.frame import RequestHeader, parse_request
from kbroker.protocol.schema import ProtocolError

HEAD: Final = struct.Struct(MessageHead.FORMAT)
HEAD_BYTES: Final = MessageHead.SIZE
CALL_ROW_BITS: Final = MessageHead.CALL_ROW_BITS
ANSWERED: Final = 0
CLOSE: Final = 1
"""Status of an answer without a frame: close the connection."""
FAILED: Final = 2
"""As CLOSE, for a fault of control's own."""
PEERS: Final = 1 << 16


class Peer(NamedTuple):
    """The client that sent a request, as control gets it with each request; see ClientRequest."""

    connection_id: int
    listener: str
    client_host: str
    client_port: int
    principal: str
    site: int
    software_name: str = ""
    software_version: str = ""
    token_authenticated: bool = False


_decode_peer: Final = msgspec.msgpack.Decoder(Peer).decode


def row_of(call: int) -> int:
    """The connection's row of a request in a block, by its call."""
    return ~call & (1 << CALL_ROW_BITS) - 1


def pack_peer(peer: Peer) -> bytes:
    """Encode a peer for its requests."""
    return msgspec.msgpack.encode(peer)


def peer_of(client: ClientRequest) -> Peer:
    """The peer of a request."""
    return Peer(
        client.connection_id,
        client.listener,
        client.client_host,
        client.client_port,
        client.principal,
        client.site,
        client.software_name,
        client.software_version,
        client.token_authenticated,
    )


@lru_cache(PEERS)
def _peer(packed: bytes) -> Peer:
    try:
        return _decode_peer(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not a peer: {error}") from error


def pack_answer(call: int, frame: bytes | None, status: int = ANSWERED) -> bytes:
    """One answer. frame: the framed response, None to close the connection."""
    if frame is None:
        return _message(call, status or CLOSE, 0, b"")
    if isinstance(frame, CachedAnswer):
        return _message(call, status, len(frame), padded(frame) + frame.terms)
    return _message(call, status, len(frame), frame)


def _message(call: int, second: int, frame_bytes: int, content: bytes) -> bytes:
    pad = -len(content) & 7
    return HEAD.pack(HEAD_BYTES + len(content) + pad, call, second, frame_bytes) + content + bytes(pad)


def padded(content: bytes) -> bytes:
    """The bytes, up to the next multiple of 8."""
    return content + bytes(-len(content) & 7)


def heads(block: bytearray) -> Iterator[tuple[int, int, int, int]]:
    """(position after the head, call, bytes of the peer or status, bytes of the frame) of each
    message."""
    position = 0
    while position < len(block):
        size, call, second, frame_bytes = HEAD.unpack_from(block, position)
        yield position + HEAD_BYTES, call, second, frame_bytes
        position += size


def requests(block: bytearray) -> Iterator[tuple[int, bytes, bytes]]:
    """(call, peer, frame) of each request of a block; without requests that no longer have a
    call."""
    for start, call, peer_bytes, frame_bytes in heads(block):
        if call:
            yield call, *_content(block, start, peer_bytes, frame_bytes)


def request_at(block: bytearray, position: int) -> tuple[bytes, bytes]:
    """(peer, frame) of the request at a position."""
    _, _, peer_bytes, frame_bytes = HEAD.unpack_from(block, position)
    return _content(block, position + HEAD_BYTES, peer_bytes, frame_bytes)


def _content(block: bytearray, start: int, peer_bytes: int, frame_bytes: int) -> tuple[bytes, bytes]:
    frame = start + peer_bytes + (-peer_bytes & 7)
    return bytes(block[start : start + peer_bytes]), bytes(block[frame : frame + frame_bytes])


def answers(block: bytearray) -> Iterator[tuple[int, int, bytes]]:
    """(call, status, frame) of each answer of a block."""
    for start, call, status, frame_bytes in heads(block):
        yield call, status, bytes(block[start : start + frame_bytes])


def client_request(peer: bytes, frame: bytes) -> ClientRequest:
    """Decode the request of a peer and a frame. Raises ProtocolError for a header that cannot be
    read."""
    header, body = parse_request(frame)
    return whole_request(_peer(peer), header, frame[body:])


def whole_request(peer: Peer, header: RequestHeader, body: bytes) -> ClientRequest:
    """A ClientRequest of its three parts."""
    return ClientRequest(
        peer.connection_id,
        header.api_key,
        header.api_version,
        header.correlation_id,
        header.client_id,
        peer.listener,
        peer.client_host,
        peer.client_port,
        peer.principal,
        body,
        peer.site,
        peer.software_name,
        peer.software_version,
        peer.token_authenticated,
    )
