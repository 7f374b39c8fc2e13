"""Reading and changing the settings of topics, brokers and groups (DescribeConfigs,
IncrementalAlterConfigs)."""

from collections.abc import Mapping, Sequence
from typing import Any

from kbroker.cli import named_configs
from kbroker.cli.config_sources import DEFAULT_SOURCES, SOURCES
from kbroker.cli.connection import Connection
from kbroker.cli.failures import result_of

ALL_BROKERS = (4, "")
"""The broker with the empty name: its settings hold for all brokers."""
LOGGER = "broker-logger"


def _unnamed(entity: str, name: str) -> tuple[named_configs.Resource, str] | None:
    """A resource that confluent-kafka has no word for, and what messages call it; None for
    others."""
    if not name:
        return ALL_BROKERS, "all brokers"
    return ((named_configs.LOGGER, name), f"{entity} {name}") if entity == LOGGER else None


def _resource(entity: str, name: str, changes: Sequence[Any] = ()) -> Any:
    from confluent_kafka.admin import ConfigResource, ResourceType

    kind = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}[entity]
    return ConfigResource(kind, name, incremental_configs=list(changes) or None)


def read_configs(broker: Connection, entity: str, name: str) -> list[dict[str, Any]]:
    """All settings of one entity by name, each with value, source, read_only, sensitive and
    synonyms.

    The broker with the empty name is all brokers. Raises CommandFailed."""
    if (unnamed := _unnamed(entity, name)) is not None:
        return named_configs.read(broker, *unnamed)
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
    pairs = (sets, dict.fromkeys(deletes), appends or {}, subtracts or {})
    operations = [(key, number, value) for number, each in enumerate(pairs) for key, value in each.items()]
    if (unnamed := _unnamed(entity, name)) is not None:
        named_configs.change(broker, *unnamed, operations, validate_only)
        return
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType(number))
        for key, number, value in operations
    ]
    resource = _resource(entity, name, changes)
    answers = broker.admin().incremental_alter_configs(
        [resource], request_timeout=broker.timeout_s, validate_only=validate_only
    )
    result_of(answers[resource], f"{entity} {name}")
