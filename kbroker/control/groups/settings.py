"""The group coordinator's settings: the broker's, and those of one group."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from kbroker.config.broker import BrokerConfig

_NONE: Mapping[str, str] = MappingProxyType({})


class GroupSettings(Struct, frozen=True):
    """Values in Kafka's units. The defaults are Kafka's; `of` reads a broker's."""

    session_timeout_bounds_ms: tuple[int, int] = (6000, 1_800_000)
    initial_rebalance_delay_ms: int = 3000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 5 * 60 * 1000
    """A classic member that joins for the first time has this long until its JoinGroup is
    answered."""
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5000
    consumer_assignment_interval_ms: int = 1000
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_upgrade: bool = True
    """Whether a classic group in use may become a consumer group."""
    consumer_downgrade: bool = True
    """Whether a consumer group may become classic when its last member of the new protocol
    leaves."""
    regex_refresh_interval_ms: int = 600_000
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5000
    share_assignment_interval_ms: int = 1000
    share_max_size: int = 200
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5000
    streams_assignment_interval_ms: int = 1000
    streams_initial_rebalance_delay_ms: int = 3000
    streams_num_standby_replicas: int = 0
    streams_max_standby_replicas: int = 2
    streams_max_size: int = 2**31 - 1

    @classmethod
    def of(cls, config: BrokerConfig) -> "GroupSettings":
        policy = config.get_str("group.consumer.migration.policy").upper()
        number = config.get_int
        return cls(
            session_timeout_bounds_ms=(
                number("group.min.session.timeout.ms"),
                number("group.max.session.timeout.ms"),
            ),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            max_size=number("group.max.size"),
            offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
            consumer_session_timeout_ms=number("group.consumer.session.timeout.ms"),
            consumer_heartbeat_interval_ms=number("group.consumer.heartbeat.interval.ms"),
            consumer_assignment_interval_ms=number("group.consumer.assignment.interval.ms"),
            consumer_max_size=number("group.consumer.max.size"),
            consumer_assignors=config.get_list("group.consumer.assignors"),
            consumer_upgrade=policy in ("UPGRADE", "BIDIRECTIONAL"),
            consumer_downgrade=policy in ("DOWNGRADE", "BIDIRECTIONAL"),
            regex_refresh_interval_ms=number("group.consumer.regex.refresh.interval.ms"),
            share_session_timeout_ms=number("group.share.session.timeout.ms"),
            share_heartbeat_interval_ms=number("group.share.heartbeat.interval.ms"),
            share_assignment_interval_ms=number("group.share.assignment.interval.ms"),
            share_max_size=number("group.share.max.size"),
            streams_session_timeout_ms=number("group.streams.session.timeout.ms"),
            streams_heartbeat_interval_ms=number("group.streams.heartbeat.interval.ms"),
            streams_assignment_interval_ms=number("group.streams.assignment.interval.ms"),
            streams_initial_rebalance_delay_ms=number("group.streams.initial.rebalance.delay.ms"),
            streams_num_standby_replicas=number("group.streams.num.standby.replicas"),
            streams_max_standby_replicas=number("group.streams.max.standby.replicas"),
            streams_max_size=number("group.streams.max.size"),
        )


class GroupOverrides:
    """Dynamic settings of single groups (DescribeConfigs type GROUP). Runs in: control. Owner: the
    shard.

    An override wins over the broker's value; names are those of `kbroker.config.group`.
    """

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[str, Mapping[str, str]] = {}

    def put(self, group_id: str, values: Mapping[str, str]) -> None:
        """Replace a group's own settings; empty forgets them."""
        if values:
            self._by_group[group_id] = dict(values)
        else:
            self._by_group.pop(group_id, None)

    def number(self, group_id: str, name: str, default: int) -> int:
        """The group's own value of an integer setting, or `default`."""
        text = self._by_group.get(group_id, _NONE).get(name)
        return default if text is None else int(text)

    def text(self, group_id: str, name: str, default: str) -> str:
        """The group's own value of a setting, or `default`."""
        return self._by_group.get(group_id, _NONE).get(name, default)

    def flag(self, group_id: str, name: str, default: bool) -> bool:
        """The group's own value of a boolean setting, or `default`."""
        text = self._by_group.get(group_id, _NONE).get(name)
        return default if text is None else text.strip().lower() == "true"
