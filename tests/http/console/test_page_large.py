"""The page with what is large, binary or gone, in Debian's Chromium: a topic with 10,000
partitions, a message of 5 MB, keys that are no text, a topic that is deleted while it is read."""

import os
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.conftest import _run
from tests.http.console.accessibility import findings
from tests.http.console.browser import IN_A_BROWSER
from tests.http.console.page import Page
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

PARTITIONS = 10_000
LARGE = 5_000_000
SETTINGS = {"kbroker.console.readonly": "false", "kbroker.max.partitions": "12000"}
ROWS = "document.querySelectorAll('main tbody tr').length"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    node = KBroker(tmp_path_factory.mktemp("large"), SETTINGS)
    running = _run(node)
    next(running)
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)
    large = NewTopic("large", 1, 1, config={"max.message.bytes": str(2 * LARGE)})
    for future in admin.create_topics([NewTopic("wide", PARTITIONS // 2, 1), large]).values():
        future.result(120)
    # one request makes fewer than 10,000 partitions; the second one waits for the logs of the first
    growing = admin.create_partitions([NewPartitions("wide", PARTITIONS)], operation_timeout=120)
    growing["wide"].result(125)
    producer = Producer(client | {"message.max.bytes": 2 * LARGE})
    producer.produce("wide", "in the last partition", partition=PARTITIONS - 1)
    producer.produce("large", "start " + "x" * LARGE, key=b"\xff\x00binary")
    assert producer.flush(120) == 0
    consumer = Consumer(client | {"group.id": "wide-group"})
    offsets = [TopicPartition("wide", number, 0) for number in range(PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    yield node
    next(running, None)


def test_messages_of_many_partitions_are_read_one_partition_at_a_time(page: Page) -> None:
    page.show("topics/wide")
    page.sees("No records")
    page.choose("Partition", str(PARTITIONS - 1))
    page.sees("in the last partition")
    assert page.browser.run("document.querySelectorAll('.message').length") == 1
    page.choose("Partition", "5")
    page.sees("No records")


def test_many_partitions_have_pages(page: Page) -> None:
    page.show("topics/wide/partitions")
    page.sees("1–200 of 10,000")
    assert page.browser.run(ROWS) == 200
    page.click("Next")
    page.sees("201–400 of 10,000")
    assert page.browser.run(page.cell("200", "Partition")) == "200"
    assert page.browser.run(page.cell("0", "Partition")) is None
    assert findings(page.browser) == []


def test_a_group_on_many_partitions_has_pages(page: Page) -> None:
    page.show("groups/wide-group")
    page.sees("1–200 of 10,000")
    assert page.browser.run(ROWS) == 200
    page.click("Next")
    page.sees("201–400 of 10,000")
    assert page.browser.run(page.cell("wide/200", "Partition")) == "200"


def test_a_message_of_megabytes_is_cut_and_shown_further_on_request(page: Page) -> None:
    page.show("topics/large")
    page.browser.wait("document.querySelectorAll('.message').length === 1")
    summary = page.browser.run("document.querySelector('.message summary').innerText")
    assert "8 B binary" in summary
    page.browser.run("document.querySelector('.message').open = true")
    page.sees("5.0 MB, cut")
    length = "document.querySelectorAll('.message pre')[1].innerText.length"
    assert page.browser.run(length) == 16384
    page.click("Show more of it")
    page.browser.wait(f"{length} === {1 << 20}")
    page.sees("The page shows no more of it")
    assert page.browser.run("document.querySelector('.message pre').innerText") == "/wBiaW5hcnk="
    assert findings(page.browser) == []


@pytest.mark.parametrize("tab", ["messages", "partitions", "groups", "settings"])
def test_a_topic_that_is_deleted_meanwhile_stays_with_a_notice(page: Page, node: KBroker, tab: str) -> None:
    name = f"doomed-{tab}-{os.getpid()}"
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(120)
    page.show(f"topics/{name}/{tab}")
    admin.delete_topics([name])[name].result(120)
    page.browser.wait(f"document.querySelector('.notice')?.innerText.includes('there is no topic {name}')")
    assert findings(page.browser) == []
    page.show("topics")
    page.sees("2 topics")
    page.browser.problems.clear()  # the browser notes each answer of 404


def test_a_live_tail_of_a_topic_that_is_deleted_ends(page: Page, node: KBroker) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("followed", 1, 1)])["followed"].result(120)
    page.show("topics/followed")
    page.click("Live tail")
    page.sees("live")
    admin.delete_topics(["followed"])["followed"].result(120)
    page.browser.wait("document.querySelector('main .failed')")
    assert (
        page.browser.run("document.querySelector('[aria-pressed]').getAttribute('aria-pressed')") == "false"
    )
    page.browser.problems.clear()  # the browser notes each answer of 404
