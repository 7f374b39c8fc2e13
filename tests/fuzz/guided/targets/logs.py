"""The folder of a partition as a start finds it: recovery keeps what a reference reader reads, and
what it leaves can be read by every reader of the broker."""

import random
import re
import shutil
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import crc32c as reference

from kbroker.config.broker import BrokerConfig
from kbroker.config.topic import TopicConfig
from kbroker.io.recovery.loaded_log import LoadRequest
from kbroker.io.recovery.recovery import load
from kbroker.log.checkpoint import known_leader_epochs
from kbroker.log.errors import CorruptLog, UnsupportedFormat
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.timestamps import locate_timestamp, max_timestamp
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions
from kbroker.log.walk import walk
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.records import read_records
from kbroker.protocol.schema import ProtocolError
from tests.fuzz.guided import parts
from tests.fuzz.guided.target import Mix, Target
from tests.fuzz.hot_requests import sealed
from tests.log.batch_bytes import batch, end_marker
from tests.log.folder import Folder

HEAD = struct.Struct(">bqq")
"""Whether the stop was clean, recovery point, log start."""
NAME = re.compile(r"[\w.-]{1,60}", re.ASCII)
PLAIN_NAME = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|[a-z]+[.-][a-z.-]+")
"""Files without a part in a change of segments that was interrupted."""
SEGMENT = re.compile(r"(\d{20})\.log")
INDEXED = 1 << 31
"""Offsets that the index of a segment reaches."""
NOW_MS = 1_700_000_000_000
MAX_FILES = 16
INDEX_INTERVAL = 200


def sealed_all(data: bytes) -> bytes:
    """Each whole batch of a segment with the CRC of its bytes."""
    out, at = bytearray(), 0
    while at + rb.HEADER_BYTES <= len(data):
        size = struct.unpack_from(">i", data, at + rb.LENGTH)[0] + rb.LENGTH_OVERHEAD
        if not rb.HEADER_BYTES <= size <= len(data) - at:
            break
        out += sealed(data[at : at + size])
        at += size
    return bytes(out) + data[at:]


def readable(files: Mapping[str, bytes]) -> list[tuple[int, int]]:
    """First and last offset of each batch that a plain reader of Kafka's format reads, up to the
    first fault of the whole log."""
    bases = sorted(int(match[1]) for name in files if (match := SEGMENT.fullmatch(name)))
    found: list[tuple[int, int]] = []
    for number, base in enumerate(bases):
        data, at, lowest = files[f"{base:020d}.log"], 0, base
        limit = min(bases[number + 1] if number + 1 < len(bases) else base + INDEXED, base + INDEXED)
        while at < len(data):
            size = _size(data, at)
            if size == 0:
                return found
            first, delta = struct.unpack_from(">q", data, at)[0], _int(data, at + rb.LAST_OFFSET_DELTA)
            count = _int(data, at + rb.RECORD_COUNT)
            if first < lowest or not delta >= 0 or first + delta >= limit or not 0 <= count <= delta + 1:
                return found
            found.append((first, first + delta))
            lowest = first + delta + 1
            at += size
    return found


def _size(data: bytes, at: int) -> int:
    """Of the whole batch at a place; 0 if there is none."""
    if len(data) - at < rb.HEADER_BYTES or data[at + rb.MAGIC] != 2:
        return 0
    size = _int(data, at + rb.LENGTH) + rb.LENGTH_OVERHEAD
    if not rb.HEADER_BYTES <= size <= len(data) - at:
        return 0
    (crc,) = struct.unpack_from(">I", data, at + rb.CRC)
    return size if crc == reference.crc32c(data[at + rb.ATTRIBUTES : at + size]) else 0


def _int(data: bytes, at: int) -> int:
    (found,) = struct.unpack_from(">i", data, at)
    return int(found)


class _Recovery:
    """Loads a folder. Owner: the search."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "t-0"
        settings = {"index.interval.bytes": str(INDEX_INTERVAL)}
        self._config = TopicConfig.resolve(settings, BrokerConfig())

    def __call__(self, data: bytes) -> None:
        head, *rest = parts.split(data) or [b""]
        clean, point, start = HEAD.unpack(head.ljust(HEAD.size, b"\0")[: HEAD.size])
        point, start = max(point, 0), max(start, 0)
        files = dict(_files(rest))
        self._path.mkdir()
        try:
            for name, content in files.items():
                (self._path / name).write_bytes(content)
            self._load(files, bool(clean & 1), point, start)
        finally:
            shutil.rmtree(self._path)

    def _load(self, files: Mapping[str, bytes], clean: bool, point: int, start: int) -> None:
        if clean:  # a clean stop vouches for what may not be so
            try:
                load(self._request(True, point, start))
            except (CorruptLog, UnsupportedFormat):
                return
            return
        try:
            loaded = load(self._request(False, point, start))
        except UnsupportedFormat:
            assert any(_old_magic(name, content) for name, content in files.items())
            return
        except CorruptLog:  # below the recovery point, or in a finished compaction: all files stay
            assert point > 0 or any(name.endswith(".log.swap") for name in files)
            return
        kept = [(one.batch.base_offset, one.batch.last_offset) for one in walk(self._reader())]
        assert kept == sorted(set(kept)), "batches out of order"
        assert not kept or kept[-1][1] < loaded.active.next_offset
        known = readable(files)
        if all(PLAIN_NAME.fullmatch(name) for name in files) and known and loaded.log_start <= known[-1][1]:
            lost = [one for one in known if one[1] >= loaded.log_start and one not in kept]
            assert not lost, f"recovery has dropped {lost[0]}"
        self._read(loaded.log_start, loaded.active.next_offset)
        again = load(self._request(False, point, loaded.log_start))
        assert (again.truncated_bytes, again.active.next_offset) == (0, loaded.active.next_offset)

    def _request(self, clean: bool, point: int, start: int) -> LoadRequest:
        return LoadRequest(str(self._path), self._config, clean, point, start, NOW_MS)

    def _reader(self) -> LogReader:
        return LogReader(str(self._path), OpenFiles())

    def _read(self, start: int, end: int) -> None:
        """Every reader of a folder, at both ends. Records themselves may be damaged: their CRC was
        right, or was not checked."""
        reader = self._reader()
        for offset in {start, (start + end) // 2, max(start, end - 1)}:
            place = reader.locate(offset, *WHOLE_LOG)
            if place is not None:
                assert place.last_offset >= offset
                found = reader.range(place, 1 << 20, *WHOLE_LOG, min_one=True)
                assert found is None or found.length > 0
            aborted_transactions(reader, offset, end)
        for placed in walk(reader, start):
            try:
                for _ in read_records(placed.batch, 1 << 22, 1 << 16):
                    pass
            except ProtocolError:
                continue
        for timestamp in (0, NOW_MS + 20, 1 << 62):
            with suppress(ProtocolError):
                locate_timestamp(reader, timestamp, 0, *WHOLE_LOG)
        with suppress(ProtocolError):
            max_timestamp(reader, 0, *WHOLE_LOG)
        known_leader_epochs(str(self._path))


def _old_magic(name: str, content: bytes) -> bool:
    """Whether some batch may be one of magic 0 or 1."""
    return SEGMENT.fullmatch(name) is not None and (b"\0" in content or b"\1" in content)


def _files(rest: Iterable[bytes]) -> Iterable[tuple[str, bytes]]:
    for part in list(rest)[:MAX_FILES]:
        name, _, content = part.partition(b"/")
        text = name.decode("latin-1")
        if NAME.fullmatch(text) and text.strip("."):
            yield text, content


def _change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Mostly the content of one file, often with right CRCs; now and then its name, or the head."""
    found = parts.split(data) or [b"\0"]
    kind = rng.random()
    at = rng.randrange(len(found))
    if kind < 0.1:
        return parts.change(data, rng, mix)
    if at == 0:
        found[0] = HEAD.pack(
            int(rng.random() < 0.2), rng.choice((0, 0, 3, 12, 1 << 40)), rng.choice((0, 0, 5, 30))
        )
        return parts.join(found)
    name, slash, content = found[at].partition(b"/")
    content = mix(content)
    if name.endswith(b".log") and rng.random() < 0.6:
        content = sealed_all(content)
    found[at] = name + slash + content
    return parts.join(found)


def _seeds(rng: random.Random) -> Iterable[bytes]:
    """Folders as Kafka leaves them, with and without what lies beside the segments."""
    for segments in (1, 2, 3):
        for clean, point in ((0, 0), (0, 4), (1, 0)):
            files = _folder(segments, rng)
            named = (f"{name}/".encode() + data for name, data in files)
            yield parts.join((HEAD.pack(clean, point, 0), *named))
    for name in ("log.swap", "log.cleaned", "log.deleted"):
        files = _folder(2, rng)
        other = f"{0:020d}.{name}/".encode() + dict(files)[f"{0:020d}.log"]
        yield parts.join((HEAD.pack(0, 0, 0), other, *(f"{one}/".encode() + data for one, data in files)))
    yield parts.join((HEAD.pack(0, 0, 7), b"leader-epoch-checkpoint/0\n1\n3 7\n"))


def _folder(segments: int, rng: random.Random) -> list[tuple[str, bytes]]:
    made: list[tuple[str, bytes]] = []
    offset = 0
    for number in range(segments):
        base, batches = offset, []
        for kind in range(rng.choice((2, 3))):
            values = [rng.randbytes(rng.choice((1, 30)))] * rng.choice((1, 2))
            times = [NOW_MS + offset * 10] * len(values)
            if kind == 0:
                batches.append(
                    batch(offset, values, times, leader_epoch=number, attributes=0x10, producer_id=3,
                          producer_epoch=0, base_sequence=0)
                )  # fmt: skip
            else:
                batches.append(batch(offset, values, times, leader_epoch=number))
            offset += len(values)
        batches.append(end_marker(offset, 3, 0, number % 2 == 0))
        offset += 1
        made += _segment(base, batches, number < segments - 1)
        entry = AbortedTransaction(3, base, offset - 1, offset)
        made.append((f"{base:020d}.txnindex", entry.pack()))
    epochs = "".join(f"{number} {number * 3}\n" for number in range(segments))
    made.append(("leader-epoch-checkpoint", f"0\n{segments}\n{epochs}".encode()))
    made.append(("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"))
    return made


def _segment(base: int, batches: list[bytes], closed: bool) -> list[tuple[str, bytes]]:
    written: dict[str, bytes] = {}

    class Memory(Folder):
        """A folder whose files are kept here."""

        def file(self, base: int, suffix: str) -> Path:
            class Kept:
                def write_bytes(self, data: bytes) -> None:
                    written[f"{base:020d}{suffix}"] = bytes(data)

            return Kept()  # type: ignore[return-value]

    Memory(Path(), INDEX_INTERVAL).segment(base, batches, closed)
    return sorted(written.items())


TARGETS = (
    Target(
        "logs",
        "segments, indexes, snapshots and checkpoints of a partition, read by recovery and all readers",
        (
            "kbroker.io.recovery.",
            "kbroker.io.files.",
            "kbroker.log.",
            "kbroker.kernels.batches",
            "kbroker.kernels.search",
        ),
        _Recovery,
        _seeds,
        _change,
        max_bytes=8192,
    ),
)
