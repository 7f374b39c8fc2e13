"""The target assignment of a group: computed by an assignor, written down member by member."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.consumer_group import records
from kbroker.control.groups.consumer_group.assignor import Assignor, Subscriber
from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.consumer_group.range_assignor import assign_ranges
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.consumer_group.uniform_assignor import assign_uniformly
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.control.groups.modern_group.subscriptions import NO_NAMES
from kbroker.control.groups.table import GroupTable
from kbroker.control.groups.topic_view import topic_ids
from kbroker.protocol.slices import paced

log = logging.getLogger(__name__)

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}


class Target(NamedTuple):
    """The target assignment of one member, and its epoch."""

    epoch: int
    partitions: Partitions


def known_assignors(table: GroupTable) -> list[str]:
    """The broker's assignors in order of preference; class names of Kafka's own count as their
    short names."""
    configured = table.settings.consumer_assignors
    names = (name.rsplit(".", 1)[-1].removesuffix("Assignor").lower() for name in configured)
    return [name for name in dict.fromkeys(names) if name in ASSIGNORS]


def preferred_assignor(table: GroupTable, members: Mapping[str, ConsumerMember]) -> str:
    """The assignor that most members prefer, else the broker's first. Other brokers of the log may
    have had assignors that this one does not know."""
    known = known_assignors(table)
    votes: dict[str, int] = {}
    for member in paced(members.values()):
        if member.server_assignor in known:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else known[0]


def update_target(
    table: GroupTable,
    group: ConsumerGroup,
    group_epoch: int,
    member: ConsumerMember,
    now_ms: int,
    out: list[Record],
) -> Target:
    """The member's target; computed again when the group's epoch is ahead and the last assignment
    is old enough.

    member: as it will be after the records in `out`; a static member before it loses its place to
    it.
    """
    interval_ms = table.overrides.number(
        group.group_id, "consumer.assignment.interval.ms", table.settings.consumer_assignment_interval_ms
    )
    if group.assignment_epoch >= group_epoch or not group.assignment_is_due(interval_ms, now_ms):
        return Target(group.assignment_epoch, group.target_of(member))
    members = dict(group.members)
    predecessor = group.static_members.get(member.instance_id or "")
    if predecessor is not None and predecessor != member.member_id:
        members.pop(predecessor, None)
    members[member.member_id] = member
    subscribers, counts = _subscribers(table, group, members)
    name = preferred_assignor(table, members)
    assignment = ASSIGNORS[name](subscribers, counts)
    log.info("group %s: target assignment of epoch %d by %s", group.group_id, group_epoch, name)
    for member_id in paced(members):
        new_target = assignment.get(member_id, {})
        if group.target.get(member_id) != new_target:
            out.append(records.target_assignment(group.group_id, member_id, new_target))
    out.append(records.target_epoch(group.group_id, group_epoch, now_ms))
    return Target(group_epoch, assignment.get(member.member_id, {}))


def _subscribers(
    table: GroupTable, group: ConsumerGroup, members: Mapping[str, ConsumerMember]
) -> tuple[list[Subscriber], Mapping[bytes, int]]:
    """The members as an assignor sees them, and the partitions of the topics that exist, of those
    that they subscribe to. Each different subscription is looked up once."""
    every = tuple(table.topics.names())
    existing: dict[str, bytes] = {}
    different: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
    same: dict[frozenset[bytes], frozenset[bytes]] = {}
    subscribers = []
    for each in paced(members.values()):
        key = each.subscribed_topics, each.regex
        topics = different.get(key)
        if topics is None:
            resolved = group.regexes.get(each.regex)
            found: set[bytes] = set()
            for names in (each.subscribed_topics, NO_NAMES if resolved is None else resolved.topics):
                for name in paced(names if len(names) <= len(every) else every):
                    if name in names and (topic_id := table.topics.id_of(name)) is not None:
                        existing[name] = topic_id
                        found.add(topic_id)
            topics = frozenset(found)
            topics = different[key] = same.setdefault(topics, topics)
        subscribers.append(Subscriber(each.member_id, each.instance_id, topics, group.target_of(each)))
    return subscribers, topic_ids(existing, table.topics)
