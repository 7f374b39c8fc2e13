"""The table of broker settings and the effective settings of this broker.

A value is looked up in three layers, as in Kafka: set for this broker at run time, set for all
brokers at run time, set in the file or on the command line; then comes the default.
`listener.name.NAME.KEY` (for SASL also
`listener.name.NAME.MECHANISM.KEY`) sets KEY for one listener.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

from kbroker.config.broker_groups import GROUPS
from kbroker.config.broker_kbroker import KBROKER
from kbroker.config.broker_log import LOG
from kbroker.config.broker_network import NETWORK
from kbroker.config.broker_security import SECURITY
from kbroker.config.broker_topics import TOPICS
from kbroker.config.broker_transactions import TRANSACTIONS
from kbroker.config.broker_values import BrokerValues, base_name
from kbroker.config.checks import at_least
from kbroker.config.crosschecks import crosscheck, warnings_of, without_effect
from kbroker.config.inert import INERT_GROUPS
from kbroker.config.providers import resolved
from kbroker.config.setting import (
    CLUSTER,
    LONG,
    LONG_MAX,
    NO,
    ConfigError,
    Setting,
    Type,
    Value,
    table,
)

BROKER = table(
    NETWORK, LOG, TOPICS, GROUPS, TRANSACTIONS, SECURITY, KBROKER, *(group.rows for group in INERT_GROUPS)
)

# Set only at run time, never in the file (Kafka's DynamicConfig.Broker).
DYNAMIC_ONLY = table(
    Setting(name, LONG, LONG_MAX, at_least(0), CLUSTER, doc=f"Maximum bytes a second for {what}.")
    for name, what in (
        (
            "leader.replication.throttled.rate",
            "sending to throttled replicas that are out of sync",
        ),
        (
            "follower.replication.throttled.rate",
            "copying by throttled replicas that are out of sync",
        ),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "moving replicas between log directories"),
    )
)

_SAME = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS = {name: names for names in _SAME for name in names} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}
_NOTHING: Mapping[str, str] = MappingProxyType({})


def synonyms(name: str) -> tuple[str, ...]:
    """Names under which `name` may be set, in order of precedence (DynamicBrokerConfig)."""
    base = base_name(name)
    return (name, base) if base != name else _SYNONYMS.get(name, (name,))


def row_of(name: str) -> Setting | None:
    """The row of a key, with or without listener prefix."""
    return BROKER.get(name) or BROKER.get(base_name(name)) or DYNAMIC_ONLY.get(name)


def is_dynamic(name: str) -> bool:
    """Whether a key by itself, without listener prefix, may change at run time."""
    row = BROKER.get(name) or DYNAMIC_ONLY.get(name)
    return row is not None and row.dynamic is not NO


class BrokerConfig(BrokerValues):
    """Effective settings of one broker. Runs in: all processes. Immutable; a change makes a new
    one."""

    __slots__ = ("cluster", "own", "static")

    def __init__(
        self,
        static: Mapping[str, str] = _NOTHING,
        cluster: Mapping[str, str] = _NOTHING,
        own: Mapping[str, str] = _NOTHING,
    ) -> None:
        """`static` file and command line, `cluster` dynamic for all brokers, `own` dynamic for this
        one.

        Raises ConfigError with every problem found, one a line.
        """
        self.static = MappingProxyType(_with_node_id(static))
        self.cluster = MappingProxyType(dict(cluster))
        self.own = MappingProxyType(dict(own))
        problems: list[str] = []
        self._values = _parse({**self.static, **self.cluster, **self.own}, problems)
        if not problems:
            problems = list(crosscheck(self))
        if problems:
            raise ConfigError("\n".join(dict.fromkeys(problems)))

    @classmethod
    def load(
        cls, properties: Mapping[str, str], overrides: Mapping[str, str] = _NOTHING
    ) -> tuple[Self, list[str]]:
        """Settings from a file's pairs and the command line's, and the warnings to log once.

        Raises ConfigError with every problem found, one a line.
        """
        given = {**properties, **overrides}
        _check_text(given)
        static = resolved(given)
        _check_text(static)
        made = cls(static)
        return made, [*warnings_of(static, row_of, BROKER), *without_effect(made)]

    def with_dynamic(self, *, cluster: Mapping[str, str], own: Mapping[str, str]) -> "BrokerConfig":
        """The configuration with new dynamic layers over the same file. Raises ConfigError."""
        return BrokerConfig(self.static, cluster, own)


def _check_text(pairs: Mapping[str, str]) -> None:
    """Raises ConfigError for values that no path of a file and no text of a client can hold."""
    problems = []
    for name, text in pairs.items():
        try:
            whole = b"\0" not in os.fsencode(text)
        except UnicodeEncodeError:  # half of a surrogate pair
            whole = False
        if not whole:
            problems.append(f"Invalid value for configuration {name}: it is not text")
    if problems:
        raise ConfigError("\n".join(problems))


def _with_node_id(static: Mapping[str, str]) -> dict[str, str]:
    """When only one of node.id and broker.id is set, the other has the same value
    (KafkaConfig.populateSynonyms); Kafka wants one of them, we have a default."""
    ours = str(BROKER["node.id"].default)
    node_id = static.get("node.id", static.get("broker.id", ours))
    return {"node.id": node_id, "broker.id": node_id, **static}


def _parse(texts: Mapping[str, str], problems: list[str]) -> dict[str, Value]:
    """Every row parsed or defaulted, and the prefixed keys that are set; errors go to
    `problems`."""
    values: dict[str, Value] = {name: row.default_value() for name, row in BROKER.items()}
    for name, text in texts.items():
        row = row_of(name)
        if row is None:
            continue
        try:
            values[name] = row.parse(text)
        except ConfigError as error:
            problems.append(str(error).replace(f"configuration {row.name}:", f"configuration {name}:"))
    return values


def is_sensitive(name: str) -> bool:
    """Whether a value may not be shown: passwords, and every key we do not know (as Kafka does)."""
    row = row_of(name)
    return row is None or row.type is Type.PASSWORD
