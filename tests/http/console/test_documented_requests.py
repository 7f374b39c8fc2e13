"""Requests that the OpenAPI document allows, and others, to a running broker: each answer has a
status and a content that the document names, and none is a failure of the console."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kbroker.http.console.openapi import document
from tests.conftest import _run
from tests.http.console.documented import JSON, Operation, Received, Sent, ask, faults, operations, requests
from tests.http.console.report_samples import write_reports
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat

DOCUMENT = document()
OPERATIONS = operations(DOCUMENT)
EXAMPLES = 30
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACL = {"resource": "topic", "name": "orders", "principal": "User:anna", "operation": "read"}
USER = {"name": "anna", "password": "secret", "iterations": 4096}
GOOD: dict[str, dict[str, Any]] = {
    "POST /api/topics": {"name": "made", "partitions": 2, "settings": {"retention.ms": "1000"}},
    "POST /api/topics/{topic}/partitions": {"partitions": 4},
    "POST /api/topics/{topic}/settings": {"settings": {"retention.ms": "1000", "segment.bytes": None}},
    "POST /api/topics/{topic}/delete": {"confirm": "deleted"},
    "POST /api/groups/{group}/reset": {"to": "earliest", "preview": False},
    "POST /api/groups/{group}/delete": {"confirm": "deleted"},
    "POST /api/quotas": {"entity": {"user": "anna"}, "values": {"producer_byte_rate": 1e6}},
    "POST /api/users": USER,
    "POST /api/users/{user}/delete": {"confirm": "deleted"},
    "POST /api/acls": ACL,
    "POST /api/acls/delete": ACL,
    "POST /api/settings": {"settings": {"log.retention.ms": "86400000"}},
    "POST /api/logout": {},
}
"""A body of each change that succeeds."""
CHANGED = {
    "POST /api/topics/{topic}/partitions": "changed",
    "POST /api/topics/{topic}/settings": "changed",
    "POST /api/topics/{topic}/delete": "deleted",
    "POST /api/groups/{group}/delete": "deleted",
    "POST /api/users/{user}/delete": "deleted",
}
"""Names in the paths of changes that only these use."""
READ = {
    "topic": "orders",
    "group": "billing",
    "user": "anna",
    "report": quote("load/run-1/verdict.json", safe=""),
}
NO_LOGIN = "POST /api/login"
"""On loopback there is none."""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The console of a broker with topics, groups, a transaction, a user and reports."""
    folder = tmp_path_factory.mktemp("documented")
    write_reports(folder / "reports")
    reports = {"kbroker.console.reports.dir": str(folder / "reports"), "kbroker.console.readonly": "false"}
    node = KBroker(folder, AUTHORIZER | reports)
    running = _run(node)
    next(running)
    client = {"bootstrap.servers": node.bootstrap}
    topics = [NewTopic("orders", 3, 1), *(NewTopic(name, 1, 1) for name in ("single", "changed", "deleted"))]
    admin = AdminClient(client)  # one that is gone answers nothing
    for future in admin.create_topics(topics).values():
        future.result(120)
    producer = Producer(client | {"transactional.id": "payments"})
    producer.init_transactions(120)
    producer.begin_transaction()
    for number in range(90):
        producer.produce("orders", b"\xff%d" % number, f"key-{number}", number % 3, headers={"n": b"\0"})
    assert producer.flush(120) == 0
    producer.commit_transaction(60)
    for group in ("billing", "deleted"):
        consumer = Consumer(client | {"group.id": group})
        consumer.commit(offsets=[TopicPartition("orders", 1, 5)], asynchronous=False)
        consumer.close()
    found = Service(node)
    assert found.change("/api/users", **(USER | {"name": "deleted"}))[0] == 200
    yield found
    next(running, None)


@pytest.fixture(scope="module")
def headers(console: Service) -> dict[str, str]:
    """Of each change."""
    token = console.get("/api/session")["csrf"]
    return {"Origin": f"http://{console.address}", "X-CSRF-Token": token}


def answer(console: Service, operation: Operation, sent: Sent) -> Received:
    """On a busy machine the tuner's checks or the broker may need longer than a request may wait:
    that is a documented 503, and one that lasts is a failure."""
    for _ in range(2):
        received = ask(console.address, operation.method, sent)
        if received.status != 503 or operation.row["tags"] == ["streams"]:
            return received
    return ask(console.address, operation.method, sent)


def test_the_document_is_served(console: Service) -> None:
    assert console.get("/api/openapi.json") == json.loads(json.dumps(DOCUMENT))
    assert {str(each) for each in OPERATIONS if each.method == "POST"} == {*GOOD, NO_LOGIN}


def test_each_operation_succeeds_as_it_is_documented(console: Service, headers: dict[str, str]) -> None:
    """Also that of a refused login, which is documented in the same way."""
    for operation in OPERATIONS:
        body = GOOD.get(str(operation), {"user": "anna", "password": "secret"})
        changed = CHANGED.get(str(operation))
        names = READ if changed is None else dict.fromkeys(READ, changed)
        target = operation.path.format(**names)
        sent = Sent(target)
        if operation.body is not None:
            sent = Sent(target, json.dumps(body).encode(), {**headers, "Content-Type": JSON})
        received = answer(console, operation, sent)
        assert faults(DOCUMENT, operation, sent, received) == [], f"{operation}: {received}"
        assert received.status == (400 if str(operation) == NO_LOGIN else 200), f"{operation}: {received}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_any_answer_is_documented(
    console: Service, headers: dict[str, str], operation: Operation, data: st.DataObject
) -> None:
    """The broker is calm, so that it answers each request that it is sent."""
    sent = data.draw(requests(operation, headers))
    received = answer(console, operation, sent)
    assert faults(DOCUMENT, operation, sent, received) == [], received
    is_full = received.status == 503 and operation.row["tags"] == ["streams"]
    assert received.status < 500 or is_full, received
