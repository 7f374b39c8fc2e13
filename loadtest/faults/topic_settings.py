"""Changes a setting of the load's topics for a while, as an operator would."""

import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

OF_THE_LOAD = "load-"
CHOICES = (
    ("segment.ms", "1000"),
    ("index.interval.bytes", "64"),
    ("flush.messages", "50"),
    ("preallocate", "true"),
    ("file.delete.delay.ms", "1000"),
)
"""Settings that a run does not set itself, and that must not change what its clients read."""
PATIENCE_S = 60.0


def change_for(bootstrap: str, which: float, seconds: float) -> str:
    """Set one of CHOICES (`which`: 0..1 picks it) on all topics of the load, wait, drop it again.
    Returns the detail. Raises RuntimeError if the broker does not accept a change in time."""
    name, value = CHOICES[int(which * len(CHOICES))]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = _alter(admin, name, value)
    try:
        time.sleep(seconds)
    finally:
        _alter(admin, name, None)
    return f"{name}={value} on {topics} {'topic' if topics == 1 else 'topics'}, and back again"


def _alter(admin: AdminClient, name: str, value: str | None) -> int:
    """Set or drop (None) a setting; the number of topics. A broker that is just being restarted is
    asked again."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            topics = [one for one in admin.list_topics(timeout=10).topics if one.startswith(OF_THE_LOAD)]
            entry = ConfigEntry(name, value, incremental_operation=operation)
            resources = [
                ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry]) for topic in topics
            ]
            for future in admin.incremental_alter_configs(resources, request_timeout=10).values():
                future.result(PATIENCE_S)
            return len(topics)
        except KafkaException as failure:
            if time.monotonic() > until:
                raise RuntimeError(f"{name} was not changed: {failure}") from failure
            time.sleep(0.5)
