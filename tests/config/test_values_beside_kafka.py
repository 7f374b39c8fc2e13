"""Every kind of value for every setting of logs, compaction, replication and recovery: taken or
refused as by Kafka."""

import pytest

from kbroker.config import properties
from kbroker.config.alter import Alteration, AlterError, alter_broker, alter_topic
from kbroker.config.broker import BROKER, BrokerConfig
from kbroker.config.topic import TOPIC
from tests.config.differences import OTHER_REFUSAL, is_later, is_own
from tests.config.kafka_admin import TOPIC_NAME, ConfigAdmin
from tests.peer.apache_kafka import ApacheKafka

pytestmark = pytest.mark.kafka

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
VALUES = (
    None, "", " ", "x", "true", "TRUE ", "-131073", "-3", "-2", "-1", "0", " 1 ", "3", "9", "18", "23", "100",
    "1048576", "2147483648", "9223372036854775807", "9223372036854775808", "0.5", "1.0", "1.1", "-0.1", "1e3",
    "0x1f", "gzip", "GZIP", "compact", "compact,delete", "delete, compact", "none", "producer", "CreateTime",
    "LogAppendTime", "0:1", "*",
)  # fmt: skip
OPERATIONS = [(SET, value) for value in VALUES] + [(DELETE, None), (APPEND, "1"), (SUBTRACT, "1")]
AREAS = (
    "auto.", "background.", "compression.", "cordoned.", "default.", "file.", "follower.", "leader.", "log.", "log4j.",
    "message.", "min.insync.", "num.", "replica", "unclean.",
)  # fmt: skip

Answers = dict[tuple[int, str | None], tuple[int, str | None]]


@pytest.fixture(scope="module")
def config(fresh_kafka: ApacheKafka) -> BrokerConfig:
    """Our reading of the file the node runs on, with as many processes as Kafka has threads when
    none are named."""
    threads = {"num.network.threads": "3", "num.io.threads": "8"}
    return BrokerConfig.load({**threads, **properties.read(fresh_kafka.folder / "server.properties")})[0]


def answer(config: BrokerConfig, resource: int, name: str, alteration: Alteration) -> tuple[int, str | None]:
    """Error code and text of our functions."""
    try:
        if resource == TOPIC_RESOURCE:
            alter_topic({}, [alteration], config)
        else:
            alter_broker(name, [alteration], config, eligible_leaders=True)
    except AlterError as error:
        return error.code, error.message
    return 0, None


def compare(admin: ConfigAdmin, config: BrokerConfig, resource: int, name: str, key: str) -> None:
    ours: Answers = {}
    kafkas: Answers = {}
    for op, value in OPERATIONS:
        if (key, value) in OTHER_REFUSAL:
            continue
        ours[op, value] = answer(config, resource, name, Alteration(key, op, value))
        kafkas[op, value] = admin.validate(resource, name, (op, key, value))
    assert ours == kafkas


@pytest.mark.parametrize("key", [key for key in TOPIC if not is_own(key) and not is_later(key)])
def test_a_topic_takes_and_refuses_what_kafkas_does(
    admin: ConfigAdmin, config: BrokerConfig, key: str
) -> None:
    compare(admin, config, TOPIC_RESOURCE, TOPIC_NAME, key)


@pytest.mark.parametrize("broker", ["1", ""])
@pytest.mark.parametrize("key", [key for key in BROKER if key.startswith(AREAS)])
def test_a_broker_takes_and_refuses_what_kafkas_does(
    admin: ConfigAdmin, config: BrokerConfig, key: str, broker: str
) -> None:
    compare(admin, config, BROKER_RESOURCE, broker, key)
