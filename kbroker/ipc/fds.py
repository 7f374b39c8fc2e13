"""Passes client sockets from the acceptor to a network process by SCM_RIGHTS, and ids of closed
connections back.

One SOCK_SEQPACKET pair per network process. Acceptor -> network: messages of one connection or
more, each ``Accepted`` with its descriptor. Network -> acceptor: first of all ``RESTARTED``, then
the ids of closed connections, int64 each. After the id ``RATES`` follows connection_creation_rate
by address as JSON; the first of several such messages has a flag. After ``SETTINGS`` follow the
dynamic settings of the acceptor as JSON.
"""

import array
import json
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

_HEAD = struct.Struct("<qHHHB")  # connection id, listener, port, site, bytes of the host that follows
_ID = struct.Struct("<q")
CONNECTIONS_PER_MESSAGE = 16
CONNECTION_BYTES = _HEAD.size + 255
LOST = -1  # instead of a descriptor: this process may not open another
IDS_PER_MESSAGE = 512
RATES_PER_MESSAGE = 128
MESSAGE_BYTES = 64 << 10
RATES = -2  # instead of ids: a message of rates
SETTINGS = -3  # the same of settings
RESTARTED = -1  # among the ids: a new network process; its predecessor's connections are gone


class Accepted(NamedTuple):
    """A client's connection: id unique within the broker's run, index of its listener, the peer's
    address, number of the replica site whose port it has connected to."""

    connection_id: int
    listener: int
    host: str
    port: int
    site: int = 0


def pair() -> tuple[socket.socket, socket.socket]:
    """(acceptor's end, network process's end), both non-blocking."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setblocking(False)
    return ends


def send_connections(channel: socket.socket, connections: Sequence[tuple[int, Accepted]]) -> bool:
    """Pass descriptors on, CONNECTIONS_PER_MESSAGE at most; the caller then closes its own. False:
    the channel is full. OSError: it is broken."""
    body = bytearray()
    for _, accepted in connections:
        host = accepted.host.encode()
        head = accepted.connection_id, accepted.listener, accepted.port, accepted.site, len(host)
        body += _HEAD.pack(*head) + host
    rights = array.array("i", [fd for fd, _ in connections])
    try:
        channel.sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    except BlockingIOError:
        return False
    return True


def receive_connections(channel: socket.socket) -> list[tuple[Accepted, int]]:
    """The next connections, each with its descriptor or LOST; empty if none was sent. EOFError: the
    acceptor has ended."""
    room = CONNECTIONS_PER_MESSAGE * CONNECTION_BYTES
    space = socket.CMSG_SPACE(4 * CONNECTIONS_PER_MESSAGE)
    try:
        body, ancillary, _, _ = channel.recvmsg(room, space, socket.MSG_CMSG_CLOEXEC)
    except BlockingIOError:
        return []
    except ConnectionError as error:  # it had not read all that was sent to it
        raise EOFError("the acceptor has closed its end") from error
    if not body:
        raise EOFError("the acceptor has closed its end")
    rights = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            rights.frombytes(data)
    found: list[tuple[Accepted, int]] = []
    position = 0
    while position < len(body):
        connection_id, listener, port, site, size = _HEAD.unpack_from(body, position)
        position += _HEAD.size + size
        host = body[position - size : position].decode()
        fd = rights[len(found)] if len(found) < len(rights) else LOST
        found.append((Accepted(connection_id, listener, host, port, site), fd))
    return found


def _send(channel: socket.socket, message: bytes) -> bool:
    """One message to the acceptor. False: the channel is full. EOFError: the acceptor has ended."""
    try:
        channel.send(message)
    except BlockingIOError:
        return False
    except ConnectionError as error:
        raise EOFError("the acceptor has closed its end") from error
    return True


def send_closed(channel: socket.socket, ids: list[int]) -> int:
    """Report to the acceptor which connections have ended; returns how many of them were sent.
    EOFError: it has gone."""
    sent = 0
    while sent < len(ids):
        part = ids[sent : sent + IDS_PER_MESSAGE]
        if not _send(channel, b"".join(map(_ID.pack, part))):
            break
        sent += len(part)
    return sent


class Rates(Struct, frozen=True):
    """connection_creation_rate by address, "" for the default; None removes it. first: forget all
    others."""

    rates: dict[str, float | None]
    first: bool


def send_rates(channel: socket.socket, rates: dict[str, float | None], first: bool) -> bool:
    """Send the acceptor RATES_PER_MESSAGE rates at most. False: the channel is full. EOFError: it
    has gone."""
    return _send(channel, _ID.pack(RATES) + json.dumps([rates, first]).encode())


class Settings(Struct, frozen=True):
    """All dynamic settings that the acceptor keeps to, by Kafka name."""

    values: dict[str, str]


def send_settings(channel: socket.socket, values: dict[str, str]) -> bool:
    """Send the acceptor its dynamic settings. False: the channel is full. EOFError: it has gone."""
    return _send(channel, _ID.pack(SETTINGS) + json.dumps(values).encode())


def receive_closed(channel: socket.socket) -> list[int] | Rates | Settings | None:
    """Ids of connections that have ended, rates, or settings; None when there is nothing now.
    EOFError: the process has gone."""
    try:
        body = channel.recv(MESSAGE_BYTES)
    except BlockingIOError:
        return None
    except ConnectionError as error:
        raise EOFError(str(error)) from error
    if not body:
        raise EOFError("the network process has closed its end")
    if body.startswith(_ID.pack(RATES)):
        rates, first = json.loads(body[_ID.size :])
        return Rates(rates, first)
    if body.startswith(_ID.pack(SETTINGS)):
        return Settings(json.loads(body[_ID.size :]))
    return [connection_id for (connection_id,) in _ID.iter_unpack(body)]
