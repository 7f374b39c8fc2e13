"""Settings of resources that confluent-kafka lacks: of all brokers, of a broker's loggers, and of
client metrics subscriptions."""

from collections.abc import Sequence
from typing import Any

from kbroker.cli.config_sources import DEFAULT_SOURCES, SOURCES
from kbroker.cli.connection import Connection
from kbroker.cli.failures import check_answer

Resource = tuple[int, str]
"""Type, as in the protocol, and name."""

LOGGER = 8
"""Type of a broker's loggers; the name is the broker's id, and only that broker answers."""


def read(broker: Connection, resource: Resource, subject: str) -> list[dict[str, Any]]:
    """The settings, in the form of `config_changes.read_configs`. Raises CommandFailed."""
    from kafka.protocol.admin import DescribeConfigsRequest

    request = DescribeConfigsRequest(resources=[(*resource, None)], include_synonyms=True, min_version=1)
    (answer,) = ask(broker, request, _node_of(resource)).results
    check_answer(answer, subject)
    return [
        {
            "name": entry.name,
            "value": None if entry.is_sensitive else entry.value,
            "source": SOURCES.get(entry.config_source, "unknown"),
            "set_at_run_time": entry.config_source not in DEFAULT_SOURCES,
            "default": entry.config_source == 5,
            "read_only": entry.read_only,
            "sensitive": entry.is_sensitive,
            "synonyms": [
                {"name": each.name, "value": each.value, "source": SOURCES.get(each.source, "unknown")}
                for each in entry.synonyms or ()
            ],
        }
        for entry in sorted(answer.configs, key=lambda entry: str(entry.name))
    ]


def change(
    broker: Connection,
    resource: Resource,
    subject: str,
    operations: Sequence[tuple[str, int, str | None]],
    validate_only: bool,
) -> None:
    """Change settings. operations: (name, number of the operation in the protocol, value). Raises
    CommandFailed."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest

    request = IncrementalAlterConfigsRequest(
        resources=[(*resource, list(operations))], validate_only=validate_only
    )
    (answer,) = ask(broker, request, _node_of(resource)).responses
    check_answer(answer, subject)


def ask(broker: Connection, request: Any, node_id: int | None = None) -> Any:
    """The answer to a request of kafka-python, of any broker without a node_id."""
    with broker.kafka_python_admin() as admin:
        return admin._manager.run(admin._manager.send, request, node_id)


def _node_of(resource: Resource) -> int | None:
    kind, name = resource
    return int(name) if kind == LOGGER else None
