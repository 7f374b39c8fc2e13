"""Requests with very many entries block the loop of control for a few milliseconds at most, for
every API. The CPU time of each callback of the loop is measured, so a busy host does not change the
result.
"""

import asyncio
from collections.abc import Callable
from functools import partial
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
from kbroker.protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest
from kbroker.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from kbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
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
from kbroker.protocol.schema import Field, Struct
from kbroker.protocol.slices import is_sliced
from tests.api.in_process import client_request, dispatch_of
from tests.callbacks import LongestCallback, Tries
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


def long_request(api: Any) -> bytes:
    return encode(filled(api.request, ENTRIES, 0, api.max_version), api.max_version)


def settings(count: int, prefix: str = "k") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


DEEP: dict[str, tuple[ApiKey, Struct]] = {
    "settings of one topic": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        IncrementalAlterConfigsRequest(
            [AlterConfigsResource(2, "n0", [AlterableConfig(name, 0, "1") for name in settings(100_000)])]
        ),
    ),
    "settings to replace": (
        ApiKey.ALTER_CONFIGS,
        AlterConfigsRequest(
            [ReplacedResource(2, "n0", [ReplacedConfig(name, "1") for name in settings(100_000)])]
        ),
    ),
    "settings of a new topic": (
        ApiKey.CREATE_TOPICS,
        CreateTopicsRequest(
            [
                CreatableTopic(
                    "new", 1, -1, [], [CreatableTopicConfig(name, "1") for name in settings(100_000)]
                )
            ]
        ),
    ),
    "names of topics to delete": (
        ApiKey.DELETE_TOPICS,
        DeleteTopicsRequest(topics=[DeleteTopicState(name) for name in settings(200_000)]),
    ),
    "ids of topics to delete": (
        ApiKey.DELETE_TOPICS,
        DeleteTopicsRequest(topics=[DeleteTopicState(None, n.to_bytes(16)) for n in range(1, 200_000)]),
    ),
    "ACLs of no known kind": (
        ApiKey.CREATE_ACLS,
        CreateAclsRequest([AclCreation(0, name, 3, "User:a", "*", 3, 3) for name in settings(300_000)]),
    ),
    "settings to describe": (
        ApiKey.DESCRIBE_CONFIGS,
        DescribeConfigsRequest([DescribeConfigsResource(2, "n0", settings(100_000))]),
    ),
}
"""Long lists within a single entry, and requests whose entries take a path of their own."""

LONG = [
    *(
        pytest.param(APIS[key], encode(request, APIS[key].max_version), id=name)
        for name, (key, request) in DEEP.items()
    ),
] + [
    pytest.param(api, long_request(api), id=api.key.name)
    for api in APIS.values()
    if api.owner is Owner.CONTROL
    and any(field.wire.startswith("[]") and "int8" not in field.wire for field in api.request.SCHEMA.fields)
]

HALF_ALLOWED = [
    pytest.param(
        APIS[key], encode(request, APIS[key].max_version), id=f"{key.name} of one entry with a long list"
    )
    for key, request in (
        (
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            DescribeShareGroupOffsetsRequest(
                [
                    DescribeShareGroupOffsetsRequestGroup(
                        "n1",
                        [DescribeShareGroupOffsetsRequestTopic(name, [0]) for name in settings(ENTRIES, "n")],
                    )
                ]
            ),
        ),
        (ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", 0, settings(4 * ENTRIES, "n"))),
    )
]
"""Long lists that a guard looks through."""


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        one.broker.authorizer = Authorizer(frozenset(("User:ANONYMOUS",)))
        asyncio.run(create_topics(one.broker, [NewTopic("n0"), NewTopic("n1")]))
        yield one


@pytest.mark.parametrize(("api", "body"), LONG)
def test_no_callback_of_a_long_request_takes_long(
    made: World, api: Any, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_request(api.key, api.max_version, body)
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
@pytest.mark.parametrize(("api", "body"), [*LONG, *HALF_ALLOWED])
def test_no_callback_takes_long_when_names_are_refused(
    made: World, api: Any, body: bytes, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that are no super users: two of three names begin with what the ACLs of the first
    allow; the other has no permission."""
    made.broker.authorizer = Authorizer(
        entries=[
            Acl(kind, prefix, acls.PREFIXED, "User:some", "*", acls.ALL, acls.ALLOW)
            for kind in (acls.TOPIC, acls.GROUP, acls.TRANSACTIONAL_ID)
            for prefix in ("n1", "n2")
        ]
    )
    client = client_request(api.key, api.max_version, body)
    check_callbacks(made, structs.replace(client, principal=f"User:{who}"), monkeypatch)


async def served(made: World, client: ClientRequest) -> None:
    """Serve a long request as control does, until it is answered."""
    dispatch: Callable[[], Any] = partial(dispatch_of(made.broker), client)
    in_slices: list[bool] = []
    async with asyncio.timeout(60):
        found = await Slicing().run(dispatch)
        if isinstance(found, Deferred):
            found.on_complete(lambda _: in_slices.append(is_sliced()))
            while not found.done:
                await asyncio.sleep(0)
            assert in_slices == [True], "a long answer is encoded where its last part comes in"
            assert not isinstance(found.value, Exception)
