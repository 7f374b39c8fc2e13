"""Settings of topics and groups, changed as a client changes them."""

from collections.abc import Mapping

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)


def set_configs(bootstrap: str, kind: ResourceType, name: str, settings: Mapping[str, str]) -> None:
    """Set some settings of a resource; the others stay."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(60)
