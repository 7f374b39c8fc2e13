"""The tables of settings: configs of brokers, topics and other resources, and client quotas."""

import json
import sqlite3

from kbroker.config.client_quotas import Entity
from kbroker.control.store.change import ConfigKey


def load_configs(db: sqlite3.Connection) -> dict[ConfigKey, dict[str, str]]:
    """Configs by resource."""
    configs: dict[ConfigKey, dict[str, str]] = {}
    for kind, resource, name, value in db.execute(
        "SELECT resource_type, resource_name, name, value FROM configs ORDER BY 1, 2, 3"
    ):
        configs.setdefault((kind, resource), {})[name] = value
    return configs


def apply_configs(db: sqlite3.Connection, kind: int, resource: str, values: dict[str, str | None]) -> None:
    """Set configs of a resource; None deletes one."""
    for name, value in values.items():
        if value is None:
            db.execute(
                "DELETE FROM configs WHERE resource_type = ? AND resource_name = ? AND name = ?",
                (kind, resource, name),
            )
        else:
            db.execute("INSERT OR REPLACE INTO configs VALUES (?, ?, ?, ?)", (kind, resource, name, value))


def load_quotas(db: sqlite3.Connection) -> dict[Entity, dict[str, float]]:
    """Client quotas by entity."""
    found: dict[Entity, dict[str, float]] = {}
    for text, key, value in db.execute("SELECT entity, key, value FROM client_quotas"):
        entity = tuple((kind, name) for kind, name in json.loads(text))
        found.setdefault(entity, {})[key] = float(value)
    return found


def apply_quotas(db: sqlite3.Connection, entity: Entity, quotas: dict[str, float | None]) -> None:
    """Set quotas of an entity; None deletes one."""
    text = json.dumps(entity)
    for key, value in quotas.items():
        if value is None:
            db.execute("DELETE FROM client_quotas WHERE entity = ? AND key = ?", (text, key))
        else:
            row = (text, key, repr(value))
            db.execute("INSERT OR REPLACE INTO client_quotas VALUES (?, ?, ?)", row)
