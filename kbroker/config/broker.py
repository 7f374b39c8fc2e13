"""The table of broker settings and the effective settings of this broker.

A value is looked up in three layers, as in Kafka: set for this broker at run time, set for all
brokers at run time, set in the file or on the command line; then comes the default.
`listener.name.NAME.KEY` (for SASL also
`listener.name.NAME.MECHANISM.KEY`) sets KEY for one listener.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Self

from kbroker.config import listeners as endpoints
from kbroker.config.broker_groups import GROUPS
from kbroker.config.broker_kbroker import KBROKER
from kbroker.config.broker_log import LOG
from kbroker.config.broker_network import NETWORK
from kbroker.config.broker_security import SECURITY
from kbroker.config.broker_topics import TOPICS
from kbroker.config.broker_transactions import TRANSACTIONS
from kbroker.config.checks import at_least
from kbroker.config.crosschecks import crosscheck, warnings_of
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
    Setting(name, LONG, LONG_MAX, at_least(0), CLUSTER, doc=f"Most bytes a second that {what} may take.")
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

LISTENER_KEY = re.compile(r"listener\.name\.([^.]*)\.(.*)")
_WITH_MECHANISM = (
    "sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.server.callback.handler.class", "connections.max.reauth.ms",
)  # fmt: skip

_SAME = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS = {name: names for names in _SAME for name in names} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}
_HOUR_MS = 3_600_000
_NOTHING: Mapping[str, str] = MappingProxyType({})


def base_name(name: str) -> str:
    """KEY of `listener.name.NAME.KEY` or `listener.name.NAME.MECHANISM.KEY`, else the name
    itself."""
    match = LISTENER_KEY.fullmatch(name)
    if match is None:
        return name
    return next((key for key in _WITH_MECHANISM if match[2].endswith(key)), match[2])


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


class BrokerConfig:
    """Effective settings of one broker. Runs in: all processes. Immutable; a change makes a new
    one."""

    __slots__ = ("_values", "cluster", "own", "static")

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
        static = resolved({**properties, **overrides})
        return cls(static), list(warnings_of(static, row_of, BROKER))

    def with_dynamic(self, *, cluster: Mapping[str, str], own: Mapping[str, str]) -> "BrokerConfig":
        """The same file under other dynamic layers. Raises ConfigError."""
        return BrokerConfig(self.static, cluster, own)

    def value(self, name: str) -> Value:
        """Effective value of a row, or of a key with listener prefix that is set."""
        if name in self._values:
            return self._values[name]
        return self._values[base_name(name)]

    def items(self) -> Iterable[tuple[str, Value]]:
        """Every row's effective value, and the prefixed keys that are set."""
        return self._values.items()

    def get_int(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def get_bool(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def get_float(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, float | int), name
        return float(value)

    def get_str(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def get_optional_str(self, name: str) -> str | None:
        value = self._values[name]
        assert value is None or isinstance(value, str), name
        return value

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), name
        return value

    def of_listener(self, listener: str, name: str, mechanism: str = "") -> Value:
        """Value of `name` for one listener (and SASL mechanism): the most specific key that is
        set."""
        prefix = f"listener.name.{listener.lower()}."
        keys = [f"{prefix}{mechanism.lower()}.{name}"] if mechanism else []
        keys.append(f"{prefix}{name}")
        return next((self._values[key] for key in keys if key in self._values), self._values[name])

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """log.dirs, or log.dir when it is unset."""
        return self.get_list("log.dir" if self._values["log.dirs"] is None else "log.dirs")

    @property
    def log_roll_ms(self) -> int:
        return self._first("log.roll.ms", ("log.roll.hours", _HOUR_MS))

    @property
    def log_roll_jitter_ms(self) -> int:
        return self._first("log.roll.jitter.ms", ("log.roll.jitter.hours", _HOUR_MS))

    @property
    def log_retention_ms(self) -> int:
        """-1 is without limit."""
        minutes, hours = ("log.retention.minutes", 60_000), ("log.retention.hours", _HOUR_MS)
        return max(-1, self._first("log.retention.ms", minutes, hours))

    @property
    def log_flush_interval_ms(self) -> int:
        return self._first("log.flush.interval.ms", ("log.flush.scheduler.interval.ms", 1))

    def _first(self, name: str, *others: tuple[str, int]) -> int:
        for key, factor in ((name, 1), *others):
            value = self._values[key]
            if isinstance(value, int):
                return value * factor
        raise KeyError(name)

    @property
    def protocol_map(self) -> dict[str, endpoints.SecurityProtocol]:
        """Security protocol of each listener name."""
        key = "listener.security.protocol.map"
        return endpoints.parse_protocol_map(key, self.get_str(key))

    @property
    def listeners(self) -> tuple[endpoints.Endpoint, ...]:
        """The listeners to open: those that are not a controller's."""
        return self._endpoints("listeners")

    @property
    def advertised_listeners(self) -> tuple[endpoints.Endpoint, ...]:
        """The addresses that clients get. An empty host or port 0 means the listener's bound
        one."""
        unset = self._values["advertised.listeners"] is None
        return self._endpoints("listeners" if unset else "advertised.listeners")

    def _endpoints(self, key: str) -> tuple[endpoints.Endpoint, ...]:
        controllers = {name.upper() for name in self.get_list("controller.listener.names")}
        entries = (e for e in self.get_list(key) if endpoints.listener_name(e) not in controllers)
        return endpoints.parse_listeners(entries, self.protocol_map)

    @property
    def inter_broker_listener(self) -> str:
        """Name of the listener given out where only one can be: named, or the first of the named
        protocol."""
        named = self.get_optional_str("inter.broker.listener.name")
        return (named or self.get_str("security.inter.broker.protocol")).upper()


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
