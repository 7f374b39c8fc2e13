"""A classic group by itself: who may commit, and from when on its offsets expire (KIP-211)."""

import pytest

from kbroker.control.coordinator.machine import Deferred
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_member import ClassicMember
from kbroker.control.groups.classic_state import ClassicState
from kbroker.protocol.errors import ErrorCode, KafkaError

EMPTY, STABLE, DEAD = ClassicState.EMPTY, ClassicState.STABLE, ClassicState.DEAD
PREPARING, COMPLETING = ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE
NO_MEMBER: tuple[str, str | None, int] = ("", None, -1)
CHANGED_MS, COMMITTED_MS = 9000, 5000


def group(state: ClassicState, protocol_type: str | None = "consumer") -> ClassicGroup:
    """Of generation 3, with member m."""
    made = ClassicGroup("g", CHANGED_MS, state, 3, protocol_type)
    if state is not EMPTY:
        made.add(ClassicMember("m", None, "", "", 1000, 1000, protocol_type or "", (("range", b""),)))
    return made


def refusal(
    made: ClassicGroup, member_id: str, instance_id: str | None, generation: int, transactional: bool = False
) -> ErrorCode | None:
    try:
        made.validate_offset_commit(member_id, instance_id, generation, transactional, 9)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize("state", [EMPTY, STABLE, PREPARING, COMPLETING])
def test_a_transaction_without_a_member_may_commit_in_every_state(state: ClassicState) -> None:
    assert refusal(group(state), *NO_MEMBER, transactional=True) is None


@pytest.mark.parametrize("state", [STABLE, PREPARING, COMPLETING])
def test_without_a_member_a_plain_commit_needs_an_empty_group(state: ClassicState) -> None:
    assert refusal(group(EMPTY), *NO_MEMBER) is None
    assert refusal(group(state), *NO_MEMBER) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("transactional", [False, True])
def test_a_commit_that_names_a_member_must_be_of_it_and_of_the_generation(transactional: bool) -> None:
    made = group(STABLE)
    assert refusal(made, "m", None, 3, transactional=transactional) is None
    assert refusal(made, "m", None, 2, transactional=transactional) is ErrorCode.ILLEGAL_GENERATION
    others: tuple[tuple[str, str | None, int], ...] = (
        ("x", None, 3),
        ("x", None, -1),
        ("", "i", -1),
        ("", None, 3),
    )
    for who in others:
        assert refusal(made, *who, transactional=transactional) is ErrorCode.UNKNOWN_MEMBER_ID


def test_only_a_transaction_commits_while_members_get_their_assignments() -> None:
    assert refusal(group(COMPLETING), "m", None, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert refusal(group(COMPLETING), "m", None, 3, transactional=True) is None
    assert refusal(group(PREPARING), "m", None, 3) is None


def test_a_dead_group_takes_no_commit() -> None:
    for transactional in (False, True):
        assert refusal(group(DEAD), *NO_MEMBER, transactional=transactional) is (
            ErrorCode.COORDINATOR_NOT_AVAILABLE
        )


def test_offsets_of_an_empty_group_expire_from_its_last_change_or_their_commit() -> None:
    assert group(EMPTY).expiry_base_ms(COMMITTED_MS) == CHANGED_MS
    made = group(EMPTY)
    made.state_timestamp = None  # a record of an older broker has no time
    assert made.expiry_base_ms(COMMITTED_MS) == COMMITTED_MS
    made.state_timestamp = 0
    assert made.expiry_base_ms(COMMITTED_MS) == 0


@pytest.mark.parametrize("state", [EMPTY, STABLE, PREPARING])
def test_without_a_protocol_offsets_expire_from_their_commit(state: ClassicState) -> None:
    made = group(state)
    made.protocol_type = None
    assert made.expiry_base_ms(COMMITTED_MS) == COMMITTED_MS


def test_offsets_of_a_group_with_members_expire_where_its_subscriptions_can_be_read() -> None:
    made = group(STABLE)
    made.subscribed_topics = frozenset({"t"})
    assert made.expiry_base_ms(COMMITTED_MS) == COMMITTED_MS
    for state in (PREPARING, COMPLETING):
        made.state = state
        assert made.expiry_base_ms(COMMITTED_MS) is None
    unreadable, other = group(STABLE), group(STABLE, "connect")
    other.subscribed_topics = frozenset({"t"})
    assert unreadable.expiry_base_ms(COMMITTED_MS) is None
    assert other.expiry_base_ms(COMMITTED_MS) is None


def test_a_replaced_static_members_requests_are_fenced() -> None:
    made = ClassicGroup("g", CHANGED_MS, STABLE, 3, "consumer")
    old = ClassicMember("m", "i", "", "", 1000, 1000, "consumer", (("range", b""),))
    joining, syncing = Deferred(), Deferred()
    made.add(old, joining)
    old.awaiting_sync = syncing
    made.replace_static("i", "m", "n")
    assert [each.value.error_code for each in (joining, syncing)] == [ErrorCode.FENCED_INSTANCE_ID] * 2
    assert (made.awaiting_join, made.leader_id, made.static_members) == (0, "n", {"i": "n"})


def test_a_new_generation_waits_for_no_sync_of_the_last_one() -> None:
    made = group(PREPARING)
    made.pending_sync.add("m")
    made.next_generation(CHANGED_MS + 1)
    assert (made.generation_id, made.state, made.pending_sync) == (4, COMPLETING, set())
