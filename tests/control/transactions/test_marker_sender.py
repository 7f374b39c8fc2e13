"""Orders of markers: carried out without tasks where nothing goes wrong, given up at once, waited
for in turn."""

import asyncio
from functools import partial

import pytest

from kbroker.control.transactions import marker_sender
from kbroker.control.transactions.marker_sender import MarkerSender, PendingMarkers
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.ipc.layout import AppendEntry
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import read_batches, read_records
from tests.control.transactions.marker_scene import A, Appends, B, C, Scene, run, until


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "RETRY_S", 0.001)


def test_markers_that_are_written_at_once_need_no_task() -> None:
    async def test(scene: Scene) -> None:
        tasks = len(asyncio.all_tasks())
        scene.send(A, B)
        assert scene.writer.end() == A
        assert (scene.written, scene.completions) == ([A], [])
        assert scene.writer.end() == B
        (reported,) = scene.completions
        assert scene.sender.is_busy("t")
        reported(ErrorCode.NONE)
        assert not scene.sender.is_busy("t")
        assert len(asyncio.all_tasks()) == tasks

    run(test)


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    async def test(scene: Scene) -> None:
        scene.send()
        assert len(scene.completions) == 1

    run(test)


def test_a_waiting_marker_does_not_delay_others() -> None:
    async def test(scene: Scene) -> None:
        scene.writer.late.add(A)
        scene.send(A, B)
        assert scene.writer.end() == B
        await until(lambda: scene.writer.markers)
        assert not scene.completions
        assert scene.writer.end() == A
        await until(lambda: scene.completions)

    run(test)


def test_a_failed_completion_is_requested_again() -> None:
    async def test(scene: Scene) -> None:
        scene.send(A)
        scene.writer.end()
        scene.completions.pop()(ErrorCode.REQUEST_TIMED_OUT)
        assert scene.sender.is_busy("t")
        await until(lambda: scene.completions)
        scene.completions.pop()(ErrorCode.NONE)
        assert not scene.sender.is_busy("t")

    run(test)


def test_an_order_that_was_given_up_does_nothing_more() -> None:
    async def test(scene: Scene) -> None:
        scene.writer.late.add(B)
        scene.send(A, B)
        await until(lambda: len(scene.writer.markers) == 2)
        went_on: list[int] = []
        scene.sender.when_settled("t", 10_000, lambda: went_on.append(1))
        scene.sender.forget("t")
        assert went_on == [1]
        scene.writer.end(ErrorCode.KAFKA_STORAGE_ERROR)
        await asyncio.sleep(0.01)
        assert (scene.written, scene.completions) == ([], [])
        assert not scene.sender.is_busy("t")

    run(test)


def test_an_order_that_was_given_up_neither_counts_nor_repeats_what_comes_later() -> None:
    async def test(scene: Scene) -> None:
        tasks = len(asyncio.all_tasks())
        scene.writer.late.add(C)
        scene.send(A, B, C)
        await until(lambda: len(scene.writer.markers) == 3)
        scene.sender.forget("t")
        scene.writer.end()
        scene.writer.end(ErrorCode.KAFKA_STORAGE_ERROR)
        await asyncio.sleep(0.01)
        await until(lambda: len(asyncio.all_tasks()) == tasks)
        assert scene.written == []
        assert len(scene.writer.markers) == 1

    run(test)


def test_the_late_end_of_an_older_order_does_not_end_the_newer_one() -> None:
    async def test(scene: Scene) -> None:
        scene.send(A)
        scene.writer.end()
        scene.send(B)
        scene.completions.pop()(ErrorCode.NONE)
        assert scene.sender.is_busy("t")
        scene.writer.end()
        scene.completions.pop()(ErrorCode.NONE)
        assert not scene.sender.is_busy("t")

    run(test)


@pytest.mark.parametrize(
    ("failure", "settled"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, True),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, False),
        (ErrorCode.KAFKA_STORAGE_ERROR, False),
    ],
)
def test_a_marker_that_is_no_longer_due_is_not_tried_again(failure: ErrorCode, settled: bool) -> None:
    async def test(scene: Scene) -> None:
        scene.send(A)
        scene.writer.end(failure)
        assert bool(scene.completions) is settled
        assert scene.writer.found == [A] * (failure is ErrorCode.INVALID_PRODUCER_EPOCH)
        if not settled:
            await until(lambda: scene.writer.markers)
            scene.writer.end()
            await until(lambda: scene.completions)
        assert not scene.writer.markers

    run(test)


def test_the_pause_between_attempts_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition may be offline for days, and each attempt logs a line."""
    monkeypatch.setattr(marker_sender, "MAX_RETRY_S", 0.004)
    pauses: list[float] = []

    async def test(scene: Scene) -> None:
        async def write_late(pending: PendingMarkers, where: TopicPartition, delay_s: float) -> None:
            pauses.append(delay_s)
            if len(pauses) < 5:
                failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
                scene.sender._append_ended(pending, where, failure)

        monkeypatch.setattr(scene.sender, "_write_late", write_late)
        scene.send(A, B)
        scene.writer.end(ErrorCode.KAFKA_STORAGE_ERROR)
        await until(lambda: len(pauses) == 5)
        scene.writer.end(ErrorCode.KAFKA_STORAGE_ERROR)
        await until(lambda: len(pauses) == 6)
        assert pauses == [0.001, 0.002, 0.004, 0.004, 0.004, 0.001]

    run(test)


@pytest.mark.parametrize(("version", "base"), [(1, 0), (2, AppendEntry.MARKER_WITH_NEW_EPOCH)])
@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_says_how_its_transaction_ends_and_whether_its_epoch_is_a_new_one(
    version: int, base: int, commit: bool
) -> None:
    """Version 2 of transactions: a marker of the epoch that the producer had is a late one."""
    appends = Appends()
    appends.write("a", commit, version)
    (data,) = appends.batches
    (batch,) = read_batches(data)
    assert (batch.base_offset, batch.producer_id, batch.producer_epoch) == (base, 7, 3)
    (record,) = read_records(batch)
    assert record.key == bytes((0, 0, 0, commit))
    assert record.value == bytes((0, 0, 0, 0, 0, 4))


def test_the_group_coordinator_hears_of_markers_that_are_in_the_log() -> None:
    appends = Appends()
    for topic in ("offsets", "offsets", "a"):
        appends.write(topic, index=2)
    for done, failure in zip(
        appends.done, (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), None, None), strict=True
    ):
        done(failure)
    assert appends.ended == [(2, 7, True)]


def test_the_group_coordinator_hears_of_a_marker_whose_append_got_no_answer() -> None:
    """An IO worker died after it had written the marker. The retry was refused, because the log has
    the new epoch, and the offsets of the transaction stayed pending."""
    appends = Appends()
    order = MarkerOrder("t", 7, 3, 4, True, frozenset((("offsets", 2), A)), 2)

    async def test() -> None:
        sender = MarkerSender(appends.writer, lambda *_: None, lambda *_: None)
        sender.send(order)
        for done in appends.done:
            done(KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH))

    asyncio.run(test())
    assert appends.ended == [(2, 7, True)]


def test_a_marker_waits_for_commits_and_has_no_partition_to_go_to() -> None:
    appends = Appends()
    assert appends.write("offsets", index=9) == ["later"]
    assert appends.write("a", index=9) == []
    (error,) = appends.write("gone")
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(appends.batches) == 1


def test_a_marker_of_a_request_does_not_wait_for_a_partition_that_is_not_loaded() -> None:
    """An offsets partition that cannot be read is never loaded: the request had no answer."""
    appends = Appends()

    async def test() -> None:
        with pytest.raises(KafkaError) as refused:
            await asyncio.wait_for(appends.writer.write(("offsets", 9), 7, 3, 4, True, 2), 60)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        writing = asyncio.ensure_future(appends.writer.write(("offsets", 2), 7, 3, 4, True, 2))
        await until(lambda: appends.done)
        appends.done[0](None)
        await writing

    asyncio.run(test())
    assert (len(appends.batches), appends.ended) == (1, [(2, 7, True)])


def test_a_newer_order_of_the_id_takes_the_place_of_the_older_one() -> None:
    async def test(scene: Scene) -> None:
        scene.send(A)
        scene.send(B)
        assert scene.writer.end() == A
        assert not scene.completions
        assert scene.writer.end() == B
        assert len(scene.completions) == 1

    run(test)


def test_waiting_operations_continue_in_order_and_time_out() -> None:
    async def test(scene: Scene) -> None:
        scene.send(A)
        went_on: list[str] = []
        scene.sender.when_settled("t", 10_000, lambda: went_on.append("first"))
        scene.sender.when_settled("t", 1, lambda: went_on.append("impatient"))
        scene.sender.when_settled("t", 10_000, lambda: went_on.append("last"))
        scene.sender.when_settled("other", 10_000, lambda: went_on.append("at once"))
        await until(lambda: len(went_on) == 2)
        scene.writer.end()
        scene.completions.pop()(ErrorCode.NONE)
        assert went_on == ["at once", "impatient", "first", "last"]

    run(test)


def test_operations_that_have_timed_out_are_forgotten() -> None:
    """A partition may be offline for days, and its producers retry all the time."""

    async def test(scene: Scene) -> None:
        scene.send(A)
        went_on: list[int] = []
        for number in range(3):
            scene.sender.when_settled("t", 1, partial(went_on.append, number))
        scene.sender.when_settled("t", 10_000, partial(went_on.append, 3))
        await until(lambda: len(went_on) == 3)
        assert len(scene.sender._orders["t"].waiting) == 1
        scene.sender.forget("t")
        assert sorted(went_on) == [0, 1, 2, 3]

    run(test)


def test_a_failure_of_our_own_frees_the_id(caplog: pytest.LogCaptureFixture) -> None:
    async def test(scene: Scene) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("no")

        scene.sender._written = broken
        scene.send(A, B)
        scene.writer.end()
        assert not scene.sender.is_busy("t")
        assert "markers of t failed" in caplog.text

    run(test)
