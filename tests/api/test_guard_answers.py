"""Answers of guards: the error of each resource that a client may not use, and names and settings
that are hidden from it."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.api.authorization.table import GUARDS
from kbroker.config import acls
from kbroker.config.acls import CLUSTER, CLUSTER_NAME, GROUP, TOPIC
from kbroker.control.metadata import config_resource
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages import alter_share_group_offsets as altered
from kbroker.protocol.messages import consumer_group_describe as described
from kbroker.protocol.messages import create_topics as created
from kbroker.protocol.messages import delete_share_group_offsets as share_deleted
from kbroker.protocol.messages import delete_topics as deleted
from kbroker.protocol.messages import describe_configs as configs
from kbroker.protocol.messages import describe_groups as classic
from kbroker.protocol.messages import describe_share_group_offsets as share
from kbroker.protocol.messages import list_groups as listed
from kbroker.protocol.messages import offset_commit as committed
from kbroker.protocol.messages import offset_delete as offsets
from kbroker.protocol.messages import streams_group_describe as streams
from kbroker.protocol.messages import streams_group_heartbeat as heartbeat
from tests.api.granted import Context, Granted, Permission

SEEN, HIDDEN, A_GROUP, OTHER = "seen", "hidden", "a-group", "other-group"
SEEN_ID, HIDDEN_ID, UNKNOWN_ID, NO_ID = b"s" * 16, b"h" * 16, b"u" * 16, bytes(16)
TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def guarded(
    api: ApiKey, version: int, request: Any, response: Any, *granted: Permission
) -> tuple[Any, list[Any]]:
    """The guard's answer around a handler that gives this response, and the requests that the
    handler got."""
    by_id = {SEEN_ID: SimpleNamespace(name=SEEN), HIDDEN_ID: SimpleNamespace(name=HIDDEN)}
    catalogue = SimpleNamespace(topics={SEEN: None, HIDDEN: None}, by_id=by_id.get)
    broker = SimpleNamespace(authorizer=Granted(*granted), catalogue=catalogue)
    got: list[Any] = []

    def serve(_: object, rest: Any) -> Any:
        got.append(rest)
        return response

    ctx: Any = Context(broker, version)
    return GUARDS[api](ctx, request, serve), got


# --- configs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "needed", "code"),
    [
        (config_resource.TOPIC, (TOPIC, "1"), TOPIC_REFUSED),
        (config_resource.GROUP, (GROUP, "1"), GROUP_REFUSED),
        (config_resource.BROKER, (CLUSTER, CLUSTER_NAME), CLUSTER_REFUSED),
        (config_resource.BROKER_LOGGER, (CLUSTER, CLUSTER_NAME), CLUSTER_REFUSED),
        (config_resource.CLIENT_METRICS, (CLUSTER, CLUSTER_NAME), CLUSTER_REFUSED),
    ],
)
def test_each_kind_of_configs_needs_its_permission_and_has_its_error(
    kind: int, needed: tuple[int, str], code: ErrorCode
) -> None:
    other = configs.DescribeConfigsResource(config_resource.TOPIC, SEEN, None)
    request = configs.DescribeConfigsRequest([configs.DescribeConfigsResource(kind, "1", None), other])
    granted = (acls.DESCRIBE_CONFIGS, TOPIC, SEEN)
    found = configs.DescribeConfigsResult(0, None, config_resource.TOPIC, SEEN)
    answer, (rest,) = guarded(
        ApiKey.DESCRIBE_CONFIGS, 4, request, configs.DescribeConfigsResponse(0, [found]), granted
    )
    assert rest.resources == [other]
    assert [(one.error_code, one.resource_type, one.resource_name) for one in answer.results] == [
        (0, config_resource.TOPIC, SEEN),
        (code, kind, "1"),
    ]
    whole = configs.DescribeConfigsResponse(0, [])
    answer, (rest,) = guarded(
        ApiKey.DESCRIBE_CONFIGS, 4, request, whole, granted, (acls.DESCRIBE_CONFIGS, *needed)
    )
    assert (answer, rest) == (whole, request)


def test_configs_of_an_unknown_kind_make_a_refused_request_invalid() -> None:
    kinds = [configs.DescribeConfigsResource(kind, "1", None) for kind in (config_resource.TOPIC, 99)]
    with pytest.raises(KafkaError) as refused:
        guarded(ApiKey.DESCRIBE_CONFIGS, 4, configs.DescribeConfigsRequest(kinds), None)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


# --- topics -------------------------------------------------------------------------------------------


def creation(*granted: Permission) -> Any:
    request = created.CreateTopicsRequest([created.CreatableTopic(name, 3, 1) for name in (SEEN, HIDDEN)])
    made = created.CreatableTopicResult(SEEN, SEEN_ID, 0, None, 0, 3, 1, [created.CreatableTopicConfigs("c")])
    failed = created.CreatableTopicResult("failed", NO_ID, ErrorCode.INVALID_PARTITIONS, "why", 0, 2, 1, [])
    response = created.CreateTopicsResponse(0, [made, failed])
    answer, (rest,) = guarded(ApiKey.CREATE_TOPICS, 7, request, response, *granted)
    assert [topic.name for topic in rest.topics] == [SEEN]
    return answer.topics


def test_a_created_topic_hides_its_configs_from_a_client_that_may_not_describe_them() -> None:
    made, failed, refused = creation((acls.CREATE, TOPIC, SEEN))
    assert (made.error_code, made.topic_config_error_code) == (0, TOPIC_REFUSED)
    assert (made.num_partitions, made.replication_factor, made.configs) == (-1, -1, [])
    assert (failed.topic_config_error_code, failed.num_partitions) == (0, 2)
    assert (refused.name, refused.error_code) == (HIDDEN, TOPIC_REFUSED)


def test_names_that_no_client_may_create_reach_the_handler() -> None:
    """As in Kafka, they have errors of their own, whatever the client's permissions."""
    names = ["__cluster_metadata", HIDDEN, SEEN, SEEN]
    request = created.CreateTopicsRequest([created.CreatableTopic(name, 1, 1) for name in names])
    answer, (rest,) = guarded(ApiKey.CREATE_TOPICS, 7, request, created.CreateTopicsResponse())
    assert [topic.name for topic in rest.topics] == ["__cluster_metadata", SEEN, SEEN]
    refused = [(each.name, each.error_code, each.error_message) for each in answer.topics]
    assert refused == [(HIDDEN, TOPIC_REFUSED, "Authorization failed.")]


def test_a_created_topic_shows_its_configs_to_a_client_that_may_describe_them() -> None:
    made, *_ = creation((acls.CREATE, TOPIC, SEEN), (acls.DESCRIBE_CONFIGS, TOPIC, SEEN))
    assert (made.topic_config_error_code, made.num_partitions, len(made.configs)) == (0, 3, 1)


def test_a_refused_deletion_by_id_names_only_a_topic_that_the_client_sees() -> None:
    topics = [deleted.DeleteTopicState(None, each) for each in (SEEN_ID, HIDDEN_ID, UNKNOWN_ID)]
    request = deleted.DeleteTopicsRequest([], topics)
    answer, (rest,) = guarded(
        ApiKey.DELETE_TOPICS, 6, request, deleted.DeleteTopicsResponse(), (acls.DESCRIBE, TOPIC, SEEN)
    )
    assert [topic.topic_id for topic in rest.topics] == [UNKNOWN_ID]
    assert [(one.name, one.topic_id, one.error_code) for one in answer.responses] == [
        (SEEN, SEEN_ID, TOPIC_REFUSED),
        (None, HIDDEN_ID, TOPIC_REFUSED),
    ]


def test_a_refused_deletion_by_name_keeps_the_name() -> None:
    """A missing topic that the client may see reaches the handler, which says that it is
    unknown."""
    request = deleted.DeleteTopicsRequest([HIDDEN, "missing", "unseen"])
    answer, (rest,) = guarded(
        ApiKey.DELETE_TOPICS, 5, request, deleted.DeleteTopicsResponse(), (acls.DESCRIBE, TOPIC, "missing")
    )
    assert [topic.name for topic in rest.topics] == ["missing"]
    assert [(one.name, one.error_code) for one in answer.responses] == [
        (HIDDEN, TOPIC_REFUSED),
        ("unseen", TOPIC_REFUSED),
    ]


@pytest.mark.parametrize("by_name", [True, False])
def test_a_deletion_by_name_is_refused_where_describe_is_denied(by_name: bool) -> None:
    state = deleted.DeleteTopicState(SEEN, NO_ID) if by_name else deleted.DeleteTopicState(None, SEEN_ID)
    request = deleted.DeleteTopicsRequest([], [state])
    answer, reached = guarded(
        ApiKey.DELETE_TOPICS, 6, request, deleted.DeleteTopicsResponse(), (acls.DELETE, TOPIC, SEEN)
    )
    assert len(reached[0].topics if reached else []) == (0 if by_name else 1)
    assert [(one.name, one.error_code) for one in answer.responses] == (
        [(SEEN, TOPIC_REFUSED)] if by_name else []
    )


# --- committed offsets --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [8, 10])
def test_a_commit_is_refused_for_each_partition_of_a_hidden_topic(version: int) -> None:
    """From version 10 on topics have ids; an unknown id reaches the handler."""
    parts = [committed.OffsetCommitRequestPartition(index) for index in (1, 4)]
    names = ((SEEN, SEEN_ID), (HIDDEN, HIDDEN_ID))
    topics = [committed.OffsetCommitRequestTopic(*name, parts) for name in names]
    if version == 10:
        topics.append(committed.OffsetCommitRequestTopic("", UNKNOWN_ID, parts))
    request = committed.OffsetCommitRequest(A_GROUP, topics=topics)
    granted = [(acls.READ, GROUP, A_GROUP), (acls.READ, TOPIC, SEEN)]
    answer, (rest,) = guarded(
        ApiKey.OFFSET_COMMIT, version, request, committed.OffsetCommitResponse(), *granted
    )
    assert [topic.topic_id for topic in rest.topics] == [SEEN_ID, UNKNOWN_ID][: len(topics) - 1]
    (refused,) = answer.topics
    assert (refused.topic_id if version == 10 else refused.name) == (HIDDEN_ID if version == 10 else HIDDEN)
    assert [(part.partition_index, part.error_code) for part in refused.partitions] == [
        (1, TOPIC_REFUSED),
        (4, TOPIC_REFUSED),
    ]


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND])
def test_deleted_offsets_are_refused_for_hidden_topics_unless_the_group_is(code: ErrorCode) -> None:
    parts = [offsets.OffsetDeleteRequestPartition(index) for index in (0, 2)]
    topics = [offsets.OffsetDeleteRequestTopic(name, parts) for name in (SEEN, HIDDEN)]
    answer, (rest,) = guarded(
        ApiKey.OFFSET_DELETE,
        0,
        offsets.OffsetDeleteRequest(A_GROUP, topics),
        offsets.OffsetDeleteResponse(code),
        (acls.DELETE, GROUP, A_GROUP),
        (acls.READ, TOPIC, SEEN),
    )
    assert [topic.name for topic in rest.topics] == [SEEN]
    refused = [
        (topic.name, part.partition_index, part.error_code)
        for topic in answer.topics
        for part in topic.partitions
    ]
    assert refused == ([] if code else [(HIDDEN, 0, TOPIC_REFUSED), (HIDDEN, 2, TOPIC_REFUSED)])


# --- groups -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granted", "shown"),
    [
        ((acls.DESCRIBE, GROUP, A_GROUP), [A_GROUP]),
        ((acls.DESCRIBE, CLUSTER, CLUSTER_NAME), [A_GROUP, OTHER]),
    ],
)
def test_groups_are_listed_that_the_client_may_describe(granted: Permission, shown: list[str]) -> None:
    found = listed.ListGroupsResponse(groups=[listed.ListedGroup(name) for name in (A_GROUP, OTHER)])
    answer, _ = guarded(ApiKey.LIST_GROUPS, 5, listed.ListGroupsRequest(), found, granted)
    assert [group.group_id for group in answer.groups] == shown


def test_the_client_s_operations_are_in_the_description_of_a_classic_group() -> None:
    granted = [(operation, GROUP, A_GROUP) for operation in (acls.DESCRIBE, acls.READ)]
    for asks in (True, False):
        found = classic.DescribedGroup(group_id=A_GROUP)
        request = classic.DescribeGroupsRequest([A_GROUP, OTHER], asks)
        answer, (rest,) = guarded(
            ApiKey.DESCRIBE_GROUPS, 5, request, classic.DescribeGroupsResponse(groups=[found]), *granted
        )
        assert rest.groups == [A_GROUP]
        shown, refused = answer.groups
        assert (shown.authorized_operations == 1 << acls.DESCRIBE | 1 << acls.READ) is asks
        assert (refused.group_id, refused.error_code) == (OTHER, GROUP_REFUSED)


@pytest.mark.parametrize("place", ["assignment", "target_assignment"])
def test_a_group_with_a_hidden_topic_is_refused_without_its_description(place: str) -> None:
    assigned = [described.TopicPartitions(NO_ID, HIDDEN, [0])]
    member = described.Member(**{place: described.Assignment(assigned)})
    group = described.DescribedGroup(
        group_id=A_GROUP, group_state="Stable", group_epoch=3, assignor_name="uniform", members=[member]
    )
    response = described.ConsumerGroupDescribeResponse(groups=[group])
    request = described.ConsumerGroupDescribeRequest([A_GROUP], True)
    answer, _ = guarded(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request, response, (acls.DESCRIBE, GROUP, A_GROUP))
    (found,) = answer.groups
    assert "not authorized to describe" in found.error_message
    assert found == described.DescribedGroup(TOPIC_REFUSED, found.error_message, A_GROUP)


TOPOLOGY_FIELDS = (
    "source_topics",
    "repartition_sink_topics",
    "repartition_source_topics",
    "state_changelog_topics",
)


def subtopology(messages: Any, field: str, *names: str) -> Any:
    """One that names topics in one of its fields. messages: of the description or of the
    heartbeat."""
    is_named = field in ("source_topics", "repartition_sink_topics")
    topics = list(names) if is_named else [messages.TopicInfo(name) for name in names]
    return messages.Subtopology(**{field: topics})


@pytest.mark.parametrize("field", TOPOLOGY_FIELDS)
def test_a_streams_group_is_refused_for_a_hidden_topic_of_its_topology(field: str) -> None:
    for name, code in ((HIDDEN, TOPIC_REFUSED), (SEEN, 0)):
        topology = streams.Topology(1, [subtopology(streams, field, SEEN, name)])
        group = streams.DescribedGroup(
            group_id=A_GROUP, topology=topology, members=[streams.Member("a-member")]
        )
        answer, _ = guarded(
            ApiKey.STREAMS_GROUP_DESCRIBE,
            0,
            streams.StreamsGroupDescribeRequest([A_GROUP]),
            streams.StreamsGroupDescribeResponse(groups=[group]),
            (acls.DESCRIBE, GROUP, A_GROUP),
            (acls.DESCRIBE, TOPIC, SEEN),
        )
        (found,) = answer.groups
        assert (found.error_code, len(found.members)) == (code, 0 if code else 1)
        assert (found.topology is None) is bool(code)


@pytest.mark.parametrize("field", TOPOLOGY_FIELDS)
def test_a_streams_member_may_describe_every_topic_of_its_topology(field: str) -> None:
    granted = [(acls.READ, GROUP, A_GROUP), (acls.DESCRIBE, TOPIC, SEEN)]

    def send(name: str) -> list[Any]:
        topology = heartbeat.Topology(1, [subtopology(heartbeat, field, SEEN, name)])
        request = heartbeat.StreamsGroupHeartbeatRequest(A_GROUP, topology=topology)
        return guarded(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request, None, *granted)[1]

    assert len(send(SEEN)) == 1
    with pytest.raises(KafkaError) as refused:
        send(HIDDEN)
    assert refused.value.code is TOPIC_REFUSED


# --- offsets of share groups --------------------------------------------------------------------------


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND])
def test_offsets_of_a_share_group_are_refused_for_hidden_topics(code: ErrorCode) -> None:
    topics = [share.DescribeShareGroupOffsetsRequestTopic(name, [3, 5]) for name in (SEEN, HIDDEN)]
    groups = [share.DescribeShareGroupOffsetsRequestGroup(name, topics) for name in (A_GROUP, OTHER)]
    found = share.DescribeShareGroupOffsetsResponseTopic(SEEN)
    leaked = share.DescribeShareGroupOffsetsResponseTopic(HIDDEN)
    response = share.DescribeShareGroupOffsetsResponse(
        groups=[share.DescribeShareGroupOffsetsResponseGroup(A_GROUP, [found, leaked], code)]
    )
    answer, (rest,) = guarded(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        share.DescribeShareGroupOffsetsRequest(groups),
        response,
        (acls.DESCRIBE, GROUP, A_GROUP),
        (acls.DESCRIBE, TOPIC, SEEN),
    )
    assert [group.group_id for group in rest.groups] == [A_GROUP]
    first, other = answer.groups
    assert [topic.topic_name for topic in first.topics] == ([SEEN] if code else [SEEN, HIDDEN])
    if not code:
        refused = [(part.partition_index, part.error_code) for part in first.topics[1].partitions]
        assert refused == [(3, TOPIC_REFUSED), (5, TOPIC_REFUSED)]
    assert (other.group_id, other.error_code) == (OTHER, GROUP_REFUSED)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP])
def test_changes_of_a_share_group_s_offsets_are_refused_for_hidden_topics(code: ErrorCode) -> None:
    parts = [altered.AlterShareGroupOffsetsRequestPartition(index) for index in (1, 2)]
    topics = [altered.AlterShareGroupOffsetsRequestTopic(name, parts) for name in (SEEN, HIDDEN)]
    answer, (rest,) = guarded(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        altered.AlterShareGroupOffsetsRequest(A_GROUP, topics),
        altered.AlterShareGroupOffsetsResponse(error_code=code),
        (acls.READ, GROUP, A_GROUP),
        (acls.READ, TOPIC, SEEN),
    )
    assert [topic.topic_name for topic in rest.topics] == [SEEN]
    refused = [
        (topic.topic_name, part.partition_index, part.error_code)
        for topic in answer.responses
        for part in topic.partitions
    ]
    assert refused == ([] if code else [(HIDDEN, 1, TOPIC_REFUSED), (HIDDEN, 2, TOPIC_REFUSED)])


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP])
def test_deletions_of_a_share_group_s_offsets_are_refused_for_hidden_topics(code: ErrorCode) -> None:
    topics = [share_deleted.DeleteShareGroupOffsetsRequestTopic(name) for name in (SEEN, HIDDEN)]
    answer, (rest,) = guarded(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        share_deleted.DeleteShareGroupOffsetsRequest(A_GROUP, topics),
        share_deleted.DeleteShareGroupOffsetsResponse(error_code=code),
        (acls.DELETE, GROUP, A_GROUP),
        (acls.READ, TOPIC, SEEN),
    )
    assert [topic.topic_name for topic in rest.topics] == [SEEN]
    refused = [(topic.topic_name, topic.error_code) for topic in answer.responses]
    assert refused == ([] if code else [(HIDDEN, TOPIC_REFUSED)])


def test_a_request_of_which_nothing_is_allowed_does_not_reach_the_handler() -> None:
    request = classic.DescribeGroupsRequest([A_GROUP, OTHER])
    answer, reached = guarded(ApiKey.DESCRIBE_GROUPS, 5, request, None)
    assert not reached
    assert [(group.group_id, group.error_code) for group in answer.groups] == [
        (A_GROUP, GROUP_REFUSED),
        (OTHER, GROUP_REFUSED),
    ]
