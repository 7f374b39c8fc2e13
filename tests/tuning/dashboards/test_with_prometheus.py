"""A real Prometheus scrapes a broker under load: each expression of the dashboard has data, each
alert's series exist, and the death of a process becomes an alert."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.http.host_rows import link_bytes_per_s
from tests.compat.clients.client_quotas import set_quotas
from tests.compat.quota_cases import entry
from tests.http.evicted import evict
from tests.peer.kbroker_node import KBroker
from tests.tuning.dashboards.prometheus import Prometheus, expression_of, until
from tests.tuning.dashboards.rejecting import reject, set_dead_letter_topic
from tuning.dashboards import recording
from tuning.dashboards.alerts import ALERTS
from tuning.dashboards.tables import ROOMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LINK_SPEED = "kbroker_network_link_bytes_per_second"
"""Virtual interfaces report none."""
OF_GROUP = "kbroker_group_cold_bytes_total"
"""A group has it from the time on when its next records are on a disk alone."""
SELECTED = re.compile(r"\{@[~%]?(?:, )?")
SELECTOR = re.compile(r"\b((?:kbroker|up)\w*(?:\{[^}]*\})?)(?=[\s)\[]|$)")


@pytest.fixture(scope="module")
def prometheus(broker: KBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), broker)
    yield made
    made.stop()


def work(broker: KBroker, count: int) -> None:
    """Records, a group that reads half of them, and an error."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    try:
        admin.create_topics([NewTopic("watched", 2, 1)])["watched"].result(120)
    except KafkaException as error:
        assert "ALREADY_EXISTS" in str(error)  # noqa: PT017  the error that is wanted from the second time on
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce("watched", os.urandom(500), key=str(number))
    assert producer.flush(120) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "watcher", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["watched"])
    assert until(lambda: len(consumer.consume(count // 2, 1.0)) > 0, 120)
    consumer.close()


def evict_logs(broker: KBroker) -> bool:
    """The group's next records are on a disk alone, if there is one."""
    return evict(broker.data_dir.glob("watched-*/*.log"))


def limit(broker: KBroker, rate: float) -> None:
    """What clients that name no client id may produce, in bytes a second."""
    others = {"consumer_byte_rate": 1e9, "request_percentage": 1e6}
    set_quotas(broker, entry({"client-id": "rdkafka"}, producer_byte_rate=rate, **others))


def test_every_expression_of_the_dashboard_has_data(broker: KBroker, prometheus: Prometheus) -> None:
    has_speed = any(link_bytes_per_s(state.speed) for state in psutil.net_if_stats().values())
    expressions = {
        f"{panel.title}: {expression}": SELECTED.sub("{", expression)
        .replace("{}", "")
        .replace("[#]", "[30s]")
        for panels in ROOMS.values()
        for panel in panels
        for expression, _ in panel.lines
        if has_speed or LINK_SPEED not in expression
    }
    work(broker, 10)
    if not evict_logs(broker):
        expressions = {
            name: expression for name, expression in expressions.items() if OF_GROUP not in expression
        }
    silent: set[str] = set()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    letters = NewTopic("dlq.team", 1, 1, config={"errors.deadletterqueue.group.enable": "true"})
    admin.create_topics([letters])["dlq.team"].result(120)
    set_dead_letter_topic(broker, "dlq.team")
    reject(broker, "watched")
    limit(broker, 1e9)

    def all_speak() -> bool:
        work(broker, 200)
        evict_logs(broker)
        silent.clear()
        silent.update(name for name, expression in expressions.items() if not prometheus.has(expression))
        return not silent

    assert until(all_speak, 120), silent  # the forecast of a full disk looks at a minute at the least


def test_every_rule_is_evaluated_and_every_recorded_series_has_data(
    broker: KBroker, prometheus: Prometheus
) -> None:
    names = {rule.record for rules in recording.GROUPS.values() for rule in rules}
    limit(broker, 1e9)
    silent: set[str] = set()

    def all_recorded() -> bool:
        work(broker, 200)
        silent.clear()
        silent.update(name for name in names if not prometheus.has(name))
        return not silent

    assert until(all_recorded, 120), silent
    groups = prometheus.ask("rules")["groups"]
    assert isinstance(groups, list)
    evaluated = [rule for group in groups for rule in group["rules"]]
    assert len(evaluated) == len(ALERTS) + sum(map(len, recording.GROUPS.values()))
    assert [rule for rule in evaluated if rule["health"] != "ok"] == []
    targets = prometheus.ask("targets")["activeTargets"]
    assert isinstance(targets, list)
    assert [(target["health"], target["lastError"]) for target in targets] == [("up", "")]


def test_every_series_of_an_alert_is_there_before_its_trouble(
    broker: KBroker, prometheus: Prometheus
) -> None:
    assert until(lambda: prometheus.has("kbroker_info"), 120)
    selectors = {found for alert in ALERTS for found in SELECTOR.findall(alert.expression)}
    assert len(selectors) >= len(ALERTS)
    selectors -= {"kbroker_tls_certificate_expiry_timestamp_seconds"}  # it has no TLS listener
    limit(broker, 1e9)
    work(broker, 10)
    missing: list[str] = []

    def all_there() -> bool:
        missing[:] = [selector for selector in sorted(selectors) if not prometheus.has(selector)]
        return not missing

    assert until(all_there, 120), missing  # as above
    assert prometheus.firing() <= {"KbrokerIoPressure", "KbrokerDiskFillsFast"}  # of a busy host


def test_the_death_of_a_process_is_an_alert(broker: KBroker, prometheus: Prometheus) -> None:
    assert until(lambda: prometheus.has("kbroker_process_deaths_total"), 120)
    pid = next(child.pid for title, child in broker.children().items() if "network" in title)
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: "KbrokerProcessDied" in prometheus.firing(), 120)


def test_records_given_up_without_letters_are_an_alert(broker: KBroker, prometheus: Prometheus) -> None:
    failures = 'kbroker_dead_letter_failures_total{reason="unusable_topic"}'
    assert until(lambda: prometheus.has(failures), 120)
    set_dead_letter_topic(broker, "watched")  # its name does not begin with dlq.
    work(broker, 10)
    reject(broker, "watched")
    assert until(lambda: "KbrokerDeadLettersLost" in prometheus.firing(), 120)


def test_the_condition_of_an_alert_holds_for_a_client_above_its_quota(
    broker: KBroker, prometheus: Prometheus
) -> None:
    throttled = next(alert for alert in ALERTS if alert.name == "KbrokerClientThrottled")
    limit(broker, 1e9)
    work(broker, 10)
    assert until(lambda: prometheus.has("kbroker_quota_throttled_seconds_total == 0"), 120)
    limit(broker, 50_000)
    work(broker, 2000)  # 1 MB, twenty seconds at the quota's rate
    limit(broker, 1e9)
    expression = throttled.expression.replace("[5m]", "[30s]")
    assert until(lambda: prometheus.has(expression), 120)


def test_the_condition_of_an_alert_holds_while_a_transaction_is_open(
    broker: KBroker, prometheus: Prometheus
) -> None:
    late = expression_of("KbrokerTransactionOpen", ("> 900", "> 1"))
    work(broker, 10)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "forgotten"})
    producer.init_transactions(120)
    assert not prometheus.has(late)
    producer.begin_transaction()
    producer.produce("watched", b"open")
    producer.flush(30)
    assert until(lambda: prometheus.has(late), 120)
    producer.abort_transaction(30)
    assert until(lambda: not prometheus.has(late), 120)


def test_the_condition_of_an_alert_holds_while_a_lag_grows(broker: KBroker, prometheus: Prometheus) -> None:
    growing = expression_of("KbrokerLagGrows", ("[15m]", "[20s]"), ("> 10000", "> 10"))
    producer = Producer({"bootstrap.servers": broker.bootstrap})

    def grows() -> bool:
        for _ in range(20):
            producer.produce("watched", b"unread")
        producer.flush(30)
        return prometheus.has(growing)

    work(broker, 10)
    assert until(lambda: prometheus.has('kbroker_group_offset{group="watcher"}'), 120)
    work(broker, 10)  # it commits again: the group is in use
    assert until(grows, 120)


def test_a_lost_log_dir_is_an_alert_and_so_is_the_end_of_the_broker(tmp_path: Path) -> None:
    dirs = [tmp_path / "first", tmp_path / "second"]
    node = KBroker(tmp_path, {"log.dirs": ",".join(map(str, dirs))})
    scraper: Prometheus | None = None
    try:
        admin = AdminClient({"bootstrap.servers": node.start()})
        admin.create_topics([NewTopic("spread", 4, 1)])["spread"].result(120)
        node.stop()
        dirs[1].rename(tmp_path / "unmounted")
        node.start()
        scraper = Prometheus(tmp_path, node)
        seen = scraper
        assert until(lambda: "KbrokerLogDirOffline" in seen.firing(), 120)
        assert seen.has(expression_of("KbrokerPartitionsOffline"))
        assert not seen.has(expression_of("KbrokerDown"))
        node.stop()
        assert until(lambda: seen.has(expression_of("KbrokerDown")), 120)
    finally:
        node.kill9()
        if scraper is not None:
            scraper.stop()
