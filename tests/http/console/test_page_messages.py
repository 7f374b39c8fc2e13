"""The message browser in Debian's Chromium: its start, its filters, and records of
transactions."""

import re

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.http.console.browser import IN_A_BROWSER
from tests.http.console.page import Page
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

FIRST_MS = 1_700_000_000_000
SHOWN = "[...document.querySelectorAll('.message > summary')].map(e => e.children[2].textContent)"


@pytest.fixture(scope="module")
def events(node: KBroker) -> str:
    """A topic of one partition with ten records, a minute apart, each with a header."""
    name = "events"
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)  # one that is gone answers nothing
    admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "-1"})])[name].result(120)
    producer = Producer(client)
    for number in range(10):
        headers = {"trace-id": f"abc-{number}", "source": "shop" if number % 2 else "Web"}
        at = FIRST_MS + number * 60_000
        producer.produce(name, f"v{number}", key=f"k{number}", headers=headers, timestamp=at)
    assert producer.flush(120) == 0
    return name


def shows(page: Page, *numbers: int) -> None:
    """Until just these records are shown, in this order."""
    keys = [f"k{number}" for number in numbers]
    page.browser.wait(f"JSON.stringify({SHOWN}) === JSON.stringify({keys})")


def test_messages_start_at_an_offset(page: Page, events: str) -> None:
    page.show(f"topics/{events}")
    shows(page, *reversed(range(10)))
    fields = "[...document.querySelectorAll('.tools label')].filter(e => e.checkVisibility()).map(e => e.innerText)"
    before = page.browser.run(fields)
    page.choose("Start at", "offset")
    shows(page, *range(10))
    assert len(page.browser.run(fields)) == len(before) + 1
    page.choose("Offset", "7")
    shows(page, 7, 8, 9)
    page.choose("Offset", "10")
    page.sees("No records")


def test_messages_start_at_a_time_of_the_readers_zone(page: Page, events: str) -> None:
    page.browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    try:
        page.show(f"topics/{events}")
        page.choose("Start at", "time")
        page.choose("From", "2023-11-15T03:47:19")  # FIRST_MS is 03:43:20 there
        shows(page, 4, 5, 6, 7, 8, 9)
        first = page.browser.run("document.querySelector('.message > summary').children[0].textContent")
        assert first == "2023-11-15 03:47:20.000"
        in_utc = page.browser.run("document.querySelector('.message > summary').children[0].title")
        assert in_utc == "2023-11-14T22:17:20.000Z"
        page.choose("From", "2023-11-15T03:50:00")
        shows(page, 7, 8, 9)
    finally:
        page.browser.call("Emulation.setTimezoneOverride", timezoneId="")


def test_messages_are_found_by_their_headers(page: Page, events: str) -> None:
    page.show(f"topics/{events}")
    page.choose("Start at", "earliest")
    page.choose("Value or header", "abc-6")
    shows(page, 6)
    page.browser.run("document.querySelector('.message').open = true")
    page.sees("trace-id: abc-6")
    page.choose("Value or header", "WEB")
    shows(page, 0, 2, 4, 6, 8)
    page.choose("Value or header", "TRACE-ID")
    shows(page, *range(10))
    page.choose("Key", "k3")
    shows(page, 3)
    page.choose("Value or header", "no such header")
    page.sees("Nothing found")


def test_more_messages_follow_on_request(page: Page, node: KBroker) -> None:
    name = "long"
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)  # one that is gone answers nothing
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(120)
    producer = Producer(client)
    for number in range(120):
        producer.produce(name, b"x", key=f"k{number}")
    assert producer.flush(120) == 0
    page.show(f"topics/{name}")
    page.choose("Start at", "earliest")
    shows(page, *range(50))
    page.click("More")
    shows(page, *range(100))
    page.click("More")
    shows(page, *range(120))
    page.browser.wait("!document.querySelector('.pager')")


def test_one_partition_is_chosen(page: Page) -> None:
    page.show("topics/orders")
    page.browser.wait("document.querySelectorAll('.message').length > 1")
    places = "[...document.querySelectorAll('.message > summary')].map(e => e.children[1].textContent)"
    assert {place.split(":")[0] for place in page.browser.run(places)} == {"0", "1"}
    page.choose("Partition", "1")
    page.browser.wait(f"{places}.length && {places}.every(e => e.startsWith('1:'))")


def test_records_of_open_and_aborted_transactions_are_left_out(page: Page, node: KBroker) -> None:
    name = "paid"
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)  # one that is gone answers nothing
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(120)
    producer = Producer(client | {"transactional.id": "pays"})
    producer.init_transactions(120)
    for key in ("k0", "k1", "k2"):
        producer.begin_transaction()
        producer.produce(name, b"x", key=key)
        producer.flush(30)
        if key == "k0":
            producer.commit_transaction(30)
        elif key == "k1":
            producer.abort_transaction(30)
    page.show(f"topics/{name}")
    page.choose("Start at", "earliest")
    shows(page, 0, 1, 2)
    page.tick("Committed only")
    shows(page, 0)
    page.show("transactions")
    ongoing = "document.querySelector('[data-key=pays]')?.innerText"
    page.browser.wait(f"{ongoing}?.includes('Ongoing') && {ongoing}.includes('{name}-0')")
    open_for = page.browser.run(page.cell("pays", "Open for"))
    assert re.fullmatch(r"[\d.]+ (s|min)", open_for), open_for
    producer.commit_transaction(30)
    page.browser.wait(f"{ongoing}.includes('CompleteCommit')")
    assert page.browser.run(page.cell("pays", "Open for")) == "–"


def test_numbers_of_a_record_are_shown_as_they_were_written(page: Page, node: KBroker) -> None:
    """JavaScript would round those of more than 53 bits."""
    name = "numbers"
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)  # one that is gone answers nothing
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    producer = Producer(client)
    value = r'{"id": 12345678901234567891, "price":1.10,"none": [ ], "deep":{"text":"a, b: {\u00e9}"}}'
    producer.produce(name, value)
    assert producer.flush(30) == 0
    page.show(f"topics/{name}")
    page.browser.wait("document.querySelector('.message')")
    page.browser.run("document.querySelector('.message').open = true")
    shown = "document.querySelector('.message .body pre')?.textContent"
    page.browser.wait(shown)
    assert page.browser.run(shown).splitlines() == [
        "{",
        '  "id": 12345678901234567891,',
        '  "price": 1.10,',
        '  "none": [],',
        '  "deep": {',
        '    "text": "a, b: {é}"',
        "  }",
        "}",
    ]
