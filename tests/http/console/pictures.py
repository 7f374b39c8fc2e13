"""`make pictures`: takes the docs' pictures of the console, from a broker of its own under a small
load, with Chromium.

The broker's data is in FOLDER, by default a temporary one; the overview shows its name.
"""

import base64
import json
import math
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.http.console.browser import Browser
from tests.http.console.page import Page
from tests.http.console.service import Service
from tests.peer.kbroker_node import ROOT, KBroker

LOAD_S = 75.0
QUALITY = 80
QUALITIES = (80, 65, 50, 35, 20)
SMALL_BYTES = 50_000
"""Of each picture besides the first two."""
TOPICS = {"orders": 6, "payments": 6, "clicks": 12, "invoices": 3}
GROUPS = {"billing": ["orders", "payments"], "reports": ["clicks", "orders"], "mailer": ["invoices"]}
CITIES = ("Bristol", "Leeds", "Oxford", "York")


def value(number: int) -> bytes:
    """An order, as JSON."""
    order = {"order": number, "customer": number * 37 % 9000, "city": random.choice(CITIES)}
    amount = {"amount": number * 7 % 20000 / 100, "express": number % 9 == 0}
    items = [{"sku": f"A-{number * 13 % 900:03}", "quantity": 1 + number % 5}]
    return json.dumps(order | amount | {"items": items}).encode()


def produce(bootstrap: str, end_s: float) -> None:
    """Records at a rate that rises and falls."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "shop", "linger.ms": 20})
    number = 0
    while (now_s := time.monotonic()) < end_s:
        for _ in range(int(250 + 150 * math.sin(now_s / 6))):
            number += 1
            topic = random.choice(list(TOPICS))
            headers = {"trace-id": f"{random.getrandbits(64):016x}", "source": "shop"}
            key = f"customer-{number * 37 % 9000}"
            producer.produce(topic, value(number), key=key, headers=headers)
        producer.poll(0)
        time.sleep(0.2)
    producer.flush(10)


def consume(bootstrap: str, group: str, topics: list[str], end_s: float) -> None:
    """One member of a group; `reports` is slower than the producer."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": f"{group}-1"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe(topics)
    while time.monotonic() < end_s:
        consumer.consume(150 if group == "reports" else 1000, timeout=0.2)
        time.sleep(0.3)
    consumer.close()


def load(bootstrap: str, end_s: float) -> list[threading.Thread]:
    """Starts the producer and the groups."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
    for future in admin.create_topics(new).values():
        future.result(120)
    work = [threading.Thread(target=produce, args=(bootstrap, end_s))]
    work += [
        threading.Thread(target=consume, args=(bootstrap, group, topics, end_s))
        for group, topics in GROUPS.items()
    ]
    for each in work:
        each.start()
    return work


def save(browser: Browser, name: str) -> None:
    """Writes what the window shows to docs/."""
    found = browser.call("Page.captureScreenshot", format="webp", quality=QUALITY)
    (ROOT / "docs" / f"{name}.webp").write_bytes(base64.b64decode(found["data"]))


def save_small(browser: Browser, name: str) -> None:
    """As `save`, with the best quality that gives a small file."""
    for quality in QUALITIES:
        found = browser.call("Page.captureScreenshot", format="webp", quality=quality)
        data = base64.b64decode(found["data"])
        if len(data) <= SMALL_BYTES:
            (ROOT / "docs" / f"{name}.webp").write_bytes(data)
            return
    raise AssertionError(f"{name} has {len(data)} bytes")


def take(browser: Browser, address: str) -> None:
    """The overview in light colours, a message in dark ones."""
    drawn = "document.querySelector('main h1') && !document.querySelector('.loading')"
    browser.size(1280, 960, 1.5)
    browser.scheme("light")
    browser.open(f"{address}#/")
    browser.wait(f"{drawn} && document.querySelector('.tag.good')")
    time.sleep(2)
    save(browser, "console-light")
    browser.size(1280, 800, 1.5)
    browser.scheme("dark")
    browser.open(f"{address}#/topics/orders/messages")
    browser.wait(f"{drawn} && document.querySelectorAll('.message').length > 2")
    browser.run("document.querySelectorAll('.message')[1].open = true")
    time.sleep(1)
    save(browser, "console-dark")
    assert browser.problems == []


def take_phone(page: Page) -> None:
    """The overview as a phone shows it."""
    page.browser.size(390, 844)
    page.browser.scheme("light")
    page.show("")
    page.sees("live")
    time.sleep(5)  # its charts have lines
    save_small(page.browser, "console-phone")


def take_others(page: Page) -> None:
    """A group that lags, with the preview of a reset; findings about the host; a report."""
    page.browser.size(1280, 800, 1.25)
    page.browser.scheme("light")
    page.show("groups/reports")
    page.click("Reset offsets")
    page.browser.wait("document.querySelectorAll('dialog tbody tr').length > 2")
    time.sleep(1)
    save_small(page.browser, "console-group")
    page.browser.scheme("dark")
    page.show("host")
    page.enter("main select", "")
    page.browser.wait("document.querySelectorAll('.findings > li').length > 10")
    save_small(page.browser, "console-host")
    page.browser.scheme("light")
    page.show("reports/samples.json")
    time.sleep(1)
    save_small(page.browser, "console-report")
    assert page.browser.problems == []


def main() -> None:
    """Starts a broker, loads it, takes the pictures."""
    own = Path(tempfile.mkdtemp())
    node = KBroker(own, {"kbroker.console.reports.dir": str(ROOT / "docs" / "benchmarks")})
    if len(sys.argv) > 1:
        node.data_dir = Path(sys.argv[1])
    node.start()
    try:
        service = Service(node)
        service.request("GET", "/api/overview")  # it is watched now: a sample a second, also of the lag
        work = load(node.bootstrap, time.monotonic() + LOAD_S)
        time.sleep(LOAD_S - 15)
        browser = Browser(own / "chromium")
        try:
            take(browser, f"http://{service.address}/")
            take_phone(Page(browser, node))
            for each in work:
                each.join()
            node.settings["kbroker.console.readonly"] = "false"
            node.restart()
            browser.problems.clear()  # its page lost the stream
            take_others(Page(browser, node))
        finally:
            browser.close()
            for each in work:
                each.join()
    finally:
        node.stop()
        shutil.rmtree(own)


if __name__ == "__main__":
    main()
