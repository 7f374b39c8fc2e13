"""Logs of coordinators in a folder, their replay, and the state after it, for tests."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kbroker.control.coordinator.log_windows import LogWindows
from kbroker.control.coordinator.machine import Machine, Record
from kbroker.control.coordinator.replay import Replay
from kbroker.control.groups.shard import GroupShard
from kbroker.log import files
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.walk import walk
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import ControlType, build_batch, build_control_batch

Pair = tuple[bytes | None, bytes | None]
NONE: frozenset[int] = frozenset()
PARTITION = 1
"""It is not loaded: partition 0 of the coordinators of the tests is."""


def pair(record: Record) -> Pair:
    return record.key, record.value


def batch(
    records: Sequence[Pair], producer: int = -1, codec: Codec = Codec.NONE, header: bool = False
) -> bytes:
    return build_batch(
        [(key, value, (("h", b""),) if header else (), 1000) for key, value in records],
        producer=(producer, 0, -1),
        codec=codec,
        transactional=producer >= 0,
    )


def marker(producer: int, commit: bool) -> bytes:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    return build_control_batch(
        kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )


def numbered(data: Sequence[bytes]) -> bytes:
    """Batches with rising offsets."""
    return b"".join((10 * number).to_bytes(8) + each[8:] for number, each in enumerate(data))


def segment(folder: Path, data: bytes) -> None:
    Path(files.path(str(folder), 0, files.LOG)).write_bytes(data)


def loaded(
    folder: Path, machine: Machine, types: frozenset[int], rows: int, max_bytes: int
) -> tuple[int, int]:
    """(records, items) of a load of the folder's log into a machine."""
    reader, replay = LogReader(str(folder), OpenFiles()), Replay(machine, PARTITION, "t-1")
    records = items = 0
    for window in LogWindows(types, rows, max_bytes).read(reader, 0, *WHOLE_LOG):
        for item in window.items():
            items += 1
            replay.take(window, item)
        records += window.records
    return records + replay.decoded, items


def decoded(folder: Path, machine: Machine) -> int:
    """Loads the folder's log into a machine without a kernel; the number of records."""
    replay = Replay(machine, PARTITION, "t-1")
    for placed in walk(LogReader(str(folder), OpenFiles())):
        replay.decode(placed.batch)
    return replay.decoded


def state_of_groups(shard: GroupShard) -> list[Any]:
    """Everything that clients can learn of groups. Their order may differ after odd records."""
    kinds: dict[str, Callable[[str], Any]] = {
        "consumer": shard.describe_consumer_group,
        "share": shard.describe_share_group,
        "streams": shard.describe_streams_group,
    }
    table = shard.table
    return [
        [
            (each, group.TYPE, kinds.get(group.TYPE, lambda name: shard.describe(name, 5))(each))
            for each, group in sorted(table.groups.items())
        ],
        [getattr(group, "generation_id", None) for _, group in sorted(table.groups.items())],
        [
            (each, table.offsets.of_group(each), sorted(table.offsets.pending_partitions(each)))
            for each in ("g", "h", "empty")
        ],
        sorted(shard._replay.groups_of(PARTITION)),
    ]


def plain(value: Any) -> Any:
    """Everything that an object holds, as values that can be compared."""
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, set | frozenset):
        return frozenset(plain(each) for each in value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [*slots, *getattr(value, "__dict__", ())]
    if isinstance(value, str | int | bytes | None) or not names:
        return value if isinstance(value, str | int | float | bytes | None) else type(value).__name__
    return type(value).__name__, {name: plain(getattr(value, name, None)) for name in names}
