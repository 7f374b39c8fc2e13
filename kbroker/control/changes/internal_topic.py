"""The coordinators' topics: created when first needed, with Kafka's settings
(AutoTopicCreationManager)."""

import asyncio
from typing import Final, NamedTuple

from kbroker.config.broker import BrokerConfig
from kbroker.control.broker import Broker
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.log_openings import OPEN_S
from kbroker.control.metadata.catalogue import Topic
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.errors import ErrorCode, KafkaError


class _Row(NamedTuple):
    """prefix: of the settings with partitions, replicas and segment bytes. min_isr: there is one
    for min.insync.replicas, too. configs: that no setting changes."""

    prefix: str
    min_isr: bool
    configs: dict[str, str]


TABLE: Final = {
    CONSUMER_OFFSETS: _Row(
        "offsets.topic", False, {"cleanup.policy": "compact", "compression.type": "producer"}
    ),
    TRANSACTION_STATE: _Row(
        "transaction.state.log",
        True,
        {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
        },
    ),
    SHARE_GROUP_STATE: _Row(
        "share.coordinator.state.topic",
        True,
        {"compression.type": "producer", "cleanup.policy": "delete", "retention.ms": "-1"},
    ),
}
"""The settings of the coordinators' topics, by name."""


def spec_for(name: str, config: BrokerConfig) -> NewTopic:
    """The spec of an automatically created topic: internal topics have their own settings, others
    the defaults."""
    row = TABLE.get(name)
    if row is None:
        return NewTopic(name)
    configs = dict(row.configs)
    if row.min_isr:
        configs["min.insync.replicas"] = _min_isr(config, row.prefix)
    configs["segment.bytes"] = str(config.get_int(f"{row.prefix}.segment.bytes"))
    return NewTopic(
        name,
        config.get_int(f"{row.prefix}.num.partitions"),
        config.get_int(f"{row.prefix}.replication.factor"),
        configs=configs,
    )


def _min_isr(config: BrokerConfig, prefix: str) -> str:
    """The topic's min.insync.replicas: 1 when replication factors are clamped. With the usual 2 of
    3 replicas one may fail, and so it must be with two replicas on two sites; `clamp.py` alone
    would leave 2 of 2."""
    min_isr = config.get_int(f"{prefix}.min.isr")
    return str(min(min_isr, 1) if config.get_bool("kbroker.clamp.replication.factor") else min_isr)


async def ensure(broker: Broker, name: str) -> Topic:
    """The internal topic; created if it does not exist. Its logs may be opened later, if a disk
    hangs. Raises KafkaError when that fails."""
    if (topic := broker.catalogue.get(name)) is not None:
        return topic
    result = (await create_topics(broker, [spec_for(name, broker.config)]))[name]
    if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise result
    topic = broker.catalogue.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    late_s = asyncio.get_running_loop().time() + OPEN_S
    await broker.log_openings.still_pending([name], late_s)  # its coordinators read the logs at once
    return topic
