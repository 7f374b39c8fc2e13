"""Internal topics are made as Apache Kafka makes them."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.control.changes.internal_topic import spec_for

SEGMENT = "104857600"


@pytest.mark.parametrize(
    ("name", "partitions", "configs"),
    [
        (
            "__consumer_offsets",
            50,
            {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": SEGMENT},
        ),
        (
            "__transaction_state",
            50,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": SEGMENT,
                "unclean.leader.election.enable": "false",
            },
        ),
        (
            "__share_group_state",
            50,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": "1",
                "retention.ms": "-1",
                "segment.bytes": SEGMENT,
            },
        ),
    ],
)
def test_an_internal_topic_has_its_own_settings(name: str, partitions: int, configs: dict[str, str]) -> None:
    made = spec_for(name, BrokerConfig())
    assert (made.num_partitions, made.configs) == (partitions, configs)


def test_another_topic_has_the_defaults() -> None:
    assert not spec_for("t", BrokerConfig()).configs
