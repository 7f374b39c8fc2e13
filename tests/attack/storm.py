"""A storm of connections: many at once from a process of its own, each asks for ApiVersions and
waits for the answer.

Run as a program: `python -m tests.attack.storm PORT COUNT SECONDS` prints what became of them as
JSON.
"""

import errno
import json
import resource
import select
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

REQUEST = struct.pack(">ihhih5s", 15, 18, 0, 1, 5, b"storm")
PER_PROCESS = 8000  # below every usual limit of descriptors


@dataclass
class Outcome:
    """How many were answered, closed or refused by the broker, or still waited at the end. causes:
    of those that were closed, each with its count."""

    answered: int = 0
    closed: int = 0
    waiting: int = 0
    seconds: float = 0.0
    causes: dict[str, int] = field(default_factory=dict)


def storm(port: int, count: int, seconds: float) -> Outcome:
    """Open `count` connections from as many processes as descriptors ask for; wait for them all."""
    parts = [min(PER_PROCESS, count - first) for first in range(0, count, PER_PROCESS)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.attack.storm", str(port), str(part), str(seconds)],
            stdout=subprocess.PIPE,
        )
        for part in parts
    ]
    found = [Outcome(**json.loads(process.communicate()[0])) for process in running]
    return Outcome(
        answered=sum(part.answered for part in found),
        closed=sum(part.closed for part in found),
        waiting=sum(part.waiting for part in found),
        seconds=max(part.seconds for part in found),
        causes=dict(sum((Counter(part.causes) for part in found), Counter())),
    )


def rest_after(
    port: int, seconds: float, pause_s: float = 0.002, stop: Callable[[], bool] = lambda: False
) -> list[float]:
    """Round trips in seconds of one steady client, for so long, or until the stop."""
    trips = []
    with socket.create_connection(("127.0.0.1", port), timeout=120) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.monotonic() + seconds
        while time.monotonic() < end and not stop():
            began = time.monotonic()
            link.sendall(REQUEST)
            (size,) = struct.unpack(">i", link.recv(4, socket.MSG_WAITALL))
            assert len(link.recv(size, socket.MSG_WAITALL)) == size
            trips.append(time.monotonic() - began)
            time.sleep(pause_s)
    return trips


def _attack(port: int, count: int, seconds: float) -> Outcome:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    began = time.monotonic()
    outcome = Outcome(waiting=count)
    causes: Counter[str] = Counter()
    poll = select.epoll()
    links: dict[int, socket.socket] = {}
    for number in range(count):
        link = socket.socket()
        link.setblocking(False)
        # an address of its own for every 4,000: no address runs out of ports
        link.bind((f"127.0.{1 + number // 4000}.1", 0))
        code = link.connect_ex(("127.0.0.1", port))
        if code not in (0, errno.EINPROGRESS):
            outcome.closed += 1
            outcome.waiting -= 1
            causes[f"connect: {errno.errorcode[code]}"] += 1
            continue
        links[link.fileno()] = link
        poll.register(link.fileno(), select.EPOLLOUT)
    while outcome.waiting and time.monotonic() - began < seconds:
        for fd, mask in poll.poll(0.1):
            doing = "recv"
            try:
                if not mask & select.EPOLLIN and mask & select.EPOLLOUT:
                    doing = "send"
                    links[fd].send(REQUEST)
                    poll.modify(fd, select.EPOLLIN)
                    continue
                cause = "" if links[fd].recv(4096) else "end of the stream"
            except OSError as error:
                cause = f"{doing}: {errno.errorcode[error.errno or 0]}"
            poll.unregister(fd)
            outcome.waiting -= 1
            if cause:
                outcome.closed += 1
                causes[cause] += 1
            else:
                outcome.answered += 1
    outcome.causes = dict(causes)
    outcome.seconds = time.monotonic() - began
    return outcome


if __name__ == "__main__":
    print(json.dumps(asdict(_attack(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))))
