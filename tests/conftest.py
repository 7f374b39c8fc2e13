"""Fixtures of all tests: a kbroker, as many as wanted, and Apache Kafka beside it."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kbroker.kernels import plain
from tests import hangs
from tests.log_settings import log_settings
from tests.peer.apache_kafka import QUICK_START, ApacheKafka
from tests.peer.artifacts import PeerUnavailable, class_path
from tests.peer.kbroker_node import KBroker

# a busy machine is no failure
settings.register_profile("kbroker", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kbroker")

# A shell without job control lets what runs in the background ignore Ctrl-C, and so would every
# process begun here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A developer's own settings must not reach the brokers and commands under test. With
# PYTHONUNBUFFERED no write would be left to the end of a process, where a user's may fail.
for name in ("KBROKER_BOOTSTRAP", "KBROKER_LOG_LEVEL", "KBROKER_LOG_FORMAT", "PYTHONUNBUFFERED"):
    os.environ.pop(name, None)

COMPILED = "about compiled kernels"
LARGE = "too large for plain Python"
NOT_PLAIN = {
    "tests/api/test_rebalance_requests.py::test_a_rebalance_costs_less": COMPILED,
    "tests/kernels/test_compiler.py": COMPILED,
    "tests/kernels/test_image.py": COMPILED,
    "tests/kernels/test_packaged.py": COMPILED,
    "tests/cleaner/test_log_cleaner.py::test_batches_larger_than_every_buffer": LARGE,
    "tests/io/append/test_delayed_produce_kernel.py::test_thousands_wait": LARGE,
    "tests/io/append/test_producer_table.py::test_chosen_producer_ids_have_places": LARGE,
    "tests/io/partition/test_log_segments.py::test_a_truncation_that_dies_anywhere": LARGE,
    "tests/net/local_answers/test_topic_part_kernel.py::test_memory_is_bounded": LARGE,
    "tests/net/forward/test_forwarding.py::test_an_answer_that_the_socket_does_not_take": LARGE,
}
"""Tests that KBROKER_NO_KERNELS=1 leaves out, by the beginning of their names, and why."""

RUNNING: list[KBroker] = []
TRACEBACK = "Traceback (most recent call last)"

BrokerFactory = Callable[..., KBroker]

GENERATIONS = (10_000, 10, 10)
"""Thresholds of the search for garbage. With Python's own a tenth of the tests' time is spent in
it."""


def pytest_collection() -> None:
    """A collection makes little garbage and much that stays, which each search would visit
    again."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected lives until the end. A forked child that searches for garbage would else
    copy the memory of all tests, which takes longer than the rest of its start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)
    gc.enable()


@pytest.fixture(autouse=True)
def unchanged_log_settings() -> Iterator[None]:
    """A test that changes levels or handlers of loggers restores them."""
    before = log_settings()
    yield
    after = log_settings()
    assert after == before, "the test has changed logging for the tests after it"


@pytest.fixture(autouse=True)
def running_collector() -> Iterator[None]:
    """Work in slices stops the garbage collector, and its loop may end before it starts it again:
    clients of earlier tests would then keep their connections."""
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def own_signal_handlers() -> Iterator[None]:
    """`kbroker serve` in this process sets handlers that end it, which is meant for a process of
    its own: the next test that interrupts itself would end the run."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    """A running kbroker with default settings, shared by the tests of one module."""
    node = KBroker(tmp_path_factory.mktemp("kbroker"))
    yield from _run(node)


@pytest.fixture
def broker_factory(tmp_path: Path) -> Iterator[BrokerFactory]:
    """Starts kbrokers with settings of the test's own: `broker_factory({"num.io.threads": "2"})`.

    `start=False` gives one that is not started yet. All are stopped after the test.
    """
    made: list[KBroker] = []

    def make(settings: dict[str, str] | None = None, start: bool = True) -> KBroker:
        node = KBroker(tmp_path / f"kbroker-{len(made)}", settings)
        made.append(node)
        RUNNING.append(node)
        if start:
            node.start()
        return node

    yield make
    failures = [failure for node in made if (failure := _stop(node))]
    if failures:
        raise failures[0]


@pytest.fixture(scope="session")
def kafka_jars() -> str:
    """Class path of Apache Kafka's jars, for tests that only run its tools."""
    try:
        return class_path()
    except PeerUnavailable as reason:
        pytest.skip(f"no Apache Kafka: {reason}")


@pytest.fixture(scope="module")
def fresh_kafka(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """An Apache Kafka 4.3.1 that no other module has used: for answers that list everything there
    is."""
    node = ApacheKafka(tmp_path_factory.mktemp("fresh-kafka"), jvm=QUICK_START)
    node.start()
    yield node
    node.stop()


@pytest.fixture(scope="session")
def kafka(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A running Apache Kafka 4.3.1, shared by the whole run."""
    node = ApacheKafka(tmp_path_factory.mktemp("kafka"), jvm=QUICK_START)
    node.start()
    yield node
    node.stop()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(hangs)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without kernels, what is about compiled ones has nothing to look at, and what is large takes
    too long."""
    if plain.ACTIVE:
        for item in items:
            name = item.nodeid.split("[")[0]
            if reason := next((why for part, why in NOT_PLAIN.items() if name.startswith(part)), ""):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test shows the end of the log of every kbroker that runs, and so does one whose
    output is shown although it passes (-rP)."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed or (report.when == "call" and "P" in item.config.option.reportchars):
        for node in RUNNING:
            report.sections.append((f"log of kbroker {node.bootstrap}", node.logs()))
    return report  # type: ignore[return-value]


def _run(node: KBroker) -> Iterator[KBroker]:
    RUNNING.append(node)
    node.start()
    yield node
    if failure := _stop(node) or _traceback(node):
        raise failure


def _traceback(node: KBroker) -> AssertionError | None:
    """Whatever a test sent, it must not have led to one."""
    reported = node.log_file.read_text(errors="replace")
    at = reported.find(TRACEBACK)
    return (
        AssertionError(f"in the broker's log:\n{reported[max(0, at - 500) : at + 4000]}") if at >= 0 else None
    )


def _stop(node: KBroker) -> AssertionError | None:
    RUNNING.remove(node)
    try:
        node.stop()
    except AssertionError as failure:
        return failure
    return None
