"""Pages in Debian's Chromium that follow the stream of samples: what has changed is shown, and what
a reader has chosen, focused or scrolled stays."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.http.console.browser import IN_A_BROWSER
from tests.http.console.page import Page
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]
SMALL = (1000, 260)
"""A window in which a page scrolls."""


def produce(node: KBroker, count: int, topic: str = "orders") -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"x" * 100, key=str(number))
    assert producer.flush(120) == 0


def cell(row: str, title: str) -> str:
    """The text of a cell, by the row's key and the title of its column."""
    selector = f"[data-key='{row}'] [data-title='{title}']"
    return f'document.querySelector("{selector}").textContent'


@contextmanager
def replaced_elements(page: Page) -> Iterator[None]:
    """Nothing that is shown is taken out of the page while it changes: a reader sees no flicker."""
    page.browser.run(
        """window.replaced = [];
        window.watch = new MutationObserver((changes) => changes.forEach((change) => change.removedNodes.forEach(
          (node) => { if (node.nodeType === 1) window.replaced.push(node.outerHTML.slice(0, 200)); })));
        window.watch.observe(document.querySelector('main'), { childList: true, subtree: true })"""
    )
    yield
    page.browser.run("window.watch.disconnect()")
    assert page.browser.run("window.replaced") == []


def test_the_partitions_of_a_topic_follow_what_is_written(page: Page, node: KBroker) -> None:
    page.browser.size(*SMALL)
    page.show("topics/orders/partitions")
    page.browser.run("document.styleSheets[0].insertRule('main table { min-width: 2000px; }')")
    page.browser.run(
        "window.table = document.querySelector('main table');"
        "window.facts = document.querySelector('.facts').innerText;"
        "document.querySelector('.tabs a[aria-current]').focus();"
        "window.wide = document.querySelector('main .scroll');"
        "window.wide.scrollLeft = 40; scrollTo(0, 30); window.places = [window.wide.scrollLeft, scrollY]"
    )
    assert page.browser.run("window.places.every((place) => place > 0)")
    before = page.browser.run(cell("0", "End"))
    with replaced_elements(page):
        produce(node, 200)
        page.browser.wait(f"{cell('0', 'End')} !== {json.dumps(before)}")
        page.browser.wait("document.querySelector('.facts').innerText !== window.facts")
    assert page.browser.run("document.querySelector('main table') === window.table")
    assert page.browser.run("document.activeElement.textContent").startswith("Partitions (")
    assert page.browser.run("[window.wide.scrollLeft, scrollY]") == page.browser.run("window.places")


def test_the_head_of_a_topic_follows_while_its_messages_stay(page: Page, node: KBroker) -> None:
    page.show("topics/orders")
    page.browser.wait("document.querySelector('.message')")
    page.browser.run(
        "window.facts = document.querySelector('.facts').innerText; document.querySelector('.message').open = true;"
        "window.typed = document.querySelector('input[placeholder=contains]');"
        "window.typed.value = 'half'; window.typed.focus()"
    )
    produce(node, 50)
    page.browser.wait("document.querySelector('.facts').innerText !== window.facts")
    assert page.browser.run("document.querySelectorAll('.message[open]').length") == 1
    assert page.browser.run("document.activeElement === window.typed && window.typed.value") == "half"


def test_new_messages_are_offered_and_shown_on_request(page: Page, node: KBroker) -> None:
    page.show("topics/orders")
    page.browser.wait("document.querySelector('.message')")
    page.browser.run("window.first = document.querySelector('.message')")
    produce(node, 7)
    page.sees("Show 7 new records")
    assert page.browser.run("window.first.isConnected")
    page.click("Show 7 new records")
    page.browser.wait("!window.first.isConnected && document.querySelector('.message')")
    produce(node, 1)
    page.sees("Show 1 new record")
    page.click("Live tail")
    page.sees("Waiting for records")
    assert "new record" not in page.browser.text().replace("New records appear", "")


def test_the_settings_of_a_topic_follow_and_a_search_stays(page: Page, node: KBroker) -> None:
    page.show("topics/orders/settings")
    page.enter("main input[type=search]", "retention.ms")
    page.browser.wait(cell("retention.ms", "Value"))
    page.browser.run("window.row = document.querySelector(\"[data-key='retention.ms']\")")
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for value in ("86400001", "86400002"):
        entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(120)
        page.browser.wait(f"{cell('retention.ms', 'Value')} === '{value}'")
    assert page.browser.run("document.querySelector('main input[type=search]').value") == "retention.ms"
    assert page.browser.run("window.row.isConnected")


def test_the_settings_of_the_broker_follow(page: Page, node: KBroker) -> None:
    page.show("settings")
    page.enter("main input[type=search]", "log.cleaner.threads")
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(120)
    page.browser.wait(f"{cell('log.cleaner.threads', 'Value')} === '2'")


def test_a_group_follows_its_commits_and_keeps_the_keyboards_place(page: Page, node: KBroker) -> None:
    page.show("groups/billing")
    page.browser.run(
        "window.table = document.querySelector('main table'); window.table.querySelector('a').focus()"
    )
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "billing"})
    for offset in (3, 4):
        with replaced_elements(page):
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
            page.browser.wait(f"{cell('orders/0', 'Committed')} === '{offset}'")
        assert page.browser.run("document.querySelector('main table') === window.table")
        assert page.browser.run("document.activeElement.getAttribute('href')") == "#/topics/orders"
    consumer.close()


def test_transactions_appear_and_the_others_stay(page: Page, node: KBroker) -> None:
    client = {"bootstrap.servers": node.bootstrap}
    first = Producer(client | {"transactional.id": "m"})
    first.init_transactions(120)
    page.show("transactions")
    page.browser.wait("document.querySelector('[data-key=m]')")
    page.browser.run("window.row = document.querySelector('[data-key=m]')")
    second = Producer(client | {"transactional.id": "a"})
    second.init_transactions(120)
    page.browser.wait("document.querySelector('[data-key=a] + [data-key=m]')")
    assert page.browser.run("document.querySelector('[data-key=m]') === window.row")


def test_clients_are_searched(page: Page, node: KBroker) -> None:
    clients = [
        Producer({"bootstrap.servers": node.bootstrap, "client.id": f"etl-{name}"})
        for name in ("red", "blue")
    ]
    for client in clients:
        client.list_topics(timeout=30)
    page.show("clients")
    page.sees("etl-red")
    page.sees("etl-blue")
    page.browser.press("/")
    for letter in "ETL-R":
        page.browser.press(letter)
    page.sees("1 client")
    page.sees("etl-red")
    assert "etl-blue" not in page.browser.text()
    page.enter("main input[type=search]", "no such client")
    page.sees("Nothing found")
    page.enter("main input[type=search]", "user:anonymous")
    page.sees("etl-blue")


def test_rows_that_change_places_are_the_same_rows(page: Page) -> None:
    """With the focus, and with the handlers of what they show now."""
    page.show("settings")
    page.browser.run(
        """import('/console/dom.js').then(({ h, table, update }) => {
          const box = document.querySelector('main').appendChild(h('div', { id: 'box' }));
          window.clicked = [];
          window.draw = (names, round) => update(box, table([
            { title: 'Name', cell: (name) => h('button', {
              onclick: () => window.clicked.push(`${name} ${round}`) }, name) },
            { title: 'Round', cell: () => h('i', { 'width%': round }) }], names, { key: (name) => name }));
        })"""
    )
    page.browser.wait("window.draw")
    page.browser.run(
        "window.draw(['a', 'b', 'c'], 1); window.rows = [...document.querySelectorAll('#box tbody tr')]"
    )
    page.browser.run("window.rows[1].querySelector('button').focus(); window.draw(['b', 'd', 'a'], 2)")
    shown = "[...document.querySelectorAll('#box tbody tr')]"
    assert page.browser.run(f"{shown}.map((row) => window.rows.indexOf(row))") == [1, -1, 0]
    assert page.browser.run(f"{shown}.map((row) => row.dataset.key)") == ["b", "d", "a"]
    assert page.browser.run("document.activeElement.textContent") == "b"
    assert page.browser.run("document.querySelector('#box i').style.width") == "2%"
    page.browser.run("document.querySelectorAll('#box button').forEach((button) => button.click())")
    assert page.browser.run("window.clicked") == ["b 2", "d 2", "a 2"]
    page.browser.run("document.getElementById('box').remove()")


HIDE = (
    "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
    "document.dispatchEvent(new Event('visibilitychange'))"
)
SEE = "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"


@pytest.mark.parametrize("section", ["Groups", "Overview"])
def test_a_page_has_one_stream_and_none_while_it_is_hidden(page: Page, section: str) -> None:
    page.show("topics")
    page.browser.run(
        """window.streams = [];
        window.EventSource = class extends window.EventSource {
          constructor(...given) { super(...given); window.streams.push(this); } };
        undefined"""
    )
    page.click(section)
    page.browser.wait("window.streams.length === 1 && window.streams[0].readyState === 1")
    page.browser.run(HIDE)
    assert page.browser.run("window.streams.map((each) => each.readyState)") == [2]
    page.browser.run(SEE)
    page.browser.wait("window.streams.length === 2 && window.streams[1].readyState === 1")
    page.click("Quotas")
    page.browser.wait("window.streams.length === 3 && window.streams[2].readyState === 1")
    assert page.browser.run("window.streams.map((each) => each.readyState)") == [2, 2, 1]


def test_charts_that_were_not_seen_have_the_points_of_that_time(page: Page) -> None:
    page.show("topics")
    page.browser.run(
        """window.plots = []; window.RealPlot = window.uPlot;
        window.uPlot = function (...given) {
          const made = new window.RealPlot(...given); window.plots.push(made); return made; };
        undefined"""
    )
    page.click("Overview")
    page.browser.wait("window.plots.length === 4 && window.plots[0].data[0].length > 1")
    page.browser.run(HIDE)
    last = page.browser.run("window.plots[0].data[0].at(-1)")
    times = (
        "fetch('/api/overview').then(it => it.json()).then(it => it.history.map(each => each.at_ms / 1000))"
    )
    missed: list[float] = []

    def are_missed() -> bool:
        missed[:] = [at for at in page.browser.run(times) if at > last]
        return len(missed) >= 3

    eventually(are_missed)
    assert page.browser.run("window.plots[0].data[0].at(-1)") == last
    page.browser.run(SEE)
    page.browser.wait(f"{json.dumps(missed)}.every(at => window.plots[0].data[0].includes(at))")
    charted = page.browser.run("window.plots[0].data[0]")
    assert charted == sorted(set(charted))


def test_the_page_of_an_unreachable_group_shows_an_error(page: Page) -> None:
    page.show("groups/billing")
    page.browser.run("window.fetch = () => Promise.reject(new TypeError('gone'))")
    page.sees("Not up to date. The broker cannot be reached")
    page.sees("No consumer uses this group now.")


def test_a_topic_says_how_many_groups_it_leaves_out(page: Page) -> None:
    page.show("topics/orders/groups")
    assert not page.browser.run("document.querySelector('.panel .notice')")
    page.show("topics/orders")
    page.browser.run(
        """window.plain = window.fetch;
        window.fetch = async (where, ...more) => {
          const answer = await window.plain(where, ...more);
          if (!String(where).includes('/groups?')) return answer;
          return new Response(JSON.stringify({ ...await answer.json(), total: 12345 }), answer);
        }"""
    )
    page.click("Groups")
    page.sees("12,345 groups read this topic. Shown are the")
