"""A classic group under clients that follow the protocol, die, leave, come back, and a coordinator
that restarts.

Whatever happened: requests are answered, no member gets two different answers about a generation,
what was acknowledged survives, and once the world is quiet the group is stable with exactly those
who are there.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from kbroker.control.coordinator.machine import Deferred
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.leave_group import MemberIdentity
from tests.control.groups.coordinator import Coordinator, answer

SESSION_MS = 10_000
REBALANCE_MS = 20_000
QUIET_S = 90


class Client:
    """One consumer: what it knows, and the request it waits on."""

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.forget()

    def forget(self) -> None:
        self.member_id = ""
        self.rejoin()

    def rejoin(self) -> None:
        self.generation = -1
        self.leads: list[str] | None = None
        self.joining: Deferred | None = None
        self.syncing: Deferred | None = None
        self.assignment: bytes | None = None

    @property
    def waits(self) -> bool:
        return any(each is not None and not each.done for each in (self.joining, self.syncing))


class ClassicGroupModel(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.kafka = Coordinator()
        self.alive: list[Client] = []
        self.leaders: dict[int, str] = {}
        self.given: dict[tuple[int, str], bytes] = {}
        self.committed = -1
        self.instances = 0

    # --- what a client does next

    def step(self, client: Client) -> None:
        if client.waits:
            return
        if client.joining is not None:
            self.joined(client, answer(client.joining))
        elif client.syncing is not None:
            self.synced(client, answer(client.syncing))
        elif client.generation < 0:
            client.joining = self.kafka.send_join(
                client.member_id,
                instance=client.instance,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
            )
        elif client.assignment is None:
            given = {}
            if client.leads is not None:
                given = {each: f"{client.generation}:{each}".encode() for each in client.leads}
                self.given |= {(client.generation, each): part for each, part in given.items()}
            client.syncing = self.kafka.send_sync(
                client.member_id, client.generation, given, instance=client.instance
            )
        else:
            code = self.kafka.heartbeat(client.member_id, client.generation, instance=client.instance)
            self.heard(client, code)

    def heard(self, client: Client, code: ErrorCode) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.forget()
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            client.rejoin()
        else:
            assert code is ErrorCode.NONE

    def joined(self, client: Client, response: Any) -> None:
        client.joining = None
        code = ErrorCode(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
            return
        if code is not ErrorCode.NONE:
            self.heard(client, code)
            return
        client.member_id = response.member_id
        client.generation = response.generation_id
        leads = response.leader == response.member_id and not response.skip_assignment
        client.leads = [member.member_id for member in response.members] if leads else None
        if client.leads is not None:
            assert client.member_id in client.leads
        if client.instance is None:
            leader = self.leaders.setdefault(client.generation, response.leader)
            assert response.leader == leader or self.has_static()

    def has_static(self) -> bool:
        """Static members change the leader's id inside a generation."""
        return self.instances > 0

    def synced(self, client: Client, response: Any) -> None:
        client.syncing = None
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            self.heard(client, code)
            return
        client.assignment = response.assignment
        if client.instance is None:
            assert response.assignment == self.given.get((client.generation, client.member_id), b"")

    # --- what may happen

    @rule(target=clients)
    def comes(self) -> Client:
        client = Client(None)
        self.alive.append(client)
        return client

    @rule(target=clients)
    def static_one_comes(self) -> Client:
        self.instances += 1
        client = Client(f"i{self.instances}")
        self.alive.append(client)
        return client

    @rule(client=clients)
    def acts(self, client: Client) -> None:
        if client in self.alive:
            self.step(client)

    @rule()
    def all_act(self) -> None:
        for client in self.alive:
            self.step(client)

    @rule(client=consumes(clients))
    def dies(self, client: Client) -> None:
        if client in self.alive:
            self.alive.remove(client)

    @rule(client=clients)
    def starts_over(self, client: Client) -> None:
        """The process is started again: a static member takes its old place."""
        client.forget()

    @rule(client=consumes(clients))
    def leaves(self, client: Client) -> None:
        if client in self.alive:
            self.alive.remove(client)
            if client.member_id and not client.waits:
                self.kafka.leave(MemberIdentity(client.member_id, client.instance))

    @rule(ms=st.integers(0, 12_000))
    def time_passes(self, ms: int) -> None:
        self.kafka.advance(ms)

    @rule(client=clients, offset=st.integers(0, 1000))
    def commits(self, client: Client, offset: int) -> None:
        if client in self.alive and client.assignment is not None:
            code = self.kafka.commit(offset, client.member_id, client.generation, instance=client.instance)
            if code is ErrorCode.NONE:
                self.committed = offset
            else:
                self.heard(client, code)

    @rule()
    def coordinator_restarts(self) -> None:
        """What was in progress is lost: clients ask again. Generations that were not stable are
        given out again."""
        self.kafka = self.kafka.restarted()
        stable = [client.generation for client in self.alive if client.assignment is not None]
        self.leaders = {each: leader for each, leader in self.leaders.items() if each in stable}
        for client in self.alive:
            if client.waits or client.assignment is None:
                client.rejoin()

    @rule()
    def quiet(self) -> None:
        """Nothing happens for a while, everybody does what the protocol asks."""
        for _ in range(QUIET_S):
            for client in self.alive:
                self.step(client)
            self.kafka.advance(1000)
        members = {client.member_id for client in self.alive}
        group = self.kafka.shard.table.classic("g")
        if self.alive:
            assert group is not None
            assert self.kafka.state() == "Stable"
            assert set(group.members) == members
            assert len(members) == len(self.alive)
            for client in self.alive:
                assert client.assignment is not None
                assert client.generation == group.generation_id
        elif group is not None:
            assert self.kafka.state() == "Empty"
            assert not self.kafka.timers

    @invariant()
    def committed_offsets_are_as_answered(self) -> None:
        assert self.kafka.committed() == self.committed

    @invariant()
    def the_group_agrees_with_itself(self) -> None:
        group = self.kafka.shard.table.classic("g")
        if group is None:
            return
        assert group.awaiting_join == sum(each.awaiting_join is not None for each in group.members.values())
        assert (group.leader_id in group.members) == bool(group.members)
        assert set(group.static_members.values()) <= set(group.members)
        assert group.is_empty <= (not group.members)
        assert not group.pending_join & group.members.keys()


ClassicGroupModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestClassicGroupModel = ClassicGroupModel.TestCase
