"""The steps of a heartbeat: topology, group epoch, target assignment, the member's next step."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.streams_group import records
from kbroker.control.groups.streams_group.configured_topology import ConfiguredTopology, Status, configure
from kbroker.control.groups.streams_group.member import Endpoint, StreamsMember
from kbroker.control.groups.streams_group.reconcile import reconcile
from kbroker.control.groups.streams_group.state import StreamsGroup
from kbroker.control.groups.streams_group.sticky_assignor import AssignedMember, Work, assign_sticky
from kbroker.control.groups.streams_group.tasks import TaskSet
from kbroker.control.groups.streams_group.topology import Topology, from_message
from kbroker.control.groups.table import GroupTable
from kbroker.control.groups.topic_view import metadata_hash
from kbroker.protocol.bounds import cut_string
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages import streams_group_heartbeat as message
from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.slices import paced

log = logging.getLogger(__name__)

STANDBYS = "num.standby.replicas"
MAX_TASKS = 50_000
"""Standby tasks included. A short topology may read a large topic in each of thousands of
subtopologies; Kafka fails when it stores the assignment."""
NOTHING = TaskSet()


class Target(NamedTuple):
    """The target assignment of one member, and its epoch."""

    epoch: int
    tasks: TaskSet


def updated_topology(group: StreamsGroup, requested: message.Topology | None, out: list[Record]) -> Topology:
    """The group's topology; its first member brings it. Raises INVALID_REQUEST for a different
    one."""
    known = group.topology
    if requested is None:
        if known is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "The topology is null and the group topology is also null."
            )
        return known
    try:
        new = from_message(requested)
    except ProtocolError as error:  # Kafka fails on it, too
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    if known is None:
        out.append(records.topology(group.group_id, new))
        return new
    if known.epoch > new.epoch or known == new:
        return known
    raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def updated_configuration(table: GroupTable, group: StreamsGroup, topology: Topology) -> ConfiguredTopology:
    """The topology configured for the existing topics; configured again when topics have
    changed."""
    version = table.topics.version
    known = group.configured
    if known is not None and known.topology == topology and group.topics_seen == version:
        return known
    hashed = metadata_hash(topology.required_topics(), table.topics)
    if known is None or known.topology != topology or known.metadata_hash != hashed:
        known = configure(topology, hashed, table.topics)
    group.configured, group.topics_seen = known, version
    return known


def assignment_configs(table: GroupTable, group_id: str) -> dict[str, str]:
    """The assignor's configs; a change triggers a new assignment."""
    standbys = table.overrides.number(
        group_id, "streams.num.standby.replicas", table.settings.streams_num_standby_replicas
    )
    return {STANDBYS: str(min(standbys, table.settings.streams_max_standby_replicas))}


def check_tasks(configured: ConfiguredTopology, configs: Mapping[str, str]) -> None:
    """Raises UNKNOWN_SERVER_ERROR for more than MAX_TASKS, before an assignment is made of them."""
    count = sum(configured.tasks.values()) * (1 + int(configs.get(STANDBYS, "0")))
    if count > MAX_TASKS:
        text = f"The topology has {count} tasks, more than {MAX_TASKS}."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


class Basis(NamedTuple):
    """The inputs of a target assignment: the group's epoch, its topology for the existing
    topics, and the assignor's configs."""

    epoch: int
    configured: ConfiguredTopology
    configs: Mapping[str, str]


def updated_epoch(
    group: StreamsGroup,
    bump: bool,
    configured: ConfiguredTopology,
    configs: Mapping[str, str],
    out: list[Record],
) -> int:
    """The group's epoch after this request: one more when members, topics or settings changed."""
    validated = configured.topology.epoch if configured.is_ready else -1
    changed = (
        configured.metadata_hash != group.metadata_hash
        or validated != group.validated_topology_epoch
        or configs != group.assignment_configs
    )
    if not bump and not changed:
        return group.group_epoch
    epoch = next_epoch(group.group_epoch)
    out.append(records.group_epoch(group.group_id, epoch, configured.metadata_hash, validated, configs))
    log.info("group %s: epoch %d", group.group_id, epoch)
    return epoch


def awaited_target(group: StreamsGroup) -> tuple[Target, str | None]:
    """The target while the group waits for more members, and the reason."""
    why = "Assignment delayed due to the configured initial rebalance delay."
    return Target(group.assignment_epoch, NOTHING), why


def updated_target(
    table: GroupTable,
    group: StreamsGroup,
    basis: Basis,
    member: StreamsMember | None,
    now_ms: int,
    out: list[Record],
) -> tuple[Target, str | None]:
    """The member's target, and why it is not a newer one. member: as it will be after the records
    in `out`."""
    had = NOTHING if member is None else group.target.get(member.member_id, NOTHING)
    epoch, configured, configs = basis
    if group.assignment_epoch >= epoch:
        return Target(group.assignment_epoch, had), None
    interval_ms = table.overrides.number(
        group.group_id, "streams.assignment.interval.ms", table.settings.streams_assignment_interval_ms
    )
    if not group.assignment_is_due(interval_ms, now_ms):
        why = "Assignment delayed due to the configured assignment interval."
        return Target(group.assignment_epoch, had), why
    members = dict(group.members)
    if member is not None:
        members[member.member_id] = member
    tasks = configured.tasks if configured.is_ready else {}
    stateful = frozenset(key for key, part in configured.topology.subtopologies.items() if part.is_stateful)
    assignment = assign_sticky(
        [
            AssignedMember(each.member_id, each.process_id, group.target.get(each.member_id, NOTHING))
            for each in paced(members.values())
        ],
        Work(tasks, stateful),
        int(configs.get(STANDBYS, "0")),
    )
    for member_id, new_target in paced(assignment.items()):
        if group.target.get(member_id) != new_target:
            out.append(records.target_assignment(group.group_id, member_id, new_target))
    out.append(records.target_epoch(group.group_id, epoch, now_ms))
    log.info("group %s: target assignment of epoch %d", group.group_id, epoch)
    return Target(epoch, NOTHING if member is None else assignment[member.member_id]), None


def reconciled(
    group: StreamsGroup, member: StreamsMember, target: Target, claimed: TaskSet | None, out: list[Record]
) -> StreamsMember:
    """The member after its next step, written down when that changed something."""
    if member.is_reconciled_to(target.epoch):
        return member
    moved = reconcile(member, target.epoch, target.tasks, claimed, group)
    if moved != member:
        out.append(records.current_assignment(group.group_id, moved))
    return moved


def statuses(
    group: StreamsGroup, member: StreamsMember, configured: ConfiguredTopology, delayed: str | None
) -> list[message.Status]:
    """The status list for the application, in Kafka's order."""
    found = []
    epoch = configured.topology.epoch
    if member.topology_epoch < epoch:
        text = f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {epoch}."
        found.append(message.Status(Status.STALE_TOPOLOGY, text))
    if delayed is not None:
        found.append(message.Status(Status.ASSIGNMENT_DELAYED, delayed))
    if configured.problem is not None:
        found.append(message.Status(*configured.problem))
    if group.shutdown_requested_by is not None:
        text = (
            f"Streams group member {group.shutdown_requested_by} encountered a fatal error and requested a "
            "shutdown for the entire application."
        )
        found.append(message.Status(Status.SHUTDOWN_APPLICATION, cut_string(text)))
    return found


def described_by(
    member: StreamsMember, client: tuple[str, str], request: message.StreamsGroupHeartbeatRequest
) -> StreamsMember:
    """The member with the request's fields; null leaves a field unchanged."""
    endpoint = request.user_endpoint
    tags = request.client_tags
    return replace(
        member,
        instance_id=None,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=client[0],
        client_host=client[1],
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=member.user_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else tuple((each.key, each.value) for each in tags),
    )
