"""A broker whose console shows something, and a browser."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import _run
from tests.http.console.browser import Browser
from tests.http.console.page import SCRIPT, Page
from tests.http.console.report_samples import write_reports
from tests.peer.kbroker_node import KBroker
from tuning.coefficients import Coefficients


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    folder = tmp_path_factory.mktemp("page")
    write_reports(folder / "reports")
    Coefficients("a bench", loopback_rate=8e9).save(folder / "host.json")
    settings = {
        "kbroker.console.readonly": "false",
        "kbroker.console.reports.dir": str(folder / "reports"),
        "kbroker.host.file": str(folder / "host.json"),
    }
    node = KBroker(folder, settings)
    running = _run(node)
    next(running)
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)
    for future in admin.create_topics([NewTopic("orders", 2, 1)]).values():
        future.result(120)
    producer = Producer(client)
    for number in range(30):
        value = json.dumps({"number": number, "text": SCRIPT})
        producer.produce("orders", value, key=f"key-{number}", headers={SCRIPT: SCRIPT})
    producer.flush(30)
    consumer = Consumer(client | {"group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", number, 1) for number in range(2)], asynchronous=False)
    consumer.close()
    yield node
    next(running, None)


@pytest.fixture(scope="module")
def shared_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


@pytest.fixture
def page(shared_browser: Browser, node: KBroker) -> Iterator[Page]:
    shared_browser.problems.clear()
    shared_browser.requested.clear()
    shared_browser.size(1280, 900)
    made = Page(shared_browser, node)
    yield made
    shared_browser.open("about:blank")  # its streams and timers end
    assert shared_browser.problems == []
    outside = [
        url for url in shared_browser.requested if not url.startswith((made.address, "about:", "data:"))
    ]
    assert outside == []
