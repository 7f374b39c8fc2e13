"""FindCoordinator, InitProducerId, DescribeCluster, elections, reassignments, ACLs, the quorum: one
node's answers."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kbroker.api.find_coordinator import is_share_key
from kbroker.control.changes import log_closings
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.api.in_process import ask
from tests.control.fakes import World, world


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        asyncio.run(create_topics(one.broker, [NewTopic("a", 2)]))
        yield one


class Coordinator:
    """A coordinator whose topic is created when it is needed."""

    topic = "__consumer_offsets"

    def __init__(self) -> None:
        self.made = 0

    def partition_for(self, key: str) -> int:
        return 0

    @property
    def is_ready(self) -> bool:
        return self.made > 0

    async def ready(self) -> None:
        self.made += 1


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_this_node_once_its_topic_is_there(made: World, version: int) -> None:
    made.broker.coordinators[0] = coordinator = Coordinator()
    request = FindCoordinatorRequest("g", 0, ["g", "h"])
    for _ in range(2):
        answer: Any = asyncio.run(ask(made.broker, ApiKey.FIND_COORDINATOR, version, request))
        found = answer.coordinators if version >= 4 else [answer]
        assert [(each.error_code, each.node_id, each.host, each.port) for each in found] == [
            (0, 1, "127.0.0.1", 9092)
        ] * (2 if version >= 4 else 1)
        assert coordinator.made == 1


def test_a_share_coordinator_is_not_made_for_keys_that_are_none(made: World) -> None:
    made.broker.coordinators[2] = coordinator = Coordinator()
    requested = FindCoordinatorRequest("", 2, ["group", "group:x:0"])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.FIND_COORDINATOR, 6, requested))
    assert [found.error_code for found in answer.coordinators] == [ErrorCode.INVALID_REQUEST] * 2
    assert coordinator.made == 0


@pytest.mark.parametrize(("version", "key_type"), [(6, 9), (1, 2), (5, 2), (6, 2)])
def test_coordinators_that_there_are_not_are_an_invalid_request(
    made: World, version: int, key_type: int
) -> None:
    request = FindCoordinatorRequest("k", key_type, ["k"])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.FIND_COORDINATOR, version, request))
    (found,) = answer.coordinators if version >= 4 else [answer]
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    of_the_code = version < 4 or key_type == 9  # as Apache Kafka, which has no text for a key among many
    assert found.error_message == (ErrorCode.INVALID_REQUEST.message if of_the_code else "")


def test_share_coordinators_are_found_by_group_topic_id_and_partition() -> None:
    assert is_share_key("group:AAAAAAAAAAAAAAAAAAAAAQ:0")
    for key in (
        "group",
        "group:x:0",
        ":AAAAAAAAAAAAAAAAAAAAAQ:0",
        "group:AAAAAAAAAAAAAAAAAAAAAQ:x",
        "group:AAAAAAAAAAAAAAAAAAAAAQ:²",
    ):
        assert not is_share_key(key)


def init(made: World, version: int = 5, **fields: Any) -> Any:
    request = InitProducerIdRequest(**({"transactional_id": None, "transaction_timeout_ms": 1000} | fields))
    return asyncio.run(ask(made.broker, ApiKey.INIT_PRODUCER_ID, version, request))


def test_every_producer_gets_an_id_of_its_own(made: World) -> None:
    ids = [init(made, version).producer_id for version in range(6) for _ in range(3)]
    assert len(set(ids)) == len(ids)
    assert init(made).producer_epoch == 0


def test_an_id_at_hand_needs_no_task_and_a_block_that_is_used_up_is_followed_by_another(made: World) -> None:
    async def many() -> list[int]:
        ids = [
            (await ask(made.broker, ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1))).producer_id
        ]
        left = 0
        while (taken := made.broker.producer_ids.take_allocated()) is not None:
            ids.append(taken)
            left += 1
        assert left == 999
        ids.append(
            (await ask(made.broker, ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1))).producer_id
        )
        return ids

    ids = asyncio.run(many())
    assert len(set(ids)) == len(ids) == 1001


def test_ids_are_not_repeated_after_a_restart_or_a_crash(made: World) -> None:
    before = init(made).producer_id
    made.broker.close()
    made.start()
    assert init(made).producer_id == before + 1000


def test_many_producers_at_once_share_no_id_even_over_blocks(made: World) -> None:
    async def many() -> list[int]:
        return await asyncio.gather(*(made.broker.producer_ids.take() for _ in range(2500)))

    assert len(set(asyncio.run(many()))) == 2500


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_half_a_producer_is_an_invalid_request(made: World, fields: dict[str, int]) -> None:
    answer = init(made, **fields)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_controllers_can_not_be_described_on_a_brokers_listener(made: World) -> None:
    for kind, code in (
        (1, 0),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ):
        answer: Any = asyncio.run(
            ask(made.broker, ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest(False, kind))
        )
        assert answer.error_code == code
        assert len(answer.brokers) == (0 if code else 1)


def elect(made: World, partitions: list[TopicPartitions] | None, kind: int = 0) -> dict[tuple[str, int], int]:
    answer: Any = asyncio.run(
        ask(made.broker, ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(kind, partitions))
    )
    return {
        (topic.topic, result.partition_id): result.error_code
        for topic in answer.replica_election_results
        for result in topic.partition_result
    }


def test_partitions_of_a_topic_in_several_entries_are_all_elected(made: World) -> None:
    requested = [TopicPartitions("a", [0]), TopicPartitions("absent", [3]), TopicPartitions("a", [1])]
    request = ElectLeadersRequest(0, requested)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.ELECT_LEADERS, 2, request))
    found = [
        (topic.topic, [result.partition_id for result in topic.partition_result])
        for topic in answer.replica_election_results
    ]
    assert found == [("a", [0]), ("absent", [3]), ("a", [1])]


@pytest.mark.parametrize(
    ("partitions", "kind", "timeout_ms", "code", "results"),
    [
        ([TopicPartitions("a", [0, 1])], 0, 0, ErrorCode.REQUEST_TIMED_OUT, 2),
        ([TopicPartitions("a", [0])], 9, -1, ErrorCode.REQUEST_TIMED_OUT, 1),
        ([TopicPartitions("a", [0])], 9, 1, ErrorCode.INVALID_REQUEST, 1),
        (None, 0, -5, ErrorCode.REQUEST_TIMED_OUT, 0),
        ([], 9, 0, ErrorCode.NONE, 0),
    ],
)
def test_an_election_without_time_is_refused(
    made: World,
    partitions: list[TopicPartitions] | None,
    kind: int,
    timeout_ms: int,
    code: ErrorCode,
    results: int,
) -> None:
    request = ElectLeadersRequest(kind, partitions, timeout_ms)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.ELECT_LEADERS, 2, request))
    assert answer.error_code == code
    found = [each.error_code for topic in answer.replica_election_results for each in topic.partition_result]
    assert found == [code] * results


def test_elections_are_not_needed_on_one_node(made: World) -> None:
    requested = [TopicPartitions("a", [0, 9]), TopicPartitions("absent", [0])]
    assert elect(made, requested) == {
        ("a", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("a", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("absent", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert elect(made, None) == {}


def test_partitions_without_another_replica_take_no_tasks(made: World) -> None:
    """A million of them would take minutes of loop turns."""
    expected = [TopicPartitions(f"n{number}", [0]) for number in range(500)]
    request = ElectLeadersRequest(0, [TopicPartitions("a", list(range(500))), *expected])
    tasks = []

    def counted(loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> asyncio.Task[Any]:
        tasks.append(1)
        return asyncio.Task(work, loop=loop, **how)

    async def elect_all() -> Any:
        asyncio.get_running_loop().set_task_factory(counted)
        return await ask(made.broker, ApiKey.ELECT_LEADERS, 2, request)

    answer = asyncio.run(elect_all())
    results = [r.error_code for topic in answer.replica_election_results for r in topic.partition_result]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert results == [ErrorCode.ELECTION_NOT_NEEDED] * 2 + [unknown] * 998
    assert len(tasks) < 20


def test_a_partition_on_a_failed_directory_finds_no_leader(made: World) -> None:
    slot = made.broker.catalogue.topics["a"].partitions[1].slot
    made.shared.slots[slot, Slot.STATE] = SlotState.OFFLINE
    assert elect(made, None) == {("a", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elect(made, None, kind=1) == {("a", 1): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_only_the_existing_assignment_can_be_requested(made: World) -> None:
    specs = [
        ReassignablePartition(index, nodes) for index, nodes in ((0, [1]), (1, [1, 2]), (0, None), (9, [1]))
    ]
    request = AlterPartitionReassignmentsRequest(1000, True, [ReassignableTopic("a", specs)])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request))
    assert [partition.error_code for partition in answer.responses[0].partitions] == [
        0,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize("topics", [0, 1])
def test_a_reassignment_without_time_is_refused_unless_it_names_no_topic(made: World, topics: int) -> None:
    spec = ReassignableTopic("a", [ReassignablePartition(0, [1])])
    request = AlterPartitionReassignmentsRequest(0, True, [spec] * topics)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request))
    late = (ErrorCode.REQUEST_TIMED_OUT, None)
    assert (answer.error_code, answer.error_message) == (late if topics else (0, ""))
    found = [(each.error_code, each.error_message) for topic in answer.responses for each in topic.partitions]
    assert found == [late] * topics


def test_a_request_waits_once_for_former_replicas_and_not_for_each_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With thousands of partitions it would not be answered within hours."""
    monkeypatch.setattr(log_closings, "CLOSE_S", 0.01)
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(2))
    with world(tmp_path, {"kbroker.replica.sites": dirs}, workers=2, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", assignments=((0, (1,)), (1, (1,))))]))
        closing, waits = made.broker.closing, list[list[str]]()
        closing.begin(["a"])
        wait = closing.wait

        async def counted(names: Iterable[str]) -> None:
            waits.append(listed := list(names))
            await wait(listed)

        vars(closing)["wait"] = counted
        specs = [ReassignablePartition(index, [2]) for index in range(2)]
        request = AlterPartitionReassignmentsRequest(1000, True, [ReassignableTopic("a", specs)])
        answer: Any = asyncio.run(ask(made.broker, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request))
        assert [each.error_code for each in answer.responses[0].partitions] == [
            ErrorCode.REQUEST_TIMED_OUT
        ] * 2
        assert waits == [["a"]]


def test_the_factor_of_a_pending_reassignment_is_that_of_its_target(tmp_path: Path) -> None:
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(3))
    with world(tmp_path, {"kbroker.replica.sites": dirs}, workers=3, dirs=3) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", assignments=((0, (1, 2)),))]))

        def result(nodes: list[int], may_change: bool) -> int:
            topic = ReassignableTopic("a", [ReassignablePartition(0, nodes)])
            request = AlterPartitionReassignmentsRequest(1000, may_change, [topic])
            answer: Any = asyncio.run(ask(made.broker, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request))
            return int(answer.responses[0].partitions[0].error_code)

        assert result([1, 2, 3], may_change=False) == ErrorCode.INVALID_REPLICATION_FACTOR
        assert result([1, 2, 3], may_change=True) == ErrorCode.NONE
        assert made.broker.catalogue.topics["a"].partitions[0].adding
        assert result([1, 2], may_change=False) == ErrorCode.INVALID_REPLICATION_FACTOR
        assert result([2, 1, 3], may_change=False) == ErrorCode.NONE


@pytest.mark.parametrize("may_change", [True, False])
def test_a_reassignment_of_nothing_gets_the_default_answer(made: World, may_change: bool) -> None:
    request = AlterPartitionReassignmentsRequest(1000, may_change, [])
    answer: Any = asyncio.run(ask(made.broker, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request))
    assert (answer.error_code, answer.error_message, answer.responses) == (0, "", [])
    assert answer.allow_replication_factor_change


def test_only_ongoing_reassignments_are_listed_so_none(made: World) -> None:
    request = ListPartitionReassignmentsRequest(1000, None)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request))
    assert (answer.error_code, answer.topics) == (0, [])


def test_acls_without_an_authorizer_are_security_disabled(made: World) -> None:
    request = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    answer: Any = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_ACLS, 3, request))
    assert answer.error_code == ErrorCode.SECURITY_DISABLED
