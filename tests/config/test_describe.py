"""Values, sources and synonyms as Apache Kafka 4.3.1 described the same settings."""

import pytest

from kbroker.config.broker import BROKER, BrokerConfig
from kbroker.config.describe import (
    Entry,
    Source,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from kbroker.config.setting import Type
from tests.config.differences import is_confluents

# The node of these tests: a file, settings at run time for all brokers, and for this one.
CONFIG = BrokerConfig(
    {
        "node.id": "1",
        "log.retention.hours": "48",
        "log.roll.hours": "24",
        "log.flush.scheduler.interval.ms": "123456",
        "my.custom.key": "hello",
        "listener.name.plaintext.ssl.keystore.password": "secret",
    },
    {
        "log.retention.ms": "777000",
        "log.flush.interval.ms": "5",
        "listener.name.plaintext.max.connections": "100",
        "leader.replication.throttled.rate": "1",
        "nope.key": "1",
    },
    {
        "log.retention.ms": "5000",
        "log.cleanup.policy": "compact",
        "listener.name.plaintext.max.connections": "101",
        "my.custom.key": "zz",
    },
)

Shown = tuple[str | None, int, bool, bool, int, list[tuple[str, str | None, int]]]


def shown(entries: list[Entry]) -> dict[str, Shown]:
    return {
        e.name: (
            e.value,
            e.source,
            e.read_only,
            e.sensitive,
            e.type,
            [(s.name, s.value, s.source) for s in e.synonyms],
        )
        for e in entries
    }


RETENTION: list[tuple[str, str | None, int]] = [
    ("log.retention.ms", "5000", 2),
    ("log.retention.ms", "777000", 3),
    ("log.retention.hours", "48", 4),
    ("log.retention.hours", "168", 5),
]
FLUSH: list[tuple[str, str | None, int]] = [
    ("log.flush.interval.ms", "5", 3),
    ("log.flush.scheduler.interval.ms", "123456", 4),
    ("log.flush.scheduler.interval.ms", "9223372036854775807", 5),
]


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("log.retention.ms", ("5000", 2, False, False, 5, RETENTION)),
        ("log.retention.minutes", (None, 5, True, False, 3, [])),
        ("log.retention.hours", ("48", 4, True, False, 3, RETENTION[2:])),
        ("log.roll.ms", (None, 5, False, False, 5, [])),
        ("log.flush.interval.ms", ("5", 3, False, False, 5, FLUSH)),
        (
            "log.cleanup.policy",
            (
                "compact",
                2,
                False,
                False,
                7,
                [("log.cleanup.policy", "compact", 2), ("log.cleanup.policy", "delete", 5)],
            ),
        ),
        ("broker.id", ("1", 4, True, False, 3, [("broker.id", "1", 4), ("broker.id", "-1", 5)])),
        ("advertised.listeners", (None, 5, True, False, 7, [])),
        ("ssl.keystore.password", (None, 5, False, True, 9, [])),
        (
            "log.cleaner.io.max.bytes.per.second",
            (
                "1.7976931348623157E308",
                5,
                False,
                False,
                6,
                [("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", 5)],
            ),
        ),
        (
            "my.custom.key",
            (None, 2, True, True, 0, [("my.custom.key", None, 2), ("my.custom.key", None, 4)]),
        ),
        ("nope.key", (None, 3, True, True, 0, [("nope.key", None, 3)])),
        (
            "listener.name.plaintext.ssl.keystore.password",
            (None, 4, True, True, 9, [("listener.name.plaintext.ssl.keystore.password", None, 4)]),
        ),
        (
            "listener.name.plaintext.max.connections",
            (
                "101",
                2,
                True,
                False,
                3,
                [
                    ("listener.name.plaintext.max.connections", "101", 2),
                    ("listener.name.plaintext.max.connections", "100", 3),
                    ("max.connections", "2147483647", 5),
                ],
            ),
        ),
        (
            "leader.replication.throttled.rate",
            ("1", 3, False, False, 5, [("leader.replication.throttled.rate", "1", 3)]),
        ),
    ],
)
def test_a_broker_setting_is_described_as_kafka_does(name: str, entry: Shown) -> None:
    assert shown(describe_broker(CONFIG, [name])) == {name: entry}


def test_internal_settings_are_shown_only_when_set() -> None:
    name = "log.initial.task.delay.ms"
    assert describe_broker(CONFIG, [name]) == []
    (entry,) = describe_broker(BrokerConfig({name: "5"}), [name])
    assert (entry.value, entry.source) == ("5", Source.STATIC_BROKER)


def test_all_brokers_shows_what_is_set_at_run_time_for_all_and_its_own_layer_only() -> None:
    described = shown(describe_all_brokers(CONFIG))
    assert described["log.retention.ms"] == (
        "777000",
        3,
        False,
        False,
        5,
        [("log.retention.ms", "777000", 3)],
    )
    assert described["nope.key"] == (None, 3, True, True, 0, [("nope.key", None, 3)])
    assert sorted(described) == sorted(CONFIG.cluster)


@pytest.mark.parametrize(
    ("name", "overrides", "entry"),
    [
        (
            "retention.ms",
            {"retention.ms": " 5 "},
            ("5", 1, False, False, 5, [("retention.ms", "5", 1), *RETENTION]),
        ),
        ("retention.ms", {}, ("5000", 2, False, False, 5, RETENTION)),
        # log.roll.hours is in force and yet not among the synonyms, as in Kafka: the list starts at
        # log.roll.ms.
        ("segment.ms", {}, ("86400000", 5, False, False, 5, [])),
        ("flush.ms", {}, ("5", 3, False, False, 5, FLUSH)),
        ("follower.replication.throttled.replicas", {}, ("", 5, False, False, 7, [])),
        (
            "preallocate",
            {"preallocate": "TRUE"},
            ("true", 1, False, False, 1, [("preallocate", "true", 1), ("log.preallocate", "false", 5)]),
        ),
        (
            "min.cleanable.dirty.ratio",
            {"min.cleanable.dirty.ratio": "0.5f"},
            (
                "0.5",
                1,
                False,
                False,
                6,
                [("min.cleanable.dirty.ratio", "0.5", 1), ("log.cleaner.min.cleanable.ratio", "0.5", 5)],
            ),
        ),
        ("write.caching", {}, ("true", 5, False, False, 1, [("kbroker.write.caching", "true", 5)])),
    ],
)
def test_a_topic_setting_is_described_as_kafka_does(
    name: str, overrides: dict[str, str], entry: Shown
) -> None:
    assert shown(describe_topic(overrides, CONFIG, [name])) == {name: entry}


def test_a_group_setting_is_described_as_kafka_does() -> None:
    described = shown(describe_group({"consumer.session.timeout.ms": "50000"}, CONFIG))
    assert described["consumer.session.timeout.ms"] == (
        "50000",
        8,
        False,
        False,
        3,
        [("consumer.session.timeout.ms", "50000", 8), ("group.consumer.session.timeout.ms", "45000", 5)],
    )
    assert described["share.isolation.level"] == (
        "read_uncommitted",
        5,
        False,
        False,
        2,
        [("share.isolation.level", "read_uncommitted", 5)],
    )


def test_client_metrics_are_described_as_kafka_does() -> None:
    described = shown(describe_client_metrics({"interval.ms": "100"}))
    assert described["interval.ms"] == ("100", 7, False, False, 3, [("interval.ms", "100", 7)])
    assert described["match"] == ("", 5, False, False, 7, [])


def test_no_keys_and_an_empty_list_ask_for_all_and_an_unknown_one_for_nothing() -> None:
    assert describe_topic({}, CONFIG, []) == describe_topic({}, CONFIG, None)
    assert describe_topic({}, CONFIG, ["nope"]) == []


def test_a_topics_settings_come_in_the_order_kafka_lists_them_in() -> None:
    own = {"write.caching", "errors.deadletterqueue.group.enable"}
    names = [entry.name for entry in describe_topic({}, CONFIG) if entry.name not in own]
    names = [name for name in names if not name.startswith("kbroker.")]
    names = [name for name in names if not is_confluents(name)]
    assert names[:3] == [
        "compression.type",
        "remote.log.delete.on.disable",
        "leader.replication.throttled.replicas",
    ]
    two = [entry.name for entry in describe_topic({}, CONFIG, ["cleanup.policy", "compression.type"])]
    assert two == ["compression.type", "cleanup.policy"]


def test_every_described_setting_has_a_text_and_a_known_type() -> None:
    for entry in (*describe_broker(BrokerConfig()), *describe_topic({}, CONFIG)):
        assert entry.documentation
        assert entry.type is not Type.UNKNOWN


def test_the_text_of_cleanup_policy_begins_as_clients_expect() -> None:
    """Tests of @platformatic/kafka compare the first sentence of this text."""
    (entry,) = describe_topic({}, CONFIG, ["cleanup.policy"])
    first = "This config designates the retention policy to use on log segments."
    assert str(entry.documentation).startswith(first)


def test_a_setting_without_effect_is_marked() -> None:
    (entry,) = describe_broker(BrokerConfig(), ["replica.fetch.max.bytes"])
    assert str(entry.documentation).startswith("No effect in kbroker: ")


def test_no_password_is_ever_shown() -> None:
    passwords = {name: "hunter2" for name, row in BROKER.items() if row.type is Type.PASSWORD}
    entries = describe_broker(BrokerConfig(passwords, passwords, passwords))
    assert {entry.name for entry in entries if entry.synonyms} >= passwords.keys() > set()
    for entry in entries:
        assert entry.value != "hunter2"
        assert all(synonym.value != "hunter2" for synonym in entry.synonyms)
