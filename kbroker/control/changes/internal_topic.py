"""The coordinators' topics: created when first needed, with Kafka's settings
(AutoTopicCreationManager)."""

from kbroker.config.broker import BrokerConfig
from kbroker.control.broker import Broker
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.catalogue import Topic
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.errors import ErrorCode, KafkaError


def spec_for(name: str, config: BrokerConfig) -> NewTopic:
    """The spec of an automatically created topic: internal topics have their own settings, others
    the defaults."""
    if name == CONSUMER_OFFSETS:
        compacted = {"cleanup.policy": "compact", "compression.type": "producer"}
        return _spec(name, config, "offsets.topic", compacted)
    if name == TRANSACTION_STATE:
        prefix = "transaction.state.log"
        configs = {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": _min_isr(config, prefix),
        }
        return _spec(name, config, prefix, configs)
    if name == SHARE_GROUP_STATE:
        prefix = "share.coordinator.state.topic"
        configs = {
            "compression.type": "producer",
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "min.insync.replicas": _min_isr(config, prefix),
        }
        return _spec(name, config, prefix, configs)
    return NewTopic(name)


def _spec(name: str, config: BrokerConfig, prefix: str, configs: dict[str, str]) -> NewTopic:
    """The spec of a coordinators' topic. prefix: of its settings."""
    return NewTopic(
        name,
        config.get_int(f"{prefix}.num.partitions"),
        config.get_int(f"{prefix}.replication.factor"),
        configs=configs | {"segment.bytes": str(config.get_int(f"{prefix}.segment.bytes"))},
    )


def _min_isr(config: BrokerConfig, prefix: str) -> str:
    """The topic's min.insync.replicas: 1 when replication factors are clamped. With the usual 2 of
    3 replicas one may fail, and so it must be with two replicas on two sites; `clamp.py` alone
    would leave 2 of 2."""
    wanted = config.get_int(f"{prefix}.min.isr")
    return str(min(wanted, 1) if config.get_bool("kbroker.clamp.replication.factor") else wanted)


async def ensure(broker: Broker, name: str) -> Topic:
    """The internal topic; created if it does not exist. Raises KafkaError when that fails."""
    if (topic := broker.catalogue.get(name)) is not None:
        return topic
    result = (await create_topics(broker, [spec_for(name, broker.config)]))[name]
    if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise result
    topic = broker.catalogue.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    await broker.log_openings.wait([name])  # its coordinators read the logs at once
    return topic
