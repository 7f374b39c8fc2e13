"""Short requests about all that there is of something, and sweeps over it, stop the loop of control
for a few milliseconds at most, however much others have made. Measured in CPU time of each
callback."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.acls import ALLOW, GROUP, LITERAL, READ, Acl
from kbroker.config.authorizer import Authorizer
from kbroker.config.client_quotas import QuotaTable
from kbroker.control.groups.classic_member import ClassicMember
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.control.groups.offset_record import CommittedOffset, offset_record
from kbroker.control.groups.service import CatalogueView
from kbroker.control.groups.share_group.simple_assignor import assign_shared
from kbroker.control.groups.summary import send_summaries
from kbroker.control.requests import LISTS
from kbroker.control.transactions.metadata import TransactionMetadata
from kbroker.control.transactions.service import OPEN
from kbroker.control.transactions.state import TransactionState
from kbroker.ipc.http_messages import GroupsPage
from kbroker.ipc.messages import ScramCredential
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact, encode
from kbroker.protocol.frame import parse_response
from kbroker.protocol.kafka_uuid import random_uuid
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.schema import Struct
from tests.callbacks import LongestCallback, Tries
from tests.control.coordinators_scene import Scene, play
from tests.control.fakes import World, world

pytestmark = pytest.mark.slow

COUNT = 20_000
MAX_MS = 30.0
"""Thirty slices; in one piece most take over a hundred."""


def groups(scene: Scene) -> None:
    for number in range(COUNT):
        scene.table.create_classic(f"group-{number}", 0)


def members(scene: Scene) -> None:
    group = scene.table.create_classic("g", 0)
    for number in range(COUNT):
        name = f"member-{number}"
        group.add(ClassicMember(name, None, "c", "/1.1.1.1", 1, 1, "consumer", [("range", b"")]))


def commits(scene: Scene) -> None:
    for number in range(COUNT):
        record = offset_record("g", "t", number, CommittedOffset(1, -1, "", 0))
        scene.group_service.shard.replay(0, record.key, record.value, 0)


def transactions(scene: Scene) -> None:
    now_ms = scene.broker.now_ms()
    for number in range(COUNT):
        scene.transaction_service.shard.table.put(
            TransactionMetadata(
                f"id-{number}", number, 1 << 30, state=TransactionState.ONGOING, start_ms=now_ms
            )
        )


def acls(scene: Scene) -> None:
    assert scene.broker.authorizer is not None
    scene.broker.authorizer.add(
        Acl(GROUP, f"g{number}", LITERAL, "User:a", "*", READ, ALLOW) for number in range(COUNT)
    )


def users(scene: Scene) -> None:
    for number in range(COUNT):
        scene.broker.scram[f"user-{number}", 1] = ScramCredential(b"", b"", b"", 4096)


def quotas(scene: Scene) -> None:
    values = {((("user", f"user-{number}"),)): {"producer_byte_rate": 1.0} for number in range(COUNT)}
    scene.broker.quotas = QuotaTable(values)


def partitions(scene: Scene) -> None:
    topic = scene.broker.catalogue.topics["t"]
    topic.partitions = topic.partitions * COUNT


LONG: dict[str, tuple[Callable[[Scene], None], ApiKey, int, Struct]] = {
    "groups": (groups, ApiKey.LIST_GROUPS, 5, ListGroupsRequest()),
    "members": (members, ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(["g"])),
    "commits": (
        commits,
        ApiKey.OFFSET_FETCH,
        8,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]),
    ),
    "transactions": (transactions, ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest()),
    "ACLs": (acls, ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(1, None, 1, None, None, 1, 1)),
    "users": (users, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest()),
    "quotas": (quotas, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest([])),
    "all partitions": (partitions, ApiKey.METADATA, 12, MetadataRequest(None, False)),
    "partitions of a topic": (
        partitions,
        ApiKey.METADATA,
        12,
        MetadataRequest([MetadataRequestTopic(name="t")]),
    ),
}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as one:
        one.broker.authorizer = Authorizer(frozenset(("User:ANONYMOUS",)))
        yield one


async def check_callbacks(longest: LongestCallback, work: Callable[[], Any]) -> None:
    """Fails if a callback of the work takes long in each try."""
    tries = Tries(MAX_MS)
    while tries.needed():
        await asyncio.sleep(0)
        longest.reset()
        await work()
        await asyncio.sleep(0)
        tries.add(longest.ms)
    tries.check()


@pytest.mark.parametrize("kind", LONG)
def test_no_callback_of_a_short_request_with_a_long_answer_takes_long(
    made: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, api, version, request = LONG[kind]
    assert api in LISTS
    assert len(encode(request, version)) < 100
    longest = LongestCallback(monkeypatch)

    async def body(scene: Scene) -> None:
        make(scene)
        found: list[Any] = []

        async def ask() -> None:
            found.append(await scene.ask(api, version, request))

        await check_callbacks(longest, ask)
        assert len(found[-1]) > COUNT
        start = parse_response(found[-1][4:], api, version)[1]
        decode_exact(response_class(api), version, found[-1][4:], start)

    play(made, body)


def test_no_callback_of_a_groups_end_takes_long(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeleteGroups of a group with very many offsets, and their expiry."""
    longest = LongestCallback(monkeypatch)

    async def body(scene: Scene) -> None:
        async def make() -> None:
            commits(scene)
            await asyncio.sleep(0)
            longest.reset()

        async def delete() -> None:
            await make()
            await scene.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(["g"]))

        await check_callbacks(longest, delete)
        assert not scene.table.offsets.has_group("g")

        async def expire() -> None:
            await make()
            scene.group_service._expire_offsets()
            async with asyncio.timeout(60):
                while "g" in scene.table.groups:
                    await asyncio.sleep(0)

        await check_callbacks(longest, expire)

    play(made, body)


def test_no_callback_of_many_filters_of_acls_takes_long(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = LongestCallback(monkeypatch)
    none = DeleteAclsFilter(GROUP, "none", LITERAL, None, None, READ, ALLOW)

    async def body(scene: Scene) -> None:
        acls(scene)

        async def ask() -> None:
            answer = await scene.ask(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([none] * 7))
            start = parse_response(answer[4:], ApiKey.DELETE_ACLS, 3)[1]
            found = decode_exact(DeleteAclsResponse, 3, answer[4:], start)
            assert [len(one.matching_acls) for one in found.filter_results] == [0] * 7

        await check_callbacks(longest, ask)

    play(made, body)


def test_metrics_ask_for_all_groups_in_pages(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = LongestCallback(monkeypatch)
    shares: Any = SimpleNamespace(partitions=SimpleNamespace(letters_of=lambda *_: {}, lags_of=lambda *_: {}))

    async def body(scene: Scene) -> None:
        groups(scene)
        commits(scene)
        scene.services.coordinate(scene.group_service, scene.transaction_service, shares)
        got: list[str] = []

        async def ask() -> None:
            scene.sent.clear()
            last = await scene.answered(
                lambda link: scene.requests.in_slices(lambda: send_summaries(scene.services, link, 5))
            )
            pages = [page for page in scene.sent if isinstance(page, GroupsPage) and page.call_id == 5]
            got[:] = [group.group_id for page in pages for group in page.groups]
            got.extend(group.group_id for group in last)

        await check_callbacks(longest, ask)
        assert sorted(got) == sorted(scene.table.groups)

    play(made, body)


def test_sweeps_over_very_many_are_short(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = LongestCallback(monkeypatch)

    async def body(scene: Scene) -> None:
        groups(scene)
        transactions(scene)
        for group in scene.table.groups.values():
            group.state = ClassicState.STABLE  # type: ignore[attr-defined]
        shard = scene.group_service.shard
        looked = {"expire_offsets": 0, "has_offsets_of": 0}
        for name in looked:
            monkeypatch.setattr(shard, name, counted(looked, name, getattr(shard, name)))
        words = made.broker.metrics.words

        async def sweep() -> None:
            looked.update(dict.fromkeys(looked, 0))
            words[OPEN] = 0
            scene.group_service._expire_offsets()
            scene.group_service.topic_deleted(made.broker.catalogue.topics["t"])
            scene.transaction_service._abort_timed_out()
            scene.transaction_service._expire()
            async with asyncio.timeout(60):
                while words[OPEN] != COUNT or min(looked.values()) < COUNT:
                    await asyncio.sleep(0)

        await check_callbacks(longest, sweep)

    play(made, body)


def counted(counts: dict[str, int], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        counts[name] += 1
        return function(*args)

    return call


MEMBERS, NAMES = 20, 15_000


def share_heartbeat(topics: list[str]) -> Struct:
    return ShareGroupHeartbeatRequest("g", random_uuid(), 0, None, topics)


def consumer_heartbeat(topics: list[str] | None, regex: str | None = None) -> Struct:
    return ConsumerGroupHeartbeatRequest(
        "g", random_uuid(), 0, None, None, 60_000, topics, regex, None, topic_partitions=[]
    )


@pytest.mark.parametrize(
    ("api", "version", "heartbeat"),
    [
        (ApiKey.SHARE_GROUP_HEARTBEAT, 1, share_heartbeat),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer_heartbeat),
    ],
)
def test_no_callback_of_a_short_heartbeat_takes_long(
    made: World,
    api: ApiKey,
    version: int,
    heartbeat: Callable[[list[str]], Struct],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a group whose other members subscribe to very many topics that do not exist."""
    longest = LongestCallback(monkeypatch)

    async def body(scene: Scene) -> None:
        for member in range(MEMBERS):
            await scene.ask(api, version, heartbeat([f"{member}-{number}" for number in range(NAMES)]))

        async def ask() -> None:
            frame = await scene.ask(api, version, heartbeat(["t"]))
            start = parse_response(frame[4:], api, version)[1]
            answer: Any = decode_exact(response_class(api), version, frame[4:], start)
            assert answer.error_code == 0

        await check_callbacks(longest, ask)

    play(made, body)


@pytest.mark.parametrize("different", [False, True])
def test_no_callback_of_a_heartbeat_of_a_large_consumer_group_takes_long(
    made: World, different: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The assignment is for all members. different: each subscribes to something else."""
    longest = LongestCallback(monkeypatch)

    async def body(scene: Scene) -> None:
        partitions(scene)
        group = scene.table.groups["g"] = ConsumerGroup("g")
        for number in range(3000):
            names = frozenset(["t", f"missing-{number}"] if different else ["t"])
            group.put_member(ConsumerMember(f"m{number}", subscribed_topics=names))

        async def ask() -> None:
            group.assignment_timestamp_ms = 0
            await scene.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer_heartbeat(["t"]))
            assert group.assignment_epoch == group.group_epoch

        await check_callbacks(longest, ask)

    play(made, body)


def test_very_many_expressions_are_matched_in_slices(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = LongestCallback(monkeypatch)
    topics = tuple(f"topic-{number}" for number in range(2000))
    monkeypatch.setattr(CatalogueView, "names", lambda _: topics)

    async def body(scene: Scene) -> None:
        group = scene.table.groups["g"] = ConsumerGroup("g")
        for number in range(200):
            group.put_member(ConsumerMember(f"m{number}", regex=f"[a-z]+-[0-9]+-{number}"))

        async def ask() -> None:
            for regex in tuple(group.regexes):
                group.remove_regex(regex)
            await scene.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, consumer_heartbeat(None, "x"))
            async with asyncio.timeout(60):
                while len(group.regexes) <= 200:
                    await asyncio.sleep(0.001)

        await check_callbacks(longest, ask)

    play(made, body)


def test_very_many_partitions_to_share_are_assigned_in_slices(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = LongestCallback(monkeypatch)
    topic_id = bytes(15) + b"t"
    members = {f"m{number}": frozenset([topic_id]) for number in range(5)}
    available = {topic_id: frozenset(range(10_000))}

    async def body(scene: Scene) -> None:
        async def assign() -> None:
            found: list[dict[str, Partitions]] = []
            scene.requests.in_slices(lambda: found.append(assign_shared(members, available, {})))
            async with asyncio.timeout(60):
                while not found:
                    await asyncio.sleep(0)
            assert {len(parts[topic_id]) for parts in found[0].values()} == {2000}

        await check_callbacks(longest, assign)

    play(made, body)
