"""Reading and changing the settings of topics, brokers and groups (DescribeConfigs, IncrementalAlterConfigs)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kbroker.cli.connection import Connection
from kbroker.cli.failures import result_of

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


def _resource(entity: str, name: str, changes: Sequence[Any] = ()) -> Any:
    from confluent_kafka.admin import ConfigResource, ResourceType

    kind = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}[entity]
    return ConfigResource(kind, name, incremental_configs=list(changes) or None)


def read_configs(broker: Connection, entity: str, name: str) -> list[dict[str, Any]]:
    """All settings of one entity by name, each with value, source, read_only, sensitive and synonyms.

    Raises CommandFailed."""
    resource = _resource(entity, name)
    future = broker.admin().describe_configs([resource], request_timeout=broker.timeout_s)[resource]
    entries = result_of(future, f"{entity} {name}")
    return [
        {
            "name": entry.name,
            "value": None if entry.is_sensitive else entry.value,
            "source": SOURCES.get(int(entry.source), str(entry.source)),
            "set_at_run_time": int(entry.source) not in DEFAULT_SOURCES,
            "default": int(entry.source) == 5,
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
            "synonyms": [
                {
                    "name": synonym.name,
                    "value": synonym.value,
                    "source": SOURCES.get(int(synonym.source), "unknown"),
                }
                for synonym in entry.synonyms.values()
            ],
        }
        for entry in sorted(entries.values(), key=lambda entry: str(entry.name))
    ]


def change_configs(
    broker: Connection,
    entity: str,
    name: str,
    *,
    sets: Mapping[str, str],
    deletes: Sequence[str] = (),
    appends: Mapping[str, str] | None = None,
    subtracts: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Change some settings of one entity, leave the others; all or none. Raises CommandFailed."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    operations = (
        (AlterConfigOpType.SET, sets),
        (AlterConfigOpType.DELETE, dict.fromkeys(deletes)),
        (AlterConfigOpType.APPEND, appends or {}),
        (AlterConfigOpType.SUBTRACT, subtracts or {}),
    )
    changes = [
        ConfigEntry(key, value, incremental_operation=operation)
        for operation, pairs in operations
        for key, value in pairs.items()
    ]
    resource = _resource(entity, name, changes)
    answers = broker.admin().incremental_alter_configs(
        [resource], request_timeout=broker.timeout_s, validate_only=validate_only
    )
    result_of(answers[resource], f"{entity} {name}")
