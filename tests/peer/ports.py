"""Free TCP ports for programs that tests start.

A port that the system hands out (port 0) is free only until another program asks: an outgoing
connection may take it before the started program listens. These ports lie below the range of
outgoing connections, and a claim keeps other processes of the tests from choosing the same.
"""

import errno
import random
import socket
from collections import deque
from contextlib import ExitStack

PORTS = range(12_000, 32_000)
"""Below `net.ipv4.ip_local_port_range`, whose default begins at 32,768."""

KEPT = 512
"""Claims that a process holds: more than the ports that its programs use at one time."""

_claims: deque[socket.socket] = deque()
_choose = random.Random()


def free_port() -> int:
    """A TCP port without a listener, which no other process of the tests chooses meanwhile."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of some neighbouring free ports."""
    while True:
        first = _choose.randrange(PORTS.start, PORTS.stop - count)
        with ExitStack() as held:
            claims = [_claim(first + number) for number in range(count)]
            for claim in claims:
                if claim is not None:
                    held.enter_context(claim)
            if None in claims or not all(_is_free(first + number) for number in range(count)):
                continue
            held.pop_all()
        _claims.extend(claim for claim in claims if claim is not None)
        while len(_claims) > KEPT:
            _claims.popleft().close()
        return first


def _claim(port: int) -> socket.socket | None:
    """An abstract Unix socket named after the port: the system drops it with its process. None if
    another process has it."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0port-of-tests-{port}")
    except OSError as error:
        claim.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return claim


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the programs do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
