"""Creates topics with their settings, ACLs and quotas at the target, before the copy and again at
its end."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from kbroker.cli import quotas
from kbroker.cli.acl_requests import create_acls
from kbroker.cli.config_changes import change_configs, read_configs
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, result_of
from kbroker.cli.mirror.plan import (
    BROKER_WIDE,
    Plan,
    PlannedTopic,
    Setting,
    acls_of,
    is_outdated,
    make_plan,
)
from kbroker.cli.topic_description import of_new_topic
from kbroker.protocol.errors import ErrorCode

OF_REPLICATION = frozenset(
    (
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
    )
)
UNTIL_COPIED = "message.timestamp."
"""Settings that check or replace timestamps are set after the copy, because it keeps the timestamps
of the records."""


def create_topics(target: Connection, plan: Plan) -> list[str]:
    """Create missing topics and partitions, and apply all settings; returns remarks about settings
    that are left out. Raises CommandFailed."""
    add_partitions(target, plan)
    return apply_settings(target, plan, copied=False)


def add_partitions(target: Connection, plan: Plan) -> None:
    """Create the topics and partitions that the target lacks. Raises CommandFailed."""
    from confluent_kafka.admin import NewPartitions, NewTopic

    admin = target.admin()
    timeout_s = target.timeout_s
    topics = plan.topics.values()
    missing = [
        NewTopic(topic.name, topic.partitions, plan.replication_factor)
        for topic in topics
        if not topic.at_target
    ]
    if missing:
        _check(
            admin.create_topics(missing, request_timeout=timeout_s, operation_timeout=timeout_s),
            plan,
            ErrorCode.TOPIC_ALREADY_EXISTS,
        )
    grown = [
        NewPartitions(topic.name, topic.partitions)
        for topic in topics
        if 0 < topic.at_target < topic.partitions
    ]
    if grown:
        _check(
            admin.create_partitions(grown, request_timeout=timeout_s, operation_timeout=timeout_s),
            plan,
            ErrorCode.INVALID_PARTITIONS,
        )
    for topic in topics:
        topic.at_target = topic.partitions


def _check(answers: Mapping[str, Any], plan: Plan, created_meanwhile: ErrorCode) -> None:
    """Raises CommandFailed for a refused topic. MirrorMaker, once started, may have created the
    topic or partitions since the plan."""
    for name, future in answers.items():
        try:
            result_of(future, f"topic {name}")
        except CommandFailed as failure:
            if not plan.continues or failure.error is not created_meanwhile:
                raise


def renewed(
    source: Connection, target: Connection, plan: Plan, requested: Sequence[str], say: Callable[[str], None]
) -> Plan:
    """The plan, or, if the source's topics or their partitions have changed, a new one, after the
    target has them, too. Raises CommandFailed."""
    if not is_outdated(plan, source, requested):
        return plan
    fresh = make_plan(source, target, requested, plan.replication_factor, continues=True)
    fresh.ids = plan.ids
    new = {name: topic for name, topic in fresh.topics.items() if name not in plan.topics}
    for name in new:
        say(f"new at the source: {name}")
    for name in sorted(plan.topics.keys() - fresh.topics.keys()):
        say(f"deleted at the source, and kept at the target: {name}")
    add_partitions(target, fresh)
    for remark in apply_settings(target, replace(fresh, topics=new), copied=False):
        say(remark)
    return fresh


def apply_settings(target: Connection, plan: Plan, *, copied: bool) -> list[str]:
    """Apply the source's settings to the topics; returns those that the target lacks. copied: all
    records are copied."""
    remarks: set[str] = set()
    for topic in plan.topics.values():
        now = _settings_of(target, topic.name)
        sets, unknown = settings_to_set(topic, now, plan.replication_factor, copied)
        remarks |= {f"left out, the target has no such setting: {name} ({topic.name})" for name in unknown}
        if sets:
            change_configs(target, "topic", topic.name, sets=sets)
    return sorted(remarks)


def _settings_of(target: Connection, topic: str) -> dict[str, Setting]:
    """A topic's settings, also of one that was just created."""
    found = of_new_topic(partial(read_configs, target, "topic", topic), target.timeout_s)
    return {str(row["name"]): Setting(str(row["value"]), str(row["source"])) for row in found}


def settings_to_set(
    topic: PlannedTopic, target: Mapping[str, Setting], replication_factor: int, copied: bool
) -> tuple[dict[str, str], list[str]]:
    """(settings to change at the target, names that it lacks).

    Settings of the topic are always copied; defaults of the source's brokers only if they
    differ."""
    sets, unknown = {}, []
    for name, setting in sorted(topic.settings.items()):
        own = setting.source == "topic"
        if not own and setting.source not in BROKER_WIDE:
            continue
        if name not in target:
            unknown += [name] if own else []
            continue
        if name.startswith(UNTIL_COPIED) and not copied:
            continue
        value = setting.value
        if name in OF_REPLICATION:
            if name != "min.insync.replicas" or not own or replication_factor == 1:
                continue
            value = str(min(int(value), replication_factor))
        there = target[name]
        if there.value != value or (own and there.source != "topic"):
            sets[name] = value
    return sets, unknown


def copy_acls(source: Connection, target: Connection) -> int:
    """Create the source's ACLs at the target; returns the number of new ones. Raises
    CommandFailed."""
    held = acls_of(target)
    if held is None:
        return 0
    there = set(held)
    missing = [acl for acl in acls_of(source) or () if acl not in there]
    if missing:
        create_acls(target, missing)
    return len(missing)


def copy_quotas(source: Connection, target: Connection) -> int:
    """Copy the quotas of users, client ids and addresses; returns the number of entities."""
    there = {str(entity): values for entity, values in quotas.read_all(target)}
    changed = 0
    for entity, values in quotas.read_all(source):
        if there.get(str(entity)) != values:
            quotas.alter(target, entity, values, [], validate_only=False)
            changed += 1
    return changed
