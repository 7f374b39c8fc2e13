"""Effective group settings stay within the broker's bounds; texts as Apache Kafka 4.3.1 answers
them."""

import pytest

from kbroker.config import group
from kbroker.config.broker import BROKER, BrokerConfig
from kbroker.config.group import GROUP, SYNONYM
from kbroker.config.setting import ConfigError


def test_every_synonym_is_a_broker_setting_of_the_same_type() -> None:
    for name, broker_name in SYNONYM.items():
        assert BROKER[broker_name].type is GROUP[name].type


def test_a_groups_own_value_goes_before_the_brokers() -> None:
    broker = BrokerConfig({"group.consumer.session.timeout.ms": "50000"})
    assert group.effective({}, broker)["consumer.session.timeout.ms"] == 50000
    overrides = {"consumer.session.timeout.ms": "46000", "share.auto.offset.reset": "earliest"}
    found = group.effective(overrides, broker)
    assert (found["consumer.session.timeout.ms"], found["share.auto.offset.reset"]) == (46000, "earliest")


def test_a_value_left_outside_of_narrowed_bounds_is_cut() -> None:
    stored = {
        "consumer.session.timeout.ms": "59000",
        "share.session.timeout.ms": "45000",
        "share.delivery.count.limit": "9",
        "share.auto.offset.reset": "earliest",
    }
    broker = BrokerConfig(
        {
            "group.consumer.max.session.timeout.ms": "50000",
            "group.share.session.timeout.ms": "46000",
            "group.share.min.session.timeout.ms": "46000",
            "group.share.max.delivery.count.limit": "6",
        }
    )
    assert group.within_bounds(stored, broker) == {
        "consumer.session.timeout.ms": "50000",
        "share.session.timeout.ms": "46000",
        "share.delivery.count.limit": "6",
        "share.auto.offset.reset": "earliest",
    }


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("nope", "1", "Unknown group config name: nope"),
        ("consumer.session.timeout.ms", "x",
         "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"),
        ("consumer.session.timeout.ms", "1000",
         "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ("consumer.session.timeout.ms", "100000",
         "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"),
        ("share.record.lock.duration.ms", "3000000",
         "share.record.lock.duration.ms must be less than or equal to group.share.max.record.lock.duration.ms"),
        ("streams.num.standby.replicas", "9",
         "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"),
        ("share.isolation.level", "x", ("Invalid value x for configuration share.isolation.level: "
         "String must be one of: read_committed, read_uncommitted")),
        ("kbroker.share.retry.backoff.ms", "-1",
         "Invalid value -1 for configuration kbroker.share.retry.backoff.ms: Value must be at least 0"),
        ("kbroker.share.retry.backoff.ms", "60001",
         "kbroker.share.retry.backoff.ms must be less than or equal to kbroker.share.retry.backoff.max.ms"),
        ("errors.deadletterqueue.topic.name", "__letters",
         "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'"),
    ],
)  # fmt: skip
def test_a_bad_group_setting_is_refused_with_kafkas_text(name: str, value: str, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        group.check({name: value}, BrokerConfig())
    assert str(error.value) == text


def test_a_session_must_outlast_a_heartbeat() -> None:
    wide = BrokerConfig(
        {"group.consumer.min.session.timeout.ms": "1", "group.consumer.max.heartbeat.interval.ms": "60000"}
    )
    with pytest.raises(ConfigError) as error:
        group.check({"consumer.session.timeout.ms": "9000", "consumer.heartbeat.interval.ms": "9000"}, wide)
    assert (
        str(error.value) == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    )


@pytest.mark.parametrize(
    ("name", "accepted", "refused"),
    [
        ("consumer.session.timeout.ms", 45000, 44999),
        ("consumer.session.timeout.ms", 60000, 60001),
        ("consumer.heartbeat.interval.ms", 15000, 15001),
        ("share.delivery.count.limit", 2, 1),
        ("share.delivery.count.limit", 10, 11),
        ("share.partition.max.record.locks", 100, 99),
        ("share.record.lock.duration.ms", 15000, 14999),
        ("share.record.lock.duration.ms", 60000, 60001),
        ("streams.num.standby.replicas", 2, 3),
        ("streams.num.standby.replicas", 0, -1),
        ("streams.initial.rebalance.delay.ms", 0, -1),
        ("kbroker.share.retry.backoff.ms", 0, -1),
        ("kbroker.share.retry.backoff.ms", 60000, 60001),
        ("kbroker.share.retry.backoff.max.ms", 0, -1),
    ],
)
def test_a_group_setting_at_its_bound_is_accepted_and_the_next_number_refused(
    name: str, accepted: int, refused: int
) -> None:
    group.check({name: str(accepted)}, BrokerConfig())
    with pytest.raises(ConfigError):
        group.check({name: str(refused)}, BrokerConfig())


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_outlasts_a_heartbeat_by_a_millisecond(kind: str) -> None:
    broker = BrokerConfig({f"group.{kind}.max.heartbeat.interval.ms": "50000"})
    session, beat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    group.check({session: "45000", beat: "44999"}, broker)
    with pytest.raises(ConfigError, match=f"{session} must be greater than {beat}"):
        group.check({session: "45000", beat: "45000"}, broker)


def test_settings_of_groups_have_the_bounds_of_the_broker() -> None:
    assert group.bounds("consumer.session.timeout.ms") == (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    )
    assert group.bounds("streams.num.standby.replicas") == (None, "group.streams.max.standby.replicas")
    for name in ("share.auto.offset.reset", "kbroker.share.retry.backoff.ms"):
        assert group.bounds(name) == (None, None)


def test_settings_of_kbroker_and_of_dead_letters_have_their_defaults() -> None:
    found = group.effective({}, BrokerConfig())
    assert {name: found[name] for name in GROUP if name not in SYNONYM} == {
        "errors.deadletterqueue.copy.record.enable": False,
        "errors.deadletterqueue.topic.name": "",
        "kbroker.share.retry.backoff.ms": 0,
        "kbroker.share.retry.backoff.max.ms": 60000,
        "share.auto.offset.reset": "latest",
        "share.isolation.level": "read_uncommitted",
        "share.renew.acknowledge.enable": True,
    }
    group.check({"errors.deadletterqueue.topic.name": "_letters"}, BrokerConfig())


def test_a_broker_setting_of_a_group_is_its_default() -> None:
    found, broker = group.effective({}, BrokerConfig()), BrokerConfig()
    for name, synonym in SYNONYM.items():
        assert found[name] == broker.value(synonym) == GROUP[name].default_value(), name


def test_a_groups_setting_has_the_brokers_of_its_own_name_as_default_and_no_other() -> None:
    """Several have the same type and the same default."""
    assert {name: f"group.{name}" for name in GROUP if f"group.{name}" in BROKER} == SYNONYM
    for name in ("consumer.session.timeout.ms", "streams.session.timeout.ms"):
        broker = BrokerConfig({f"group.{name}": "50000"})
        before, after = group.effective({}, BrokerConfig()), group.effective({}, broker)
        assert {each for each in GROUP if before[each] != after[each]} == {name}
