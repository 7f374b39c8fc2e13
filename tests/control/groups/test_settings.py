"""Settings of the group coordinator: each is that of its name, and a group may have its own."""

import pytest
from msgspec.structs import asdict

from kbroker.config.broker import BrokerConfig
from kbroker.control.groups.settings import GroupOverrides, GroupSettings

NUMBERS = {
    "initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "max_size": "group.max.size",
    "offset_metadata_max_bytes": "offset.metadata.max.bytes",
    "offsets_retention_check_interval_ms": "offsets.retention.check.interval.ms",
    "consumer_max_size": "group.consumer.max.size",
    "consumer_assignment_interval_ms": "group.consumer.assignment.interval.ms",
    "regex_refresh_interval_ms": "group.consumer.regex.refresh.interval.ms",
    "share_assignment_interval_ms": "group.share.assignment.interval.ms",
    "share_max_size": "group.share.max.size",
    "streams_assignment_interval_ms": "group.streams.assignment.interval.ms",
    "streams_initial_rebalance_delay_ms": "group.streams.initial.rebalance.delay.ms",
    "streams_num_standby_replicas": "group.streams.num.standby.replicas",
    "streams_max_standby_replicas": "group.streams.max.standby.replicas",
    "streams_max_size": "group.streams.max.size",
}
PERIODS = {
    "consumer_session_timeout_ms": ("group.consumer.session.timeout.ms", 46_000),
    "consumer_heartbeat_interval_ms": ("group.consumer.heartbeat.interval.ms", 5_001),
    "share_session_timeout_ms": ("group.share.session.timeout.ms", 47_000),
    "share_heartbeat_interval_ms": ("group.share.heartbeat.interval.ms", 5_002),
    "streams_session_timeout_ms": ("group.streams.session.timeout.ms", 48_000),
    "streams_heartbeat_interval_ms": ("group.streams.heartbeat.interval.ms", 5_003),
}


def test_the_defaults_are_those_of_a_broker_without_settings() -> None:
    assert asdict(GroupSettings.of(BrokerConfig())) == asdict(GroupSettings())


@pytest.mark.parametrize("field", sorted({**NUMBERS, **PERIODS}))
def test_each_number_is_that_of_its_setting(field: str) -> None:
    default = asdict(GroupSettings())
    name, value = PERIODS[field] if field in PERIODS else (NUMBERS[field], default[field] + 1)
    if value >= 2**31:
        value = 2**31 - 2
    if field == "streams_num_standby_replicas":
        value = 2
    changed = asdict(GroupSettings.of(BrokerConfig({name: str(value)})))
    assert {each: changed[each] for each in changed if changed[each] != default[each]} == {field: value}


def test_offsets_are_kept_for_minutes() -> None:
    found = GroupSettings.of(BrokerConfig({"offsets.retention.minutes": "3"}))
    assert found.offsets_retention_ms == 180_000


def test_both_bounds_of_a_session_are_kept_apart() -> None:
    config = {"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "20000"}
    assert GroupSettings.of(BrokerConfig(config)).session_timeout_bounds_ms == (10, 20_000)


@pytest.mark.parametrize(
    ("policy", "upgrade", "downgrade"),
    [
        ("disabled", False, False),
        ("upgrade", True, False),
        ("DOWNGRADE", False, True),
        ("bidirectional", True, True),
    ],
)
def test_a_policy_allows_one_direction_or_both(policy: str, upgrade: bool, downgrade: bool) -> None:
    found = GroupSettings.of(BrokerConfig({"group.consumer.migration.policy": policy}))
    assert (found.consumer_upgrade, found.consumer_downgrade) == (upgrade, downgrade)


def test_a_group_has_its_own_settings_until_they_are_replaced() -> None:
    overrides = GroupOverrides()
    overrides.put("g", {"n": "5", "t": "x", "f": " TRUE "})
    assert (overrides.number("g", "n", 1), overrides.text("g", "t", "d")) == (5, "x")
    assert (overrides.number("g", "m", 1), overrides.text("g", "m", "d")) == (1, "d")
    assert (overrides.number("h", "n", 1), overrides.text("h", "t", "d")) == (1, "d")
    overrides.put("g", {"n": "0"})
    assert (overrides.number("g", "n", 1), overrides.text("g", "t", "d")) == (0, "d")
    overrides.put("g", {})
    overrides.put("g", {})
    assert overrides.number("g", "n", 1) == 1


@pytest.mark.parametrize(
    ("text", "flag"), [("true", True), (" TRUE ", True), ("false", False), ("yes", False)]
)
@pytest.mark.parametrize("default", [True, False])
def test_a_flag_of_a_group_is_its_text(text: str, flag: bool, default: bool) -> None:
    overrides = GroupOverrides()
    overrides.put("g", {"f": text})
    assert overrides.flag("g", "f", default) is flag
    assert overrides.flag("h", "f", default) is default
    assert overrides.flag("g", "other", default) is default
