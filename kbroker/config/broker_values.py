"""The values of a broker's settings: by type, by listener, and where several settings decide
one."""

import re
from collections.abc import Iterable

from kbroker.config import listeners as endpoints
from kbroker.config.setting import Value

LISTENER_KEY = re.compile(r"listener\.name\.([^.]*)\.(.*)")
_WITH_MECHANISM = (
    "sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class",
    "sasl.server.callback.handler.class", "connections.max.reauth.ms",
)  # fmt: skip
_HOUR_MS = 3_600_000


def base_name(name: str) -> str:
    """KEY of `listener.name.NAME.KEY` or `listener.name.NAME.MECHANISM.KEY`, else the name
    itself."""
    match = LISTENER_KEY.fullmatch(name)
    if match is None:
        return name
    return next((key for key in _WITH_MECHANISM if match[2].endswith(key)), match[2])


class BrokerValues:
    """Values by name of setting. Runs in: all processes. Immutable."""

    __slots__ = ("_values",)
    _values: dict[str, Value]

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

    def is_set_for_listener(self, listener: str, name: str) -> bool:
        """Whether a listener has a value of its own."""
        return f"listener.name.{listener.lower()}.{name}" in self._values

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
        """Name of the listener for answers with one address: inter.broker.listener.name, else the
        name of security.inter.broker.protocol."""
        named = self.get_optional_str("inter.broker.listener.name")
        return (named or self.get_str("security.inter.broker.protocol")).upper()
