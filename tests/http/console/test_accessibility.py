"""axe-core finds nothing in any place, dialog and state of the console, in all its looks."""

from pathlib import Path

import pytest

from tests.http.console.accessibility import PHONE, findings, findings_in_all_looks
from tests.http.console.browser import IN_A_BROWSER, Browser
from tests.http.console.page import SECTIONS, Page
from tests.http.console.served import Served

pytestmark = [pytest.mark.compat, IN_A_BROWSER]
DIALOGS = [
    ("topics", "New topic"),
    ("topics/orders", "Add partitions"),
    ("topics/orders", "Delete"),
    ("topics/orders/settings", "Change"),
    ("groups/billing", "Reset offsets"),
    ("groups/billing", "Delete"),
]


def test_axe_core_finds_what_is_wrong(page: Page) -> None:
    page.show("topics")
    page.browser.run("document.querySelector('main').append(document.createElement('button'))")
    (found,) = findings(page.browser)
    assert found.startswith("critical button-name: <button></button>")


@pytest.mark.parametrize("place", list(SECTIONS))
def test_every_page_is_accessible(page: Page, place: str) -> None:
    page.show(place)
    page.sees(SECTIONS[place])
    if place.endswith("settings"):  # axe-core takes a minute for all of them, which look the same
        page.enter("main input[type=search]", "retention.ms")
    assert findings_in_all_looks(page.browser) == []


@pytest.mark.parametrize(("place", "button"), DIALOGS)
def test_every_dialog_is_accessible(page: Page, place: str, button: str) -> None:
    page.show(place)
    page.click(button)
    page.browser.wait("document.querySelector('dialog[open]')")
    assert findings_in_all_looks(page.browser) == []


def test_a_deletion_that_was_confirmed_by_its_name_is_accessible(page: Page) -> None:
    page.show("topics/orders")
    page.click("Delete")
    page.enter("dialog input[type=text]", "orders")
    page.browser.wait("document.querySelector('dialog .danger:enabled')")
    assert findings_in_all_looks(page.browser) == []


def test_a_refusal_in_a_dialog_is_accessible(page: Page) -> None:
    page.show("topics")
    page.click("New topic")
    page.enter("dialog input[type=text]", "orders")
    page.click("Create topic")
    page.browser.wait("document.querySelector('dialog .error').textContent")
    assert findings_in_all_looks(page.browser) == []
    page.browser.problems.clear()  # the browser notes each answer of 409


def test_messages_that_are_open_and_followed(page: Page) -> None:
    page.show("topics/orders")
    page.browser.wait("document.querySelectorAll('.message').length === 30")
    page.browser.run("document.querySelector('.message').open = true")
    page.browser.wait("document.querySelector('.message .j-number')")
    assert findings_in_all_looks(page.browser) == []
    page.click("Live tail")
    page.sees("live")
    assert findings_in_all_looks(page.browser) == []


def test_findings_of_the_tuner_that_are_well(page: Page) -> None:
    page.show("host")
    page.enter("main select", "ok")
    page.enter("main input[type=search]", "vm.")
    page.browser.wait("document.querySelectorAll('.findings .tag.good').length > 1")
    assert findings_in_all_looks(page.browser) == []


def test_the_sections_of_a_phone(page: Page) -> None:
    page.browser.size(*PHONE)
    page.show("topics")
    page.click("☰ Topics")
    page.browser.wait("document.querySelector('.side.open')")
    assert findings(page.browser) == []


@pytest.mark.parametrize("place", ["topics/none", "nowhere"])
def test_pages_of_missing_things_are_accessible(page: Page, place: str) -> None:
    page.show(place)
    assert findings_in_all_looks(page.browser) == []
    page.browser.problems.clear()  # the browser notes each answer of 404


def test_the_login_is_accessible(shared_browser: Browser, tmp_path: Path) -> None:
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl_enabled_mechanisms": "SCRAM-SHA-256"}
    served = Served(tmp_path, "10.0.0.5", **settings)
    try:
        shared_browser.open(f"http://127.0.0.1:{served.port}/")
        shared_browser.wait("document.querySelector('.login')")
        assert findings_in_all_looks(shared_browser) == []
    finally:
        shared_browser.open("about:blank")
        served.close()
