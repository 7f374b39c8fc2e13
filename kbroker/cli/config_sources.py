"""Where the value of a setting comes from, by its number on the wire."""

from typing import Final

SOURCES: Final = {
    0: "unknown",
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "server.properties",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
"""Where a value comes from, by the number on the wire (DescribeConfigs' ConfigSource)."""

DEFAULT_SOURCES: Final = frozenset((0, 4, 5))
"""Sources that nobody set at run time."""
