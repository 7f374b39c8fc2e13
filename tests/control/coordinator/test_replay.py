"""Odd records of a coordinator's log are left out, with few lines; the rest is loaded."""

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.control.coordinator.replay import MAX_LINES
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot
from kbroker.protocol.records import NewRecord
from kbroker.protocol.schema import ProtocolError
from tests.control.coordinator.runtime_scene import TOPIC, Log, Machine, run
from tests.control.fakes import World
from tests.fuzz.odd_logs import groups_round, share_round, transactions_round

SEEDS = range(40)
UNTIL_SYNCED = (Slot.HIGH_WATERMARK, Slot.LAST_STABLE, Slot.DURABLE, Slot.HW_POSITION)
"""Words of a slot that a log with write.caching=false advances after a sync."""


class Picky(Machine):
    """Does not understand the key b"odd", fails on b"bug", and cannot begin with partition 2."""

    def replay(self, partition: int, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        if key == b"odd":
            raise ProtocolError("odd")
        if key == b"bug":
            raise ValueError("bug")
        super().replay(partition, key, value, timestamp_ms)

    def loaded(self, partition: int, now_ms: int) -> None:
        super().loaded(partition, now_ms)
        if partition == 2:
            raise ValueError("not every timer")


def loaded(folder: Path, fill: Callable[[World, Partition], None], serves: bool = True) -> Picky:
    """A machine that has replayed what `fill` wrote into partition 1. serves: whether the partition
    counts as loaded."""
    machine = Picky()

    async def test(runtime: Runtime, _: Machine, log: Log, made: World) -> None:
        fill(made, made.broker.catalogue.topics[TOPIC].partitions[1])
        successor = Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
        successor.attach(machine)
        await successor.load()
        assert successor.loaded == {0, 2, 3} | ({1} if serves else set())

    run(folder, test)
    return machine


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "skipped" in each.getMessage()]


def record(key: bytes | None, value: bytes = b"") -> NewRecord:
    return key, value, (), 1000


def test_the_rest_of_the_log_is_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fill(made: World, partition: Partition) -> None:
        made.worker.append(partition, record(b"a"), record(None), record(b"odd"), record(b"b"))
        made.worker.append(partition, record(b"bug"), record(b"c"))

    with caplog.at_level(logging.WARNING):
        machine = loaded(tmp_path, fill)
    assert list(machine.state) == [b"a", b"b", b"c"]
    assert len(lines(caplog)) == 3
    assert sorted(machine.loads) == [0, 1, 2, 3]


def test_records_above_the_high_watermark_are_replayed(tmp_path: Path) -> None:
    """With write.caching=false, a disk that hangs holds the high watermark back. A predecessor's
    records become visible when it continues, and nothing would replay them then. Until then no
    answer is read from them."""

    def fill(made: World, partition: Partition) -> None:
        line = made.shared.slots[partition.slot]
        for key in (b"a", b"b"):
            made.worker.append(partition, record(key))
            if key == b"a":
                synced = {word: int(line[word]) for word in UNTIL_SYNCED}
        for word, value in synced.items():
            line[word] = value

    assert list(loaded(tmp_path, fill, serves=False).state) == [b"a", b"b"]


def test_nothing_of_a_log_is_visible_yet(tmp_path: Path) -> None:
    def fill(made: World, partition: Partition) -> None:
        line = made.shared.slots[partition.slot]
        synced = {word: int(line[word]) for word in UNTIL_SYNCED}
        made.worker.append(partition, record(b"a"))
        for word, value in synced.items():
            line[word] = value

    assert list(loaded(tmp_path, fill, serves=False).state) == [b"a"]


def test_many_odd_records_have_few_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fill(made: World, partition: Partition) -> None:
        made.worker.append(partition, *[record(b"odd")] * 1000, record(b"a"))

    with caplog.at_level(logging.WARNING):
        machine = loaded(tmp_path, fill)
    assert list(machine.state) == [b"a"]
    assert len(lines(caplog)) == MAX_LINES + 1
    assert f"{1000 - MAX_LINES} more" in lines(caplog)[-1]


def test_only_a_damaged_batch_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fill(made: World, partition: Partition) -> None:
        made.worker.append(partition, record(b"a"))
        made.worker.append(partition, record(b"damaged"))
        made.worker.append(partition, record(b"b"))
        (path,) = Path(partition.folder).glob("*.log")
        data = bytearray(path.read_bytes())
        at = data.index(b"damaged")
        data[at - 1] = 0x7E  # the length of the key
        path.write_bytes(data)

    with caplog.at_level(logging.WARNING):
        machine = loaded(tmp_path, fill)
    assert list(machine.state) == [b"a", b"b"]
    assert ["batch" in each for each in lines(caplog)] == [True]


@pytest.mark.parametrize("one", [groups_round, transactions_round, share_round])
def test_odd_logs_are_loaded_and_served(one: Callable[[random.Random], None]) -> None:
    for seed in SEEDS:
        one(random.Random(seed))
