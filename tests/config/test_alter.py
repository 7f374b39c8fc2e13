"""What may be changed at run time, and the codes and texts of refusals, as Apache Kafka 4.3.1
answered them."""

import pytest

from kbroker.config.alter import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    Alteration,
    AlterError,
    Op,
    alter_broker,
    alter_client_metrics,
    alter_group,
    alter_topic,
    replacing,
)
from kbroker.config.broker import BrokerConfig

BROKER = BrokerConfig({"node.id": "1", "num.io.threads": "8", "log.dirs": "/a"})


def op(kind: int, name: str, value: str | None = None) -> Alteration:
    return Alteration(name, kind, value)


def topic(stored: dict[str, str], *alterations: Alteration) -> dict[str, str]:
    return alter_topic(stored, alterations, BROKER)


def refusal(change: object, *arguments: object) -> tuple[int, str]:
    assert callable(change)
    with pytest.raises(AlterError) as error:
        change(*arguments)
    return error.value.code, error.value.message


def test_records_of_internal_topics_do_not_expire() -> None:
    ttl = [op(Op.SET, "kbroker.record.ttl.ms", "1000")]
    assert alter_topic({}, ttl, BROKER) == {"kbroker.record.ttl.ms": "1000"}
    code, text = refusal(alter_topic, {}, ttl, BROKER, True)
    assert (code, "with a topic of the broker or its schema registry" in text) == (INVALID_CONFIG, True)
    compacted = {"cleanup.policy": "compact"}
    assert "without delete" in refusal(alter_topic, compacted, ttl, BROKER)[1]


def test_set_and_delete_keep_the_rest() -> None:
    stored = {"retention.ms": "5", "preallocate": "true"}
    assert topic(stored, op(Op.SET, "retention.ms", " 6 "), op(Op.DELETE, "preallocate")) == {
        "retention.ms": " 6 "
    }
    assert topic(stored, op(Op.DELETE, "never.set")) == stored
    assert stored == {"retention.ms": "5", "preallocate": "true"}


@pytest.mark.parametrize(
    ("stored", "kind", "value", "after"),
    [
        ({}, Op.APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": "delete,compact"}, Op.APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": ""}, Op.APPEND, "compact,,", "compact"),
        ({"cleanup.policy": "compact"}, Op.APPEND, ",,", "compact"),
        ({}, Op.SUBTRACT, "delete", ""),
        ({"cleanup.policy": "delete,compact"}, Op.SUBTRACT, "delete,compact", ""),
        ({"cleanup.policy": "delete, compact"}, Op.SUBTRACT, "compact", "delete, compact"),
        ({"cleanup.policy": ""}, Op.SUBTRACT, "delete", ""),
    ],
)
def test_append_and_subtract_work_on_the_stored_text(
    stored: dict[str, str], kind: Op, value: str, after: str
) -> None:
    assert topic(stored, op(kind, "cleanup.policy", value)) == {"cleanup.policy": after}


THROTTLED = "follower.replication.throttled.replicas"


def places(*numbers: int) -> str:
    """Entries of a setting whose list may be long."""
    return ",".join(f"{number}:0" for number in numbers)


def test_subtract_removes_the_first_equal_entry_for_each_given_one() -> None:
    stored = {THROTTLED: places(1, 2, 1, 3, 2, 1)}
    assert topic(stored, op(Op.SUBTRACT, THROTTLED, places(1, 4, 1, 2))) == {THROTTLED: places(3, 2, 1)}
    assert topic(stored, op(Op.APPEND, THROTTLED, places(4, 1, 4))) == {
        THROTTLED: places(1, 2, 1, 3, 2, 1, 4)
    }


@pytest.mark.parametrize("kind", [Op.APPEND, Op.SUBTRACT])
def test_a_long_list_is_compared_in_time_that_grows_with_its_length(kind: Op) -> None:
    """Compared one by one, these would be ten million comparisons of texts, in one piece."""
    stored = {THROTTLED: places(*range(4000))}
    change = op(kind, THROTTLED, places(*range(3999, -1, -1)))

    class Text(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Text.compared += 1
            return str.__eq__(self, other)

    class Texts(Text):
        def split(self, *_: object) -> list[str]:
            return [Text(part) for part in str.split(self, ",")]

        def rstrip(self, *_: object) -> "Texts":
            return self

    altered = Alteration(change.name, change.op, Texts(change.value))
    assert topic(stored, altered) == {THROTTLED: places(*range(4000)) if kind is Op.APPEND else ""}
    assert Text.compared < 100_000


def test_a_list_does_not_become_longer_than_an_answer_can_carry() -> None:
    stored = {THROTTLED: places(*range(4000))}
    assert topic(stored, op(Op.APPEND, THROTTLED, places(4000))) == {THROTTLED: places(*range(4001))}
    code, text = refusal(alter_topic, stored, [op(Op.APPEND, THROTTLED, places(*range(4000, 8000)))], BROKER)
    assert code == INVALID_CONFIG
    assert text.startswith("The configuration value cannot be added because it exceeds the maximum")


@pytest.mark.parametrize(
    ("alterations", "code", "text"),
    [
        ([op(Op.SET, "nope", "1")], 40, "Unknown topic config name: nope"),
        ([op(Op.SET, "retention.ms", "x")], 40,
         "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ([op(Op.SET, "cleanup.policy", "delete,,compact")], 40,
         "Configuration 'cleanup.policy' values must not be empty."),
        ([op(Op.SET, "compression.type", "ZSTD")], 40, ("Invalid value ZSTD for configuration compression.type: "
          "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer")),
        ([op(Op.APPEND, "retention.ms", "1")], 40,
         "Can't APPEND to key retention.ms because its type is not LIST."),
        ([op(Op.SUBTRACT, "nope", "1")], 40, "Can't SUBTRACT to key nope because its type is not LIST."),
        ([op(Op.SET, "retention.ms")], 42, "Null value not supported for : retention.ms"),
        ([op(Op.APPEND, "cleanup.policy"), op(Op.SET, "flush.ms")], 42,
         "Null value not supported for : cleanup.policy, flush.ms"),
        ([op(Op.SET, "flush.ms", "1"), op(Op.DELETE, "flush.ms")], 42, "Error due to duplicate config keys"),
        ([op(9, "flush.ms", "1")], 42, "Unknown operations type 9"),
        ([op(Op.SET, "min.compaction.lag.ms", "100"), op(Op.SET, "max.compaction.lag.ms", "50")], 40,
         "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)"),
        ([op(Op.SET, "remote.storage.enable", "true")], 40, ("Tiered Storage functionality is disabled in the "
          "broker. Topic cannot be configured with remote log storage.")),
    ],
    ids=lambda value: value[0].name if isinstance(value, list) else "",
)  # fmt: skip
def test_a_topic_change_is_refused(alterations: list[Alteration], code: int, text: str) -> None:
    assert refusal(alter_topic, {}, alterations, BROKER) == (code, text)


def test_one_bad_setting_refuses_all() -> None:
    assert refusal(alter_topic, {}, [op(0, "flush.ms", "1"), op(0, "nope", "1")], BROKER)[0] == INVALID_CONFIG


def test_the_old_alter_configs_replaces_everything() -> None:
    stored = {"retention.ms": "5", "flush.ms": "6"}
    assert alter_topic(stored, replacing(stored, [("flush.ms", "7")]), BROKER) == {"flush.ms": "7"}
    assert alter_topic(stored, replacing(stored, []), BROKER) == {}
    assert refusal(alter_topic, stored, replacing(stored, [("flush.ms", None)]), BROKER)[0] == INVALID_REQUEST


def not_followed(why: str) -> str:
    """What a broker answers when a running part cannot follow a change."""
    error = f"org.apache.kafka.common.config.ConfigException: {why}"
    return f"Invalid value {error} for configuration Invalid dynamic configuration"


@pytest.mark.parametrize(
    ("name", "key", "value", "text"),
    [
        ("1", "num.partitions", "3", "Cannot update these configs dynamically: [num.partitions]"),
        ("1", "log.retention.hours", "3", "Cannot update these configs dynamically: [log.retention.hours]"),
        ("1", "log.retention.ms", "x", "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        ("1", "log.retention.ms", "0",
         "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ("1", "log.retention.ms", None, "Null value not supported for : log.retention.ms"),
        ("1", "num.io.threads", "17",
         not_followed("Dynamic thread count update validation failed for num.io.threads=17, "
         "value should not be greater than double the current value 8")),
        ("1", "num.io.threads", "3",
         not_followed("Dynamic thread count update validation failed for num.io.threads=3, "
         "value should be at least half the current value 8")),
        ("1", "metric.reporters", "no.such.Reporter",
         not_followed("Validation of dynamic config update of Set(metric.reporters) failed "
         "with class class kafka.server.DynamicMetricsReporters")),
        ("1", "remote.log.manager.copier.thread.pool.size", "3",
         not_followed("Dynamic thread count update validation failed for remote.log.manager.copier.thread.pool.size=3, "
         "value should be at least half the current value 10")),
        ("1", "remote.log.reader.threads", "21",
         not_followed("Dynamic thread count update validation failed for remote.log.reader.threads=21, "
         "value should not be greater than double the current value 10")),
        ("1", "log.cleaner.threads", "3",
         not_followed("Log cleaner threads cannot be increased to more than double the current value 1")),
        ("1", "log.local.retention.ms", "-1", not_followed("Invalid value -1 for configuration log.local.retention.ms: "
         "Value must not be -1 as log.retention.ms value is set as 604800000.")),
        ("1", "ssl.keystore.type", "JKS", ("These security configs can be dynamically updated only per-listener "
         "using the listener prefix: [ssl.keystore.type]")),
        ("1", "listener.name.plaintext.max.connections", "x",
         "Invalid value x for configuration max.connections: Not a number of type INT"),
        ("1", "listeners", "FOO://x:1",
         "Error creating broker listeners from '[FOO://x:1]': No security protocol defined for listener FOO"),
        ("1", "follower.replication.throttled.rate", "-1",
         "Invalid value -1 for configuration follower.replication.throttled.rate: Value must be at least 0"),
        ("1", "cordoned.log.dirs", "/x",
         ("requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
         "Missing entries : /x")),
        ("", "listeners", "PLAINTEXT://:1",
         "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"),
        ("", "listener.name.plaintext.ssl.keystore.type", "PEM", ("Cannot update these configs at default cluster "
         "level, broker id must be specified: [listener.name.plaintext.ssl.keystore.type]")),
        ("7", "log.retention.ms", "1", "Unexpected broker id, expected 1, but received 7"),
        ("x", "log.retention.ms", "1", "Node id must be an integer, but it is: x"),
        (" 1", "log.retention.ms", "1", "Node id must be an integer, but it is:  1"),
        ("0_1", "log.retention.ms", "1", "Node id must be an integer, but it is: 0_1"),
        ("4294967297", "log.retention.ms", "1", "Node id must be an integer, but it is: 4294967297"),
    ],
)  # fmt: skip
def test_a_broker_change_is_refused(name: str, key: str, value: str | None, text: str) -> None:
    assert refusal(alter_broker, name, [op(Op.SET, key, value)], BROKER) == (INVALID_REQUEST, text)


@pytest.mark.parametrize(("now", "least"), [("8", 4), ("7", 3), ("3", 1), ("1", 1)])
def test_processes_may_become_half_as_many_rounded_down(now: str, least: int) -> None:
    broker = BrokerConfig({"num.io.threads": now, "log.cleaner.threads": now})
    for key, text in (
        ("num.io.threads", f"value should be at least half the current value {now}"),
        ("log.cleaner.threads", f"cannot be reduced to less than half the current value {now}"),
    ):
        assert alter_broker("1", [op(Op.SET, key, str(least))], broker) == {key: str(least)}
        if least > 1:
            assert text in refusal(alter_broker, "1", [op(Op.SET, key, str(least - 1))], broker)[1]


def test_a_brokers_list_may_be_appended_to_and_nothing_else() -> None:
    key = "log.cleanup.policy"
    assert alter_broker("1", [op(Op.APPEND, key, "compact")], BROKER) == {key: "delete,compact"}
    assert alter_broker("1", [op(Op.SUBTRACT, key, "delete")], BROKER) == {key: ""}
    for kind, word in ((Op.APPEND, "append"), (Op.SUBTRACT, "subtract")):
        assert refusal(alter_broker, "1", [op(kind, "log.retention.ms", "3")], BROKER) == (
            INVALID_CONFIG,
            f"Config value {word} is not allowed for config key: log.retention.ms",
        )
    for name in (
        "nope",
        "listener.name.plaintext.sasl.enabled.mechanisms",
        "leader.replication.throttled.rate",
    ):
        assert refusal(alter_broker, "1", [op(Op.APPEND, name, "3")], BROKER) == (
            INVALID_CONFIG,
            f"Unknown config name: {name}",
        )


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("1", "num.io.threads", "16"),
        ("1", "num.io.threads", "4"),
        ("", "log.retention.ms", "1000"),
        ("1", "nope.key", "anything"),
        ("", "listener.name.plaintext.max.connections", "100"),
        ("1", "listener.name.plaintext.ssl.keystore.type", "PEM"),
        ("1", "cordoned.log.dirs", "/a"),
        ("1", "cordoned.log.dirs", "*"),
        ("", "leader.replication.throttled.rate", "1000"),
        ("", "kbroker.write.caching", "false"),
    ],
)
def test_a_broker_change_is_taken(name: str, key: str, value: str) -> None:
    assert alter_broker(name, [op(Op.SET, key, value)], BROKER) == {key: value}


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("1", Op.SET, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        ("1", Op.DELETE, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        ("", Op.DELETE, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."),
    ],
)
def test_eligible_leaders_want_one_min_isr_for_all_brokers(name: str, kind: Op, text: str) -> None:
    change = op(kind, "min.insync.replicas", "2" if kind is Op.SET else None)
    assert refusal(alter_broker, name, [change], BROKER, True) == (INVALID_CONFIG, text)
    alter_broker(name, [change], BROKER, False)


def test_a_min_isr_of_all_brokers_is_set_and_one_of_a_brokers_own_may_go() -> None:
    least = "min.insync.replicas"
    assert alter_broker("", [op(Op.SET, least, "2")], BROKER, True) == {least: "2"}
    broker = BROKER.with_dynamic(cluster={}, own={least: "2"})
    assert alter_broker("1", [op(Op.DELETE, least)], broker, True) == {}


def test_each_layer_of_broker_settings_is_changed_separately() -> None:
    broker = BROKER.with_dynamic(cluster={"log.retention.ms": "2"}, own={"log.retention.ms": "3"})
    assert alter_broker("", [op(Op.SET, "flush.x", "1")], broker) == {"log.retention.ms": "2", "flush.x": "1"}
    assert alter_broker("1", [op(Op.DELETE, "log.retention.ms")], broker) == {}


def test_a_group_change_is_checked_against_the_brokers_bounds() -> None:
    key = "consumer.session.timeout.ms"
    assert alter_group("g", {}, [op(Op.SET, key, "50000")], BROKER) == {key: "50000"}
    assert refusal(alter_group, "g", {}, [op(Op.SET, key, "1000")], BROKER) == (
        INVALID_CONFIG,
        "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
    )
    assert refusal(alter_group, "", {}, [op(Op.SET, key, "50000")], BROKER) == (
        INVALID_REQUEST,
        "Default group resources are not allowed.",
    )
    assert refusal(alter_group, "g", {}, [op(Op.APPEND, "share.isolation.level", "x")], BROKER) == (
        INVALID_CONFIG,
        "Can't APPEND to key share.isolation.level because its type is not LIST.",
    )


def test_a_subscription_change_has_kafkas_codes() -> None:
    assert alter_client_metrics("m", {}, [op(Op.SET, "metrics", "a.b,c")]) == {"metrics": "a.b,c"}
    assert refusal(alter_client_metrics, "m", {}, [op(Op.SET, "interval.ms", "5")]) == (
        INVALID_REQUEST,
        "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
    )
    assert refusal(alter_client_metrics, "m", {}, [op(Op.SET, "match", "foo=1")]) == (
        INVALID_CONFIG,
        "Illegal client matching pattern: foo=1",
    )
    assert refusal(alter_client_metrics, "m", {}, [op(Op.APPEND, "metrics", "z")]) == (
        INVALID_CONFIG,
        "Can't APPEND to key metrics because its type is not LIST.",
    )
    assert refusal(alter_client_metrics, "", {}, [op(Op.SET, "interval.ms", "1000")]) == (
        INVALID_REQUEST,
        "Subscription name can't be empty",
    )
