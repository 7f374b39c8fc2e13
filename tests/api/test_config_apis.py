"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: sources, secrets,
loggers."""

import asyncio
import logging
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kbroker.api import describe_configs
from kbroker.api.describe_configs import MAX_REPEATED
from kbroker.control.changes import loggers
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages import alter_configs as ac
from kbroker.protocol.messages import describe_configs as dc
from kbroker.protocol.messages import incremental_alter_configs as iac
from kbroker.protocol.messages import list_config_resources as lcr
from tests.api.in_process import ask
from tests.control.fakes import World, world

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = range(1, 6)
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path, {"log.retention.ms": "111", "ssl.keystore.password": "hush"}) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("a")]))
        yield one


def describe(made: World, kind: int, name: str, *keys: str, version: int = 4) -> Any:
    resource = dc.DescribeConfigsResource(kind, name, list(keys) or None)
    request = dc.DescribeConfigsRequest([resource], True, True)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_CONFIGS, version, request))
    return answer.results[0]


def alter(
    made: World, kind: int, name: str, *changes: tuple[str, int, str | None], validate: bool = False
) -> int:
    resource = iac.AlterConfigsResource(kind, name, [iac.AlterableConfig(*change) for change in changes])
    request = iac.IncrementalAlterConfigsRequest([resource], validate)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request))
    return int(answer.responses[0].error_code)


def value(made: World, kind: int, name: str, key: str) -> tuple[str | None, int]:
    (config,) = describe(made, kind, name, key).configs
    return config.value, config.config_source


def test_a_value_comes_from_the_nearest_layer(made: World) -> None:
    assert value(made, TOPIC, "a", "retention.ms") == ("111", STATIC)
    alter(made, BROKER, "", ("log.retention.ms", SET, "222"))
    assert value(made, TOPIC, "a", "retention.ms") == ("222", DYNAMIC_DEFAULT)
    alter(made, BROKER, "1", ("log.retention.ms", SET, "333"))
    assert value(made, TOPIC, "a", "retention.ms") == ("333", DYNAMIC_BROKER)
    alter(made, TOPIC, "a", ("retention.ms", SET, "444"))
    assert value(made, TOPIC, "a", "retention.ms") == ("444", DYNAMIC_TOPIC)
    assert value(made, TOPIC, "a", "cleanup.policy") == ("delete", DEFAULT)


def test_synonyms_come_in_the_order_in_which_they_count(made: World) -> None:
    alter(made, BROKER, "", ("log.retention.ms", SET, "222"))
    alter(made, BROKER, "1", ("log.retention.ms", SET, "333"))
    alter(made, TOPIC, "a", ("retention.ms", SET, "444"))
    (config,) = describe(made, TOPIC, "a", "retention.ms").configs
    assert [(s.name, s.value, s.source) for s in config.synonyms][:4] == [
        ("retention.ms", "444", DYNAMIC_TOPIC),
        ("log.retention.ms", "333", DYNAMIC_BROKER),
        ("log.retention.ms", "222", DYNAMIC_DEFAULT),
        ("log.retention.ms", "111", STATIC),
    ]


def answers_of(made: World, resources: list[dc.DescribeConfigsResource]) -> Any:
    """The answer to DescribeConfigs of several entries."""
    return asyncio.run(ask(made.broker, ApiKey.DESCRIBE_CONFIGS, 4, dc.DescribeConfigsRequest(resources)))


def test_no_keys_and_an_empty_list_ask_for_everything(made: World) -> None:
    everything = {config.name for config in describe(made, BROKER, "1").configs}
    assert {"log.dirs", "num.partitions", "message.max.bytes"} <= everything
    request = dc.DescribeConfigsRequest([dc.DescribeConfigsResource(BROKER, "1", [])])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_CONFIGS, 4, request))
    assert {config.name for config in answer.results[0].configs} == everything


def test_a_resource_that_is_named_with_other_keys_has_a_result_for_them(made: World) -> None:
    """It had one result, for the keys of its first entry."""
    keys: list[Any] = [["num.partitions"], ["log.dirs"], None, ["num.partitions"], ["log.dirs", "no.such"]]
    answer = answers_of(made, [dc.DescribeConfigsResource(BROKER, "1", each) for each in keys])
    names = [[config.name for config in result.configs] for result in answer.results]
    assert [names[0], names[1], names[3]] == [["num.partitions"], ["log.dirs"], ["log.dirs"]]
    assert len(names[2]) > 100
    assert len(names) == 4


def test_the_results_for_other_keys_are_bounded(made: World) -> None:
    keys = [["log.dirs", f"none.{number}"] for number in range(1000)]
    resources = [dc.DescribeConfigsResource(BROKER, "1", each) for each in keys]
    resources.append(dc.DescribeConfigsResource(TOPIC, "a", None))
    answer = answers_of(made, resources)
    assert len(answer.results) == 1 + MAX_REPEATED + 1
    assert answer.results[-1].resource_name == "a"


def test_the_keys_of_many_entries_are_not_held_twice() -> None:
    """Sets of them had forty times the bytes of the request."""
    letters = [chr(33 + number) for number in range(90)]
    entries = [dc.DescribeConfigsResource(TOPIC, str(number), letters) for number in range(500)]
    tracemalloc.start()
    try:
        assert len(describe_configs._named(entries)) == 500
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_secrets_are_never_shown(made: World) -> None:
    (config,) = describe(made, BROKER, "1", "ssl.keystore.password").configs
    assert (config.value, config.is_sensitive) == (None, True)
    assert all(synonym.value is None for synonym in config.synonyms)


@pytest.mark.parametrize("version", range(1, 5))
def test_an_unknown_topic_has_an_error_and_no_configs(made: World, version: int) -> None:
    result = describe(made, TOPIC, "absent", version=version)
    assert (result.error_code, result.configs) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_replacing_forgets_what_is_not_named(made: World) -> None:
    alter(made, TOPIC, "a", ("retention.ms", SET, "1"), ("flush.ms", SET, "2"))
    resource = ac.AlterConfigsResource(TOPIC, "a", [ac.AlterableConfig("flush.ms", "3")])
    answer: Any = asyncio.run(
        ask(made.broker, ApiKey.ALTER_CONFIGS, 2, ac.AlterConfigsRequest([resource], False))
    )
    assert answer.responses[0].error_code == 0
    assert made.broker.override(TOPIC, "a") == {"flush.ms": "3"}


def test_one_bad_resource_does_not_stop_the_others(made: World) -> None:
    request = iac.IncrementalAlterConfigsRequest(
        [
            iac.AlterConfigsResource(TOPIC, "absent", [iac.AlterableConfig("flush.ms", SET, "1")]),
            iac.AlterConfigsResource(TOPIC, "a", [iac.AlterableConfig("flush.ms", SET, "1")]),
        ]
    )
    answer: Any = asyncio.run(ask(made.broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request))
    codes = [response.error_code for response in answer.responses]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert made.broker.topic_config("a").flush_ms == 1


def test_a_validated_change_changes_nothing(made: World) -> None:
    assert alter(made, TOPIC, "a", ("flush.ms", SET, "1"), validate=True) == 0
    assert made.broker.override(TOPIC, "a") == {}


def test_a_read_only_setting_is_refused(made: World) -> None:
    assert alter(made, BROKER, "1", ("node.id", SET, "2")) == ErrorCode.INVALID_REQUEST
    (config,) = describe(made, BROKER, "1", "node.id").configs
    assert config.read_only


def test_levels_of_loggers_are_changed_and_shown(made: World) -> None:
    name = "kbroker.control.changes.topic_change"
    logger = logging.getLogger(name)
    try:
        assert alter(made, LOGGER, "1", (name, SET, "DEBUG")) == 0
        assert logger.getEffectiveLevel() == logging.DEBUG
        assert describe(made, LOGGER, "1", name).configs[0].value == "DEBUG"
        assert alter(made, LOGGER, "1", (name, DELETE, None)) == 0
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(logging.NOTSET)


def test_loggers_of_apache_kafka_set_those_of_kbroker(made: World) -> None:
    """Steps of Kafka's own test: a logger without a level has that of its ancestor `kafka`."""
    names = ("kafka", "kafka.server.ControllerServer", "kafka.server.ReplicaManager")

    def shown() -> list[str]:
        values = {config.name: config.value for config in describe(made, LOGGER, "1").configs}
        return [values[name] for name in names]

    try:
        assert alter(made, LOGGER, "1", ("kafka", SET, "DEBUG")) == 0
        assert shown() == ["DEBUG", "DEBUG", "DEBUG"]
        assert alter(made, LOGGER, "1", (names[1], SET, "INFO"), (names[2], SET, "ERROR")) == 0
        assert shown() == ["DEBUG", "INFO", "ERROR"]
        assert logging.getLogger("kbroker.control.worker").level == logging.INFO
        assert alter(made, LOGGER, "1", (names[1], DELETE, None)) == 0
        assert shown() == ["DEBUG", "DEBUG", "ERROR"]
    finally:
        for name in ("kbroker", "kbroker.control.worker", "kbroker.control.replication.service"):
            logging.getLogger(name).setLevel(logging.NOTSET)


def test_every_alias_of_a_logger_is_described(made: World) -> None:
    described = {config.name for config in describe(made, LOGGER, "1").configs}
    assert {"org.apache.kafka", "kafka.request.logger", "state.change.logger"} <= set(loggers.ALIASES)
    assert set(loggers.ALIASES) <= described
    assert set(loggers.ALIASES.values()) <= described


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("kafka.server.Nothing", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("kafka.server.ReplicaManager", SET, "OFF"), ErrorCode.INVALID_CONFIG),
        (("kbroker.nothing", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        (("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_changes_of_loggers_are_refused(
    made: World, change: tuple[str, int, str | None], code: int
) -> None:
    assert alter(made, LOGGER, "1", change) == code
    assert alter(made, LOGGER, "7", ("root", SET, "INFO")) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("7", "Unexpected node id. Expected 1, but received 7"),
        ("one", "Node id must be an integer, but it is: one"),
    ],
)
def test_loggers_of_another_broker_are_refused_with_kafkas_text(made: World, name: str, why: str) -> None:
    resource = iac.AlterConfigsResource(LOGGER, name, [iac.AlterableConfig("root", SET, "INFO")])
    request = iac.IncrementalAlterConfigsRequest([resource], True)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request))
    assert (answer.responses[0].error_code, answer.responses[0].error_message) == (42, why)


def test_a_logger_is_changed_once_in_a_request(made: World) -> None:
    """As any setting: each change of a level empties a cache of all loggers."""
    level = logging.getLogger().level
    twice = (("root", SET, "ERROR"), ("root", SET, "FATAL"))
    assert alter(made, LOGGER, "1", *twice) == ErrorCode.INVALID_REQUEST
    assert alter(made, LOGGER, "1", ("root", SET, None)) == ErrorCode.INVALID_REQUEST
    assert logging.getLogger().level == level


def listed(made: World, version: int, *kinds: int) -> list[tuple[int, str]]:
    request = lcr.ListConfigResourcesRequest(list(kinds))
    answer: Any = asyncio.run(ask(made.broker, ApiKey.LIST_CONFIG_RESOURCES, version, request))
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


def test_resources_are_listed_by_type(made: World) -> None:
    alter(made, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    alter(made, METRICS, "m", ("interval.ms", SET, "1000"))
    assert listed(made, 0) == [(METRICS, "m")]
    assert listed(made, 1, TOPIC) == [(TOPIC, "a")]
    every = [(GROUP, "g"), (METRICS, "m"), (LOGGER, "1"), (BROKER, "1"), (TOPIC, "a")]
    assert listed(made, 1) == listed(made, 1, TOPIC, GROUP, BROKER, METRICS, TOPIC, LOGGER) == every
    request = lcr.ListConfigResourcesRequest([99])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.LIST_CONFIG_RESOURCES, 1, request))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_every_node_is_a_resource(tmp_path: Path) -> None:
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(3))
    with world(tmp_path, {"kbroker.replica.sites": dirs}, workers=3, dirs=3) as made:
        nodes = [(kind, node) for kind in (LOGGER, BROKER) for node in "123"]
        assert listed(made, 1, BROKER, LOGGER) == nodes


def test_a_brokers_own_min_isr_is_refused_while_eligible_leaders_are_on(made: World) -> None:
    change = ("min.insync.replicas", SET, "2")
    assert alter(made, BROKER, "1", change) == ErrorCode.INVALID_CONFIG
    assert alter(made, BROKER, "", change) == 0
    made.broker.features["eligible.leader.replicas.version"] = 0
    assert alter(made, BROKER, "1", change) == 0


def test_topics_of_the_broker_and_its_registry_check_no_schemas(made: World) -> None:
    checked = ("confluent.value.schema.validation", SET, "true")
    asyncio.run(create_topics(made.broker, [NewTopic("_schemas")]))
    assert alter(made, TOPIC, "a", checked) == ErrorCode.NONE
    assert alter(made, TOPIC, "_schemas", checked) == ErrorCode.INVALID_CONFIG


def test_the_registrys_topic_is_not_created_with_checks_of_schemas(made: World) -> None:
    def create(name: str) -> TopicPlan | KafkaError:
        spec = NewTopic(name, configs={"confluent.key.schema.validation": "true"})
        return asyncio.run(create_topics(made.broker, [spec]))[name]

    assert isinstance(create("schemas"), TopicPlan)
    refused = create("_schemas")
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.INVALID_CONFIG
