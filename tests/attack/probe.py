"""Steady clients in processes of their own: how long each of their round trips took.

`python -m tests.attack.probe KIND PORT` begins with a line "ready" and ends with the next line of
its input.
"""

import http.client
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from tests.compat.raw import receive

TOPIC = "probe"
PAUSE_S = 0.003
Trip = Callable[[], None]


def asking(port: int, frame: bytes) -> Trip:
    """Sends a request and receives its answer, over one connection."""
    link = socket.create_connection(("127.0.0.1", port), timeout=60)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def trip() -> None:
        link.sendall(frame)
        size = receive(link, 4)
        assert size is not None, "the connection was closed"
        assert receive(link, struct.unpack(">i", size)[0]) is not None

    return trip


def produce(port: int) -> Trip:
    """A record for a topic: network process and IO worker."""
    batch = build_batch([(None, b"value", (), int(time.time() * 1000))])
    data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
    return asking(port, encode_request(ApiKey.PRODUCE, 8, 1, "probe", request))


def control(port: int) -> Trip:
    """A heartbeat of a group that does not exist: network process and control."""
    return asking(port, encode_request(ApiKey.HEARTBEAT, 3, 1, "probe", HeartbeatRequest("none", 0, "m")))


def probe(port: int) -> Trip:
    """A health probe: the http process."""

    def trip() -> None:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        link.request("GET", "/healthz")
        assert link.getresponse().read()
        link.close()

    return trip


KINDS: dict[str, Callable[[int], Trip]] = {"produce": produce, "control": control, "http": probe}


class Probe:
    """Round trips in seconds while the block runs. refused: trips without an answer."""

    def __init__(self, kind: str, port: int) -> None:
        self._command = [sys.executable, "-m", "tests.attack.probe", kind, str(port)]
        self.trips: list[float] = []
        self.refused = 0

    def __enter__(self) -> "Probe":
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.trips, self.refused = json.loads(self._process.communicate(b"stop\n", timeout=120)[0])


def _main(kind: str, port: int) -> None:
    trip = KINDS[kind](port)
    for _ in range(20):
        trip()
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    print("ready", flush=True)
    trips, refused = [], 0
    while not stop.is_set():
        began = time.monotonic()
        try:
            trip()
        except http.client.RemoteDisconnected:
            refused += 1
        else:
            trips.append(time.monotonic() - began)
        time.sleep(PAUSE_S)
    print(json.dumps((trips, refused)))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
