"""The table of client metrics settings (KIP-714): which metrics clients push, how often, and which
clients."""

from collections.abc import Iterable, Mapping
from typing import Self

from msgspec import Struct

from kbroker.config.checks import list_of
from kbroker.config.client_pattern import ClientPattern, InvalidPattern, compile_pattern
from kbroker.config.setting import INT, LIST, ConfigError, Setting, Value, table

# fmt: off
ROWS = (
    Setting("interval.ms", INT, 300000,
            doc="How often clients push their metrics, 100 ms to 1 hour."),
    Setting("match", LIST, (), list_of(),
            doc="Which clients push, name=regular expression (RE2); all must match. Names: client_id, "
                "client_instance_id, client_software_name, client_software_version, "
                "client_source_address, client_source_port. Empty is every client."),
    Setting("metrics", LIST, (), list_of(),
            doc="Prefixes of the metrics to push; * is all, empty is none."),
)
# fmt: on

CLIENT_METRICS: Mapping[str, Setting] = table(ROWS)
SELECTORS = (
    "client_id", "client_instance_id", "client_software_name",
    "client_software_version", "client_source_address", "client_source_port",
)  # fmt: skip
INTERVAL_MS = (100, 3_600_000)


class BadMetricsRequest(ConfigError):
    """A name or an interval Kafka answers with INVALID_REQUEST, where other mistakes are
    INVALID_CONFIG."""


class ClientMetricsConfig(Struct, frozen=True):
    """Effective settings of one subscription."""

    interval_ms: int
    match: Mapping[str, ClientPattern]
    metrics: tuple[str, ...]

    @classmethod
    def resolve(cls, overrides: Mapping[str, str]) -> Self:
        """Raises ConfigError, of which BadMetricsRequest is the INVALID_REQUEST kind."""
        values: dict[str, Value] = {name: row.default_value() for name, row in CLIENT_METRICS.items()}
        for name in overrides:
            if name not in CLIENT_METRICS:
                raise BadMetricsRequest(f"Unknown client metrics configuration: {name}")
        for name, text in overrides.items():
            values[name] = CLIENT_METRICS[name].parse(text)
        interval, match, metrics = values["interval.ms"], values["match"], values["metrics"]
        assert isinstance(interval, int)
        assert isinstance(match, tuple)
        assert isinstance(metrics, tuple)
        low, high = INTERVAL_MS
        if not low <= interval <= high:
            why = f"interval must be between {low} and {high} (1 hour)"
            raise BadMetricsRequest(f"Invalid value {interval} for interval.ms, {why}")
        return cls(interval, _patterns(match), metrics)

    def matches(self, client: Mapping[str, str]) -> bool:
        """Whether every pattern matches the whole of the client's attribute of that name; it must
        have one."""
        return all(name in client and pattern.matches(client[name]) for name, pattern in self.match.items())


def _patterns(entries: Iterable[str]) -> dict[str, ClientPattern]:
    """Raises ConfigError for an entry that is not name=pattern, an unknown name or a bad
    pattern."""
    patterns: dict[str, ClientPattern] = {}
    for entry in entries:
        parts = [part.strip() for part in entry.rstrip("=").split("=")]
        if len(parts) != 2 or parts[0] not in SELECTORS:
            raise ConfigError(f"Illegal client matching pattern: {entry}")
        try:
            patterns[parts[0]] = compile_pattern(parts[1])
        except InvalidPattern:
            raise ConfigError(f"Illegal client matching pattern: {entry}") from None
    return patterns
