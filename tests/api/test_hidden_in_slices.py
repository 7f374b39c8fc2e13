"""What a guard hides from a client, or has divided, is freed in slices."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.groups.offset_record import CommittedOffset, offset_record
from kbroker.control.metadata.catalogue import Topic
from kbroker.control.transactions.metadata import TransactionMetadata
from kbroker.protocol import slices
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kbroker.protocol.schema import Struct
from tests.api.freed_blocks import ENTRIES, MAX_BLOCKS, changes_by_slice
from tests.control.coordinators_scene import Scene, play
from tests.control.fakes import world

pytestmark = pytest.mark.slow

NAMES = [f"n{number}" for number in range(ENTRIES)]


def nothing(_: Scene) -> None:
    pass


def groups(scene: Scene) -> None:
    for name in NAMES:
        scene.table.create_classic(name, 0)


def commits(scene: Scene) -> None:
    for name in NAMES:
        record = offset_record("g", name, 0, CommittedOffset(1, -1, "", 0))
        scene.group_service.shard.replay(0, record.key, record.value, 0)


def transactions(scene: Scene) -> None:
    for number, name in enumerate(NAMES):
        scene.transaction_service.shard.table.put(TransactionMetadata(name, number, 1 << 30))


def topics(scene: Scene) -> None:
    partitions = scene.broker.catalogue.topics["t"].partitions
    for number, name in enumerate(NAMES):
        scene.broker.catalogue.put(Topic(name, number.to_bytes(16), partitions))


KINDS: dict[str, tuple[Callable[[Scene], None], ApiKey, int, Struct]] = {
    "offsets of share groups": (
        nothing,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        DescribeShareGroupOffsetsRequest(
            [
                DescribeShareGroupOffsetsRequestGroup(
                    f"g{name}", [DescribeShareGroupOffsetsRequestTopic("n0", [0])]
                )
                for name in NAMES
            ]
        ),
    ),
    "groups": (groups, ApiKey.LIST_GROUPS, 5, ListGroupsRequest()),
    "offsets": (
        commits,
        ApiKey.OFFSET_FETCH,
        8,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]),
    ),
    "transactions": (transactions, ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest()),
    "topics": (topics, ApiKey.METADATA, 12, MetadataRequest(None, False)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_topics_are_freed_in_slices(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, api, version, request = KINDS[kind]
    changes = changes_by_slice(monkeypatch)
    own_groups = Acl(acls.GROUP, "g", acls.PREFIXED, "User:ANONYMOUS", "*", acls.ALL, acls.ALLOW)

    async def body(scene: Scene) -> None:
        make(scene)
        scene.broker.authorizer = Authorizer(entries=[own_groups])
        changes.clear()
        await scene.ask(api, version, request)

    with world(tmp_path) as made:
        play(made, body)
    assert len(changes) > ENTRIES / slices.SHORT
    assert -min(changes) < MAX_BLOCKS, "freed in one slice"
