"""Dead letters are written before the state that makes their records final, and until they are."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.machine import Operation
from kbroker.control.groups.share_group.member import SharedTopic
from kbroker.control.metadata.topic_name import SHARE_GROUP_STATE
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share import partitions as share_partitions
from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.state_shard import ShareKey
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.layout import Slot
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import world
from tests.control.share.scene import LETTER, STATE, Scene

Test = Callable[[Scene], Coroutine[Any, Any, None]]


class Play(Protocol):
    """Runs a test in a scene whose group has these settings, or a dead-letter topic."""

    def __call__(self, test: Test, settings: dict[str, str] | None = None) -> None: ...


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    monkeypatch.setattr(share_partitions, "FIRST_PAUSE_S", 0.0)
    with world(tmp_path) as made:
        enabled = {"errors.deadletterqueue.group.enable": "true"}
        asyncio.run(
            create_topics(made.broker, [NewTopic("orders", 1), NewTopic("dlq.team", 1, configs=enabled)])
        )

        def run(test: Test, settings: dict[str, str] | None = None) -> None:
            async def body() -> None:
                await test(Scene(made, settings))

            asyncio.run(body())

        yield run


def test_letters_are_written_before_the_state(play: Play) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        await scene.reject(partition, 0, 3)
        assert scene.events == [LETTER] * 4 + [STATE]
        assert scene.start_offset() == 4

    play(test)


def test_a_partition_was_fetched_once_it_has_a_start_offset(play: Play) -> None:
    async def test(scene: Scene) -> None:
        assert not scene.partitions.was_fetched(scene.key)
        await scene.partitions.open(scene.key)
        assert scene.partitions.was_fetched(scene.key)
        scene.partitions.forget(scene.key)
        assert scene.partitions.was_fetched(scene.key)

    play(test)


def test_a_partition_that_is_not_there_has_kafkas_error(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(scene: Scene) -> None:
        key = scene.key

        def code(unknown: ShareKey) -> ErrorCode:
            with pytest.raises(KafkaError) as refused:
                scene.partitions.log_of(unknown)
            return refused.value.code

        assert scene.partitions.log_of(key).index == key.partition
        assert code(key._replace(topic_id=b"x" * 16)) is ErrorCode.UNKNOWN_TOPIC_ID
        assert code(key._replace(partition=1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        monkeypatch.setattr(scene.broker, "is_online", lambda _: False)
        assert code(key) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(test)


def test_a_letter_that_fails_is_written_later_and_its_record_is_not_final_before(play: Play) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        scene.left_to_fail = 3
        await scene.reject(partition, 0, 3)
        assert (scene.events, scene.start_offset()) == ([], 0)
        assert scene.failures("storage") == 1
        await scene.until(lambda: scene.waiting() == 4)
        assert scene.partitions.letter_counts.written_of("team") == {"orders": 0}
        await scene.until(lambda: scene.start_offset() == 4)
        assert (scene.failures("storage"), scene.failures("unusable_topic")) == (3, 0)
        assert scene.partitions.letter_counts.written_of("team") == {"orders": 4}
        await scene.until(lambda: scene.waiting() == 0)
        assert scene.events == [LETTER] * 4 + [STATE]
        assert set(scene.freed) == {scene.key}

    play(test)


def test_letters_of_a_group_begin_at_0_for_each_topic_of_its_members(play: Play) -> None:
    """Also if the dead-letter topic was configured after the partition had been loaded."""

    async def test(scene: Scene) -> None:
        assert scene.partitions.letters_of("team", ["orders", "new"]) == {"orders": 0, "new": 0}
        assert scene.partitions.letters_of("without", ["orders"]) == {}
        await scene.reject(await scene.taken(), 0, 3)
        assert scene.partitions.letters_of("team", ["orders", "new"]) == {"orders": 4, "new": 0}
        assert scene.partitions.letters_of("team", []) == {"orders": 4}

    play(test)


def test_the_lag_of_a_group_counts_from_the_first_fetch_on(play: Play) -> None:
    """Tools show none until the group has finished a record, as in Kafka: a group whose members
    fail on the first one would else have no lag in any metric."""

    async def test(scene: Scene) -> None:
        shared = {
            scene.key.topic_id: SharedTopic("orders", frozenset({0, 1})),
            b"gone": SharedTopic("x", frozenset({0})),
        }

        def lags() -> tuple[int | None, dict[str, int]]:
            return scene.partitions.lag(scene.key), scene.partitions.lags_of("team", shared)

        assert lags() == (None, {}), "no member has fetched"
        partition = await scene.taken()
        slot = scene.partitions.log_of(scene.key).slot
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 12
        assert lags() == (None, {"orders": 12}), "no record is finished"
        await scene.end(partition, AcknowledgeType.ACCEPT, 2, 4)
        assert lags() == (9, {"orders": 9})
        await scene.end(partition, AcknowledgeType.ACCEPT, 0, 1)
        assert lags() == (7, {"orders": 7})
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 3
        assert lags() == (-2, {"orders": 0}), "the offset was set beyond the end"

    play(test)


def test_letters_that_were_written_are_not_written_again(play: Play) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        batches = [AcknowledgedBatch(first, first, [AcknowledgeType.REJECT]) for first in range(0, 6, 2)]
        partition.acknowledge("a", batches, scene.partitions.limits("team"), 0)
        write = scene.partitions._dead_letters.write

        async def second_fails(key: ShareKey, dead: Any) -> None:
            scene.left_to_fail = dead.first == 2 and scene.events == [LETTER]
            await write(key, dead)

        scene.partitions._dead_letters.write = second_fails  # type: ignore[method-assign]
        await scene.partitions.settle(scene.key, partition)
        await scene.until(lambda: scene.events.count(LETTER) == 3)
        await scene.until(lambda: scene.events[-1] == STATE)
        assert scene.events == [LETTER, STATE, LETTER, LETTER, STATE]

    play(test)


def test_a_partition_that_is_no_longer_in_use_writes_nothing(play: Play) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        scene.left_to_fail = 1
        await scene.reject(partition, 0, 3)
        scene.partitions.forget(scene.key)
        again = await scene.partitions.open(scene.key)
        for _ in range(50):
            await asyncio.sleep(0)
        assert scene.events == []
        assert (scene.failures("storage"), scene.waiting()) == (1, 0)
        assert (again.next_offset(), scene.start_offset()) == (0, 0)

    play(test)


def test_locks_that_end_for_the_last_time_lead_to_letters(play: Play) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        limits = scene.partitions.limits("team")
        for _ in range(limits.delivery_count - 1):
            partition.release("a", limits, 0)
            while partition.acquire("a", [(0, 9)], Spec(10), limits, 0):
                pass
        scene.partitions._expire(scene.key, partition)
        await scene.until(lambda: scene.start_offset() == 10)
        assert scene.events.count(LETTER) == 10
        assert scene.events[-1] == STATE

    play(test)


NO_LETTERS = {"share.record.lock.duration.ms": "15000"}


@pytest.mark.parametrize("kind", [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT])
def test_records_whose_state_is_not_written_are_held_until_the_lock_ends(
    play: Play, kind: AcknowledgeType
) -> None:
    """As in Kafka: not given again at once, with a count that begins again, while a disk is
    full."""

    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        scene.state_fails = True
        with pytest.raises(KafkaError) as refused:
            await scene.end(partition, kind, 0, 3)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await scene.partitions.open(scene.key) is partition
        assert (partition.start_offset, partition.next_offset(), partition.in_flight()) == (0, 10, 10)
        scene.state_fails = False
        await scene.end(partition, AcknowledgeType.ACCEPT, 0, 3)
        assert scene.start_offset() == 4
        late_ms = monotonic_ms() + 60_000
        partition.expire(scene.partitions.limits("team"), late_ms)
        given = partition.acquire("b", [(0, 9)], Spec(10), scene.partitions.limits("team"), late_ms)
        assert [(each.first, each.last, each.delivery_count) for each in given] == [(4, 9, 2)]

    play(test, NO_LETTERS)


def test_a_release_that_cannot_be_written_now_raises_no_error(play: Play) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        scene.state_fails = True
        assert partition.release("a", scene.partitions.limits("team"), monotonic_ms())
        await scene.partitions.settle_later(scene.key, partition)
        assert (scene.freed, scene.events) == ([scene.key], [])

    play(test)


def test_a_delivery_that_another_member_ended_meanwhile_stays_ended(play: Play) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        limits, now_ms = scene.partitions.limits("team"), monotonic_ms()
        partition.acknowledge("a", [AcknowledgedBatch(2, 4, [AcknowledgeType.RELEASE])], limits, now_ms)
        partition.acknowledge("a", [AcknowledgedBatch(0, 1, [AcknowledgeType.ACCEPT])], limits, now_ms)
        ended, changes = partition.take_ended(), partition.take_changes()
        assert changes is not None
        partition.acquire("b", [(0, 9)], Spec(1), limits, now_ms)  # 2 to 4, released together
        partition.acknowledge("b", [AcknowledgedBatch(2, 4, [AcknowledgeType.ACCEPT])], limits, now_ms)
        partition.acknowledge("a", [AcknowledgedBatch(5, 6, [AcknowledgeType.ACCEPT])], limits, now_ms)
        assert partition.start_offset == 7
        partition.roll_back(ended, changes[1])
        assert (partition.start_offset, partition.in_flight()) == (0, 5)  # 0, 1 and 7 to 9
        partition.acknowledge("a", [AcknowledgedBatch(0, 1, [AcknowledgeType.ACCEPT])], limits, now_ms)
        assert partition.start_offset == 7

    play(test, NO_LETTERS)


def test_a_rejection_that_is_not_written_has_no_dead_letter(play: Play) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        scene.state_fails = True
        limits, now_ms = scene.partitions.limits("team"), monotonic_ms()
        rejected = AcknowledgedBatch(0, 1, [AcknowledgeType.REJECT])
        partition.acknowledge(
            "a", [rejected, AcknowledgedBatch(2, 3, [AcknowledgeType.ACCEPT])], limits, now_ms
        )
        with pytest.raises(KafkaError):
            await scene.partitions.settle(scene.key, partition)
        scene.state_fails = False
        assert (partition.has_dead, partition.in_flight()) == (False, 10)
        await scene.reject(partition, 0, 1)
        assert (scene.events.count(LETTER), scene.events[-1]) == (2, STATE)

    play(test)


def test_only_partitions_without_a_state_get_one(play: Play) -> None:
    async def test(scene: Scene) -> None:
        topic = scene.key.topic_id
        topics = {
            topic: SharedTopic("orders", frozenset({0, 1})),
            bytes(16): SharedTopic("gone", frozenset({0})),
        }
        await scene.partitions.initialize("team", 2, topics)
        assert {key.partition for key in scene.shard.keys_of("team") if key.topic_id == topic} == {0, 1}
        assert len(scene.shard.keys_of("team")) == 2, "none of a topic that is deleted"
        assert scene.partitions.start_offset(scene.key) == -1
        partition = await scene.partitions.open(scene.key)
        assert (partition.start_offset, scene.start_offset()) == (0, 0)
        scene.events.clear()
        await scene.partitions.initialize("team", 2, topics)
        assert not scene.events

    play(test)


def test_records_that_are_finished_meanwhile_do_not_undo_a_new_start_offset(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(scene: Scene) -> None:
        partition = await scene.taken()
        run, late = scene.run, [partition]

        async def and_then_finish(name: str, operation: Operation) -> None:
            await run(name, operation)
            if late:
                await scene.end(late.pop(), AcknowledgeType.ACCEPT, 0, 9)

        monkeypatch.setattr(scene, "run", and_then_finish)
        await scene.partitions.restart_at(scene.key, 2)
        assert not late
        assert scene.start_offset() == 2

    play(test)


def test_states_of_a_group_are_not_deleted_while_some_are_being_loaded(play: Play) -> None:
    """Those that are not loaded yet would stay."""

    async def test(scene: Scene) -> None:
        await scene.partitions.open(scene.key)
        scene.is_loading = True
        for deletion in (scene.partitions.delete_group("team"), scene.partitions.delete(scene.key)):
            with pytest.raises(KafkaError):
                await deletion
        assert scene.shard.keys_of("team") == [scene.key]
        scene.is_loading = False
        await scene.partitions.delete_group("team")
        assert not scene.shard.keys_of("team")

    play(test)


def test_a_group_of_which_no_state_is_loaded_yet_is_not_deleted(play: Play) -> None:
    """Its states may be in the partitions that are still being loaded."""

    async def test(scene: Scene) -> None:
        scene.is_loading = True
        with pytest.raises(KafkaError) as refused:
            await scene.partitions.delete_group("team")
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(test)


def test_a_state_that_is_being_loaded_is_not_available(play: Play) -> None:
    """Its last records may be those that a power cut takes back."""

    async def test(scene: Scene) -> None:
        await create_topics(scene.broker, [NewTopic(SHARE_GROUP_STATE, 1)])
        await scene.partitions.open(scene.key)
        scene.partitions.forget(scene.key)
        scene.is_loading = True
        reads: list[Callable[[ShareKey], object]] = [
            scene.partitions.start_offset,
            scene.partitions.was_fetched,
        ]
        for read in reads:
            with pytest.raises(KafkaError) as refused:
                read(scene.key)
            assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        with pytest.raises(KafkaError) as refused:
            await scene.partitions.open(scene.key)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        scene.is_loading = False
        assert [read(scene.key) for read in reads] == [-1, True]

    play(test)
