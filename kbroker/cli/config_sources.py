"""Names of the sources of a setting's value."""

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
"""Sources by their number in the protocol (ConfigSource of DescribeConfigs)."""

DEFAULT_SOURCES: Final = frozenset((0, 4, 5))
"""Sources of values that were not set at run time."""
