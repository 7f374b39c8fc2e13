"""The settings of one resource in DescribeConfigs, from the config tables."""

from kbroker.config.describe import (
    Entry,
    Keys,
    Source,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from kbroker.config.setting import Type, java_int
from kbroker.control.broker import Broker
from kbroker.control.changes.loggers import levels
from kbroker.control.metadata.config_resource import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kbroker.control.metadata.topic_name import validate
from kbroker.protocol.errors import ErrorCode, KafkaError

_UNNAMED = {
    BROKER_LOGGER: "Broker id must not be empty",
    CLIENT_METRICS: "Client metrics subscription name must not be empty",
    GROUP: "Group name must not be empty",
}


def check(broker: Broker, kind: int, name: str) -> str:
    """Check that the resource exists; its own name: a client may write the id of a broker in other
    ways, such as 01. Raises KafkaError with Kafka's text."""
    if not name and kind in _UNNAMED:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _UNNAMED[kind])
    if kind == TOPIC:
        validate(name)
        if broker.catalogue.get(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif kind == BROKER_LOGGER:
        return _checked_id(broker, name, "")
    elif kind == BROKER and name:
        return _checked_id(broker, name, " or empty string,")
    return name


def entries_of(broker: Broker, kind: int, name: str, keys: Keys) -> list[Entry]:
    """The settings of a resource that passes `check`."""
    if kind == TOPIC:
        return describe_topic(broker.override(kind, name), broker.config, keys)
    if kind == BROKER and not name:
        return describe_all_brokers(broker.config, keys)
    if kind == BROKER:
        config = broker.config
        if name != str(broker.node_id):
            config = config.with_dynamic(cluster=broker.override(kind, ""), own=broker.override(kind, name))
        return describe_broker(config, keys)
    if kind == BROKER_LOGGER:
        return _loggers(keys)
    if kind == CLIENT_METRICS:
        return describe_client_metrics(broker.override(kind, name), keys)
    assert kind == GROUP
    return describe_group(broker.override(kind, name), broker.config, keys)


def _checked_id(broker: Broker, name: str, or_else: str) -> str:
    try:
        number = java_int(name)
    except ValueError:
        why = f"Broker id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why) from None
    if number not in [site.node_id for site in broker.nodes.sites]:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node_id}{or_else} but received {name}",
        )
    return str(number)


def _loggers(keys: Keys) -> list[Entry]:
    return [
        Entry(name, level, Source.DYNAMIC_BROKER_LOGGER, False, False, (), Type.UNKNOWN, None)
        for name, level in levels().items()
        if not keys or name in keys
    ]
