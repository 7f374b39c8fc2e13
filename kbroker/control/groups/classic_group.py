"""State of a classic group: members, generation, chosen protocol, leader, and the state of its
rebalance."""

from collections.abc import Collection
from typing import ClassVar, Final

from kbroker.control.coordinator.machine import Deferred, Record
from kbroker.control.groups.classic_member import ClassicMember, Protocols
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.group import Group
from kbroker.control.groups.protocol_votes import ProtocolVotes
from kbroker.protocol.consumer_protocol import subscribed_topics
from kbroker.protocol.coordinator_records.group_metadata import GroupMetadataKey
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kbroker.protocol.messages.sync_group import SyncGroupResponse
from kbroker.protocol.record_types import encode_key

CONSUMER: Final = "consumer"
"""Protocol type of consumers; the coordinator reads their metadata."""


class ClassicGroup(Group):
    """Runs in: control. Owner: the GroupTable (Kafka's ClassicGroup).

    Members, generation and assignment are soft state that the operations change; what must survive
    is written as GroupMetadata when a generation becomes stable or the group empty.
    """

    TYPE: ClassVar[str] = "classic"

    def __init__(
        self,
        group_id: str,
        now_ms: int | None,
        state: ClassicState = ClassicState.EMPTY,
        generation_id: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.previous_state = ClassicState.DEAD
        self.state_timestamp = now_ms
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader_id = leader_id
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_join: set[str] = set()
        self.pending_sync: set[str] = set()
        self.awaiting_join = 0
        self.new_member_added = False
        self.subscribed_topics: frozenset[str] | None = None
        self._votes = ProtocolVotes()

    # --- state

    def is_in(self, *states: ClassicState) -> bool:
        return self.state in states

    @property
    def state_name(self) -> str:
        return self.state

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        return ClassicState.PREPARING_REBALANCE.may_follow(self.state)

    def transition(self, state: ClassicState, now_ms: int) -> None:
        """Raises RuntimeError for a transition that the state machine does not have."""
        if not state.may_follow(self.state):
            raise RuntimeError(f"group {self.group_id} cannot go from {self.state} to {state}")
        self.previous_state, self.state = self.state, state
        self.state_timestamp = now_ms

    def next_generation(self, now_ms: int) -> None:
        """Start a generation with the present members; without any the group is empty."""
        self.generation_id = next_epoch(self.generation_id)
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscribed_topics()
        joined = ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY
        self.transition(joined, now_ms)
        self.pending_sync.clear()

    # --- members

    def add(self, member: ClassicMember, deferred: Deferred | None = None) -> None:
        """Add a member, waiting on its JoinGroup if `deferred` is given."""
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise RuntimeError(f"{member.instance_id} is a member of {self.group_id} already")
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._votes.add(member)
        member.awaiting_join = deferred
        if deferred is not None:
            self.awaiting_join += 1
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending one; another leads if it was the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._votes.remove(member)
            if member.awaiting_join is not None:
                self.awaiting_join -= 1
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        deferred: Deferred | None,
    ) -> None:
        """A member has rejoined: take its new metadata, and its waiting request."""
        if [name for name, _ in member.protocols] == [name for name, _ in protocols]:
            member.protocols = protocols
        else:
            self._votes.remove(member)
            member.protocols = protocols
            self._votes.add(member)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.awaiting_join += (deferred is not None) - (member.awaiting_join is not None)
        member.awaiting_join = deferred

    def replace_static(self, instance_id: str, old_member_id: str, new_member_id: str) -> ClassicMember:
        """Give a static member a new member id; requests of the old one are answered
        FENCED_INSTANCE_ID."""
        old = self.members.pop(old_member_id)
        self.complete_join(
            old,
            JoinGroupResponse(
                member_id=old_member_id, error_code=ErrorCode.FENCED_INSTANCE_ID, protocol_name=None
            ),
        )
        self.complete_sync(old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        new = ClassicMember(
            new_member_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self.members[new_member_id] = new
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[instance_id] = new_member_id
        return new

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has rejoined, else elect the first rejoined member. False: there is
        none."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    @property
    def all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join and not self.pending_join

    def not_yet_rejoined(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if member.awaiting_join is None]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The maximum of the members' rebalance timeouts."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def validate_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises KafkaError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another holds the
        instance id."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    # --- requests that wait

    def complete_join(self, member: ClassicMember, response: JoinGroupResponse) -> bool:
        """Answer the JoinGroup that the member waits for; returns whether there was one."""
        deferred = member.awaiting_join
        if deferred is None:
            return False
        member.awaiting_join = None
        self.awaiting_join -= 1
        return deferred.complete(response)

    def complete_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Answer the SyncGroup that the member waits for; returns whether there was one."""
        deferred = member.awaiting_sync
        if deferred is None:
            return False
        member.awaiting_sync = None
        return deferred.complete(response)

    # --- protocols

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member of this type and with these protocols may join the current members."""
        if self.is_empty:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(map(self._votes.all_support, names))

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those that all support."""
        return self._votes.select(self.members.values())

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER

    def refresh_subscribed_topics(self) -> None:
        """Read the members' subscriptions; None when they cannot be read (KIP-496)."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            name = self.protocol_name
            self.subscribed_topics = subscribed_topics(m.metadata(name) for m in self.members.values())

    def topics_read(self) -> Collection[str]:
        return self.subscribed_topics or ()

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is not None:
            return topic in self.subscribed_topics
        return self.uses_consumer_protocol

    def leader_view(self) -> list[JoinGroupResponseMember]:
        """Every member with its metadata, as the leader's JoinGroup answer lists them."""
        return [
            JoinGroupResponseMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        ]

    def join_response(self, member_id: str, skip_assignment: bool = False) -> JoinGroupResponse:
        """The successful JoinGroup answer to a member of this generation."""
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=self.leader_view() if self.is_leader(member_id) else [],
        )

    # --- offsets and deletion

    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        transactional: bool,
        api_version: int,  # noqa: ARG002
    ) -> None:
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_or_epoch < 0 and self.is_empty:
            return
        if generation_or_epoch >= 0 or member_id or instance_id is not None:
            self.validate_member(member_id, instance_id)
            if generation_or_epoch != self.generation_id:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional and not self.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.is_in(ClassicState.COMPLETING_REBALANCE):
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:  # noqa: ARG002
        self._validate_alive()

    def validate_offset_delete(self) -> None:
        self._validate_alive()
        if not self.is_empty and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        self._validate_alive()
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def _validate_alive(self) -> None:
        if self.state is ClassicState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is in dead state.")

    def expiry_base_ms(self, commit_timestamp: int) -> int | None:
        """Offsets of a group that rebalances, or whose subscriptions cannot be read, do not expire
        (KIP-211)."""
        if self.protocol_type is None:
            return commit_timestamp
        if self.is_empty:
            return commit_timestamp if self.state_timestamp is None else self.state_timestamp
        readable = self.uses_consumer_protocol and self.subscribed_topics is not None
        return commit_timestamp if readable and self.is_in(ClassicState.STABLE) else None

    def tombstones(self) -> list[Record]:
        return [Record(encode_key(GroupMetadataKey(self.group_id)), None)]
