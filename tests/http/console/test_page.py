"""The page in Debian's Chromium: every section, live data, changes, keyboard, phone, dark; nothing
in its error log."""

import json

import pytest
from confluent_kafka import Producer

from tests.conftest import BrokerFactory
from tests.http.console.browser import IN_A_BROWSER, Browser
from tests.http.console.page import SCRIPT, SECTIONS, Page
from tests.http.console.report_samples import MARKUP, VERDICT
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]


# The names in a table that have a line break after a letter or digit.
BROKEN_WORDS = """[...document.querySelectorAll('td .name')].filter(name => {
  const walk = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let before = '', above = null, broken = false;
  while (walk.nextNode()) for (let at = 0; at < walk.currentNode.length; at += 1) {
    range.setStart(walk.currentNode, at); range.setEnd(walk.currentNode, at + 1);
    const { top } = range.getBoundingClientRect();
    if (above !== null && top > above + 4 && /[a-z0-9]/i.test(before)) broken = true;
    above = top; before = walk.currentNode.data[at];
  }
  return broken;
}).map(name => name.textContent)"""


@pytest.mark.parametrize("place", list(SECTIONS))
def test_every_section_shows_its_data(page: Page, place: str) -> None:
    page.show(place)
    page.sees(SECTIONS[place])


def test_every_section_fits_a_phone(page: Page) -> None:
    page.browser.size(360, 740)
    for place in SECTIONS:
        page.show(place)
        page.sees(SECTIONS[place])
        assert page.browser.run("document.documentElement.scrollWidth") <= 360, place
        wide = "[...document.querySelectorAll('main .scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
        assert page.browser.run(wide) == 0, place


def test_an_error_with_a_long_name_fits_a_phone(page: Page) -> None:
    page.browser.size(360, 740)
    page.show("topics/" + "x" * 200)
    page.sees("there is no topic")
    assert page.browser.run("document.documentElement.scrollWidth") <= 360
    page.browser.problems.clear()  # the browser notes each answer of 404


def test_an_order_by_names_ascends_and_one_by_numbers_descends(page: Page) -> None:
    shown = "[...document.querySelectorAll('main th[aria-sort]')].map(e => [e.ariaSort, e.innerText])"
    page.show("topics")
    assert page.browser.run(shown) == [["ascending", "Topic ↑"]]
    page.click("Size")
    page.browser.wait(f"JSON.stringify({shown}) === JSON.stringify([['descending', 'Size ↓']])")
    page.show("groups")
    assert page.browser.run(shown) == [["descending", "Lag ↓"]]


@pytest.mark.parametrize("width", [360, 640, 900])
def test_a_name_breaks_between_its_words(page: Page, width: int) -> None:
    page.browser.size(width, 740)
    for place in ("topics", "groups", "groups/billing", "settings"):
        page.show(place)
        page.sees(SECTIONS[place])
        assert page.browser.run(BROKEN_WORDS) == [], place


def test_every_section_is_reached_on_a_phone(page: Page) -> None:
    page.browser.size(360, 740)
    page.show("topics")
    shown = "[...document.querySelectorAll('#nav a')].filter(e => e.checkVisibility()).length"
    assert page.browser.run(shown) == 0
    page.click("☰ Topics")
    links = page.browser.run(
        "[...document.querySelectorAll('#nav a')].map(e => [e.getAttribute('href'), "
        "e.getBoundingClientRect().left >= 0 && e.getBoundingClientRect().right <= 360 && "
        "document.elementFromPoint(...[(b => b.left + b.width / 2), (b => b.top + b.height / 2)]"
        ".map(f => f(e.getBoundingClientRect()))) === e])"
    )
    assert {href.removeprefix("#/") for href, _ in links} == {name for name in SECTIONS if "/" not in name}
    assert all(seen for _, seen in links)
    page.browser.press("Escape")
    assert page.browser.run(shown) == 0
    page.click("☰ Topics")
    page.click("Settings")
    page.browser.wait("document.getElementById('menu').textContent === '☰ Settings'")
    assert page.browser.run(shown) == 0


def test_the_overview_draws_its_charts_and_gets_samples(page: Page) -> None:
    page.show("")
    page.browser.wait("document.querySelectorAll('.chart canvas').length === 4")
    page.sees("live")
    page.browser.run("window.before = document.querySelector('.tiles')")
    page.browser.wait("document.querySelector('.tiles') !== window.before")


def test_the_host_page_tries_reads_that_must_not_wait(page: Page) -> None:
    page.show("host")
    findings = page.browser.run("fetch('/api/host').then(it => it.json()).then(it => it.findings)")
    (found,) = (one for one in findings if one["knob"] == "preadv2 RWF_NOWAIT")
    assert found["severity"] != "unseen"


def test_the_theme_follows_the_system_until_it_is_chosen(page: Page) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    page.browser.scheme("light")
    page.show("topics")
    light = page.browser.run(background)
    page.browser.scheme("dark")
    assert page.browser.run(background) != light
    page.click("◐ System")
    assert page.browser.run(background) == light
    page.show("topics")
    assert page.browser.run(background) == light
    page.click("◐ Light")
    page.click("◐ Dark")
    assert page.browser.run("document.documentElement.dataset.theme") is None


def test_records_are_shown_as_text_whatever_they_hold(page: Page) -> None:
    page.show("topics/orders")
    page.browser.wait("document.querySelectorAll('.message').length === 30")
    page.browser.run("document.querySelector('.message').open = true")
    page.browser.wait("document.querySelector('.message .j-key')")
    page.sees(SCRIPT)
    assert page.browser.run("document.querySelectorAll('main img').length") == 0


def test_messages_are_filtered_and_followed(page: Page, node: KBroker) -> None:
    page.show("topics/orders")
    page.enter("input[placeholder=contains]", "key-17")
    page.browser.run("document.querySelectorAll('.tools select')[1].value = 'earliest'")
    page.enter("input[placeholder=contains]", "key-17")
    page.browser.wait("document.querySelectorAll('.message').length === 1")
    page.enter("input[placeholder=contains]", "")
    page.browser.wait("document.querySelectorAll('.message').length === 30")
    page.click("Live tail")
    page.sees("live")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce("orders", "just now", key="tail")
    producer.flush(30)
    page.sees("just now")
    page.click("Stop")


def test_a_topic_is_created_and_deleted_after_a_confirmation(page: Page) -> None:
    page.show("topics")
    page.click("New topic")
    page.enter("dialog input[type=text]", "made-here")
    page.click("Create topic")
    page.sees("Topic made-here is created.")
    page.show("topics/made-here")
    page.click("Delete")
    assert page.browser.run("document.querySelector('dialog button.main').disabled")
    page.enter("dialog input[type=text]", "made-here")
    page.click("Delete topic")
    page.browser.wait("location.hash === '#/topics'")


def test_a_refusal_of_the_broker_is_shown_in_the_dialog(page: Page) -> None:
    page.show("topics")
    page.click("New topic")
    page.enter("dialog input[type=text]", "orders")
    page.click("Create topic")
    page.browser.wait("document.querySelector('dialog .error').textContent.includes('orders')")
    page.browser.problems.clear()  # the browser notes each answer of 409


def test_offsets_are_previewed_before_they_are_reset(page: Page) -> None:
    page.show("groups/billing")
    page.click("Reset offsets")
    page.browser.wait("document.querySelectorAll('dialog tbody tr').length === 2")
    page.enter("dialog form > label input", "billing")
    page.browser.run("document.querySelector('dialog button.main').click()")
    page.sees("Reset: 2 offsets of billing.")


def test_a_phone_shows_all_of_a_preview_and_escape_closes_it(page: Page) -> None:
    page.browser.size(360, 740)
    page.show("groups/billing")
    page.browser.run(
        "[...document.querySelectorAll('button')].find(e => e.textContent === 'Reset offsets').focus()"
    )
    page.browser.press("Enter")
    page.browser.wait("document.querySelectorAll('dialog tbody tr').length === 2")
    page.browser.run("document.querySelectorAll('dialog td.n').forEach(e => { e.textContent = '-17,706' })")
    wide = "(e => e.scrollWidth - e.clientWidth)(document.querySelector('dialog .preview .scroll'))"
    assert page.browser.run(wide) <= 0
    assert page.browser.run("document.querySelector('dialog').contains(document.activeElement)")
    page.browser.press("Escape")
    page.browser.wait("!document.querySelector('dialog')")
    assert page.browser.run("document.activeElement.textContent") == "Reset offsets"


def test_lists_are_searched_and_walked_by_keyboard(page: Page) -> None:
    page.show("topics")
    page.browser.press("/")
    assert page.browser.run("document.activeElement.type") == "search"
    for letter in "ord":
        page.browser.press(letter)
    page.sees("1 topic")
    for _ in range(12):
        page.browser.press("Tab")
        if page.browser.run("document.activeElement.textContent") == "orders":
            break
    page.browser.press("Enter")
    page.browser.wait("location.hash === '#/topics/orders'")


def test_text_that_a_reader_has_marked_stays(page: Page) -> None:
    page.show("topics")
    marked = "import('/console/dom.js').then(it => it.marked(document.querySelector('main')))"
    assert page.browser.run(marked) is False
    page.browser.run("getSelection().selectAllChildren(document.querySelector('main td'))")
    assert page.browser.run(marked) is True


def test_findings_are_chosen_by_state_and_word(page: Page) -> None:
    page.show("host")
    page.enter("main select", "ok")
    page.browser.wait("document.querySelectorAll('.findings .tag.good').length > 10")
    page.enter("main input[type=search]", "vm.max_map_count")
    page.browser.wait("document.querySelectorAll('.findings > li').length === 1")
    page.enter("main input[type=search]", "no such knob")
    page.sees("Nothing found")
    page.browser.run("window.before = document.querySelector('.findings, .empty')")
    page.click("Check again")
    page.browser.wait("document.querySelector('main h1') && !window.before.isConnected")


def test_a_report_is_opened_by_keyboard_and_shown_as_text_to_its_end(page: Page) -> None:
    page.show("reports")
    page.sees("load/run-1/verdict.json")
    page.browser.run("document.querySelector('main td a').focus()")
    page.browser.press("Enter")
    page.browser.wait("location.hash === '#/reports/load%2Frun-1%2Fverdict.json'")
    page.sees(MARKUP)
    text = "document.querySelector('pre.text').textContent"
    page.browser.wait(f"{text}.length === 200000")
    page.click("Show more")
    page.browser.wait(f"{text}.length > 200000")
    assert json.loads(page.browser.run(text)) == VERDICT
    assert page.browser.run("document.querySelectorAll('main img').length") == 0


def test_missing_things_show_an_error(page: Page) -> None:
    page.browser.open(f"{page.address}#/topics/none")
    page.sees("Not found\nthere is no topic none")
    assert page.browser.run("document.querySelectorAll('main h1').length") == 1
    page.browser.open(f"{page.address}#/nowhere")
    page.sees("There is no such page")
    page.browser.problems.clear()  # the browser notes each answer of 404


def test_controls_have_names(page: Page) -> None:
    named = "e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label')?.textContent.trim()"
    controls = "[...document.querySelectorAll('button,a,input,select,textarea')]"
    unnamed = f"{controls}.filter(e => !({named})).map(e => e.outerHTML)"
    for place in SECTIONS:
        page.show(place)
        assert page.browser.run(unnamed) == [], place


def test_a_log_dir_that_is_offline_is_shown(shared_browser: Browser, broker_factory: BrokerFactory) -> None:
    node = broker_factory(start=False)
    lost = node.folder / "lost"
    node.settings["log.dirs"] = f"{node.data_dir},{lost}"
    node.start()
    node.stop()
    lost.rename(node.folder / "found")
    lost.write_text("a file, not a folder")
    node.start()
    page = Page(shared_browser, node)
    page.show("")
    page.sees(f"log dir {lost} is offline")
    page.show("log-dirs")
    page.sees("KAFKA_STORAGE_ERROR")
    page.sees("The broker does not use this log dir until it is started again")
