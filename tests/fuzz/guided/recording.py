"""Conversations of real clients as inputs: `python -m tests.fuzz.guided.recording FOLDER` runs a
broker and clients on it, and writes their frames to FOLDER, one corpus file for each target.
`python -m tests.fuzz.guided --also FOLDER --store` then keeps those that add coverage.
"""

import random
import socket
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import kafka

from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import parse_request
from kbroker.protocol.messages.produce import ProduceRequest
from tests.compat.clients.python_clients import AioKafka, Confluent, KafkaPython
from tests.compat.clients.record import Record
from tests.fuzz.guided import corpus, parts
from tests.fuzz.guided.corpus import Input
from tests.fuzz.guided.targets.requests import HEAD
from tests.net.requests import PRODUCE
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port
from tests.peer.side_work import in_time

MAX_FRAME_BYTES = 2000
FRAMES_TOGETHER = 6
"""Of a connection in one input."""
RECORDS = [
    Record(b"key %d" % n, b"value " * n, (("name", b"content"),), 1_700_000_000_000 + n) for n in range(5)
]
MODULE = "org.apache.kafka.common.security"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE}.plain.PlainLoginModule required user_a="a";',
    "group.initial.rebalance.delay.ms": "0",
}


class Proxy:
    """Passes bytes on, and keeps them. sent, received: of each connection, from the client's
    side."""

    def __init__(self) -> None:
        self.upstream = ("", 0)
        self.streams: list[tuple[bytearray, bytearray]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            broker = socket.create_connection(self.upstream)
            stream = bytearray(), bytearray()
            self.streams.append(stream)
            for source, sink, kept in ((client, broker, stream[0]), (broker, client, stream[1])):
                threading.Thread(target=self._copy, args=(source, sink, kept), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                kept += data
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def frames(stream: bytearray) -> list[bytes]:
    """The whole frames of a stream, without their sizes."""
    found, at = [], 0
    while at + 4 <= len(stream):
        size = int.from_bytes(stream[at : at + 4], "big")
        found.append(bytes(stream[at + 4 : at + 4 + size]))
        at += 4 + size
    return [frame for frame in found if len(frame) >= 8]


def inputs(streams: list[tuple[bytearray, bytearray]]) -> dict[str, set[bytes]]:
    """Inputs of connections, by target."""
    found: dict[str, set[bytes]] = defaultdict(set)
    for sent, received in streams:
        asked = frames(sent)
        sized = [len(one).to_bytes(4, "big") + one for one in asked if len(one) <= MAX_FRAME_BYTES]
        for start in range(0, len(sized), FRAMES_TOGETHER):
            found["connections"].add(parts.join(sized[start : start + FRAMES_TOGETHER]))
        found["logins"].add(parts.join(asked[:4]))
        known = {one[4:8]: one[:4] for one in asked}
        found["requests"].update(one for one in asked if len(one) <= MAX_FRAME_BYTES)
        for answer in frames(received):
            if answer[:4] in known and len(answer) <= MAX_FRAME_BYTES:
                found["answers"].add(known[answer[:4]] + answer)
        for one in asked:
            if HEAD.unpack_from(one)[0] == PRODUCE:
                found["batches"].update(b"\0" + batch for batch in _batches(one))
    return found


def _batches(frame: bytes) -> list[bytes]:
    header, start = parse_request(frame)
    request = decode_exact(ProduceRequest, header.api_version, frame, start)
    return [
        bytes(partition.records or b"")
        for topic in request.topic_data
        for partition in topic.partition_data
        if len(partition.records or b"") <= MAX_FRAME_BYTES
    ]


def _conversations(bootstrap: str) -> list[Callable[[], object]]:
    steps: list[Callable[[], object]] = []
    for client in (Confluent, KafkaPython, AioKafka):
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            topic = f"{client.__name__}-{codec}"
            steps.append(lambda c=client, t=topic, k=codec: c.write(bootstrap, t, k, RECORDS))  # type: ignore[misc]
            steps.append(lambda c=client, t=topic: c.read(bootstrap, t, len(RECORDS)))  # type: ignore[misc]
    return [*steps, lambda: _transaction(bootstrap), lambda: _groups(bootstrap), lambda: _admin(bootstrap)]


def _transaction(bootstrap: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("Confluent-none", b"in a transaction")
        end(30)


def _groups(bootstrap: str) -> None:
    for protocol in ("classic", "consumer"):
        settings = {"bootstrap.servers": bootstrap, "group.id": protocol, "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**settings, "group.protocol": protocol})
        consumer.subscribe(["Confluent-none"])
        consumer.consume(5, 15)
        consumer.commit(asynchronous=False)
        consumer.close()
    reader = kafka.KafkaConsumer("Confluent-gzip", bootstrap_servers=bootstrap, group_id="k")
    reader.poll(5000)
    in_time(reader.close)


def _admin(bootstrap: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([confluent_kafka.admin.NewTopic("new", 2, config={"retention.ms": "1000"})])
    for done in created.values():
        done.result(30)
    resource = confluent_kafka.admin.ConfigResource(confluent_kafka.admin.ResourceType.TOPIC, "new")
    for described in admin.describe_configs([resource]).values():
        described.result(30)
    admin.list_groups(10)
    admin.list_consumer_groups().result(30)
    for done in admin.delete_topics(["new"]).values():
        done.result(30)


def _logins(bootstrap: str) -> None:
    for mechanism, password in (("PLAIN", "a"), ("PLAIN", "wrong"), ("SCRAM-SHA-256", "a")):
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        named = {"bootstrap.servers": bootstrap, "sasl.username": "a", "sasl.password": password}
        with suppress(confluent_kafka.KafkaException):
            confluent_kafka.admin.AdminClient({**settings, **named}).list_topics(timeout=5)


def record(folder: Path) -> dict[str, set[bytes]]:
    """Runs the clients; the inputs by target."""
    plain, secured = Proxy(), Proxy()
    for proxy in (plain, secured):
        proxy.upstream = "127.0.0.1", free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain.upstream[1]},SASL_PLAINTEXT://127.0.0.1:{secured.upstream[1]}"
    advertised = f"PLAINTEXT://127.0.0.1:{plain.port},SASL_PLAINTEXT://127.0.0.1:{secured.port}"
    node = KBroker(folder, {**SETTINGS, "listeners": listeners, "advertised.listeners": advertised})
    try:
        node.start()
        for step in _conversations(f"127.0.0.1:{plain.port}"):
            try:
                step()
            except Exception as error:  # a client that fails has sent something, too
                print(f"a conversation ended early: {error!r}", flush=True)
        _logins(f"127.0.0.1:{secured.port}")
    finally:
        node.stop()
    return inputs(plain.streams + secured.streams)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        found = record(Path(place))
    for target, some in sorted(found.items()):
        chosen = sorted(some)
        random.Random(1).shuffle(chosen)
        corpus.write(target, [Input(data) for data in chosen], folder)
        print(f"{target}: {len(chosen)} inputs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
