"""The permissions that each API needs, listed independently of the code: without one of them its
handler never sees the resource."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.api.authorization.guard import REFUSALS
from kbroker.api.authorization.table import GUARDS
from kbroker.config.acls import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages import request_class, response_class
from tests.api.granted import Context, Granted, Permission

T, G, I = "a-topic", "a-group", "an-id"  # noqa: E741

ON_CLUSTER: dict[ApiKey, tuple[int, ...]] = {
    ApiKey.WRITE_TXN_MARKERS: (ALTER, CLUSTER_ACTION),
    ApiKey.DESCRIBE_ACLS: (DESCRIBE,),
    ApiKey.CREATE_ACLS: (ALTER,),
    ApiKey.DELETE_ACLS: (ALTER,),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (ALTER,),
    ApiKey.DESCRIBE_LOG_DIRS: (DESCRIBE,),
    ApiKey.ELECT_LEADERS: (ALTER,),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (ALTER,),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (DESCRIBE,),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (DESCRIBE_CONFIGS,),
    ApiKey.ALTER_CLIENT_QUOTAS: (ALTER_CONFIGS,),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (DESCRIBE,),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ALTER,),
    ApiKey.DESCRIBE_QUORUM: (DESCRIBE,),
    ApiKey.UPDATE_FEATURES: (ALTER,),
    ApiKey.UNREGISTER_BROKER: (ALTER,),
    ApiKey.LIST_CONFIG_RESOURCES: (DESCRIBE_CONFIGS,),
}

RESOURCES: list[tuple[ApiKey, int, dict[str, Any], list[Permission]]] = [
    (ApiKey.JOIN_GROUP, 5, {"group_id": G}, [(READ, GROUP, G)]),
    (ApiKey.SYNC_GROUP, 4, {"group_id": G}, [(READ, GROUP, G)]),
    (
        ApiKey.SYNC_GROUP, 5, {"group_id": G, "protocol_type": "consumer", "protocol_name": "range"},
        [(READ, GROUP, G)],
    ),
    (ApiKey.HEARTBEAT, 4, {"group_id": G}, [(READ, GROUP, G)]),
    (ApiKey.LEAVE_GROUP, 4, {"group_id": G}, [(READ, GROUP, G)]),
    (ApiKey.DESCRIBE_GROUPS, 5, {"groups": [G]}, [(DESCRIBE, GROUP, G)]),
    (ApiKey.DELETE_GROUPS, 2, {"groups_names": [G]}, [(DELETE, GROUP, G)]),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [G]}, [(DESCRIBE, GROUP, G)]),
    (ApiKey.SHARE_GROUP_DESCRIBE, 1, {"group_ids": [G]}, [(DESCRIBE, GROUP, G)]),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 0, {"group_ids": [G]}, [(DESCRIBE, GROUP, G)]),
    (
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": G, "subscribed_topic_names": [T]},
        [(READ, GROUP, G), (DESCRIBE, TOPIC, T)],
    ),
    (
        ApiKey.SHARE_GROUP_HEARTBEAT, 1, {"group_id": G, "subscribed_topic_names": [T]},
        [(READ, GROUP, G), (DESCRIBE, TOPIC, T)],
    ),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0, {"group_id": G}, [(READ, GROUP, G)]),
    (ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": T}]}, [(DESCRIBE, TOPIC, T)]),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": [{"topic": T}]}, [(DESCRIBE, TOPIC, T)]),
    (ApiKey.DELETE_RECORDS, 2, {"topics": [{"name": T}]}, [(DELETE, TOPIC, T)]),
    (ApiKey.CREATE_PARTITIONS, 3, {"topics": [{"name": T}]}, [(ALTER, TOPIC, T)]),
    (ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": [{"name": T}]}, [(READ, TOPIC, T)]),
    (ApiKey.CREATE_TOPICS, 7, {"topics": [{"name": T}]}, [(CREATE, TOPIC, T)]),
    (ApiKey.DELETE_TOPICS, 5, {"topic_names": [T]}, [(DELETE, TOPIC, T), (DESCRIBE, TOPIC, T)]),
    (
        ApiKey.OFFSET_COMMIT, 8, {"group_id": G, "topics": [{"name": T}]},
        [(READ, GROUP, G), (READ, TOPIC, T)],
    ),
    (
        ApiKey.OFFSET_DELETE, 0, {"group_id": G, "topics": [{"name": T}]},
        [(DELETE, GROUP, G), (READ, TOPIC, T)],
    ),
    (
        ApiKey.TXN_OFFSET_COMMIT, 3, {"transactional_id": I, "group_id": G, "topics": [{"name": T}]},
        [(WRITE, TRANSACTIONAL_ID, I), (READ, GROUP, G), (READ, TOPIC, T)],
    ),
    (
        ApiKey.ADD_OFFSETS_TO_TXN, 3, {"transactional_id": I, "group_id": G},
        [(WRITE, TRANSACTIONAL_ID, I), (READ, GROUP, G)],
    ),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN, 3,
        {"v3_and_below_transactional_id": I, "v3_and_below_topics": [{"name": T, "partitions": [0]}]},
        [(WRITE, TRANSACTIONAL_ID, I), (WRITE, TOPIC, T)],
    ),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 5, {}, [(CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)]),
    (ApiKey.END_TXN, 3, {"transactional_id": I}, [(WRITE, TRANSACTIONAL_ID, I)]),
    (ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": I}, [(WRITE, TRANSACTIONAL_ID, I)]),
    (ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [I]}, [(DESCRIBE, TRANSACTIONAL_ID, I)]),
    (ApiKey.FIND_COORDINATOR, 3, {"key": G}, [(DESCRIBE, GROUP, G)]),
    (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": [G]}, [(DESCRIBE, GROUP, G)]),
    (ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": [I]}, [(DESCRIBE, TRANSACTIONAL_ID, I)]),
    (
        ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, {"group_id": G, "topics": [{"topic_name": T}]},
        [(READ, GROUP, G), (READ, TOPIC, T)],
    ),
    (
        ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": G, "topics": [{"topic_name": T}]},
        [(DELETE, GROUP, G), (READ, TOPIC, T)],
    ),
    (
        ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [{"resource_type": 2, "resource_name": T}]},
        [(DESCRIBE_CONFIGS, TOPIC, T)],
    ),
    (
        ApiKey.ALTER_CONFIGS, 2, {"resources": [{"resource_type": 2, "resource_name": T}]},
        [(ALTER_CONFIGS, TOPIC, T)],
    ),
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [{"resource_type": 2, "resource_name": T}]},
        [(ALTER_CONFIGS, TOPIC, T)],
    ),
]  # fmt: skip
LEFT = [
    (api, version, given, needed, missing) for api, version, given, needed in RESOURCES for missing in needed
]


def request(api: ApiKey, given: dict[str, Any]) -> Any:
    """A request with these fields and those of its items."""
    kind = request_class(api)
    made = kind()
    for name, value in given.items():
        if isinstance(value, list) and isinstance(value[0], dict):
            value = [_item(kind, name, each) for each in value]
        setattr(made, name, value)
    return made


def _item(kind: Any, name: str, fields: dict[str, Any]) -> Any:
    item = kind.__annotations__[name]
    (of,) = (each for each in _parts(item) if hasattr(each, "__struct_fields__"))
    made = of()
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def _parts(kind: Any) -> list[Any]:
    return [kind, *(part for each in getattr(kind, "__args__", ()) for part in _parts(each))]


def served(api: ApiKey, version: int, received: Any, *granted: Permission) -> list[Any]:
    """The request that reached the handler."""
    catalogue = SimpleNamespace(topics={T: None}, by_id=lambda _: None, partition=lambda *_: None)
    ctx: Any = Context(SimpleNamespace(authorizer=Granted(*granted), catalogue=catalogue), version)
    seen = []

    def serve(_: object, rest: Any) -> Any:
        seen.append(rest)
        return response_class(api)()

    GUARDS[api](ctx, received, serve)
    return seen


def outcome(
    api: ApiKey, version: int, received: Any, *granted: Permission
) -> tuple[list[Any], ErrorCode | None]:
    """The request that reached the handler, and the error of the whole request."""
    try:
        return served(api, version, received, *granted), None
    except KafkaError as error:
        return [], error.code


@pytest.mark.parametrize("api", ON_CLUSTER, ids=lambda api: api.name)
def test_apis_of_the_cluster_need_a_permission_on_it(api: ApiKey) -> None:
    requested = request(api, {})
    for operation in ON_CLUSTER[api]:
        assert served(api, 0, requested, (operation, CLUSTER, CLUSTER_NAME)) == [requested]
    others = set(range(3, 14)) - set(ON_CLUSTER[api])
    with pytest.raises(KafkaError) as refused:
        served(api, 0, requested, *((operation, CLUSTER, CLUSTER_NAME) for operation in others))
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("api", "version", "given", "needed"), RESOURCES)
def test_a_client_with_the_permissions_is_served(
    api: ApiKey, version: int, given: dict[str, Any], needed: list[Permission]
) -> None:
    requested = request(api, given)
    (seen,) = served(api, version, requested, *needed)
    assert all(name in str(seen) for _, kind, name in needed if kind != CLUSTER)


@pytest.mark.parametrize(("api", "version", "given", "needed", "missing"), LEFT)
def test_without_one_of_them_the_handler_does_not_see_the_resource(
    api: ApiKey, version: int, given: dict[str, Any], needed: list[Permission], missing: Permission
) -> None:
    operation, kind, name = missing
    others = [(each, kind, name) for each in range(3, 14) if each != operation]
    granted = [each for each in needed if each != missing]
    # other permissions on the same resource do not help
    granted += [each for each in others if each not in needed and not (kind == TOPIC and each[0] == CREATE)]
    seen, code = outcome(api, version, request(api, given), *granted)
    assert code in (None, REFUSALS[kind])
    assert name not in str(seen)


def test_a_group_without_a_named_protocol_is_not_synced_before_its_permission_is_checked() -> None:
    requested = request(ApiKey.SYNC_GROUP, {"group_id": G, "protocol_type": "consumer"})
    granted: list[Permission] = [(READ, GROUP, G)]
    for permissions in ([], granted):
        _, code = outcome(ApiKey.SYNC_GROUP, 5, requested, *permissions)
        assert code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def answered(api: ApiKey, version: int, received: Any, *granted: Permission) -> tuple[Any, Any]:
    """The guard's answer around a handler that answers nothing, and the request that reached it."""
    ctx: Any = Context(SimpleNamespace(authorizer=Granted(*granted)), version)
    seen = []

    def serve(_: object, rest: Any) -> Any:
        seen.append(rest)
        return response_class(api)()

    return GUARDS[api](ctx, received, serve), seen[0] if seen else None


def test_a_group_that_is_refused_twice_is_answered_once() -> None:
    requested = request(ApiKey.DELETE_GROUPS, {"groups_names": [G, "other", G, "other"]})
    answer, rest = answered(ApiKey.DELETE_GROUPS, 2, requested, (DELETE, GROUP, "other"))
    assert rest.groups_names == ["other"]
    found = [(one.group_id, one.error_code) for one in answer.results]
    assert found == [(G, ErrorCode.GROUP_AUTHORIZATION_FAILED)]


def test_topics_that_are_named_twice_are_refused_by_the_handler_not_by_their_permission() -> None:
    requested = request(ApiKey.CREATE_PARTITIONS, {"topics": [{"name": T}, {"name": "other"}, {"name": T}]})
    answer, rest = answered(ApiKey.CREATE_PARTITIONS, 3, requested)
    assert [topic.name for topic in rest.topics] == [T, T]
    found = [(one.name, one.error_code) for one in answer.results]
    assert found == [("other", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]


def test_names_that_no_topic_can_have_are_refused_by_the_handler_not_by_their_permission() -> None:
    requested = request(
        ApiKey.DESCRIBE_PRODUCERS,
        {"topics": [{"name": "not/legal", "partition_indexes": [0]}, {"name": T, "partition_indexes": [0]}]},
    )
    answer, rest = answered(ApiKey.DESCRIBE_PRODUCERS, 0, requested)
    assert [topic.name for topic in rest.topics] == ["not/legal"]
    found = [(one.name, one.partitions[0].error_code) for one in answer.topics]
    assert found == [(T, ErrorCode.TOPIC_AUTHORIZATION_FAILED)]


@pytest.mark.parametrize(("version", "code"), [(5, None), (6, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])
def test_a_share_coordinator_needs_a_permission_where_its_version_has_one(
    version: int, code: ErrorCode | None
) -> None:
    """The handler refuses the keys of an older version."""
    given = {"key_type": 2, "coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAA:0"]}
    requested = request(ApiKey.FIND_COORDINATOR, given)
    assert outcome(ApiKey.FIND_COORDINATOR, version, requested)[1] == code
