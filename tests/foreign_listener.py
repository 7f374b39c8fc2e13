"""A port of this host at which another user listens, as one who waits for the broker's
passwords."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

UID = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as another user")


@contextmanager
def as_uid(uid: int) -> Iterator[None]:
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def listening(host: str = "127.0.0.1", uid: int = UID) -> Iterator[tuple[int, Callable[[], bytes]]]:
    """A port, and a function that returns the bytes that the first connection has sent to it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with as_uid(uid):
        listener = socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")
    with listener:

        def received() -> bytes:
            with as_uid(uid):
                connection = listener.accept()[0]
            connection.settimeout(5)
            with connection, suppress(TimeoutError):
                return connection.recv(4096)
            return b""

        yield listener.getsockname()[1], received
