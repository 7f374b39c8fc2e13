"""Schemathesis reads the console's OpenAPI document in its own way, and sends a read-only console
what it makes of it: requests that the document allows, and wrong ones. Each answer is one that the
document names."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, settings

from kbroker.http.console.openapi import document
from tests.conftest import _run
from tests.http.console.report_samples import write_reports
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker

pytest_plugins = ("schemathesis.pytest.plugin",)
pytestmark = pytest.mark.compat

EXAMPLES = 20
NAMES = {"topic": "orders", "group": "billing", "report": "load/run-1/verdict.json"}
CHECKS = {"negative_data_rejection": {"expected-statuses": ["4xx"]}}
"""Too long a body has a status that its own list lacks, 413."""


def adapted() -> dict[str, Any]:
    """The document with names of what the console shows as examples, and without cursors, which
    only an answer knows."""
    found: dict[str, Any] = json.loads(json.dumps(document()))
    for operation in (row for rows in found["paths"].values() for row in rows.values()):
        given = operation.get("parameters", [])
        given[:] = [each for each in given if each["name"] != "cursor"]
        for parameter in given:
            if parameter["in"] == "path" and parameter["name"] in NAMES:
                parameter["example"] = NAMES[parameter["name"]]
    return found


CONFIG = schemathesis.Config.from_dict({"checks": CHECKS})
DOCUMENT = (
    schemathesis.openapi.from_dict(adapted(), config=CONFIG).exclude(tag="streams").exclude(path="/api/login")
)
"""Without streams, whose answers do not end, and the login, which a console on loopback lacks."""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The console of a broker with a topic, a group and reports."""
    folder = tmp_path_factory.mktemp("schemathesis")
    write_reports(folder / "reports")
    node = KBroker(folder, {"kbroker.console.reports.dir": str(folder / "reports")})
    running = _run(node)
    next(running)
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)  # one that is gone answers nothing
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(120)
    producer = Producer(client)
    for number in range(30):
        producer.produce("orders", b"\xff%d" % number, f"key-{number}", headers={"n": b"\0"})
    assert producer.flush(120) == 0
    consumer = Consumer(client | {"group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 1, 1)], asynchronous=False)
    consumer.close()
    yield Service(node)
    next(running, None)


@DOCUMENT.parametrize()
@settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_any_answer_is_documented(case: schemathesis.Case[Any], console: Service) -> None:
    case.call_and_validate(base_url=f"http://{console.address}")
