"""Share groups: joining, sharing partitions, leaving; what a successor still knows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.groups.caller import Caller
from kbroker.control.groups.settings import GroupSettings
from kbroker.control.groups.share_group.member import SharedTopic
from kbroker.control.groups.share_group.simple_assignor import assign_shared
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.control.groups.coordinator import Coordinator, Topics

GROUP = "team"
INTERVAL_MS = 1000


class ShareMembers:
    """Members by name, each with the epoch and the partitions that it was given last."""

    def __init__(self, kafka: Coordinator) -> None:
        self.kafka = kafka
        self.epochs: dict[str, int] = {}
        self.parts: dict[str, dict[str, list[int]]] = {}

    def beat(self, name: str, topics: list[str] | None = None, epoch: int | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            GROUP, name, self.epochs.get(name, 0) if epoch is None else epoch, None, topics
        )
        response = self.kafka.run(
            self.kafka.shard.share_heartbeat(Caller("client", "/host", 1), request, self.kafka.now_ms)
        )
        self.epochs[name] = response.member_epoch
        if response.assignment is not None:
            self.parts[name] = {
                self.kafka.topics.name_of(each.topic_id) or "?": each.partitions
                for each in response.assignment.topic_partitions
            }
        return response

    def settle(self) -> None:
        for _ in range(3):
            self.kafka.advance(INTERVAL_MS)
            for name in list(self.epochs):
                self.beat(name)


@pytest.fixture
def kafka() -> Coordinator:
    made = Coordinator()
    made.topics.put("t", 4)
    return made


def fails(code: ErrorCode, members: ShareMembers, *arguments: Any, **fields: Any) -> None:
    with pytest.raises(KafkaError) as caught:
        members.beat(*arguments, **fields)
    assert caught.value.code == code


def test_the_first_member_gets_everything_once_the_partitions_are_shared(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    members.beat("a", ["t"])
    assert members.parts["a"] == {}
    members.settle()
    assert members.parts["a"] == {"t": [0, 1, 2, 3]}


def test_members_divide_partitions_and_share_them_when_there_are_too_few(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    for name in "ab":
        members.beat(name, ["t"])
    members.settle()
    assert sorted(members.parts["a"]["t"] + members.parts["b"]["t"]) == [0, 1, 2, 3]
    for name in "cdef":
        members.beat(name, ["t"])
    members.settle()
    given_to = [index for parts in members.parts.values() for index in parts["t"]]
    assert len(given_to) == 6
    assert set(given_to) == {0, 1, 2, 3}


def test_partitions_of_left_and_silent_members_go_to_the_others(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    for name in "abc":
        members.beat(name, ["t"])
    members.settle()
    members.beat("c", epoch=-1)
    del members.epochs["c"]
    members.settle()
    del members.epochs["b"]
    for _ in range(kafka.settings.share_session_timeout_ms // INTERVAL_MS):
        kafka.advance(INTERVAL_MS)
        members.beat("a")
    members.settle()
    assert members.parts["a"] == {"t": [0, 1, 2, 3]}
    fails(ErrorCode.UNKNOWN_MEMBER_ID, members, "b", epoch=2)


def test_a_group_reads_the_topics_of_its_members(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    members.beat("a", ["t", "later"])
    group = kafka.shard.table.groups[GROUP]
    assert set(group.topics_read()) == {"t", "later"}
    members.beat("a", epoch=-1)
    assert not set(group.topics_read())


def test_new_partitions_are_shared(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    members.beat("a", ["t", "later"])
    members.settle()
    kafka.topics.put("t", 6)
    kafka.topics.put("later", 1)
    members.settle()
    assert members.parts["a"] == {"t": [0, 1, 2, 3, 4, 5], "later": [0]}


def test_partitions_are_assigned_when_their_states_are_written(kafka: Coordinator) -> None:
    requested: list[Any] = []
    kafka.shard.table.initialize_states = lambda *each: requested.append(each)
    topics = {Topics.make_id("t"): SharedTopic("t", frozenset(range(4)))}
    members = ShareMembers(kafka)
    members.beat("a", ["t"])
    members.settle()
    assert requested == [(GROUP, 2, topics)], "once, before any member has partitions"
    assert members.parts["a"] == {}
    kafka.run(kafka.shard.states_not_initialized(GROUP, topics))
    members.settle()
    assert requested == 2 * [(GROUP, 2, topics)], "again after a failure"
    assert members.parts["a"] == {}
    kafka.run(kafka.shard.states_initialized(GROUP, topics))
    members.settle()
    assert members.parts["a"] == {"t": [0, 1, 2, 3]}
    assert not kafka.shard.states_initialized(GROUP, topics).records, "nothing is left to share"
    assert not kafka.shard.states_not_initialized(GROUP, topics).records
    assert not kafka.shard.states_initialized("nobody", topics).records


def test_partitions_that_are_added_meanwhile_are_initialized_too(kafka: Coordinator) -> None:
    requested: list[Any] = []
    kafka.shard.table.initialize_states = lambda *each: requested.append(each)
    members = ShareMembers(kafka)
    members.beat("a", ["t"])
    kafka.advance(INTERVAL_MS)
    kafka.topics.put("t", 6)
    members.settle()
    (_, _, few), (_, _, all_of_them) = requested
    kafka.run(kafka.shard.states_initialized(GROUP, few))
    members.settle()
    assert members.parts["a"] == {"t": [0, 1, 2, 3]}
    kafka.run(kafka.shard.states_initialized(GROUP, all_of_them))
    members.settle()
    assert members.parts["a"] == {"t": [0, 1, 2, 3, 4, 5]}


def test_a_new_coordinator_has_the_states_written_that_are_missing(kafka: Coordinator) -> None:
    kafka.shard.table.initialize_states = lambda *_: None
    members = ShareMembers(kafka)
    members.beat("a", ["t"])
    kafka.advance(INTERVAL_MS)
    members.kafka = kafka.restarted()
    members.settle()
    assert members.parts["a"] == {"t": [0, 1, 2, 3]}


def test_a_new_coordinator_keeps_members_and_partitions(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    for name in "ab":
        members.beat(name, ["t"])
    members.settle()
    members.kafka = kafka.restarted()
    before = dict(members.parts)
    epochs = dict(members.epochs)
    members.settle()
    assert (members.parts, members.epochs) == (before, epochs)
    described = members.kafka.shard.describe_share_group(GROUP)
    assert (described.group_state, len(described.members)) == ("Stable", 2)


def test_invalid_heartbeats_are_refused(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    fails(ErrorCode.GROUP_ID_NOT_FOUND, members, "a", epoch=3)
    fails(ErrorCode.INVALID_REQUEST, members, "a")
    fails(ErrorCode.INVALID_REQUEST, members, "", ["t"])
    members.beat("a", ["t"])
    fails(ErrorCode.FENCED_MEMBER_EPOCH, members, "a", epoch=99)
    fails(ErrorCode.UNKNOWN_MEMBER_ID, members, "b", epoch=2)
    fails(ErrorCode.INVALID_REQUEST, members, "a", epoch=-2)


def test_a_full_group_refuses_members() -> None:
    kafka = Coordinator(GroupSettings(share_max_size=1))
    kafka.topics.put("t", 1)
    members = ShareMembers(kafka)
    members.beat("a", ["t"])
    fails(ErrorCode.GROUP_MAX_SIZE_REACHED, members, "b", ["t"])
    members.beat("a", ["t"], epoch=0)


def test_partitions_that_an_administrator_adds_make_the_group(kafka: Coordinator) -> None:
    kafka.run(kafka.shard.share_partitions(GROUP, {"t": {1, 9}, "nope": {0}}))
    group: Any = kafka.shard.table.groups[GROUP]
    assert {each.name: each.partitions for each in group.shared.values()} == {"t": frozenset({1})}
    kafka.run(kafka.shard.share_partitions(GROUP, {"t": {3}}))
    assert {each.name: each.partitions for each in group.shared.values()} == {"t": frozenset({1, 3})}
    kafka.run(kafka.shard.unshare_topics(GROUP, {Topics.make_id("t")}))
    assert not group.shared


@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.sets(st.sampled_from("xyz"), min_size=1), min_size=1),
    st.dictionaries(st.sampled_from("xyz"), st.integers(1, 6), min_size=1),
    st.dictionaries(st.sampled_from("abcdefg"), st.sets(st.sampled_from("xyz"), min_size=1)),
)
def test_every_subscribed_partition_has_a_member_and_no_member_idles(
    subscribed: dict[str, set[str]], counts: dict[str, int], earlier: dict[str, set[str]]
) -> None:
    def ids(topics: set[str]) -> set[bytes]:
        return {topic.encode() for topic in topics}

    available = {topic.encode(): set(range(count)) for topic, count in counts.items()}
    before = assign_shared({name: ids(topics) for name, topics in earlier.items()}, available, {})
    members = {name: ids(topics) for name, topics in subscribed.items()}
    assigned = assign_shared(members, available, before)
    assert assigned.keys() == members.keys()
    for name, parts in assigned.items():
        assert parts.keys() <= members[name]
        assert all(set(indexes) <= available[topic] for topic, indexes in parts.items())
        assert parts or not members[name] & available.keys()
    expected = {topic for topics in members.values() for topic in topics} & available.keys()
    for topic in expected:
        given_to = {index for parts in assigned.values() for index in parts.get(topic, ())}
        assert given_to == available[topic]


class CountedTopics(set[bytes]):
    """Counts the questions whether a member subscribes to a topic."""

    asked = 0

    def __contains__(self, topic: object) -> bool:
        CountedTopics.asked += 1
        return super().__contains__(topic)


def test_each_partition_goes_to_the_least_loaded_without_a_look_at_all_members() -> None:
    topics = [b"x", b"y", b"z"]
    members = {f"m{number:03}": CountedTopics(topics[: 1 + number % 3]) for number in range(120)}
    available = {topic: set(range(100)) for topic in topics}
    loads = dict.fromkeys(members, 0)
    for topic in topics:
        for _ in available[topic]:
            readers = [name for name, subscribed in members.items() if set(subscribed) >= {topic}]
            loads[min(readers, key=loads.__getitem__)] += 1
    loads = {name: max(1, load) for name, load in loads.items()}  # no member idles
    CountedTopics.asked = 0
    found = assign_shared(members, available, {})
    assert CountedTopics.asked < 1000  # 120 members for each of 300 partitions: 36,000
    assert {name: sum(map(len, each.values())) for name, each in found.items()} == loads
    again = assign_shared(members, available, found)
    assert {name: sum(map(len, each.values())) for name, each in again.items()} == loads


def test_a_heartbeat_looks_at_assigned_partitions_only_when_they_have_changed(
    kafka: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group may have thousands of members, and each sends one every few seconds."""
    members = ShareMembers(kafka)
    for name in "abc":
        members.beat(name, ["t"])
    for _ in range(5):
        kafka.advance(INTERVAL_MS)
        for name in "abc":
            members.beat(name)
    looked = 0
    assigned = ShareGroup._assigned

    def counted(group: ShareGroup) -> Any:
        nonlocal looked
        looked += 1
        return assigned(group)

    monkeypatch.setattr(ShareGroup, "_assigned", counted)
    for _ in range(10):
        for name in "abc":
            members.beat(name)
    assert looked == 0


def test_a_group_that_everybody_left_stays_until_it_is_deleted(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    members.beat("a", ["t"])
    members.settle()
    members.beat("a", epoch=-1)
    kafka.expire_offsets()
    assert kafka.shard.group_ids() == [GROUP]
    assert kafka.restarted().shard.group_ids() == [GROUP]


def test_a_change_of_topics_that_could_not_be_written_is_noticed_again(kafka: Coordinator) -> None:
    members = ShareMembers(kafka)
    members.beat("a", ["t", "later"])
    members.settle()
    kafka.topics.remove("t")
    kafka.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    fails(ErrorCode.COORDINATOR_NOT_AVAILABLE, members, "a")
    kafka.append_error = ErrorCode.NONE
    epoch = members.epochs["a"]
    members.settle()
    assert members.epochs["a"] == epoch + 1


def test_a_deleted_topic_is_one_change(kafka: Coordinator) -> None:
    """Its shared partitions are not assigned any more, and nobody waits for them."""
    kafka.topics.put("u", 1)
    members = ShareMembers(kafka)
    members.beat("a", ["t", "u"])
    members.settle()
    epoch = members.epochs["a"]
    kafka.topics.remove("t")
    members.settle()
    assert members.parts["a"] == {"u": [0]}
    assert members.epochs["a"] == epoch + 1


def test_a_deleted_topic_is_forgotten(kafka: Coordinator) -> None:
    """One record lists all topics of a group, whose members may subscribe to new ones without
    end."""
    kafka.topics.put("u", 1)
    members = ShareMembers(kafka)
    members.beat("a", ["t", "u"])
    members.settle()
    kafka.topics.remove("t")
    topic_id = Topics.make_id("t")
    assert kafka.shard.shares_topic(GROUP, topic_id)
    assert not kafka.shard.shares_topic("other", topic_id)
    kafka.run(kafka.shard.shared_topic_deleted(GROUP, topic_id))
    members.settle()
    for coordinator in (kafka, kafka.restarted()):
        group: Any = coordinator.shard.table.groups[GROUP]
        assert {each.name for each in group.shared.values()} == {"u"}
    assert members.parts["a"] == {"u": [0]}
    assert not kafka.shard.shares_topic(GROUP, topic_id)
    assert not kafka.shard.shared_topic_deleted(GROUP, topic_id).records


def test_a_topic_that_is_deleted_before_its_states_are_written_is_forgotten(kafka: Coordinator) -> None:
    requested: list[Any] = []
    kafka.shard.table.initialize_states = lambda *each: requested.append(each)
    members = ShareMembers(kafka)
    members.beat("a", ["t"])
    kafka.advance(INTERVAL_MS)
    ((_, _, topics),) = requested
    kafka.topics.remove("t")
    kafka.run(kafka.shard.shared_topic_deleted(GROUP, Topics.make_id("t")))
    kafka.run(kafka.shard.states_initialized(GROUP, topics))
    group: Any = kafka.shard.table.groups[GROUP]
    assert (group.initializing, group.shared) == ({}, {})
