"""The console in a browser."""

import json

from tests.http.console.browser import Browser
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker

SCRIPT = "<img src=x onerror=alert(1)>"
"""In a record of the broker, as value, name of a header and header."""
SECTIONS = {
    "": "Throughput",
    "topics": "orders",
    "topics/orders": "key-29",
    "topics/orders/partitions": "First offset",
    "topics/orders/groups": "billing",
    "topics/orders/settings": "retention.ms",
    "groups": "billing",
    "groups/billing": "No consumer uses this group now.",
    "transactions": "No transactions",
    "clients": "kbroker-console",
    "quotas": "No quotas",
    "users": "No SCRAM users",
    "acls": "No authorizer",
    "log-dirs": "orders",
    "host": "kbroker tune script",
    "reports": "convicted",
    "reports/bench.json": "acks of 64 producers",
    "reports/load%2Frun-1%2Fverdict.json": "V01",
    "settings": "log.retention.hours",
}
"""Every place of the console, and a text that it shows with the fixtures' broker."""


class Page:
    """The console in a browser."""

    def __init__(self, browser: Browser, node: KBroker) -> None:
        self.browser = browser
        self.address = f"http://{Service(node).address.replace('0.0.0.0', '127.0.0.1')}/"

    def show(self, place: str) -> None:
        self.browser.open(f"{self.address}#/{place}")
        self.browser.wait("document.querySelector('main h1') && !document.querySelector('.loading')")

    def click(self, text: str) -> None:
        buttons = "[...document.querySelectorAll('button, a')]"
        find = f"{buttons}.findLast(e => e.textContent === {json.dumps(text)})"
        self.browser.wait(find)
        self.browser.run(f"{find}.click()")

    def enter(self, selector: str, text: str) -> None:
        self.browser.run(
            f"(e => {{ e.value = {json.dumps(text)}; e.dispatchEvent(new Event('input')); "
            f"e.dispatchEvent(new Event('change')) }})(document.querySelector({json.dumps(selector)}))"
        )

    def sees(self, text: str) -> None:
        self.browser.wait(f"document.body?.innerText.includes({json.dumps(text)})")

    def choose(self, label: str, text: str) -> None:
        """Enter a text, or choose an option, in the field that a reader sees below a label."""
        labels = "[...document.querySelectorAll('label')].filter(e => e.checkVisibility())"
        find = f"{labels}.findLast(e => e.firstChild.textContent === {json.dumps(label)})"
        self.browser.wait(find)
        self.browser.run(
            f"(e => {{ e.value = {json.dumps(text)}; e.dispatchEvent(new Event('input')); "
            f"e.dispatchEvent(new Event('change')) }})({find}.querySelector('input, select, textarea'))"
        )

    def tick(self, label: str) -> None:
        """Change the check box beside a label."""
        find = f"[...document.querySelectorAll('label')].findLast(e => e.textContent === {json.dumps(label)})"
        self.browser.wait(find)
        self.browser.run(f"{find}.querySelector('input').click()")

    def cell(self, row: str, title: str) -> str:
        """The script of a cell's text, by the row's key and the title of its column."""
        selector = f"[data-key={json.dumps(row)}] [data-title={json.dumps(title)}]"
        return f"document.querySelector({json.dumps(selector)})?.textContent"

    def buttons(self) -> list[str]:
        """The texts of the buttons that a reader sees in the page."""
        found = "[...document.querySelectorAll('main button')].filter(e => e.checkVisibility())"
        return [str(each) for each in self.browser.run(f"{found}.map(e => e.textContent)")]
