"""A partition folder written in plain Python, as Kafka would have left it: the reference for
readers."""

import struct
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Written:
    """Where each batch went."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    segment: int
    position: int
    size: int


@dataclass
class Folder:
    path: Path
    index_interval: int = 4096
    batches: list[Written] = field(default_factory=list)

    def segment(self, base: int, batches: list[bytes], closed: bool = True) -> None:
        """Write one segment with both indexes by LogSegment.append's rules."""
        log, index, times = bytearray(), bytearray(), bytearray()
        since, largest, largest_offset, indexed = 0, -1, base, -1
        for data in batches:
            offset, delta = struct.unpack_from(">q", data)[0], struct.unpack_from(">i", data, 23)[0]
            timestamp = struct.unpack_from(">q", data, 35)[0]
            last = offset + delta
            if timestamp > largest:
                largest, largest_offset = timestamp, last
            if since > self.index_interval:
                index += struct.pack(">ii", last - base, len(log))
                if largest > indexed:
                    times += struct.pack(">qi", largest, largest_offset - base)
                    indexed = largest
                since = 0
            self.batches.append(Written(offset, last, timestamp, base, len(log), len(data)))
            log += data
            since += len(data)
        if closed and largest > indexed:
            times += struct.pack(">qi", largest, largest_offset - base)
        self.path.mkdir(parents=True, exist_ok=True)
        for suffix, content in ((".log", log), (".index", index), (".timeindex", times)):
            self.file(base, suffix).write_bytes(content)

    def file(self, base: int, suffix: str) -> Path:
        return self.path / f"{base:020d}{suffix}"

    def reader_end(self) -> tuple[int, int]:
        """(segment, position) behind the last batch."""
        last = self.batches[-1]
        return last.segment, last.position + last.size
