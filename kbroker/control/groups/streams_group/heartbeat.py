"""StreamsGroupHeartbeat: join, continue, leave. Each answer moves the group and the member one step
on."""

from msgspec import Struct

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.caller import Caller
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.modern_group.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kbroker.control.groups.modern_group.timers import MemberTimers
from kbroker.control.groups.streams_group import progress, records
from kbroker.control.groups.streams_group.configured_topology import ConfiguredTopology
from kbroker.control.groups.streams_group.endpoints import endpoints
from kbroker.control.groups.streams_group.heartbeat_check import check_heartbeat
from kbroker.control.groups.streams_group.member import MemberState, StreamsMember
from kbroker.control.groups.streams_group.state import StreamsGroup
from kbroker.control.groups.streams_group.tasks import Tasks, TaskSet
from kbroker.control.groups.streams_group.topology import InternalTopic
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    ResponseTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kbroker.protocol.slices import paced


class HeartbeatResult(Struct, frozen=True):
    """The answer, and the internal topics that are to be created for it."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[InternalTopic, ...] = ()


class StreamsHeartbeat:
    """Runs in: control. Owner: the GroupShard.

    _waiting: groups whose first assignment waits for more members.
    """

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._waiting: set[str] = set()
        self._timers = MemberTimers(
            table, StreamsGroup, table.settings.streams_session_timeout_ms, self._fence
        )

    def heartbeat(self, caller: Caller, request: StreamsGroupHeartbeatRequest, now_ms: int) -> Outcome:
        """Outcome whose response is a HeartbeatResult. Raises KafkaError."""
        check_heartbeat(request)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request)
        joins = request.member_epoch == 0
        out: list[Record] = []
        group = self._group(request.group_id, joins, out)
        old = self._member(group, request)
        new = progress.described_by(old, (caller.client_id, caller.client_host), request)
        changed = not new.same_metadata(old) or new.member_id not in group.members
        if changed:
            out.append(records.member_metadata(group.group_id, new))
        topology = progress.updated_topology(group, request.topology, out)
        configured = progress.updated_configuration(self._table, group, topology)
        if configured.is_ready:
            _check_tasks(configured, request)
        configs = progress.assignment_configs(self._table, group.group_id)
        progress.check_tasks(configured, configs)
        epoch = progress.updated_epoch(group, changed, configured, configs, out)
        if group.is_empty:
            self._await_members(group.group_id)
        basis = progress.Basis(epoch, configured, configs)
        if group.group_id in self._waiting:
            target, delayed = progress.awaited_target(group)
        else:
            target, delayed = progress.updated_target(self._table, group, basis, new, now_ms, out)
        member = progress.reconciled(group, new, target, _claimed(request), out)
        if member is not new:
            self._watch_revocation(group.group_id, member)
        self._timers.session(group.group_id, member.member_id)
        if request.shutdown_application:
            group.shutdown_requested_by = member.member_id
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._table.overrides.number(
                group.group_id,
                "streams.heartbeat.interval.ms",
                self._table.settings.streams_heartbeat_interval_ms,
            ),
            status=progress.statuses(group, member, configured, delayed),
        )
        if joins or member.tasks != old.tasks:
            _show_tasks(response, member)
            if member.user_endpoint is not None:
                group.endpoint_epoch = next_epoch(group.endpoint_epoch)
        self._show_endpoints(response, group, member, request.endpoint_information_epoch)
        return Outcome(out, HeartbeatResult(response, configured.missing))

    def _show_endpoints(
        self, response: StreamsGroupHeartbeatResponse, group: StreamsGroup, member: StreamsMember, known: int
    ) -> None:
        """A group that its first heartbeat is about to make has no endpoint epoch yet."""
        if known != group.endpoint_epoch:
            others = [each for each in paced(group.members.values()) if each.member_id != member.member_id]
            response.partitions_by_user_endpoint = endpoints(group, [*others, member], self._table.topics)
        if group.group_id in self._table.groups:
            response.endpoint_information_epoch = group.endpoint_epoch

    def _group(self, group_id: str, create: bool, out: list[Record]) -> StreamsGroup:
        group = self._table.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        if group is None and create:
            return StreamsGroup(group_id)
        if isinstance(group, ClassicGroup) and group.is_empty and create:
            out += group.tombstones()
            return StreamsGroup(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        return self._table.of_type(group_id, StreamsGroup)

    def _member(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
        if request.member_epoch == 0:
            # Also for a known member: only consumer and share groups let it join again.
            group.check_room(None, self._table.settings.streams_max_size)
            return group.members.get(request.member_id) or StreamsMember(request.member_id)
        member = group.member(request.member_id)
        epoch, known = request.member_epoch, member.member_epoch
        if epoch == known:
            return member
        claimed = _claimed(request)
        if (
            epoch < known
            and epoch == member.previous_member_epoch
            and claimed
            and member.tasks.covers(claimed)
        ):
            return member
        raise group.fenced(epoch, known)

    # --- leaving

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> Outcome:
        group = self._table.of_type(request.group_id, StreamsGroup)
        if request.shutdown_application:
            group.shutdown_requested_by = request.member_id
        outcome = self._remove(group, group.member(request.member_id).member_id)
        self._timers.left(group.group_id, request.member_id)
        outcome.response = HeartbeatResult(
            StreamsGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch, status=[]
            )
        )
        return outcome

    def _fence(self, group: StreamsGroup, member_id: str, _: int) -> Outcome:
        return self._remove(group, member_id)

    def _remove(self, group: StreamsGroup, member_id: str) -> Outcome:
        out = records.member_tombstones(group.group_id, member_id)
        out.append(
            records.group_epoch(
                group.group_id,
                next_epoch(group.group_epoch),
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            )
        )
        self._timers.end_all(group.group_id, member_id)
        return Outcome(out)

    # --- timers

    def _await_members(self, group_id: str) -> None:
        """The first assignment waits a while, so that it need not be undone when more members
        come."""
        delay_ms = self._table.overrides.number(
            group_id,
            "streams.initial.rebalance.delay.ms",
            self._table.settings.streams_initial_rebalance_delay_ms,
        )
        if delay_ms > 0 and group_id not in self._waiting:
            self._waiting.add(group_id)
            self._table.timers.schedule(
                f"initial-rebalance-timeout-{group_id}",
                delay_ms,
                group_id,
                lambda now_ms: self._assign(group_id, now_ms),
            )

    def _assign(self, group_id: str, now_ms: int) -> Outcome:
        """The wait for more members is over."""
        self._waiting.discard(group_id)
        group = self._table.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.configured is None:
            return Outcome()
        try:
            progress.check_tasks(group.configured, group.assignment_configs)
        except KafkaError:  # topics have grown during the wait: heartbeats are refused, too
            return Outcome()
        out: list[Record] = []
        basis = progress.Basis(group.group_epoch, group.configured, group.assignment_configs)
        progress.updated_target(self._table, group, basis, None, now_ms, out)
        return Outcome(out)

    def _watch_revocation(self, group_id: str, member: StreamsMember) -> None:
        """A member that must give up tasks has its rebalance timeout for it."""
        if member.state is MemberState.UNREVOKED_TASKS:
            self._timers.revocation(group_id, member, member.rebalance_timeout_ms)
        else:
            self._timers.end_revocation(group_id, member.member_id)

    def loaded(self, group: StreamsGroup) -> None:
        """The group was loaded after a restart: start the timers of sessions and of revoked
        tasks."""
        for member in group.members.values():
            self._timers.session(group.group_id, member.member_id)
            if member.state is MemberState.UNREVOKED_TASKS:
                self._watch_revocation(group.group_id, member)


def _claimed(request: StreamsGroupHeartbeatRequest) -> TaskSet | None:
    """The member's tasks as reported; None if the heartbeat has none."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TaskSet.of(request)


def _check_tasks(configured: ConfiguredTopology, request: StreamsGroupHeartbeatRequest) -> None:
    """Raises INVALID_REQUEST for tasks that the topology does not have."""
    ids: list[RequestTaskIds] = []
    for each in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        ids += each or []
    for each_id in ids:
        count = configured.tasks.get(each_id.subtopology_id)
        if count is None:
            text = f"Subtopology {each_id.subtopology_id} does not exist in the topology."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        for partition in each_id.partitions:
            if not 0 <= partition < count:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Task {partition} for subtopology {each_id.subtopology_id} is invalid. "
                    f"Number of tasks for this subtopology: {count}",
                )


def _show_tasks(response: StreamsGroupHeartbeatResponse, member: StreamsMember) -> None:
    tasks = member.tasks.plain
    response.active_tasks = _ids(tasks.active)
    response.standby_tasks = _ids(tasks.standby)
    response.warmup_tasks = _ids(tasks.warmup)


def _ids(tasks: Tasks) -> list[ResponseTaskIds]:
    return [ResponseTaskIds(key, sorted(partitions)) for key, partitions in sorted(tasks.items())]
