"""Connections of processes to control: through inherited sockets, so that no other process can.

The parent makes one pair of sockets before the first fork. Only control receives on the listener.
Every other process uses the connector to send control one end of a new stream by SCM_RIGHTS. The
sockets have neither a path nor an abstract name. The parent keeps both, so streams that were sent
while control was restarting wait for the next control, and a restarted process inherits the same
connector.
"""

import array
import os
import select
import socket
import struct
from contextlib import suppress
from typing import Final

from msgspec import Struct

_CREDENTIALS: Final = struct.Struct("iII")  # struct ucred: pid, uid, gid
_KNOCK: Final = b"link"


class ControlSockets(Struct, frozen=True):
    """Sockets of control's links, made by the parent. listener: for control. connector: for all
    other processes."""

    listener: socket.socket
    connector: socket.socket

    def close(self) -> None:
        """Close both ends here."""
        self.listener.close()
        self.connector.close()


def make() -> ControlSockets:
    """Make both ends; called before the first fork."""
    listener, connector = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.setblocking(False)
    return ControlSockets(listener, connector)


def connect(connector: socket.socket) -> socket.socket:
    """A stream to control, or to its successor while there is none. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        rights = array.array("i", [theirs.fileno()])
        connector.sendmsg(
            [_KNOCK],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)],
            socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL,
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours


def accept(listener: socket.socket) -> socket.socket | None:
    """The next stream that another process has sent; None when there is none now. Raises
    PermissionError for a stream of another user, OSError for a message without a stream; both leave
    the listener as it was. EOFError: no process can connect any more."""
    try:
        body, ancillary, _, _ = listener.recvmsg(
            len(_KNOCK), socket.CMSG_SPACE(4 * 8), socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
        )
    except BlockingIOError:
        return None
    found: list[int] = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found += array.array("i", data[: len(data) & ~3])
    if not body and not found:
        raise EOFError("every other process has closed the way to control")
    if body != _KNOCK or len(found) != 1:
        for fd in found:
            os.close(fd)
        raise OSError(f"{len(found)} descriptors came with a request for a link")
    return _checked(found[0])


def is_abandoned(stream: socket.socket) -> bool:
    """Whether the process at the other end has closed it, or has died: no process waits for an
    answer."""
    poll = select.poll()
    poll.register(stream, select.POLLRDHUP)
    return bool(poll.poll(0))


def _checked(fd: int) -> socket.socket:
    try:
        stream = socket.socket(fileno=fd)
    except OSError:
        with suppress(OSError):
            os.close(fd)
        raise
    try:
        if stream.family != socket.AF_UNIX or stream.type != socket.SOCK_STREAM:
            raise OSError(f"a link that is no Unix stream: {stream.family.name} {stream.type}")
        pid, uid, _ = _CREDENTIALS.unpack(
            stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid != os.geteuid():
            raise PermissionError(f"process {pid} of user {uid} asks for a link")
    except OSError:
        stream.close()
        raise
    return stream
