"""Clients that use up the descriptors of the network process: those beyond wait in the backlog,
those before are served, and no log dir suffers."""

import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from kbroker.net.accept.descriptors import MIN_FILES_OPEN, OWN, TLS_CONNECTION
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import Struct
from tests.attack.processes import family, until
from tests.attack.storm import REQUEST
from tests.compat.raw import receive
from tests.http.tls_store import put, trusting
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port

pytestmark = pytest.mark.slow

LIMIT = 700
TOPIC, PARTITIONS = "old", 2 * MIN_FILES_OPEN
"""Each partition that is read has two files: together four times as many as are left to files."""
QUIET_S = 3.0
"""An answer that has not come by then waits for something else than a busy host."""
LIMITED = """
import os, resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
os.execv(sys.argv[2], sys.argv[2:])
"""


class LimitedBroker(KBroker):
    """A broker with a low hard limit of descriptors."""

    def _command(self) -> list[str]:
        return [sys.executable, "-c", LIMITED, str(LIMIT), *super()._command()]


class Client:
    """One connection that stays."""

    def __init__(self, port: int) -> None:
        self.link = socket.create_connection(("127.0.0.1", port), timeout=60)

    def ask(self, api: ApiKey, version: int, request: Struct) -> Any:
        self.link.sendall(encode_request(api, version, 7, "steady", request))
        size = receive(self.link, 4)
        assert size is not None, "the connection was closed"
        frame = receive(self.link, struct.unpack(">i", size)[0])
        assert frame is not None
        _, start = parse_response(frame, api, version)
        return decode_exact(response_class(api), version, frame, start)

    def produce(self) -> list[int]:
        """A record for each partition; the errors."""
        data = [
            PartitionProduceData(number, build_batch([(None, b"value", (), 1)]))
            for number in range(PARTITIONS)
        ]
        request = ProduceRequest(
            acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(TOPIC, partition_data=data)]
        )
        answer = self.ask(ApiKey.PRODUCE, 8, request)
        return [part.error_code for part in answer.responses[0].partition_responses]

    def fetch(self) -> list[tuple[int, bool]]:
        """The error of each partition, and whether it has records: each read one by one."""
        found = []
        for number in range(PARTITIONS):
            part = FetchPartition(number, fetch_offset=0, partition_max_bytes=1 << 20)
            request = FetchRequest(
                max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[FetchTopic(TOPIC, partitions=[part])]
            )
            (one,) = self.ask(ApiKey.FETCH, 11, request).responses[0].partitions
            found.append((one.error_code, bool(one.records)))
        return found

    def offline(self) -> list[int]:
        """Errors of the log dirs."""
        answer = self.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
        return [each.error_code for each in answer.results]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LimitedBroker]:
    plain, tls = free_port(), free_port()
    node = LimitedBroker(tmp_path, {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls}",
        "security.inter.broker.protocol": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(put(tmp_path / "broker.pem")),
        "num.network.threads": "1",
    })  # fmt: skip
    node.start()
    yield node
    node.stop()
    logged = node.logs(10_000_000)
    for text in ("Traceback", "goes offline", "is lost", "Too many open files"):
        assert text not in logged, logged[-6000:]


def ports(broker: KBroker) -> tuple[int, int]:
    plain, tls = (int(each.rpartition(":")[2]) for each in broker.settings["listeners"].split(","))
    return plain, tls


def answered(link: socket.socket, seconds: float) -> bool:
    """Whether a client has an answer within this time. Raises AssertionError when it is closed."""
    link.settimeout(seconds)
    try:
        got = link.recv(4)
    except TimeoutError:
        return False
    assert got, "the connection was closed"
    return True


def test_clients_beyond_the_descriptors_wait_and_others_are_served(broker: LimitedBroker) -> None:
    port, _ = ports(broker)
    with ExitStack() as stack:
        client = Client(port)
        stack.enter_context(client.link)
        topics = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, -1)], 30_000)
        assert client.ask(ApiKey.CREATE_TOPICS, 7, topics).topics[0].error_code == 0
        assert client.produce() == [0] * PARTITIONS
        assert client.fetch() == [(0, True)] * PARTITIONS
        network = psutil.Process(family(broker)["network 0"].pid)
        assert network.num_fds() > 2 * MIN_FILES_OPEN, "few files are open: nothing is shown"
        held: list[socket.socket] = []
        while True:
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            link.sendall(REQUEST)
            if not answered(link, QUIET_S):
                break
            held.append(link)
        assert LIMIT - 2 * OWN - MIN_FILES_OPEN < len(held) < LIMIT
        for _ in range(2):
            assert client.fetch() == [(0, True)] * PARTITIONS
            assert client.produce() == [0] * PARTITIONS
        assert client.offline() == [0]
        assert network.num_fds() < LIMIT
        until(lambda: "raise LimitNOFILE" in broker.logs())
        assert not answered(link, 0.1)
        held.pop().close()
        assert answered(link, 60)
        late = Client(port)
        stack.enter_context(late.link)
        held.pop().close()
        assert late.offline() == [0]


def test_tls_clients_are_counted_by_the_descriptors_that_they_take(broker: LimitedBroker) -> None:
    """Half of them never begin their handshake, in which a connection takes most."""
    plain, tls = ports(broker)
    with ExitStack() as stack:
        client = Client(plain)
        stack.enter_context(client.link)
        assert client.offline() == [0]
        network = psutil.Process(family(broker)["network 0"].pid)
        before, count = network.num_fds(), 20
        context = trusting(Path(broker.settings["ssl.keystore.location"]))
        most = LIMIT // TLS_CONNECTION
        for number in range(most):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", tls), timeout=60))
            if number == count - 1:
                client.offline()
                assert network.num_fds() - before <= count * TLS_CONNECTION
        assert client.offline() == [0]
        assert network.num_fds() < LIMIT
        until(lambda: "raise LimitNOFILE" in broker.logs())
    with ExitStack() as stack:  # the others have gone
        for _ in range(count):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", tls), timeout=60))
            secure = stack.enter_context(context.wrap_socket(link, server_hostname="localhost"))
            secure.sendall(REQUEST)
            assert answered(secure, 60)
        until(lambda: count < network.num_fds() - before <= count * TLS_CONNECTION)
