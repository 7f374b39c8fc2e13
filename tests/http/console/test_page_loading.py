"""While an answer of the API is on its way, the page says so; its rows replace that."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.http.console.browser import DEADLINE_S, IN_A_BROWSER
from tests.http.console.page import Page

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

LOADING = "main .loading[role=status]"
SHOWN = f"document.querySelector('{LOADING}')?.checkVisibility()"


@contextmanager
def held(page: Page, pattern: str) -> Iterator[None]:
    """The answers that a pattern names are back at the browser and not yet in the page."""
    page.browser.hold(f"{page.address}api/{pattern}")
    try:
        yield
        deadline = time.monotonic() + DEADLINE_S
        while not page.browser.held:
            assert time.monotonic() < deadline, "nothing was asked for"
            page.browser.text()  # reads what the browser reports
        assert page.browser.run(f"{SHOWN} && document.querySelector('{LOADING}').innerText") == "Loading"
    finally:
        page.browser.release()


@pytest.mark.parametrize(
    ("place", "answer", "row"),
    [
        ("", "overview*", ".tiles"),
        ("topics", "topics?*", "[data-key='#/topics/orders']"),
        ("topics/orders", "topics/orders", ".message"),
        ("topics/orders", "topics/orders/messages?*", ".message"),
        ("groups/billing", "groups/billing", "[data-key='orders/0']"),
        ("reports", "reports*", "td a"),
        ("host", "host", ".findings li"),
    ],
)
def test_a_page_shows_that_it_loads_until_its_rows_are_there(
    page: Page, place: str, answer: str, row: str
) -> None:
    rows = f"document.querySelectorAll({json.dumps(row)}).length"
    with held(page, answer):
        page.browser.open(f"{page.address}#/{place}")
        page.browser.wait(SHOWN)
        assert page.browser.run(rows) == 0
    page.browser.wait(rows)
    assert not page.browser.run(f"document.querySelector('{LOADING}')")


def test_another_search_of_messages_shows_that_it_loads(page: Page) -> None:
    page.show("topics/orders")
    page.browser.wait("document.querySelectorAll('.message').length === 30")
    with held(page, "topics/orders/messages?*"):
        page.choose("Key", "key-17")
        page.browser.wait(SHOWN)
        assert page.browser.run("document.querySelectorAll('.message').length") == 0
    page.browser.wait("document.querySelectorAll('.message').length === 1")
    assert not page.browser.run(f"document.querySelector('{LOADING}')")
