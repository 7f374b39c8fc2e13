"""The commit cache answers and writes what the machine would, and knows when it may not."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.changes.topic_change import delete_topics
from kbroker.control.coordinator.machine import Outcome
from kbroker.control.groups.commit_cache.cached_decisions import Renewal
from kbroker.control.groups.offset_store import OffsetStore
from kbroker.control.groups.rebalance import heartbeat_timer
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS
from kbroker.ipc.block import Peer, pack_peer, requests
from kbroker.ipc.layout import Slot
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.control.groups.commit_scene import (
    GENERATION,
    GROUP,
    MEMBER,
    PEER,
    Scene,
    commit,
    ids_of,
    learnt,
    play,
)
from tests.ipc.request_block import pack_request


def test_a_cached_decision_costs_no_look_at_all_offsets_of_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OffsetStore, "of_group", None)

    async def test(scene: Scene) -> None:
        await learnt(scene)
        await scene.send(commit(9, {"a": [(0, 3, ""), (1, 3, "")]}, ids_of(scene)))
        assert scene.left == 0

    play(tmp_path, test)


@pytest.mark.parametrize("version", range(2, 11))
def test_the_cache_answers_and_writes_as_the_machine_does(tmp_path: Path, version: int) -> None:
    async def test(scene: Scene) -> None:
        ids = ids_of(scene)
        topics: dict[str, list[tuple[int, int, str | None]]] = {
            "a": [(0, 10, None), (2, 11, "text")],
            "b": [(1, 12, "")],
        }
        frame = commit(version, topics, ids)
        first = await scene.send(frame)
        second = await scene.send(frame)
        assert scene.left == 2
        third = await scene.send(frame)
        assert scene.left == 2, "the third passes"
        assert first == second == third
        by_machine, by_cache = scene.log.records[3:6], scene.log.records[6:9]
        for one, other in zip(by_machine, by_cache, strict=True):
            assert one.key == other.key
            assert one.value is not None
            assert other.value is not None
            assert len(one.value) == len(other.value)
            found = [scene.shard.table.offsets.get(GROUP, topic, index) for topic, index in [("a", 0)]]
            assert found[0] is not None
        assert scene.committed("a", 2) == 11
        offset = scene.shard.table.offsets.get(GROUP, "a", 2)
        assert offset is not None
        assert (offset.metadata, offset.leader_epoch) == ("text", 5 if version >= 6 else -1)
        assert offset.topic_id == ids["a"]

    play(tmp_path, test)


PARTITIONS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2**63 - 1), st.sampled_from([None, "", "m", "é", "x" * 101])),
    min_size=1,
    max_size=3,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    version=st.integers(2, 10),
    commits=st.lists(
        st.tuples(st.dictionaries(st.sampled_from(["a", "b", "c"]), PARTITIONS, min_size=1), st.booleans()),
        min_size=1,
        max_size=8,
    ),
)
def test_every_answer_is_the_machines(
    tmp_path_factory: pytest.TempPathFactory, version: int, commits: list[Any]
) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene, version)
        ids = ids_of(scene)
        frames = [
            commit(version, topics, ids, generation=GENERATION if right else GENERATION + 1)
            for topics, right in commits
        ]
        by_cache = await scene.send(*frames)
        alone = [await scene._serve(PEER, frame[4:]) for frame in frames]
        assert by_cache == alone

    play(tmp_path_factory.mktemp("cache"), test)


def test_commits_of_one_block_share_a_batch(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        before = len(scene.log.batches)
        await scene.send(*(commit(9, {"a": [(0, offset, "")]}, {}) for offset in range(5)))
        assert scene.left == 0
        assert len(scene.log.batches) == before + 1
        assert scene.committed("a", 0) == 4, "the last one of the log counts"
        assert scene.committed("a", 1) == 2

    play(tmp_path, test)


def test_a_batch_has_the_timeout_of_the_coordinator(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        scene.log.timeout_ms = 0
        left = scene.left
        await scene.send(commit(9, {"a": [(0, 20, "")]}, ids_of(scene)))
        assert scene.left == left, "the cache decides it"
        assert scene.log.timeout_ms == 4321

    play(tmp_path, test)


def test_another_operation_of_the_group_waits_for_commits_under_way_and_ends_their_pass(
    tmp_path: Path,
) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        scene.log.hold = True
        assert not scene.start(100, commit(9, {"a": [(0, 50, "")]}, {}))
        seen: list[int | None] = []

        def operation(_: int) -> Outcome:
            seen.append(scene.committed("a", 0))
            return Outcome(response="done")

        running = asyncio.ensure_future(scene.runtime.run(GROUP, operation))
        await asyncio.sleep(0.01)
        assert not seen
        left = scene.start(101, commit(9, {"a": [(0, 51, "")]}, {}))
        assert left, "no pass any more"
        scene.log.hold = False
        scene.log.release()
        assert await running == "done"
        assert seen == [50]
        await asyncio.gather(*left.values())
        assert scene.committed("a", 0) == 51

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("error", "answered", "committed"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR, 2),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE, 50),
    ],
)
def test_a_failed_append_refuses_its_commits_and_changes_nothing_unless_the_log_has_them(
    tmp_path: Path, error: ErrorCode, answered: ErrorCode, committed: int
) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        scene.log.error = error
        (answer,) = await scene.send(commit(9, {"a": [(0, 50, "")]}, {}))
        assert scene.left == 0
        assert scene.committed("a", 0) == committed
        scene.log.error = None
        (good,) = await scene.send(commit(9, {"a": [(0, 50, "")]}, {}))
        code = int(answered).to_bytes(2, "big")
        assert answer is not None
        assert good is not None
        assert answer == good.replace(bytes(4) + b"\0\0\0\0\0", bytes(4) + code + b"\0\0\0")

    play(tmp_path, test)


@pytest.mark.parametrize("fast", [False, True])
def test_an_offset_whose_append_timed_out_is_not_returned_before_it_is_on_disk(
    tmp_path: Path, fast: bool
) -> None:
    """A power cut would take back what a client has read."""

    async def test(scene: Scene) -> None:
        if fast:
            await learnt(scene)
        index = scene.runtime.partition_for(GROUP)
        slot = scene.broker.catalogue.topics[CONSUMER_OFFSETS].partitions[index].slot
        scene.broker.shared.slots[slot, Slot.LOG_END] = 5
        scene.log.error, left = ErrorCode.REQUEST_TIMED_OUT, scene.left
        await scene.send(commit(9, {"a": [(0, 50, "")]}, {}))
        assert (scene.committed("a", 0), scene.left - left) == (50, int(not fast))
        with pytest.raises(KafkaError) as refused:
            scene.service.read(GROUP)
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        scene.broker.shared.slots[slot, Slot.HIGH_WATERMARK] = 5
        while True:
            with suppress(KafkaError):
                assert scene.service.read(GROUP) is scene.shard
                return
            await asyncio.sleep(0.001)

    play(tmp_path, test)


def test_a_deleted_topic_is_unknown_at_once(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        await delete_topics(scene.broker, lambda: [scene.broker.catalogue.topics["a"]])
        frame = commit(9, {"a": [(0, 50, "")]}, {})
        (answer,) = await scene.send(frame)
        assert scene.left == 1
        assert answer == await scene._serve(PEER, frame[4:])

    play(tmp_path, test)


def test_an_offset_that_went_while_a_commit_was_under_way_is_back(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        scene.log.hold = True
        scene.start(100, commit(9, {"a": [(0, 50, "")]}, {}))
        key = next(
            record.key for record in scene.log.records if record.key and b"\0\1a\0\0\0\0" in record.key
        )
        scene.shard.replay(scene.runtime.partition_for(GROUP), key, None, 0)
        assert scene.committed("a", 0) is None
        scene.log.release()
        assert scene.committed("a", 0) == 50

    play(tmp_path, test)


def test_a_commit_puts_off_the_end_of_its_members_session(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        timer = scene.runtime._wheel._timers[heartbeat_timer(GROUP, MEMBER)]
        timer.due_ms -= 50_000
        due_ms = timer.due_ms
        await scene.send(commit(9, {"a": [(0, 50, "")]}, {}))
        assert scene.left == 0
        scene.runtime._wheel.advance()
        assert timer.due_ms >= due_ms + 50_000

    play(tmp_path, test)


def test_commits_of_the_new_protocol_pass_across_heartbeats_that_change_nothing(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        async def beat(epoch: int, **more: Any) -> int:
            request = ConsumerGroupHeartbeatRequest("new", "m" * 22, epoch, **more)
            frame = encode_request(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 7, "c", request)
            (answer,) = await scene.send(frame)
            assert answer is not None
            found, _ = decode(ConsumerGroupHeartbeatResponse, 1, answer, 9)
            return found.member_epoch

        epoch = await beat(0, rebalance_timeout_ms=60_000, subscribed_topic_names=["a"], topic_partitions=[])
        while (following := await beat(epoch, topic_partitions=[])) != epoch:
            epoch = following
        who: dict[str, Any] = {"group": "new", "member": "m" * 22, "generation": epoch}
        await learnt(scene, 10, **who)
        await beat(epoch)
        scene.left = 0
        await scene.send(commit(10, {"a": [(0, 50, "")]}, ids_of(scene), **who))
        assert scene.left == 0
        assert scene.committed("a", 0, "new") == 50
        await scene.send(commit(10, {"a": [(0, 51, "")]}, ids_of(scene), "new", "m" * 22, epoch - 1))
        assert scene.left == 1, "an older epoch is looked at"

    play(tmp_path, test)


def test_offsets_of_a_group_without_members_pass_too(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        who: dict[str, Any] = {"group": "alone", "member": "", "generation": -1}
        await learnt(scene, **who)
        await scene.send(commit(9, {"a": [(0, 50, "")]}, {}, **who))
        assert scene.left == 0
        assert scene.committed("a", 0, "alone") == 50

    play(tmp_path, test)


@pytest.mark.parametrize(("length", "count"), [(900, 1), (1_100, 0), (20_000, 0)])
def test_no_decisions_of_clients_with_long_ids_are_kept(tmp_path: Path, length: int, count: int) -> None:
    """65,536 decisions with ids of 32 kB would take gigabytes."""

    async def test(scene: Scene) -> None:
        kept = scene.service.commit_cache._decisions
        renewal, beat = Renewal("", 0), ApiKey.HEARTBEAT << 8 | 4
        peer = pack_peer(Peer(1, "PLAINTEXT", "127.0.0.1", 50000, "User:b", 0, "s" * length))
        kept.enter(GROUP, 9, encode(OffsetCommitRequest(GROUP, GENERATION, "m" * length), 9), 0, renewal)
        assert kept.count == count
        kept.enter_heartbeat(GROUP, beat, b"m" * length, renewal, b"")
        assert kept.count == 2 * count
        kept.enter_heartbeat(GROUP, beat, b"a heartbeat", renewal, b"", peer)
        assert kept.count == 3 * count

    play(tmp_path, test)


def test_a_decision_ends_when_the_group_gets_offsets_that_it_was_not_checked_for(tmp_path: Path) -> None:
    """The client may not read the other topic."""
    who: dict[str, Any] = {"group": "shared", "member": "", "generation": -1}
    other = pack_peer(Peer(1, "PLAINTEXT", "127.0.0.1", 50000, "User:b", 0))
    rules = (
        *((acls.GROUP, "shared", "User:ANONYMOUS"), (acls.TOPIC, "a", "User:ANONYMOUS")),
        *((acls.GROUP, "shared", "User:b"), (acls.TOPIC, "b", "User:b"), (acls.TOPIC, "a", "User:b")),
    )

    async def test(scene: Scene) -> None:
        scene.broker.authorizer = Authorizer(
            entries=[
                Acl(kind, name, acls.LITERAL, principal, "*", acls.ALL, acls.ALLOW)
                for kind, name, principal in rules
            ]
        )
        await learnt(scene, **who)
        await scene.send(commit(9, {"a": [(0, 3, "")]}, {}, **who))
        assert scene.left == 0
        for offset in (1, 2):
            await scene._serve(other, commit(9, {"b": [(0, offset, "")]}, ids_of(scene), **who)[4:])
        await scene.send(commit(9, {"b": [(0, 99, "")]}, {}, **who))
        assert scene.left == 1
        assert scene.committed("b", 0, "shared") == 2

    play(tmp_path, test)


def test_many_offsets_and_members_make_the_tables_grow(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        groups = [f"group-{number}" for number in range(700)]
        for offset in (1, 2, 3):
            scene.left = 0
            for group in groups:
                await scene.send(commit(9, {"a": [(0, offset, "")]}, {}, group, "", -1))
        assert scene.left == 0
        assert {scene.committed("a", 0, group) for group in groups} == {3}

    play(tmp_path, test)


def test_a_commit_with_a_retention_of_its_own_is_the_machines(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        topics = [OffsetCommitRequestTopic("a", partitions=[OffsetCommitRequestPartition(0, 9)])]
        request = OffsetCommitRequest(GROUP, GENERATION, MEMBER, 1000, topics=topics)
        frame = encode_request(ApiKey.OFFSET_COMMIT, 3, 77, "client", request)
        for _ in range(4):
            await scene.send(frame)
        assert scene.left == 4

    play(tmp_path, test)


def test_trailing_and_short_requests_are_not_read_past_their_end(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        frame = commit(9, {"a": [(0, 50, ""), (1, 51, "m")]}, {})
        for cut in range(10, len(frame) - 5):
            block = bytearray(pack_request(-1, PEER, frame[4 : len(frame) - cut]))
            assert scene.service.commit_cache.take(scene.link, block)
            assert len(list(requests(block))) == 1
        assert len(encode(OffsetCommitRequest(), 9)) > 0

    play(tmp_path, test)
