"""An acceptor with network processes that the test plays."""

import select
import socket

from kbroker.config.broker import BrokerConfig
from kbroker.ipc import fds
from kbroker.net.accept.acceptor import Acceptor


class Scene:
    """An acceptor with two network processes that the test plays."""

    def __init__(self, settings: dict[str, str], descriptors: int | None = None) -> None:
        self.now = 0.0
        pairs = [fds.pair(), fds.pair()]
        self.processes = [theirs for _, theirs in pairs]
        self.ours = [ours for ours, _ in pairs]
        config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **settings})
        self.acceptor = Acceptor(config, self.ours, lambda: self.now, descriptors=descriptors)
        self.ports = self.acceptor.bind()
        self.clients: list[socket.socket] = []

    def connect(self, listener: str = "PLAINTEXT") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=60)
        self.clients.append(client)
        return client

    def turn(self) -> None:
        """What the supervisor's loop does."""
        readable = select.poll()
        for fd in self.acceptor.fds():
            readable.register(fd, select.POLLIN)
        for fd, _ in readable.poll(200):
            self.acceptor.on_readable(fd)

    def received(self) -> list[tuple[int, fds.Accepted, int]]:
        found = []
        for number, process in enumerate(self.processes):
            while got := fds.receive_connections(process):
                found += [(number, *each) for each in got]
        return found

    def close(self) -> None:
        self.acceptor.close()
        for each in (*self.clients, *self.processes, *self.ours):
            each.close()
