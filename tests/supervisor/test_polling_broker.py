"""A running broker whose processes poll (kbroker.busy.poll.*): nothing is lost, its cores are given
back when there is no work, and the CPU time of polling is reported apart."""

import time

import pytest
from confluent_kafka import Producer

from kbroker.config.processes import cores
from tests.conftest import BrokerFactory
from tests.crash.load import Load, create_topic, judge, read_all
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = pytest.mark.slow

POLL_S = 0.2
POLLING = {
    "num.network.threads": "1",
    "num.io.threads": "1",
    "kbroker.busy.poll.network.us": f"{POLL_S * 1e6:.0f}",
    "kbroker.busy.poll.io.us": f"{POLL_S * 1e6:.0f}",
}
PROCESSES = {"network-0": "network 0", "io-0": "io 0"}
REPORT_S = 1.2
"""A network process reports its counts once a second."""
ENOUGH_S, WORK_S = 0.5, 90
"""CPU time of polling, which other work on the machine may make rare."""


def cpu_s(node: KBroker) -> dict[str, float]:
    """CPU time by process, as metrics name it."""
    children = node.children()
    times = {name: next(c for t, c in children.items() if title in t) for name, title in PROCESSES.items()}
    return {name: sum(child.cpu_times()[:2]) for name, child in times.items()}


def polling_s(node: KBroker) -> dict[str, float]:
    found = scrape(node)
    name = "kbroker_polling_seconds_total"
    return {process: found.value(name, process=process) for process in PROCESSES}


def passed(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: after[name] - before[name] for name in before}


def idle_cpu_s(node: KBroker, seconds: float) -> dict[str, float]:
    time.sleep(POLL_S + REPORT_S)
    before = cpu_s(node)
    time.sleep(seconds)
    return passed(before, cpu_s(node))


def test_records_survive_restarts_of_processes_that_poll(broker_factory: BrokerFactory) -> None:
    node = broker_factory(POLLING)
    create_topic(node.bootstrap, "polled")
    load = Load(node.bootstrap, "polled")
    load.start()
    try:
        for role in ("network", "io"):
            load.wait_for_acks()
            node.kill9_running(role)
        load.wait_for_acks()
    finally:
        load.stop()
    judge(load, read_all(node.bootstrap, "polled"))
    node.stop()  # fails if it is not clean
    too_few = "a process that polls takes a core" in node.log_file.read_text()
    assert too_few is (cores() < 4)


def test_polling_ends_after_the_last_work_and_is_reported_apart(broker_factory: BrokerFactory) -> None:
    node = broker_factory(POLLING)
    create_topic(node.bootstrap, "slow")
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0, "acks": 1})
    producer.produce("slow", "first", partition=0)
    assert producer.flush(60) == 0
    assert max(idle_cpu_s(node, 2.0).values()) < 0.4, "a process polls without work"
    cpu, polling = cpu_s(node), polling_s(node)
    deadline = time.monotonic() + WORK_S
    while min(passed(polling, polling_s(node)).values()) < ENOUGH_S:
        assert time.monotonic() < deadline, "a process does not poll"
        for _ in range(20):
            producer.produce("slow", "next", partition=0)
            assert producer.flush(60) == 0
            time.sleep(POLL_S / 4)
    assert max(idle_cpu_s(node, 2.0).values()) < 0.4
    cpu, polling = passed(cpu, cpu_s(node)), passed(polling, polling_s(node))
    for name in PROCESSES:
        assert 0.5 < polling[name] / cpu[name] < 1.15, (name, polling[name], cpu[name])


def test_a_broker_without_the_settings_does_not_poll(broker_factory: BrokerFactory) -> None:
    node = broker_factory({"num.network.threads": "1", "num.io.threads": "1"})
    create_topic(node.bootstrap, "asleep")
    before = cpu_s(node)
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0, "acks": 1})
    for _ in range(20):
        producer.produce("asleep", "next", partition=0)
        assert producer.flush(60) == 0
        time.sleep(0.05)
    assert max(passed(before, cpu_s(node)).values()) < 0.4
    time.sleep(REPORT_S)
    assert "kbroker_polling_seconds_total{" not in scrape(node).text
