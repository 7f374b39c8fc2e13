"""The same settings and the same changes, given to a running Apache Kafka and to our functions:
equal answers."""

from collections.abc import Sequence

import pytest

from kbroker.config import properties
from kbroker.config.alter import (
    Alteration,
    AlterError,
    alter_broker,
    alter_client_metrics,
    alter_group,
    alter_topic,
)
from kbroker.config.broker import BrokerConfig
from kbroker.config.describe import (
    Entry,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from kbroker.config.java_hash import map_order, string_hash
from kbroker.control.metadata.eligible_leaders import one_min_isr
from tests.config.differences import OTHER_DEFAULT, is_later, is_own
from tests.config.kafka_admin import TOPIC_NAME, ConfigAdmin
from tests.peer.apache_kafka import ApacheKafka

pytestmark = pytest.mark.kafka

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(scope="module")
def config(fresh_kafka: ApacheKafka) -> BrokerConfig:
    """Our reading of the file the node runs on, and what a node adds to it when it first starts."""
    file = properties.read(fresh_kafka.folder / "server.properties")
    added = {name: value for name, value in one_min_isr({}, file)[BROKER, ""].items() if value is not None}
    return BrokerConfig.load(file)[0].with_dynamic(cluster=added, own={})


Comparable = dict[str, tuple[object, ...]]


def ours(entries: list[Entry]) -> Comparable:
    return {
        e.name: (
            e.value,
            int(e.source),
            e.read_only,
            e.sensitive,
            int(e.type),
            [(s.name, s.value, int(s.source)) for s in e.synonyms],
        )
        for e in entries
        if not is_own(e.name) and not is_later(e.name)
    }


def theirs(result: object) -> Comparable:
    return {
        e.name: (
            e.value,
            e.config_source,
            e.read_only,
            e.is_sensitive,
            e.config_type,
            [(s.name, s.value, s.source) for s in e.synonyms],
        )
        for e in result.configs  # type: ignore[attr-defined]
    }


def without(described: Comparable, names: set[str]) -> Comparable:
    return {name: entry for name, entry in described.items() if name not in names}


def test_a_broker_is_described_the_same_way(admin: ConfigAdmin, config: BrokerConfig) -> None:
    differs = set(OTHER_DEFAULT) | {"super.users", "allow.everyone.if.no.acl.found"}
    kafka = without(theirs(admin.describe(BROKER, "1")), differs)
    assert without(ours(describe_broker(config)), differs) == kafka


def test_a_topic_is_described_the_same_way(admin: ConfigAdmin, config: BrokerConfig) -> None:
    assert ours(describe_topic({}, config)) == theirs(admin.describe(TOPIC, TOPIC_NAME))


def test_a_group_is_described_the_same_way(admin: ConfigAdmin, config: BrokerConfig) -> None:
    assert ours(describe_group({}, config)) == theirs(admin.describe(GROUP, "g"))


def test_client_metrics_are_described_the_same_way(admin: ConfigAdmin) -> None:
    assert ours(describe_client_metrics({})) == theirs(admin.describe(CLIENT_METRICS, "m"))


def test_settings_are_listed_in_the_order_of_kafkas_map(admin: ConfigAdmin, config: BrokerConfig) -> None:
    for kafkas, own in (
        (admin.describe(BROKER, "1"), describe_broker(config)),
        (admin.describe(TOPIC, TOPIC_NAME), describe_topic({}, config)),
        (admin.describe(GROUP, "g"), describe_group({}, config)),
    ):
        for names in ([entry.name for entry in kafkas.configs], [entry.name for entry in own]):
            assert map_order(names, string_hash) == names


def test_no_text_is_kafkas(admin: ConfigAdmin, config: BrokerConfig) -> None:
    kafka = {e.name: e.documentation for e in admin.describe(BROKER, "1").configs if e.documentation}
    same = [e.name for e in describe_broker(config) if e.documentation == kafka.get(e.name)]
    assert not same


CHANGES: list[tuple[int, str, Sequence[tuple[int, str, str | None]]]] = [
    *(
        (TOPIC, TOPIC_NAME, [(SET, key, value)])
        for key, value in (
            ("nope", "1"), ("retention.ms", "x"), ("retention.ms", "-2"), ("retention.ms", " 5 "),
            ("retention.ms", "99999999999999999999"), ("retention.ms", None), ("cleanup.policy", "foo"),
            ("cleanup.policy", "compact,foo"), ("cleanup.policy", ""), ("cleanup.policy", "delete,delete"),
            ("cleanup.policy", "delete,,compact"), ("compression.type", "ZSTD"), ("compression.gzip.level", "0"),
            ("compression.lz4.level", "18"), ("compression.zstd.level", "23"), ("segment.bytes", "1000"),
            ("segment.bytes", "1_000_000"), ("segment.bytes", "+2097152"), ("segment.bytes", "1e9"),
            ("segment.ms", "0"), ("preallocate", "yes"), ("preallocate", "TRUE"),
            ("min.cleanable.dirty.ratio", "1.5"), ("min.cleanable.dirty.ratio", "0.5f"),
            ("min.cleanable.dirty.ratio", "abc"), ("message.timestamp.type", "x"), ("retention.bytes", "-5"),
            ("leader.replication.throttled.replicas", "0:1,x"), ("leader.replication.throttled.replicas", "*"),
            ("leader.replication.throttled.replicas", "none"), ("leader.replication.throttled.replicas", "*,*"),
            ("leader.replication.throttled.replicas", "0:1,0:1"), ("remote.storage.enable", "true"),
            ("local.retention.ms", "-3"), ("internal.segment.bytes", "100"), ("min.insync.replicas", "0"),
            ("max.message.bytes", "-1"), ("message.format.version", "2.0"),
        )
    ),
    (TOPIC, TOPIC_NAME, [(SET, "min.compaction.lag.ms", "9"), (SET, "max.compaction.lag.ms", "8")]),
    (TOPIC, TOPIC_NAME, [(SET, "flush.ms", "9"), (SET, "flush.ms", "8")]),
    (TOPIC, TOPIC_NAME, [(APPEND, "cleanup.policy", "compact")]),
    (TOPIC, TOPIC_NAME, [(APPEND, "cleanup.policy", "x")]),
    (TOPIC, TOPIC_NAME, [(SUBTRACT, "cleanup.policy", "delete")]),
    (TOPIC, TOPIC_NAME, [(APPEND, "retention.ms", "1")]),
    (TOPIC, TOPIC_NAME, [(SUBTRACT, "nope", "1")]),
    (BROKER, "1", [(SET, "log.retention.ms", "9"), (SET, "min.insync.replicas", "1")]),
    (BROKER, "", [(SET, "min.insync.replicas", "1"), (DELETE, "log.retention.ms", None)]),
    (TOPIC, TOPIC_NAME, [(DELETE, "nope", None)]),
    *(
        (BROKER, broker, [(SET, key, value)])
        for broker in ("1", "")
        for key, value in (
            ("nope.key", "1"), ("num.partitions", "3"), ("log.retention.ms", "1000"), ("log.retention.ms", "x"),
            ("log.retention.hours", "3"), ("log.retention.ms", None), ("node.id", "2"), ("num.io.threads", "0"),
            ("ssl.keystore.type", "JKS"), ("listener.name.plaintext.max.connections", "100"),
            ("listener.name.plaintext.max.connections", "x"), ("sasl.enabled.mechanisms", "PLAIN"),
            ("listener.name.plaintext.ssl.keystore.type", "JKS"), ("message.max.bytes", "-1"),
            ("compression.type", "zzz"), ("leader.replication.throttled.rate", "1000"),
            ("follower.replication.throttled.rate", "-1"), ("log.cleanup.policy", "foo"),
            ("unclean.leader.election.enable", "true"), ("log.flush.interval.ms", "5"),
        )
    ),
    (BROKER, "7", [(SET, "log.retention.ms", "1")]),
    (BROKER, "x", [(SET, "log.retention.ms", "1")]),
    (BROKER, "1", [(APPEND, "log.cleanup.policy", "compact")]),
    (BROKER, "1", [(APPEND, "log.retention.ms", "3")]),
    (BROKER, "1", [(SUBTRACT, "log.retention.ms", "3")]),
    (BROKER, "1", [(9, "log.retention.ms", "3")]),
    (BROKER, "1", [(SET, "log.roll.ms", "0"), (SET, "log.retention.ms", "0")]),
    (BROKER, "1", [(SET, "cordoned.log.dirs", "*,x")]),
    (BROKER, "1", [(SET, "max.connections.per.ip", "0")]),
    (BROKER, "1", [(SET, "listeners", "FOO://h:1")]),
    (BROKER, "1", [(SET, "log.cleaner.threads", "3"), (SET, "num.recovery.threads.per.data.dir", "9")]),
    *(
        (BROKER, "1", [(SET, f"log.retention.{unit}", whole), (SET, f"log.local.retention.{unit}", local)])
        for unit in ("ms", "bytes")
        for whole, local in (("100", "-1"), ("100", "101"), ("100", "100"), ("-1", "-1"), ("-1", "5"))
    ),
    *(
        (GROUP, "g", [(SET, key, value)])
        for key, value in (
            ("nope", "1"), ("consumer.session.timeout.ms", "x"), ("consumer.session.timeout.ms", "1000"),
            ("consumer.session.timeout.ms", "100000"), ("consumer.session.timeout.ms", "50000"),
            ("consumer.heartbeat.interval.ms", "60000"), ("consumer.assignment.interval.ms", "20000"),
            ("share.record.lock.duration.ms", "1"), ("share.delivery.count.limit", "100"),
            ("share.partition.max.record.locks", "9000"), ("share.isolation.level", "x"),
            ("share.auto.offset.reset", "by_duration:PT1H"), ("share.auto.offset.reset", "by_duration:-PT1H"),
            ("share.auto.offset.reset", "by_duration:P"), ("share.auto.offset.reset", "EARLIEST"),
            ("share.renew.acknowledge.enable", "maybe"), ("streams.num.standby.replicas", "9"),
        )
    ),
    (GROUP, "", [(SET, "consumer.session.timeout.ms", "50000")]),
    (GROUP, "g", [(APPEND, "share.isolation.level", "x")]),
    *(
        (CLIENT_METRICS, "m", [(SET, key, value)])
        for key, value in (
            ("nope", "1"), ("interval.ms", "x"), ("interval.ms", "5"), ("interval.ms", "100"), ("metrics", "*"),
            ("metrics", "a,,b"), ("match", "client_id=abc.*"), ("match", "foo=1"), ("match", "client_id=["),
            ("match", "client_id"),
        )
    ),
    (CLIENT_METRICS, "m", [(APPEND, "metrics", "z")]),
    (CLIENT_METRICS, "", [(SET, "interval.ms", "1000")]),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "name", "operations"), CHANGES, ids=str)
def test_a_change_is_accepted_or_refused_the_same_way(
    admin: ConfigAdmin,
    config: BrokerConfig,
    resource: int,
    name: str,
    operations: Sequence[tuple[int, str, str | None]],
) -> None:
    assert answer(config, resource, name, operations) == admin.validate(resource, name, *operations)


def answer(
    config: BrokerConfig, resource: int, name: str, operations: Sequence[tuple[int, str, str | None]]
) -> tuple[int, str | None]:
    """Error code and text of our functions."""
    alterations = [Alteration(key, op, value) for op, key, value in operations]
    try:
        if resource == TOPIC:
            alter_topic({}, alterations, config)
        elif resource == BROKER:
            alter_broker(name, alterations, config, eligible_leaders=True)
        elif resource == GROUP:
            alter_group(name, {}, alterations, config)
        else:
            alter_client_metrics(name, {}, alterations)
    except AlterError as error:
        return error.code, error.message
    return 0, None
