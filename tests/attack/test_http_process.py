"""The http process beside clients that keep it busy: slow and pipelined requests, schemas that take
long."""

import base64
import json
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from kbroker.http.connection import BODY_S
from kbroker.http.connection_slots import AT_WORK_S, CONNECTIONS
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.compression import Codec
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from tests.attack.peers import target
from tests.attack.processes import until
from tests.callbacks import slowness
from tests.compat.registry_requests import LISTEN, ask, url_of
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROBE_S = 5.0
"""For an answer to a health probe, without time in which the broker had no processor."""
ANSWER_S = 30.0
"""For an answer to a hostile schema, likewise."""
GROWTH_MB = 500
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def mixed(count: int) -> list[Any]:
    return [f"a{number}" if number % 2 else number for number in range(count)]


def descriptor(fields: int, grouped: bool) -> str:
    file = FileDescriptorProto(name="schema.proto", syntax="proto3")
    message = file.message_type.add(name="M")
    for number in range(fields):
        kind = FieldDescriptorProto.TYPE_INT32
        field = message.field.add(name=f"f{number}", number=number + 20_000, type=kind, label=1)
        if grouped:
            message.oneof_decl.add(name=f"o{number}")
            field.oneof_index = number
    return base64.b64encode(file.SerializeToString()).decode()


def imports(*names: str) -> str:
    file = FileDescriptorProto(name="schema.proto", dependency=names, syntax="proto3")
    return base64.b64encode(file.SerializeToString()).decode()


def fields(count: int, kind: str = "long") -> str:
    return text(
        {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": kind} for n in range(count)]}
    )


def chain(last: str) -> str:
    links = {str(number): {"$ref": f"#/d/{number + 1}"} for number in range(10_000)}
    wide = {f"k{number}": 0 for number in range(50_000)}
    return text({"$ref": "#/d/0", "d": {**links, "10000": {"type": last}}, **wide})


def repeated(last: str) -> str:
    large = {"enum": [f"a{number}" for number in range(30_000)] + [last]}
    properties = {f"p{number}": {"$ref": "#/d/large"} for number in range(5000)}
    return text({"properties": properties, "d": {"large": large}})


def nested(last: str, depth: int = 350) -> str:
    return '{"type":"array","items":' * depth + f'"{last}"' + "}" * depth


BOMBS: dict[str, tuple[str, list[str]]] = {
    "many fields": ("AVRO", [fields(30_000)]),
    "many fields that are allowed": ("AVRO", [fields(5000), fields(5000, "string")]),
    "deep arrays": ("AVRO", [nested("int"), nested("string")]),
    "a huge union": ("AVRO", [text([{"type": "fixed", "size": 1, "name": f"a{n}"} for n in range(20_000)])]),
    "a recursive record": (
        "AVRO",
        [
            text(
                {
                    "type": "record",
                    "name": "R",
                    "fields": [{"name": f"f{n}", "type": ["null", "R"]} for n in range(count)],
                }
            )
            for count in (1000, 1001)
        ],
    ),
    "an enum of several types": ("JSON", [text({"$schema": DRAFT_4, "enum": mixed(100_000)})]),
    "types without an end": ("JSON", [text({"type": mixed(100_000)})]),
    "a chain of references": ("JSON", [chain("string"), chain("integer")]),
    "a large pair again and again": ("JSON", [repeated("a"), repeated("b")]),
    "a pattern": (
        "JSON",
        [text({"type": "object", "patternProperties": {"(a|a)*" * n + "$": {}}}) for n in (5000, 5001)],
    ),
    "many oneofs": ("PROTOBUF", [descriptor(7000, False), descriptor(7000, True)]),
    "one import again and again": ("PROTOBUF", [imports(*["google/protobuf/any.proto"] * 20_000)]),
    "a file of the host": ("PROTOBUF", [imports("/etc/passwd"), imports("a" * 5000)]),
    "deep messages": ("PROTOBUF", ['syntax="proto3";' + "message M{" * 5000 + "}" * 5000]),
}


@pytest.fixture
def broker(broker_factory: BrokerFactory) -> KBroker:
    return broker_factory(LISTEN)


def probe_url(broker: KBroker) -> str:
    found = re.findall(r"kbroker ready.*metrics=(\S+)", broker.log_file.read_text())
    return f"{found[-1].removesuffix('/metrics')}/healthz"


@contextmanager
def waiting(broker: KBroker, waits: list[float]) -> Iterator[None]:
    """Add the seconds of the block: no more than the CPU time of the broker's processes meanwhile,
    which a busy host does not lengthen."""
    began, used = time.monotonic(), broker.cpu_s()
    yield
    took, used = time.monotonic() - began, broker.cpu_s() - used
    waits.append(took if used < 0 else min(took, used))  # < 0: a process has ended


@contextmanager
def probed(broker: KBroker) -> Iterator[list[float]]:
    """How long health probes wait while the block runs, in seconds."""
    url, stop = probe_url(broker), threading.Event()
    waits: list[float] = []

    def run() -> None:
        while not stop.is_set():
            with waiting(broker, waits), urllib.request.urlopen(url, timeout=60) as answer:
                answer.read()
            stop.wait(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield waits
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("name", BOMBS)
def test_schemas_that_take_long_are_answered_and_probes_beside_them(broker: KBroker, name: str) -> None:
    kind, texts = BOMBS[name]
    url = url_of(broker)
    took: list[float] = []
    with probed(broker) as waits:
        for one in texts:
            with waiting(broker, took):
                status, answer = ask(f"{url}/subjects/s/versions", {"schema": one, "schemaType": kind})
            print(f"{name}: {status} in {took[-1]:.1f} s, {str(answer)[:100]}")
            assert status in (200, 409, 422), answer
            assert took[-1] < ANSWER_S * slowness()
    assert max(waits) < PROBE_S * slowness(), sorted(waits)[-5:]
    assert "Traceback" not in broker.logs(1 << 20)


def test_large_schemas_that_are_looked_up_leave_no_memory(broker: KBroker) -> None:
    """Each takes twenty times its bytes while it is known."""
    url = url_of(broker)
    assert ask(f"{url}/subjects/s/versions", {"schema": "{}", "schemaType": "JSON"})[0] == 200
    http = broker.children()["kbroker: http"]
    before = http.memory_info().rss
    for number in range(60):
        large = text({"const": [{}] * 300_000, "title": str(number)})
        assert ask(f"{url}/subjects/s", {"schema": large, "schemaType": "JSON"})[0] == 404
    grown = (http.memory_info().rss - before) >> 20
    print(f"{grown} MB more")
    assert grown < GROWTH_MB


def address(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def connected(url: str, first: bytes) -> list[socket.socket]:
    links = []
    for _ in range(CONNECTIONS):
        link = socket.create_connection(address(url), timeout=10)
        link.sendall(first)
        links.append(link)
    return links


def test_slow_bodies_do_not_exclude_others(broker: KBroker) -> None:
    url = url_of(broker)
    head = b"POST /subjects/s/versions HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n"
    links = connected(url, head + b"{" * 100_000)
    for _ in range(5):
        for link in links:
            with suppress(OSError):
                link.send(b" ")
        began = time.monotonic()
        assert ask(f"{url}/subjects")[0] == 200
        assert time.monotonic() - began < BODY_S / 2, "it waited for the slow bodies"
    for link in links:
        link.close()


def test_pipelined_requests_do_not_exclude_others(broker: KBroker) -> None:
    """They are answered one after the other, without a break, on every connection that there may
    be."""
    url = url_of(broker)
    request = b"GET /subjects HTTP/1.1\r\nHost: a\r\n\r\n"
    stop = threading.Event()
    links = connected(url, request * 50)

    def pipeline(link: socket.socket) -> None:
        link.settimeout(5)
        with suppress(OSError):
            while not stop.is_set() and link.recv(1 << 16):
                link.sendall(request * 50)

    threads = [threading.Thread(target=pipeline, args=(link,)) for link in links]
    for thread in threads:
        thread.start()
    try:
        with probed(broker) as waits:
            until(lambda: served(url), 12 * AT_WORK_S)
        assert max(waits) < PROBE_S * slowness(), sorted(waits)[-5:]
    finally:
        stop.set()
        for thread, link in zip(threads, links, strict=True):
            thread.join()
            link.close()


def served(url: str) -> bool:
    with suppress(OSError, urllib.error.URLError, json.JSONDecodeError):
        return ask(f"{url}/subjects")[0] == 200
    return False


def bomb(offset: int, records: int) -> bytes:
    """A batch of empty records."""
    return build_batch([(None, None, (), 0)] * records, base_offset=offset, codec=Codec.ZSTD)


def test_the_message_browser_reads_bombs_in_pieces(broker: KBroker) -> None:
    batches, records = 20, 200_000
    peer = target(broker)
    peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("bombs", 1, -1)], 30_000, False))
    data = bomb(0, records)
    for _ in range(batches):
        part = TopicProduceData("bombs", partition_data=[PartitionProduceData(0, data)])
        answer = peer.ask(ApiKey.PRODUCE, 8, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[part]))
        assert answer.responses[0].partition_responses[0].error_code == 0
    http = broker.children()["kbroker: http"]
    before = http.memory_info().rss
    url = probe_url(broker).removesuffix("/healthz")
    with probed(broker) as waits:
        for start in ("earliest", "latest"):
            status, page = ask(f"{url}/api/topics/bombs/messages?start={start}&limit=500")
            assert status == 200
            assert len(page["records"]) == 500
    assert (http.memory_info().rss - before) >> 20 < GROWTH_MB
    assert max(waits) < PROBE_S * slowness(), sorted(waits)[-5:]
