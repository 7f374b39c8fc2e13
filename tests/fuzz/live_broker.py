"""A running broker under bad input: connections, memory and processes."""

import random
import socket
import struct

from tests.fuzz.any_request import SERVED
from tests.peer.kbroker_node import KBroker

GROWTH_BYTES = 400 << 20  # that a campaign may add to the memory of all processes
CRASH = "Traceback (most recent call last)"


def connect(broker: KBroker) -> socket.socket:
    host, port = broker.bootstrap.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=30)


def no_kafka(rng: random.Random) -> bytes:
    """Bytes of other protocols, or of none; headers of APIs and versions that there are not."""
    any_key = rng.choice((rng.randint(-5, 120), rng.choice(SERVED)[0], 18))
    any_version = rng.choice((-1, -(1 << 15), (1 << 15) - 1, rng.randint(-(1 << 15), 20), rng.randint(0, 20)))
    return rng.choice(
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            bytes.fromhex("16030100c8010000c40303") + rng.randbytes(189),
            rng.randbytes(rng.randint(1, 5000)),
            struct.pack(">i", rng.choice((-1, -(1 << 31), (1 << 31) - 1, 100 << 20, 0, 3)))
            + rng.randbytes(50),
            struct.pack(">ihhih", 300, any_key, any_version, 1, 4) + rng.randbytes(290),
        )
    )


def memory(broker: KBroker) -> int:
    """PSS of all its processes, in bytes."""
    return sum(process.memory_full_info().pss for process in broker.processes())


def pids(broker: KBroker) -> set[int]:
    """Of all its processes. A young one has no title of its own yet."""
    return {process.pid for process in broker.processes()}
