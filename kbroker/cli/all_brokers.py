"""The settings that hold for all brokers: the broker with the empty name, which no client library
can name."""

from collections.abc import Sequence
from typing import Any

from kbroker.cli import named_configs
from kbroker.cli.connection import Connection

ALL = (4, "")
SUBJECT = "all brokers"


def read(broker: Connection) -> list[dict[str, Any]]:
    """What is set for all brokers, as `config_changes.read_configs` gives it. Raises
    CommandFailed."""
    return named_configs.read(broker, ALL, SUBJECT)


def change(
    broker: Connection, operations: Sequence[tuple[str, int, str | None]], validate_only: bool
) -> None:
    """Change some: (name, number of the operation in the protocol, value). Raises CommandFailed."""
    named_configs.change(broker, ALL, SUBJECT, operations, validate_only)
