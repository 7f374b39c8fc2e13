"""The shell completes names of topics and groups from the broker (nothing without one), and names
of settings."""

import os
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cli.conftest import Shell, Target


def completed(line: str, **environment: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    words = line.split(" ")
    requested = {"_KBROKER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from kbroker.cli.app import main; main()"],
        env={**os.environ, **requested, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def names(cli: Shell, target: Target) -> tuple[str, str]:
    """A topic and a group of one prefix."""
    common = f"c{uuid.uuid4().hex[:8]}"
    topic, group = f"{common}-topic", f"{common}-group"
    cli("topics", "create", topic)
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    return topic, group


@pytest.mark.parametrize(
    "line",
    [
        "kbroker consume {}",
        "kbroker produce {}",
        "kbroker offsets other {}",
        "kbroker topics describe {}",
        "kbroker topics delete-records {}",
        "kbroker configs describe topic {}",
        "kbroker groups reset-offsets g --topic {}",
    ],
)
def test_topics_are_completed(names: tuple[str, str], target: Target, line: str) -> None:
    topic, _ = names
    assert completed(line.format(topic[:9]), KBROKER_BOOTSTRAP=target.bootstrap) == [topic]


@pytest.mark.parametrize(
    "line", ["kbroker groups describe {}", "kbroker consume t --group {}", "kbroker configs alter group {}"]
)
def test_groups_are_completed(names: tuple[str, str], target: Target, line: str) -> None:
    _, group = names
    assert completed(line.format(group[:9]), KBROKER_BOOTSTRAP=target.bootstrap) == [group]


def test_the_line_says_which_broker(names: tuple[str, str], target: Target) -> None:
    line = f"kbroker consume -b {target.bootstrap} {names[0][:9]}"
    assert completed(line, KBROKER_BOOTSTRAP="127.0.0.1:1") == [names[0]]


def test_nothing_is_offered_without_a_broker() -> None:
    assert completed("kbroker consume a", KBROKER_BOOTSTRAP="127.0.0.1:1") == []
    assert completed("kbroker consume --command-config /no-such-folder/file a") == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kbroker topics alter orders -c retention.m", ["retention.ms="]),
        ("kbroker topics create orders --config retention.m", ["retention.ms="]),
        ("kbroker topics copy orders copy -c cleanup.p", ["cleanup.policy="]),
        ("kbroker topics alter orders --delete-config retention.m", ["retention.ms"]),
        ("kbroker configs alter topic orders --set retention.", ["retention.bytes=", "retention.ms="]),
        ("kbroker configs alter topic orders --append cleanup", ["cleanup.policy="]),
        ("kbroker configs alter topic orders --delete retention.m", ["retention.ms"]),
        ("kbroker configs alter group g --set consumer.session", ["consumer.session.timeout.ms="]),
        (
            "kbroker configs describe broker 1 --key log.retention.m",
            ["log.retention.minutes", "log.retention.ms"],
        ),
        (
            "kbroker configs alter broker 1 --set num.network",
            ["num.network.threads="],
        ),
        ("kbroker configs alter broker 1 --set log.dir", []),  # it needs a restart
        ("kbroker quotas set --user u producer", ["producer_byte_rate="]),
        ("kbroker quotas remove --user u producer", ["producer_byte_rate"]),
    ],
)
def test_settings_are_completed(line: str, words: list[str]) -> None:
    assert completed(line, KBROKER_BOOTSTRAP="127.0.0.1:1") == words
