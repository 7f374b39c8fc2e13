"""HTTP connections of commands that send a password, without TLS, to a port of this host.

While the broker is down, any user of the host can listen on its port. So the password is sent only
if the other end belongs to root, to the user of the command, or to the broker's user. The kernel
shows whose sockets are in use (/proc/net/tcp)."""

import http.client
import ipaddress
import os
import pwd
import socket
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

OWNER: Final = "KBROKER_HTTP_OWNER"
"""A variable: the user that the broker runs as, by name or number."""
BROKER_USER: Final = "kbroker"
"""The broker's user without that variable: that of the unit of `kbroker systemd`."""
TABLES: Final = tuple(Path("/proc/net") / name for name in ("tcp", "tcp6"))
LISTENS: Final = "0A"
USE_TLS: Final = "kbroker.http.ssl.listener and https do not need this"
Address = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]
NO_HTTP = (http.client.BadStatusLine, http.client.UnknownProtocol)
"""Errors whose texts are the first line of another program, with any bytes."""


class NotTheBroker(Exception):
    """A program of another user listens where the broker is expected."""


class OwnedConnection(http.client.HTTPConnection):
    """A connection that carries a password. owners: further users to trust."""

    def __init__(self, *arguments: Any, owners: Collection[int] = (), **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._owners = owners

    def connect(self) -> None:
        """Raises NotTheBroker, before a byte is sent."""
        super().connect()
        check_owner(self.sock, self._owners)


class SocketRow(Struct, frozen=True):
    """A line of /proc/net/tcp. inode: 0 if no program has the socket yet."""

    local: Address
    remote: Address
    state: str
    uid: int
    inode: int


def check_owner(connection: socket.socket, owners: Collection[int] = ()) -> None:
    """Refuse a connection within this host whose other end belongs to a user who is not trusted.
    Raises NotTheBroker."""
    peer, own = _address(connection.getpeername()), _address(connection.getsockname())
    if not (peer[0].is_loopback or peer[0] == own[0]):
        return
    where = f"{peer[0]} port {peer[1]}"
    found = _uids(peer, own)
    if not found:
        raise NotTheBroker(f"no program is known to listen at {where}: the password is not sent; {USE_TLS}")
    if others := found - {0, os.geteuid(), *owners, *_broker_uid()}:
        raise NotTheBroker(
            f"user {_name(min(others))} listens at {where}: the password is not sent; "
            f"if the broker runs as this user, set {OWNER}; {USE_TLS}"
        )


def _uids(peer: Address, own: Address) -> set[int]:
    """Users of the connection's other end; before a program accepts it, of the sockets that listen
    there."""
    listening: set[int] = set()
    for row in _rows(peer[1]):
        if (row.local, row.remote) == (peer, own):
            if row.inode:
                return {row.uid}
        elif row.state == LISTENS and (row.local[0] == peer[0] or row.local[0].is_unspecified):
            listening.add(row.uid)
    return listening


def _rows(port: int) -> Iterator[SocketRow]:
    """Sockets with a local port."""
    end = f":{port:04X}"
    for table in TABLES:
        with suppress(FileNotFoundError), table.open() as lines:  # without IPv6 there is no tcp6
            for line in lines:
                words = line.split(maxsplit=10)
                if words[1].endswith(end):
                    places = _place(words[1]), _place(words[2])
                    yield SocketRow(*places, words[3], int(words[7]), int(words[9]))


def _place(text: str) -> Address:
    """An address as the kernel prints it: words of the host's own byte order."""
    address, _, port = text.partition(":")
    words = (int(address[at : at + 8], 16) for at in range(0, len(address), 8))
    found = ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words))
    return getattr(found, "ipv4_mapped", None) or found, int(port, 16)


def _address(name: Any) -> Address:
    found = ipaddress.ip_address(str(name[0]).partition("%")[0])
    return getattr(found, "ipv4_mapped", None) or found, int(name[1])


def _broker_uid() -> set[int]:
    """Raises NotTheBroker if the variable names no user."""
    name = os.environ.get(OWNER, "")
    if name.isdecimal():
        return {int(name)}
    try:
        return {pwd.getpwnam(name or BROKER_USER).pw_uid}
    except KeyError:
        if name:
            raise NotTheBroker(f"{OWNER}={name}: this host has no such user") from None
    return set()


def _name(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)
