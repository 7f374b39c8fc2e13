"""Reading logs beside control's loop: every step has its answer, in order, whatever others find."""

import asyncio
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.links import log_reading
from kbroker.control.links.log_reading import LogReading, LogReadings
from kbroker.log import files
from kbroker.log.reader import LogReader
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.callbacks import slowness


class Errors:
    """Stands in for LogDirErrors: keeps what is reported."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, Exception]] = []

    def report(self, folder: str, error: Exception) -> None:
        self.reported.append((folder, error))


def reading() -> tuple[LogReading, Errors]:
    errors = Errors()
    return LogReading(errors), errors


def _number(number: int, _: LogReader) -> int:
    return number


def test_steps_are_answered_in_order_by_few_calls_of_the_loop(tmp_path: Path) -> None:
    async def test() -> None:
        logs, _ = reading()
        reported: list[int] = []
        turns = 0
        searches = logs._searches
        call_back = searches._call_back

        def counted(results: Any) -> None:
            nonlocal turns
            turns += 1
            call_back(results)

        searches._call_back = counted  # type: ignore[method-assign]
        for number in range(100):
            logs.search(str(tmp_path), partial(_number, number), reported.append)
        while len(reported) < 100:
            await asyncio.sleep(0.001)
        assert reported == list(range(100))
        assert turns < 50
        assert await logs.read(str(tmp_path), lambda _: "later") == "later"
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_the_loop_continues_while_a_step_reads_and_the_thread_takes_later_requests(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        logs, _ = reading()
        may_end = threading.Event()
        slow = asyncio.ensure_future(logs.read(str(tmp_path), lambda _: may_end.wait(60)))
        await asyncio.sleep(0)
        quick = asyncio.ensure_future(logs.read(str(tmp_path), lambda _: "quick"))
        await asyncio.sleep(0.01)
        assert not slow.done()
        may_end.set()
        assert await slow is True
        assert await quick == "quick"
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_read_does_not_wait_for_a_search(tmp_path: Path) -> None:
    """A search by time may decompress a gigabyte, while coordinators are loaded."""

    async def test() -> None:
        logs, _ = reading()
        may_end = threading.Event()
        slow = asyncio.ensure_future(logs.find(str(tmp_path), lambda _: may_end.wait(60)))
        await asyncio.sleep(0)
        assert await logs.read(str(tmp_path), lambda _: "read") == "read"
        assert not slow.done()
        may_end.set()
        assert await slow is True
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_log_that_can_not_be_read_is_a_storage_error_and_others_are_read(tmp_path: Path) -> None:
    async def test() -> None:
        logs, errors = reading()

        def missing(reader: LogReader) -> list[int]:
            return reader.base_offsets()

        with pytest.raises(KafkaError) as refused:
            await logs.read(str(tmp_path / "gone"), missing)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert [folder for folder, _ in errors.reported] == [str(tmp_path / "gone")]
        with pytest.raises(KafkaError) as failed:
            await logs.read(str(tmp_path), lambda _: 1 // 0)
        assert failed.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert await logs.read(str(tmp_path), missing) == []
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_finding_does_not_wait_for_many_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reading, "DELIVER_AFTER_S", 0.0)

    async def test() -> None:
        logs, _ = reading()
        first, second = threading.Event(), threading.Event()
        one = asyncio.ensure_future(logs.read(str(tmp_path), lambda _: first.wait(60)))
        two = asyncio.ensure_future(logs.read(str(tmp_path), lambda _: second.wait(60)))
        await asyncio.sleep(0)
        first.set()
        assert await one is True
        assert not two.done()
        second.set()
        assert await two is True
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def _keep(kept: list[tuple[str, LogReader]], name: str, reader: LogReader) -> None:
    kept.append((name, reader))


def test_requests_with_many_searches_take_turns_with_others(tmp_path: Path) -> None:
    """A ListOffsets by time of thousands of partitions delayed all others until its end."""

    async def test() -> None:
        logs, _ = reading()
        may_begin = threading.Event()
        kept: list[tuple[str, LogReader]] = []
        logs.search(str(tmp_path), lambda _: may_begin.wait(10), lambda _: None)
        for name in ("a0", "a1", "a2", "b0", "b1"):
            logs.search(str(tmp_path), partial(_keep, kept, name), lambda _: None, name[0])
        single = asyncio.ensure_future(logs.find(str(tmp_path), partial(_keep, kept, "c")))
        await asyncio.sleep(0)
        may_begin.set()
        await single
        while len(kept) < 6:
            await asyncio.sleep(0.001)
        assert [name for name, _ in kept] == ["a0", "b0", "c", "a1", "b1", "a2"]
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 20))


def test_very_many_pending_steps_are_taken_quickly() -> None:
    """Each was found after the places of all that had been taken before: 2 s for these."""
    logs, _ = reading()
    jobs = logs._reads._jobs
    for number in range(50_000):
        jobs.put((partial(int, number), lambda _: None))
    began = time.thread_time()
    taken = [jobs.take()[0]() for _ in range(50_000)]
    assert time.thread_time() - began < 0.5 * slowness()
    assert taken == list(range(50_000))
    assert not jobs
    logs.close()


def test_a_folder_is_forgotten_after_the_searches_before_and_before_later_ones(tmp_path: Path) -> None:
    async def test() -> None:
        logs, _ = reading()
        may_begin = threading.Event()
        kept: list[tuple[str, LogReader]] = []
        logs.search(str(tmp_path), lambda _: may_begin.wait(10), lambda _: None)
        for _n in range(2):
            logs.search(str(tmp_path), partial(_keep, kept, "before"), lambda _: None, "a")
        forgotten = asyncio.ensure_future(logs.forget([str(tmp_path)]))
        for _n in range(3):
            await asyncio.sleep(0)
        later = asyncio.ensure_future(logs.find(str(tmp_path), partial(_keep, kept, "later")))
        await asyncio.sleep(0)
        may_begin.set()
        await asyncio.gather(forgotten, later)
        assert [name for name, _ in kept] == ["before", "before", "later"]
        assert kept[0][1] is kept[1][1]
        assert kept[2][1] is not kept[0][1]
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 20))


def test_a_deletion_does_not_wait_for_long_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds up all other changes of topics."""
    monkeypatch.setattr(log_reading, "FORGET_S", 0.01)

    async def test() -> None:
        logs, _ = reading()
        may_end = threading.Event()
        before = await logs.find(str(tmp_path), lambda reader: reader)
        slow = asyncio.ensure_future(logs.find(str(tmp_path / "other"), lambda _: may_end.wait(10)))
        await asyncio.sleep(0)
        await logs.forget([str(tmp_path)])
        assert not slow.done()
        later = asyncio.ensure_future(logs.find(str(tmp_path), lambda reader: reader))
        may_end.set()
        assert await slow is True
        assert await later is not before
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 20))


def test_a_forgotten_folder_has_a_new_reader(tmp_path: Path) -> None:
    async def test() -> None:
        logs, _ = reading()
        before = await logs.read(str(tmp_path), lambda reader: reader)
        searching = await logs.find(str(tmp_path), lambda reader: reader)
        assert searching is not before
        assert await logs.read(str(tmp_path), lambda reader: reader) is before
        assert await logs.find(str(tmp_path), lambda reader: reader) is searching
        await logs.forget([str(tmp_path)])
        assert await logs.read(str(tmp_path), lambda reader: reader) is not before
        assert await logs.find(str(tmp_path), lambda reader: reader) is not searching
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_refusal_of_a_step_is_its_answer(tmp_path: Path) -> None:
    async def test() -> None:
        logs, errors = reading()

        def refuse(_: LogReader) -> int:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)

        with pytest.raises(KafkaError) as refused:
            await logs.read(str(tmp_path), refuse)
        assert (refused.value.code, errors.reported) == (ErrorCode.OFFSET_OUT_OF_RANGE, [])
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_an_answer_that_is_not_taken_does_not_stop_the_next(tmp_path: Path) -> None:
    async def test() -> None:
        logs, _ = reading()

        def fail(_: object) -> None:
            raise ValueError("a bug")

        logs.search(str(tmp_path), partial(_number, 1), fail)
        assert await logs.find(str(tmp_path), partial(_number, 2)) == 2
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_the_reader_of_a_folder_is_kept_until_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_reading, "MAX_READERS", 2)

    async def test() -> None:
        logs, _ = reading()
        for name in "ab":
            await logs.read(name, partial(_number, 1))
        await logs.read("a", partial(_number, 1))
        assert list(logs._reads._readers) == ["a", "b"]
        await logs.read("c", partial(_number, 1))
        assert list(logs._reads._readers) == ["b", "c"]
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_files_of_deleted_segments_are_closed_without_a_further_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would take their space on the disk until control restarts."""
    monkeypatch.setattr(log_reading, "CHECK_S", 0.001)
    for base in (0, 5):
        Path(files.path(str(tmp_path), base, files.LOG)).touch()

    def open_both(reader: LogReader) -> None:
        for base in (0, 5):
            reader.open_files.get(reader.folder, base, files.LOG)

    async def test() -> None:
        logs, _ = reading()
        await logs.read(str(tmp_path), open_both)
        opened = logs._reads._files
        assert opened.statistics() == (2, 2)
        Path(files.path(str(tmp_path), 0, files.LOG)).unlink()
        while opened.statistics() != (1, 1):
            await asyncio.sleep(0.001)
        assert [base for _, base, _ in list(opened._files)] == [5]
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_disk_that_hangs_holds_up_no_reads_and_searches_in_other_log_dirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coordinators of all partitions waited for the one thread that read from it."""
    monkeypatch.setattr(log_reading, "FORGET_S", 0.01)

    async def test() -> None:
        logs = LogReadings(Errors(), 2)
        may_end = threading.Event()
        hanging = [
            asyncio.ensure_future(ask(str(tmp_path / "a" / "t-0"), lambda _: may_end.wait(60)))
            for ask in (logs.read, logs.find)
        ]
        await asyncio.sleep(0)
        other = str(tmp_path / "b" / "t-0")
        before = await logs.read(other, lambda reader: reader)
        assert await logs.find(other, lambda _: "found") == "found"
        kept: list[str] = []
        logs.search(other, lambda _: "searched", kept.append)
        while not kept:
            await asyncio.sleep(0.001)
        await logs.forget([str(tmp_path / "a" / "t-0"), other, str(tmp_path / "c" / "t-0")])
        assert await logs.read(other, lambda reader: reader) is not before
        assert not any(each.done() for each in hanging)
        may_end.set()
        assert await asyncio.gather(*hanging) == [True, True]
        logs.close()

    asyncio.run(asyncio.wait_for(test(), 60))
