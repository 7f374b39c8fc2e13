"""Random changes of configs that build on one another, and what is stored then.

Single values of every setting are compared in tests/config; here it is operations on what earlier
ones have left: of both APIs, of topics, groups, client metrics subscriptions and the broker.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from kbroker.config.client_metrics import CLIENT_METRICS
from kbroker.config.group import GROUP
from kbroker.config.setting import Type
from kbroker.config.topic import TOPIC
from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import alter_configs as ac
from kbroker.protocol.messages import describe_configs as dcf
from kbroker.protocol.messages import incremental_alter_configs as iac
from kbroker.protocol.schema import Struct
from tests.compat.odd_world import CONFIGURED
from tests.config.differences import is_later, is_own

TOPIC_KIND, BROKER_KIND, METRICS_KIND, GROUP_KIND = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
BROKERS = (
    "log.retention.ms", "log.segment.bytes", "log.cleanup.policy", "log.flush.interval.ms", "log.roll.ms",
    "compression.type", "log.message.timestamp.type", "unclean.leader.election.enable", "log.preallocate",
    "log.cleaner.min.cleanable.ratio", "leader.replication.throttled.rate", "sasl.enabled.mechanisms",
    "listener.name.plaintext.max.connections", "min.insync.replicas", "nope", "node.id", "log.retention.hours",
)  # fmt: skip
NAMES = {
    TOPIC_KIND: (*(name for name in TOPIC if not is_own(name) and not is_later(name)), *["cleanup.policy"] * 12,
                 *["leader.replication.throttled.replicas"] * 6, "nope"),
    GROUP_KIND: (*(name for name in GROUP if not is_own(name) and not is_later(name)), "nope"),
    METRICS_KIND: (*CLIENT_METRICS, *CLIENT_METRICS, "nope"),
    BROKER_KIND: BROKERS,
}  # fmt: skip
RESOURCES = {
    TOPIC_KIND: (*CONFIGURED, "absent"),
    GROUP_KIND: ("group-1", "group-2"),
    METRICS_KIND: ("metrics-1", "metrics-2"),
    BROKER_KIND: ("1", "", ""),
}
LISTS = ("compact", "delete", "compact,delete", "", ",", "compact,", "delete,delete", " compact , delete", "0:1",
         "1:1,0:1", "*", "x", "client_id=a.*", "client_id=b,client_software_name=c", "PLAIN", "a.b.c,d")  # fmt: skip
TEXTS = ("gzip", "producer", "CreateTime", "LogAppendTime", "earliest", "latest", "read_committed", "x", "")
NUMBERS = (
    "-2",
    "-1",
    "0",
    "1",
    "2",
    "5",
    "100",
    "999",
    "1000",
    "5000",
    "45000",
    "50000",
    "60000",
    "1048576",
    "x",
    "",
)
VALUES = {
    Type.LIST: LISTS,
    Type.STRING: TEXTS,
    Type.CLASS: TEXTS,
    Type.BOOLEAN: ("true", "FALSE", "false", "x", ""),
}
ROWS = {**TOPIC, **GROUP, **CLIENT_METRICS}


class Step(NamedTuple):
    """One request: a resource, operations on its configs."""

    kind: int
    name: str
    legacy: bool
    validate_only: bool
    operations: tuple[tuple[str, int, str | None], ...]

    @property
    def api(self) -> K:
        return K.ALTER_CONFIGS if self.legacy else K.INCREMENTAL_ALTER_CONFIGS

    def request(self) -> Struct:
        if self.legacy:
            pairs = [ac.AlterableConfig(key, value) for key, _, value in self.operations]
            return ac.AlterConfigsRequest(
                [ac.AlterConfigsResource(self.kind, self.name, pairs)], self.validate_only
            )
        configs = [iac.AlterableConfig(*each) for each in self.operations]
        return iac.IncrementalAlterConfigsRequest(
            [iac.AlterConfigsResource(self.kind, self.name, configs)], self.validate_only
        )


def steps(seed: int, count: int) -> Iterator[Step]:
    """The same for every broker."""
    rng = random.Random(seed)
    kinds = (TOPIC_KIND, TOPIC_KIND, TOPIC_KIND, GROUP_KIND, METRICS_KIND, BROKER_KIND)
    for _ in range(count):
        kind = rng.choice(kinds)
        operations = tuple(_operation(rng, kind) for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3))))
        yield Step(kind, rng.choice(RESOURCES[kind]), rng.random() < 0.2, rng.random() < 0.1, operations)


def _operation(rng: random.Random, kind: int) -> tuple[str, int, str | None]:
    name = rng.choice(NAMES[kind])
    row = ROWS.get(name)
    known = VALUES.get(Type.STRING if row is None else row.type, NUMBERS)
    if kind == BROKER_KIND:
        known = {
            "log.cleanup.policy": LISTS,
            "sasl.enabled.mechanisms": LISTS,
            "compression.type": TEXTS,
        }.get(name, NUMBERS)
    lists = known is LISTS
    operation = rng.choice(
        (SET, DELETE, APPEND, APPEND, SUBTRACT) if lists else (SET, SET, SET, SET, DELETE, APPEND, SUBTRACT)
    )
    value = None if rng.random() < (0.6 if operation == DELETE else 0.03) else rng.choice(known)
    return name, operation, value


def stored(kind: int, name: str) -> Struct:
    """The request for a resource's settings."""
    return dcf.DescribeConfigsRequest([dcf.DescribeConfigsResource(kind, name, None)], True)


DYNAMIC = {1, 2, 3, 7, 8}
"""Sources of settings that were changed at run time."""


def changed(answer: Any) -> object:
    """What was set at run time, of an answer to `stored`."""
    (result,) = answer.results
    return {"error_code": result.error_code} | {
        each.name: (each.value, each.config_source, each.read_only, each.is_sensitive,
                    [(one.name, one.value, one.source) for one in each.synonyms])
        for each in result.configs
        if each.config_source in DYNAMIC
    }  # fmt: skip
