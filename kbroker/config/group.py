"""The table of group settings, and the effective settings of one group (KIP-848, KIP-932, KIP-1071,
KIP-1191).

A group's own value lies over the broker's setting (SYNONYM) and must stay within the broker's
bounds.
"""

from collections.abc import Mapping
from typing import Any

from kbroker.config.broker import BROKER, BrokerConfig
from kbroker.config.checks import OffsetReset, at_least, one_of
from kbroker.config.setting import BOOLEAN, INT, STRING, ConfigError, Setting, Value, table

DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
RETRY_BACKOFF, RETRY_BACKOFF_MAX = "kbroker.share.retry.backoff.ms", "kbroker.share.retry.backoff.max.ms"
MAX_RETRY_BACKOFF_MS = 60_000

# fmt: off
ROWS = (
    Setting("errors.deadletterqueue.copy.record.enable", BOOLEAN, False,
            doc="Also write key, value and headers of the original record into this share group's dead letters."),
    Setting(DEAD_LETTER_TOPIC, STRING, "",
            doc="Topic for the dead letters of this share group: records that were rejected, or delivered as often "
                "as share.delivery.count.limit allows (`kbroker docs dead-letters`). Empty: no dead letters."),
    Setting(RETRY_BACKOFF, INT, 0, at_least(0),
            doc="Pause before a record that a consumer of this share group released, or kept too long, is delivered "
                "again; it doubles with each delivery (`kbroker docs queues`). A setting of kbroker."),
    Setting(RETRY_BACKOFF_MAX, INT, MAX_RETRY_BACKOFF_MS, at_least(0),
            doc="Maximum pause to which kbroker.share.retry.backoff.ms grows. A setting of kbroker."),
    Setting("consumer.assignment.interval.ms", INT, 1000, at_least(0),
            doc="Shortest time between two assignments of this consumer group."),
    Setting("consumer.heartbeat.interval.ms", INT, 5000, at_least(1),
            doc="Heartbeat interval sent to the members of this consumer group."),
    Setting("consumer.session.timeout.ms", INT, 45000, at_least(1),
            doc="Time without a heartbeat after which a member of this consumer group is removed."),
    Setting("share.assignment.interval.ms", INT, 1000, at_least(0),
            doc="Shortest time between two assignments of this share group."),
    Setting("share.auto.offset.reset", STRING, "latest", OffsetReset(),
            doc="Where a share group without offsets starts: earliest, latest, or a duration before now."),
    Setting("share.delivery.count.limit", INT, 5, at_least(2),
            doc="Deliveries of a record in this share group before it is archived."),
    Setting("share.heartbeat.interval.ms", INT, 5000, at_least(1),
            doc="Heartbeat interval sent to the members of this share group."),
    Setting("share.isolation.level", STRING, "read_uncommitted",
            one_of("read_committed", "read_uncommitted"),
            doc="Whether this share group sees records of transactions that are open or aborted."),
    Setting("share.partition.max.record.locks", INT, 2000, at_least(100),
            doc="Maximum number of records of one partition that this share group may have acquired at a time."),
    Setting("share.record.lock.duration.ms", INT, 30000, at_least(1000),
            doc="How long a record stays acquired by a consumer of this share group."),
    Setting("share.renew.acknowledge.enable", BOOLEAN, True,
            doc="Let consumers of this share group renew the lock of a record."),
    Setting("share.session.timeout.ms", INT, 45000, at_least(1),
            doc="Time without a heartbeat after which a member of this share group is removed."),
    Setting("streams.assignment.interval.ms", INT, 1000, at_least(0),
            doc="Shortest time between two assignments of this streams group."),
    Setting("streams.heartbeat.interval.ms", INT, 5000, at_least(1),
            doc="Heartbeat interval sent to the members of this streams group."),
    Setting("streams.initial.rebalance.delay.ms", INT, 3000, at_least(0),
            doc="How long the first assignment of this streams group waits for more members."),
    Setting("streams.num.standby.replicas", INT, 0, at_least(0),
            doc="Standby tasks for each stateful task of this streams group."),
    Setting("streams.session.timeout.ms", INT, 45000, at_least(1),
            doc="Time without a heartbeat after which a member of this streams group is removed."),
)
# fmt: on

# fmt: off
SYNONYM = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
}
# fmt: on


GROUP: Mapping[str, Setting] = table(ROWS)


def bounds(name: str) -> tuple[str | None, str | None]:
    """The broker settings that bound a group setting from below and above."""
    kind, _, rest = name.partition(".")
    if name == "streams.num.standby.replicas":
        return None, "group.streams.max.standby.replicas"
    low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    return low if low in BROKER else None, high if high in BROKER else None


def within_bounds(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, str]:
    """A group's own settings, cut to the broker's bounds (GroupConfig.evaluate).

    A stored value can lie outside when the bounds changed after it was set; the bounds win.
    """
    cut = dict(overrides)
    for name, text in overrides.items():
        low, high = bounds(name)
        if low is not None:
            cut[name] = text = str(max(int(text), broker.get_int(low)))
        if high is not None:
            cut[name] = str(min(int(text), broker.get_int(high)))
    return cut


def effective(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, Value]:
    """Value of every group row by name, not cut. Raises ConfigError for an unknown name or a bad
    value."""
    for name in overrides:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}")
    values: dict[str, Value] = {}
    for name, row in GROUP.items():
        if name in overrides:
            values[name] = row.parse(overrides[name])
        else:
            values[name] = broker.value(SYNONYM[name]) if name in SYNONYM else row.default_value()
    return values


def check(overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises ConfigError when overrides leave the broker's bounds or contradict each other."""
    values: dict[str, Any] = effective(overrides, broker)
    for name in overrides:
        low, high = bounds(name)
        if low is not None and values[name] < broker.get_int(low):
            raise ConfigError(f"{name} must be greater than or equal to {low}")
        if high is not None and values[name] > broker.get_int(high):
            raise ConfigError(f"{name} must be less than or equal to {high}")
    if str(values[DEAD_LETTER_TOPIC]).startswith("__"):
        raise ConfigError(f"{DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'")
    if values[RETRY_BACKOFF] > values[RETRY_BACKOFF_MAX]:
        raise ConfigError(f"{RETRY_BACKOFF} must be less than or equal to {RETRY_BACKOFF_MAX}")
    for kind in ("consumer", "share", "streams"):
        beat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if values[session] <= values[beat]:
            raise ConfigError(f"{session} must be greater than {beat}")
