"""A page that stays open while its broker restarts."""

import pytest
from confluent_kafka import Producer

from tests.conftest import BrokerFactory
from tests.http.console.browser import IN_A_BROWSER, Browser
from tests.http.console.page import Page
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port

pytestmark = [pytest.mark.compat, IN_A_BROWSER]


@pytest.fixture
def node(broker_factory: BrokerFactory) -> KBroker:
    """A broker whose console keeps its port."""
    return broker_factory({"kbroker.http.listen": f"127.0.0.1:{free_port()}"})


def produce(node: KBroker, text: str) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("orders", text)
    assert producer.flush(120) == 0


def test_a_list_keeps_what_it_shows_until_the_broker_answers_again(page: Page, node: KBroker) -> None:
    produce(node, "before")
    for place in ("topics", "log-dirs"):
        page.show(place)
        page.sees("orders")
        node.stop()
        page.sees("Not up to date. The broker cannot be reached")
        page.sees("orders")
        node.start()
        page.browser.wait("!document.querySelector('.notice.bad')")
        page.sees("orders")
    page.browser.problems.clear()  # the browser notes each refused connection


def test_live_tail_and_the_overview_continue(page: Page, node: KBroker) -> None:
    produce(node, "before")
    page.show("topics/orders")
    page.click("Live tail")
    page.browser.wait("document.querySelector('.tools .tag.good')")
    produce(node, "live")
    page.sees("live")
    node.stop()
    page.sees("connecting")
    node.start()
    page.browser.wait("document.querySelector('.tools .tag.good')")
    produce(node, "after the restart")
    page.sees("after the restart")
    page.show("")
    page.browser.wait("document.querySelector('.head .tag.good')")
    node.restart()
    page.browser.wait("document.querySelector('.head .tag.good')")
    page.browser.problems.clear()  # the browser notes each refused connection


def test_a_stream_is_opened_again_after_an_answer_that_is_none(shared_browser: Browser, page: Page) -> None:
    page.show("topics")
    opened = """import('/console/api.js').then(async ({listen}) => {
        const states = [];
        await new Promise((done) => { const close = listen('/api/nothing', {}, {}, (open) => {
            states.push(open);
            if (states.length === 2) { close(); done(); }
        }); });
        return states;
    })"""
    assert shared_browser.run(opened) == [False, False]
    shared_browser.problems.clear()  # the browser notes each answer of 404
