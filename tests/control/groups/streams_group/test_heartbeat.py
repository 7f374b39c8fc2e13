"""Streams groups: joining, topology, tasks that move, leaving; what a successor still knows."""

import pytest
from msgspec.structs import replace

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.settings import GroupSettings
from kbroker.control.groups.streams_group.configured_topology import Status
from kbroker.control.groups.streams_group.member import MemberState
from kbroker.control.groups.streams_group.progress import MAX_TASKS
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    Subtopology,
    TopicInfo,
    Topology,
)
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.control.groups.coordinator import Coordinator
from tests.control.groups.streams_members import (
    DELAY_MS,
    GROUP,
    INTERVAL_MS,
    Process,
    active_tasks,
    application,
    group_of,
    settle,
    word_count,
)

EVERY_TASK = {(key, partition) for key in ("0", "1") for partition in range(4)}


def test_the_first_assignment_waits_for_more_members_and_for_internal_topics() -> None:
    kafka = application()
    one = Process(kafka, "one")
    assert one.epoch == 1
    assert one.missing == ["counts", "words"]
    assert [code for code, _ in one.status] == [Status.ASSIGNMENT_DELAYED, Status.MISSING_INTERNAL_TOPICS]
    assert one.active == {}
    assert kafka.shard.describe_streams_group(GROUP).group_state == "NotReady"
    two = Process(kafka, "two")
    settle(kafka, one, two)
    assert set(active_tasks(one, two)) == EVERY_TASK
    assert [len(active_tasks(each)) for each in (one, two)] == [4, 4]
    assert one.status == []
    assert one.epoch == two.epoch == group_of(kafka).group_epoch


def test_a_group_reads_the_inputs_of_its_subtopologies_while_it_has_members() -> None:
    kafka = application()
    one = Process(kafka, "one")
    assert set(group_of(kafka).topics_read()) == {"lines", "words"}
    one.leave()
    assert not group_of(kafka).topics_read()


def test_a_full_group_lets_no_member_join_also_not_again() -> None:
    kafka = application(settings=GroupSettings(streams_max_size=1))
    one = Process(kafka, "one")
    settle(kafka, one)
    for name in ("two", "one"):
        with pytest.raises(KafkaError, match="maximum capacity of 1 members") as error:
            Process(kafka, name)
        assert error.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    one.beat()
    assert set(active_tasks(one)) == EVERY_TASK


def test_internal_topics_have_as_many_partitions_as_what_feeds_them() -> None:
    kafka = application(lines=7)
    one = Process(kafka, "one")
    assert {topic.name: topic.partitions for topic in one.beat().missing} == {}
    assert kafka.topics.counts == {"lines": 7, "words": 7, "counts": 7}


def test_without_source_topics_nothing_is_assigned_until_they_appear() -> None:
    kafka = Coordinator()
    one = Process(kafka, "one")
    kafka.advance(DELAY_MS)
    one.beat()
    assert one.status == [(Status.MISSING_SOURCE_TOPICS, "Source topics lines are missing.")]
    kafka.topics.put("lines", 2)
    settle(kafka, one)
    assert len(active_tasks(one)) == 4


def test_a_member_that_comes_gets_tasks_only_after_they_were_given_up() -> None:
    kafka = application()
    one = Process(kafka, "one")
    settle(kafka, one)
    two = Process(kafka, "two")
    kafka.advance(INTERVAL_MS)
    two.beat()
    assert two.active == {}
    before = dict(one.active)
    one.beat()  # learns what to give up; its next heartbeat says that it has
    assert len(active_tasks(one)) == 4
    two.beat()
    assert two.active == {}
    assert before != one.active
    settle(kafka, one, two)
    assert set(active_tasks(one, two)) == EVERY_TASK


def test_tasks_of_a_member_that_leaves_or_keeps_silent_go_to_the_others() -> None:
    kafka = application()
    one, two, three = (Process(kafka, name) for name in ("one", "two", "three"))
    settle(kafka, one, two, three)
    three.leave()
    settle(kafka, one, two)
    assert set(active_tasks(one, two)) == EVERY_TASK
    for _ in range(20):
        kafka.advance(3000)
        one.beat()
    settle(kafka, one)
    assert set(active_tasks(one)) == EVERY_TASK
    with pytest.raises(KafkaError) as caught:
        two.beat()
    assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_give_up_its_tasks_in_time_is_removed() -> None:
    kafka = application()
    one = Process(kafka, "one")
    settle(kafka, one)
    two = Process(kafka, "two")
    kafka.advance(INTERVAL_MS)
    two.beat()
    held = dict(one.active)
    for _ in range(12):
        kafka.advance(3000)
        two.beat()
        if "one" in group_of(kafka).members:
            one.active = held  # it says that it still has everything
            one.beat()
    assert "one" not in group_of(kafka).members
    settle(kafka, two)
    assert set(active_tasks(two)) == EVERY_TASK


def test_standby_tasks_lie_in_other_processes_and_take_over() -> None:
    kafka = application()
    kafka.shard.table.overrides.put(GROUP, {"streams.num.standby.replicas": "1"})
    one, two, twin = Process(kafka, "one", "p1"), Process(kafka, "two", "p2"), Process(kafka, "twin", "p2")
    settle(kafka, one, two, twin)
    copies = {("1", each) for member in (one, two, twin) for each in member.standby.get("1", [])}
    assert copies == {("1", partition) for partition in range(4)}
    of_one = set(active_tasks(one))
    assert not of_one & {("1", each) for each in one.standby.get("1", [])}
    assert not set(active_tasks(two, twin)) & {
        ("1", each) for member in (two, twin) for each in member.standby.get("1", [])
    }
    held = {("1", each): member.name for member in (two, twin) for each in member.standby.get("1", [])}
    one.leave()
    settle(kafka, two, twin)
    now = active_tasks(two, twin)
    assert set(now) == EVERY_TASK
    assert sum(now[task] == name for task, name in held.items()) >= len(held) - 1
    assert two.standby == twin.standby == {}  # one process is left


def test_a_new_coordinator_continues_the_group() -> None:
    kafka = application()
    one, two = Process(kafka, "one"), Process(kafka, "two")
    settle(kafka, one, two)
    before = kafka.shard.describe_streams_group(GROUP)
    again = kafka.restarted()
    one.kafka = two.kafka = again
    one.beat()
    after = again.shard.describe_streams_group(GROUP)
    assert after == before
    again.advance(DELAY_MS)
    assert (one.epoch, two.epoch) == (group_of(again).group_epoch,) * 2
    two.leave()
    settle(again, one)
    assert set(active_tasks(one)) == EVERY_TASK


def test_the_states_of_members_are_written_as_apache_kafka_does() -> None:
    assert [int(state) for state in MemberState] == [1, 2, 3, 127]


def test_sessions_are_new_after_a_restart() -> None:
    kafka = application()
    one = Process(kafka, "one")
    settle(kafka, one)
    again = kafka.restarted()
    again.advance(GroupSettings().streams_session_timeout_ms)
    assert group_of(again).is_empty


def test_another_topology_is_refused_and_an_older_one_reported() -> None:
    kafka = application()
    newer = word_count()
    newer.epoch = 1
    one = Process(kafka, "one", topology=newer)
    settle(kafka, one)
    old = Process(kafka, "old")
    assert (
        Status.STALE_TOPOLOGY,
        "The member's topology epoch 0 is behind the group's topology epoch 1.",
    ) in old.status
    other = word_count()
    other.epoch = 1
    other.subtopologies[0].source_topics.append("more")
    with pytest.raises(KafkaError) as caught:
        Process(kafka, "other", topology=other)
    assert caught.value.message == "Topology updates are not supported yet."


def test_topics_that_do_not_fit_are_reported() -> None:
    kafka = application()
    kafka.topics.put("counts", 3)
    one = Process(kafka, "one")
    text = "Existing topic counts has different number of partitions: expected 4, found 3"
    assert (Status.INCORRECTLY_PARTITIONED_TOPICS, text) in one.status
    assert one.missing == []


def test_sources_that_are_joined_need_as_many_partitions() -> None:
    kafka = application()
    kafka.topics.put("more", 5)
    topology = word_count()
    topology.subtopologies[0].source_topics.append("more")
    topology.subtopologies[0].copartition_groups.append(
        replace(
            word_count().subtopologies[1].copartition_groups[0],
            source_topics=[0, 1],
            repartition_source_topics=[],
        )
    )
    one = Process(kafka, "one", topology=topology)
    text = "Following topics do not have the same number of partitions: [lines, more]"
    assert (Status.INCORRECTLY_PARTITIONED_TOPICS, text) in one.status


def test_a_repartition_topic_without_a_writer_is_an_invalid_topology() -> None:
    kafka = application()
    topology = word_count()
    topology.subtopologies[0].repartition_sink_topics = []
    with pytest.raises(KafkaError) as caught:
        Process(kafka, "one", topology=topology)
    assert caught.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    counted = word_count()
    counted.subtopologies[1].state_changelog_topics = [TopicInfo("counts", 3)]
    with pytest.raises(KafkaError) as caught:
        Process(kafka, "one", topology=counted)
    assert caught.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_shutdown_of_the_application_reaches_all_members_until_the_group_is_empty() -> None:
    kafka = application()
    one, two = Process(kafka, "one"), Process(kafka, "two")
    settle(kafka, one, two)
    two.beat(shutdown_application=True)
    one.beat()
    assert [code for code, _ in one.status] == [Status.SHUTDOWN_APPLICATION]
    one.leave()
    two.leave()
    again = Process(kafka, "again")
    assert Status.SHUTDOWN_APPLICATION not in [code for code, _ in again.status]


def test_members_learn_where_others_answer_queries() -> None:
    kafka = application()
    one, two = Process(kafka, "one", "shown-1"), Process(kafka, "two", "shown-2")
    settle(kafka, one, two)
    response = one.beat(endpoint_information_epoch=0).response
    assert response.partitions_by_user_endpoint is not None
    shown = {each.user_endpoint.host: each for each in response.partitions_by_user_endpoint}
    assert set(shown) == {"shown-1", "shown-2"}
    active = [
        part for each in shown.values() for topic in each.active_partitions for part in topic.partitions
    ]
    assert sorted(active) == sorted([*range(4)] * 2)
    epoch = response.endpoint_information_epoch
    assert one.beat(endpoint_information_epoch=epoch).response.partitions_by_user_endpoint is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": "i"}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"standby_tasks": None}, ErrorCode.INVALID_REQUEST),
        ({"topology": word_count()}, ErrorCode.INVALID_REQUEST),
        ({"warmup_tasks": [RequestTaskIds("0", [0])]}, ErrorCode.INVALID_REQUEST),
        ({"active_tasks": [RequestTaskIds("9", [0])]}, ErrorCode.INVALID_REQUEST),
        ({"active_tasks": [RequestTaskIds("0", [9])]}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 99}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_id": "who"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
    ids=str,
)
def test_invalid_heartbeats_are_refused(fields: dict[str, object], code: ErrorCode) -> None:
    kafka = application()
    one = Process(kafka, "one")
    settle(kafka, one)
    with pytest.raises(KafkaError) as caught:
        one.beat(**fields)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "fields",
    [
        {"rebalance_timeout_ms": -1},
        {"active_tasks": None},
        {"topology": None},
        {"standby_tasks": [RequestTaskIds("0", [0])]},
    ],
    ids=str,
)
def test_a_join_is_complete(fields: dict[str, object]) -> None:
    kafka = application()
    one = Process(kafka, "one")
    with pytest.raises(KafkaError) as caught:
        one.beat(**({"member_epoch": 0, "rebalance_timeout_ms": 9, "topology": word_count()} | fields))
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_offsets_are_committed_by_members_in_their_epoch() -> None:
    kafka = application()
    one, two = Process(kafka, "one"), Process(kafka, "two")
    settle(kafka, one, two)
    task = one.active["0"][0]
    assert kafka.commit(7, "one", one.epoch, GROUP, "lines", task) == ErrorCode.NONE
    assert kafka.committed("lines", task, GROUP) == 7
    assert kafka.commit(8, "one", one.epoch + 1, GROUP, "lines", task) == ErrorCode.STALE_MEMBER_EPOCH
    assert kafka.commit(8, "who", one.epoch, GROUP, "lines", task) == ErrorCode.UNKNOWN_MEMBER_ID
    other = two.active["0"][0]
    assert kafka.commit(8, "one", one.epoch - 1, GROUP, "lines", other) == ErrorCode.STALE_MEMBER_EPOCH
    topics = [TxnOffsetCommitRequestTopic("lines", [TxnOffsetCommitRequestPartition(other, 8)])]
    request = TxnOffsetCommitRequest("i", GROUP, 1, 0, one.epoch - 1, "one", topics=topics)
    with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
        kafka.shard.commit_offsets_in_transaction(request, 5, kafka.now_ms)


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    kafka = application()
    one = Process(kafka, "one")
    settle(kafka, one)
    kafka.commit(7, "one", one.epoch, GROUP, "lines", 0)
    assert kafka.run(kafka.shard.delete(GROUP)).error_code == ErrorCode.NON_EMPTY_GROUP
    one.leave()
    assert kafka.run(kafka.shard.delete(GROUP)).error_code == ErrorCode.NONE
    assert kafka.restarted().shard.group_ids() == []


def test_a_classic_consumer_takes_an_empty_group_over_with_its_offsets() -> None:
    """How an application goes back from group.protocol=streams to classic."""
    kafka = application()
    one = Process(kafka, "one")
    settle(kafka, one)
    kafka.commit(7, "one", one.epoch, GROUP, "lines", 0)
    with pytest.raises(KafkaError, match="INCONSISTENT_GROUP_PROTOCOL"):
        kafka.join(group=GROUP, protocol_type="consumer")
    one.leave()
    assert kafka.join("unknown", group=GROUP).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert kafka.new_member_id(group=GROUP)
    kafka = kafka.restarted()
    group = kafka.shard.table.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert kafka.committed("lines", 0, group=GROUP) == 7


def test_a_topology_with_too_many_tasks_is_refused_before_anything_is_made_of_it() -> None:
    kafka = Coordinator()
    kafka.topics.put("large", MAX_TASKS // 5)
    parts = [Subtopology(str(number), ["large"]) for number in range(6)]
    with pytest.raises(KafkaError, match="has 60000 tasks, more than 50000") as caught:
        Process(kafka, "one", topology=Topology(0, parts))
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not kafka.log
    assert Process(kafka, "one", topology=Topology(0, parts[:5])).epoch == 1


def test_topics_that_grow_during_the_wait_for_members_are_not_assigned() -> None:
    kafka = Coordinator()
    kafka.topics.put("large", 1)
    parts = [Subtopology(str(number), ["large"]) for number in range(6)]
    one = Process(kafka, "one", topology=Topology(0, parts))
    kafka.topics.put("large", MAX_TASKS // 5)
    with pytest.raises(KafkaError, match="has 60000 tasks"):
        one.beat()
    kafka.advance(DELAY_MS)
    assert not group_of(kafka).target
