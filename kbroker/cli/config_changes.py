"""Reading and changing the settings of topics, brokers and groups (DescribeConfigs,
IncrementalAlterConfigs)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kbroker.cli import named_configs
from kbroker.cli.config_sources import DEFAULT_SOURCES, SOURCES
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed, result_of
from kbroker.cli.setting_names import known_names
from kbroker.config.close_names import suggestion

ALL_BROKERS = (4, "")
"""The broker with the empty name: its settings hold for all brokers."""
LOGGER = "broker-logger"
OF_A_BROKER = ("broker", LOGGER)
"""Entities whose name is a broker id."""


def _unnamed(entity: str, name: str) -> tuple[named_configs.Resource, str] | None:
    """A resource that confluent-kafka lacks, with its name for messages; None for others."""
    if not name:
        return ALL_BROKERS, "all brokers"
    return ((named_configs.LOGGER, name), f"{entity} {name}") if entity == LOGGER else None


def _resource(entity: str, name: str, changes: Sequence[Any] = ()) -> Any:
    from confluent_kafka.admin import ConfigResource, ResourceType

    kind = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}[entity]
    return ConfigResource(kind, name, incremental_configs=list(changes) or None)


def require_broker(broker: Connection, name: str) -> None:
    """Check that the broker exists: a client would look for it until its timeout. Raises
    CommandFailed."""
    nodes = result_of(broker.admin().describe_cluster(request_timeout=broker.timeout_s)).nodes
    ids = sorted(node.id for node in nodes)
    if int(name) not in ids:
        raise CommandFailed(f"there is no broker {name}; brokers: {', '.join(map(str, ids))}")


def read_configs(broker: Connection, entity: str, name: str) -> list[dict[str, Any]]:
    """All settings of one entity by name, each with value, source, read_only, sensitive and
    synonyms.

    An empty name of a broker means all brokers. Raises CommandFailed."""
    if name and entity in OF_A_BROKER:
        require_broker(broker, name)
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


def _require_settings(broker: Connection, entity: str, name: str, names: Sequence[str]) -> None:
    """Check that the settings exist: a broker answers an unknown name as a setting with its
    default. Raises CommandFailed."""
    known = {entry["name"] for entry in read_configs(broker, entity, name)}
    known |= known_names() if entity == "broker" else set()
    if unknown := sorted(set(names) - known):
        subject = f"{entity} {name}" if name else "all brokers"
        close = "".join(suggestion(each, known) for each in unknown)
        raise CommandFailed(f"{subject}: no setting {', '.join(unknown)}{close}")


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
    """Change some settings of one entity, all of them or none. Raises CommandFailed."""
    pairs = (sets, dict.fromkeys(deletes), appends or {}, subtracts or {})
    operations = [(key, number, value) for number, each in enumerate(pairs) for key, value in each.items()]
    if twice := [key for key, times in Counter(key for key, *_ in operations).items() if times > 1]:
        raise UsageFailed(f"two changes of {', '.join(twice)}: give only one")
    if name and entity in OF_A_BROKER:
        require_broker(broker, name)
    if deletes:
        _require_settings(broker, entity, name, deletes)
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
