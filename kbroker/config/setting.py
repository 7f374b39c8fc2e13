"""The row type of a setting: name, type, default, check, how it may change at run time, and its
text.

Values are parsed and refused with the rules and texts of Kafka's ConfigDef.parseType, so an
operator sees the message he knows. A parsed value is a `Value`; LONG, INT and SHORT are ints within
Java's ranges.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum, IntEnum
from math import inf, isinf

from msgspec import Struct

Value = bool | int | float | str | tuple[str, ...] | None
Check = Callable[[str, Value], None]

_BLANK = "".join(map(chr, range(33)))  # what Java's String.trim removes
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
# Nothing is tried again (`++`): of a long wrong value, each split of its digits would be.
_DOUBLE = re.compile(
    r"[+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?|[+-]?Infinity", re.ASCII
)
_HEX_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++\.?+[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
)
_SPACE = " \t\n\x0b\f\r"


class Type(IntEnum):
    """Kafka's config types; the number is the ConfigType byte of DescribeConfigs (v3 and later)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


BOOLEAN, STRING, INT, SHORT = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT
LONG, DOUBLE, LIST, CLASS, PASSWORD = Type.LONG, Type.DOUBLE, Type.LIST, Type.CLASS, Type.PASSWORD

_BITS = {Type.SHORT: 15, Type.INT: 31, Type.LONG: 63}
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308


class Dynamic(Enum):
    """Whether a broker setting may change without a restart, and for whom (Kafka's "dynamic update
    mode")."""

    NO = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER = "cluster-wide"


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


NO, PER_BROKER, CLUSTER = Dynamic.NO, Dynamic.PER_BROKER, Dynamic.CLUSTER
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


class ConfigError(Exception):
    """A setting that cannot be accepted; the text names key, value and what is allowed."""


def invalid(name: str, value: Value, why: str) -> ConfigError:
    """The error Kafka's ConfigException(name, value, message) would print."""
    return ConfigError(f"Invalid value {shown(value)} for configuration {name}: {why}")


class Setting(Struct, frozen=True):
    """One row of a settings table.

    `default` may be a function where it depends on the machine; `default_text` then says how in the docs.
    `internal` settings are parsed and used but not described to clients (as in Kafka).
    `repeats`: a list keeps entries that occur more than once. `at_next_start`: a change at run time is
    stored, and used from the next start of the broker on.
    """

    name: str
    type: Type
    default: Value | Callable[[], Value]
    check: Check | None = None
    dynamic: Dynamic = NO
    importance: Importance = MEDIUM
    internal: bool = False
    repeats: bool = False
    at_next_start: bool = False
    default_text: str = ""
    doc: str = ""

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret, which is never described, logged or rendered."""
        return self.type is Type.PASSWORD

    def default_value(self) -> Value:
        return self.default() if callable(self.default) else self.default

    def parse(self, text: str | None) -> Value:
        """Parse and check one textual value. Raises ConfigError with Kafka's text."""
        value = parse_type(self.name, text, self.type)
        if not self.repeats and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))  # as Kafka's lists with a ValidList
        if self.check is not None:
            self.check(self.name, value)
        return value


def java_int(text: str) -> int:
    """Java's Integer.parseInt: no blanks, no underscores. Raises ValueError."""
    found = _INTEGER.fullmatch(text)
    number = int(found[1] + found[2]) if found is not None else -LONG_MAX
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise ValueError(text)
    return number


def parse_type(name: str, text: str | None, kind: Type) -> Value:
    """Text to value by Kafka's rules for `kind`, without the row's own check."""
    if text is None:
        return None
    trimmed = text.strip(_BLANK)
    if kind is Type.BOOLEAN:
        if trimmed.lower() in ("true", "false"):
            return trimmed.lower() == "true"
        raise invalid(name, text, "Expected value to be either true or false")
    if kind in _BITS:
        limit = 1 << _BITS[kind]
        found = _INTEGER.fullmatch(trimmed)
        if found is not None and -limit <= (number := int(found[1] + found[2])) < limit:
            return number
        raise invalid(name, text, f"Not a number of type {kind.name}")
    if kind is Type.DOUBLE:
        return _double(name, text, trimmed)
    if kind is Type.LIST:
        return tuple(part.strip(_SPACE) for part in trimmed.split(",")) if trimmed else ()
    return trimmed


def _double(name: str, text: str, trimmed: str) -> float:
    """As Java's Double.parseDouble, but without NaN, which would pass each check of bounds."""
    if _DOUBLE.fullmatch(trimmed):
        return float(trimmed.rstrip("fFdD"))
    if (found := _HEX_DOUBLE.fullmatch(trimmed)) is None:
        raise invalid(name, text, "Not a number of type DOUBLE")
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return -inf if trimmed.startswith("-") else inf


def render(value: Value, kind: Type | None = None) -> str | None:
    """Value to the text DescribeConfigs shows (ConfigDef.convertToString). None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if kind is Type.DOUBLE or isinstance(value, float):
        return java_double(float(value))
    return str(value)


def shown(value: Value) -> str:
    """A value inside an error text: lists as Java prints them."""
    if isinstance(value, tuple):
        return "[" + ", ".join(value) + "]"
    text = render(value)
    return "null" if text is None else text


def java_double(value: float) -> str:
    """Double.toString: plain digits between 1e-3 and 1e7, else one digit, point, digits, E,
    exponent."""
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    exact = Decimal(repr(value))
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{exact:f}"
        return text if "." in text else text + ".0"
    sign, digits, exponent = exact.normalize().as_tuple()
    assert isinstance(exponent, int)
    tail = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{tail}E{exponent + len(digits) - 1}"


def table(*groups: Iterable[Setting]) -> Mapping[str, Setting]:
    """One table out of several rooms of rows; a name twice is a mistake in the code."""
    rows: dict[str, Setting] = {}
    for group in groups:
        for row in group:
            if row.name in rows:
                raise ValueError(f"setting {row.name} is listed twice")
            rows[row.name] = row
    return rows
