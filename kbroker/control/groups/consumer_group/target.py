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
    for member in members.values():
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
    topics_of = {each.member_id: frozenset(group.topics_of(each)) for each in members.values()}
    counts = topic_ids({topic for topics in topics_of.values() for topic in paced(topics)}, table.topics)
    ids = {name: table.topics.id_of(name) for topics in topics_of.values() for name in paced(topics)}
    subscribers = [
        Subscriber(
            each.member_id,
            each.instance_id,
            frozenset(found for name in paced(topics_of[each.member_id]) if (found := ids[name]) is not None),
            group.target_of(each),
        )
        for each in members.values()
    ]
    name = preferred_assignor(table, members)
    assignment = ASSIGNORS[name](subscribers, counts)
    log.info("group %s: target assignment of epoch %d by %s", group.group_id, group_epoch, name)
    for member_id in members:
        new_target = assignment.get(member_id, {})
        if group.target.get(member_id) != new_target:
            out.append(records.target_assignment(group.group_id, member_id, new_target))
    out.append(records.target_epoch(group.group_id, group_epoch, now_ms))
    return Target(group_epoch, assignment.get(member.member_id, {}))
