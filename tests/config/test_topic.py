"""Effective topic settings: the topic's own, the broker's of the same meaning, the default."""

import pytest
from msgspec.structs import fields

from kbroker.config.broker import BROKER, BrokerConfig
from kbroker.config.setting import ConfigError, render
from kbroker.config.topic import SYNONYM, TOPIC, TopicConfig


def test_every_row_has_an_attribute_of_its_name() -> None:
    assert [field.name for field in fields(TopicConfig)] == [name.replace(".", "_") for name in TOPIC]


def test_every_synonym_is_a_broker_setting_of_the_same_type() -> None:
    for name, broker_name in SYNONYM.items():
        assert BROKER[broker_name].type is TOPIC[name].type


def test_without_settings_defaults_of_the_broker_and_the_topic_agree() -> None:
    topic = TopicConfig.resolve({}, BrokerConfig())
    for name, row in TOPIC.items():
        assert render(getattr(topic, name.replace(".", "_")), row.type) == render(
            row.default_value(), row.type
        )


def test_a_topics_own_value_goes_before_the_brokers() -> None:
    broker = BrokerConfig(
        {"log.retention.bytes": "5", "message.max.bytes": "6", "log.retention.minutes": "1"}
    )
    topic = TopicConfig.resolve({"retention.bytes": "7"}, broker)
    assert (topic.retention_bytes, topic.max_message_bytes, topic.retention_ms) == (7, 6, 60_000)


@pytest.mark.parametrize(
    ("broker_name", "value", "name"),
    [
        ("compression.gzip.level", "5", "compression.gzip.level"),
        ("compression.lz4.level", "6", "compression.lz4.level"),
        ("compression.type", "lz4", "compression.type"),
        ("compression.zstd.level", "7", "compression.zstd.level"),
        ("kbroker.write.caching", "false", "write.caching"),
        ("log.cleaner.delete.retention.ms", "11", "delete.retention.ms"),
        ("log.cleaner.max.compaction.lag.ms", "12", "max.compaction.lag.ms"),
        ("log.cleaner.min.cleanable.ratio", "0.25", "min.cleanable.dirty.ratio"),
        ("log.cleaner.min.compaction.lag.ms", "13", "min.compaction.lag.ms"),
        ("log.cleanup.policy", "compact", "cleanup.policy"),
        ("log.flush.interval.messages", "14", "flush.messages"),
        ("log.flush.interval.ms", "15", "flush.ms"),
        ("log.index.interval.bytes", "16", "index.interval.bytes"),
        ("log.index.size.max.bytes", "17", "segment.index.bytes"),
        ("log.message.timestamp.after.max.ms", "18", "message.timestamp.after.max.ms"),
        ("log.message.timestamp.before.max.ms", "19", "message.timestamp.before.max.ms"),
        ("log.message.timestamp.type", "LogAppendTime", "message.timestamp.type"),
        ("log.preallocate", "true", "preallocate"),
        ("log.retention.bytes", "20", "retention.bytes"),
        ("log.retention.ms", "21", "retention.ms"),
        ("log.roll.jitter.ms", "22", "segment.jitter.ms"),
        ("log.roll.ms", "23", "segment.ms"),
        ("log.segment.bytes", "2097152", "segment.bytes"),
        ("log.segment.delete.delay.ms", "24", "file.delete.delay.ms"),
        ("message.max.bytes", "25", "max.message.bytes"),
        ("min.insync.replicas", "2", "min.insync.replicas"),
        ("unclean.leader.election.enable", "true", "unclean.leader.election.enable"),
    ],
)
def test_a_setting_of_the_broker_is_the_default_of_kafkas_topic_setting_and_of_no_other(
    broker_name: str, value: str, name: str
) -> None:
    """Of the same type and with the same default there are several."""
    before = TopicConfig.resolve({}, BrokerConfig())
    after = TopicConfig.resolve({}, BrokerConfig({broker_name: value}))
    changed = {each for each in TOPIC if getattr(before, attribute(each)) != getattr(after, attribute(each))}
    assert changed == {name}
    assert render(getattr(after, attribute(name)), TOPIC[name].type) == value


def attribute(name: str) -> str:
    return name.replace(".", "_")


def test_a_brokers_hours_become_milliseconds() -> None:
    broker = BrokerConfig(
        {"log.roll.hours": "2", "log.roll.jitter.hours": "1", "log.flush.scheduler.interval.ms": "9"}
    )
    topic = TopicConfig.resolve({}, broker)
    assert (topic.segment_ms, topic.segment_jitter_ms, topic.flush_ms) == (7_200_000, 3_600_000, 9)


def test_dynamic_broker_settings_reach_the_topic() -> None:
    broker = BrokerConfig({"log.retention.ms": "1"}).with_dynamic(
        cluster={"log.retention.ms": "2", "kbroker.write.caching": "false"}, own={}
    )
    topic = TopicConfig.resolve({}, broker)
    assert (topic.retention_ms, topic.write_caching) == (2, False)
    assert TopicConfig.resolve({"write.caching": "true"}, broker).write_caching


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"},
            "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)",
        ),
        (
            {"remote.storage.enable": "true"},
            ("Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."),
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_bad_topic_setting_is_refused_with_kafkas_text(overrides: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as error:
        TopicConfig.resolve(overrides, BrokerConfig())
    assert str(error.value) == text


def test_records_expire_only_in_topics_that_delete_and_are_not_internal() -> None:
    def topic(**settings: str) -> TopicConfig:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return TopicConfig.resolve({"kbroker.record.ttl.ms": "5", **named}, BrokerConfig())

    topic().check(written_here=False)
    topic(cleanup_policy="compact,delete").check(written_here=False)
    topic(kbroker_record_ttl_ms="-1").check(written_here=True)
    with pytest.raises(ConfigError, match=r"kbroker.record.ttl.ms \(5\) with cleanup.policy without delete"):
        topic(cleanup_policy="compact").check(written_here=False)
    with pytest.raises(ConfigError, match=r"\(5\) with a topic of the broker or its schema registry"):
        topic().check(written_here=True)
    with pytest.raises(ConfigError, match="must be at least -1"):
        topic(kbroker_record_ttl_ms="-2")


def test_a_delay_is_a_week_at_most_and_not_of_topics_of_the_broker() -> None:
    def topic(delay_ms: int) -> TopicConfig:
        return TopicConfig.resolve({"kbroker.delivery.delay.ms": str(delay_ms)}, BrokerConfig())

    assert TopicConfig.resolve({}, BrokerConfig()).kbroker_delivery_delay_ms == -1
    topic(7 * 86_400_000).check(written_here=False)
    topic(-1).check(written_here=True)
    with pytest.raises(
        ConfigError, match=r"delay.ms \(0\) with a topic of the broker or its schema registry"
    ):
        topic(0).check(written_here=True)
    with pytest.raises(ConfigError, match="must be at least -1"):
        topic(-2)
    with pytest.raises(ConfigError, match="must be no more than 604800000"):
        topic(604_800_001)


@pytest.mark.parametrize("part", ["key", "value"])
def test_topics_of_the_broker_and_its_registry_check_no_schemas(part: str) -> None:
    name = f"confluent.{part}.schema.validation"
    topic = TopicConfig.resolve({name: "true"}, BrokerConfig())
    topic.check(written_here=False)
    with pytest.raises(
        ConfigError, match=rf"{name} \(true\) with a topic of the broker or its schema registry"
    ):
        topic.check(written_here=True)
    TopicConfig.resolve({name: "false"}, BrokerConfig()).check(written_here=True)


def test_a_brokers_policy_without_delete_takes_expiry_away_and_refuses_nothing() -> None:
    broker = BrokerConfig({"log.cleanup.policy": "compact"})
    assert TopicConfig.resolve({"kbroker.record.ttl.ms": "5"}, broker).ttl_ms == -1


@pytest.mark.parametrize(
    ("retention", "ttl", "age"),
    [("-1", "-1", -1), ("7", "-1", 7), ("-1", "0", 0), ("7", "5", 5), ("7", "9", 7)],
)
def test_segments_are_deleted_by_the_shorter_age(retention: str, ttl: str, age: int) -> None:
    overrides = {"retention.ms": retention, "kbroker.record.ttl.ms": ttl}
    assert TopicConfig.resolve(overrides, BrokerConfig()).max_age_ms == age


def test_cleanup_is_delete_compact_both_or_nothing() -> None:
    def policy(text: str) -> tuple[bool, bool]:
        topic = TopicConfig.resolve({"cleanup.policy": text}, BrokerConfig())
        return topic.delete, topic.compact

    assert policy("delete") == (True, False)
    assert policy("compact") == (False, True)
    assert policy("delete, compact") == (True, True)
    assert policy("") == (False, False)


def test_a_compacted_log_rolls_in_time_to_be_cleaned() -> None:
    overrides = {"segment.ms": "100", "max.compaction.lag.ms": "50"}
    assert TopicConfig.resolve(overrides, BrokerConfig()).max_segment_ms == 100
    assert TopicConfig.resolve(overrides | {"cleanup.policy": "compact"}, BrokerConfig()).max_segment_ms == 50


def test_a_test_may_make_segments_smaller_than_users_may() -> None:
    topic = TopicConfig.resolve({"internal.segment.bytes": "100", "segment.bytes": "2097152"}, BrokerConfig())
    assert topic.segment_bytes == 100
