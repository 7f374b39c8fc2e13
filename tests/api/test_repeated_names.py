"""A short request that names the same thing again and again does not make its answer again: it
could ask for gigabytes."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kbroker.api import (
    config_results,
    delete_share_group_offsets,
    describe_configs,
    describe_transactions,
    offset_fetch,
)
from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.groups.offset_record import CommittedOffset, offset_record
from kbroker.control.groups.service import each
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.frame import parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kbroker.protocol.schema import Struct
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.coordinators_scene import Scene, play
from tests.control.fakes import world

BROKER, LOGGER = 4, 8
WAYS = [*(f"{'0' * zeros}1" for zeros in range(50)), "+1"]
"""The id of the broker."""


def counted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[Any]:
    """The arguments of each call of a function of a module, from now on."""
    calls: list[Any] = []
    before: Callable[..., Any] = getattr(module, name)

    def count(*args: Any) -> Any:
        calls.append(args)
        return before(*args)

    monkeypatch.setattr(module, name, count)
    return calls


async def ask(scene: Scene, api: ApiKey, version: int, request: Struct) -> Any:
    frame = await scene.ask(api, version, request)
    _, start = parse_response(frame[4:], api, version)
    return decode_exact(response_class(api), version, frame[4:], start)


def test_a_group_that_is_named_again_is_described_once() -> None:
    calls: list[str] = []

    def describe(group_id: str) -> str:
        calls.append(group_id)
        if group_id == "bad":
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return f"group {group_id}"

    answers = each(["a", "bad", "a", "b", "bad", "a"], describe, lambda name, error: f"{name} {error.code}")
    assert calls == ["a", "bad", "b"]
    bad = f"bad {ErrorCode.INVALID_GROUP_ID}"
    assert answers == ["group a", bad, "group a", "group b", bad, "group a"]


@pytest.mark.parametrize("hides", [False, True])
def test_all_offsets_of_a_group_are_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hides: bool
) -> None:
    everything = OffsetFetchRequestGroup("g", topics=None)
    one = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])
    calls = counted(monkeypatch, offset_fetch, "fetch")

    async def body(scene: Scene) -> None:
        for name in ("t", "u"):
            record = offset_record("g", name, 0, CommittedOffset(1, -1, "", 0))
            scene.group_service.shard.replay(0, record.key, record.value, 0)
        if hides:
            rules = [(acls.GROUP, "g"), (acls.TOPIC, "u")]
            scene.broker.authorizer = Authorizer(
                entries=[
                    Acl(kind, name, acls.LITERAL, "User:ANONYMOUS", "*", acls.ALL, acls.ALLOW)
                    for kind, name in rules
                ]
            )
        other = OffsetFetchRequestGroup("g", "member", 1, topics=None)
        groups = [everything, one, everything, other, everything]
        answer = await ask(scene, ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups))
        names = [[topic.name for topic in group.topics] for group in answer.groups]
        assert names[0] == names[2] == names[4] == (["u"] if hides else ["t", "u"])
        assert names[1] == ["t"]
        assert len(calls) == 3

    with world(tmp_path) as made:
        play(made, body)


def test_a_transactional_id_that_is_named_again_is_described_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted(monkeypatch, describe_transactions, "_describe")

    async def body(scene: Scene) -> None:
        names = ["a", "b", "a", "a"]
        answer = await ask(scene, ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(names))
        assert [state.transactional_id for state in answer.transaction_states] == names
        assert len(calls) == 2

    with world(tmp_path) as made:
        play(made, body)


@pytest.mark.parametrize(
    ("kind", "module"), [(BROKER, config_results), (LOGGER, describe_configs)], ids=["settings", "loggers"]
)
def test_a_broker_whose_id_is_written_in_many_ways_is_described_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int, module: ModuleType
) -> None:
    calls = counted(monkeypatch, module, "entries_of")

    async def body(scene: Scene) -> None:
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None) for name in WAYS], True)
        answer = await ask(scene, ApiKey.DESCRIBE_CONFIGS, 4, request)
        assert [result.resource_name for result in answer.results] == WAYS
        assert len(answer.results[0].configs) > 10
        assert all(result.configs == answer.results[0].configs for result in answer.results)
        assert len(calls) == 1

    with world(tmp_path) as made:
        play(made, body)


def test_the_offsets_of_a_topic_that_is_named_again_are_deleted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each deletion of a partition is a write."""
    topic_id, deleted = b"t" * 16, []
    topic = SimpleNamespace(
        topic_id=topic_id, name="t", partitions=[SimpleNamespace(index=n) for n in (0, 1)]
    )

    async def delete(key: ShareKey) -> None:
        deleted.append(key.partition)

    async def run(_: str, __: object) -> None:
        pass

    shares = SimpleNamespace(partitions=SimpleNamespace(delete=delete))
    services = SimpleNamespace(groups=SimpleNamespace(run=run), shares=shares)
    catalogue = SimpleNamespace(get=lambda name: topic if name == "t" else None)
    context: Any = SimpleNamespace(broker=SimpleNamespace(catalogue=catalogue), services=services)
    group = SimpleNamespace(shared={topic_id: None}, has_states=True)
    monkeypatch.setattr(delete_share_group_offsets, "check_protocol", lambda *_: None)
    monkeypatch.setattr(delete_share_group_offsets, "empty_share_group", lambda *_: nullcontext(group))

    async def answered() -> Any:
        names = [DeleteShareGroupOffsetsRequestTopic(name) for name in ("t", "none", "t", "t")]
        request = DeleteShareGroupOffsetsRequest("g", names)
        return await answer_of(delete_share_group_offsets.handle(context, request))

    answer = asyncio.run(answered())
    assert [each.topic_name for each in answer.responses] == ["t", "none", "t", "t"]
    assert deleted == [0, 1]


def test_the_levels_of_some_loggers_are_shown(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        resources = [DescribeConfigsResource(LOGGER, "1", keys) for keys in (["root", "none"],)]
        answer = await ask(scene, ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources))
        assert [config.name for config in answer.results[0].configs] == ["root"]

    with world(tmp_path) as made:
        play(made, body)
