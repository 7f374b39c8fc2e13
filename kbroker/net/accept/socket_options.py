"""Options of an accepted socket: Kafka's for clients on other hosts, faster ones for those on this
host.

A loopback connection has no line to share and no delay: pacing (BBR) and windows of 100 KiB only
cost processor time, three times as much for a received gigabyte
(docs/adr/0010-sockets-of-local-clients.md).
"""

import socket
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_network import is_loopback

SEND, RECEIVE = "socket.send.buffer.bytes", "socket.receive.buffer.bytes"
LIMITS = {SEND: Path("/proc/sys/net/core/wmem_max"), RECEIVE: Path("/proc/sys/net/core/rmem_max")}
OPTIONS = {SEND: socket.SO_SNDBUF, RECEIVE: socket.SO_RCVBUF}
KAFKAS_DEFAULT = 102400  # also in Kafka's own server.properties
SYSTEM = -1  # leave the buffer to the operating system


class SocketOptions:
    """The socket options that the settings give. Runs in: acceptor. Immutable.

    A buffer setting that differs from Kafka's default holds for every client.
    """

    def __init__(self, config: BrokerConfig, limits: dict[str, Path] = LIMITS) -> None:
        self.congestion_control = config.get_str("kbroker.local.congestion.control").encode()
        buffer_bytes = config.get_int("kbroker.local.socket.buffer.bytes")
        self.remote = {name: config.get_int(name) for name in OPTIONS}
        self.local = {
            name: _possible(buffer_bytes, limits[name]) if size == KAFKAS_DEFAULT else size
            for name, size in self.remote.items()
        }

    def prepare_listening(self, listening: socket.socket) -> bool:
        """Set all options on a listening socket whose clients are all on this host: accepted
        sockets inherit them, which saves 50 us of system calls a connection. False: clients may be
        on other hosts."""
        host = str(listening.getsockname()[0])
        if not is_loopback(host):
            return False
        self.prepare(listening, host)
        return True

    def prepare(self, client: socket.socket, host: str) -> None:
        """Set everything on a socket just accepted. host: address of the peer."""
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        local = is_local(client, host)
        for name, size in (self.local if local else self.remote).items():
            if size != SYSTEM:
                client.setsockopt(socket.SOL_SOCKET, OPTIONS[name], size)
        if local and self.congestion_control:
            try:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.congestion_control)
            except OSError:  # unknown to this kernel, or not allowed to this user
                self.congestion_control = b""


def is_local(client: socket.socket, host: str) -> bool:
    """Whether the peer is on this host: its address is the one that it connected to, or
    loopback."""
    return is_loopback(host) or host == str(client.getsockname()[0]).removeprefix("::ffff:")


def _possible(size: int, limit: Path) -> int:
    """Set a buffer's size. If the kernel would reduce it, leave the buffer to the kernel's own
    tuning."""
    try:
        return size if size <= int(limit.read_text()) else SYSTEM
    except (OSError, ValueError):
        return SYSTEM
