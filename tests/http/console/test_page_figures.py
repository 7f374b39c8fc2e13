"""Figures, charts and small texts of the page in Debian's Chromium."""

import re

import pytest
from confluent_kafka import Producer

from kbroker.metrics.labels import STAGES
from tests.http.console.browser import IN_A_BROWSER
from tests.http.console.page import Page
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]


def test_an_idle_chart_has_an_axis_of_integers(page: Page) -> None:
    page.show("")
    ceiling = "import('/console/charts.js').then(it => [null, 0, 3, 1e6].map(high => it.ceiling(high, 10)))"
    assert page.browser.run(ceiling) == [10, 10, 10, 1_120_000]
    quiet = """import('/console/charts.js').then(async ({Chart}) => {
        const chart = new Chart([{key: 'in', label: 'in', color: 'a'}], (n) => `${n}`, 10000);
        document.querySelector('main').append(chart.element);
        chart.set([VALUE, VALUE].map((value, n) => ({at_ms: 1e12 + n * 1000, in: value})));
        await new Promise((done) => setTimeout(done));
        chart.set(chart.points);
        const ticks = chart.element.dataset.ticks;
        chart.element.remove();
        chart.close();
        return ticks;
    })"""
    for value in ("0", "null"):
        assert page.browser.run(quiet.replace("VALUE", value)).split()[0] == "0"
        assert page.browser.run(quiet.replace("VALUE", value)).split()[-1] == "10000"


def test_a_chart_has_a_gap_where_nothing_was_measured(page: Page) -> None:
    page.show("")
    gaps = """import('/console/charts.js').then(async ({Chart}) => {
        const chart = new Chart([{key: 'ms', label: 'ms', color: 'a'}], String, 10);
        document.querySelector('main').append(chart.element);
        const points = [1, 2, null, null, 3, 4].map((ms, n) => ({at_ms: 1e12 + n * 1000, ms}));
        chart.set(points);
        await new Promise((done) => setTimeout(done, 100));
        const found = chart.plot.series[1]._paths.gaps.length;
        chart.element.remove();
        chart.close();
        return found;
    })"""
    assert page.browser.run(gaps) == 1


def test_the_stages_that_are_shown_add_up_to_the_total(page: Page, node: KBroker) -> None:
    """They are all stages of a request, in their order."""
    page.show("")
    known = page.browser.run("import('/console/pages/overview.js').then(it => it.STAGES)")
    stages = {api: [name for name, _ in rows] for api, rows in known.items()}
    assert stages == {api.lower(): list(names[1:]) for api, names in STAGES.items()}
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all"})
    for _ in range(20):
        producer.produce("orders", b"x" * 100)
    producer.flush(30)
    panel = (
        "[...document.querySelectorAll('.panel')].find(e => e.textContent.startsWith('Produce, by stage'))"
    )
    rows = f"[...{panel}.querySelectorAll('.stage > :first-child')].map(e => e.textContent)"
    page.browser.wait(f"{rows}.at(-1) === 'total'")
    assert page.browser.run(rows)[1:] == ["queue", "append", "sync", "respond", "total"]


def test_throughput_is_shown_against_the_measured_speed(page: Page) -> None:
    page.show("")
    page.sees("lo 64 Gbit/s")
    shown = """import('/console/pages/overview.js').then(it => {
        const disk = {name: 'vda', busy: 0.5, await_ms: 1, read_bytes: 1e6, write_bytes: 1e8, used: 0.25};
        const limits = {disk_write: 5e8, disk_read: 2e9};
        const text = (used) => it.disks({disks: [{...disk, used}], log_dirs: [], memory: {}, limits}).textContent;
        return [text(0.25), text(null)];
    })"""
    measured, unmeasured = page.browser.run(shown)
    assert "vda of its speed100 MB/s of 500 MB/s written, 1.0 MB/s of 2.0 GB/s read" in measured
    assert "of its speed" not in unmeasured


def test_groups_are_in_the_order_of_their_lag(page: Page) -> None:
    """In an object of JavaScript names that are numbers come first."""
    page.show("")
    names = """import('/console/pages/overview.js').then(it => {
        const found = it.lagging(JSON.parse('{"billing": 50, "audit": 20, "7": 1}'));
        return [...found.querySelectorAll('.name')].map(e => e.textContent);
    })"""
    assert page.browser.run(names) == ["billing", "audit", "7"]


def test_panels_of_tiles_have_round_corners(page: Page) -> None:
    page.show("clients")
    radius = "getComputedStyle(document.querySelector('.panel > .tiles')).borderTopLeftRadius"
    assert page.browser.run(radius) == "12px"


def test_empty_logs_are_left_out_of_the_largest(page: Page) -> None:
    page.show("log-dirs")
    page.sees("orders")
    sizes = "[...document.querySelectorAll('main td:nth-child(2)')].map(e => e.textContent)"
    assert "0 B" not in page.browser.run(sizes)


def test_the_offset_of_a_message_has_no_separators(page: Page) -> None:
    page.show("topics/orders/messages")
    page.browser.wait("document.querySelector('[title=\"partition:offset\"]')")
    place = "document.querySelector('[title=\"partition:offset\"]').textContent"
    assert re.fullmatch(r"[01]:\d+", page.browser.run(place))


def test_a_setting_without_a_value_is_not_set(page: Page) -> None:
    page.show("settings")
    page.enter("main input[type=search]", "alter.config.policy.class.name")
    page.browser.wait("document.querySelectorAll('main tbody tr').length === 1")
    page.sees("not set")
    assert page.browser.run("document.querySelectorAll('main td .mono').length") == 1  # its name


def test_one_group_is_not_several(page: Page) -> None:
    page.show("")
    page.sees("1 group\n")
    many = "import('/console/dom.js').then(it => [0, 1, 2].map(n => it.counted(n, 'group')))"
    assert page.browser.run(many) == ["0 groups", "1 group", "2 groups"]


def test_numbers_stay_short(page: Page) -> None:
    page.show("topics")
    count = "import('/console/dom.js').then(it => [9999, 999949, 999999, 999999999].map(it.count))"
    assert page.browser.run(count) == ["9,999", "999.9 k", "1.0 M", "1.0 G"]
    full = "import('/console/dom.js').then(it => [0, 7200].map(it.full))"
    assert page.browser.run(full) == ["full", "full in 2.0 h"]
    percent = "import('/console/dom.js').then(it => [0.004, 0.5, 1].map(it.percent))"
    assert page.browser.run(percent) == ["0.4%", "50%", "100%"]


def test_a_client_is_shown_with_its_software_and_rates(page: Page, node: KBroker) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "client.id": "etl-of-this-test"})
    for _ in range(200):
        producer.produce("orders", b"x" * 1000)
    producer.flush(30)
    page.show("clients")
    page.sees("etl-of-this-test")
    page.sees("confluent-kafka-python")
    page.sees("kB/s")
    hidden = (
        "[...document.querySelectorAll('main .scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert page.browser.run(hidden) == 0
