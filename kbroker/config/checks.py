"""Checks a row can carry. Each raises ConfigError with the text of Kafka's validator of the same
meaning."""

import re

from msgspec import Struct

from kbroker.config.setting import INT_MAX, ConfigError, Value, invalid, render
from kbroker.config.whole_numbers import duration_ms, whole_number

_HOST = re.compile(r"\[[0-9A-Za-z:.%]+\]|[0-9A-Za-z\-._]*")
_THROTTLED = re.compile(r"(?:[0-9]+:[0-9]+)?")


class Between(Struct, frozen=True):
    """ConfigDef.Range: both ends inclusive; None is open."""

    low: float | int | None = None
    high: float | int | None = None

    def __call__(self, name: str, value: Value) -> None:
        if value is None:
            raise invalid(name, None, "Value must be non-null")
        assert isinstance(value, int | float)
        if self.low is not None and value < self.low:
            raise invalid(name, value, f"Value must be at least {render(self.low)}")
        if self.high is not None and value > self.high:
            raise invalid(name, value, f"Value must be no more than {render(self.high)}")

    def __str__(self) -> str:
        ends = (render(self.low), "...", render(self.high))
        return "[" + ",".join(end for end in ends if end is not None) + "]"


def at_least(low: float | int) -> Between:
    return Between(low=low)


def between(low: float | int, high: float | int) -> Between:
    return Between(low, high)


class OneOf(Struct, frozen=True):
    """ConfigDef.ValidString, or CaseInsensitiveValidString with `any_case`."""

    allowed: tuple[str, ...]
    any_case: bool = False

    def __call__(self, name: str, value: Value) -> None:
        text = value if isinstance(value, str) else None
        if self.any_case:
            if text is None or text.upper() not in self.allowed:
                raise invalid(
                    name, value, "String must be one of (case insensitive): " + ", ".join(self.allowed)
                )
        elif text not in self.allowed:
            raise invalid(name, value, "String must be one of: " + ", ".join(self.allowed))

    def __str__(self) -> str:
        return ("(case insensitive) " if self.any_case else "") + "[" + ", ".join(self.allowed) + "]"


def one_of(*allowed: str) -> OneOf:
    return OneOf(allowed)


def one_of_any_case(*allowed: str) -> OneOf:
    return OneOf(allowed, any_case=True)


class ListOf(Struct, frozen=True):
    """ConfigDef.ValidList of Kafka 4.x: no empty entry; `allowed` empty means any text."""

    allowed: tuple[str, ...] = ()
    may_be_empty: bool = True
    may_be_null: bool = False

    def __call__(self, name: str, value: Value) -> None:
        if value is None:
            if self.may_be_null:
                return
            raise ConfigError(f"Configuration '{name}' values must not be null.")
        assert isinstance(value, tuple)
        if not value and not self.may_be_empty:
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {self}")
        for entry in value:
            if not entry:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self.allowed and entry not in self.allowed:
                raise invalid(name, entry, "String must be one of: " + ", ".join(self.allowed))

    def __str__(self) -> str:
        return "[" + ", ".join(self.allowed) + "]" if self.allowed else "any non-empty value"


def list_of(*allowed: str, may_be_empty: bool = True, may_be_null: bool = False) -> ListOf:
    return ListOf(allowed, may_be_empty, may_be_null)


class NotEmpty(Struct, frozen=True):
    """ConfigDef.NonEmptyString: null is fine, the empty text is not."""

    def __call__(self, name: str, value: Value) -> None:
        if value == "":
            raise invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class GzipLevel(Struct, frozen=True):
    def __call__(self, name: str, value: Value) -> None:
        assert isinstance(value, int)
        if value != -1 and not 1 <= value <= 9:
            raise invalid(name, value, "Value must be between 1 and 9 or equal to -1")

    def __str__(self) -> str:
        return "[1,...,9] or -1"


class ThrottledReplicas(Struct, frozen=True):
    """`*` or partition:broker pairs, beside empty entries (Kafka's
    ThrottledReplicaListValidator)."""

    def __call__(self, name: str, value: Value) -> None:
        assert isinstance(value, tuple)
        entries = [entry.strip() for entry in value]
        if "".join(entries) == "*" or all(_THROTTLED.fullmatch(entry) for entry in entries):
            return
        why = f"{name} must be the literal '*' or a list of replicas in the following format: {self}"
        raise invalid(name, value, why)

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class KnownClass(Struct, frozen=True):
    """A Java class name that kbroker has its own implementation of; any other class cannot be
    loaded here."""

    known: tuple[str, ...] = ()

    def __call__(self, name: str, value: Value) -> None:
        if value and value not in self.known:
            why = f"Class {value} could not be found. kbroker loads no Java plugins; allowed: {self}"
            raise invalid(name, value, why)

    def __str__(self) -> str:
        return "[" + ", ".join(("unset", *self.known)) + "]"


class Assignors(Struct, frozen=True):
    """Names of the broker's assignors, or the names of Kafka's classes for them; others cannot be
    loaded here. exactly: how many there must be, 0 for one or more."""

    known: tuple[str, ...]
    exactly: int = 0

    def __call__(self, name: str, value: Value) -> None:
        list_of(may_be_empty=False)(name, value)
        named = value if isinstance(value, tuple) else ()
        classes = {f"org.apache.kafka.coordinator.group.assignor.{one.title()}Assignor" for one in self.known}
        for one in named:
            if one not in self.known and one not in classes:
                why = f"Class {one} could not be found. kbroker loads no Java plugins; allowed: {self}"
                raise invalid(name, value, why)
        if self.exactly and len(named) != self.exactly:
            raise ConfigError(f"{name} must contain exactly one assignor, but found {len(named)}")

    def __str__(self) -> str:
        return "[" + ", ".join(self.known) + "]"


class OffsetReset(Struct, frozen=True):
    """share.auto.offset.reset: earliest, latest or by_duration with an ISO-8601 duration, not
    negative."""

    def __call__(self, name: str, value: Value) -> None:
        text = value if isinstance(value, str) else ""
        if text in ("earliest", "latest"):
            return
        kind, _, duration = text.partition(":")
        if kind == "by_duration" and duration_ms(duration) is not None:
            return
        why = (
            f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' "
            "or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
        raise invalid(name, value, why)

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"


def connections_per_ip(name: str, value: str) -> dict[str, int]:
    """`host:count,host:count` to a map. Raises ConfigError for a bad entry or a host that cannot be
    one."""
    limits: dict[str, int] = {}
    for entry in filter(None, (part.strip() for part in value.split(","))):
        host, colon, count = entry.rpartition(":")
        limit = whole_number(count.strip(), INT_MAX)
        if not colon or not host or limit is None:
            raise ConfigError(f"Error parsing configuration property '{name}': '{entry}' is not host:count")
        if not _HOST.fullmatch(host.strip()):
            raise ConfigError(f"{name} contains invalid addresses : {host.strip()}")
        limits[host.strip()] = limit
    return limits


class ConnectionsPerIp(Struct, frozen=True):
    def __call__(self, name: str, value: Value) -> None:
        connections_per_ip(name, value if isinstance(value, str) else "")

    def __str__(self) -> str:
        return "host:count,host:count,..."


class PowerOfTwo(Struct, frozen=True):
    low: int
    high: int

    def __call__(self, name: str, value: Value) -> None:
        assert isinstance(value, int)
        if not self.low <= value <= self.high or value & (value - 1):
            raise invalid(name, value, f"Value must be {self}")

    def __str__(self) -> str:
        return f"a power of two, {self.low} to {self.high}"


class ListenAddress(Struct, frozen=True):
    """host:port, [ipv6]:port, :port or nothing."""

    def __call__(self, name: str, value: Value) -> None:
        text = value if isinstance(value, str) else ""
        if not text:
            return
        host, colon, port = text.rpartition(":")
        if not colon or not _HOST.fullmatch(host) or whole_number(port, 65535) is None:
            raise invalid(name, value, f"Value must be {self}")

    def __str__(self) -> str:
        return "host:port, [address]:port, or empty"


listen_address = ListenAddress()
