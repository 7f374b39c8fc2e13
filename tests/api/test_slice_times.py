"""Requests with very many entries block the loop of control for a few milliseconds at most, for
every API. The CPU time of each callback of the loop is measured, so a busy host does not change the
result.
"""

import asyncio
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kbroker.api.registry import APIS
from kbroker.api.row import Owner
from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.messages import ClientRequest
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kbroker.protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest
from kbroker.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from kbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kbroker.protocol.schema import Field, Struct
from kbroker.protocol.slices import is_sliced
from tests.api.in_process import client_request, dispatch_of
from tests.callbacks import LongestCallback, Tries
from tests.control.coordinators_scene import ANSWER_S
from tests.control.fakes import World, world

pytestmark = pytest.mark.slow

ENTRIES = 30_000
MAX_MS = 30.0
"""Thirty slices; without slices most of these take over a hundred milliseconds."""
SHORT_BYTES = 100_000
"""A request without a list of its own."""


def filled(cls: type[Struct], count: int, number: int, version: int) -> Struct:
    """A struct whose lists have this many entries, and whose nested lists have one entry each."""
    values: dict[str, Any] = {}
    for field in cls.SCHEMA.fields:
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        if field.item is not None and field.wire.startswith("[]"):
            values[field.name] = [filled(field.item, 1, number + i, version) for i in range(count)]
        elif field.item is not None:
            values[field.name] = filled(field.item, 1, number, version)
        elif (made := _value(field, count, number)) is not None:
            values[field.name] = made
    return cls(**values)


def _value(field: Field, count: int, number: int) -> Any:
    many = {
        "[]string": [f"n{number + i}" for i in range(count)],
        "[]uuid": [(number + i).to_bytes(16) for i in range(count)],
        "string": f"n{number}",
        "uuid": number.to_bytes(16),
        "bytes": b"x",
    }
    if field.wire in many:
        return many[field.wire]
    if field.wire in ("[]int32", "[]int64"):
        return list(range(count))
    return number % 100 if field.wire in ("int16", "int32", "int64") and count == 1 else None


def settings(count: int, prefix: str = "k") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


DEEP: dict[str, tuple[ApiKey, Callable[[], Struct]]] = {
    "settings of one topic": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda: IncrementalAlterConfigsRequest(
            [AlterConfigsResource(2, "n0", [AlterableConfig(name, 0, "1") for name in settings(100_000)])]
        ),
    ),
    "settings to replace": (
        ApiKey.ALTER_CONFIGS,
        lambda: AlterConfigsRequest(
            [ReplacedResource(2, "n0", [ReplacedConfig(name, "1") for name in settings(100_000)])]
        ),
    ),
    "settings of a new topic": (
        ApiKey.CREATE_TOPICS,
        lambda: CreateTopicsRequest(
            [
                CreatableTopic(
                    "new", 1, -1, [], [CreatableTopicConfig(name, "1") for name in settings(100_000)]
                )
            ]
        ),
    ),
    "names of topics to delete": (
        ApiKey.DELETE_TOPICS,
        lambda: DeleteTopicsRequest([], [DeleteTopicState(name) for name in settings(200_000)], 1000),
    ),
    "ids of topics to delete": (
        ApiKey.DELETE_TOPICS,
        lambda: DeleteTopicsRequest(
            [], [DeleteTopicState(None, n.to_bytes(16)) for n in range(1, 200_000)], 1000
        ),
    ),
    "ACLs of no known kind": (
        ApiKey.CREATE_ACLS,
        lambda: CreateAclsRequest(
            [AclCreation(0, name, 3, "User:a", "*", 3, 3) for name in settings(300_000)]
        ),
    ),
    "settings to describe": (
        ApiKey.DESCRIBE_CONFIGS,
        lambda: DescribeConfigsRequest([DescribeConfigsResource(2, "n0", settings(100_000))]),
    ),
    "quotas of one user": (
        ApiKey.ALTER_CLIENT_QUOTAS,
        lambda: AlterClientQuotasRequest(
            [
                RequestEntryData(
                    [RequestEntityData("user", "u")], [OpData(name, 1.0) for name in settings(400_000)]
                )
            ]
        ),
    ),
    "entities whose quotas are altered": (
        ApiKey.ALTER_CLIENT_QUOTAS,
        lambda: AlterClientQuotasRequest(
            [
                RequestEntryData([RequestEntityData("user", name)], [OpData("unknown", 1.0)])
                for name in settings(250_000)
            ]
        ),
    ),
    "a partition whose producers are described again and again": (
        ApiKey.DESCRIBE_PRODUCERS,
        lambda: DescribeProducersRequest([TopicRequest("n0", [0] * 1_500_000)]),
    ),
}
"""Long lists within a single entry, and requests whose entries take a path of their own."""

IN_VERSIONS: dict[str, tuple[ApiKey, int, Callable[[], Struct]]] = {
    "topics whose offsets are fetched": (
        ApiKey.OFFSET_FETCH,
        1,
        lambda: OffsetFetchRequest("g", [OffsetFetchRequestTopic(name, [0]) for name in settings(290_000)]),
    ),
    "names of topics to delete, without any time": (
        ApiKey.DELETE_TOPICS,
        1,
        lambda: DeleteTopicsRequest(topic_names=settings(400_000), timeout_ms=0),
    ),
    "a topic to delete, named again and again": (
        ApiKey.DELETE_TOPICS,
        1,
        lambda: DeleteTopicsRequest(topic_names=["n0"] * 1_500_000, timeout_ms=1000),
    ),
    "topics of one transaction": (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        5,
        lambda: AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    "t", 1, 0, False, [AddPartitionsToTxnTopic(name, [0]) for name in settings(300_000)]
                )
            ]
        ),
    ),
    "partitions of one transaction": (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        5,
        lambda: AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    "t", 1, 0, False, [AddPartitionsToTxnTopic("n0", list(range(400_000)))]
                )
            ]
        ),
    ),
    "partitions of one marker": (
        ApiKey.WRITE_TXN_MARKERS,
        1,
        lambda: WriteTxnMarkersRequest(
            [WritableTxnMarker(1, 0, True, [WritableTxnMarkerTopic("n0", list(range(1_500_000)))], 0)]
        ),
    ),
    "partitions of one topic whose offsets are committed": (
        ApiKey.OFFSET_COMMIT,
        2,
        lambda: OffsetCommitRequest(
            "g",
            topics=[
                OffsetCommitRequestTopic(
                    "n0", partitions=[OffsetCommitRequestPartition(number, 1) for number in range(600_000)]
                )
            ],
        ),
    ),
}
"""Long lists that a path of this version walks."""

ALLOWED_BY_HALF: dict[str, tuple[ApiKey, Callable[[], Struct]]] = {
    f"{key.name} of one entry with a long list": (key, request)
    for key, request in (
        (
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            lambda: DescribeShareGroupOffsetsRequest(
                [
                    DescribeShareGroupOffsetsRequestGroup(
                        "n1",
                        [DescribeShareGroupOffsetsRequestTopic(name, [0]) for name in settings(ENTRIES, "n")],
                    )
                ]
            ),
        ),
        (ApiKey.FIND_COORDINATOR, lambda: FindCoordinatorRequest("", 0, settings(4 * ENTRIES, "n"))),
    )
}
"""Long lists that a guard looks through."""

WITH_LISTS = {
    api.key.name: api
    for api in APIS.values()
    if api.owner is Owner.CONTROL
    and any(field.wire.startswith("[]") and "int8" not in field.wire for field in api.request.SCHEMA.fields)
}
LONG = (*DEEP, *WITH_LISTS, *IN_VERSIONS)


@cache
def long_request(name: str) -> tuple[Any, int, bytes]:
    """The API, the version and the request's body. They are made when a test needs them: a million
    objects of them all would slow down whatever else this process tests."""
    if name in WITH_LISTS:
        api = WITH_LISTS[name]
        version = api.max_version
        return api, version, encode(filled(api.request, ENTRIES, 0, version), version)
    if name in IN_VERSIONS:
        key, version, made = IN_VERSIONS[name]
    else:
        key, made = (DEEP | ALLOWED_BY_HALF)[name]
        version = APIS[key].max_version
    return APIS[key], version, encode(made(), version)


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        one.broker.authorizer = Authorizer(frozenset(("User:ANONYMOUS",)))
        asyncio.run(create_topics(one.broker, [NewTopic("n0"), NewTopic("n1")]))
        yield one


@pytest.mark.parametrize("name", LONG)
def test_no_callback_of_a_long_request_takes_long(
    made: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, version, body = long_request(name)
    client = client_request(api.key, version, body)
    assert len(client.body) > SHORT_BYTES
    check_callbacks(made, client, monkeypatch)


def check_callbacks(made: World, client: ClientRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a callback takes long in each try."""
    longest, tries = LongestCallback(monkeypatch), Tries(MAX_MS)
    while tries.needed():
        longest.reset()
        asyncio.run(served(made, client))
        tries.add(longest.ms)
    tries.check()


@pytest.mark.parametrize("who", ["some", "none"])
@pytest.mark.parametrize("name", [*LONG, *ALLOWED_BY_HALF])
def test_no_callback_takes_long_when_names_are_refused(
    made: World, name: str, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that are no super users: two of three names begin with what the ACLs of the first
    allow; the other has no permission."""
    api, version, body = long_request(name)
    made.broker.authorizer = Authorizer(
        entries=[
            Acl(kind, prefix, acls.PREFIXED, "User:some", "*", acls.ALL, acls.ALLOW)
            for kind in (acls.TOPIC, acls.GROUP, acls.TRANSACTIONAL_ID)
            for prefix in ("n1", "n2")
        ]
    )
    client = client_request(api.key, version, body)
    check_callbacks(made, structs.replace(client, principal=f"User:{who}"), monkeypatch)


async def served(made: World, client: ClientRequest) -> None:
    """Serve a long request as control does, until it is answered."""
    dispatch: Callable[[], Any] = partial(dispatch_of(made.broker), client)
    in_slices: list[bool] = []
    async with asyncio.timeout(ANSWER_S):
        found = await Slicing().run(dispatch)
        if isinstance(found, Deferred):
            found.on_complete(lambda _: in_slices.append(is_sliced()))
            while not found.done:
                await asyncio.sleep(0)
            assert in_slices == [True], "a long answer is encoded where its last part comes in"
            assert not isinstance(found.value, Exception)
