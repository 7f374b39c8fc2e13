"""Small files that a start reads: each is read, or refused by the exceptions that its reader
declares."""

import random
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from kbroker.control.kraft import snapshot as kraft_snapshot
from kbroker.control.kraft.metadata_folder import UnreadableMetadata, fingerprint
from kbroker.control.metadata import kafka_metadata
from kbroker.io.files import meta_properties, producer_snapshot
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.recovery import loaded_log
from kbroker.io.recovery.loaded_log import NAME as CLOSED_NAME
from kbroker.io.recovery.loaded_log import VERSION as CLOSED_VERSION
from kbroker.kernels.crc32c import crc32c
from kbroker.log import boot_mark, checkpoint, files
from kbroker.log.checkpoint import CorruptCheckpoint
from kbroker.log.errors import CorruptLog
from kbroker.log.transaction_index import parse_entries
from tests.fuzz.guided.target import Mix, Run, Target

SNAPSHOT = struct.Struct(">hI")
METADATA_FOLDER = "__cluster_metadata-0"
Reader = Callable[[Path, bytes], object]


def _offsets(folder: Path, data: bytes) -> None:
    path = folder / "recovery-point-offset-checkpoint"
    path.write_bytes(data)
    checkpoint.entries(str(path))
    checkpoint.update_offsets(str(path), {("t", 0): 5})
    assert checkpoint.read_offsets(str(path))["t", 0] == 5


def _offsets_as_they_are(folder: Path, data: bytes) -> None:
    (folder / "offsets").write_bytes(data)
    for (_, partition), offset in checkpoint.read_offsets(str(folder / "offsets")).items():
        np.array([partition], np.int32)
        np.array([offset], np.int64)


def _leader_epochs(folder: Path, data: bytes) -> None:
    (folder / files.LEADER_EPOCH_CHECKPOINT).write_bytes(data)
    cache = LeaderEpochFileCache.load(str(folder))
    cache.end_offset_for(1, 100)
    cache.truncate_from_end(5)
    cache.truncate_from_start(2)
    assert list(cache.entries) == sorted(cache.entries)
    np.array([epoch for epoch, _ in cache.entries], np.int32)
    np.array([start for _, start in cache.entries], np.int64)


def _topic_id(folder: Path, data: bytes) -> None:
    (folder / files.PARTITION_METADATA).write_bytes(data)
    found = checkpoint.topic_id_of(str(folder))
    assert found is None or len(found) == 16


def _meta_properties(folder: Path, data: bytes) -> None:
    (folder / files.META_PROPERTIES).write_bytes(data)
    found = meta_properties.read(str(folder))
    if found is not None and found.cluster_id.isalnum() and found.directory_id.isalnum():
        meta_properties.write(str(folder), found)
        assert meta_properties.read(str(folder)) == found


def _snapshot(_: Path, data: bytes) -> None:
    for entry in producer_snapshot.decode(data):
        assert len(entry.batches) <= producer_snapshot.MAX_BATCHES
        assert entry.last_sequence >= -(1 << 31)


def _closed_logs(folder: Path, data: bytes) -> None:
    for closed in loaded_log.parse_closed(data).values():
        loaded_log.restore(closed, str(folder), b"\0" * 16, 0, 0, 0)


def _aborted(_: Path, data: bytes) -> None:
    parse_entries(data, "index")


def _boot_mark(folder: Path, data: bytes) -> None:
    (folder / files.BOOT_MARK).write_bytes(data)
    boot_mark.take(str(folder))


def _kraft(folder: Path, data: bytes) -> None:
    """The first byte says whether it is a snapshot or a segment."""
    inner = folder / METADATA_FOLDER
    inner.mkdir()
    name = kraft_snapshot.SnapshotId(9, 1).file_name if data[:1] == b"s" else f"{0:020d}.log"
    (inner / name).write_bytes(data[1:])
    fingerprint([str(folder)])
    kafka_metadata.read([str(folder)])


READERS: tuple[Reader, ...] = (
    _offsets,
    _offsets_as_they_are,
    _leader_epochs,
    _topic_id,
    _meta_properties,
    _snapshot,
    _closed_logs,
    _aborted,
    _boot_mark,
    _kraft,
)
DECLARED = (
    CorruptCheckpoint,
    CorruptLog,
    meta_properties.MetaPropertiesError,
    producer_snapshot.CorruptSnapshot,
    UnreadableMetadata,
)


def _prepare(folder: Path) -> Run:
    def run(data: bytes) -> None:
        if not data:
            return
        place = folder / "dir"
        place.mkdir()
        try:
            READERS[data[0] % len(READERS)](place, data[1:])
        except DECLARED:
            pass
        finally:
            _remove(place)

    return run


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            _remove(path)
        else:
            path.unlink()
    folder.rmdir()


def _snapshots() -> Iterable[bytes]:
    entry = producer_snapshot.ENTRY.pack(3, 0, 5, 10, 2, 1_700_000_000_000, -1, -1)
    earlier = producer_snapshot.MAGIC + producer_snapshot.EARLIER.pack(3, 0, 1, 2, 3, 4)
    for count, tail in ((0, b""), (1, b""), (2, b""), (1, earlier), (1, earlier + earlier[8:])):
        yield _resealed_snapshot(bytes(SNAPSHOT.size) + struct.pack(">i", count) + entry * count + tail)


def _resealed_snapshot(data: bytes) -> bytes:
    return SNAPSHOT.pack(1, crc32c(data[SNAPSHOT.size :])) + data[SNAPSHOT.size :]


def _resealed_closed(data: bytes) -> bytes:
    body = data.partition(b"\n")[2]
    return b"%s %s %08x\n" % (CLOSED_NAME, CLOSED_VERSION, crc32c(body)) + body


def _seeds(rng: random.Random) -> Iterable[bytes]:
    text = {
        _offsets: [b"0\n2\nt 0 17\na.b-c_d 3 9\n", b"0\n0\n", b"", b"1\n0\n", b"0\n1\nt 0\n"],
        _leader_epochs: [b"0\n3\n0 0\n2 5\n7 12\n", b"0\n2\n3 5\n1 2\n", b"0\n1\n-1 5\n"],
        _topic_id: [b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", b"version: 1\n"],
        _meta_properties: [
            b"#\n#Mon\ncluster.id=abc\\:d\ndirectory.id=x\nnode.id=1\nversion=1\n",
            b"version=0\n",
        ],
        _snapshot: list(_snapshots()),
        _closed_logs: [_closed()],
        _aborted: [struct.pack(">hqqqq", 0, 3, 1, 5, 6) * 2, struct.pack(">hqqqq", 9, 3, 1, 5, 6)],
        _boot_mark: [b"x 1 2\n"],
        _kraft: [_kraft_seed(), b"s" + _kraft_seed()[1:]],
    }
    text[_offsets_as_they_are] = text[_offsets]
    for reader, contents in text.items():
        for content in contents:
            yield bytes((READERS.index(reader),)) + content


def _closed() -> bytes:
    segments = "[[0,10,5,null,null]],[0,0,5,0,0,0,0]"
    producers = "[[3,0,-1,9,-1,[[0,1,2,3,4]]]]"
    log = f'["t",0,"{"0" * 32}",[1,2,3,4,5,6,7],{segments},0,[[0,0]],{producers}]'
    return _resealed_closed(f"\n[{log}]".encode())


def _kraft_seed() -> bytes:
    from kbroker.control.kraft import records as kr
    from tests.protocol.random_messages import random_struct

    rng = random.Random(5)
    messages = [random_struct(cls, cls.SCHEMA.versions[1], rng) for cls in kr.TYPES.values()]
    return b"l" + kraft_snapshot.build(messages[:6], [], 1, 1_700_000_000_000)


def _change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Mostly with a right CRC, where a file has one."""
    if rng.random() < 0.05 or not data:
        return mix(data)
    reader, content = READERS[data[0] % len(READERS)], mix(data[1:])
    if rng.random() < 0.8:
        if reader is _snapshot:
            content = _resealed_snapshot(content)
        elif reader is _kraft:
            content = content[:1] + _sealed_batches(content[1:])
    return data[:1] + content


def _sealed_batches(data: bytes) -> bytes:
    from tests.fuzz.guided.targets.logs import sealed_all

    return sealed_all(data)


TARGETS = (
    Target(
        "start-files",
        "checkpoints, snapshots, saved states, meta.properties, Kafka's metadata log, at a start",
        (
            "kbroker.log.checkpoint",
            "kbroker.log.boot_mark",
            "kbroker.log.transaction_index",
            "kbroker.io.files.leader_epoch_cache",
            "kbroker.io.files.meta_properties",
            "kbroker.io.files.producer_snapshot",
            "kbroker.io.recovery.loaded_log",
            "kbroker.control.kraft.",
            "kbroker.control.metadata.kafka_metadata",
        ),
        _prepare,
        _seeds,
        _change,
        silent=False,
    ),
)
