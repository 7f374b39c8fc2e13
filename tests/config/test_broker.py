"""Effective settings: layers, listener prefixes, names that stand for each other, warnings."""

import re
from pathlib import Path

import pytest

from kbroker.config.broker import BROKER, BrokerConfig, is_dynamic, is_sensitive, synonyms
from kbroker.config.broker_values import base_name
from kbroker.config.processes import io_workers, network_processes
from kbroker.config.setting import ConfigError


def test_without_settings_everything_has_its_default() -> None:
    config = BrokerConfig()
    assert (config.node_id, config.log_dirs) == (1, ("/tmp/kafka-logs",))
    assert [str(endpoint) for endpoint in config.listeners] == ["PLAINTEXT://:9092"]
    assert config.advertised_listeners == config.listeners
    assert config.inter_broker_listener == "PLAINTEXT"
    assert config.get_int("num.network.threads") == network_processes()
    assert config.get_int("num.io.threads") == io_workers()
    assert config.get_bool("kbroker.write.caching")
    assert config.get_float("log.cleaner.io.buffer.load.factor") == 0.9
    assert config.get_str("compression.type") == "producer"
    assert config.get_optional_str("broker.rack") is None
    assert config.get_list("group.consumer.assignors") == ("uniform", "range")


def test_node_id_and_broker_id_are_synonyms() -> None:
    assert BrokerConfig({"broker.id": "7"}).node_id == 7
    assert BrokerConfig({"node.id": "7"}).get_int("broker.id") == 7
    assert BrokerConfig({}).get_int("broker.id") == BrokerConfig({}).node_id
    with pytest.raises(ConfigError, match="You must set"):
        BrokerConfig({"node.id": "1", "broker.id": "2"})


def test_own_goes_before_cluster_goes_before_the_file() -> None:
    key = "log.segment.bytes"
    config = BrokerConfig({key: "1048577"})
    assert config.get_int(key) == 1048577
    config = config.with_dynamic(cluster={key: "1048578"}, own={})
    assert config.get_int(key) == 1048578
    config = config.with_dynamic(cluster={key: "1048578"}, own={key: "1048579"})
    assert config.get_int(key) == 1048579
    assert config.with_dynamic(cluster={}, own={}).get_int(key) == 1048577


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-1"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finer_unit_of_retention_goes_first(static: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig(static).log_retention_ms == retention_ms


def test_the_finer_unit_of_roll_jitter_and_flush_goes_first() -> None:
    config = BrokerConfig({"log.roll.hours": "1", "log.roll.jitter.hours": "2"})
    assert (config.log_roll_ms, config.log_roll_jitter_ms) == (3_600_000, 7_200_000)
    config = BrokerConfig({"log.roll.ms": "5", "log.roll.hours": "1", "log.roll.jitter.ms": "6"})
    assert (config.log_roll_ms, config.log_roll_jitter_ms) == (5, 6)
    assert BrokerConfig({"log.flush.scheduler.interval.ms": "9"}).log_flush_interval_ms == 9
    assert BrokerConfig({"log.flush.interval.ms": "8"}).log_flush_interval_ms == 8


def test_log_dirs_go_before_log_dir() -> None:
    assert BrokerConfig({"log.dir": "/a"}).log_dirs == ("/a",)
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b, /c"}).log_dirs == ("/b", "/c")


def test_a_listener_has_its_own_value_and_a_mechanism_its_own() -> None:
    config = BrokerConfig(
        {
            "connections.max.reauth.ms": "1",
            "listener.name.secure.connections.max.reauth.ms": "2",
            "listener.name.secure.plain.connections.max.reauth.ms": "3",
        }
    )
    assert config.of_listener("OTHER", "connections.max.reauth.ms") == 1
    assert config.of_listener("SECURE", "connections.max.reauth.ms") == 2
    assert config.of_listener("SECURE", "connections.max.reauth.ms", "PLAIN") == 3
    assert config.of_listener("SECURE", "connections.max.reauth.ms", "SCRAM-SHA-256") == 2


def test_a_bad_value_of_a_listener_names_its_own_key() -> None:
    with pytest.raises(
        ConfigError, match=r"^Invalid value x for configuration listener\.name\.a\.max\.connections: "
    ):
        BrokerConfig({"listener.name.a.max.connections": "x"})


def test_controllers_listeners_are_not_opened() -> None:
    config = BrokerConfig(
        {
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "advertised.listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert [str(endpoint) for endpoint in config.listeners] == ["PLAINTEXT://127.0.0.1:9092"]
    assert [str(endpoint) for endpoint in config.advertised_listeners] == ["PLAINTEXT://h:9092"]


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig.load({"num.partitions": "x", "log.segment.bytes": "5", "preallocate": "?"})
    assert str(error.value).splitlines() == [
        "Invalid value x for configuration num.partitions: Not a number of type INT",
        "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576",
    ]


def test_overrides_go_before_the_file_and_what_will_not_work_is_warned_about() -> None:
    config, warnings = BrokerConfig.load(
        {
            "num.partitions": "2",
            "zookeeper.connect": "h:2181",
            "log.message.format.version": "2.0",
            "replica.fetch.max.bytes": "5",
            "no.such.key": "1",
            "log.retention.hour": "1",
            "rsm.config.x": "1",
            "listener.name.a.ssl.keystore.type": "PEM",
        },
        {"num.partitions": "3"},
    )
    assert config.get_int("num.partitions") == 3
    assert [warning.split(":")[0] for warning in warnings] == [
        "zookeeper.connect was removed from Kafka and is ignored",
        "log.message.format.version was removed from Kafka and is ignored",
        "replica.fetch.max.bytes has no effect in kbroker",
        "no.such.key is not a known setting and is ignored",
        "log.retention.hour is not a known setting and is ignored; did you mean log.retention.hours?",
    ]


def test_settings_of_kafkas_own_example_file_load() -> None:
    BrokerConfig.load(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "num.network.threads": "3",
            "num.io.threads": "8",
            "socket.send.buffer.bytes": "102400",
            "log.dirs": "/tmp/kraft-combined-logs",
            "num.recovery.threads.per.data.dir": "1",
            "offsets.topic.replication.factor": "1",
            "log.retention.hours": "168",
        }
    )


def test_synonyms_start_with_the_one_that_goes_first() -> None:
    assert synonyms("log.roll.hours") == ("log.roll.ms", "log.roll.hours")
    assert synonyms("log.flush.interval.ms") == ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    assert synonyms("log.flush.scheduler.interval.ms") == ("log.flush.scheduler.interval.ms",)
    assert synonyms("listener.name.x.plain.sasl.jaas.config")[1] == "sasl.jaas.config"
    assert base_name("listener.name.x.ssl.keystore.type") == "ssl.keystore.type"


def test_keys_that_may_change_and_keys_that_may_not_be_shown() -> None:
    assert is_dynamic("log.retention.ms")
    assert is_dynamic("leader.replication.throttled.rate")
    assert not is_dynamic("log.retention.hours")
    assert not is_dynamic("listener.name.x.max.connections")
    assert is_sensitive("ssl.keystore.password")
    assert is_sensitive("listener.name.x.ssl.keystore.password")
    assert is_sensitive("no.such.key")
    assert not [name for name in BROKER if is_sensitive(name) and BROKER[name].type.name != "PASSWORD"]


def test_every_setting_the_code_asks_for_exists() -> None:
    requested = re.compile(r"""get_(?:int|bool|float|str|optional_str|list)\(\s*"([^"]+)\"""")
    for source in (Path(__file__).parents[2] / "kbroker").rglob("*.py"):
        unknown = [
            name for name in requested.findall(source.read_text(encoding="utf-8")) if name not in BROKER
        ]
        assert not unknown, source
